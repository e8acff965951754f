"""Test checkpoints: a fit that is killed and restarted resumes and gives the same result."""

import copy
import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import quadfeat
from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data import checkpoints
from quadfeat.data.blocks import Block
from quadfeat.data.checkpoints import Checkpoint, RowHash, described
from quadfeat.data.progress import Progress
from quadfeat.io.files import PRIVATE, atomic_write, remove_orphans
from quadfeat.io.persistence import read_checkpoint
from quadfeat.kernels import Gaussian, PointwiseNonlinear
from quadfeat.solvers.accumulator import rows_per_block
from quadfeat.solvers.passes import SumMoments
from slow import repeats

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.digitize(y, [-1, 0, 1])


class Ramp:
    """A function whose ``repr`` contains its memory address."""

    def __call__(self, t):
        return np.maximum(t, 0)


class Killed(BaseException):
    """Simulate a signal that cannot be caught."""


@pytest.fixture
def eager(monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "TIMES_AS_LONG", 0.0)


def killed_after(blocks, n):
    """Yield some blocks, then simulate a kill."""
    yield from blocks[:n]
    raise Killed


def state(n_done=3):
    """Return the state of a fit that has just begun."""
    unfinished = {"map": "", "features": None, "summary": None, "size": 10, "dtype": "float32"}
    return {**unfinished, "n_done": n_done}


class TestFile:
    def test_a_saved_state_is_loaded(self, tmp_path):
        path = tmp_path / "a" / "state"
        Checkpoint(path, {"class": "A"}).begin(state(3))
        assert Checkpoint(path, {"class": "A"}).load() == state(3)
        assert os.listdir(path.parent) == ["state"]
        Checkpoint(path, {"class": "A"}).remove()
        assert not path.exists()
        Checkpoint(path, {"class": "A"}).remove()

    def test_without_a_path_no_file_is_written(self):
        nothing = Checkpoint(None, {})
        nothing.begin({})
        nothing.offer({})
        nothing.remove()
        assert nothing.load() is None

    def test_a_failed_write_keeps_the_previous_file(self, tmp_path, monkeypatch, eager):
        path = tmp_path / "state"
        checkpoint = Checkpoint(path, {})
        checkpoint.begin(state(3))
        full(monkeypatch)
        with pytest.warns(
            UserWarning, match=r"could not be written \(No space left.*later fit would resume"
        ):
            checkpoint.offer(state(4))
        assert os.listdir(tmp_path) == ["state"]
        assert checkpoint.load() == state(3)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "it is empty"),
            (b"no pickle", "it was not written by quadfeat"),
            (b"\x80\x05K\x03.", "it is a pickle, .* can run code"),
        ],
    )
    def test_other_files_are_rejected(self, tmp_path, content, reason):
        path = tmp_path / "state"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"checkpoint='.*state' .*{reason}. Delete the file"):
            Checkpoint(path, {}).load()
        assert path.read_bytes() == content

    def test_checkpoints_and_models_are_not_interchangeable(self, tmp_path):
        path = tmp_path / "state"
        Checkpoint(path, {}).begin(state())
        with pytest.raises(ValueError, match="it is a checkpoint, not a model"):
            quadfeat.load(path)
        quadfeat.save(QuadratureRidge("gaussian", alpha=1.0), path)
        with pytest.raises(ValueError, match=r"it is a model, not a checkpoint\. Delete"):
            Checkpoint(path, {}).load()

    def test_a_truncated_file_is_rejected(self, tmp_path):
        path = tmp_path / "state"
        Checkpoint(path, {}).begin(state())
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ValueError, match=r"it is incomplete\. Delete the file"):
            QuadratureRidge("gaussian", alpha=1.0, checkpoint=path, n_components=10).fit(X, y)

    def test_every_flipped_byte_is_noticed(self, tmp_path, eager):
        path = tmp_path / "state"
        model = QuadratureRidge(
            "gaussian", alpha=1.0, n_components=9, rule="orf", random_state=0, checkpoint=path
        )
        blocks = [(X[:30], y[:30]), (X[30:60], y[30:60])]  # few rows, since the file stores them
        with pytest.raises(Killed):
            model.fit(killed_after(blocks, 1))
        content = path.read_bytes()
        for place in range(0, len(content), 7):
            changed = bytearray(content)
            changed[place] ^= 1 << place % 8
            path.write_bytes(changed)
            with pytest.raises(ValueError, match="Delete the file"):
                model.fit(iter(blocks))
        path.write_bytes(content)
        model.fit(iter(blocks))
        assert model._solution.summary.moments.n_rows == 60

    def test_checkpoint_of_another_fit_is_rejected(self, tmp_path):
        path = tmp_path / "state"
        Checkpoint(path, {"class": "A", "size": 3}).begin(state())
        with pytest.raises(ValueError, match="belongs to another fit, with size 3 instead of 4"):
            Checkpoint(path, {"class": "A", "size": 4}).load()

    def test_files_are_written_at_intervals(self, tmp_path, monkeypatch):
        now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        path = tmp_path / "state"
        checkpoint = Checkpoint(path, {})
        checkpoint.offer(state(1))
        assert not path.exists()
        now = 11.0
        checkpoint.offer(state(2))
        now = 12.0
        checkpoint.offer(state(3))
        assert checkpoint.load() == state(2)


