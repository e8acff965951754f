"""Test samples of rows and fits to weighted rows: order, batches and copies do not matter."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats

from quadfeat import QuadratureFeatures
from quadfeat.data.sampling import LOW_BITS, Ends, RowSample, row_keys, unit_free_keys
from quadfeat.kernels import Gaussian, Spread

rng = np.random.default_rng(0)

# Few values, so that some rows are equal. Zeros of both signs occur.
small_tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 30), st.integers(1, 3)),
    elements=st.sampled_from([0.0, -0.0, 1.0, -1.5, 3e300, 5e-324]),
)


def same(left, right):
    assert_array_equal(left.keys, right.keys)
    assert_array_equal(left.rows, right.rows)
    assert_allclose(left.weights, right.weights, rtol=1e-13)
    assert left.size == right.size


def weighted_table(n_rows, seed=0):
    """Return rows, integer weights (some zero), and a shuffled table of copies."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n_rows, 4))
    counts = rng.integers(0, 4, n_rows)
    copies = np.repeat(table, counts, axis=0)
    return table, counts, rng.permutation(copies)


class TestRowSample:
    @pytest.mark.parametrize("size", [1, 7, 100, 5000])
    def test_order_does_not_matter(self, size):
        table = rng.standard_normal((1000, 3))
        same(RowSample.of(table, size), RowSample.of(table[::-1], size))
        same(RowSample.of(table, size), RowSample.of(rng.permutation(table), size))

    @pytest.mark.parametrize("size", [1, 7, 100, 5000])
    def test_batches_do_not_matter(self, size):
        table = np.round(rng.standard_normal((1000, 2)), 1)  # some rows are repeated
        weights = rng.uniform(0, 2, 1000) * (rng.random(1000) < 0.8)
        whole = RowSample.of(table, size, weights)
        cuts = np.sort(rng.integers(0, 1000, 11))
        merged = None
        for part in np.split(rng.permutation(1000), cuts):
            sample = RowSample.of(table[part], size, weights[part])
            merged = sample if merged is None else merged.merged(sample)
        same(merged, whole)

    @given(small_tables, st.integers(1, 8), st.data())
    @settings(max_examples=100, deadline=None)
    def test_any_two_parts_merge_into_the_whole(self, table, size, data):
        cut = data.draw(st.integers(0, len(table)))
        parts = [RowSample.of(part, size) for part in (table[:cut], table[cut:])]
        same(parts[0].merged(parts[1]), RowSample.of(table, size))
        same(parts[1].merged(parts[0]), RowSample.of(table, size))

    @given(small_tables, st.integers(1, 8))
    @settings(max_examples=100, deadline=None)
    def test_rows_are_distinct_and_their_weights_count_them(self, table, size):
        sample = RowSample.of(table, size)
        assert len(sample.rows) == min(size, len(np.unique(table, axis=0)))
        for row, weight in zip(sample.rows, sample.weights, strict=True):
            assert weight == (table == row).all(axis=1).sum()
        assert (np.diff(sample.keys.astype(object)) > 0).all()

    @pytest.mark.parametrize("size", [5, 300, 5000])
    def test_integer_weights_equal_copies(self, size):
        table, counts, copies = weighted_table(1000)
        same(RowSample.of(table, size, counts), RowSample.of(copies, size))
        present = counts > 0
        same(RowSample.of(table, size, counts), RowSample.of(table[present], size, counts[present]))

    def test_many_copies_of_the_rows_with_the_smallest_keys(self):
        table = rng.standard_normal((50, 2))
        order = np.argsort(row_keys(table))
        counts = np.ones(50, dtype=int)
        counts[order[:3]] = 700
        sample = RowSample.of(np.repeat(table, counts, axis=0), 10)
        assert_array_equal(sample.rows, table[order[:10]])
        assert_array_equal(sample.weights, counts[order[:10]])

    def test_rows_of_weight_0_are_not_sampled(self):
        sample = RowSample.of(np.ones((4, 2)), 3, np.zeros(4))
        assert sample.rows.shape == (0, 2)
        same(sample.merged(RowSample.of(np.ones((4, 2)), 3)), RowSample.of(np.ones((4, 2)), 3))

    @pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
    def test_sparse_and_dense_rows_agree(self, form):
        table = rng.standard_normal((300, 20)) * (rng.random((300, 20)) < 0.2)
        table[:5] = 0.0
        same(RowSample.of(form(table), 50), RowSample.of(table, 50))
        stored = form(table)
        stored.data[:3] = 0.0  # zeros that are stored
        same(RowSample.of(stored, 300), RowSample.of(stored.toarray(), 300))

    def test_float32_rows_are_the_same_numbers(self):
        table = rng.standard_normal((300, 5)).astype(np.float32)
        same(RowSample.of(table, 50), RowSample.of(table.astype(np.float64), 50))

    def test_there_is_one_zero_only(self):
        keys = row_keys(np.array([[0.0, 1.0], [-0.0, 1.0]]))
        assert keys[0] == keys[1]

    def test_fewer_rows_than_asked_for(self):
        table = rng.standard_normal((7, 2))
        sample = RowSample.of(table, 100)
        assert sorted(sample.rows.tolist()) == sorted(table.tolist())
        assert sample.n_distinct == 7
        assert RowSample.of(np.repeat(table, 3, axis=0), 100).n_distinct == 7

    def test_first_is_the_sample_of_that_size(self):
        table = np.round(rng.standard_normal((500, 1)), 1)
        same(RowSample.of(table, 30).first(9), RowSample.of(table, 9))

    @pytest.mark.parametrize("distinct", [2000, 20_000])
    def test_number_of_distinct_rows(self, distinct):
        # Let u_(k) be the k-th smallest of n uniform numbers. The standard deviation of
        # (k - 1) / u_(k) is n / sqrt(k - 2).
        table = np.arange(float(distinct))[:, None]
        sample = RowSample.of(np.vstack([table, table[: distinct // 3]]), 400)
        assert abs(sample.n_distinct / distinct - 1) < 4 / np.sqrt(398)

    def test_number_of_samples_is_that_of_equal_pairs(self):
        counts = np.array([1, 2, 3, 4])
        sample = RowSample.of(np.arange(4.0)[:, None], 10, counts)
        assert sample.n_samples == pytest.approx(counts.sum() ** 2 / (counts**2).sum())

    @pytest.mark.parametrize(
        "table",
        [
            np.arange(20_000.0)[:, None],
            np.stack(np.meshgrid(np.arange(150.0), np.arange(150.0)), axis=-1).reshape(-1, 2),
            (np.arange(2**14)[:, None] >> np.arange(14) & 1).astype(float),
            rng.standard_normal((20_000, 3)) * 1e-300,
        ],
        ids=["integers", "grid", "bits", "tiny"],
    )
    def test_keys_are_uniform_and_distinct(self, table):
        keys = row_keys(table)
        assert len(np.unique(keys)) == len(table)
        assert stats.kstest(keys.astype(float) / 2.0**64, "uniform").pvalue > 1e-4
        low = (keys & np.uint64(0xFFFF)).astype(float) / 2.0**16
        assert stats.kstest(low, "uniform").pvalue > 1e-4

    def test_samples_cover_all_parts_of_the_table(self):
        table = np.arange(100_000.0)[:, None]
        chosen = RowSample.of(table, 1000).rows[:, 0]
        assert stats.kstest(chosen / 1e5, "uniform").pvalue > 1e-4


class TestSpread:
    @pytest.mark.parametrize("unit", [1e-290, 1.0, 1e290])
    def test_deviation_is_that_of_all_entries(self, unit):
        table = rng.standard_normal((700, 3)) * [1, 5, 0.1] + 2
        assert Spread.of(table * unit).deviation == pytest.approx(table.std() * unit, rel=1e-12)
        thin = sparse.csr_array(np.where(table > 1, table, 0.0))
        spread = Spread.of(thin * unit)
        assert spread.deviation == pytest.approx(thin.toarray().std() * unit, rel=1e-12)

    @pytest.mark.parametrize("unit", [1e-290, 1.0, 1e290])
    def test_parts_merge_into_the_whole(self, unit):
        table = rng.standard_normal((700, 3)) + np.arange(700)[:, None]
        weights = rng.uniform(0, 2, 700)
        spread = Spread(0.0, 0.0, 0.0, 0.0)
        for part in np.array_split(rng.permutation(700), 13):
            spread = spread.merged(Spread.of(table[part] * unit, weights[part]))
        whole = Spread.of(table * unit, weights)
        assert spread.deviation == pytest.approx(whole.deviation, rel=1e-12)
        assert spread.size == pytest.approx(whole.size)
        mean = np.average(table, axis=0, weights=weights).mean()
        assert spread.mean * spread.unit == pytest.approx(mean * unit, rel=1e-12)

    def test_integer_weights_equal_copies(self):
        table, counts, copies = weighted_table(400)
        assert Spread.of(table, counts * 1.0).deviation == pytest.approx(copies.std(), rel=1e-12)
        thin = sparse.csr_array(np.where(table > 0, table, 0.0))
        given = Spread.of(thin, counts * 1.0).deviation
        assert given == pytest.approx(np.where(copies > 0, copies, 0.0).std(), rel=1e-12)

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array])
    @pytest.mark.parametrize("huge", [1e12, 1e200])
    def test_rows_of_weight_0_are_ignored_even_if_huge(self, form, huge):
        table = rng.standard_normal((100, 3))
        with_outlier = form(np.vstack([table, np.full((1, 3), huge)]))
        weights = np.append(np.ones(100), 0.0)
        assert Spread.of(with_outlier, weights).deviation == pytest.approx(table.std(), rel=1e-12)

    def test_a_part_may_have_no_rows(self):
        table = rng.standard_normal((10, 3))
        assert Spread.of(table).merged(Spread.of(table[:0])) == Spread.of(table)
        assert Spread.of(table[:0]).deviation == 0.0

    def test_constant_tables_have_no_deviation(self):
        for value in (0.0, 0.1, 1e300):
            assert Spread.of(np.full((1000, 3), value)).deviation == 0.0

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array])
    @pytest.mark.parametrize("decades", [0, 1, 12])
    def test_equal_entries_have_no_deviation_under_any_weights(self, form, decades):
        weights = 10.0 ** rng.uniform(-decades, decades, 100_000)
        for value in (0.1, -7.7, 1e12, 1e-300, 1e300):
            for present in (weights, weights[::-1]):
                spread = Spread.of(form(np.full((100_000, 3), value)), present)
                assert spread.deviation == 0.0
                assert spread.merged(spread).deviation == 0.0
                assert spread.mean * spread.unit == pytest.approx(value, rel=1e-15)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("offset", [1e-8, 1e4, 1e12])
    def test_a_small_spread_about_a_large_mean(self, offset, weighted):
        table = (rng.standard_normal((100_000, 3)) + offset) - offset  # exact when added to it
        weights = 10.0 ** rng.uniform(-6, 0, 100_000) if weighted else np.ones(100_000)
        mean = np.average(table, axis=0, weights=weights).mean()
        squares = np.average((table - mean) ** 2, axis=0, weights=weights).mean()
        whole = Spread.of(table + offset, weights).deviation
        assert whole == pytest.approx(np.sqrt(squares), rel=1e-11)
        parts = np.array_split(rng.permutation(len(table)), 7)
        spreads = (Spread.of(table[part] + offset, weights[part]) for part in parts)
        assert reduce(Spread.merged, spreads).deviation == pytest.approx(whole, rel=1e-12)


