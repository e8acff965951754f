"""Fits that are killed and started again: they go on, and the result is the same."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier, checkpoints
from quadfeat._files import PRIVATE, atomic_write, remove_drafts
from quadfeat._model import rows_per_block
from quadfeat.checkpoints import Checkpoint, described
from quadfeat.kernels import Gaussian, PointwiseNonlinear

rng = np.random.default_rng(0)
X = rng.standard_normal((3000, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.digitize(y, [-1, 0, 1])


class Ramp:
    """A function whose representation tells where it is in memory."""

    def __call__(self, t):
        return np.maximum(t, 0)


class Killed(BaseException):
    """Stands for a signal that cannot be caught."""


@pytest.fixture
def eager(monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "TIMES_AS_LONG", 0.0)


def killed_after(blocks, n):
    """Yield some blocks and die."""
    yield from blocks[:n]
    raise Killed


class TestFile:
    def test_what_is_saved_is_loaded(self, tmp_path):
        path = tmp_path / "a" / "state"
        Checkpoint(path, {"class": "A"}).save({"n": 3})
        assert Checkpoint(path, {"class": "A"}).load() == {"n": 3}
        assert os.listdir(path.parent) == ["state"]
        Checkpoint(path, {"class": "A"}).remove()
        assert not path.exists()
        Checkpoint(path, {"class": "A"}).remove()

    def test_no_path_no_file(self):
        nothing = Checkpoint(None, {})
        nothing.save({})
        nothing.offer({})
        nothing.remove()
        assert nothing.load() is None

    def test_a_file_that_cannot_be_written_leaves_the_last_one(self, tmp_path, monkeypatch):
        path = tmp_path / "state"
        checkpoint = Checkpoint(path, {})
        checkpoint.save({"n": 3})

        def fail(value, file):
            file.write(b"half of")
            raise OSError("no space left")

        monkeypatch.setattr(joblib, "dump", fail)
        with pytest.raises(OSError, match="no space left"):
            checkpoint.save({"n": 4})
        assert os.listdir(tmp_path) == ["state"]
        assert checkpoint.load() == {"n": 3}

    @pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x05K\x03."])
    def test_files_of_something_else(self, tmp_path, content):
        path = tmp_path / "state"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"checkpoint='.*state' cannot be read.*delete"):
            Checkpoint(path, {}).load()

    def test_a_file_that_was_cut_off(self, tmp_path):
        path = tmp_path / "state"
        Checkpoint(path, {}).save({"array": np.arange(1000)})
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ValueError, match="cannot be read"):
            QuadratureRidge(checkpoint=path, n_components=10).fit(X, y)

    def test_other_work_is_refused(self, tmp_path):
        path = tmp_path / "state"
        Checkpoint(path, {"class": "A", "rows": 3}).save({})
        with pytest.raises(ValueError, match="belongs to another fit, whose rows is 3 and not 4"):
            Checkpoint(path, {"class": "A", "rows": 4}).load()

    def test_files_are_written_now_and_then(self, tmp_path, monkeypatch):
        now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        path = tmp_path / "state"
        checkpoint = Checkpoint(path, {})
        checkpoint.offer({"n": 1})
        assert not path.exists()
        now = 11.0
        checkpoint.offer({"n": 2})
        now = 12.0
        checkpoint.offer({"n": 3})
        assert checkpoint.load() == {"n": 2}


class TestIdentity:
    """Which fits go on with a file, and which refuse it."""

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
    def test_the_same_work_goes_on(self, tmp_path, eager, seed):
        path = tmp_path / "state"
        model = QuadratureRidge(n_components=20, random_state=seed)
        self.leave(path, model, self.blocks())
        fingerprint = joblib.load(path)["state"]["features"].fingerprint()
        # Another process has its objects elsewhere in memory.
        if isinstance(seed, np.random.RandomState):
            model.set_params(random_state=np.random.RandomState(0))
        elif isinstance(seed, np.random.Generator):
            model.set_params(random_state=np.random.default_rng(0))
        model.set_params(verbose=True, n_jobs=2).fit(iter(self.blocks()))
        assert not path.exists()
        assert model.features_.fingerprint() == fingerprint
        assert model._solution.summary.moments.n_rows == 3000

    def test_an_object_is_known_by_what_it_is(self, tmp_path, eager):
        first, second = Ramp(), Ramp()  # of which the second stands for that of another process
        assert repr(first) != repr(second)
        path = tmp_path / "state"
        self.leave(path, QuadratureRidge(PointwiseNonlinear(first), n_components=9), self.blocks())
        model = QuadratureRidge(PointwiseNonlinear(second), n_components=9, checkpoint=path)
        model.fit(iter(self.blocks()))
        assert not path.exists()

    @pytest.mark.parametrize(
        ("parameters", "changes", "what"),
        [
            ({"alpha": 2.0}, {}, "parameters"),
            ({"n_components": 21}, {}, "parameters"),
            ({"kernel": Gaussian(0.3)}, {}, "parameters"),
            ({}, {"X": X + 1}, "beginning of X"),
            ({}, {"y": y + 1}, "beginning of y"),
            ({}, {"weights": np.ones(3000)}, "beginning of sample_weight"),
        ],
    )
    def test_other_work_is_refused(self, tmp_path, eager, parameters, changes, what):
        path = tmp_path / "state"
        model = QuadratureRidge(n_components=20, random_state=0)
        self.leave(path, model, self.blocks())
        model.set_params(**parameters)
        with pytest.raises(ValueError, match=rf"another fit, whose {what}"):
            model.fit(iter(self.blocks(**changes)))
        assert path.exists()

    def test_other_maps_and_classes_of_models_are_refused(self, tmp_path, eager):
        path = tmp_path / "state"
        features = QuadratureFeatures(n_components=20)
        model = QuadratureRidge(features=features.fit(X))
        self.leave(path, model, self.blocks(y=LABELS))
        with pytest.raises(ValueError, match="another fit, whose map is"):
            model.set_params(features=features.fit(X)).fit(iter(self.blocks(y=LABELS)))
        with pytest.raises(ValueError, match="another fit, whose class is 'QuadratureRidge'"):
            QuadratureRidgeClassifier(checkpoint=path).fit(X, LABELS)

    def test_fewer_rows_than_were_done(self, tmp_path, eager):
        path = tmp_path / "state"
        model = QuadratureRidge(n_components=20, random_state=0)
        self.leave(path, model, self.blocks())
        with pytest.raises(ValueError, match="600 rows, of which an earlier fit had used 1200"):
            model.fit(iter(self.blocks()[:1]))


def test_classes_that_came_before_the_end_do_not_change_how_blocks_are_cut(
    tmp_path, eager, monkeypatch
):
    # Of so many bytes that one more class makes blocks smaller.
    monkeypatch.setattr("quadfeat.moments.ROWS_PER_BLOCK", (1, 10_000))
    monkeypatch.setattr("quadfeat.moments.BYTES_PER_BLOCK", 4 * 23 * 100)
    assert rows_per_block(23, np.float32) == 100 > rows_per_block(25, np.float32)
    features = QuadratureFeatures(n_components=20, random_state=0).fit(X)
    order = np.argsort(LABELS, kind="stable")
    first = np.r_[order[:300], order[-700:]]  # two classes
    parts = [first, np.setdiff1d(order, first)]
    path = tmp_path / "state"
    stream = [(X[part], LABELS[part]) for part in parts]
    expected = QuadratureRidgeClassifier(features=features).fit(iter(stream))
    model = QuadratureRidgeClassifier(features=features, checkpoint=path)
    done = 0
    offer = Checkpoint.offer

    def offer_and_die(self, state):
        nonlocal done
        offer(self, state)
        done += 1
        if done == 15:  # within the second table, when all classes were seen
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
from quadfeat import QuadratureRidge, QuadratureRidgeClassifier, checkpoints, moments
from quadfeat.features import QuadratureFeatures
checkpoints.SECONDS = checkpoints.TIMES_AS_LONG = 0.0
moments.ROWS_PER_BLOCK = (64, 64)
what, path, out, pause = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
rng = np.random.default_rng(0)
X = rng.standard_normal((2560, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1]

written = 0
write = QuadratureFeatures._write

def slow(self, X, out):  # counts the rows whose features are made
    global written
    written += X.shape[0]
    write(self, X, out)

QuadratureFeatures._write = slow
offer = checkpoints.Checkpoint.offer

def tell(self, state):  # a step is done and kept
    offer(self, state)
    print("kept", flush=True)
    time.sleep(pause)

checkpoints.Checkpoint.offer = tell

def blocks():
    for start in range(0, 2560, 256):
        yield X[start : start + 256], np.digitize(y[start : start + 256], [-1, 0, 1])

parameters = dict(n_components=40, random_state=0, checkpoint=path)
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


@pytest.mark.parametrize("what", ["iterator", "array", "cg"])
def test_a_fit_that_was_killed_goes_on(tmp_path, what):
    path, out = tmp_path / "state", tmp_path / "out.json"

    def command(state, pause):
        return [sys.executable, "-c", SCRIPT, what, str(state), str(out), str(pause)]

    subprocess.run(command(tmp_path / "unused", 0), check=True, stdout=subprocess.DEVNULL)
    expected = json.loads(out.read_text())
    out.unlink()

    for _ in range(2):  # each comes a step further, and waits to be killed
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


def test_a_checkpoint_of_another_kernel_is_refused_however_many_numbers_it_has(tmp_path):
    first, second = np.full(60, 0.01), np.full(60, 0.01)
    second[30] = 1.0
    assert described(Gaussian(first)) == described(Gaussian(first.copy()))
    assert described(Gaussian(first)) != described(Gaussian(second))
    assert described({"alphas": [1.0, first]}) != described({"alphas": [1.0, second]})
    assert described(QuadratureFeatures(Gaussian(first))) != described(
        QuadratureFeatures(Gaussian(second))
    )


def test_files_have_the_rights_that_the_umask_leaves_and_links_stay(tmp_path):
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


class TestDrafts:
    """Drafts of processes that were killed in the middle of writing."""

    SCRIPT = """