def full(monkeypatch):
    """Simulate a full disk."""

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("quadfeat.io.files.os.fsync", fail)


class TestDisk:
    def test_a_path_that_cannot_be_written_fails_before_any_work(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        model = QuadratureRidge(
            "gaussian", alpha=1.0, n_components=9, checkpoint=tmp_path / "file" / "state"
        )
        with monkeypatch.context() as broken:
            broken.setattr(
                "quadfeat.solvers.accumulator.Accumulator.add", lambda *_: pytest.fail("work")
            )
            with pytest.raises(
                OSError, match=r"checkpoint='.*state' cannot be written: (Not a dir|File exists)"
            ):
                model.fit(X, y)
            full(broken)
            model.set_params(checkpoint=tmp_path / "state")
            with pytest.raises(OSError, match=r"checkpoint='.*state' cannot be written: No space"):
                model.fit(X, y)
        assert os.listdir(tmp_path) == ["file"]

    def test_a_missing_folder_is_created_before_any_work(self, tmp_path, monkeypatch):
        path = tmp_path / "runs" / "today" / "state"
        model = QuadratureRidge(alpha=1.0, n_components=9, checkpoint=path)

        def search(*_):
            assert path.parent.is_dir()
            raise Killed

        monkeypatch.setattr("quadfeat.models.base.features_for", search)
        with pytest.raises(Killed):
            model.fit(X, y)
        assert os.listdir(path.parent) == []

    def test_a_folder_instead_of_a_file_fails_before_any_work(self, tmp_path, monkeypatch):
        monkeypatch.setattr("quadfeat.models.base.features_for", lambda *_: pytest.fail("work"))
        model = QuadratureRidge(alpha=1.0, n_components=9, checkpoint=tmp_path)
        with pytest.raises(
            IsADirectoryError, match=r"checkpoint=.* cannot be written: Is a dir.*fit.checkpoint'"
        ):
            model.fit(X, y)

    @pytest.mark.skipif(os.geteuid() == 0, reason="the superuser can write anywhere")
    def test_a_read_only_folder_fails_before_any_work(self, tmp_path, monkeypatch):
        monkeypatch.setattr("quadfeat.models.base.features_for", lambda *_: pytest.fail("work"))
        tmp_path.chmod(0o500)
        model = QuadratureRidge(alpha=1.0, n_components=9, checkpoint=tmp_path / "state")
        with pytest.raises(PermissionError, match="Use a path in a folder that you can write to"):
            model.fit(X, y)

    def test_a_full_disk_does_not_stop_a_fit(self, tmp_path, monkeypatch, eager):
        path = tmp_path / "state"
        features = QuadratureFeatures(n_components=9, rule="orf", random_state=0).fit(X)
        model = QuadratureRidge(alpha=1.0, features=features)
        expected = QuadratureRidge(alpha=1.0, features=features).fit(X, y).coef_

        def blocks():
            yield X[:1000], y[:1000]
            with monkeypatch.context() as broken:
                full(broken)
                yield X[1000:2000], y[1000:2000]
            yield X[2000:], y[2000:]

        with pytest.warns(UserWarning, match="could not be written"):
            model.set_params(checkpoint=path).fit(blocks())
        assert_allclose(model.coef_, expected, rtol=1e-4, atol=1e-4)
        assert os.listdir(tmp_path) == []

    def test_only_temporary_files_of_killed_processes_are_removed(self, tmp_path):
        orphan = tmp_path / ".state.0123456789abcdef.draft"
        script = (
            "import os, signal, sys, pathlib; from quadfeat.io.files import atomic_write\n"
            "with atomic_write(pathlib.Path(sys.argv[1])) as file:\n"
            "    print('written', flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", script, str(tmp_path / "state")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with (
            subprocess.Popen(command, **pipes) as killed,
            subprocess.Popen(command, **pipes) as alive,
        ):
            for process in (killed, alive):
                assert process.stdout.readline() == b"written\n"
            assert len(os.listdir(tmp_path)) == 2
            killed.kill()
            killed.wait()
            orphan.write_bytes(b"")
            (tmp_path / ".state.short.draft").write_bytes(b"")
            (tmp_path / ".other.0123456789abcdef.draft").write_bytes(b"")
            remove_orphans(tmp_path / "state")
            left = set(os.listdir(tmp_path))
            assert {".state.short.draft", ".other.0123456789abcdef.draft"} < left
            assert len(left) == 3
            alive.communicate()
        assert (tmp_path / "state").exists()


def paired():
    """Return pairs of equal rows. Their hashes would cancel if the order did not matter."""
    rows = np.repeat(X[:1500], 2, axis=0)
    return rows, np.repeat(y[:1500], 2), np.repeat(np.linspace(0.5, 1.5, 1500), 2)


def swapped_rows(rows, targets, weights):
    rows[[10, 1500]] = rows[[1500, 10]]
    return rows, targets, weights


def a_row_after_the_first_thousand(rows, targets, weights):
    rows[1700, 1] += 1e-9
    return rows, targets, weights


def other_pairs(rows, targets, weights):
    rows[20:22] = rows[30:32]
    return rows, targets, weights


def a_target(rows, targets, weights):
    targets[1999] += 1e-9
    return rows, targets, weights


def swapped_targets(rows, targets, weights):
    targets[[5, 105]] = targets[[105, 5]]
    return rows, targets, weights


def a_weight(rows, targets, weights):
    weights[1998] *= 1 + 1e-15
    return rows, targets, weights


def permuted(rows, targets, weights):
    order = np.random.default_rng(1).permutation(3000)
    return rows[order], targets[order], weights[order]


CHANGES = [
    swapped_rows,
    a_row_after_the_first_thousand,
    other_pairs,
    a_target,
    swapped_targets,
    a_weight,
    permuted,
]


class TestIdentity:
    """Test which fits resume from a checkpoint and which reject it."""

    def leave(self, path, model, blocks):
        with pytest.raises(Killed):
            model.set_params(checkpoint=path).fit(killed_after(blocks, 2))
        assert path.exists()

    def blocks(self, X=X, y=y, weights=None, size=600):
        columns = (X, y) if weights is None else (X, y, weights)
        return [
            tuple(column[start : start + size] for column in columns)
            for start in range(0, len(X), size)
        ]

    @pytest.mark.parametrize("seed", [0, None, np.random.RandomState(0), np.random.default_rng(0)])
    def test_the_same_fit_resumes(self, tmp_path, eager, seed):
        path = tmp_path / "state"
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=20, random_state=seed)
        self.leave(path, model, self.blocks())
        fingerprint = read_checkpoint(path)["state"]["features"].fingerprint()
        # Another process has different memory addresses.
        if isinstance(seed, np.random.RandomState):
            model.set_params(random_state=np.random.RandomState(0))
        elif isinstance(seed, np.random.Generator):
            model.set_params(random_state=np.random.default_rng(0))
        model.set_params(verbose=True, n_jobs=2).fit(iter(self.blocks()))
        assert not path.exists()
        assert model.features_.fingerprint() == fingerprint
        assert model._solution.summary.moments.n_rows == 3000

    def test_an_object_is_identified_by_its_content(self, tmp_path, eager):
        first, second = Ramp(), Ramp()  # the second simulates the object of another process
        assert repr(first) != repr(second)
        path = tmp_path / "state"
        seeded = {"n_components": 9, "alpha": 1.0, "random_state": 0}
        self.leave(path, QuadratureRidge(PointwiseNonlinear(first), **seeded), self.blocks())
        model = QuadratureRidge(PointwiseNonlinear(second), checkpoint=path, **seeded)
        model.fit(iter(self.blocks()))
        assert not path.exists()

    def test_a_map_that_can_be_neither_stored_nor_redrawn_is_rejected(self, tmp_path):
        model = QuadratureRidge(
            PointwiseNonlinear(Ramp()), alpha=1.0, checkpoint=tmp_path / "state"
        )
        with pytest.raises(ValueError, match=r"cannot store this map.*random_state to an integer"):
            model.fit(X, y)

    @pytest.mark.parametrize(
        ("parameters", "changes", "what"),
        [
            ({"alpha": 2.0}, {}, "alpha 1.0 instead of 2.0"),
            ({"n_components": 21}, {}, "n_components 20 instead of 21"),
            ({"kernel": Gaussian(0.3)}, {}, "kernel 'gaussian' instead of Gaussian"),
        ],
    )
    def test_checkpoint_of_another_fit_is_rejected(
        self, tmp_path, eager, parameters, changes, what
    ):
        path = tmp_path / "state"
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=20, random_state=0)
        self.leave(path, model, self.blocks())
        model.set_params(**parameters)
        with pytest.raises(ValueError, match=rf"another fit, with {what}"):
            model.fit(iter(self.blocks(**changes)))
        assert path.exists()

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array], ids=["dense", "sparse"])
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    @pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
    def test_other_data_are_rejected(self, tmp_path, eager, monkeypatch, change, solver, form):
        path = tmp_path / "state"
        features = QuadratureFeatures(n_components=20, rule="orf", random_state=0).fit(X)
        model = QuadratureRidge(
            alpha=1.0, features=features, solver=solver, tol=1e-9, checkpoint=path
        )
        rows, targets, weights = paired()
        offer = Checkpoint.offer

        def offer_and_die(self, state):
            offer(self, state)
            if solver == "cg" or state["n_done"] >= 2000:
                raise Killed

        blocks = [
            (form(rows[i : i + 500]), targets[i : i + 500], weights[i : i + 500])
            for i in range(0, 3000, 500)
        ]
        with monkeypatch.context() as dying:
            dying.setattr(Checkpoint, "offer", offer_and_die)
            with pytest.raises(Killed):
                model.fit(blocks)
        other = change(rows.copy(), targets.copy(), weights.copy())
        with pytest.raises(ValueError, match=r"belongs to a fit to other data.*delete the file"):
            model.fit([(form(other[0]), *other[1:])])
        # The same rows in different blocks count as the same data.
        whole = [
            (form(rows[:1234]), targets[:1234], weights[:1234]),
            (form(rows[1234:]), targets[1234:], weights[1234:]),
        ]
        model.fit(whole)
        expected = QuadratureRidge(alpha=1.0, features=features, solver=solver, tol=1e-9).fit(
            blocks
        )
        assert_allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("form", ["table", "stream"])
    def test_before_the_first_pass_other_data_start_over_with_a_warning(
        self, tmp_path, monkeypatch, form
    ):
        path = tmp_path / "state"
        parameters = {"alpha": 1.0, "n_components": 20, "random_state": 0}
        model = QuadratureRidge("gaussian", **parameters, checkpoint=path)

        def data(X, size=600):
            return (X, y) if form == "table" else (iter(self.blocks(X, size=size)),)

        begin = Checkpoint.begin

        def begin_and_die(self, state):
            begin(self, state)
            raise Killed

        def leave():
            with monkeypatch.context() as dying:
                dying.setattr(Checkpoint, "begin", begin_and_die)
                with pytest.raises(Killed):
                    model.fit(*data(X))

        leave()
        with pytest.warns(UserWarning, match=rf"checkpoint='{path}' belongs to .* starts over"):
            model.fit(*data(10 * X))
        fresh = QuadratureRidge("gaussian", **parameters).fit(*data(10 * X))
        assert model.kernel_.gamma == fresh.kernel_.gamma
        assert_array_equal(model.coef_, fresh.coef_)
        assert not path.exists()
        leave()
        model.fit(*data(X, size=500))  # the same data, without a warning

    def test_other_maps_and_model_classes_are_rejected(self, tmp_path, eager):
        path = tmp_path / "state"
        features = QuadratureFeatures(n_components=20)
        model = QuadratureRidge(alpha=1.0, features=features.fit(X))
        self.leave(path, model, self.blocks(y=LABELS))
        with pytest.raises(ValueError, match="another fit, with map"):
            model.set_params(features=features.fit(X)).fit(iter(self.blocks(y=LABELS)))
        with pytest.raises(ValueError, match="another fit, with class QuadratureRidge instead"):
            QuadratureRidgeClassifier("gaussian", alpha=1.0, checkpoint=path).fit(X, LABELS)

    def test_fewer_rows_than_in_the_checkpoint_are_rejected(self, tmp_path, eager):
        path = tmp_path / "state"
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=20, random_state=0)
        self.leave(path, model, self.blocks())
        with pytest.raises(
            ValueError, match=r"has 600 rows, but the checkpoint is .* has read 1200"
        ):
            model.fit(iter(self.blocks()[:1]))


