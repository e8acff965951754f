"""Test products in float32 and the smallest alphas that they allow."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

from quadfeat import QuadratureFeatures, QuadratureRidge
from quadfeat.kernels import Gaussian
from quadfeat.solvers.accumulator import Accumulator
from quadfeat.solvers.moments import Moments

rng = np.random.default_rng(0)


def pairs(noise, n=600, d=5):
    """Return pairs of equal rows. With the smallest alpha, each row predicts its copy."""
    rng = np.random.default_rng(0)  # independent of the order of tests
    X = np.repeat(rng.standard_normal((n, d)), 2, axis=0)
    return X, np.sin(X.sum(axis=1)) + noise * rng.standard_normal(2 * n)


def exact(model, X, y):
    """Return fitted values for the same features and alpha, computed in float64."""
    Z = model.features_.transform(X)
    Z = Z - Z.mean(axis=0)
    values, vectors = np.linalg.eigh(Z.T @ Z)
    inside = vectors.T @ (Z.T @ (y - y.mean())) / (np.maximum(values, 0.0) + model.alpha_)
    return Z @ (vectors @ inside) + y.mean()


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 0.5])
@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("criterion", ["gcv", "loo", "evidence"])
def test_a_chosen_alpha_is_not_below_the_noise_of_float32(criterion, noise, gamma):
    X, y = pairs(noise)
    model = QuadratureRidge(
        Gaussian(gamma), n_components=100, rule="orf", alpha=criterion, random_state=0
    ).fit(X, y)
    assert_allclose(model.predict(X), exact(model, X, y), atol=5e-3)
    if model.gram_dtype_ == "float32":
        assert model.alpha_ > 4 * model._solution.summary.moments.gram_error()


class TestGoingOnInFloat64:
    # A smooth target without noise or copies: leave-one-out allows the smallest alphas.
    X = np.random.default_rng(0).standard_normal((1200, 5))
    y = np.sin(0.3 * X.sum(axis=1))
    features = QuadratureFeatures(Gaussian(0.01), rule="orf", n_components=100, random_state=0)

    def model(self, **parameters):
        return QuadratureRidge(features=self.features.fit(self.X), **{"alpha": 1.0} | parameters)

    @pytest.mark.parametrize("alpha", ["gcv", "loo", 1e-7, [1e-7, 1e-6]])
    def test_if_rows_can_be_read_again(self, alpha, tmp_path):
        expected = self.model(alpha=alpha, gram_dtype="float64").fit(self.X, self.y)
        lazy = da.from_array(self.X, chunks=(600, 5))
        for data in ((self.X, self.y), ([(self.X, self.y)],), (lazy, self.y)):
            found = self.model(alpha=alpha).fit(*data)
            assert found.gram_dtype_ == "float64"
            assert found.gram_dtype == "float32"
            assert_allclose(found.predict(self.X), expected.predict(self.X), atol=1e-5)
        found = self.model(alpha=alpha, checkpoint=tmp_path / "state").fit(self.X, self.y)
        assert found.gram_dtype_ == "float64"
        assert list(tmp_path.iterdir()) == []

    def test_an_exhausted_stream_warns(self):
        with pytest.warns(UserWarning, match=r"rounding error .* float32.*gram_dtype='float64'"):
            found = self.model(alpha="gcv").fit(iter([(self.X, self.y)]))
        assert found.gram_dtype_ == "float32"
        model = self.model().partial_fit(self.X, self.y)
        model.alpha = 5 * model._solution.summary.moments.gram_error()
        model.partial_fit(self.X, self.y)
        with pytest.warns(UserWarning, match=r"alpha=.* is close to the rounding error"):
            model.coef_
        model.alpha = 1e-12
        with pytest.raises(ValueError, match=r"alpha=1e-12 is too small.*gram_dtype='float64'"):
            model.partial_fit(self.X, self.y).coef_

    def test_usual_alphas_stay_in_float32(self):
        assert self.model().fit(self.X, self.y).gram_dtype_ == "float32"
        noisy = self.y + rng.standard_normal(len(self.y))
        assert self.model(alpha="evidence").fit(self.X, noisy).gram_dtype_ == "float32"


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 1.0])
@pytest.mark.parametrize("weights", [None, rng.uniform(0, 2, 3000)], ids=["plain", "weighted"])
@pytest.mark.parametrize("of_rows", [np.float32, np.float64])
def test_the_error_of_products_is_measured(of_rows, weights, gamma):
    X = rng.standard_normal((3000, 4)).astype(of_rows)
    features = QuadratureFeatures(Gaussian(gamma), rule="orf", n_components=150, random_state=0)
    features.fit(X)
    accumulator = Accumulator(features.map_, Moments.empty(150, np.zeros(1)), np.float32)
    for start in (0, 1000, 2000):
        rows = slice(start, start + 1000)
        given = None if weights is None else weights[rows]
        accumulator.add(X[rows], np.zeros((1000, 1)), given)
    moments = accumulator.moments
    Z = features.transform(X).astype(np.float64)
    right = Z.T @ (Z if weights is None else Z * weights[:, None])
    found = np.triu(moments.products[:150, :150])
    found += np.triu(found, 1).T
    error = np.linalg.norm(found - right, 2)
    assert error < moments.gram_error() < 60 * error
