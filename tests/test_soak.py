"""Run a few trials of every soak scenario, and check that each finds injected faults.

``make soak`` runs the same scenarios for a longer time.
"""

import doctest
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import quadfeat
from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.data.blocks import is_dask
from quadfeat.maps import QuadratureMap
from slow import repeats
from soak import cli, flips, loky, processes, runner, threads
from soak.clusters import Clusters
from soak.flips import Flips
from soak.forks import Forks
from soak.kills import Kills, Work
from soak.loky import Loky
from soak.studies import Studies
from soak.threads import Threads

ROOT = Path(__file__).parents[1]


def log_of(scenario, *numbers):
    log = runner.run(scenario, numbers)
    if log.skipped is not None:
        pytest.skip(log.skipped)
    assert log.trials == len(numbers)
    return log


def assert_nothing_found(log):
    assert not log.findings, runner.findings([log])


def assert_found(log, *messages):
    for message in messages:
        assert any(message in finding.what for finding in log.findings), runner.findings([log])


class TestThreads:
    @pytest.mark.parametrize("kind", repeats([2, 0, 1]))
    def test_find_nothing(self, kind):
        log = log_of(Threads(), *range(kind, 15, 3))
        assert_nothing_found(log)
        assert log.events["merge" if kind == 2 else "uses"] > 5

    def test_find_lost_rows(self, monkeypatch):
        for model in (QuadratureRidge, QuadratureRidgeClassifier):

            def lossy(self, X, y, *, real=model.partial_fit):
                in_thread = threading.current_thread() is not threading.main_thread()
                return self if in_thread else real(self, X, y)

            monkeypatch.setattr(model, "partial_fit", lossy)
        assert_found(log_of(Threads(), 0), "calls were lost without an error")

    def test_find_mixed_states(self, monkeypatch):
        for model in (QuadratureRidge, QuadratureRidgeClassifier):

            def mixed(self, X, *, real=model._decisions):
                in_thread = threading.current_thread() is not threading.main_thread()
                return real(self, X) + 0.01 * in_thread

            monkeypatch.setattr(model, "_decisions", mixed)
        for kind in (0, 1):
            assert_found(log_of(Threads(), kind), "matches no state of the model")

    def test_find_errors_and_deadlocks(self, monkeypatch):
        unlocked = threading.Event()

        def waits(self, other):
            unlocked.wait()

        monkeypatch.setattr(QuadratureRidge, "merge", waits)
        monkeypatch.setattr(threads, "PATIENCE", 0.5)
        assert_found(log_of(Threads(), 2), "threads are stuck", "in waits")
        unlocked.set()

        def fails(self, other):
            raise IndexError("out of range")

        monkeypatch.setattr(QuadratureRidge, "merge", fails)
        assert_found(log_of(Threads(), 2), "IndexError: out of range")


def leave_checkpoints():
    """Break the end of a fit in a child process."""
    from quadfeat.data.checkpoints import Checkpoint

    Checkpoint.remove = lambda self: None


def change_resumed_models():
    """Break fits that resume from a checkpoint in a child process."""
    real = Work.fit

    def fit(self, checkpoint, parquet):
        resumed = checkpoint is not None and checkpoint.exists()
        model = real(self, checkpoint, parquet)
        factor = 2.0 if resumed else 1.0
        return SimpleNamespace(
            coef_=factor * model.coef_, intercept_=model.intercept_, n_iter_=model.n_iter_
        )

    Work.fit = fit


class TestKills:
    @pytest.mark.parametrize("number", repeats([0, 3, 4, 7, 9, 12]))
    def test_find_nothing(self, number):
        log = log_of(Kills(), number)
        assert_nothing_found(log)
        assert log.events["kill"] + log.events["fit faster than its kill"] > 0

    def test_find_files_that_are_not_removed(self):
        assert_found(log_of(Kills(leave_checkpoints), 0), "left ['state'] behind")

    def test_find_other_models(self):
        assert_found(log_of(Kills(change_resumed_models), 0), "a different model after kills")

    def test_find_crashes(self):
        assert_found(log_of(Kills(os.abort), 0), "was ended by SIGABRT")


