"""The study: its numbers do not depend on how it is run, and bad input costs one line."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from browser import assert_needs_no_network, pages
from quadfeat.apps.study import data, experiments, plan, report, runner, summary
from quadfeat.apps.study.errors import StudyError
from quadfeat.apps.study.experiments import QUICK, Cell
from quadfeat.apps.study.methods import KERNELS, METHODS
from quadfeat.kernels import Gaussian

SMALL = replace(QUICK, seconds=0.0, headline_seconds=0.0, fewest_draws=2, skip_beyond=10.0)
CELLS = plan.plan(["kernel-error"], ["diabetes"], ["gaussian", "arccos0"], ["G", "B"], full=False)


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "quadfeat", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200", **environment},
        check=False,
    )


def errors(outcomes):
    return {outcome.cell: [row["error"] for row in outcome.rows] for outcome in outcomes}


class TestData:
    @pytest.mark.parametrize("name", data.EMBEDDED)
    def test_embedded_sets_are_scaled_by_their_largest_entry(self, name):
        loaded = data.load(name)
        assert loaded.X.shape == data.EMBEDDED[name].shape
        assert loaded.X[: loaded.n_train].max() == 1
        assert 2 * loaded.sample <= 2 * loaded.n_train

    def test_the_paper_s_protocol(self, tmp_path):
        X = np.random.default_rng(0).normal(3, 2, (9568, 4))
        np.savez(tmp_path / "powerplant.npz", X=X, y=X[:, 0])
        loaded = data.load("powerplant", tmp_path)
        standard = (X - X.mean(axis=0)) / X.std(axis=0)
        assert_allclose(loaded.X, standard / standard[:8500].max())
        assert (loaded.n_train, loaded.sample) == (8500, 550)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"X": np.ones((5, 16))}, "no array 'y'"),
            ({"y": np.ones(5)}, "no array 'X'"),
            ({"X": np.full((5, 16), np.nan), "y": np.ones(5)}, "NaN or infinite"),
            ({"X": np.ones((1, 16)), "y": np.ones(1)}, "1 row"),
            ({"X": np.ones((5, 16)), "y": np.ones(4)}, "y has shape"),
            ({"X": np.ones((5, 16)), "y": np.array(1.0)}, "y has shape"),
            ({"X": np.ones((5, 0)), "y": np.arange(5)}, "not a matrix"),
            ({"X": np.ones((5, 2)), "y": np.arange(5)}, "5 classes in 5 rows"),
            ({"X": np.ones((5, 2)), "y": np.ones(5)}, "1 classes in 5 rows"),
            ({"X": np.ones(5), "y": np.ones(5)}, "not a matrix"),
            ({"X": np.full((5, 2), "a"), "y": np.ones(5)}, "not a matrix of numbers"),
            ({"X": -np.ones((5, 2)), "y": np.arange(5) % 2}, "no positive entry"),
        ],
    )
    def test_a_bad_file_is_refused_by_name(self, tmp_path, arrays, message):
        np.savez(tmp_path / "letter.npz", **arrays)
        with pytest.raises(StudyError, match=message):
            data.load("letter", tmp_path)

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (np.full(30, np.nan), "finite numbers"),
            (np.full(30, "a"), "finite numbers"),
            (np.ones(30), "constant"),
        ],
    )
    def test_targets_that_cannot_be_learnt(self, tmp_path, y, message):
        np.savez(tmp_path / "powerplant.npz", X=np.random.default_rng(0).random((30, 4)), y=y)
        with pytest.raises(StudyError, match=message):
            data.load("powerplant", tmp_path)

    def test_an_array_that_is_no_archive(self, tmp_path):
        with (tmp_path / "letter.npz").open("wb") as file:
            np.save(file, np.ones((5, 16)))
        with pytest.raises(StudyError, match="not an archive"):
            data.load("letter", tmp_path)

    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
    def test_a_broken_file_is_refused_by_name(self, tmp_path, content):
        (tmp_path / "letter.npz").write_bytes(content)
        with pytest.raises(StudyError, match=r"letter\.npz cannot be read"):
            data.load("letter", tmp_path)


class TestExperiments:
    def test_every_method_has_the_same_budget(self):
        """2 n (d + 1) nodes: columns twice as many, or as many, and perhaps the origin's."""
        for kernel in KERNELS:
            widths = {
                name: method.features(kernel, 10, 3, 0).n_components
                for name, method in METHODS.items()
            }
            budget = (4 if kernel == "gaussian" else 2) * 3 * 11
            assert set(widths.values()) <= {budget, budget + 1}
            assert widths["G"] == widths["B"] == budget

    def test_an_error_is_that_of_the_kernel(self):
        cell = Cell("kernel-error", "diabetes", "gaussian", "B", 2)
        found = experiments.kernel_error(cell, SMALL)
        left, right, exact = experiments._problem("diabetes", "gaussian", 0, SMALL)
        assert_allclose(exact, Gaussian(1 / 10)(left, right))
        seed = experiments._seed(0, "diabetes", "gaussian", "B", 2, 0, 0)
        features = METHODS["B"].features("gaussian", 10, 2, seed).fit(left)
        gram = features.approximate_kernel(left, right)
        expected = np.linalg.norm(gram - exact) / np.linalg.norm(exact)
        assert_allclose(found[0]["error"], expected)

    def test_rows_are_the_same_for_every_method_and_differ_between_draws(self):
        first = experiments._problem("diabetes", "gaussian", 0, SMALL)[0]
        assert_array_equal(first, experiments._problem("diabetes", "arccos0", 0, SMALL)[0])
        assert (first != experiments._problem("diabetes", "gaussian", 1, SMALL)[0]).any()

    @pytest.mark.parametrize("method", ["QMC", "GQ"])
    def test_sequences_and_grids_are_left_out_of_wide_data(self, method):
        assert METHODS[method].refusal("gaussian", 784) is None
        assert "as in the paper" in METHODS[method].refusal("gaussian", 3072)

    def test_accuracy_and_its_ceiling(self):
        for method, n in (("B-map", 1), (experiments.EXACT, 0)):
            rows = experiments.accuracy(Cell("accuracy", "digits", "gaussian", method, n), SMALL)
            assert len(rows) == SMALL.accuracy_seeds
            assert all(row["score"] > 0.9 for row in rows)
        rows = experiments.accuracy(Cell("accuracy", "diabetes", "arccos1", "B-map", 2), SMALL)
        assert all(0.2 < row["score"] < 0.7 for row in rows)

    def test_walltime(self):
        (row,) = experiments.walltime(Cell("walltime", "64", "gaussian", "B-map", 1), SMALL)
        assert row["seconds"] > 0
        assert row["columns"] == 4 * 65 + 1
        (dense,) = experiments.walltime(Cell("walltime", "64", "gaussian", "G", 1), SMALL)
        assert dense["bytes"] > row["bytes"]


