"""Test scores, CPU seconds, memory and the recommendation of ``quadfeat compare``."""

import json
import os
import time
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from sklearn import metrics
from sklearn.datasets import make_circles
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from quadfeat import KernelClassifier, KernelRegressor
from quadfeat.apps.compare import boosting, conclusions, contest, fitting, verdict
from quadfeat.apps.compare.boosting import HIST, LIGHTGBM
from quadfeat.apps.compare.contest import Problem
from quadfeat.apps.compare.contestants import (
    EXACT,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    NYSTROEM,
    RBF_SAMPLER,
)
from quadfeat.apps.compare.measuring import PeakMemory, cpu_seconds
from quadfeat.apps.compare.scoring import Coding, Prediction
from tables import FAST, command, people, save

SMALL = ["--components", "16", "--folds", "3", "--jobs", "1"]


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: threads of boosted trees block each other on a busy machine."""
    with threadpool_limits(1):
        yield


def softmax(values):
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


class TestMetrics:
    @pytest.mark.parametrize("n_classes", [2, 3, 5])
    def test_classes(self, n_classes):
        rng = np.random.default_rng(n_classes)
        names = np.array([f"class {k}" for k in range(n_classes)])
        y = rng.choice(names, 300)
        probabilities = softmax(rng.standard_normal((300, n_classes)) + (y[:, None] == names))
        values = probabilities if n_classes > 2 else probabilities[:, 1:] - 0.5
        found = Coding("accuracy", y).scores(Prediction(values, probabilities), y)
        chosen = names[probabilities.argmax(axis=1)]
        second = probabilities if n_classes > 2 else probabilities[:, 1]
        expected = {
            "accuracy": metrics.accuracy_score(y, chosen),
            "balanced_accuracy": metrics.balanced_accuracy_score(y, chosen),
            "auc": metrics.roc_auc_score(y, second, multi_class="ovr", average="macro"),
            "log_loss": metrics.log_loss(y, probabilities),
        }
        assert_allclose(list(found.values()), [expected[name] for name in found])

    def test_numbers(self):
        rng = np.random.default_rng(0)
        y, predicted = rng.standard_normal((2, 100))
        found = Coding("r2", y).scores(Prediction(predicted[:, None]), y)
        assert_allclose(found["r2"], metrics.r2_score(y, predicted))
        assert_allclose(found["rmse"], metrics.root_mean_squared_error(y, predicted))

    def test_decisions_alone_have_an_auc_but_no_log_loss(self):
        y = np.array(["a", "b"] * 20)
        decisions = np.random.default_rng(0).standard_normal((40, 1))
        found = Coding("auc", y).scores(Prediction(decisions), y)
        assert_allclose(found["auc"], metrics.roc_auc_score(y == "b", decisions[:, 0]))
        assert np.isnan(found["log_loss"])

    def test_a_class_without_training_rows(self):
        train, test = np.array([0.0, 1.0] * 10), np.array([0.0, 1.0, 2.0])
        found = Coding("auc", train).guess(3)
        scores = Coding("auc", train).scores(found, test)
        eps = np.finfo(float).eps
        assert_allclose(scores["log_loss"], (2 * np.log(2) - np.log(eps)) / 3)
        assert_allclose(scores["auc"], 0.5)

    def test_the_constant_prediction_is_the_prior(self):
        y = np.repeat(["a", "b", "c"], [50, 30, 20])
        scores = Coding("log-loss", y).scores(Coding("log-loss", y).guess(100), y)
        shares = np.array([0.5, 0.3, 0.2])
        assert_allclose(scores["log_loss"], -(shares * np.log(shares)).sum())
        assert (scores["accuracy"], scores["auc"]) == (0.5, 0.5)


class TestMeasuring:
    def test_sleep_takes_no_cpu_time(self):
        start, wall = cpu_seconds(), time.perf_counter()
        time.sleep(0.3)
        asleep = cpu_seconds() - start
        assert asleep < 0.5 * (time.perf_counter() - wall)
        start, clock = cpu_seconds(), time.process_time()
        while time.process_time() < clock + 0.05:
            sum(range(1000))
        assert cpu_seconds() - start >= 0.05

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX")
    def test_children_count(self):
        import subprocess
        import sys

        code = "import time\nwhile time.process_time() < 0.3: pass"
        start = cpu_seconds()
        subprocess.run([sys.executable, "-S", "-c", code], check=True)
        assert cpu_seconds() - start >= 0.29  # clocks have different resolutions

    def test_memory_excludes_earlier_allocations(self):
        if np.isnan(PeakMemory().megabytes()):
            pytest.skip("this system cannot measure it")
        before = np.ones(8_000_000)
        peak = PeakMemory()
        del before
        block = np.ones(4_000_000)  # 30.5 MB
        del block
        assert peak.megabytes() < 60
        peak = PeakMemory()
        block = np.ones(16_000_000)  # 122 MB
        assert 110 < peak.megabytes() < 150
        del block
        assert 110 < peak.megabytes() < 150  # the peak is kept


def circles(scoring="accuracy", n=160):
    X, y = make_circles(n, noise=0.1, factor=0.5, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    return Problem(frame, y, scoring, folds=3, components=16, settings=FAST)


class TestContestants:
    def test_the_kernel_model_gets_the_columns_of_the_file(self):
        problem = circles()
        problem.rows["side"] = np.where(problem.rows["a"] > 0, "right", None)
        fold = problem.fold(0)
        assert_allclose(fold.X_train.std(axis=0), 1.0)
        assert list(fold.train) == ["a", "b", "side"]
        assert_array_equal(fold.test["side"].isna(), fold.test["a"] <= 0)
        row = contest.run_cell(problem, contest.Cell(MODEL, 0))
        model = KernelClassifier(**FAST, random_state=contest.seed_of(0, MODEL, 0))
        model.fit(fold.train, fold.y_train)
        assert row["accuracy"] == model.score(fold.test, fold.y_test)
        expected = metrics.log_loss(fold.y_test, model.predict_proba(fold.test))
        assert_allclose(row["log_loss"], expected)
        (place,), (best,) = row["leaderboard"], model.leaderboard_
        assert (place["candidate"], place["loss"]) == (best.name, best.loss)

    def test_boosted_trees_have_their_defaults(self):
        problem = circles()
        fold = problem.fold(0)
        row = contest.run_cell(problem, contest.Cell(HIST, 0))
        model = HistGradientBoostingClassifier(random_state=contest.seed_of(0, HIST, 0))
        model.fit(fold.X_train, fold.y_train)
        expected = metrics.log_loss(fold.y_test, model.predict_proba(fold.X_test))
        assert_allclose(row["log_loss"], expected)
        assert row["accuracy"] == model.score(fold.X_test, fold.y_test)

    @pytest.mark.skipif(find_spec("lightgbm") is None, reason="needs lightgbm")
    def test_lightgbm(self):
        import lightgbm

        problem = circles()
        fold = problem.fold(0)
        row = contest.run_cell(problem, contest.Cell(LIGHTGBM, 0))
        seed = contest.seed_of(0, LIGHTGBM, 0)
        model = lightgbm.LGBMClassifier(random_state=seed, verbose=-1, n_jobs=1)
        model.fit(fold.X_train, fold.y_train)
        expected = metrics.log_loss(fold.y_test, model.predict_proba(fold.X_test))
        assert_allclose(row["log_loss"], expected)

    def test_without_lightgbm_the_others_take_part(self, monkeypatch):
        monkeypatch.setattr(boosting, "find_spec", lambda name: None)
        cells = contest.cells_of(circles())
        assert {cell.contestant for cell in cells} == {
            *(GUESS, LINEAR, MODEL, HIST, EXACT),
            *MAPS,
        }

    def test_boosted_trees_run_on_one_thread(self, monkeypatch):
        limits = []

        def fit(*_, **settings):
            pools = threadpool_info()
            limits.extend(p["num_threads"] for p in pools if p["user_api"] == "openmp")
            raise ValueError("enough")

        monkeypatch.setattr(fitting, "fit_booster", fit)
        row = contest.run_cell(circles(), contest.Cell(HIST, 0))
        assert row["failed"] == "ValueError: enough"
        assert limits
        assert set(limits) == {1}

    def test_regression(self):
        problem = circles("rmse")
        problem.y = problem.rows["a"].to_numpy() ** 2
        fold = problem.fold(0)
        row = contest.run_cell(problem, contest.Cell(HIST, 0))
        model = HistGradientBoostingRegressor(random_state=contest.seed_of(0, HIST, 0))
        model.fit(fold.X_train, fold.y_train)
        error = metrics.root_mean_squared_error(fold.y_test, model.predict(fold.X_test))
        assert_allclose([row["rmse"], row["score"]], error)


def fold_scores(means, spread=0.01):
    """Return correlated scores of four folds. ``spread`` is their standard error."""
    wave = 2 * np.array([-1, -1, 1, 1]) * np.sqrt(3 / 4)
    return pd.DataFrame({key: mean + spread * wave for key, mean in means.items()})


def noise_of(n_models, error):
    """Return differences of four folds with mean 0 and this standard error."""
    noise = np.random.default_rng(0).standard_normal((4, n_models))
    return 2 * error * (noise - noise.mean(axis=0)) / noise.std(axis=0, ddof=1)


class TestVerdict:
    @pytest.mark.parametrize(
        ("means", "expected"),
        [
            ({LINEAR: 0.5, NYSTROEM: 0.80, MODEL: 0.81}, MODEL),  # it has the best score
            ({LINEAR: 0.5, MODEL: 0.80, HIST: 0.805}, MODEL),  # trees are not clearly better
            ({LINEAR: 0.5, MODEL: 0.80, HIST: 0.83}, HIST),
            ({LINEAR: 0.5, MODEL: 0.80, LIGHTGBM: 0.83, HIST: 0.82}, LIGHTGBM),
            ({LINEAR: 0.5, MODEL: 0.75, NYSTROEM: 0.80}, NYSTROEM),
            ({LINEAR: 0.80, MODEL: 0.801, HIST: 0.79}, LINEAR),  # the simplest one
            ({LINEAR: 0.70, MODEL: 0.80, HIST: 0.79}, MODEL),
            ({LINEAR: 0.5, MODEL: 0.80, EXACT: 0.9}, MODEL),  # a reference
            ({LINEAR: 0.5, HIST: 0.6}, HIST),  # the kernel model failed
        ],
    )
    def test_recommended_model(self, means, expected):
        scores = fold_scores(means)
        scores += noise_of(len(means), 0.007)  # standard errors of differences of about 0.01
        found = verdict.decide(scores)
        assert found.key == expected
        assert found.rival not in (expected, EXACT)
        assert found.best == max((one for one in means if one != EXACT), key=means.get)

    def test_differences_are_paired(self):
        scores = fold_scores({MODEL: 0.80, NYSTROEM: 0.801})
        assert verdict.difference(scores, NYSTROEM, MODEL).words == "better than"
        assert verdict.difference(scores, MODEL, MODEL).words == "as good as"
        assert verdict.difference(scores, MODEL, NYSTROEM).words == "worse than"
        scores[NYSTROEM] = scores[MODEL] * (1 + 1e-7)  # the same predictions, up to rounding
        assert verdict.difference(scores, NYSTROEM, MODEL).words == "as good as"

    def test_no_better_than_guessing(self):
        scores = fold_scores({GUESS: 0.5, LINEAR: 0.5, MODEL: 0.5, HIST: 0.5})
        scores.iloc[:, 1:] += noise_of(3, 0.005) + 0.009
        assert verdict.decide(scores).hopeless
        scores[HIST] = scores[GUESS] + 1e-9  # predicts the mean, up to rounding
        assert verdict.decide(scores).hopeless
        scores[LINEAR] += 0.002
        assert not verdict.decide(scores).hopeless

    def test_a_smaller_error_is_better(self):
        rows = pd.DataFrame(
            {
                "score": [3.0, 2.0, 1.0] * 2,
                "contestant": [LINEAR, MODEL, NYSTROEM] * 2,
                "fold": [0, 0, 0, 1, 1, 1],
                "failed": "",
            }
        )
        scores = verdict.scores_by_fold(rows, -1)
        assert verdict.decide(scores).key == NYSTROEM
        assert verdict.difference(scores, NYSTROEM, MODEL).words == "better than"

    def test_contestants_without_the_score_are_not_ranked(self):
        rows = pd.DataFrame(
            {
                "contestant": [MODEL, RBF_SAMPLER],
                "fold": 0,
                "score": [0.5, np.nan],
                "failed": "",
            }
        )
        assert list(verdict.scores_by_fold(rows, -1).columns) == [MODEL]


class TestEdges:
    @pytest.mark.parametrize(
        ("value", "word"), [(0.001, "smallest"), (100.0, "largest"), (1.0, None)]
    )
    def test_a_value_at_the_edge_is_named(self, value, word):
        lines = conclusions.edge("alpha", "Linear model", value, fitting.PENALTIES)
        assert len(lines) == (word is not None)
        assert all(f"alpha = {value:g} is the {word} value" in line for line in lines)


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Return the folder of a comparison on a noise target by RMSE, and its output."""
    folder = tmp_path_factory.mktemp("noise")
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((150, 3)), columns=["a", "b", "c"])
    save(frame.assign(y=rng.standard_normal(150)), folder / "noise.csv")
    arguments = ["--target", "y", "--scoring", "rmse", "--out", folder / "out", *SMALL]
    done = command(folder / "noise.csv", *arguments, draw=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """Return a comparison by log loss on steps, which suit trees but not smooth kernels."""
    folder = tmp_path_factory.mktemp("steps")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((300, 4)).round(4), columns=["a", "b", "c", "d"])
    steps = (frame["a"] * 3).astype(int) + (frame["b"] * 3).astype(int)
    save(frame.assign(kind=np.where(steps % 2, "odd", "even")), folder / "steps.csv")
    arguments = ["--target", "kind", "--scoring", "log-loss", "--out", folder / "out", *SMALL]
    arguments += ["--folds", "2"]
    done = command(folder / "steps.csv", *arguments, draw=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


class TestCommand:
    def test_noise_warns(self, noise):
        folder, text = noise
        told = " ".join(text.split())
        assert "Warning No model beats a constant prediction, the mean of the target" in told
        assert "No model is recommended" in told
        page = (folder / "out" / "report.html").read_text()
        assert "No model predicts y better than a constant." in page
        for absent in ("Inside the kernel model", "\n>", "\nCode"):  # no model is recommended
            assert absent not in text
        assert "Inside the kernel model" in page
        assert len(text.splitlines()) < 26  # with introduction and progress bar

    def test_files_have_all_columns(self, noise):
        folder, _ = noise
        rows = pd.read_csv(folder / "out" / "scores.csv")
        assert {"r2", "rmse", "fit_cpu_seconds", "predict_cpu_seconds", "peak_memory_mb"} <= {
            *rows.columns
        }
        assert_array_equal(rows["score"], rows["rmse"])
        assert {MODEL, HIST} <= {*rows["contestant"]}
        result = json.loads((folder / "out" / "run.json").read_text())["result"]
        assert result["scoring"] == "rmse"
        assert any("constant" in line for line in result["warnings"])
        assert not result["recommendation"]["beats_constant"]
        guess = next(one for one in result["contestants"] if one["contestant"] == GUESS)
        assert_allclose(guess["rmse"], rows[rows["contestant"] == GUESS]["rmse"].mean())
        assert guess["fit_cpu_seconds"] is None

    def test_models_without_probabilities_are_not_ranked(self, losses):
        folder, text = losses
        told = " ".join(text.split())
        assert "Without log loss: the linear model, random Fourier features, Nyström" in told
        page = (folder / "out" / "report.html").read_text(encoding="utf-8")
        assert "<td class='number' data-value='nan'>\N{EN DASH}</td>" in page
        rows = pd.read_csv(folder / "out" / "scores.csv")
        played = rows.groupby("contestant")["log_loss"].mean()
        assert played[[LINEAR, RBF_SAMPLER, NYSTROEM, EXACT]].isna().all()
        assert played[[GUESS, MODEL, HIST]].notna().all()

    def test_the_margin_over_the_best_rival(self, losses):
        folder, text = losses
        result = json.loads((folder / "out" / "run.json").read_text())["result"]
        rows = pd.read_csv(folder / "out" / "scores.csv")
        scores = verdict.scores_by_fold(rows.assign(failed=""), -1)
        decided = verdict.decide(scores)
        assert result["recommendation"]["contestant"] == decided.key
        rival = result["recommendation"]["rival"]
        gap = verdict.difference(scores, decided.key, rival["contestant"])
        assert f"{abs(gap.mean):.4f} ± {gap.error:.4f}" in " ".join(text.split())
        assert gap.probability == result["recommendation"]["probability_better_than_rival"]

    def test_how_sure_it_is_depends_on_the_rival_most_likely_to_be_better(self):
        steady = fold_scores({MODEL: 0.80, NYSTROEM: 0.79, RBF_SAMPLER: 0.78})
        steady[RBF_SAMPLER] += [0.02, -0.02, 0.02, -0.02]
        scores = steady + noise_of(3, 1e-4)
        found = SimpleNamespace(
            verdict=verdict.decide(scores),
            rival=NYSTROEM,
            entries=verdict.ranking(scores),
            form=".4f",
            difference=lambda one, other: verdict.difference(scores, one, other),
        )
        text = conclusions.sureness(found)
        assert text.startswith("Likely: it beats Nyström features with probability over 99%")
        least = verdict.difference(scores, MODEL, RBF_SAMPLER).probability
        assert text.endswith(f"and random Fourier features with probability {least:.0%}.")

    @pytest.mark.parametrize(
        ("scoring", "message"),
        [("rmse", "Choose accuracy, balanced-accuracy, auc or log-loss"), ("roc", "auc")],
    )
    def test_a_score_of_another_task(self, tmp_path, scoring, message):
        path = save(people(), tmp_path / "people.csv")
        done = command(path, "--target", "buys", "--scoring", scoring, "--out", tmp_path / "out")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert message in done.stderr


def test_the_default_model_has_the_settings_of_the_script():
    model = fitting.default_model("regression", balanced=False, seed=3)
    expected = KernelRegressor(**fitting.MODEL_SETTINGS, random_state=3)
    assert model.get_params() == expected.get_params()
