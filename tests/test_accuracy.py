"""Test error estimates of maps: exact over all pairs, otherwise with intervals that hold."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from quadfeat import QuadratureFeatures
from quadfeat.kernels import ArcCosine, Gaussian, Laplacian, Matern, PointwiseNonlinear
from slow import slow

X = load_digits().data[:400]


def true_errors(features, rows):
    Z = features.transform(rows)
    exact = features.kernel_(rows)
    return Z @ Z.T - exact, exact


@pytest.mark.parametrize("kernel", ["gaussian", "matern12", "laplacian", "arccos1"])
def test_error_is_exact_over_all_pairs(kernel):
    features = QuadratureFeatures(kernel, n_components=33, random_state=0).fit(X)
    errors, exact = true_errors(features, X[:40])
    frobenius = features.kernel_error(X[:40])
    assert np.isclose(frobenius.value, np.linalg.norm(errors) / np.linalg.norm(exact))
    assert frobenius.low == frobenius.value == frobenius.high == float(frobenius)
    rms = features.kernel_error(X[:40], norm="rms")
    assert np.isclose(rms.value, np.sqrt(np.mean(errors**2)))
    largest = features.kernel_error(X[:40], norm="max")
    assert np.isclose(largest.value, np.abs(errors).max())
    assert largest.quantile == 1.0
    assert largest.low is largest.high is None


@pytest.mark.parametrize(
    ("kernel", "norm"),
    [
        slow(Gaussian(0.005), "frobenius"),
        (Gaussian(0.02), "rms"),
        slow(ArcCosine(0), "frobenius"),
    ],
    ids=repr,
)
def test_interval_has_the_stated_coverage(kernel, norm):
    # With an odd number of columns, the diagonal has an error too.
    features = QuadratureFeatures(kernel, rule="rff", n_components=17, random_state=0).fit(X)
    errors, exact = true_errors(features, X)
    truth = np.sqrt(np.mean(errors**2))
    if norm == "frobenius":
        truth /= np.sqrt(np.mean(exact**2))
    covered = 0
    for seed in range(700):
        found = features.kernel_error(X, norm=norm, n_pairs=2500, random_state=seed)
        covered += found.low <= truth <= found.high
    assert 0.925 <= covered / 700 <= 0.975  # within three standard errors


def test_largest_error_bounds_the_stated_quantile():
    features = QuadratureFeatures(n_components=32, rule="rff", random_state=0).fit(X)
    errors, _ = true_errors(features, X)
    off_diagonal = np.abs(errors[~np.eye(len(X), dtype=bool)])
    held = 0
    for seed in range(200):
        found = features.kernel_error(X, norm="max", n_pairs=2000, random_state=seed)
        held += np.mean(off_diagonal <= found.value) >= found.quantile
    assert held >= 180  # 95% of 200, minus three standard deviations


def test_pairs_give_the_kernel_row_by_row():
    left, right = X[:30], X[30:60]
    for kernel in (
        Gaussian(0.001),
        Laplacian(0.001),
        Matern(1.5, length_scale=30.0),
        ArcCosine(0),
        ArcCosine(2),
        PointwiseNonlinear(np.tanh, length_scale=50.0),
    ):
        assert np.allclose(kernel.pairs(left, right), np.diag(kernel(left, right)), rtol=1e-9)
        assert np.allclose(kernel.pairs(left, left), np.diag(kernel(left)), rtol=1e-9)
    with pytest.raises(ValueError, match="30 rows and Y has 29"):
        kernel.pairs(left, right[:29])


def test_sparse_and_dense_agree():
    features = QuadratureFeatures(n_components=32, random_state=0).fit(X)
    dense = features.kernel_error(X, random_state=0)
    assert np.isclose(
        dense.value, features.kernel_error(sparse.csr_matrix(X), random_state=0).value
    )


def test_fit_stores_the_error_of_the_map():
    features = QuadratureFeatures(n_components=64, random_state=0).fit(X)
    errors, exact = true_errors(features, X)
    truth = np.linalg.norm(errors) / np.linalg.norm(exact)
    found = features.approximation_error_
    assert 0.9 * found.low < truth < 1.1 * found.high
    assert "interval" in str(found)


def test_degenerate_data():
    one = QuadratureFeatures(n_components=8, random_state=0).fit(X[:1])
    assert one.kernel_error(X[:1]).value < 1e-12
    zeros = np.zeros((50, 3))
    nothing = QuadratureFeatures("arccos1", n_components=8, random_state=0).fit(zeros)
    assert nothing.kernel_error(zeros).value == 0.0


def test_all_pairs_of_wide_rows_need_little_memory():
    rows = np.random.default_rng(0).standard_normal((300, 1000))
    features = QuadratureFeatures(n_components=8, rule="rff", random_state=0).fit(rows)
    tracemalloc.start()
    features.kernel_error(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * rows.nbytes  # storing the rows of all pairs would take 300 times as much


def test_few_pairs_and_extreme_values():
    features = QuadratureFeatures("arccos1", n_components=8, random_state=0).fit(X)
    few = features.kernel_error(X, n_pairs=10, random_state=0)
    assert 0 < few.low < few.high
    assert few.n_pairs == 10
    expected = features.kernel_error(X[:50], norm="rms").value
    for scale in (1e-80, 1e80):
        found = features.kernel_error(X[:50] * scale, norm="rms").value
        assert np.isclose(found, expected * scale**2, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "nuclear"}, "norm='nuclear' is not known"),
        ({"n_pairs": 3}, "n_pairs=3 is not valid"),
        ({"confidence": 1.0}, "confidence=1.0 is not valid"),
        ({"confidence": "high"}, "confidence='high' is not valid"),
    ],
)
def test_bad_options(options, message):
    features = QuadratureFeatures(n_components=8, random_state=0).fit(X)
    with pytest.raises(ValueError, match=message):
        features.kernel_error(X, **options)


def test_bad_data_for_the_error():
    features = QuadratureFeatures(n_components=8, random_state=0).fit(X)
    with pytest.raises(ValueError, match="64 features"):
        features.kernel_error(X[:, :5])
    rows = X.copy()
    rows[17, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        features.kernel_error(rows, n_pairs=10, random_state=0)
