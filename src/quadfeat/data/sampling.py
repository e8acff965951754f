r"""Samples of rows that depend on the content of the rows, not on their order.

Each distinct row has a key, a hash of its entries. The sample consists of the rows with the
smallest keys, and the number of times each occurs. So the sample of a table does not depend on the
order of its rows or on batches, and weights are equivalent to copies. The samples of two tables can
be merged into the sample of both.

The key of a row is :math:`h(\sum_j c_j b_j)` modulo :math:`2^{64}`, where :math:`b_j` are the
folded bits of its entries as float64, :math:`c_j` are odd numbers and :math:`h` mixes the bits.
Zeros add nothing, so sparse and dense rows have the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register

Keys = NDArray[np.uint64]

# Entries whose bits are in memory at once: few enough to stay in the cache.
ENTRIES_PER_BATCH = 2**15

# Unit-free keys round each column to this many steps between its smallest and its largest value.
# The low bits of these keys distinguish rows that are equal after rounding.
PLACES = 2.0**20
LOW_BITS = np.uint64(2**24 - 1)

# If rows occur many times, the next attempt considers this many times as many rows.
MORE_CANDIDATES = 8


@register
@dataclass(frozen=True)
class RowSample:
    """Distinct rows of a table.

    Attributes
    ----------
    keys : array of shape (n_rows,)
        Ascending.
    rows : array of shape (n_rows, n_columns)
    weights : array of shape (n_rows,)
        How often each row occurs in the table, or the sum of its weights.
    size : int
        The requested number of rows. A sample has fewer only if the table has fewer distinct rows.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.data.sampling import RowSample
    >>> table = np.array([[1.0], [2.0], [1.0]])
    >>> sample = RowSample.of(table, size=5)
    >>> sorted(zip(sample.rows[:, 0].tolist(), sample.weights.tolist()))
    [(1.0, 2.0), (2.0, 1.0)]
    """

    keys: Keys
    rows: Float64Array
    weights: Float64Array
    size: int

    def check_consistency(self) -> None:
        name = "rows of _solution"
        n_rows, n_columns = np.shape(self.rows)
        checks.check_array(self.keys, (n_rows,), np.uint64, name)
        checks.check_array(self.rows, (n_rows, n_columns), np.float64, name)
        checks.check_array(self.weights, (n_rows,), np.float64, name)
        checks.expect(check.check_count(self.size, name) >= n_rows, f"there are too many {name}")

    @classmethod
    def empty(cls, n_columns: int, size: int) -> RowSample:
        """Return the sample of an empty table."""
        return cls(np.empty(0, np.uint64), np.empty((0, n_columns)), np.empty(0), size)

    @classmethod
    def of(
        cls,
        table: Any,
        size: int,
        weights: Any = None,
        keys: Keys | None = None,
        largest_key: Any = None,
    ) -> RowSample:
        """Sample a dense or CSR matrix, without rows of weight zero.

        Rows with keys above ``largest_key`` are left out too: a sample to merge with has no room
        for them. The default keys are :func:`row_keys`.
        """
        keys = row_keys(table) if keys is None else keys
        amounts = np.ones(len(keys)) if weights is None else np.asarray(weights, np.float64)
        wanted = amounts > 0 if largest_key is None else (amounts > 0) & (keys <= largest_key)
        present = np.flatnonzero(wanted)
        if len(present) < len(keys):
            keys, amounts = keys[present], amounts[present]
        n_candidates = size
        while True:
            candidates = _smallest(keys, n_candidates)
            distinct, first, which = np.unique(
                keys[candidates], return_index=True, return_inverse=True
            )
            if len(distinct) >= size or len(candidates) == len(keys):
                break
            n_candidates *= MORE_CANDIDATES
        chosen = present[candidates[first[:size]]]
        totals = _totals(which, amounts[candidates])
        return cls(distinct[:size], check.to_dense_float64(table[chosen]), totals[:size], size)

    def merged(self, other: RowSample) -> RowSample:
        """Return the sample of both tables together."""
        distinct, first, which = np.unique(
            np.concatenate([self.keys, other.keys]), return_index=True, return_inverse=True
        )
        totals = _totals(which, np.concatenate([self.weights, other.weights]))
        rows = np.concatenate([self.rows, other.rows])[first[: self.size]]
        return RowSample(distinct[: self.size], rows, totals[: self.size], self.size)

    def extended(self, table: Any, weights: Any = None, keys: Keys | None = None) -> RowSample:
        """Return the sample of this table and another dense or CSR matrix together."""
        largest_key = self.keys[-1] if len(self.keys) == self.size else None
        sample = RowSample.of(table, self.size, weights, keys, largest_key)
        return self.merged(sample) if len(sample.keys) else self

    def first(self, n_rows: int) -> RowSample:
        """Return a sample of fewer rows."""
        part = slice(n_rows)
        return RowSample(
            self.keys[part], self.rows[part], self.weights[part], min(n_rows, self.size)
        )

    @property
    def labels(self) -> NDArray[np.intp]:
        """The last column as integers, if it holds the indices of classes."""
        return self.rows[:, -1].astype(np.intp)

    @property
    def n_distinct(self) -> float:
        """Number of distinct rows of the table: exact for a small table, otherwise estimated."""
        if len(self.keys) < self.size or self.size < 2:
            return float(max(1, len(self.keys)))
        # The k-th smallest of n uniform numbers has the mean k / (n + 1).
        share = (float(self.keys[-1]) + 1.0) / 2.0**64
        return max(float(len(self.keys)), (len(self.keys) - 1) / share)

    @property
    def n_samples(self) -> float:
        """Effective number of rows: the inverse of the probability that two random rows are equal.

        Copies and unequal weights make it smaller than the number of rows.
        """
        mean, square = self.weights.mean(), (self.weights**2).mean()
        return max(1.0, float(self.n_distinct * mean**2 / square))


@dataclass(frozen=True)
class Ends:
    """The smallest and the largest value of each column.

    Attributes
    ----------
    lowest, highest : array of shape (n_columns,)
        Infinite for a table without rows.
    """

    lowest: Float64Array
    highest: Float64Array

    @classmethod
    def of(cls, table: Any, weights: Any = None) -> Ends:
        """Return the ends of a dense or CSR matrix; rows of weight zero do not count."""
        present = table if weights is None else table[weights > 0]
        if present.shape[0] == 0:
            nothing = np.full(table.shape[1], np.inf)
            return cls(nothing, -nothing)
        low, high = (
            check.to_dense_float64(ends).ravel()
            for ends in (present.min(axis=0), present.max(axis=0))
        )
        return cls(low, high)

    def merged(self, other: Ends) -> Ends:
        """Return the ends of both tables together."""
        return Ends(np.minimum(self.lowest, other.lowest), np.maximum(self.highest, other.highest))

    @property
    def ranges(self) -> Float64Array:
        """The range of each column, limited to the largest float64 number."""
        with np.errstate(over="ignore", invalid="ignore"):
            differences = self.highest - self.lowest
        return np.clip(differences, 0.0, np.finfo(np.float64).max)


def _totals(which: NDArray[np.intp], weights: Float64Array) -> Float64Array:
    """Return the total weight of each distinct row."""
    return np.asarray(np.bincount(which, weights), dtype=np.float64)


def _smallest(keys: Keys, count: int) -> NDArray[np.intp]:
    """Return the indices of the ``count`` smallest keys, and of all keys equal to the last one."""
    if count >= len(keys):
        return np.arange(len(keys))
    return np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])


def append_columns(table: Any, columns: Float64Array) -> Any:
    """Return a dense or CSR matrix with columns appended."""
    if sparse.issparse(table):
        return sparse.hstack([table, columns], format="csr")
    return np.hstack([table, columns])


def row_keys(table: Any, *more: Any) -> Keys:
    """Return the key of each row of a dense or CSR matrix, with the columns of others appended.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.arange(6.0).reshape(2, 3)
    >>> bool((row_keys(table[:, :2], table[:, 2:]) == row_keys(table)).all())
    True
    """
    factors = _column_factors(table.shape[1] + sum(part.shape[1] for part in more))
    sums, first = np.zeros(table.shape[0], dtype=np.uint64), 0
    for part in (table, *more):
        n_rows, n_columns = part.shape
        own = factors[first : first + n_columns]
        first += n_columns
        if sparse.issparse(part):
            sums += _row_sums(part, _folded_bits(part.data) * own[part.indices])
            continue
        size = max(1, ENTRIES_PER_BATCH // max(1, n_columns))
        for start in range(0, n_rows, size):  # a partition may have no rows
            rows = slice(start, start + size)
            sums[rows] += _folded_bits(part[rows]) @ own
    return _mixed(sums)


def unit_free_keys(table: Any, lowest: Float64Array, ranges: Float64Array) -> Keys:
    """Return keys of rows that depend little on the units and origins of columns.

    The high bits are a hash of the rounded positions of entries between the smallest and the
    largest value of their columns. So the sample of a table in other units is the same, except for
    rounding. The low bits are those of ``row_keys``, which distinguish rows at the same positions.

    Parameters
    ----------
    table : array or CSR matrix of shape (n_rows, n_columns)
    lowest, ranges : array of shape (n_columns,)
        The smallest value and the range of each column.
    """
    n_rows, n_columns = table.shape
    factors = _column_factors(n_columns)
    sums = np.empty(n_rows, dtype=np.uint64)
    if sparse.issparse(table):
        zeros = _places(np.zeros((1, n_columns)), lowest, ranges)
        base = (zeros @ factors)[0]
        columns = table.indices
        places = _places(table.data, lowest[columns], ranges[columns])
        sums = base + _row_sums(table, (places - zeros[0, columns]) * factors[columns])
    else:
        size = max(1, ENTRIES_PER_BATCH // n_columns)
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            sums[rows] = _places(table[rows], lowest, ranges) @ factors
    return (_mixed(sums) & ~LOW_BITS) | (row_keys(table) & LOW_BITS)


def _row_sums(table: Any, terms: Keys) -> Keys:
    """Return the sum of the terms of each row, one term for each stored entry of a CSR matrix."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return np.asarray(running[table.indptr[1:]] - running[table.indptr[:-1]])


