"""Test the sample from which kernels are learned: independent of the order and blocks of rows."""

from functools import partial, reduce

import numpy as np
import pytest
from scipy import sparse

from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows
from quadfeat.data.sampling import Ends, append_columns
from quadfeat.learning import sample as module
from quadfeat.learning.sample import ColumnSpread, LearningSample
from quadfeat.solvers.targets import Labels, Numbers, Outputs


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def few(monkeypatch):
    """Limit samples to 100 rows, so that small tables are sampled."""
    monkeypatch.setattr(module, "SAMPLE_ROWS", (100, 100))


def sampled(X, y, weights=None, *, parts=None, targets=None):
    """Return the sample of a table, or the merged sample of its parts."""
    targets = Numbers() if targets is None else targets
    blocks = [
        Block(X[part], y[part], None if weights is None else weights[part])
        for part in ([slice(None)] if parts is None else parts)
    ]
    outputs = reduce(Outputs.merged, map(partial(Outputs.of, targets), blocks))
    summary = outputs.summary
    tables = [
        (append_columns(one.X, targets.columns(one.y, summary)), one.weights) for one in blocks
    ]
    ends = reduce(Ends.merged, (Ends.of(*one) for one in tables))
    samples = [LearningSample.of(targets, summary, ends, block) for block in blocks]
    return reduce(LearningSample.merged, samples)


def table(rng, n=500, d=3):
    X = rng.standard_normal((n, d)) * np.logspace(-3, 3, d) + 5.0
    return X, np.sin(X[:, 0]) + rng.standard_normal(n)


