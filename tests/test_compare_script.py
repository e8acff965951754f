"""Test the script that ``quadfeat compare`` writes: it uses public names only, and it runs."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from sklearn.metrics import log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

from quadfeat import KernelClassifier, KernelRegressor
from quadfeat import load as load_model
from quadfeat.apps.compare import contest, fitting, snippet
from quadfeat.apps.compare.contestants import (
    HIST,
    LIGHTGBM,
    LINEAR,
    MODEL,
    NYSTROEM,
    RBF_SAMPLER,
)
from quadfeat.apps.compare.snippet import Recipe
from quadfeat.apps.compare.table import load
from slow import slow
from tables import FAST, people, run_script, save

# Scripts need the requirements of quadfeat, and pandas to read the table.
EXTRAS = {"typer", "rich", "matplotlib", "pyarrow", "openpyxl", "dask", "skrub", "jinja2", "pooch"}
WITHOUT_EXTRAS = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {EXTRAS}:
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
"""

RIVALS = [
    LINEAR,
    RBF_SAMPLER,
    NYSTROEM,
    HIST,
    pytest.param(
        LIGHTGBM,
        marks=pytest.mark.skipif(find_spec("lightgbm") is None, reason="needs lightgbm"),
    ),
]


def recipe(contestant):
    return Recipe(contestant, alpha=0.1, gamma=0.5, n_components=32)


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread: threads of boosted trees block each other on a busy machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a script and returns its variables and its score."""

    def run(script):
        scope, printed = run_script(tmp_path, script)
        return scope, float(printed)

    return run


@pytest.fixture
def fast(monkeypatch):
    """Skip the contest of the kernel model."""
    for name, value in FAST.items():
        monkeypatch.setitem(fitting.MODEL_SETTINGS, name, value)


class TestRivals:
    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("scoring", ["balanced-accuracy", "r2", slow("accuracy")])
    @pytest.mark.parametrize("contestant", RIVALS)
    def test_it_imports_public_names_only_and_runs(self, tmp_path, run, contestant, scoring):
        frame = people(300)
        if scoring == "r2":
            frame["buys"] = (frame["age"] - 50) ** 2
        table = load(save(frame, tmp_path / "people.csv"), "buys")
        script = snippet.build(table, recipe(contestant), scoring)
        check_imports(script)
        score = run(script)[1]
        assert score > (0.55 if contestant != LINEAR and scoring != "r2" else -0.1)

    @pytest.mark.parametrize("contestant", [LINEAR, RBF_SAMPLER, NYSTROEM])
    def test_it_fits_the_model_of_the_contest(self, tmp_path, run, contestant):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 3))
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(400)
        np.savez(tmp_path / "sine.npz", X=X, y=y)
        table = load(tmp_path / "sine.npz", "y")
        problem = contest.Problem(table.rows, table.y, "r2", folds=2, components=64)
        fold, seed = problem.fold(0), contest.seed_of(0, contestant, 0)
        if contestant == LINEAR:
            fit = fitting.fit_linear(fold.X_train, fold.y_train[:, None])
        else:
            fit = fitting.fit_map(
                contestant, fold.X_train, fold.y_train[:, None], size=64, seed=seed
            )
        chosen = Recipe(contestant, fit.alpha, fit.gamma, 64, seed)
        pipe = run(snippet.build(table, chosen))[0]["model"]
        pipe.fit(fold.train, fold.y_train)
        assert_allclose(pipe.predict(fold.test), fit.predict(fold.X_test)[:, 0], atol=1e-6)


class TestScores:
    """The script prints the score that ranked the models."""

    @pytest.mark.parametrize("contestant", [LINEAR, RBF_SAMPLER, HIST])
    @pytest.mark.parametrize("classes", [2, 3])
    def test_auc(self, tmp_path, run, contestant, classes):
        table = load(save(blobs(classes), tmp_path / "blobs.csv"), "kind")
        scope, score = run(snippet.build(table, recipe(contestant), "auc"))
        model, y = scope["model"], scope["y_test"].to_numpy()
        has = hasattr(model, "predict_proba")
        values = (model.predict_proba if has else model.decision_function)(scope["X_test"])
        if classes == 2:
            expected = roc_auc_score(y == model.classes_[1], values[:, 1] if has else values)
        else:
            pairs = zip(model.classes_, values.T, strict=True)
            expected = np.mean([roc_auc_score(y == one, column) for one, column in pairs])
        assert_allclose(score, expected)

    def test_log_loss(self, tmp_path, run):
        table = load(save(blobs(3), tmp_path / "blobs.csv"), "kind")
        scope, score = run(snippet.build(table, recipe(HIST), "log-loss"))
        probabilities = scope["model"].predict_proba(scope["X_test"])
        assert_allclose(score, log_loss(scope["y_test"], probabilities))
        with pytest.raises(ValueError, match="linear has no probabilities"):
            snippet.build(table, recipe(LINEAR), "log-loss")

    def test_rmse(self, tmp_path, run):
        frame = blobs(2).assign(kind=lambda table: table["a"] ** 2)
        table = load(save(frame, tmp_path / "blobs.csv"), "kind")
        scope, score = run(snippet.build(table, recipe(LINEAR), "rmse"))
        errors = scope["y_test"] - scope["model"].predict(scope["X_test"])
        assert_allclose(score, np.sqrt((errors**2).mean()))


def blobs(classes, n=150):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, classes, n)
    frame = pd.DataFrame(rng.standard_normal((n, 2)) + kind[:, None], columns=["a", "b"])
    return frame.assign(kind=np.array(["x", "y", "z"])[kind])


class TestModel:
    """The kernel model takes five lines, and a large file is read in blocks."""

    @pytest.mark.filterwarnings("error")
    def test_a_table_of_any_columns_takes_five_lines(self, tmp_path, fast):
        frame = people(150).assign(spent=lambda table: (table["age"].fillna(40.0) - 50) ** 2)
        table = load(save(frame, tmp_path / "people.csv"), "spent")
        script = snippet.build(table, recipe(MODEL))
        check_imports(script)
        lines = [line for line in script.split("\n\n")[1].splitlines() if "print(" not in line]
        assert lines == [
            'table = pd.read_csv("people.csv")',
            'X, y = table.drop(columns=["spent", "number"]), table["spent"]',
            "model = KernelRegressor(candidates=['neighbors']).fit(X, y)",
            "lower, upper = model.predict_interval(X[:5], coverage=0.9)",
            'save(model, "model.quadfeat")',
        ]
        scope, printed = run_script(tmp_path, script)
        assert "neighbors" in printed
        model = KernelRegressor(**FAST).fit(scope["X"], scope["y"])
        saved = load_model(tmp_path / "model.quadfeat")
        assert_array_equal(saved.predict(scope["X"]), model.predict(scope["X"]))
        assert_array_equal(scope["upper"], saved.predict_interval(scope["X"][:5])[1])

    @pytest.mark.parametrize(
        "values", [[True, False], ["yes", None], [1, 2], pd.Categorical(["a", "b"])]
    )
    def test_classes_of_any_kind(self, tmp_path, fast, values):
        frame = blobs(2, 100)
        labels = np.array(values, dtype=object)[(frame["kind"] == "x").astype(int)]
        frame["kind"] = pd.Series(labels).astype(
            "category" if isinstance(values, pd.Categorical) else object
        )
        if None in values:
            frame["kind"] = frame["kind"].fillna("no").where(frame.index > 3, None)
        table = load(save(frame, tmp_path / "blobs.parquet"), "kind")
        assert table.task == "classification"
        scope, _ = run_script(tmp_path, snippet.build(table, recipe(MODEL)))
        assert len(scope["model"].classes_) == 2
        assert scope["probabilities"].shape == (5, 2)

    def test_the_seed_and_the_weights_of_the_comparison(self, tmp_path):
        table = load(save(blobs(2), tmp_path / "blobs.csv"), "kind")
        chosen = Recipe(MODEL, seed=3)
        script = snippet.build(table, chosen, "balanced-accuracy")
        line = 'KernelClassifier(class_weight="balanced", random_state=3)'
        assert f"model = {line}.fit(X, y)\n" in script
        assert snippet.definition(table, chosen, balanced=True) == [f"model = {line}"]
        limited = Recipe(MODEL, settings={"time_limit": None})
        assert "KernelClassifier(time_limit=None).fit(" in snippet.build(table, limited)
        model = fitting.default_model("classification", balanced=True, seed=3)
        assert model.get_params() == eval(line, {"KernelClassifier": KernelClassifier}).get_params()

    def test_it_needs_no_extras_but_pandas(self, tmp_path, fast):
        table = load(save(people(150), tmp_path / "people.csv"), "buys")
        script = snippet.build(table, recipe(MODEL))
        subprocess.run(
            [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS + script],
            cwd=tmp_path,
            check=True,
        )

    @pytest.mark.parametrize(
        ("kind", "suffix"),
        [
            ("numbers", "parquet"),
            ("words", "parquet"),
            ("mixed", "csv"),
            slow("numbers", "csv"),
            slow("words", "csv"),
            slow("mixed", "parquet"),
        ],
    )
    def test_a_large_file_is_read_in_blocks(self, tmp_path, monkeypatch, kind, suffix):
        monkeypatch.setattr(snippet, "LARGE", 100)
        monkeypatch.setattr(snippet, "ROWS_PER_BLOCK", 64)
        monkeypatch.chdir(tmp_path)
        frame, target = (people(200), "buys") if kind == "mixed" else (blobs(2, 200), "kind")
        if kind == "numbers":
            frame = frame.assign(kind=frame["a"] ** 2)
        table = load(save(frame, tmp_path / f"large.{suffix}"), target)
        script = snippet.build(table, recipe(MODEL))
        assert ("ParquetBlocks(" in script) == (kind != "mixed" and suffix == "parquet")
        assert "train_test_split" not in script
        scope, printed = run_script(tmp_path, script)
        model, blocks = scope["model"], list(scope["blocks"])
        if "ParquetBlocks(" not in script:
            assert max(len(rows) for rows, _ in blocks) <= 64
        join = np.concatenate if kind == "mixed" else pd.concat
        X, y = join([rows for rows, _ in blocks]), np.concatenate([some for _, some in blocks])
        assert len(y) == table.n_rows
        assert printed == f"{model.leaderboard_}\n"
        if "TableEncoder" in script:
            encoder = load_model(tmp_path / "encoder.quadfeat")
            rows = encoder.transform(table.rows)
            assert_array_equal(model.predict(rows), model.predict(X))
        saved = load_model(tmp_path / "model.quadfeat")
        assert_array_equal(saved.predict(X[:5]), model.predict(X[:5]))
        if kind == "mixed":
            assert (model.predict(X) == y).mean() > 0.8
        else:
            assert X.shape[1] == 2
            assert model.score(X, y) > 0.7  # the best possible score is 0.76

    def test_small_files_and_archives_are_read_as_a_whole(self, tmp_path, monkeypatch):
        table = load(save(blobs(2), tmp_path / "blobs.csv"), "kind")
        assert not snippet.can_stream(table)
        monkeypatch.setattr(snippet, "LARGE", 100)
        assert snippet.can_stream(table)
        frame = blobs(2)
        np.savez(tmp_path / "a.npz", X=frame[["a", "b"]], y=frame["a"])
        assert not snippet.can_stream(load(tmp_path / "a.npz", "y"))
        balanced = snippet.build(table, recipe(MODEL), "balanced-accuracy")  # needs all rows
        assert 'class_weight="balanced"' in balanced
        assert "Blocks" not in balanced


def check_imports(script):
    """Assert that a script imports only public names of quadfeat."""
    nodes = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.ImportFrom)]
    plain = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Import)]
    assert {name.name for node in plain for name in node.names} <= {"numpy", "pandas"}
    for node in nodes:
        assert node.module.split(".")[0] in ("sklearn", "quadfeat", "lightgbm")
        assert "._" not in f".{node.module}"
        if node.module.startswith("quadfeat"):
            assert node.module in ("quadfeat", "quadfeat.kernels")
            assert {name.name for name in node.names} <= set(import_module(node.module).__all__)
