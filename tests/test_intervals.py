"""Test prediction intervals: exact leave-one-out scores, coverage and invariance."""

import pickle
import re
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadfeat
from quadfeat import (
    KernelClassifier,
    LocalGaussianProcessClassifier,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from quadfeat.kernels import Gaussian
from quadfeat.models.intervals import Scores
from quadfeat.solvers.left_out import LeftOut

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (50, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), 5 * X[:, 1]]) + rng.standard_normal((50, 2))
WEIGHTS = rng.uniform(0.3, 3.0, 50)
FEATURES = QuadratureFeatures(Gaussian(0.5), n_components=64, random_state=0).fit(X)


def ridge(alpha=0.5, **parameters):
    return QuadratureRidge(features=FEATURES, alpha=alpha, **parameters)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
def test_errors_and_deviations_equal_those_of_refitting(weights):
    model = ridge().fit(X, Y, weights)
    posterior = model._solution.posterior
    found = LeftOut.of(posterior, FEATURES.transform(X), Y, weights)
    for row in range(0, 50, 7):
        others = np.delete(np.arange(50), row)
        again = ridge().fit(X[others], Y[others], None if weights is None else weights[others])
        mean, deviation = again.predict(X[[row]], return_std=True)
        assert_allclose(found.errors[row], Y[row] - mean[0], rtol=1e-6, atol=1e-8)
        leverage = (deviation[0] ** 2 / again.noise_variance_)[0]
        assert found.variances[row] == pytest.approx(1 + leverage, rel=1e-6)


def test_the_quantile_counts_the_new_row():
    values = np.arange(1.0, 20.0)[:, None]  # 19 scores
    scores = Scores(values, np.ones((19, 1)))
    assert scores.quantiles(0.9)[0] == 18  # ceil(20 * .9)
    assert scores.quantiles(0.95)[0] == 19
    assert scores.quantiles(0.5)[0] == 10
    with pytest.raises(ValueError, match=r"coverage=0.96 needs at least 24 .* keeps 19"):
        scores.quantiles(0.96)
    assert Scores(values, np.full((19, 1), 7.0)).quantiles(0.9)[0] == 18
    heavy = np.ones((19, 1))
    heavy[-1] = 10.0
    assert Scores(values, heavy).quantiles(0.7)[0] == 19


NOISES = {
    "Gaussian": lambda rng, X: 0.3 * rng.standard_normal(len(X)),
    "heavy tails": lambda rng, X: 0.2 * rng.standard_t(2.5, len(X)),
    "uneven": lambda rng, X: (0.05 + 0.3 * np.abs(X[:, 0])) * rng.standard_normal(len(X)),
    "skewed": lambda rng, X: rng.exponential(0.5, len(X)),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_coverage(noise, coverage):
    rng = np.random.default_rng(3)
    rows = rng.uniform(-2, 2, (6000, 2))
    y = np.sin(2 * rows[:, 0]) + rows[:, 1] + NOISES[noise](rng, rows)
    model = ridge(alpha=0.1).fit(rows[:2000], y[:2000])
    lower, upper = model.predict_interval(rows[2000:], coverage)
    inside = np.mean((lower <= y[2000:]) & (y[2000:] <= upper))
    # Four standard errors: of the share among 4000 rows and of the quantile among 2000.
    error = 4 * np.sqrt(coverage * (1 - coverage) * (1 / 4000 + 1 / 2000))
    assert inside == pytest.approx(coverage, abs=error)


def test_few_features_need_wider_intervals_than_the_posterior():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-3, 3, (3000, 2))
    y = np.sign(np.sin(3 * rows[:, 0]) * rows[:, 1])
    narrow = QuadratureFeatures(Gaussian(0.5), n_components=8, random_state=0).fit(rows)
    model = QuadratureRidge(features=narrow, alpha=0.01).fit(rows[:1500], y[:1500])
    lower, upper = model.predict_interval(rows[1500:], 0.9)
    assert np.mean((lower <= y[1500:]) & (y[1500:] <= upper)) > 0.87


def test_each_output_has_its_own_interval():
    both = ridge().fit(X, Y)
    lower, upper = both.predict_interval(X, 0.8)
    assert lower.shape == upper.shape == (50, 2)
    for output in range(2):
        one = ridge().fit(X, Y[:, output])
        assert_allclose(one.predict_interval(X, 0.8)[0], lower[:, output], rtol=1e-6, atol=1e-8)
    assert_allclose((lower + upper) / 2, both.predict(X), atol=1e-9)


