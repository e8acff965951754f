"""Test that models of the comparison predict the same as ridge regression in scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("typer", reason="needs quadfeat[study]")

from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from quadfeat.apps.compare import fitting
from quadfeat.apps.compare.contestants import NYSTROEM, RBF_SAMPLER
from quadfeat.apps.compare.scoring import Coding, Prediction


def linear(X, Y, weights):
    """Fit the linear model. Return the fit and the features."""
    return fitting.fit_linear(X, Y, weights), X


def random_features(X, Y, weights):
    fit = fitting.fit_map(RBF_SAMPLER, X, Y, weights, size=60, seed=3)
    features = RBFSampler(gamma=fit.gamma, n_components=60, random_state=3)
    return fit, features.fit_transform(X)


def landmarks(X, Y, weights):
    fit = fitting.fit_map(NYSTROEM, X, Y, weights, size=20, seed=3)
    features = Nystroem(gamma=fit.gamma, n_components=20, random_state=3)
    return fit, features.fit_transform(X)


def exact(X, Y, weights):
    """Return features whose inner products are the kernel."""
    fit = fitting.fit_exact(X, Y, weights)
    values, vectors = np.linalg.eigh(rbf_kernel(X, gamma=fit.gamma))
    return fit, vectors * np.sqrt(np.maximum(values, 0.0))


RIDGES = [linear, random_features, landmarks, exact]


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread, as the comparison does."""
    with threadpool_limits(1):
        yield


class TestFits:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize(
        ("fit_model", "n"),
        [
            *(
                (model, n)
                for model in (linear, random_features, landmarks, exact)
                for n in (30, 300)
            ),
            *((model, fitting.SEARCH_ROWS + 500) for model in (linear, landmarks)),
        ],
    )
    def test_same_predictions_as_scikit_learn(self, fit_model, n, weighted):
        rng = np.random.default_rng(0)
        X, Y = rng.standard_normal((n, 10)) + 1.0, rng.standard_normal((n, 2)) + 3.0
        weights = rng.uniform(0.5, 2.0, n) if weighted else None
        fit, features = fit_model(X, Y, weights)
        theirs = Ridge(alpha=fit.alpha).fit(features, Y, sample_weight=weights)
        tolerance = 1e-4 if fit_model is exact else 1e-8  # which penalizes the intercept a little
        assert_allclose(fit.predict(X), theirs.predict(features), atol=tolerance)

    @pytest.mark.parametrize("fit_model", [linear, exact])
    def test_noise_needs_a_large_penalty(self, fit_model):
        rng = np.random.default_rng(0)
        Z = rng.standard_normal((60, 40))
        assert fit_model(Z, Z[:, :1], None)[0].alpha == fitting.PENALTIES[0]
        noise = rng.standard_normal((60, 1))
        assert fit_model(Z, noise, None)[0].alpha == fitting.PENALTIES[-1]

    def test_the_width_follows_the_target(self):
        X = np.random.default_rng(0).standard_normal((400, 3))
        wide, narrow = (fitting.best_gamma(X, np.sin(k * X[:, :1])) for k in (0.5, 6.0))
        assert wide < narrow
        assert {wide, narrow} <= set(fitting.gammas(3))

    @pytest.mark.parametrize("fit_model", [linear, exact])
    def test_equal_columns(self, fit_model):
        Z = np.repeat(np.random.default_rng(0).standard_normal((100, 1)), 3, axis=1)
        tolerance = 1e-3 if fit_model is linear else 0.02  # a Gaussian kernel bends lines
        assert_allclose(fit_model(Z, Z[:, :1], None)[0].predict(Z), Z[:, :1], atol=tolerance)

    @pytest.mark.parametrize("fit_model", [linear, landmarks])
    def test_a_sample_with_one_class(self, fit_model):
        n = fitting.SEARCH_ROWS + 100
        Z = np.random.default_rng(0).standard_normal((n, 2))
        Y = np.where(np.arange(n)[:, None] < fitting.SEARCH_ROWS, -1.0, 1.0)
        assert np.isfinite(fit_model(Z, Y, None)[0].predict(Z)).all()

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("scoring", ["accuracy", "balanced-accuracy"])
    @pytest.mark.parametrize("fit_model", RIDGES)
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