class TestProgress:
    """Test progress lines on standard error: total, time left and where a fit resumed."""

    def test_reports_where_a_fit_resumed(self, tmp_path, eager, capfd):
        path = tmp_path / "state"
        parameters = {"alpha": 1.0, "n_components": 20, "random_state": 0, "verbose": True}
        model = QuadratureRidge("gaussian", **parameters, checkpoint=path)
        blocks = [(X[start : start + 600], y[start : start + 600]) for start in range(0, 3000, 600)]
        with pytest.raises(Killed):
            model.fit(killed_after(blocks, 2))
        assert "resumed" not in capfd.readouterr().err
        model.fit(iter(blocks))
        lines = capfd.readouterr().err.splitlines()
        assert lines[0] == "fit: resumed at 1,200 rows"
        assert lines[-1].startswith("fit: 3,000 rows, ")

    def test_reports_where_a_fit_to_a_table_resumed(self, tmp_path, eager, capfd, monkeypatch):
        path = tmp_path / "state"
        parameters = {"alpha": 1.0, "n_components": 20, "random_state": 0, "verbose": True}
        model = QuadratureRidge("gaussian", **parameters, checkpoint=path)
        monkeypatch.setattr("quadfeat.solvers.accumulator.ROWS_PER_BLOCK", (500, 500))
        offer = Checkpoint.offer

        def offer_and_die(self, state):
            offer(self, state)
            if state["n_done"] >= 1000:
                raise Killed

        with monkeypatch.context() as dying:
            dying.setattr(Checkpoint, "offer", offer_and_die)
            with pytest.raises(Killed):
                model.fit(X, y)
        model.fit(X, y)
        lines = capfd.readouterr().err.splitlines()
        assert "fit: resumed at 1,000 of 3,000 rows" in lines
        assert "100%, 3,000 of 3,000 rows" in lines[-1]
        assert lines[-1].endswith(" rows/s, 0 s left")

    def test_reports_the_step_at_which_conjugate_gradients_resumed(
        self, tmp_path, eager, capfd, monkeypatch
    ):
        path = tmp_path / "state"
        parameters = {"alpha": 1.0, "n_components": 20, "random_state": 0, "verbose": True}
        model = QuadratureRidge("gaussian", solver="cg", tol=1e-9, **parameters, checkpoint=path)
        offer = Checkpoint.offer

        def offer_and_die(self, state):
            offer(self, state)
            if state["iteration"].n_iter == 2:
                raise Killed

        with monkeypatch.context() as dying:
            dying.setattr(Checkpoint, "offer", offer_and_die)
            with pytest.raises(Killed):
                model.fit(X, y)
        assert "fit: step 1 of at most 500, relative error" in capfd.readouterr().err
        model.fit(X, y)
        lines = capfd.readouterr().err.splitlines()
        assert lines[0] == "fit: resumed after step 2 of at most 500"
        assert lines[1].startswith("fit: step 3 of at most 500")

    def test_estimates_the_time_left_from_new_rows(self, monkeypatch, capsys):
        now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        progress = Progress(True, "fit", 10_000)
        now = 50.0
        progress.start_at(4000)  # reading these rows again took 50 seconds
        now = 60.0
        progress.add(1000)
        assert capsys.readouterr().err == (
            "fit: [############............] 50%, 5,000 of 10,000 rows, 100 rows/s, 50 s left\n"
        )

    def test_is_silent_by_default(self, capsys):
        progress = Progress(False, "fit", 10)
        progress.show_resumed()
        progress.add(10)
        progress.finish()
        assert capsys.readouterr() == ("", "")


