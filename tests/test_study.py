"""Test the study: results do not depend on how it runs, and bad input gives one line."""

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from browser import assert_accessible, assert_needs_no_network, pages
from quadfeat.apps.reporting.colors import PAGE, contrast
from quadfeat.apps.study import cli, data, digest, experiments, plan, plots, report, runner, summary
from quadfeat.apps.study.errors import StudyError
from quadfeat.apps.study.experiments import QUICK, Cell
from quadfeat.apps.study.findings import Findings
from quadfeat.apps.study.methods import (
    ALIASES,
    AUTO,
    CONTESTANTS,
    KERNEL_SVM,
    KERNELS,
    METHODS,
    PAPER_RULE,
)
from quadfeat.kernels import Gaussian
from tables import quadfeat_command, without_figures

SMALL = replace(QUICK, seconds=0.0, headline_seconds=0.0, fewest_draws=2, skip_beyond=10.0)
CELLS = plan.plan(
    ["kernel-error"], ["diabetes"], ["gaussian", "arccos0"], ["rff", "paper"], full=False
)
ABOUT = {"command": "quadfeat study", "quadfeat": "0", "cpu": "none", "seed": 0}


# The effort of runs of which the tests see only files and messages.
SHORTEST = replace(QUICK, seconds=0.0, headline_seconds=0.0, fewest_draws=2, timing_repeats=1)


def command(*arguments, width=200, effort=QUICK, draw=True, **environment):
    """Run ``quadfeat`` in this process. Figures stay empty unless ``draw`` is true."""
    drawing = contextlib.nullcontext() if draw else without_figures()
    with mock.patch.object(cli, "QUICK", effort), drawing:
        return quadfeat_command(*arguments, width=width, environment=environment)


def errors(outcomes):
    return {outcome.cell: [row["error"] for row in outcome.rows] for outcome in outcomes}


class TestData:
    @pytest.mark.parametrize("name", data.EMBEDDED)
    def test_embedded_datasets_are_scaled_by_their_largest_entry(self, name):
        loaded = data.load(name)
        assert loaded.X.shape == data.EMBEDDED[name].shape
        assert loaded.X[: loaded.n_train].max() == 1
        assert 2 * loaded.sample <= 2 * loaded.n_train

    def test_the_protocol_of_the_paper(self, tmp_path):
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
            ({"X": np.ones((5, 0)), "y": np.arange(5)}, "must be a matrix"),
            ({"X": np.ones((5, 2)), "y": np.arange(5)}, "5 class.* in 5 rows"),
            ({"X": np.ones((5, 2)), "y": np.ones(5)}, "1 class.* in 5 rows"),
            ({"X": np.ones(5), "y": np.ones(5)}, "must be a matrix"),
            ({"X": np.full((5, 2), "a"), "y": np.ones(5)}, "must be a matrix of numbers"),
            ({"X": -np.ones((5, 2)), "y": np.arange(5) % 2}, "no positive entry"),
        ],
    )
    def test_a_bad_file_is_rejected_by_name(self, tmp_path, arrays, message):
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
    def test_targets_that_cannot_be_learned(self, tmp_path, y, message):
        np.savez(tmp_path / "powerplant.npz", X=np.random.default_rng(0).random((30, 4)), y=y)
        with pytest.raises(StudyError, match=message):
            data.load("powerplant", tmp_path)

    def test_an_array_that_is_not_an_archive(self, tmp_path):
        with (tmp_path / "letter.npz").open("wb") as file:
            np.save(file, np.ones((5, 16)))
        with pytest.raises(StudyError, match="not an archive"):
            data.load("letter", tmp_path)

    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
    def test_a_broken_file_is_rejected_by_name(self, tmp_path, content):
        (tmp_path / "letter.npz").write_bytes(content)
        with pytest.raises(StudyError, match=r"cannot read .*letter\.npz"):
            data.load("letter", tmp_path)


