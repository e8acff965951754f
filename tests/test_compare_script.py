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

from quadfeat import KernelClassifier, QuadratureFeatures, QuadratureRidge
from quadfeat.apps.compare import fitting, snippet
from quadfeat.apps.compare.contestants import (
    HIST,
    LIGHTGBM,
    LINEAR,
    MODEL,
    NYSTROEM,
    OURS,
    RBF_SAMPLER,
)
from quadfeat.apps.compare.table import load
from quadfeat.kernels import ArcCosine, Gaussian, Matern
from slow import repeats, slow
from tables import people, run_script, save

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

MODELS = [
    (LINEAR, None),
    (RBF_SAMPLER, Gaussian(0.5)),
    (NYSTROEM, Gaussian(0.5)),
    (NYSTROEM, Matern(1.5, length_scale=2.0)),
    (NYSTROEM, ArcCosine(1)),
    (OURS, Gaussian(0.5)),
    (OURS, Matern(1.5, length_scale=2.0)),
    (OURS, ArcCosine(1)),
    (MODEL, None),
    (HIST, None),
    pytest.param(
        LIGHTGBM,
        None,
        marks=pytest.mark.skipif(find_spec("lightgbm") is None, reason="needs lightgbm"),
    ),
]


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


class TestScript:
    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("scoring", ["balanced-accuracy", "r2", slow("accuracy")])
    @pytest.mark.parametrize(("contestant", "kernel"), MODELS)
    def test_it_imports_public_names_only_and_runs(
        self, tmp_path, run, contestant, kernel, scoring
    ):
        frame = people(300)
        if scoring == "r2":
            frame["buys"] = (frame["age"] - 50) ** 2
        table = load(save(frame, tmp_path / "people.csv"), "buys")
        script = snippet.build(table, contestant, kernel, 32, alpha=0.1, scoring=scoring)
        assert "quadfeat.apps" not in script
        check_imports(script)
        score = run(script)[1]
        assert score > (0.6 if contestant != LINEAR and scoring != "r2" else -0.1)

    @pytest.mark.parametrize(("contestant", "kernel"), repeats([MODELS[6], MODELS[3]]))
    def test_it_needs_no_extras_but_pandas(self, tmp_path, contestant, kernel):
        table = load(save(people(300), tmp_path / "people.csv"), "buys")
        script = snippet.build(table, contestant, kernel, 32, alpha=0.1)
        subprocess.run(
            [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS + script],
            cwd=tmp_path,
            check=True,
        )

    def test_it_fits_the_model_of_the_contest(self, tmp_path, run):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 3))
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(400)
        np.savez(tmp_path / "sine.npz", X=X, y=y)
        table = load(tmp_path / "sine.npz", "y")
        script = snippet.build(table, OURS, Gaussian(0.5), 64, alpha=0.1, rule="sr33", seed=3)
        scope = run(script)[0]
        prepared = scope["model"][0].transform(scope["X_train"])
        map_ = QuadratureFeatures(Gaussian(0.5), rule="sr33", n_components=64, random_state=3)
        fit = QuadratureRidge(features=map_.fit(prepared), alpha=0.1)
        fit.fit(prepared, scope["y_train"])
        rows = scope["model"][0].transform(scope["X_test"])
        assert_array_equal(scope["model"].predict(scope["X_test"]), fit.predict(rows))


class TestScores:
    """The script prints the score that ranked the models."""

    @pytest.mark.parametrize("contestant", [LINEAR, OURS, HIST])
    @pytest.mark.parametrize("classes", [2, 3])
    def test_auc(self, tmp_path, run, contestant, classes):
        table = load(save(blobs(classes), tmp_path / "blobs.csv"), "kind")
        kernel = Gaussian(0.5) if contestant == OURS else None
        scope, score = run(snippet.build(table, contestant, kernel, 16, alpha=0.1, scoring="auc"))
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
        scope, score = run(snippet.build(table, MODEL, None, 0, alpha=np.nan, scoring="log-loss"))
        probabilities = scope["model"].predict_proba(scope["X_test"])
        assert_allclose(score, log_loss(scope["y_test"], probabilities))
        with pytest.raises(ValueError, match="linear has no probabilities"):
            snippet.build(table, LINEAR, None, 0, alpha=1.0, scoring="log-loss")

    def test_rmse(self, tmp_path, run):
        frame = blobs(2).assign(kind=lambda table: table["a"] ** 2)
        table = load(save(frame, tmp_path / "blobs.csv"), "kind")
        scope, score = run(snippet.build(table, LINEAR, None, 0, alpha=1.0, scoring="rmse"))
        errors = scope["y_test"] - scope["model"].predict(scope["X_test"])
        assert_allclose(score, np.sqrt((errors**2).mean()))


def blobs(classes, n=150):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, classes, n)
    frame = pd.DataFrame(rng.standard_normal((n, 2)) + kind[:, None], columns=["a", "b"])
    return frame.assign(kind=np.array(["x", "y", "z"])[kind])


class TestModel:
    """The kernel model takes five lines, and a large file is read in blocks."""

    def test_a_table_of_numbers_takes_five_lines(self, tmp_path, run):
        table = load(save(blobs(2), tmp_path / "blobs.csv"), "kind")
        script = snippet.build(table, MODEL, None, 0, alpha=np.nan)
        lines = [line for line in script.split("\n\n")[1].splitlines() if line[:1] not in " )"]
        assert len(lines) <= 6
        assert "prepare" not in script
        scope, score = run(script)
        model = KernelClassifier(**fitting.MODEL_SETTINGS, random_state=0)
        model.fit(scope["X_train"], scope["y_train"])
        assert score == model.score(scope["X_test"], scope["y_test"])

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
            frame = frame.assign(kind=frame["a"] ** 2, constant=1.0)
        table = load(save(frame, tmp_path / f"large.{suffix}"), target)
        script = snippet.build(table, MODEL, None, 0, alpha=np.nan)
        assert ("ParquetBlocks(" in script) == (kind == "numbers" and suffix == "parquet")
        assert "train_test_split" not in script
        scope, printed = run_script(tmp_path, script)
        model, blocks = scope["model"], list(scope["blocks"])
        if "ParquetBlocks(" not in script:
            assert max(len(rows) for rows, _ in blocks) <= 64
        join = np.concatenate if kind == "mixed" else pd.concat
        X, y = join([rows for rows, _ in blocks]), np.concatenate([some for _, some in blocks])
        assert len(y) == table.n_rows
        assert printed == f"{model.predict(X[:5])}\n"
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
        balanced = snippet.build(
            table, MODEL, None, 0, alpha=np.nan, scoring="balanced-accuracy"
        )  # needs all rows at once
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