class TestInterrupts:
    """Ctrl-C keeps all rows so far, though no checkpoint is due."""

    @staticmethod
    def model(path, **parameters):
        return QuadratureRidge(
            Gaussian(0.5), n_components=64, random_state=0, checkpoint=path, **parameters
        )

    @staticmethod
    def blocks(interrupt=None):
        for number in range(6):
            if number == interrupt:
                signal.raise_signal(signal.SIGINT)
            rows = slice(500 * number, 500 * (number + 1))
            yield X[rows], y[rows]

    def check_resumes(self, path, capfd):
        model = self.model(path, verbose=True).fit(self.blocks())
        assert "resumed at 1,500 rows" in capfd.readouterr().err
        expected = self.model(None).fit(self.blocks())
        assert_array_equal(model.predict(X), expected.predict(X))
        assert not path.exists()

    def test_between_blocks(self, tmp_path, capfd):
        path = tmp_path / "state"
        with pytest.raises(KeyboardInterrupt, match="keeps the 1,500 rows so far"):
            self.model(path).fit(self.blocks(interrupt=3))
        self.check_resumes(path, capfd)

    def test_within_a_block(self, tmp_path, capfd, monkeypatch):
        path, add, calls = tmp_path / "state", SumMoments.add, []

        def interrupted(task, state, block):
            calls.append(block)
            if len(calls) == 3:
                signal.raise_signal(signal.SIGINT)
            return add(task, state, block)

        monkeypatch.setattr(SumMoments, "add", interrupted)
        with pytest.raises(KeyboardInterrupt, match="keeps the 1,500 rows so far"):
            self.model(path).fit(self.blocks())
        monkeypatch.undo()
        self.check_resumes(path, capfd)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_a_second_one_does_not_wait(self, tmp_path, monkeypatch):
        path, add, calls = tmp_path / "state", SumMoments.add, []

        def interrupted(task, state, block):
            calls.append(block)
            if len(calls) == 3:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                raise AssertionError("the second interrupt was held back")
            return add(task, state, block)

        monkeypatch.setattr(SumMoments, "add", interrupted)
        with pytest.raises(KeyboardInterrupt) as error:
            self.model(path).fit(self.blocks())
        assert not error.value.args  # half a block was added, so nothing was written
        assert read_checkpoint(path, lambda state: None)["state"]["n_done"] == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_while_rows_are_passed_over(self, tmp_path, capfd):
        path = tmp_path / "state"
        for interrupt in (3, 1):  # the second one before the rows of the first are reached
            with pytest.raises(KeyboardInterrupt):
                self.model(path).fit(self.blocks(interrupt))
        self.check_resumes(path, capfd)

    def test_without_a_checkpoint(self):
        with pytest.raises(KeyboardInterrupt) as error:
            self.model(None).fit(self.blocks(interrupt=2))
        message = "the 1,000 rows so far are lost. QuadratureRidge .* keep them with checkpoint="
        assert re.match(message, str(error.value))
        with pytest.raises(KeyboardInterrupt) as error:  # nothing is lost yet
            self.model(None).fit(self.blocks(interrupt=0))
        assert not error.value.args

    def test_a_handler_of_the_user_stays(self, tmp_path):
        seen = []
        before = signal.signal(signal.SIGINT, lambda *_: seen.append(True))
        try:
            self.model(tmp_path / "state").fit(self.blocks(interrupt=2))
        finally:
            signal.signal(signal.SIGINT, before)
        assert seen == [True]