def _places(values: Any, lowest: Float64Array, ranges: Float64Array) -> Keys:
    """Return the rounded position of each value, from 0 at the lowest to ``PLACES``."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        shares = (np.asarray(values, dtype=np.float64) - lowest) / ranges
    # Constant columns have range 0, and rows of weight zero may be outside the range.
    shares = np.clip(np.nan_to_num(shares), 0.0, 1.0)
    return np.asarray(np.rint(shares * PLACES)).astype(np.uint64)


def _folded_bits(values: Any) -> Keys:
    """Return the bits of float64 numbers, the high bits folded onto the low ones."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    bits ^= bits >> np.uint64(32)
    return bits


@lru_cache(maxsize=8)
def _column_factors(n_columns: int) -> Keys:
    """Return an odd number for each column."""
    # These do not depend on a seed, so that samples of different tables can be merged.
    return _mixed(np.arange(1, n_columns + 1, dtype=np.uint64)) | np.uint64(1)


def _mixed(values: Keys) -> Keys:
    """Return numbers in which each bit depends on all bits of the given numbers."""
    with np.errstate(over="ignore"):
        values = values * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((32, 0xD6E8FEB86659FD93), (29, 0xBF58476D1CE4E5B9)):
            values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
        return values ^ (values >> np.uint64(32))