class TestFlips:
    @pytest.mark.parametrize("number", repeats([0, 1, 2]))
    def test_find_nothing(self, number):
        log = log_of(Flips(), number)
        assert_nothing_found(log)
        assert sum(log.events.values()) > 40

    def test_find_a_load_that_accepts_anything(self, monkeypatch):
        other = QuadratureFeatures(n_components=8, random_state=1).fit(np.ones((3, 3)))
        monkeypatch.setattr(quadfeat, "load", lambda path: other)
        assert_found(log_of(Flips(isolated=False), 0), "loads as another model")

    def test_find_a_load_that_raises_the_wrong_error(self, monkeypatch):
        def load(path, error):
            raise error

        monkeypatch.setattr(quadfeat, "load", lambda path: load(path, IndexError("no")))
        assert_found(log_of(Flips(isolated=False), 0), "raises IndexError: no")
        monkeypatch.setattr(quadfeat, "load", lambda path: load(path, ValueError("no")))
        assert_found(log_of(Flips(isolated=False), 0), "rejected without naming the file: no")

    @pytest.mark.parametrize(
        ("number", "message"), [(1, "another model without an error"), (2, "the model is wrong")]
    )
    def test_find_checkpoints_that_accept_any_fit(self, monkeypatch, number, message):
        real = QuadratureRidge.fit

        def fit(self, X, y=None, sample_weight=None):
            if self.checkpoint is not None and self.checkpoint.exists():
                self.set_params(alpha=0.2, checkpoint=None)
            return real(self, X, y, sample_weight)

        monkeypatch.setattr(QuadratureRidge, "fit", fit)
        assert_found(log_of(Flips(isolated=False), number), message)

    def test_find_crashes(self, monkeypatch):
        monkeypatch.setattr(flips, "ATTACKS", [crash])
        assert_found(log_of(Flips(), 0), "was ended by SIGSEGV", "in crash")


def crash(rng, folder):
    os.kill(os.getpid(), signal.SIGSEGV)


class TestProcesses:
    @pytest.fixture(autouse=True)
    def possible(self):
        if reason := processes.missing():
            pytest.skip(reason)

    def test_a_call_in_a_child_returns_or_raises(self):
        assert processes.call(divmod, 7, 2) == (3, 1)
        with pytest.raises(processes.Failed, match="ZeroDivisionError"):
            processes.call(divmod, 7, 0)

    def test_a_call_that_is_stuck_shows_where(self):
        with pytest.raises(processes.Failed, match=r"is stuck:\n(.|\n)*_answer"):
            processes.call(time.sleep, 3600, patience=1.0)


@pytest.fixture(scope="module")
def cluster():
    scenario = Clusters()
    if reason := scenario.missing():
        pytest.skip(reason)
    with scenario.cluster():
        yield scenario


class TestClusters:
    @pytest.fixture
    def scenario(self, cluster, monkeypatch):
        monkeypatch.setattr(cluster, "session", nullcontext)  # the cluster already runs
        return cluster

    def test_find_nothing(self, scenario):
        log = log_of(scenario, 0, 1, 2)
        assert_nothing_found(log)
        assert log.events["killed worker"] > 0
        assert log.events["spilled bytes"] > 0

    def test_find_lost_rows(self, scenario, monkeypatch):
        for model in (QuadratureRidge, QuadratureRidgeClassifier):

            def lossy(self, X, y, *, real=model.fit):
                return real(self, X[50:], y[50:]) if is_dask(X) else real(self, X, y)

            monkeypatch.setattr(model, "fit", lossy)
        assert_found(log_of(scenario, 1), "coef_ differs between a Dask fit")


def depend_on_process():
    """Change the numbers of a study in a child process."""
    from quadfeat.apps.study import experiments

    real = experiments.EXPERIMENTS["kernel-error"]

    def kernel_error(cell, effort):
        return [{**row, "error": row["error"] + os.getpid()} for row in real(cell, effort)]

    experiments.EXPERIMENTS["kernel-error"] = kernel_error


class TestStudies:
    @pytest.mark.slow  # tests/test_study.py kills and resumes a study too
    def test_find_nothing(self):
        log = log_of(Studies(), 0)
        assert_nothing_found(log)
        assert log.events["kill"] + log.events["command faster than its kill"] > 0

    def test_find_other_numbers_and_files(self, tmp_path):
        trial = runner.Trial(0, np.random.default_rng(0), tmp_path)
        whole, killed = tmp_path / "whole", tmp_path / "killed"
        for out in (whole, killed):
            out.mkdir()
            for name, content in {
                "kernel-error.csv": "1",
                "a.json": '{"rows": [1]}',
                "b.json": "{}",
                "report.html": "page",
            }.items():
                (out / name).write_text(content)
        Studies().compare(trial, whole, killed, "study")
        assert trial.findings == []
        (killed / "kernel-error.csv").write_text("2")
        (killed / "a.json").write_text('{"rows": [2]}')
        (killed / "b.json").write_text("{")
        (killed / "report.html").write_text("")
        (killed / ".a.json.0123456789abcdef").write_text("")
        Studies().compare(trial, whole, killed, "study")
        for message in (
            "the files of study differ: ['.a.json.0123456789abcdef']",
            "kernel-error.csv has different numbers",
            "a.json has different rows",
            "b.json is damaged",
            "report.html is empty",
        ):
            assert any(message in finding for finding in trial.findings), trial.findings

    def test_find_numbers_that_depend_on_the_process(self):
        assert_found(
            log_of(Studies(depend_on_process), 0), "kernel-error.csv has different numbers"
        )