def test_a_resumed_fit_does_not_repeat_the_kernel_search(tmp_path, eager, monkeypatch):
    path, rows, targets = tmp_path / "state", X[:300], y[:300]
    parameters = {"lengthscales": "isotropic", "alpha": 0.1, "n_components": 20, "random_state": 0}
    expected = QuadratureRidge("gaussian", **parameters).fit(rows, targets)
    model = QuadratureRidge("gaussian", **parameters, checkpoint=path)
    with monkeypatch.context() as patch:
        offer = Checkpoint.offer

        def offer_and_die(self, state):
            offer(self, state)
            raise Killed

        patch.setattr(Checkpoint, "offer", offer_and_die)
        with pytest.raises(Killed):
            model.fit(rows, targets)
    assert path.exists()
    monkeypatch.setattr("quadfeat.models.mapping.choose", None)
    model.fit(rows, targets)
    assert_allclose(model.predict(rows), expected.predict(rows), rtol=1e-9)
    assert_array_equal(model.kernel_.gamma, expected.kernel_.gamma)
    assert [one.name for one in model.candidates_] == [one.name for one in expected.candidates_]
    assert not path.exists()


def test_classes_seen_before_a_restart_do_not_change_block_boundaries(tmp_path, eager, monkeypatch):
    # Set the bytes per block so that one more class makes blocks smaller.
    monkeypatch.setattr("quadfeat.solvers.accumulator.ROWS_PER_BLOCK", (1, 10_000))
    monkeypatch.setattr("quadfeat.solvers.accumulator.BYTES_PER_BLOCK", 4 * 23 * 100)
    assert rows_per_block(23, np.float32) == 100 > rows_per_block(25, np.float32)
    features = QuadratureFeatures(n_components=20, random_state=0).fit(X)
    order = np.argsort(LABELS, kind="stable")
    first = np.r_[order[:300], order[-700:]]  # two classes
    parts = [first, np.setdiff1d(order, first)]
    path = tmp_path / "state"
    stream = [(X[part], LABELS[part]) for part in parts]
    expected = QuadratureRidgeClassifier(alpha=1.0, features=features).fit(iter(stream))
    model = QuadratureRidgeClassifier(alpha=1.0, features=features, checkpoint=path)
    done = 0
    offer = Checkpoint.offer

    def offer_and_die(self, state):
        nonlocal done
        offer(self, state)
        done += 1
        if done == 15:  # in the second table, after all classes have been seen
            raise Killed

    monkeypatch.setattr(Checkpoint, "offer", offer_and_die)
    with pytest.raises(Killed):
        model.fit(iter(stream))
    model.fit(iter(stream))
    assert model._solution.summary.moments.n_rows == 3000
    assert_array_equal(model.coef_, expected.coef_)


