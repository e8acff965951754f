"""Test the accuracy benchmark: splits, scores, the cache and the verdicts on targets."""

import dataclasses
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import make_friedman1
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureRidgeClassifier

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def is_benchmark(module):
    return module.partition(".")[0] in {"accuracy", "contest", "tables"}


@pytest.fixture
def contest(monkeypatch):
    """Return a function that imports a module of the benchmark.

    The benchmark and the tests have modules of the same name. Afterwards each imports its own.
    """
    others = {name: sys.modules.pop(name) for name in list(sys.modules) if is_benchmark(name)}
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in list(sys.modules):
        if is_benchmark(name):
            del sys.modules[name]
    sys.modules.update(others)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with small tables under the names that the benchmark knows."""
    X, y = make_friedman1(400, noise=0.5, random_state=0)
    X = X.astype(np.float32)
    test = np.arange(400) % 4 == 0
    np.savez(tmp_path / "bike.npz", X=X, y=y, test=test)
    np.savez(tmp_path / "california.npz", X=X, y=y)
    np.savez(tmp_path / "kin40k.npz", X=X, y=y, test_fold=np.arange(400) % 10)
    np.savez(tmp_path / "letter.npz", X=X, y=y > 14, n_train=300)
    monkeypatch.setenv("QUADFEAT_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(contest, monkeypatch):
    """Return a function that runs the script with options and returns its exit status."""
    accuracy = contest("accuracy")

    def with_options(*options):
        monkeypatch.setattr(sys, "argv", ["accuracy.py", *map(str, options)])
        return accuracy.main()

    return with_options


def test_first_splits_are_the_usual_ones(contest, folder):
    data = contest("contest.data")
    expected = {
        "bike": np.arange(400) % 4 == 0,
        "california": np.random.default_rng(0).random(400) < 0.1,
        "kin40k": np.arange(400) % 10 == 0,
        "letter": np.arange(400) >= 300,
    }
    for table, is_test in expected.items():
        file = np.load(folder / f"{table}.npz")
        split = data.load(table, 0)
        np.testing.assert_array_equal(split.X, file["X"][~is_test])
        np.testing.assert_array_equal(split.y_test, file["y"][is_test])
        assert data.n_train(table, 0) == np.sum(~is_test)


def test_further_splits_are_random(contest, folder):
    data = contest("contest.data")
    for table in ("bike", "california", "kin40k", "letter"):
        train, test = data.rows(table, 3, data.read(table))
        np.testing.assert_array_equal(
            test, np.flatnonzero(np.random.default_rng(3).random(400) < 0.1)
        )
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(400))


def test_covtype_has_500_000_shuffled_training_rows(contest):
    data = contest("contest.data")
    train, test = data.rows("covtype", 0, {"y": np.zeros(581_012), "n_train": 15_120})
    order = np.random.default_rng(0).permutation(581_012)
    np.testing.assert_array_equal(np.r_[train, test], order)
    assert len(train) == 500_000


def test_other_units_scale_columns(contest, folder):
    data = contest("contest.data")
    usual, other = data.load("bike", 0), data.load("bike", 0, units=True)
    factors = data.factors(10)
    np.testing.assert_allclose(other.X, usual.X * factors, rtol=1e-6)
    assert factors.min() >= 1e-6
    assert factors.max() <= 1e6
    assert factors.max() / factors.min() > 1e3


def test_scores_of_distributions_agree_with_scipy(contest):
    scores = contest("contest.scores")
    rng = np.random.default_rng(0)
    mean, deviation = rng.standard_normal(5000), rng.uniform(0.5, 2, 5000)
    y = rng.normal(mean, deviation)
    likelihood = -stats.norm(mean, deviation).logpdf(y).mean()
    assert scores.of_distribution(y, mean, deviation, 1.0)["nll"] == pytest.approx(likelihood)
    # A density changes with the units of its argument.
    scaled = scores.of_distribution(7 * y, 7 * mean, 7 * deviation, 7.0)["nll"]
    assert scaled == pytest.approx(likelihood)
    reach = stats.norm.ppf(0.95) * deviation
    found = scores.of_interval(y, mean - reach, mean + reach, 2.0)
    assert found["coverage"] == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 5000))
    assert found["width"] == pytest.approx(reach.mean())


def test_prior_is_the_log_loss_of_a_dummy(contest):
    scores = contest("contest.scores")
    rng = np.random.default_rng(0)
    y_train, y = rng.choice(3, 500, p=[0.7, 0.2, 0.1]), rng.choice(3, 200)
    dummy = DummyClassifier(strategy="prior").fit(y_train, y_train)
    expected = log_loss(y, dummy.predict_proba(y), labels=[0, 1, 2])
    assert scores.of_prior(y_train, y)["prior_log_loss"] == pytest.approx(expected)
    assert scores.of_classifier(dummy, y, y)["log_loss"] == pytest.approx(expected)


def test_cache_keeps_the_last_result_and_drops_an_incomplete_line(contest, tmp_path):
    trials = contest("contest.trials")
    path = tmp_path / "build" / "accuracy.jsonl"
    cache, trial = trials.Cache(path), trials.Trial("bike", "boosting")
    cache.add(trial, {"r2": 0.5})
    cache.add(trial, {"r2": 0.6})
    cache.add(trials.Trial("bike", "boosting", seed=1), {"r2": 0.7})
    with path.open("a") as file:
        file.write('{"table": "bike", "contes')
    found = trials.Cache(path)
    assert found.results[trial] == {"r2": 0.6}
    assert len(found.results) == 2
    assert len(path.read_text().splitlines()) == 3


def test_verdicts_are_met_missed_or_not_measured(contest):
    targets, Trial = contest("contest.targets"), contest("contest.trials").Trial
    ours = {("quadfeat-4096", "kin40k"): 0.99, ("quadfeat-4096", "protein"): 0.5}
    results = {Trial(table, name): {"r2": r2} for (name, table), r2 in ours.items()}
    results |= {Trial(table, "boosting"): {"r2": 0.7} for table in ("kin40k", "protein")}
    results |= {Trial("kin40k", "default-4096"): {"r2": 0.9951}}
    for split in range(5):
        trial = Trial("kin40k", "quadfeat-4096", split=split)
        results[trial] = {"r2": 0.99, "coverage": 0.86 + split / 100}
    for seed in range(10):
        trial = Trial("kin40k", "quadfeat-4096", seed=seed)
        results[trial] = results.get(trial, {}) | {"r2": 0.99 - 0.002 * seed}
    found = {
        (one.table, one.target): one.met
        for one in targets.verdicts(results, ["kin40k", "protein"])
        if one.contestant == "quadfeat-4096"
    }
    assert found["kin40k", "r2 at least 0.982"] is True
    assert found["protein", "r2 at least 0.57"] is False
    assert found["kin40k", "not below HistGradientBoosting"] is True
    assert found["protein", "not below HistGradientBoosting"] is False
    assert found["kin40k", "at most 0.005 below the default"] is False
    assert found["protein", "at most 0.005 below the default"] is None
    assert found["kin40k", "coverage over 5 splits from 0.87 to 0.93"] is True
    assert found["kin40k", "spread over 10 seeds at most 0.01"] is False
    assert found["protein", "spread over 10 seeds at most 0.01"] is None


def test_only_ours_and_named_rivals_repeat(contest):
    accuracy, Trial = contest("accuracy"), contest("contest.trials").Trial
    planned = accuracy.trials(["bike"], ["all"], n_seeds=3, n_splits=2, units=True)
    assert {one.contestant for one in planned if one.seed or one.split or one.units} == {
        "quadfeat-1024",
        "quadfeat-4096",
        "front-door",
        "local",
    }
    assert len(planned) == len(set(planned))
    named = accuracy.trials(["bike"], ["boosting"], n_seeds=2, n_splits=2)
    assert named == [
        Trial("bike", "boosting"),
        Trial("bike", "boosting", seed=1),
        Trial("bike", "boosting", split=1),
    ]


def test_a_run_resumes_and_writes_tables(run, folder, capsys):
    options = ["--tables", "bike", "--contestants", "default-1024"]
    options += ["--cache", folder / "cache.jsonl", "--out", folder / "out"]
    assert run(*options) == 0
    assert "bike, default-1024: 0." in capsys.readouterr().out
    assert run(*options) == 0
    assert "bike, default-1024:" not in capsys.readouterr().out
    details = (folder / "out" / "accuracy-details.csv").read_text()
    assert details.startswith("table,contestant,R2,RMSE,NLL")
    assert '\nbike,"fixed kernel, 1,024",0.' in details


def test_results_of_a_trial_are_right(contest, folder):
    trials, data = contest("contest.trials"), contest("contest.data")
    found = trials.run(trials.Trial("letter", "default-1024"))
    split = data.load("letter", 0)
    model = make_pipeline(
        StandardScaler(),
        QuadratureRidgeClassifier(kernel="gaussian", n_components=1024, alpha=1.0, random_state=0),
    ).fit(split.X, split.y)
    assert found["accuracy"] == model.score(split.X_test, split.y_test)
    expected = roc_auc_score(split.y_test, model.decision_function(split.X_test))
    assert found["auc"] == pytest.approx(expected)
    expected = log_loss(split.y_test, model.predict_proba(split.X_test).astype(float))
    assert found["log_loss"] == pytest.approx(expected)
    assert found["megabytes"] > 50
    assert found["fit_seconds"] > 0


def test_missing_data_is_reported(run, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("QUADFEAT_DATA", raising=False)
    assert run() == 0
    assert "QUADFEAT_DATA is not set" in capsys.readouterr().out
    monkeypatch.setenv("QUADFEAT_DATA", str(tmp_path))
    assert run("--tables", "bike", "--contestants", "boosting", "--cache", tmp_path / "cache") == 0
    assert "bike, boosting: skipped: there is no file" in capsys.readouterr().out


def test_unknown_contestants_are_rejected(run, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("--contestants", "xgboost")
    assert "--contestants xgboost: choose among rbfsampler" in capsys.readouterr().err


def test_contestants_sit_out_with_a_reason(contest):
    contestants = contest("contest.contestants").CONTESTANTS
    assert "20,001 training rows" in contestants["exact"].reason_against("classes", 20_001)
    assert contestants["exact"].reason_against("classes", 20_000) is None
    assert "regression only" in contestants["svgp"].reason_against("classes", 100)
    missing = dataclasses.replace(contestants["lightgbm"], modules=("no_such_module",))
    assert "pip install no_such_module" in missing.reason_against("classes", 100)