class TestExperiments:
    def test_every_method_has_the_same_budget(self):
        """The budget is 2 n (d + 1) nodes, with one or two columns each, and perhaps an origin."""
        for kernel in KERNELS:
            widths = {
                name: method.features(kernel, 10, 3, 0).n_components
                for name, method in METHODS.items()
            }
            budget = (4 if kernel == "gaussian" else 2) * 3 * 11
            assert set(widths.values()) <= {budget, budget + 1}
            assert widths["rff"] == widths["paper"] == widths["auto"] == budget

    def test_an_error_is_that_of_the_kernel(self):
        cell = Cell("kernel-error", "diabetes", "gaussian", "paper", 2)
        found = experiments.kernel_error(cell, SMALL)
        problem = experiments._problem("diabetes", "gaussian", 0, SMALL)
        assert_allclose(problem.exact, Gaussian(1 / 10)(problem.left, problem.right))
        # Seeds depend on the label of the paper, so that results survive a new name.
        seed = experiments._seed(0, "diabetes", "gaussian", "B", 2, 0, 0)
        features = METHODS["paper"].features("gaussian", 10, 2, seed).fit(problem.left)
        gram = features.approximate_kernel(problem.left, problem.right)
        expected = np.linalg.norm(gram - problem.exact) / np.linalg.norm(problem.exact)
        assert_allclose(found[0]["error"], expected)

    def test_rows_are_the_same_for_every_method_and_differ_between_draws(self):
        first = experiments._problem("diabetes", "gaussian", 0, SMALL).left
        assert_array_equal(first, experiments._problem("diabetes", "arccos0", 0, SMALL).left)
        assert (first != experiments._problem("diabetes", "gaussian", 1, SMALL).left).any()

    def test_the_automatic_rule_chooses_on_rows_that_are_not_measured(self):
        problem = experiments._problem("diabetes", "gaussian", 0, SMALL)
        measured = {row.tobytes() for row in (*problem.left, *problem.right)}
        assert len(problem.others) >= experiments.FEWEST_OTHERS
        assert not measured & {row.tobytes() for row in problem.others}

    def test_the_automatic_rule_is_a_method(self):
        rows = experiments.kernel_error(
            Cell("kernel-error", "diabetes", "gaussian", AUTO, 1), SMALL
        )
        assert len(rows) == SMALL.fewest_draws * SMALL.maps_per_draw
        assert len({row["error"] for row in rows}) == len(rows)  # every map is a new draw
        assert all(0 < row["error"] < 0.02 for row in rows)

    @pytest.mark.parametrize("method", ["halton", "gauss-hermite"])
    def test_sequences_and_grids_do_not_run_on_wide_data(self, method):
        assert METHODS[method].why_not("gaussian", 784) is None
        assert "as in the paper" in METHODS[method].why_not("gaussian", 3072)

    def test_accuracy_and_its_ceiling(self):
        for method, n in (("sr33", 1), (KERNEL_SVM, experiments.NO_BLOCKS)):
            rows = experiments.accuracy(Cell("accuracy", "digits", "gaussian", method, n), SMALL)
            assert len(rows) == SMALL.accuracy_seeds
            assert all(row["score"] > 0.9 for row in rows)
            assert all(row["validation_score"] > 0.85 for row in rows)
        rows = experiments.accuracy(Cell("accuracy", "diabetes", "arccos1", "sr33", 2), SMALL)
        assert all(0.2 < row["score"] < 0.7 for row in rows)

    def test_walltime(self):
        (row,) = experiments.walltime(Cell("walltime", "64", "gaussian", "sr33", 1), SMALL)
        assert row["seconds"] > 0
        assert row["columns"] == 4 * 65 + 1
        (dense,) = experiments.walltime(Cell("walltime", "64", "gaussian", "rff", 1), SMALL)
        assert dense["bytes"] > row["bytes"]