def assert_same(one, other):
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.Y, other.Y)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-12)
    assert one.n_rows == other.n_rows
    np.testing.assert_allclose(one.deviations, other.deviations, rtol=1e-9)
    for mine, theirs in zip(
        (one.columns.center, one.columns.units),
        (other.columns.center, other.columns.units),
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


PARTS = [
    [slice(0, 250), slice(250, 500)],
    [slice(0, 1), slice(1, 77), slice(77, 500)],
    [slice(400, 500), slice(0, 400)],
]


class TestSample:
    @pytest.mark.parametrize("parts", PARTS)
    def test_any_blocks(self, rng, few, parts):
        X, y = table(rng)
        whole = sampled(X, y)
        assert whole.size == 100
        assert_same(sampled(X, y, parts=parts), whole)

    def test_any_order(self, rng, few):
        X, y = table(rng)
        order, weights = rng.permutation(500), rng.random(500) + 0.1
        assert_same(sampled(X[order], y[order]), sampled(X, y))
        assert_same(sampled(X[order], y[order], weights[order]), sampled(X, y, weights))

    def test_batches_within_a_block(self, rng, few, monkeypatch):
        X, y = table(rng)
        whole = sampled(X, y)
        monkeypatch.setattr(module, "ROWS_PER_BATCH", 37)
        assert_same(sampled(X, y), whole)

    def test_sparse_rows(self, rng, few):
        X, y = table(rng)
        X[rng.random(X.shape) < 0.6] = 0.0
        dense, stored = sampled(X, y), sampled(sparse.csr_matrix(X), y)
        np.testing.assert_array_equal(stored.rows, dense.rows)
        np.testing.assert_allclose(stored.deviations, dense.deviations, rtol=1e-9)
        np.testing.assert_allclose(stored.columns.units, dense.columns.units, rtol=1e-9)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    def test_gathered_reads_all_rows_first(self, rng, few, form, monkeypatch):
        X, y = table(rng)
        weights = rng.integers(0, 3, 500) * 1.0
        outputs = Outputs.of(Numbers(), Block(form(X), y, weights))
        rows = ArrayRows(Block(form(X), y, weights))
        monkeypatch.setattr(module, "ROWS_PER_BATCH", 37)
        found = LearningSample.gathered(Numbers(), outputs, rows)
        assert_same(found, sampled(form(X), y, weights))
        present = np.column_stack([X, y])[weights > 0]
        np.testing.assert_array_equal(found.ends.lowest, present.min(axis=0))
        np.testing.assert_array_equal(found.ends.highest, present.max(axis=0))

    def test_rows_keep_their_targets(self, rng, few):
        X, y = table(rng)
        found = sampled(X, y)
        where = {row.tobytes(): target for row, target in zip(X, y, strict=True)}
        assert [where[row.tobytes()] for row in found.rows] == found.Y[:, 0].tolist()

    def test_small_tables_are_used_completely(self, rng):
        X, y = table(rng)
        found = sampled(X, y)
        assert found.size == found.n_rows == 500
        assert {tuple(row) for row in found.rows} == {tuple(row) for row in X}

    def test_sampling_is_uniform(self, rng, few):
        """The mean of a column equals that of the table within four standard errors."""
        X, y = table(rng, 5000)
        found = sampled(X, y).rows
        errors = (found.mean(axis=0) - X.mean(axis=0)) / (X.std(axis=0) / 10.0)
        assert np.abs(errors).max() < 4.0

    def test_weights_count_as_copies(self, rng, few):
        X, y = table(rng)
        counts = rng.integers(1, 4, 500)
        weighted = sampled(X, y, counts * 1.0)
        copies = sampled(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_array_equal(weighted.rows, copies.rows)
        np.testing.assert_allclose(weighted.weights, copies.weights, rtol=1e-12)
        np.testing.assert_allclose(weighted.deviations, copies.deviations, rtol=1e-9)
        np.testing.assert_allclose(weighted.columns.units, copies.columns.units, rtol=1e-9)
        assert weighted.weights.mean() == pytest.approx(1.0)

    def test_rows_without_weight_are_left_out(self, rng):
        X, y = table(rng)
        X[::2] *= 1e200
        weights = np.ones(500)
        weights[::2] = 0.0
        found, expected = sampled(X, y, weights), sampled(X[1::2], y[1::2])
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_allclose(found.deviations, expected.deviations, rtol=1e-9)
        np.testing.assert_allclose(found.columns.units, expected.columns.units, rtol=1e-9)
        np.testing.assert_array_equal(found.ends.ranges, expected.ends.ranges)

    def test_labels(self, rng, few):
        X, y = table(rng)
        labels = np.array(["no", "maybe", "yes"])[np.digitize(y, [-0.5, 0.5])]
        found = sampled(X, labels, targets=Labels())
        assert found.classes.tolist() == ["maybe", "no", "yes"]
        np.testing.assert_array_equal(found.Y.sum(axis=1), 1.0)
        assert_same(sampled(X, labels, targets=Labels(), parts=PARTS[1]), found)
        where = {row.tobytes(): label for row, label in zip(X, labels, strict=True)}
        block = found.table(found.columns, 50).whole
        assert block.y.tolist() == [where[row.tobytes()] for row in found.rows[:50]]

    def test_table_is_in_standard_units(self, rng):
        X, y = table(rng)
        found = sampled(X, y)
        block = found.table(found.columns, 200).whole
        assert block.X.shape == (200, 3)
        np.testing.assert_allclose(block.X, found.columns.standard(found.rows[:200]), atol=1e-5)
        assert np.abs(block.X.std(axis=0) - 1.0).max() < 0.3

    def test_not_finite(self, rng):
        X, y = table(rng)
        X[3, 1] = np.inf
        with pytest.raises(ValueError, match="Input X contains infinity"):
            sampled(X, y)


class TestUnits:
    def test_shift_and_scale(self, rng, few):
        """The sample has the same rows if units of columns or targets change."""
        X, y = table(rng)
        factors, shifts = np.array([1e-6, 1.0, 1e6]), np.array([0.0, 1e3, -10.0])
        here, there = sampled(X, y), sampled(X * factors + shifts, 1e3 * y - 7.0)
        assert here.size == 100
        np.testing.assert_array_equal(there.rows, here.rows * factors + shifts)
        np.testing.assert_array_equal(there.Y, 1e3 * here.Y - 7.0)
        np.testing.assert_allclose(there.columns.units, here.columns.units * factors, rtol=1e-8)
        np.testing.assert_allclose(there.deviations, here.deviations * factors, rtol=1e-8)
        center = here.columns.center * factors + shifts
        np.testing.assert_allclose(there.columns.center, center, rtol=1e-9)

    def test_constant_columns_have_a_positive_unit(self, rng):
        X, y = table(rng)
        X = np.column_stack([X, np.zeros(500), np.full(500, -7.0), np.full(500, 1e-300)])
        found = sampled(X, y)
        for units in (found.columns.units, found.deviations):
            assert (units > 0).all()
            assert np.isfinite(units).all()
        assert np.isfinite(found.columns.standard(found.rows)).all()

    def test_compressed_only_with_heavy_tails(self, rng):
        X, y = table(rng)
        assert sampled(X, y).compressed is None
        X[:, 1] = rng.standard_cauchy(500) * 1e4
        columns = sampled(X, y).compressed
        assert np.isfinite(columns.knee).tolist() == [False, True, False]
        standard = columns.standard(X)
        np.testing.assert_allclose(standard.std(axis=0), 1.0, rtol=0.3)

    def test_huge_numbers(self, rng):
        X, y = table(rng)
        found = sampled(X * 1e300, y)
        assert np.isfinite(found.columns.standard(found.rows)).all()
        assert np.isfinite(found.deviations).all()


class TestColumnSpread:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    def test_against_numpy(self, rng, form):
        X, _ = table(rng)
        weights = rng.random(500)
        found = ColumnSpread.of(form(X), weights)
        mean = np.average(X, axis=0, weights=weights)
        variance = np.average((X - mean) ** 2, axis=0, weights=weights)
        np.testing.assert_allclose(found.means, mean, rtol=1e-12)
        np.testing.assert_allclose(found.deviations, np.sqrt(variance), rtol=1e-9)

    def test_parts_add_up(self, rng):
        X, _ = table(rng)
        parts = [ColumnSpread.of(X[part], None) for part in PARTS[2]]
        parts.append(ColumnSpread.of(X[:5], np.zeros(5)))
        found = reduce(ColumnSpread.merged, parts)
        np.testing.assert_allclose(found.means, X.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(found.deviations, X.std(axis=0), rtol=1e-9)

    def test_equal_values_have_no_spread(self):
        found = ColumnSpread.of(np.full((1000, 1), 0.1), np.linspace(0.1, 1.0, 1000))
        assert found.deviations == 0.0