class TestEnds:
    @pytest.mark.parametrize("form", [np.array, sparse.csr_array, sparse.csr_matrix])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_ends_use_all_rows_of_positive_weight(self, form, weighted):
        table = np.where(rng.random((700, 4)) < 0.3, rng.standard_normal((700, 4)), 0.0) * 5
        table[:, 3] = 2.5
        weights = np.where(np.arange(700) % 3, 1.0, 0.0) if weighted else None
        present = table if weights is None else table[weights > 0]
        parts = [
            Ends.of(form(table[part]), None if weights is None else weights[part])
            for part in np.array_split(np.arange(700), 6)
        ]
        for found in (Ends.of(form(table), weights), reduce(Ends.merged, parts)):
            assert_array_equal(found.lowest, present.min(axis=0))
            assert_array_equal(found.highest, present.max(axis=0))
            assert_array_equal(found.ranges, np.ptp(present, axis=0))

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array])
    def test_a_part_may_have_no_rows(self, form):
        table = rng.standard_normal((5, 2))
        nothing = Ends.of(form(table), np.zeros(5))
        assert_array_equal(nothing.ranges, 0.0)
        assert_array_equal(Ends.of(form(table)[:0]).ranges, 0.0)
        whole = Ends.of(form(table))
        for merged in (nothing.merged(whole), whole.merged(nothing)):
            assert_array_equal(merged.lowest, table.min(axis=0))
            assert_array_equal(merged.highest, table.max(axis=0))

    def test_ranges_that_overflow(self):
        far = Ends.of(np.array([[-1.5e308, 1.0], [1.5e308, 1.0]]))
        assert_array_equal(far.ranges, [np.finfo(float).max, 0.0])