SCRIPT = """
import json, os, sys, time
import numpy as np
from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data import checkpoints
from quadfeat.solvers import accumulator
from quadfeat.maps import QuadratureMap
checkpoints.SECONDS = checkpoints.TIMES_AS_LONG = 0.0
accumulator.ROWS_PER_BLOCK = (64, 64)
what, path, out, pause = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
rng = np.random.default_rng(0)
X = rng.standard_normal((2560, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]

written = 0
write = QuadratureMap.write

def slow(self, X, out):  # counts the rows whose features are made
    global written
    written += X.shape[0]
    write(self, X, out)

QuadratureMap.write = slow
offer = checkpoints.Checkpoint.offer

def tell(self, state):  # a step is done and kept
    offer(self, state)
    print("kept", flush=True)
    time.sleep(pause)

checkpoints.Checkpoint.offer = tell

def blocks():
    for start in range(0, 2560, 256):
        yield X[start : start + 256], np.digitize(y[start : start + 256], [-1, 0, 1])

parameters = dict(kernel="gaussian", n_components=40, random_state=0, checkpoint=path)
if what == "iterator":
    model = QuadratureRidgeClassifier(alpha="gcv", **parameters).fit(blocks())
elif what == "array":
    model = QuadratureRidge(alpha="loo", **parameters).fit(X, y)
else:
    model = QuadratureRidge(solver="cg", alpha=1e-4, tol=1e-9, **parameters).fit(X, y)
coefficients = [*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist()]
with open(out, "w") as file:
    json.dump({"coefficients": coefficients, "written": written, "steps": model.n_iter_}, file)
"""