class TestRunner:
    def test_the_same_numbers_for_any_number_of_jobs(self, tmp_path):
        one = errors(runner.run(CELLS, SMALL, runner.Store(tmp_path / "1", SMALL), 1))
        two = errors(runner.run(CELLS, SMALL, runner.Store(tmp_path / "2", SMALL), 2))
        assert len(one) == len(CELLS)
        assert one == two

    def test_a_killed_run_resumes(self, tmp_path):
        chosen = ["rff", "orf", "paper"]
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
        # Run it again, and once without interruption.
        for name in ("killed", "whole"):
            done = command(*arguments, "--out", tmp_path / name, draw=False)
            assert done.returncode == 0, done.stderr
        assert all(path.stat().st_mtime_ns == when for path, when in finished.items())
        killed, whole = (
            pd.read_csv(tmp_path / name / "kernel-error.csv") for name in ("killed", "whole")
        )
        pd.testing.assert_frame_equal(killed, whole)

    def test_a_failed_cell_is_reported_and_the_others_run(self, tmp_path, monkeypatch):
        def fail(cell, effort):
            if cell.method == "rff":
                raise RuntimeError("no such luck\nand more")
            return experiments.kernel_error(cell, effort)

        monkeypatch.setitem(experiments.EXPERIMENTS, "kernel-error", fail)
        store = runner.Store(tmp_path, SMALL)
        outcomes = list(runner.run(CELLS, SMALL, store, 1))
        failed = [outcome for outcome in outcomes if outcome.failed]
        assert {outcome.cell.method for outcome in failed} == {"rff"}
        assert failed[0].failed == "RuntimeError: no such luck and more"
        assert sum(bool(outcome.rows) for outcome in outcomes) == len(CELLS) / 2
        found = Findings.of(outcomes, runner.tables(outcomes))
        page = report.build(found, report.pictures(found), ABOUT)
        assert "failed: RuntimeError: no such luck" in page
        assert "10 measurements failed" in page
        # The next run repeats the failed cells.
        monkeypatch.undo()
        again = list(runner.run(CELLS, SMALL, store, 1))
        assert all(outcome.rows for outcome in again)
        assert sum(outcome.kept for outcome in again) == len(CELLS) / 2

    def test_a_process_that_dies_loses_only_its_current_cell(self, tmp_path):
        cells = [CELLS[0], replace(CELLS[0], method="dies"), *CELLS[1:4]]
        outcomes = list(runner._run_in_processes(cells, _Deadly(), 1))
        assert [outcome.failed is not None for outcome in outcomes] == [False, True, *[False] * 3]
        assert "process died" in outcomes[1].failed

    def test_a_full_disk_leaves_no_incomplete_files(self, tmp_path, monkeypatch):
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

    def test_another_configuration_does_not_reuse_cells(self, tmp_path):
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
    """An effort that kills the process that runs a certain method."""

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
        cell = {"dataset": "letter", "kernel": "gaussian", "method": "paper", "n": 1}
        cell["as_published"] = True
        columns = {"draw": draw.ravel(), "map": number.ravel(), "error": error.ravel()}
        return pd.DataFrame(columns).assign(**cell)

    def test_both_kinds_of_spread_are_reported(self):
        (cell,) = summary.kernel_errors(self.rows(1.0, 0.3, 0.3)).itertuples()
        assert_allclose([cell.mean, cell.sd_rows, cell.sd_maps], [1, 0.3, 0.3], rtol=0.12)
        assert_allclose(cell.se, np.sqrt((0.09 + 0.09 / 5) / 400), rtol=0.1)

    def test_the_interval_covers_the_mean(self):
        tables = [
            self.rows(1.0, 0.1, 0.2, draws=6, maps=2, seed=seed).assign(dataset=f"table {seed}")
            for seed in range(300)
        ]
        table = summary.kernel_errors(pd.concat(tables))
        covered = (table["low"] <= 1.0) & (table["high"] >= 1.0)
        assert len(covered) == 300
        assert 0.915 < covered.mean() < 0.985

    def test_verdicts(self):
        published = summary.published()
        theirs = published[
            (published.dataset == "letter")
            & (published.kernel == "gaussian")
            & (published.method == "paper")
            & (published.n == 1)
        ]["published"].iloc[0]
        same = summary.kernel_errors(self.rows(theirs, 0.0, theirs / 5))
        assert same["verdict"][0] == "agrees"
        other = summary.kernel_errors(self.rows(2 * theirs, 0.0, theirs / 5))
        assert other["verdict"][0] == "differs by +100%"
        # The choice of rows may explain a difference, since the authors drew their rows only once.
        assert summary.kernel_errors(self.rows(2 * theirs, theirs, 0.0))["agrees"][0]

    def test_another_dataset_with_the_same_name_is_not_compared(self):
        other = self.rows(5.0, 0.0, 0.1).assign(as_published=False)
        table = summary.kernel_errors(other)
        assert table["verdict"][0] == ""
        assert summary.remarks(table) == []

    def test_all_published_cells_are_here(self):
        counts = summary.published().groupby("method").size()
        assert counts["paper"] == 90
        assert set(counts.index) <= {name for name, method in METHODS.items() if method.in_paper}

    def test_the_interval_of_an_error_is_positive(self):
        """Three draws vary so much that a symmetric interval would begin below zero."""
        rows = self.rows(1.0, 0.0, 0.0, draws=3, maps=2)
        rows["error"] = [0.1, 0.1, 0.2, 0.2, 3.0, 3.0]
        (cell,) = summary.kernel_errors(rows).itertuples()
        assert 0 < cell.low < cell.mean < cell.high
        assert cell.mean - 4.3 * cell.se < 0

    def errors(self, **by_method):
        """Return a summary with the given error of each method, the same for both n."""
        return pd.DataFrame(
            [
                {"dataset": name, "kernel": "gaussian", "method": method, "n": n, "mean": error}
                for method, errors in by_method.items()
                for name, error in zip("abc", errors, strict=False)
                for n in (1, 2)
            ]
        ).assign(se=1e-9, published=np.nan)

    def test_winners_and_ties(self):
        table = self.errors(auto=[1.0, 2.0], paper=[1.01, 1.0], rff=[3.0, 3.0])
        a, b = summary.winners(table).itertuples()
        assert (a.best, a.tied) == ("auto", ("paper",))  # within 2%
        assert (b.best, b.tied) == ("paper", ())
        noisy = summary.winners(table.assign(se=0.5))
        assert noisy["tied"][1] == ("auto",)  # within two standard errors

    def test_ratios_compare_methods_on_the_same_datasets(self):
        table = self.errors(auto=[1.0, 1.0, 1.0], halton=[1.0, 1.0], rff=[2.0, 8.0, 1e9])
        relative = summary.relative_errors(table, "rff")
        ratios = summary.ratios_by_kernel(relative).set_index("method")["ratio"]
        assert_allclose(ratios[["auto", "halton", "rff"]], [1 / 4, 1 / 4, 1])
        assert_allclose(summary.overall_ratio(relative, "auto"), 1 / 4)
        assert np.isnan(summary.overall_ratio(relative, "paper"))

    def test_a_map_is_selected_by_validation_and_scored_on_test_rows(self):
        scores = pd.DataFrame(
            {
                "dataset": "a",
                "kernel": "gaussian",
                "method": ["auto", "paper", "rff", KERNEL_SVM],
                "n": pd.array([2, 2, 2, None], dtype="Int64"),
                "mean": [0.5, 0.6, 0.9, 0.95],
                "validation": [0.7, 0.8, 0.6, 0.9],
            }
        )
        (row,) = summary.selected_scores(scores).to_dict("records")
        assert (row["selected"], row["score"]) == ("paper", 0.6)
        assert (row[AUTO], row[KERNEL_SVM]) == (0.5, 0.95)

    def test_exponents(self):
        d = np.array([64, 256, 512, 1024])
        rows = pd.DataFrame({"method": "rff", "d": d, "seconds": 1e-9 * d**1.5, "bytes": d**2})
        (fit,) = summary.exponents(rows).itertuples()
        assert_allclose([fit.time, fit.space], [1.5, 2.0])