def keys_of(table):
    ends = Ends.of(table)
    return unit_free_keys(table, ends.lowest, ends.ranges)


def high_bits(keys):
    return keys & ~LOW_BITS


class TestUnitFreeKeys:
    @pytest.mark.parametrize("seed", range(3))
    def test_units_and_shifts_do_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        table = rng.standard_normal((5000, 4))
        table[:, 3] = rng.integers(0, 5, 5000)
        factors, shifts = np.array([1e-9, 0.3, 1e12, 7.0]), np.array([0.0, 1e3, 1e9, -2.0])
        here, there = keys_of(table), keys_of(table * factors + shifts)
        # Rounding moves a row to the next place with a probability of about
        # 2**20 * 2**-53 * 1e3 / 0.3 per column, so no row out of 5000 should move.
        assert_array_equal(high_bits(here), high_bits(there))
        assert (here != there).any()  # low bits depend on the exact numbers
        first, second = np.argsort(here)[:500], np.argsort(there)[:500]
        assert_array_equal(first, second)

    @pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
    def test_sparse_and_dense_rows_agree(self, form):
        table = rng.standard_normal((300, 20)) * (rng.random((300, 20)) < 0.2)
        table[:5] = 0.0
        table[:, 7] = np.abs(table[:, 7]) + 1.0  # zero is outside the range of this column
        table[:, 8] = 0.0
        assert_array_equal(keys_of(form(table)), keys_of(table))
        stored = form(table)
        stored.data[:3] = 0.0  # zeros that are stored
        assert_array_equal(keys_of(stored), keys_of(stored.toarray()))

    def test_copies_have_equal_keys_and_near_copies_do_not(self):
        table = rng.standard_normal((1000, 3))
        near = table.copy()
        near[:, 1] = np.nextafter(near[:, 1], np.inf)
        keys = keys_of(np.vstack([table, table, near])).reshape(3, 1000)
        assert_array_equal(keys[0], keys[1])
        assert (keys[0] != keys[2]).all()
        # Their high bits agree, except at the border between two places.
        assert np.mean(high_bits(keys[0]) == high_bits(keys[2])) > 0.99

    def test_there_is_one_zero_only(self):
        keys = keys_of(np.array([[0.0, 1.0], [-0.0, 1.0], [3.0, 2.0]]))
        assert keys[0] == keys[1] != keys[2]

    def test_batches_do_not_matter(self, monkeypatch):
        table = rng.standard_normal((1000, 3))
        whole = keys_of(table)
        monkeypatch.setattr("quadfeat.data.sampling.ENTRIES_PER_BATCH", 100)
        assert_array_equal(keys_of(table), whole)
        assert_array_equal(keys_of(table[:0]), whole[:0])

    @pytest.mark.parametrize("constant", [0.0, 0.1, -1e300, 5e-324])
    def test_constant_columns_are_ignored(self, constant):
        table = rng.standard_normal((1000, 3))
        wide = np.column_stack([table, np.full(1000, constant)])
        assert_array_equal(high_bits(keys_of(wide)), high_bits(keys_of(table)))
        assert len(np.unique(keys_of(wide))) == 1000

    @pytest.mark.parametrize("unit", [5e-324, 1e-300, 1e300, 1.7e308])
    @pytest.mark.filterwarnings("error")
    def test_huge_and_tiny_ranges(self, unit):
        table = rng.uniform(-1.0, 1.0, (1000, 2))
        table[:2] = [[-1.0, -1.0], [1.0, 1.0]]
        table[:, 0] *= unit
        for keys in (keys_of(table), keys_of(sparse.csr_array(table))):
            assert len(np.unique(keys)) == 1000
            assert stats.kstest(keys.astype(float) / 2.0**64, "uniform").pvalue > 1e-4

    @pytest.mark.parametrize(
        "table",
        [
            np.arange(20_000.0)[:, None],
            np.stack(np.meshgrid(np.arange(150.0), np.arange(150.0)), axis=-1).reshape(-1, 2),
            (np.arange(2**14)[:, None] >> np.arange(14) & 1).astype(float),
            rng.standard_normal((20_000, 3)) * 1e-300,
        ],
        ids=["integers", "grid", "bits", "tiny"],
    )
    def test_keys_are_uniform_and_distinct(self, table):
        keys = keys_of(table)
        assert len(np.unique(keys)) == len(table)
        assert stats.kstest(keys.astype(float) / 2.0**64, "uniform").pvalue > 1e-4


