"""Test standard units of columns: robust, equivariant, and convertible to a kernel on raw rows."""

import numpy as np
import pytest

from quadfeat.kernels import ArcCosine, Gaussian, Laplacian, Matern, Metric, RationalQuadratic
from quadfeat.learning.columns import (
    FARTHEST,
    NORMAL_RANGE,
    Columns,
    knees,
    standardized,
    weighted_quantiles,
    winsorized,
    with_factors,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def unweighted(X):
    return standardized(X, np.ones(len(X)), np.zeros(X.shape[1]))


class TestQuantiles:
    def test_against_numpy(self, rng):
        X = rng.standard_normal((101, 3))
        found = weighted_quantiles(X, np.ones(101), (0.1, 0.25, 0.5, 0.9))
        expected = np.quantile(X, (0.1, 0.25, 0.5, 0.9), axis=0, method="inverted_cdf")
        np.testing.assert_array_equal(found, expected)

    def test_weights_count_as_copies(self, rng):
        X, counts = rng.standard_normal((50, 2)), rng.integers(1, 6, 50)
        shares = (0.25, 0.5, 0.75)
        copies = weighted_quantiles(np.repeat(X, counts, axis=0), np.ones(counts.sum()), shares)
        np.testing.assert_array_equal(weighted_quantiles(X, counts * 1.0, shares), copies)
        np.testing.assert_array_equal(weighted_quantiles(X, counts * 0.1, shares), copies)

    def test_order_does_not_matter(self, rng):
        X, weights, order = rng.standard_normal((40, 2)), rng.random(40), rng.permutation(40)
        found = weighted_quantiles(X[order], weights[order], (0.3,))
        np.testing.assert_array_equal(found, weighted_quantiles(X, weights, (0.3,)))

    def test_each_column_has_its_own_order(self):
        X = np.array([[1.0, 30.0], [2.0, 20.0], [3.0, 10.0]])
        np.testing.assert_array_equal(
            weighted_quantiles(X, np.array([5.0, 1.0, 1.0]), (0.5,)), [[1.0, 30.0]]
        )


class TestWinsorized:
    def test_outliers_are_moved_to_the_limit(self, rng):
        X = rng.standard_normal((500, 1))
        X[3], X[7] = 1e6, -1e9
        low, middle, high = np.quantile(X, (0.25, 0.5, 0.75), method="inverted_cdf")
        reach = FARTHEST * (high - low) / NORMAL_RANGE
        found, is_dense = winsorized(X, np.ones(500))
        assert is_dense.all()
        assert found[3] == pytest.approx(middle + reach)
        assert found[7] == pytest.approx(middle - reach)
        others = np.delete(np.arange(500), [3, 7])
        np.testing.assert_array_equal(found[others], X[others])

    def test_rare_values_stay(self):
        X = np.zeros((100, 1))
        X[0] = 1.0
        found, is_dense = winsorized(X, np.ones(100))
        assert not is_dense.any()
        np.testing.assert_array_equal(found, X)

    def test_does_not_change_its_argument(self, rng):
        X = rng.standard_cauchy((200, 2))
        before = X.copy()
        winsorized(X, np.ones(200))
        standardized(X, np.ones(200), np.ptp(X, axis=0))
        np.testing.assert_array_equal(X, before)


class TestStandardized:
    def test_normal_columns_have_their_standard_deviation(self, rng):
        X = rng.standard_normal((1000, 3)) * [1.0, 1e-5, 1e7] + [5.0, 1.0, -1e8]
        rows, units = unweighted(X)
        np.testing.assert_allclose(units, X.std(axis=0), rtol=1e-9)
        np.testing.assert_allclose(rows, (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-9)

    @pytest.mark.parametrize("factor", [1e-6, 0.3, 1e6])
    def test_scale(self, rng, factor):
        X = rng.standard_t(2, (300, 3))
        weights = rng.random(300) + 0.5
        rows, units = standardized(X, weights, np.ptp(X, axis=0))
        others, theirs = standardized(X * factor, weights, np.ptp(X * factor, axis=0))
        np.testing.assert_allclose(theirs, units * factor, rtol=1e-12)
        np.testing.assert_allclose(others, rows, atol=1e-11)

    def test_powers_of_two_change_no_bit(self, rng):
        X = rng.standard_normal((100, 2))
        rows, units = unweighted(X)
        others, theirs = unweighted(X * 2.0**-40)
        np.testing.assert_array_equal(others, rows)
        np.testing.assert_array_equal(theirs, units * 2.0**-40)

    def test_shift(self, rng):
        X = rng.standard_t(3, (300, 2))
        rows, units = unweighted(X)
        others, theirs = unweighted(X + np.array([1e4, -1e5]))
        np.testing.assert_allclose(theirs, units, rtol=1e-9)
        np.testing.assert_allclose(others, rows, atol=1e-8)

    def test_reflection(self, rng):
        X = rng.lognormal(size=(301, 2))
        rows, units = unweighted(X)
        others, theirs = unweighted(-X)
        np.testing.assert_allclose(theirs, units, rtol=1e-12)
        np.testing.assert_allclose(others, -rows, atol=1e-12)

    def test_weights_count_as_copies(self, rng):
        X, counts = rng.standard_t(3, (200, 3)), rng.integers(1, 5, 200)
        X[:, 2] = rng.random(200) < 0.03
        rows, units = standardized(X, counts * 1.0, np.zeros(3))
        copies, theirs = unweighted(np.repeat(X, counts, axis=0))
        # The smallest unit of sparse columns depends on the number of rows, so compare dense ones.
        np.testing.assert_allclose(units[:2], theirs[:2], rtol=1e-12)
        np.testing.assert_allclose(np.repeat(rows, counts, axis=0)[:, :2], copies[:, :2], atol=1e-9)
        _, doubled = standardized(X, counts * 2.0, np.zeros(3))
        np.testing.assert_allclose(doubled, units, rtol=1e-12)

    def test_an_outlier_hardly_changes_the_unit(self, rng):
        X = rng.standard_normal((1000, 1))
        _, before = unweighted(X)
        X[0] = 1e8
        rows, after = unweighted(X)
        assert after == pytest.approx(before, rel=0.05)
        assert np.abs(rows).max() < 8.0

    @pytest.mark.parametrize("constant", [0.0, 3.0, 0.1, -1e300, 1e-300])
    def test_constant_columns(self, constant):
        X = np.column_stack([np.full(50, constant), np.arange(50.0)])
        rows, units = standardized(X, np.linspace(0.1, 1.0, 50), np.zeros(2))
        assert units[0] == 0.0
        assert units[1] > 0.0
        np.testing.assert_array_equal(rows[:, 0], 0.0)

    def test_columns_that_vary_only_by_rounding_are_constant(self):
        X = 0.1 + np.arange(50.0)[:, None] % 2 * 1e-16
        assert np.ptp(X) > 0
        rows, units = unweighted(X)
        assert units == 0.0
        np.testing.assert_array_equal(rows, 0.0)

    def test_rare_categories_have_the_unit_of_common_ones(self):
        """Standard deviations would be .5 and .0316, which puts rare rows 32 of them away."""
        X = np.zeros((1000, 2))
        X[::2, 0] = 1.0
        X[0, 1] = 1.0
        rows, units = unweighted(X)
        np.testing.assert_allclose(units, 0.5, rtol=0.01)
        np.testing.assert_allclose(np.ptp(rows, axis=0), 2.0, rtol=0.01)

    def test_the_range_of_all_rows_counts_in_sparse_columns(self):
        X = np.zeros((200, 1))
        X[0] = 1.0
        _, alone = unweighted(X)
        _, units = standardized(X, np.ones(200), np.array([100.0]))
        assert units == pytest.approx(100.0 / np.sqrt(400.0))
        assert units > alone


class TestKnees:
    @staticmethod
    def of(X, weights=None):
        weights = np.ones(len(X)) if weights is None else weights
        return knees(X, weights, X.min(axis=0), X.max(axis=0))

    def test_only_heavy_tails_have_knees(self, rng):
        X = np.column_stack([rng.standard_normal(2000), rng.standard_cauchy(2000)])
        center, knee = self.of(X)
        np.testing.assert_allclose(center, np.median(X, axis=0), atol=0.01)
        low, high = np.quantile(X[:, 1], (0.25, 0.75))
        assert knee[0] == np.inf
        assert knee[1] == pytest.approx((high - low) / NORMAL_RANGE, rel=0.02)

    def test_no_knees_without_heavy_tails(self, rng):
        assert self.of(rng.standard_normal((500, 3)))[1] is None
        assert self.of(rng.random((500, 3)))[1] is None
        one_hot = np.zeros((500, 1))
        one_hot[0] = 1.0
        assert self.of(one_hot)[1] is None
        assert self.of(np.full((500, 1), 7.0))[1] is None

    def test_tails_outside_of_the_sample_count(self, rng):
        X = rng.standard_normal((500, 2))
        _, knee = knees(X, np.ones(500), X.min(axis=0), np.array([4.0, 1e3]))
        assert knee[0] == np.inf
        assert np.isfinite(knee[1])

    def test_shift_and_scale(self, rng):
        X = rng.standard_cauchy((501, 2))
        center, knee = self.of(X)
        moved, scaled = self.of(X * [1e6, 1e-6] + [1e3, 0.0])
        np.testing.assert_allclose(moved, center * [1e6, 1e-6] + [1e3, 0.0], rtol=1e-9)
        np.testing.assert_allclose(scaled, knee * [1e6, 1e-6], rtol=1e-9)


class TestColumns:
    @staticmethod
    def some(rng, *, compressed):
        center, units = np.array([1.0, -20.0, 3e4]), np.array([0.1, 5.0, 1e3])
        X = center + units * rng.standard_normal((30, 3)) * 2.0
        return X, Columns(center, units, np.array([0.2, np.inf, 500.0]) if compressed else None)

    def test_standard(self, rng):
        X, columns = self.some(rng, compressed=True)
        offset = X - columns.center
        expected = offset / columns.units
        for j in (0, 2):
            knee = columns.knee[j]
            expected[:, j] = knee * np.arcsinh(offset[:, j] / knee) / columns.units[j]
        before = X.copy()
        np.testing.assert_allclose(columns.standard(X), expected, rtol=1e-12)
        np.testing.assert_array_equal(X, before)

    @pytest.mark.parametrize("compressed", [False, True])
    @pytest.mark.parametrize(
        "kernel",
        [
            Gaussian(0.7),
            Gaussian([0.1, 2.0, 0.5]),
            Matern(0.5, length_scale=[1.0, 2.0, 0.3]),
            RationalQuadratic(length_scale=1.3),
            Laplacian([0.2, 1.0, 0.1]),
            ArcCosine(1, length_scale=[1.0, 2.0, 0.5]),
            Metric(Gaussian(0.5), [[1.0, 0.5, -1.0], [0.0, 2.0, 0.1]]),
        ],
    )
    def test_kernel_equals_that_of_standardized_rows(self, rng, kernel, compressed):
        X, columns = self.some(rng, compressed=compressed)
        raw = columns.kernel(kernel)
        np.testing.assert_allclose(raw(X), kernel(columns.standard(X)), atol=1e-9)

    def test_a_stationary_kernel_needs_no_matrix(self, rng):
        _, columns = self.some(rng, compressed=False)
        kernel = columns.kernel(Matern(1.5, length_scale=2.0))
        assert kernel.projection is None
        np.testing.assert_allclose(kernel.length_scale, 2.0 * columns.units)

    def test_scales_out_of_range_are_rejected(self):
        with pytest.raises(ValueError, match="must be positive and finite"):
            with_factors(Gaussian(), np.array([1.0, 1e-200]))