class TestMethods:
    def test_no_two_look_the_same(self):
        for theme in ("light", "dark"):
            colors = [one.color.on(theme) for one in CONTESTANTS.values()]
            assert len(set(colors)) == len(colors)
        markers = [method.marker for method in METHODS.values()]
        assert len(set(markers)) == len(markers)

    @pytest.mark.parametrize("name", CONTESTANTS)
    def test_its_color_can_be_read(self, name):
        for theme in ("light", "dark"):
            assert contrast(CONTESTANTS[name].color.on(theme), PAGE.on(theme)) >= 4.5

    def test_names_are_unique_and_explained(self):
        titles = [one.title for one in CONTESTANTS.values()]
        assert len(set(titles)) == len(titles)
        for one in CONTESTANTS.values():
            assert one.explanation.endswith(".")
            assert one.title[0].isupper()
        assert set(ALIASES.values()) == set(METHODS)

    @pytest.mark.parametrize("name", METHODS)
    def test_its_code_creates_the_same_map(self, name):
        """The code in the report creates the same map, apart from reflections."""
        from quadfeat import QuadratureFeatures, rotations, rules

        names = {**vars(rules), **vars(rotations), "QuadratureFeatures": QuadratureFeatures}
        shown = eval(f"QuadratureFeatures('arccos1', {METHODS[name].code})", names)
        X = np.random.default_rng(0).random((20, 4))
        fitted = METHODS[name].features("arccos1", 4, 1, 0).fit(X)
        expected = shown.set_params(n_components=10, random_state=0).fit(X)
        ours, theirs = (
            " ".join(repr(one.rule_).split())
            .replace("reflect=False, ", "")
            .replace("reflect=False", "")
            for one in (fitted, expected)
        )
        assert ours == theirs


