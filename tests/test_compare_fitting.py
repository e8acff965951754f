"""Test that models of the comparison predict the same as ridge regression in scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("typer", reason="needs quadfeat[study]")

from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier

from quadfeat import QuadratureFeatures
from quadfeat.apps.compare import fitting
from quadfeat.apps.compare.nystroem import BlockKernel, nystroem
from quadfeat.apps.compare.scoring import Coding, Prediction
from quadfeat.kernels import ArcCosine, Gaussian, Matern


def identity(rows):
    return rows


class Linear:
    """The linear kernel."""

    def __call__(self, X, Y=None):
        return X @ (X if Y is None else Y).T


def quadrature(Z, Y, weights):
    """Fit QuadratureRidge on a feature map. Return the fit and the features."""
    features = QuadratureFeatures(Gaussian(0.01), n_components=50, random_state=0).fit(Z)
    return fitting.fit_quadrature(features, Z, Y, weights), features.transform(Z)


def linear(Z, Y, weights):
    return fitting.fit_linear(identity, Z, Y, weights), Z


def exact(Z, Y, weights):
    return fitting.fit_exact(Linear(), Z, Y, weights), Z


class TestFits:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize(
        ("fit_model", "n"),
        [
            *((model, n) for model in (quadrature, linear, exact) for n in (30, 400)),
            *((model, fitting.SEARCH_ROWS + 500) for model in (quadrature, linear)),
        ],
    )
    def test_same_predictions_as_scikit_learn(self, fit_model, n, weighted):
        rng = np.random.default_rng(0)
        Z, Y = rng.standard_normal((n, 50)) + 1.0, rng.standard_normal((n, 2)) + 3.0
        weights = rng.uniform(0.5, 2.0, n) if weighted else None
        fit, features = fit_model(Z, Y, weights)
        theirs = Ridge(alpha=fit.alpha).fit(features, Y, sample_weight=weights)
        # Exact kernel ridge penalizes the intercept a little, and quadfeat multiplies in float32.
        tolerance = {linear: 1e-8, quadrature: 1e-5, exact: 1e-4}[fit_model]
        assert_allclose(fit.predict(Z), theirs.predict(features), atol=tolerance)

    @pytest.mark.parametrize("fit_model", [linear, exact])
    def test_noise_needs_a_large_penalty(self, fit_model):
        rng = np.random.default_rng(0)
        Z = rng.standard_normal((60, 40))
        assert fit_model(Z, Z[:, :1], None)[0].alpha == fitting.PENALTIES[0]
        noise = rng.standard_normal((60, 1))
        assert fit_model(Z, noise, None)[0].alpha == fitting.PENALTIES[-1]

    @pytest.mark.parametrize("weighted", [False, True])
    def test_quadrature_chooses_the_penalty_by_leave_one_out_errors(self, weighted):
        rng = np.random.default_rng(0)
        X = rng.standard_t(3, (fitting.SEARCH_ROWS + 500, 4))
        y = np.tanh(X[:, :1] * X[:, 1:2]) + 0.3 * rng.standard_normal((len(X), 1))
        # With these features the best penalty is 1, which quadfeat prefers if others are as good.
        features = QuadratureFeatures(
            Gaussian(0.1), rule="orf", n_components=128, random_state=0
        ).fit(X)
        weights = rng.choice([0.5, 8.0], len(X)) if weighted else None
        ours = fitting.fit_quadrature(features, X, y, weights)
        theirs = fitting.fit_linear(features.transform, X, y, weights)
        assert ours.alpha == theirs.alpha
        assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)

    @pytest.mark.parametrize("fit_model", [linear, exact])
    def test_equal_columns(self, fit_model):
        Z = np.repeat(np.random.default_rng(0).standard_normal((100, 1)), 3, axis=1)
        assert_allclose(fit_model(Z, Z[:, :1], None)[0].predict(Z), Z[:, :1], atol=1e-3)

    @pytest.mark.parametrize("fit_model", [quadrature, linear])
    def test_a_sample_with_one_class(self, fit_model):
        n = fitting.SEARCH_ROWS + 100
        Z = np.random.default_rng(0).standard_normal((n, 2))
        Y = np.where(np.arange(n)[:, None] < fitting.SEARCH_ROWS, -1.0, 1.0)
        assert np.isfinite(fit_model(Z, Y, None)[0].predict(Z)).all()

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("scoring", ["accuracy", "balanced-accuracy"])
    @pytest.mark.parametrize("fit_model", [quadrature, linear, exact])
    def test_classes_are_coded_as_in_scikit_learn(self, classes, scoring, fit_model):
        rng = np.random.default_rng(0)
        y = np.array(["a", "b", "c"])[np.minimum(rng.geometric(0.6, 200) - 1, classes - 1)]
        Z = rng.standard_normal((200, 4)) + (y == "a")[:, None]
        coding = Coding(scoring, y)
        fit, features = fit_model(Z, coding.Y, coding.weights)
        balance = "balanced" if scoring == "balanced-accuracy" else None
        theirs = RidgeClassifier(alpha=fit.alpha, class_weight=balance).fit(features, y)
        right = theirs.predict(features) == y
        expected = right.mean()
        if balance:
            expected = np.mean([right[y == one].mean() for one in np.unique(y)])
        scores = coding.scores(Prediction(fit.predict(Z)), y)
        assert_allclose(scores[scoring.replace("-", "_")], expected)


class TestNystroem:
    @pytest.mark.parametrize(
        "make", [nystroem, lambda kernel, **how: Nystroem(BlockKernel(kernel), **how)]
    )
    def test_same_features_as_scikit_learn(self, make):
        X = np.random.default_rng(0).standard_normal((100, 3))
        ours = make(Gaussian(0.3), n_components=40, random_state=0).fit_transform(X)
        theirs = Nystroem(gamma=0.3, n_components=40, random_state=0).fit_transform(X)
        assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-8)

    def test_block_kernel_implements_the_interface_of_scikit_learn(self):
        X = np.random.default_rng(0).standard_normal((20, 3))
        kernel = BlockKernel(Matern(1.5, length_scale=2.0))
        assert_allclose(kernel.diag(X), kernel(X).diagonal())
        assert not kernel.is_stationary()
        assert clone(nystroem(ArcCosine(1), n_components=5)).fit(X).transform(X).shape == (20, 5)
