"""The script that ``quadfeat compare`` writes: public names only, and the model of the contest."""

import ast
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pytest.importorskip("typer", reason="needs quadfeat[study]")

from quadfeat import QuadratureFeatures, QuadratureRidge
from quadfeat.apps.compare import snippet
from quadfeat.apps.compare.contest import LINEAR, NYSTROEM, OURS, RBF_SAMPLER
from quadfeat.apps.compare.table import load
from quadfeat.kernels import ArcCosine, Gaussian, Matern
from tables import people, save

# Scripts need what quadfeat itself needs, and pandas to read the table.
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
]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that returns what a script defines, and the score it prints."""

    def run(script):
        monkeypatch.chdir(tmp_path)
        scope = {"__name__": "__main__"}
        exec(script, scope)
        return scope, float(capsys.readouterr().out)

    return run


class TestScript:
    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("scoring", ["accuracy", "balanced-accuracy", "r2"])
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

    @pytest.mark.parametrize(("contestant", "kernel"), [MODELS[3], MODELS[6]])
    def test_it_needs_no_extras_but_pandas(self, tmp_path, contestant, kernel):
        table = load(save(people(300), tmp_path / "people.csv"), "buys")
        script = snippet.build(table, contestant, kernel, 32, alpha=0.1)
        subprocess.run(
            [sys.executable, "-W", "error", "-c", WITHOUT_EXTRAS + script],
            cwd=tmp_path,
            check=True,
        )

    def test_it_is_the_model_of_the_contest(self, tmp_path, run):
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


def check_imports(script):
    """Assert that a script imports nothing of ours that is not public."""
    nodes = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.ImportFrom)]
    plain = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Import)]
    assert {name.name for node in plain for name in node.names} <= {"numpy", "pandas"}
    for node in nodes:
        assert node.module.split(".")[0] in ("sklearn", "quadfeat")
        assert "._" not in f".{node.module}"
        if node.module.startswith("quadfeat"):
            assert node.module in ("quadfeat", "quadfeat.kernels")
            assert {name.name for name in node.names} <= set(import_module(node.module).__all__)