class TestRunner:
    def test_the_same_numbers_for_any_number_of_jobs(self, tmp_path):
        one = errors(runner.run(CELLS, SMALL, runner.Store(tmp_path / "1", SMALL), 1))
        two = errors(runner.run(CELLS, SMALL, runner.Store(tmp_path / "2", SMALL), 2))
        assert len(one) == len(CELLS)
        assert one == two

    def test_a_killed_run_goes_on_where_it_was(self, tmp_path):
        chosen = ["G", "Gort", "ROM", "B", "H"]
        arguments = ["study", "kernel-error", "--datasets", "diabetes", "--jobs", "1"]
        arguments += ["--methods", ",".join(chosen), "--kernels", "gaussian"]
        running = subprocess.Popen(
            [sys.executable, "-m", "quadfeat", *arguments, "--out", str(tmp_path / "killed")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        cells = tmp_path / "killed" / "cells"
        for _ in range(6000):
            if len(list(cells.rglob("*.json"))) >= 5:
                break
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        running.wait()
        finished = {path: path.stat().st_mtime_ns for path in cells.rglob("*.json")}
        total = len(plan.plan(["kernel-error"], ["diabetes"], ["gaussian"], chosen, full=False))
        assert 5 <= len(finished) < total
        assert not (tmp_path / "killed" / "report.html").exists()
        # Again, and once without interruption.
        for name in ("killed", "whole"):
            done = command(*arguments, "--out", tmp_path / name)
            assert done.returncode == 0, done.stderr
        assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
        killed, whole = (
            pd.read_csv(tmp_path / name / "kernel-error.csv") for name in ("killed", "whole")
        )
        pd.testing.assert_frame_equal(killed, whole)

    def test_a_cell_that_fails_is_reported_and_the_rest_goes_on(self, tmp_path, monkeypatch):
        def fail(cell, effort):
            if cell.method == "G":
                raise RuntimeError("no such luck\nand more")
            return experiments.kernel_error(cell, effort)

        monkeypatch.setitem(experiments.EXPERIMENTS, "kernel-error", fail)
        store = runner.Store(tmp_path, SMALL)
        outcomes = list(runner.run(CELLS, SMALL, store, 1))
        failed = [outcome for outcome in outcomes if outcome.failed]
        assert {outcome.cell.method for outcome in failed} == {"G"}
        assert failed[0].failed == "RuntimeError: no such luck and more"
        assert sum(bool(outcome.rows) for outcome in outcomes) == len(CELLS) / 2
        drawn = report.pictures(runner.tables(outcomes))
        page = report.build(outcomes, drawn, {"command": "quadfeat study"})
        assert "failed: RuntimeError: no such luck" in page
        # What failed is tried again.
        monkeypatch.undo()
        again = list(runner.run(CELLS, SMALL, store, 1))
        assert all(outcome.rows for outcome in again)
        assert sum(outcome.kept for outcome in again) == len(CELLS) / 2

    def test_a_process_that_dies_costs_only_what_it_was_running(self, tmp_path):
        cells = [CELLS[0], replace(CELLS[0], method="dies"), *CELLS[1:4]]
        outcomes = list(runner._run_in_processes(cells, _Deadly(), 1))
        assert [outcome.failed is not None for outcome in outcomes] == [False, True, *[False] * 3]
        assert "process died" in outcomes[1].failed

    def test_a_full_disk_leaves_nothing_half_written(self, tmp_path, monkeypatch):
        store = runner.Store(tmp_path, SMALL)

        def full(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(StudyError, match="No space left on device"):
            list(runner.run(CELLS[:1], SMALL, store, 1))
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

    def test_changed_data_are_run_again(self, tmp_path):
        effort = replace(SMALL, data_dir=str(tmp_path))
        cells = [replace(CELLS[0], dataset="letter")]
        kept = []
        for seed in (0, 0, 1):
            X = np.random.default_rng(seed).random((1200, 16))
            if not kept or seed:
                np.savez(tmp_path / "letter.npz", X=X, y=X[:, 0] > 0.5)
                data.signature.cache_clear()  # as in a new process
                experiments._load.cache_clear()
            (outcome,) = runner.run(cells, effort, runner.Store(tmp_path / "out", effort), 1)
            kept.append(outcome.kept)
        assert kept == [False, True, False]

    def test_workers_die_with_a_parent_that_is_killed(self, tmp_path):
        arguments = ["kernel-error", "--jobs", "2", "--datasets", "digits", "--out", str(tmp_path)]
        running = subprocess.Popen(
            [sys.executable, "-m", "quadfeat", "study", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        if not Path("/proc/self/task").exists():
            running.kill()
            pytest.skip("needs /proc")
        while not list(tmp_path.rglob("*.json")) and running.poll() is None:
            time.sleep(0.05)
        workers = children.read_text().split()
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert len(workers) >= 2
        for _ in range(1000):
            alive = [pid for pid in workers if b"spawn_main" in _command_of(pid)]
            if not alive:
                break
            time.sleep(0.05)
        assert alive == []

    def test_another_configuration_does_not_take_these_cells(self, tmp_path):
        store = runner.Store(tmp_path, SMALL)
        list(runner.run(CELLS[:1], SMALL, store, 1))
        other = replace(SMALL, seed=1)
        (outcome,) = runner.run(CELLS[:1], other, runner.Store(tmp_path, other), 1)
        assert not outcome.kept


def _command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class _Deadly(experiments.Effort):
    """An effort that kills the process which runs a certain method."""

    def __reduce__(self):
        return (_deadly, ())


def _deadly():
    real = experiments.kernel_error

    def kernel_error(cell, effort):
        if cell.method == "dies":
            os._exit(1)
        return real(cell, SMALL)

    experiments.EXPERIMENTS["kernel-error"] = kernel_error
    return SMALL


class TestSummary:
    def rows(self, mean, sd_rows, sd_maps, draws=400, maps=5, seed=0):
        rng = np.random.default_rng(seed)
        centre = mean + sd_rows * rng.standard_normal(draws)
        error = centre[:, None] + sd_maps * rng.standard_normal((draws, maps))
        draw, number = np.indices(error.shape)
        cell = {"dataset": "letter", "kernel": "gaussian", "method": "B", "n": 1}
        cell["as_published"] = True
        columns = {"draw": draw.ravel(), "map": number.ravel(), "error": error.ravel()}
        return pd.DataFrame(columns).assign(**cell)

    def test_both_spreads_are_told_apart(self):
        (cell,) = summary.kernel_errors(self.rows(1.0, 0.3, 0.3)).itertuples()
        assert_allclose([cell.mean, cell.sd_rows, cell.sd_maps], [1, 0.3, 0.3], rtol=0.12)
        assert_allclose(cell.se, np.sqrt((0.09 + 0.09 / 5) / 400), rtol=0.1)

    def test_the_interval_covers_the_mean(self):
        covered = []
        for seed in range(300):
            table = summary.kernel_errors(self.rows(1.0, 0.1, 0.2, draws=6, maps=2, seed=seed))
            covered.append(table["low"][0] <= 1.0 <= table["high"][0])
        assert 0.915 < np.mean(covered) < 0.985

    def test_verdicts(self):
        published = summary.published()
        theirs = published[
            (published.dataset == "letter")
            & (published.kernel == "gaussian")
            & (published.method == "B")
            & (published.n == 1)
        ]["published"].iloc[0]
        same = summary.kernel_errors(self.rows(theirs, 0.0, theirs / 5))
        assert same["verdict"][0] == "agrees"
        other = summary.kernel_errors(self.rows(2 * theirs, 0.0, theirs / 5))
        assert other["verdict"][0].startswith("differs by +100 % (see the remark on B")
        # The choice of rows may explain a difference, since the authors drew theirs once.
        assert summary.kernel_errors(self.rows(2 * theirs, theirs, 0.0))["agrees"][0]

    def test_another_set_by_the_same_name_is_not_compared(self):
        other = self.rows(5.0, 0.0, 0.1).assign(as_published=False)
        table = summary.kernel_errors(other)
        assert table["verdict"][0] == ""
        assert summary.remarks(table) == []

    def test_all_published_cells_are_here(self):
        counts = summary.published().groupby("method").size()
        assert counts["B"] == 90
        assert set(counts.index) == {name for name, method in METHODS.items() if method.in_paper}

    def test_exponents(self):
        d = np.array([64, 256, 512, 1024])
        rows = pd.DataFrame({"method": "G", "d": d, "seconds": 1e-9 * d**1.5, "bytes": d**2})
        (fit,) = summary.exponents(rows).itertuples()
        assert_allclose([fit.time, fit.space], [1.5, 2.0])


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["study", "kernel-eror"], "Did you mean 'kernel-error'?"),
            (["study", "--datasets", "digit"], "Did you mean 'digits'?"),
            (["study", "--kernels", "gausian"], "Did you mean 'gaussian'?"),
            (["study", "--methods", "G,Gor"], "Did you mean 'gort'?"),
            (["study", "--datasets", "letter"], "quadfeat data fetch letter"),
            (["study", "--jobs", "0"], "--jobs 0 is not valid"),
            (["study", "--data-dir", "/no/such/folder"], "does not exist"),
            (["study", "walltime", "--out", "/dev/null/x"], "cannot write to"),
            (["data", "fetch", "leter"], "Did you mean 'letter'?"),
        ],
    )
    def test_bad_input_is_one_line_and_exit_code_2(self, arguments, message, tmp_path):
        done = command(*arguments, QUADFEAT_DATA="", QUADFEAT_CACHE=str(tmp_path))
        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_a_bad_data_file_is_refused_before_anything_runs(self, tmp_path):
        np.savez(tmp_path / "letter.npz", X=np.full((30, 16), np.nan), y=np.ones(30))
        out = tmp_path / "out"
        done = command("study", "--datasets", "letter", "--data-dir", tmp_path, "--out", out)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "NaN" in done.stderr
        assert not out.exists()

    def test_a_study_of_which_nothing_can_be_run_says_why(self, tmp_path):
        rng = np.random.default_rng(0)
        np.savez(tmp_path / "leukemia.npz", X=rng.random((72, 20)), y=np.arange(72) % 2)
        chosen = ["--datasets", "leukemia", "--methods", "G", "--kernels", "gaussian"]
        out = tmp_path / "out"
        done = command("study", "accuracy", *chosen, "--data-dir", tmp_path, "--out", out)
        assert done.returncode == 0, done.stderr
        assert "72 rows are too few" in (out / "report.html").read_text()
        assert (out / "summary.md").read_text().startswith("# The study")

    def test_data_list(self, tmp_path):
        done = command("data", "list", QUADFEAT_DATA="", QUADFEAT_CACHE=str(tmp_path))
        assert done.returncode == 0
        for name in data.CATALOGUE:
            assert name in done.stdout
        assert "quadfeat data fetch letter" in done.stdout

    def test_version(self):
        assert command("--version").stdout.startswith("quadfeat ")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a small study of all three experiments."""
    out = tmp_path_factory.mktemp("study")
    arguments = ["--datasets", "diabetes", "--methods", "ROM,B,B-map,exact"]
    done = command("study", "all", *arguments, "--out", out, "--jobs", "1")
    assert done.returncode == 0, done.stderr
    return out


class TestReport:
    def test_all_files_are_there(self, finished):
        for name in ("kernel-error", "accuracy", "walltime"):
            table = pd.read_csv(finished / f"{name}.csv")
            assert {"seed", "quadfeat", "cpu", "threads", "configuration"} <= set(table.columns)
            for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
                assert (finished / f"{name}.{kind}").read_bytes().startswith(start)
        assert json.loads((finished / "run.json").read_text())["seed"] == 0
        digest = (finished / "summary.md").read_text()
        for title in ("Who wins where", "Accuracy", "Growth of time"):
            assert f"## {title}" in digest

    def test_it_needs_no_network(self, finished):
        assert_needs_no_network(finished / "report.html")

    def test_in_a_browser(self, finished):
        for page in pages(finished / "report.html"):
            self.check_figures(page)
            self.check_sorting(page)

    def check_figures(self, page):
        plots = page.locator("img.plot")
        assert plots.count() == 3
        for k in range(3):
            assert plots.nth(k).is_visible()
            assert plots.nth(k).evaluate("image => image.naturalWidth") > 300

    def check_sorting(self, page):
        table = page.locator("section:has(h2:text('Error of the kernel, cell by cell')) table")
        heads = table.locator("thead th")
        column = heads.all_inner_texts().index("mean")
        cells = table.locator(f"tbody td:nth-child({column + 1})")
        values = "cells => cells.map(cell => parseFloat(cell.dataset.value))"
        unsorted = cells.evaluate_all(values)
        heads.nth(column).locator("button").click()
        assert cells.evaluate_all(values) == sorted(unsorted)
        assert heads.nth(column).get_attribute("aria-sort") == "ascending"
        heads.nth(column).locator("button").click()
        assert cells.evaluate_all(values) == sorted(unsorted, reverse=True)