import os, signal, sys
from pathlib import Path
from quadfeat._files import atomic_write
with atomic_write(Path(sys.argv[1])) as file:
    file.write(b"half of")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""

    @pytest.fixture
    def path(self, tmp_path):
        if sys.platform == "win32":
            pytest.skip("Windows cannot tell drafts that were left behind")
        path = tmp_path / "a [model]*"
        done = subprocess.run([sys.executable, "-c", self.SCRIPT, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL
        (draft,) = tmp_path.iterdir()
        assert draft.read_bytes() == b"half of"
        return path

    def test_are_removed_by_the_next_writer(self, path):
        with atomic_write(path) as file:
            file.write(b"all")
        assert [found.name for found in path.parent.iterdir()] == [path.name]
        assert path.read_bytes() == b"all"

    def test_are_removed_with_a_checkpoint_that_was_never_written(self, path):
        Checkpoint(path, {}).remove()
        assert list(path.parent.iterdir()) == []

    def test_of_writers_that_are_alive_stay(self, path):
        other = path.with_name("a [model]*.txt")
        with atomic_write(other) as file:
            file.write(b"another file")
        with atomic_write(path) as first, atomic_write(path) as second:
            remove_drafts(path)
            assert len(list(path.parent.iterdir())) == 3
            first.write(b"first")
            second.write(b"second")
        assert path.read_bytes() == b"first"  # which was finished last
        assert {found.name for found in path.parent.iterdir()} == {path.name, other.name}

    def test_many_writers_of_one_file(self, tmp_path):
        path, contents = tmp_path / "model", [bytes([k]) * 5000 for k in range(16)]

        def write(content):
            for _ in range(20):
                with atomic_write(path) as file:
                    file.write(content)
                assert path.read_bytes() in contents

        with ThreadPoolExecutor(len(contents)) as pool:
            list(pool.map(write, contents))
        assert os.listdir(tmp_path) == ["model"]