def test_shifts_scales_and_weights():
    y = Y[:, 0]
    lower, upper = ridge().fit(X, y, WEIGHTS).predict_interval(X)
    again = ridge().fit(X, 1000 * y - 7e4, WEIGHTS).predict_interval(X)
    assert_allclose(again[0], 1000 * lower - 7e4, rtol=1e-6)
    assert_allclose(again[1], 1000 * upper - 7e4, rtol=1e-6)
    order = rng.permutation(50)
    shuffled = ridge().fit(X[order], y[order], WEIGHTS[order]).predict_interval(X)
    assert_allclose(shuffled[0], lower, rtol=1e-7, atol=1e-9)
    counts = rng.integers(1, 4, 50)
    weighted = ridge().fit(X, y, counts).predict_interval(X)
    copied = ridge().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).predict_interval(X)
    assert_allclose(weighted, copied, rtol=1e-7, atol=1e-9)


def test_sources_files_and_batches_agree(tmp_path):
    y = Y[:, 0]
    model = ridge().fit(X, y)
    expected = model.predict_interval(X)
    lazy = model.predict_interval(da.from_array(X, (20, 2)))
    assert all(isinstance(one, da.Array) for one in lazy)
    assert_allclose(np.array([one.compute() for one in lazy]), expected, rtol=1e-9)
    others = [
        ridge().fit([(X[:30], y[:30]), (X[30:], y[30:])]),
        ridge().partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:]),
        ridge().fit(X[:9], y[:9]).merge(ridge().fit(X[9:], y[9:])),
        ridge().fit(da.from_array(X, (20, 2)), da.from_array(y, 20)),
        pickle.loads(pickle.dumps(model)),
    ]
    quadfeat.save(model, tmp_path / "model.quadfeat")
    others.append(quadfeat.load(tmp_path / "model.quadfeat"))
    for other in others:
        assert_allclose(other.predict_interval(X), expected, rtol=1e-6, atol=1e-8)


def test_bad_arguments():
    model = ridge().fit(X, Y[:, 0])
    for coverage in (0, 0.0, 1.0, 1.5, -0.1, np.nan, True, "0.9", [0.9], None):
        shown = re.escape(f"coverage={coverage!r} is not valid: pass a number between 0 and 1,")
        with pytest.raises((ValueError, TypeError), match=shown):
            model.predict_interval(X, coverage)
    with pytest.raises(ValueError, match=r"coverage=0.99 needs at least 99 .* keeps 50"):
        model.predict_interval(X, 0.99)
    with pytest.raises(ValueError, match="all targets in y are equal"):
        ridge().fit(X, np.ones(50)).predict_interval(X)
    with pytest.raises(AttributeError, match="predict_interval needs the Gram matrix"):
        ridge(solver="cg").fit(X, Y[:, 0]).predict_interval(X)


def test_models_of_earlier_versions_have_no_stored_rows():
    folder = Path(__file__).parent / "fixtures"
    old = quadfeat.load(folder / "ridge_format_3.quadfeat")
    with pytest.raises(ValueError, match=r"keeps no training rows.*Fit it again"):
        old.predict_interval(np.zeros((1, 3)))
    old.partial_fit(np.zeros((1, 3)), [1.0])
    assert old._solution.summary.rows is None
    new = quadfeat.load(folder / "ridge_format_4.quadfeat")
    lower, upper = new.predict_interval(np.zeros((1, 3)), 0.9)
    assert lower < upper
    assert (
        new.merge(quadfeat.load(folder / "ridge_format_3.quadfeat"))._solution.summary.rows is None
    )


@pytest.mark.parametrize(
    "kind", [KernelClassifier, LocalGaussianProcessClassifier, QuadratureRidgeClassifier]
)
@pytest.mark.parametrize("is_fitted", [False, True])
def test_classifiers_have_probabilities_instead(kind, is_fitted):
    model = kind()
    if is_fitted:
        X = np.random.default_rng(0).standard_normal((60, 2))
        model.fit(X, X[:, 0] > 0)
    assert not hasattr(model, "predict_interval")
    with pytest.raises(AttributeError, match="has no attribute 'predict_interval'") as raised:
        model.predict_interval([[0.0, 0.0]])
    reason = str(raised.value.__cause__)
    assert "intervals are for regression" in reason
    assert f"{kind.__name__} predicts classes. Use predict_proba" in reason
