"""Test how notebooks show estimators: scikit-learn's diagram and a table of fitted values."""

import re
from html.parser import HTMLParser

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier, grow
from quadfeat.kernels import Gaussian
from quadfeat.models import notebook
from quadfeat.solvers.normal import NormalSolution

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(300)
LABELS = np.where(Y > 0, "high", "low")
OPTIONS = {"n_components": 64, "random_state": 0}
VOID = {"br", "img", "input", "link", "meta", "hr"}


class Table(HTMLParser):
    """Read the rows of the table and check that all elements are closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("th", "td"):
            self.cells[-1] += data

    @property
    def rows(self):
        return dict(zip(self.cells[::2], self.cells[1::2], strict=True))


def table(estimator):
    """Return the rows of the table as a browser would show them."""
    found = []
    for html in (estimator._repr_html_(), estimator._repr_mimebundle_()["text/html"]):
        tables = re.findall(r'<table class="quadfeat-table">.*?</table>', html, re.S)
        assert len(tables) == 1
        found.append(Table(tables[0]).rows)
    assert found[0] == found[1]
    return found[0]


class TestTable:
    def test_of_a_map(self):
        features = QuadratureFeatures(Gaussian(0.5), rule="rff", **OPTIONS).fit(X)
        assert "Kernel error" not in table(features)  # it is not known before it is asked for
        assert features.approximation_error_.value > 0
        assert table(features) == {
            "Kernel": "Gaussian(gamma=0.5)",
            "Rule": "MonteCarlo()",
            "Columns": "64 from 3",
            "Kernel error": str(features.approximation_error_),
            "Size of arrays": notebook.values(features)["Size of arrays"],
        }

    def test_of_models_that_searched(self):
        model = QuadratureRidge(**OPTIONS).fit(X, Y)
        assert model.features_.approximation_error_.value > 0
        found = table(model)
        best = model.candidates_[0]
        assert list(found) == list(notebook.ROWS)
        assert found["Validated score"].startswith(f"R2 {1 - best.loss:.4g} ± ")
        assert found["Validated score"].endswith("leave-one-out on 300 rows")
        assert found["Alpha"] == f"{model.alpha_:.3g}"
        classifier = QuadratureRidgeClassifier(**OPTIONS).fit(X, LABELS)
        best = classifier.candidates_[0]
        assert table(classifier)["Validated score"].startswith(f"log loss {best.loss:.4g} ± ")

    def test_of_models_that_did_not(self):
        model = QuadratureRidge("gaussian", alpha=0.5, solver="cg", **OPTIONS).fit(X, Y)
        found = table(model)
        assert "Validated score" not in found
        assert found["Alpha"] == "0.5"
        assert re.fullmatch(r"Gaussian\(gamma=0\.\d{1,4}\)", found["Kernel"])

    def test_of_a_long_kernel(self):
        wide = rng.standard_normal((300, 40))
        y = wide[:, 0] + 0.1 * rng.standard_normal(300)
        model = QuadratureRidge(lengthscales="ard", **OPTIONS).fit(wide, y)
        name = model.candidates_[0].name
        assert not name.startswith("default")
        assert table(model)["Kernel"] == name

    def test_of_another_transformer(self):
        model = QuadratureRidge(features=Nystroem(n_components=9), alpha=1.0).fit(X, Y)
        assert list(table(model)) == ["Columns", "Alpha", "Size of arrays"]

    def test_of_a_map_that_was_grown(self):
        features = QuadratureFeatures(Gaussian(0.5), rule="rff", **OPTIONS).fit(X)
        found = table(grow(features, 128))
        assert "Kernel error" not in found
        assert found["Columns"] == "128 from 3"

    def test_unfitted_estimators_have_no_table(self):
        for kind in (QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier):
            assert "quadfeat-table" not in kind()._repr_html_()

    def test_in_the_diagram_of_a_pipeline(self):
        pipeline = make_pipeline(QuadratureFeatures(Gaussian(0.5), **OPTIONS), Ridge()).fit(X, Y)
        shown = 'class="quadfeat-table"' in pipeline._repr_html_()
        assert shown == hasattr(BaseEstimator, "_get_fitted_attr_html")  # scikit-learn >= 1.9

    def test_below_the_diagram_of_older_versions(self):
        features = QuadratureFeatures(Gaussian(0.5), **OPTIONS).fit(X)
        html = notebook.with_table(features, "<p>diagram</p>")
        assert html.startswith("<div><p>diagram</p><style>")
        assert html.endswith("</table></div>")
        assert notebook.with_table(features, html) == html

    def test_settings_of_scikit_learn(self):
        features = QuadratureFeatures(**OPTIONS).fit(X)
        with config_context(display="text"):
            assert not hasattr(features, "_repr_html_")
            assert set(features._repr_mimebundle_()) == {"text/plain"}


class Hostile(Gaussian):
    """A kernel whose name is a script."""

    def __repr__(self):
        return "<script>alert('&')</script>"


class Broken(Gaussian):
    """A kernel whose ``repr`` raises an error."""

    shown = True

    def __repr__(self):
        if not self.shown:
            raise RuntimeError("cannot be shown")
        return "Broken()"


class TestSafety:
    def test_values_are_escaped(self):
        features = QuadratureFeatures(Hostile(0.5), rule="rff", **OPTIONS).fit(X)
        assert table(features)["Kernel"] == "<script>alert('&')</script>"
        assert "<script>alert" not in notebook.values(features)._repr_html_inner()

    def test_values_that_raise_are_omitted(self, monkeypatch):
        features = QuadratureFeatures(Broken(0.5), rule="rff", **OPTIONS).fit(X)
        monkeypatch.setattr(Broken, "shown", False)
        found = notebook.values(features)
        assert "Kernel" not in found
        assert found["Columns"] == "64 from 3"

    def test_nothing_is_computed(self, monkeypatch):
        model = QuadratureRidge("gaussian", **OPTIONS).partial_fit(X, Y)
        classifier = QuadratureRidgeClassifier("gaussian", **OPTIONS).partial_fit(X, LABELS)

        def fail(*_, **__):
            raise AssertionError("showing a model must not compute anything")

        monkeypatch.setattr(NormalSolution, "solve", fail)
        monkeypatch.setattr("quadfeat.models.classification.calibrated", fail)
        monkeypatch.setattr("quadfeat.kernels.base.Kernel.metric_for", fail)
        for one in (model, classifier):
            assert table(one)["Alpha"] == "not computed yet"
            assert "posterior" not in vars(one._solution)

    def test_size(self):
        model = QuadratureRidge("gaussian", rule="rff", alpha=1.0, **OPTIONS).fit(X, Y)
        moments = model._solution.summary.moments
        size = notebook.n_bytes([model.features_, model._solution])
        kept = model._solution.summary.rows.rows
        assert size >= moments.products.nbytes + kept.nbytes
        assert size < 10 * (moments.products.nbytes + kept.nbytes)
        loop = {}
        loop["self"] = loop
        assert notebook.n_bytes(loop) == 0
        assert notebook.n_bytes([np.zeros(3), np.ones(3), np]) == 48
