"""Compare second moments of rows with products of all features in float64."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from quadfeat import QuadratureFeatures
from quadfeat.kernels import ArcCosine, Gaussian
from quadfeat.solvers import accumulator as summing
from quadfeat.solvers.accumulator import FEW_ROWS, Accumulator, rows_per_block
from quadfeat.solvers.moments import Moments

rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 5))
Y = np.column_stack([np.sin(X[:, 0]) + 100.0, rng.standard_normal(2000)])
WEIGHTS = rng.uniform(0, 3, 2000) * (rng.random(2000) < 0.9)
SHIFT = np.array([100.0, -1.0])
FEATURES = QuadratureFeatures(Gaussian(0.2), rule="rff", n_components=30, random_state=0).fit(X)


def accumulated(features, X, Y, weights, dtype, shift=SHIFT, size=700):
    accumulator = Accumulator(features.map_, Moments.empty(features.n_components_, shift), dtype)
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        accumulator.add(X[rows], Y[rows], None if weights is None else weights[rows])
    return accumulator.moments


def columns(features, X, Y, shift=SHIFT):
    Z = features.transform(X).astype(np.float64)
    return np.column_stack([Z, Y - shift, np.ones(len(Y))])


def exact(features, X, Y, weights, shift=SHIFT):
    table = columns(features, X, Y, shift)
    return table.T @ (table if weights is None else table * weights[:, None])


def rounding(features, X, Y, weights, shift=SHIFT):
    """Return the sums of the absolute values of all terms, which bound rounding errors."""
    table = np.abs(columns(features, X, Y, shift))
    return table.T @ (table if weights is None else table * weights[:, None])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("form", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("of_rows", [np.float32, np.float64])
@pytest.mark.parametrize("of_products", [np.float32, np.float64])
def test_products_of_all_columns(weights, form, of_rows, of_products):
    rows = X.astype(of_rows)
    found = accumulated(FEATURES, form(rows), Y, weights, of_products)
    error = np.abs(np.triu(found.products - exact(FEATURES, rows, Y, weights)))
    scale = rounding(FEATURES, rows, Y, weights)
    # The rounding errors of 700 terms are random.
    assert (error <= 20 * np.finfo(of_products).eps * scale).all()
    # Targets are always multiplied in float64.
    assert (error[30:, 30:] <= 100 * np.finfo(np.float64).eps * scale[30:, 30:]).all()
    assert found.n_rows == 2000
    total = 2000 if weights is None else weights.sum()
    assert found.weight == pytest.approx(total, rel=1e-14)


def test_float32_products_are_in_float32():
    """Otherwise float32 would save no time, and the other tests of it would prove nothing."""
    scale = rounding(FEATURES, X, Y, None)
    error = np.abs(
        np.triu(accumulated(FEATURES, X, Y, None, np.float32).products)
        - np.triu(exact(FEATURES, X, Y, None))
    )
    assert error.max() > np.finfo(np.float32).eps * 0.01 * scale.max()


def test_few_rows_are_multiplied_in_float64():
    found = accumulated(FEATURES, X, Y, WEIGHTS, np.float32, size=FEW_ROWS - 1)
    error = np.abs(np.triu(found.products - exact(FEATURES, X, Y, WEIGHTS)))
    assert (error <= 1e-13 * rounding(FEATURES, X, Y, WEIGHTS)).all()


def test_sums_over_many_blocks_lose_no_more_than_one_block():
    rows = rng.standard_normal((512, 5)).astype(np.float32)
    targets = rng.standard_normal((512, 1))
    accumulator = Accumulator(FEATURES.map_, Moments.empty(30, np.zeros(1)), np.float32)
    accumulator.add(rows, targets, None)
    once = accumulator.moments.products.copy()
    for _ in range(299):
        accumulator.add(rows, targets, None)
    assert_allclose(accumulator.moments.products, 300 * once, rtol=1e-13, atol=1e-11)


@pytest.mark.parametrize("unit", [1e-80, 1e-40, 1e40, 1e80])
def test_targets_and_weights_out_of_the_range_of_float32(unit):
    shift = SHIFT * unit
    found = accumulated(FEATURES, X, Y * unit, None, np.float32, shift=shift)
    plain = exact(FEATURES, X, Y, None)
    assert_allclose(found.products[:30, 30:-1] / unit, plain[:30, 30:-1], atol=1e-3)
    found = accumulated(FEATURES, X, Y, np.full(2000, unit), np.float32)
    assert_allclose(np.triu(found.products) / unit, np.triu(plain), rtol=1e-4, atol=1e-3)


def test_integer_weights_equal_copies():
    counts = rng.integers(0, 4, 2000)
    copies = np.repeat(np.arange(2000), counts)
    weighted = accumulated(FEATURES, X, Y, counts * 1.0, np.float64)
    copied = accumulated(FEATURES, X[copies], Y[copies], None, np.float64)
    assert_allclose(weighted.products, copied.products, rtol=1e-12, atol=1e-9)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_parts_in_any_order_merge_into_the_whole(cuts, random):
    parts = np.split(np.arange(400), np.sort(cuts))
    random.shuffle(parts)
    merged = Moments.empty(30, SHIFT)
    for part in parts:
        # Each part has its own shift, as on different machines.
        shift = Y[part].mean(axis=0) if len(part) else np.zeros(2)
        found = accumulated(FEATURES, X[part], Y[part], WEIGHTS[part], np.float64, shift)
        merged = merged.merged(found)
    whole = exact(FEATURES, X[:400], Y[:400], WEIGHTS[:400])
    # Merging shifts parts again if their means are many standard deviations apart.
    merged = merged.shifted(SHIFT)
    assert_allclose(np.triu(merged.products), np.triu(whole), rtol=1e-10, atol=1e-9)
    assert merged.n_rows == 400


def test_merging_does_not_change_the_parts():
    left = accumulated(FEATURES, X[:50], Y[:50], None, np.float64)
    right = accumulated(FEATURES, X[50:90], Y[50:90], None, np.float64, shift=np.zeros(2))
    before = left.products.copy(), right.products.copy()
    left.merged(right)
    assert_array_equal(left.products, before[0])
    assert_array_equal(right.products, before[1])


def test_different_numbers_of_columns_do_not_merge():
    with pytest.raises(ValueError, match=r"30 features and 2 targets cannot be merged .* 29"):
        Moments.empty(30, np.zeros(2)).merged(Moments.empty(29, np.zeros(2)))


def test_shifted():
    found = accumulated(FEATURES, X, Y, WEIGHTS, np.float64).shifted(np.array([3.0, 4.0]))
    expected = exact(FEATURES, X, Y, WEIGHTS, np.array([3.0, 4.0]))
    assert_allclose(np.triu(found.products), np.triu(expected), rtol=1e-10)
    same = accumulated(FEATURES, X, Y, None, np.float64)
    assert same.shifted(SHIFT) is same


def test_a_shift_keeps_the_digits_of_targets_far_from_zero():
    targets = Y[:, 1:] + 1e9
    found = accumulated(FEATURES, X, targets, None, np.float32, shift=np.array([1e9]))
    # The targets are rounded to 1e-7.
    assert_allclose(found.products[:-2, -2], FEATURES.transform(X).T @ Y[:, 1], atol=1e-3)


def test_with_outputs_is_linear_in_the_targets_and_one():
    transform = rng.standard_normal((3, 4))
    found = accumulated(FEATURES, X, Y, WEIGHTS, np.float64).with_outputs(transform, np.zeros(4))
    targets = np.column_stack([Y - SHIFT, np.ones(2000)]) @ transform
    expected = exact(FEATURES, X, targets, WEIGHTS, np.zeros(4))
    assert_allclose(np.triu(found.products), np.triu(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("transform", [None, rng.standard_normal((3, 3))], ids=["same", "turned"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_normal_equations(weights, transform):
    found = accumulated(FEATURES, X, Y, weights, np.float64)
    Z = FEATURES.transform(X)
    targets = Y if transform is None else np.column_stack([Y, np.ones(2000)]) @ transform
    W = np.diag(np.ones(2000) if weights is None else weights)
    for intercept in (False, True):
        system = found.normal_equations(intercept=intercept, transform=transform)
        feature_means = np.average(Z, axis=0, weights=weights) * intercept
        target_means = np.average(targets, axis=0, weights=weights) * intercept
        centred, rest = Z - feature_means, targets - target_means
        assert_allclose(system.feature_means, feature_means, atol=1e-12)
        assert_allclose(system.target_means, target_means, atol=1e-10)
        assert_allclose(np.triu(system.matrix), np.triu(centred.T @ W @ centred), atol=1e-9)
        assert_allclose(system.right, centred.T @ W @ rest, rtol=1e-8, atol=1e-8)
        assert_allclose(system.squares, np.diagonal(rest.T @ W @ rest), rtol=1e-9)
        assert system.weight == pytest.approx(W.sum())
        assert system.degrees == pytest.approx(W.sum() - intercept)
        assert not np.shares_memory(system.matrix, found.products)


def test_normal_equations_of_zero_weight():
    found = accumulated(FEATURES, X, Y, np.zeros(2000), np.float64)
    with pytest.raises(ValueError, match="all rows have weight 0"):
        found.normal_equations(intercept=True)


def test_float32_features_of_other_kernels_are_cast_to_float64():
    features = QuadratureFeatures(ArcCosine(1), n_components=25, random_state=0).fit(X)
    found = accumulated(features, X.astype(np.float32), Y, WEIGHTS, np.float64)
    expected = exact(features, X.astype(np.float32), Y, WEIGHTS)
    assert_allclose(np.triu(found.products), np.triu(expected), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("of_rows", [np.float32, np.float64])
def test_memory_does_not_depend_on_the_number_of_rows(of_rows, monkeypatch):
    monkeypatch.setattr(summing, "BYTES_PER_BLOCK", 2**19)
    features = QuadratureFeatures(Gaussian(0.2), rule="rff", n_components=256, random_state=0)
    rows = np.zeros((40_000, 5), dtype=of_rows)
    features.fit(rows[:10])
    targets = np.zeros((40_000, 1))
    size = rows_per_block(258, np.float32)
    assert size * 258 * 4 <= 2**19
    accumulator = Accumulator(features.map_, Moments.empty(256, np.zeros(1)), np.float32)
    tracemalloc.start()
    try:
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            accumulator.add(rows[part], targets[part], None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Memory holds a block in float64 (it has few rows), features before the cast, and products.
    assert peak < 2 * 2**19 + 256 * 256 * 8 + 3 * 258**2 * 8
    assert peak < 40_000 * 256 * 4 / 10


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["all alike", "weights"])
def test_wide_kernels_keep_the_variation_of_features(weights):
    wide = QuadratureFeatures(Gaussian(1e-4), n_components=30, rule="sr33", random_state=0).fit(X)
    found = accumulated(wide, X, Y, weights, np.float32).normal_equations(intercept=True)
    exact = accumulated(wide, X, Y, weights, np.float64).normal_equations(intercept=True)
    assert (
        np.diagonal(exact.matrix).max() < 1e-2 * exact.weight / 30
    )  # the means make up most of the moments
    variances = np.diagonal(exact.matrix)
    assert_allclose(found.matrix, exact.matrix, rtol=0, atol=1e-6 * variances.max())
    scale = np.sqrt(variances.max() * exact.squares)
    assert_allclose(found.right / scale, exact.right / scale, rtol=0, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [1e-3, 0.2])  # with and without means to subtract
@pytest.mark.parametrize("dtypes", [(np.float32, "float32"), (np.float64, "float32")])
def test_the_same_bits_for_any_number_of_threads(dtypes, gamma, weighted, monkeypatch):
    dtype, gram_dtype = dtypes
    table, weights = X.astype(dtype), WEIGHTS if weighted else None
    features = QuadratureFeatures(Gaussian(gamma), rule="rff", n_components=600, random_state=0)
    features.fit(table)
    found = []
    for n in (1, 2, 5):
        monkeypatch.setattr(summing, "n_threads", lambda n_jobs, entries, n=n: n)
        found.append(accumulated(features, table, Y, weights, gram_dtype))
    for other in found[1:]:
        assert_array_equal(other.products, found[0].products)
        assert_array_equal(other.control, found[0].control)
    whole = columns(features, table, Y)
    weighted_whole = whole if weights is None else whole * weights[:, None]
    expected = np.triu(whole.T @ weighted_whole)
    scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert_allclose(found[0].products / scale, expected / scale, atol=1e-5)