class TestFindings:
    def found(self, **by_method):
        table = TestSummary().errors(**by_method)
        return Findings([], errors=table)

    def test_the_headline_compares_with_plain_features(self):
        found = self.found(auto=[1.0, 1.0], paper=[2.0, 2.0], rff=[4.0, 4.0])
        assert found.headline() == (
            "At the same number of features, the kernel error is 4.0 times smaller with the "
            "automatic rule and 2.0 times smaller with the paper's rule than with random Fourier "
            "features."
        )
        (step, *_) = found.next_steps(ABOUT)
        assert step.code == 'rule="auto"'

    @pytest.mark.parametrize(("error", "words"), [(1.04, "4% larger"), (0.8, "20% smaller")])
    def test_small_differences_are_percentages(self, error, words):
        found = self.found(auto=[error, error], paper=[1.0, 1.0])
        assert found.headline() == (
            f"At the same number of features, the kernel error is {words} with the automatic rule "
            "than with the paper's rule."
        )

    def test_without_the_main_methods_it_counts_wins(self):
        found = self.found(orf=[1.0, 1.0, 1.0], rom=[2.0, 2.0, 0.5])
        assert found.headline() == (
            "The smallest kernel error in 2 of 3 pairs of dataset and kernel is that of orthogonal "
            "random features."
        )

    def test_a_method_alone_is_not_compared(self):
        outcome = runner.Outcome(CELLS[0], rows=[{}])
        found = Findings([outcome], errors=TestSummary().errors(rff=[1.0]))
        assert "nothing to compare" in found.headline()

    def test_a_rule_that_beats_the_automatic_one_is_the_next_step(self):
        found = self.found(auto=[2.0], orf=[1.0], rff=[4.0])
        assert 'QuadratureFeatures(rule="orf")' in [step.code for step in found.next_steps(ABOUT)]

    def test_one_dataset_is_in_the_singular(self):
        found = self.found(auto=[1.0], rff=[4.0])
        assert any("on 1 of 1 dataset." in line for line in found.bullets())

    def test_a_study_without_rows(self):
        found = Findings([])
        assert found.headline().startswith("No measurement")
        assert found.bullets() == []
        assert report.pictures(found) == []
        assert "No measurement" in report.build(found, [], ABOUT)
        assert digest.build(found, ABOUT).startswith("# The study")