class TestFitWithWeights:
    @pytest.mark.parametrize("form", [np.array, sparse.csr_array], ids=["dense", "sparse"])
    def test_scale_agrees_with_copies(self, form):
        table, counts, copies = weighted_table(200)
        features = QuadratureFeatures(rule="rff", n_components=10)
        gamma = features.fit(form(table), sample_weight=counts).kernel_.gamma
        assert gamma == pytest.approx(1 / (4 * copies.var()), rel=1e-12)
        assert Gaussian().resolve(table, counts).gamma == pytest.approx(gamma, rel=1e-12)

    @pytest.mark.parametrize("n_rows", [60, 3000])
    def test_auto_chooses_as_for_copies(self, n_rows):
        table, counts, copies = weighted_table(n_rows)
        features = QuadratureFeatures(n_components=60, random_state=0)
        weighted = features.fit(table, sample_weight=counts)
        nodes, candidates = weighted.nodes_, weighted.candidates_
        features.fit(copies)
        assert [repr(c.rule) for c in candidates] == [repr(c.rule) for c in features.candidates_]
        assert_allclose([c.error for c in candidates], [c.error for c in features.candidates_])
        assert_array_equal(nodes.frequencies(), features.nodes_.frequencies())
        assert_allclose(nodes.weights, features.nodes_.weights)

    def test_rows_of_weight_0_are_ignored(self):
        table, counts, _ = weighted_table(300)
        features = QuadratureFeatures(n_components=60, random_state=0)
        everything = np.vstack([table, np.full((1, 4), 1e200)])
        fingerprint = features.fit(everything, sample_weight=[*counts, 0]).fingerprint()
        present = counts > 0
        features.fit(table[present], sample_weight=counts[present])
        assert features.fingerprint() == fingerprint

    def test_equal_weights_have_no_effect(self):
        table = rng.standard_normal((100, 3))
        features = QuadratureFeatures(Gaussian(0.3), n_components=60, random_state=0)
        fingerprints = {
            features.fit(table, sample_weight=weights).fingerprint()
            for weights in (None, np.ones(100), 1.0, [1] * 100)
        }
        assert len(fingerprints) == 1

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.ones(19), r"sample_weight.*shape|inconsistent"),
            (np.ones((20, 2)), "[Ss]ample.?weight"),
            (-np.ones(20), "[Nn]egative values.*sample_weight"),
            (np.append(np.ones(19), np.nan), "NaN"),
            (np.append(np.ones(19), np.inf), "infinity"),
            (np.zeros(20), "sample_weight is zero for every row"),
            (["heavy"] * 20, "heavy|numeric"),
        ],
    )
    def test_bad_weights(self, weights, message):
        table = rng.standard_normal((20, 3))
        with pytest.raises(ValueError, match=message):
            QuadratureFeatures(n_components=10).fit(table, sample_weight=weights)
