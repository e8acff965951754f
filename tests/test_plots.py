"""Test plots: the data that they draw, their axes, and the error without matplotlib."""

import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge

from quadfeat import (
    KernelRegressor,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    plots,
)
from quadfeat.kernels import Gaussian, Matern, Metric
from quadfeat.plots.axes import wilson_interval

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 4))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(600)
LABELS = np.digitize(Y, [-0.3, 0.3])
TRAIN, TEST = slice(0, 300), slice(300, None)
OPTIONS = {"n_components": 64, "random_state": 0}


@pytest.fixture(autouse=True)
def figures():
    """Draw without a screen, and close all figures."""
    backend = mpl.get_backend()
    plt.switch_backend("agg")
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
    plt.switch_backend(backend)


@pytest.fixture(scope="module")
def ridge():
    return QuadratureRidge("gaussian", rule="rff", **OPTIONS).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def chosen():
    """Return a model that has chosen between two estimators."""
    candidates = [("ridge", Ridge()), ("dummy", DummyRegressor())]
    return KernelRegressor(candidates=candidates, blend=False).fit(X[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def classifier():
    return QuadratureRidgeClassifier("gaussian", rule="rff", **OPTIONS).fit(X[TRAIN], LABELS[TRAIN])


def points(ax, label):
    """Return the points of the line with this label."""
    handles, labels = ax.get_legend_handles_labels()
    found = handles[labels.index(label)]
    line = found.lines[0] if hasattr(found, "lines") else found
    return line.get_xdata(), line.get_ydata()


def all_plots(ridge, classifier, chosen):
    features = QuadratureFeatures(rule="rff", n_components=16, random_state=0)
    return {
        "kernel_error": lambda ax=None: plots.kernel_error(features, X[:50], [8, 16], ax=ax),
        "alpha_path": lambda ax=None: plots.alpha_path(ridge, ax=ax),
        "calibration": lambda ax=None: plots.calibration(classifier, X[TEST], LABELS[TEST], ax=ax),
        "coverage": lambda ax=None: plots.coverage(ridge, X[TEST], Y[TEST], ax=ax),
        "leaderboard": lambda ax=None: plots.leaderboard(chosen, ax=ax),
        "lengthscales": lambda ax=None: plots.lengthscales(ridge, ax=ax),
        "relevance": lambda ax=None: plots.relevance(chosen, ax=ax),
    }


def test_all_plots_accept_and_return_axes(ridge, classifier, chosen):
    functions = all_plots(ridge, classifier, chosen)
    assert sorted(functions) == sorted(plots.__all__)
    for draw in functions.values():
        ax = draw()
        assert ax.has_data()
        assert ax.get_xlabel()
        _, given = plt.subplots()
        assert draw(given) is given
        assert given.has_data()


def test_errors_without_matplotlib_name_the_extra(ridge, classifier, chosen, monkeypatch):
    functions = all_plots(ridge, classifier, chosen)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for name, draw in functions.items():
        fix = rf"quadfeat\.plots\.{name} needs matplotlib: pip install 'quadfeat\[plots\]'"
        with pytest.raises(ImportError, match=fix):
            draw()


class TestKernelError:
    def test_it_shows_the_errors_of_maps(self):
        features = QuadratureFeatures(Gaussian(0.3), rule="rff", **OPTIONS)
        ax = plots.kernel_error(features, X, [16, 32, 64])
        counts, errors = points(ax, "rff")
        assert_array_equal(counts, [16, 32, 64])
        expected = features.fit(X).approximation_error_
        assert errors[-1] == expected.value
        assert ax.get_xscale() == ax.get_yscale() == "log"

    def test_default_numbers_of_columns(self):
        features = QuadratureFeatures(rule="orf", **OPTIONS)
        counts, _ = points(plots.kernel_error(features, X[:50], label="mine"), "mine")
        assert_array_equal(counts, [4, 8, 16, 32, 64])
        assert not hasattr(features, "map_")
        enough = QuadratureFeatures(n_components="auto", tol=0.5, random_state=0)
        with pytest.raises(ValueError, match=r"n_components='auto' .*Pass n_components"):
            plots.kernel_error(enough, X[:50])
        counts, _ = points(plots.kernel_error(enough.fit(X[:50]), X[:50]), "auto")
        assert counts[-1] == enough.n_components_

    def test_rules_side_by_side(self):
        ax = None
        for rule in ("rff", "orf"):
            features = QuadratureFeatures(rule=rule, **OPTIONS)
            ax = plots.kernel_error(features, X[:50], [16, 32], ax=ax)
        assert ax.get_legend_handles_labels()[1] == ["rff", "orf"]


class TestAlphaPath:
    def test_it_shows_both_errors_and_the_choice(self, ridge):
        ax = plots.alpha_path(ridge)
        alphas, errors = points(ax, "leave-one-out")
        known = np.isfinite(ridge.path_.loo)  # alphas that cannot be selected are skipped
        assert 5 < known.sum() < len(known)
        assert_array_equal(alphas, ridge.path_.alphas[known])
        assert_array_equal(errors, ridge.path_.loo[known])
        assert_array_equal(points(ax, "GCV")[1], ridge.path_.gcv)
        assert points(ax, f"selected: {ridge.alpha_:.3g}")[0][0] == ridge.alpha_
        assert ax.get_ylabel() == "mean squared error"

    def test_one_criterion(self, ridge):
        ax = plots.alpha_path(ridge, criterion="evidence")
        assert_array_equal(points(ax, "evidence")[1], ridge.path_.log_evidence)
        labels = plots.alpha_path(ridge, criterion="gcv").get_legend_handles_labels()[1]
        assert labels[0] == "GCV"
        with pytest.raises(ValueError, match="criterion='aic' is not known"):
            plots.alpha_path(ridge, criterion="aic")

    def test_a_classifier(self, classifier):
        assert plots.alpha_path(classifier).has_data()

    def test_a_fixed_alpha(self):
        model = QuadratureRidge("gaussian", alpha=1.0, **OPTIONS).fit(X, Y)
        with pytest.raises(ValueError, match=r"because alpha=1\.0 is fixed.*alpha='auto'"):
            plots.alpha_path(model)


class TestCalibration:
    def test_largest_probabilities_of_several_classes(self, classifier):
        ax = plots.calibration(classifier, X[TEST], LABELS[TEST], n_bins=4)
        stated, observed = points(ax, "QuadratureRidgeClassifier")
        probabilities = classifier.predict_proba(X[TEST])
        assert len(stated) == 4
        assert_allclose(stated.mean(), probabilities.max(axis=1).mean())
        hits = classifier.classes_[probabilities.argmax(axis=1)] == LABELS[TEST]
        assert_allclose(observed.mean(), hits.mean())
        assert (np.diff(stated) > 0).all()

    def test_two_classes(self):
        y = np.where(Y > 0, "yes", "no")
        model = QuadratureRidgeClassifier("gaussian", **OPTIONS).fit(X[TRAIN], y[TRAIN])
        ax = plots.calibration(model, X[TEST], y[TEST], n_bins=3, label="mine")
        stated, observed = points(ax, "mine")
        assert_allclose(stated.mean(), model.predict_proba(X[TEST])[:, 1].mean())
        assert_allclose(observed.mean(), (y[TEST] == "yes").mean())
        assert observed[0] < 0.2 < 0.8 < observed[-1]

    def test_few_rows(self, classifier):
        ax = plots.calibration(classifier, X[TEST][:3], LABELS[TEST][:3], n_bins=10)
        assert len(points(ax, "QuadratureRidgeClassifier")[0]) == 3


class TestCoverage:
    def test_it_is_the_share_of_targets_in_intervals(self, ridge):
        ax = plots.coverage(ridge, X[TEST], Y[TEST], coverages=[0.5, 0.9])
        requested, observed = points(ax, "QuadratureRidge")
        assert_array_equal(requested, [0.5, 0.9])
        lower, upper = ridge.predict_interval(X[TEST], coverage=0.9)
        assert observed[1] == ((lower <= Y[TEST]) & (Y[TEST] <= upper)).mean()
        assert_allclose(observed, requested, atol=0.1)

    def test_outputs(self):
        both = np.c_[Y, X[:, 2]]
        model = QuadratureRidge("gaussian", **OPTIONS).fit(X[TRAIN], both[TRAIN])
        ax = plots.coverage(model, X[TEST], both[TEST], label="mine")
        assert ax.get_legend_handles_labels()[1][1:] == ["mine, output 0", "mine, output 1"]

    def test_the_diagonal_is_drawn_once(self, ridge):
        ax = plots.coverage(ridge, X[TEST], Y[TEST])
        plots.coverage(ridge, X[TEST], Y[TEST], label="again", ax=ax)
        labels = ax.get_legend_handles_labels()[1]
        assert labels.count("exact coverage") == 1
        assert "again" in labels

    def test_wilson_intervals(self):
        low, high = wilson_interval(np.array([0.0, 0.5, 1.0]), np.array([10, 10, 10]))
        assert_allclose(low, [0.0, 0.2366, 0.7225], atol=1e-3)
        assert_allclose(high, [0.2775, 0.7634, 1.0], atol=1e-3)


class TestLengthscales:
    def bars(self, ax):
        names = [label.get_text() for label in ax.get_yticklabels()]
        return dict(zip(names, (bar.get_width() for bar in ax.patches), strict=True))

    def test_bars_show_the_lengthscales_of_the_kernel(self):
        kernel = Matern(1.5, length_scale=np.array([1.0, 2.0, 4.0, 0.5]))
        features = QuadratureFeatures(kernel, **OPTIONS).fit(X)
        bars = self.bars(plots.lengthscales(features))
        assert list(bars) == [f"column {i}" for i in range(4)]
        assert_allclose(list(bars.values()), [1.0, 0.5, 0.25, 2.0])

    def test_units_of_the_columns_do_not_matter(self):
        units = np.array([1.0, 100.0, 1e-3, 7.0])
        kernel = Matern(1.5, length_scale=units)
        features = QuadratureFeatures(kernel, **OPTIONS).fit(X * units)
        bars = self.bars(plots.lengthscales(features, X * units))
        assert_allclose(list(bars.values()), X.std(axis=0))
        with pytest.raises(ValueError, match="X has 3 columns, but the model has 4"):
            plots.lengthscales(features, X[:, :3])

    def test_names_and_the_longest_bars(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
        kernel = Matern(1.5, length_scale=np.array([1.0, 2.0, 4.0, 0.5]))
        features = QuadratureFeatures(kernel, **OPTIONS).fit(frame)
        assert list(self.bars(plots.lengthscales(features, n_columns=2))) == ["a", "d"]

    def test_a_full_metric(self):
        matrix = rng.standard_normal((2, 4))
        features = QuadratureFeatures(Metric(Gaussian(0.5), matrix), **OPTIONS).fit(X)
        bars = self.bars(plots.lengthscales(features))
        assert_allclose(list(bars.values()), np.linalg.norm(matrix, axis=0))