class TestCommand:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["study", "kernel-eror"], "Did you mean 'kernel-error'?"),
            (["study", "--datasets", "digit"], "Did you mean 'digits'?"),
            (["study", "--kernels", "gausian"], "Did you mean 'gaussian'?"),
            (["study", "--methods", "G,Gor"], "Did you mean 'gort'?"),
            (["study", "--methods", "half-tild"], "Did you mean 'half-tilt'?"),
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

    def test_a_bad_data_file_is_rejected_before_anything_runs(self, tmp_path):
        np.savez(tmp_path / "letter.npz", X=np.full((30, 16), np.nan), y=np.ones(30))
        out = tmp_path / "out"
        done = command("study", "--datasets", "letter", "--data-dir", tmp_path, "--out", out)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "NaN" in done.stderr
        assert not out.exists()

    def test_a_study_that_can_run_nothing_gives_the_reason(self, tmp_path):
        rng = np.random.default_rng(0)
        np.savez(tmp_path / "leukemia.npz", X=rng.random((72, 20)), y=np.arange(72) % 2)
        chosen = ["--datasets", "leukemia", "--methods", "G", "--kernels", "gaussian"]
        out = tmp_path / "out"
        done = command("study", "accuracy", *chosen, "--data-dir", tmp_path, "--out", out)
        assert done.returncode == 0, done.stderr
        assert "No measurement could be made" in done.stdout
        assert "72 rows are too few" in (out / "report.html").read_text()
        assert (out / "summary.md").read_text().startswith("# The study")

    def test_data_list(self, tmp_path):
        done = command("data", "list", QUADFEAT_DATA="", QUADFEAT_CACHE=str(tmp_path))
        assert done.returncode == 0
        for name in data.CATALOGUE:
            assert name in done.stdout
        assert "quadfeat data fetch powerplant" in done.stdout

    def test_data_list_for_programs(self, tmp_path):
        done = command("data", "list", "--json", QUADFEAT_DATA="", QUADFEAT_CACHE=str(tmp_path))
        listed = {entry["name"]: entry for entry in json.loads(done.stdout)}
        assert set(listed) == set(data.CATALOGUE)
        assert listed["letter"]["found"] is None
        assert listed["digits"]["found"] == "in scikit-learn"

    @pytest.mark.parametrize("words", [["study"], ["data", "list"], ["data", "fetch"]])
    def test_help_has_examples_and_exit_codes(self, words):
        done = command(*words, "--help", width=80)
        assert f"Examples:\n    quadfeat {' '.join(words)}" in done.stdout
        assert "Exit codes:" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80

    def test_ctrl_c_keeps_what_is_finished(self, tmp_path):
        arguments = ["study", "kernel-error", "--datasets", "diabetes", "--jobs", "1"]
        arguments += ["--methods", "rff,orf", "--kernels", "gaussian", "--out", str(tmp_path)]
        running = subprocess.Popen(
            [sys.executable, "-m", "quadfeat", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        while not list(tmp_path.rglob("*.json")) and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, printed = running.communicate()
        assert running.returncode == 130
        assert "measurements are saved in" in printed
        assert "Run the same command to continue." in printed
        done = command(*arguments, draw=False)
        assert done.returncode == 0, done.stderr
        assert "of them from an earlier run" in done.stdout

    def test_failures_have_an_exit_code(self, tmp_path, monkeypatch, capsys):
        def fail(cell, effort):
            raise RuntimeError("no such luck")

        monkeypatch.setitem(experiments.EXPERIMENTS, "kernel-error", fail)
        arguments = {"datasets": ["diabetes"], "kernels": ["gaussian"], "methods": ["rff"]}
        with pytest.raises(SystemExit) as stopped:
            cli.study("kernel-error", **arguments, out=tmp_path, jobs=1)
        assert stopped.value.code == 1
        printed = capsys.readouterr()
        assert printed.err.count("no such luck") == 3
        assert "and 2 more failures" in printed.err

    def test_version(self):
        words = [sys.executable, "-m", "quadfeat", "--version"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("quadfeat ")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Run a small study of all three experiments. Return its folder and its output."""
    out = tmp_path_factory.mktemp("study")
    arguments = ["--datasets", "diabetes", "--methods", "auto,G,B,exact"]
    options = ["--out", out, "--jobs", "1"]
    done = command("study", "all", *arguments, *options, width=80, effort=SHORTEST)
    assert done.returncode == 0, done.stderr
    return out, arguments, done.stdout


@pytest.fixture(scope="module")
def finished(study):
    return study[0]


PICTURES = ("relative-error", "kernel-error", "accuracy", "walltime")


class TestReport:
    def test_all_files_are_there(self, finished):
        for name in ("kernel-error", "accuracy", "walltime"):
            table = pd.read_csv(finished / f"{name}.csv")
            assert {"seed", "quadfeat", "cpu", "threads", "configuration"} <= set(table.columns)
        for name in PICTURES:
            for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
                assert (finished / f"{name}.{kind}").read_bytes().startswith(start)
        assert json.loads((finished / "run.json").read_text())["seed"] == 0
        text = (finished / "summary.md").read_text()
        for title in ("The methods", "Who wins where", "Accuracy", "Growth with the dimension"):
            assert f"## {title}" in text

    def test_the_summary_fits_a_terminal(self, study):
        lines = study[2].splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        assert "the kernel error is" in study[2]
        assert lines[-1].startswith("Report: ")

    def test_results_for_programs(self, study, tmp_path):
        finished, arguments, _ = study
        out = shutil.copytree(finished, tmp_path / "again")
        options = ["--out", out, "--jobs", "1", "--json"]
        done = command("study", "all", *arguments, *options, effort=SHORTEST, draw=False)
        found = json.loads(done.stdout)
        assert found["headline"].startswith("At the same number of features")
        assert found["report"] == str(out / "report.html")
        assert found["failed"] == []
        assert found["kept"] == found["measurements"] + found["skipped"]
        assert {row["method"] for row in found["relative_errors"]} >= {AUTO, PAPER_RULE}
        assert len(found["winners"]) == len(found["accuracy"]) == 3

    def test_a_reference_has_no_n(self, finished):
        table = pd.read_csv(finished / "accuracy.csv")
        assert table[table["method"] == KERNEL_SVM]["n"].isna().all()
        assert (table["n"].dropna() > 0).all()

    def test_captions_explain_only_what_is_drawn(self):
        table = TestSummary().rows(1.0, 0.1, 0.1, draws=3)
        for as_published, circles in ((True, True), (False, False)):
            found = Findings(
                [], errors=summary.kernel_errors(table.assign(as_published=as_published))
            )
            (picture,) = [one for one in report.pictures(found) if one.name == "kernel-error"]
            labels = picture.figure("light").axes[0].get_legend_handles_labels()[1]
            assert ("Circles" in picture.caption) == circles
            assert ("Paper's rule, as published" in labels) == circles

    def test_the_main_methods_are_highlighted(self, finished):
        rows = pd.read_csv(finished / "kernel-error.csv")
        found = Findings([], errors=summary.kernel_errors(rows))
        for screen in ("wide", "narrow"):
            ax = report.pictures(found)[0].figure("light", screen).axes[0]
            bold = {
                label.get_text() for label in ax.get_yticklabels() if label.get_weight() == "bold"
            }
            assert bold == {"Automatic rule", "Paper's rule"}
        assert set(plots.HIGHLIGHTED) == {AUTO, PAPER_RULE}

    def test_it_needs_no_network(self, finished):
        assert_needs_no_network(finished / "report.html")

    def test_everyone_can_use_it(self, finished):
        assert_accessible(finished / "report.html")

    def test_in_a_browser(self, finished):
        for page in pages(finished / "report.html"):
            self.check_figures(page)
            self.check_headings(page)
            self.check_alignment(page)
            self.check_sorting(page)
            self.check_explanations(page)

    def check_figures(self, page):
        plots = page.locator("svg.plot:visible")
        assert plots.count() == len(PICTURES)
        for k in range(len(PICTURES)):
            assert plots.nth(k).bounding_box()["width"] > 300
            assert plots.nth(k).bounding_box()["height"] > 100
            assert len(plots.nth(k).get_attribute("aria-label")) > 50
        # No figure is wider than the screen, not even inside an element that scrolls.
        assert page.evaluate(
            "Array.from(document.querySelectorAll('svg.plot'))"
            ".every(plot => plot.getBoundingClientRect().right <= innerWidth)"
        )

    def check_headings(self, page):
        levels = [
            int(tag[1])
            for tag in page.eval_on_selector_all(
                "h1, h2, h3", "heads => heads.map(head => head.tagName)"
            )
        ]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        titles = page.locator("h2").all_inner_texts()
        assert titles.index("The methods") < titles.index("Who wins where")
        assert titles[-1] == "What to do next"

    def check_alignment(self, page):
        table = page.locator("section:has(h2:text('Who wins where')) table")
        for k, head in enumerate(table.locator("thead th").all()):
            cell = table.locator(f"tbody tr:first-child td:nth-child({k + 1})")
            sides = [one.evaluate("it => getComputedStyle(it).textAlign") for one in (head, cell)]
            assert sides[0] == sides[1]

    def check_sorting(self, page):
        details = page.locator("details:has(summary:text('All kernel errors'))")
        details.locator("summary").press("Enter")
        heads = details.locator("thead th")
        column = heads.all_inner_texts().index("error")
        cells = details.locator(f"tbody td:nth-child({column + 1})")
        values = "cells => cells.map(cell => parseFloat(cell.dataset.value))"
        unsorted = cells.evaluate_all(values)
        heads.nth(column).locator("button").press("Enter")
        assert cells.evaluate_all(values) == sorted(unsorted)
        assert heads.nth(column).get_attribute("aria-sort") == "ascending"
        heads.nth(column).locator("button").press("Enter")
        assert cells.evaluate_all(values) == sorted(unsorted, reverse=True)

    def check_explanations(self, page):
        term = page.locator("section:has(h2:text('Who wins where')) a.term").first
        tip = page.locator("#tip")
        assert not tip.is_visible()
        term.focus()
        assert tip.is_visible()
        explanations = {one.explanation for one in CONTESTANTS.values()}
        assert tip.inner_text() in explanations
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        assert page.locator(term.get_attribute("href")).is_visible()