@pytest.mark.parametrize("what", repeats(["array", "iterator", "cg"]))
def test_a_killed_fit_resumes(tmp_path, what):
    path, out = tmp_path / "state", tmp_path / "out.json"

    def command(state, pause):
        return [sys.executable, "-c", SCRIPT, what, str(state), str(out), str(pause)]

    subprocess.run(command(tmp_path / "unused", 0), check=True, stdout=subprocess.DEVNULL)
    expected = json.loads(out.read_text())
    out.unlink()

    for _ in range(2):  # each run gets one step further, then waits to be killed
        with subprocess.Popen(command(path, 3600), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "kept\n"
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        assert path.exists()
        assert not out.exists()

    done = subprocess.run(command(path, 0), check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(out.read_text())
    assert found["coefficients"] == expected["coefficients"]
    assert os.listdir(tmp_path) == ["out.json"]
    if what == "cg":
        assert found["steps"] == expected["steps"] > 5
        assert done.stdout.count("kept") == expected["steps"] - 2
    else:
        assert found["written"] <= expected["written"] - 2 * 64


def test_a_checkpoint_of_another_kernel_with_long_arrays_is_rejected(tmp_path):
    first, second = np.full(60, 0.01), np.full(60, 0.01)
    second[30] = 1.0
    assert described(Gaussian(first)) == described(Gaussian(first.copy()))
    assert described(Gaussian(first)) != described(Gaussian(second))
    assert described({"alphas": [1.0, first]}) != described({"alphas": [1.0, second]})
    assert described(QuadratureFeatures(Gaussian(first))) != described(
        QuadratureFeatures(Gaussian(second))
    )


def test_file_permissions_follow_the_umask_and_links_are_kept(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    before = os.umask(0o027)
    try:
        with atomic_write(link) as file:
            file.write(b"new")
        with atomic_write(tmp_path / "private", PRIVATE) as file:
            file.write(b"new")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "private", "target"]


def test_concurrent_writers_keep_each_others_temporary_files(tmp_path):
    path, contents = tmp_path / "model", [bytes([k]) * 5000 for k in range(16)]

    def write(content):
        for _ in range(20):
            with atomic_write(path) as file:
                file.write(content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(len(contents)) as pool:
        list(pool.map(write, contents))
    assert os.listdir(tmp_path) == ["model"]


class TestHashes:
    """Test hashes of rows of several kinds and of parameters of many types."""

    def digest(self, *blocks):
        rows = RowHash()
        for block in blocks:
            rows.add(Block(*block))
        return rows.digest()

    def test_the_position_of_a_change_of_row_type_matters(self):
        ones = np.ones(50)
        parts = [(X[:50], y[:50]), (X[50:100], y[50:100])]
        for one, other in (
            ([(*parts[0], ones), (*parts[1], None)], [(*parts[0], None), (*parts[1], ones)]),
            (
                [(X[:50].astype(np.float32), y[:50], None), (*parts[0], None)],
                [(*parts[0], None), (X[:50].astype(np.float32), y[:50], None)],
            ),
            (
                [(sparse.csr_array(X[:50]), y[:50], None), (*parts[0], None)],
                [(*parts[0], None), (sparse.csr_array(X[:50]), y[:50], None)],
            ),
        ):
            assert self.digest(*one) != self.digest(*other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (np.random.default_rng(0), np.random.default_rng(1)),
            (np.random.RandomState(0), np.random.RandomState(1)),
            (pd.Series(np.arange(200.0)), pd.Series(np.r_[np.arange(199.0), 0.0])),
            (np.array([None] * 2000), np.array([None] * 1000 + [1] + [None] * 999)),
            (np.float32, np.float64),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_similar_values_have_different_hashes(self, one, other):
        assert described(one) != described(other)
        assert described(one) == described(copy.deepcopy(one))

    def test_equal_values_have_equal_hashes(self):
        assert described({0: 2.0, 1: 1.0}) == described({np.int64(1): np.float64(1.0), 0: 2.0})
        features = [QuadratureFeatures(n_jobs=n) for n in (None, 2)]
        assert described(features[0]) == described(features[1])


@pytest.mark.parametrize("seed", [np.random.default_rng, np.random.RandomState])
def test_conjugate_gradients_killed_before_the_first_step(tmp_path, seed, monkeypatch):
    def model(**parameters):
        fixed = {"kernel": "gaussian", "alpha": 1.0, "n_components": 20, "rule": "orf"}
        return QuadratureRidge(**fixed, solver="cg", tol=1e-6, random_state=seed(0), **parameters)

    expected = model().fit(X, y).coef_
    path = tmp_path / "state"
    with monkeypatch.context() as dying:
        dying.setattr("quadfeat.solvers.krylov.begin", lambda *_: killed())
        with pytest.raises(Killed):
            model(checkpoint=path).fit(X, y)
    assert path.exists()
    assert_array_equal(model(checkpoint=path).fit(X, y).coef_, expected)


def killed():
    raise Killed


def test_other_column_names_are_rejected(tmp_path, eager):
    path = tmp_path / "state"
    model = QuadratureRidge("gaussian", alpha=1.0, n_components=9, random_state=0, checkpoint=path)
    blocks = [(pd.DataFrame(X[:100], columns=list("abc")), y[:100])] * 2
    with pytest.raises(Killed):
        model.fit(killed_after(blocks, 1))
    other = [(pd.DataFrame(X[:100], columns=list("xyz")), y[:100])] * 2
    with pytest.raises(ValueError, match="another fit, with columns"):
        model.fit(iter(other))