class TestForks:
    def test_find_nothing(self):
        log = log_of(Forks(), 0, 1, 2)
        assert_nothing_found(log)
        assert sum(log.events.values()) == 18

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            (lambda: time.sleep(3600), "is stuck:\n"),
            (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended with code -9"),
            (lambda: 1 / 0, "ZeroDivisionError"),
            (lambda: 1.0, "gave different numbers in a forked child"),
        ],
    )
    def test_find_faults_of_children(self, fault, message, monkeypatch):
        real, parent = QuadratureMap.write, os.getpid()

        def write(self, X, out):
            real(self, X, out)
            if os.getpid() != parent:
                out += fault()

        monkeypatch.setattr(QuadratureMap, "write", write)
        monkeypatch.setattr("soak.forks.FORKS", 3)
        assert_found(log_of(Forks(patience=3.0), 0), message)


class TestLoky:
    def test_find_nothing(self):
        log = log_of(Loky(), 0, 1)
        assert_nothing_found(log)
        assert log.events["fit in a worker"] > 18

    def test_find_other_numbers_in_workers(self, monkeypatch):
        real, parent = loky.fit_and_use, os.getpid()

        def fit_and_use(model, X, y):
            return [result + (os.getpid() != parent) for result in real(model, X, y)]

        monkeypatch.setattr(loky, "fit_and_use", fit_and_use)
        assert_found(log_of(Loky(), 0), "a worker and a single process gave different numbers")


class Fails(runner.Scenario):
    """Fail in every second trial."""

    name = "fails"

    def run(self, trial):
        trial.count("attempt")
        if trial.number % 2:
            raise KeyError(int(trial.rng.integers(1000)))


class TestRunner:
    def test_an_error_is_a_finding_and_does_not_stop_the_run(self):
        log = runner.run(Fails(), range(4), seed=7)
        assert (log.trials, log.events["attempt"]) == (4, 4)
        assert [finding.trial for finding in log.findings] == [1, 3]
        text = runner.findings([log])
        assert "KeyError" in text
        assert "to repeat: python -m soak --only fails --seed 7 --trial 3" in text
        # A trial does not depend on earlier trials.
        (again,) = runner.run(Fails(), [3], seed=7).findings
        assert again == log.findings[1]

    def test_scenarios_that_cannot_run_are_skipped_with_a_reason(self, monkeypatch):
        monkeypatch.setattr(Fails, "missing", lambda self: "no luck here")
        log = runner.run(Fails(), range(4))
        assert log.trials == 0
        assert "skipped: no luck here" in runner.table([log])

    @pytest.mark.parametrize("module", [runner, threads])
    def test_examples(self, module):
        assert doctest.testmod(module).failed == 0


class TestCommand:
    def test_a_trial_is_repeated(self, capsys):
        if not hasattr(os, "fork"):
            pytest.skip("this system has no fork")
        assert cli.main(["--only", "forks", "--trial", "2"]) == 0
        printed = capsys.readouterr().out
        assert "forks: Fork while threads" in printed
        assert "scenario  trials  findings  tried\nforks          1         0  " in printed

    def test_a_crash_of_a_scenario_is_a_finding(self):
        scenario = cli.Isolated("no such scenario", seed=0)
        scenario.run(0.0, trial=5)
        (finding,) = scenario.log.findings
        assert "ended with code 1" in finding.what

    @pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
    def test_an_interrupt_prints_the_results_so_far(self):
        command = [sys.executable, "-m", "soak", "--seconds", "3600", "--only", "threads"]
        running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert running.stdout.readline().startswith("quadfeat")
        assert running.stdout.readline().startswith("threads")
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate()
        assert "interrupted" in rest
        assert "scenario  trials" in rest
        assert running.returncode == 130
