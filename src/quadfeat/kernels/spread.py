"""Compute the standard deviation of a dataset from statistics that can be merged over blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.kernels.projection import Projection

# Number of entries of the data that are processed at once.
ENTRIES_PER_BATCH = 2**18

# The standard deviation is rounded to this many bits.
DEVIATION_BITS = 42


@dataclass(frozen=True)
class Spread:
    """Mean and sum of squared deviations over all entries of a table.

    One entry is subtracted from all entries first. Equal entries then have a spread of exactly 0,
    and a small spread around a large mean keeps its digits. The statistics of several tables can be
    merged.

    Attributes
    ----------
    size : float
        The number of entries, or the sum of their weights.
    unit : float
        The largest power of two up to the largest magnitude, or 0 for a table of zeros. The
        attributes below are in this unit, so that squares stay in range.
    origin : float
        The entry that was subtracted.
    squares : float
        The sum of squared deviations from the mean.
    offset : float
        The mean minus the origin.
    """

    size: float
    unit: float
    origin: float
    squares: float
    offset: float = 0.0

    @classmethod
    def of(
        cls,
        X: Any,
        weights: Float64Array | None = None,
        projection: Projection | None = None,
    ) -> Spread:
        """Return the spread of a dense or sparse matrix, with optional weights of rows.

        With a projection, return the spread of the projected rows.
        """
        spread = cls(0.0, 0.0, 0.0, 0.0)
        size = max(1, ENTRIES_PER_BATCH // X.shape[1])
        for start in range(0, X.shape[0], size):  # a partition may have no rows
            rows = slice(start, start + size)
            batch = X[rows] if projection is None else projection.rows(X[rows])
            spread = spread.merged(cls._of_batch(batch, None if weights is None else weights[rows]))
        return spread

    @classmethod
    def _of_batch(cls, X: Any, weights: Float64Array | None) -> Spread:
        if weights is not None and not weights.all():  # rows of weight 0 must not set the unit
            X, weights = X[weights > 0], weights[weights > 0]
        counts = np.ones(X.shape[0]) if weights is None else weights
        size, largest = float(counts.sum()) * X.shape[1], check.largest_magnitude(X)
        if largest == 0 or size == 0:
            return cls(size, 0.0, 0.0, 0.0)
        unit = math.ldexp(1.0, math.frexp(largest)[1] - 1)
        if sparse.issparse(X):
            values, counts = X.data, np.repeat(counts, np.diff(X.indptr))
        else:
            values, counts = np.asarray(X), np.broadcast_to(counts[:, None], X.shape)
        shrunk = np.asarray(values, dtype=np.float64) / unit
        # If a sparse matrix has entries that are not stored, these are zeros.
        origin = float(shrunk.flat[0]) if shrunk.size == X.shape[0] * X.shape[1] else 0.0
        shrunk -= origin
        offset = float((counts * shrunk).sum() / size)
        squares = (counts * (shrunk - offset) ** 2).sum()
        if shrunk.size < X.shape[0] * X.shape[1]:
            squares += (size - counts.sum()) * offset**2
        return cls(size, unit, origin, float(squares), offset)

    def merged(self, other: Spread) -> Spread:
        """Return the spread of both tables together."""
        if self.size == 0 or other.size == 0:
            return other if self.size == 0 else self
        unit, size = max(self.unit, other.unit), self.size + other.size
        if unit == 0:
            return Spread(size, 0.0, 0.0, 0.0)
        left, right = self.unit / unit, other.unit / unit
        step = other.origin * right - self.origin * left
        step += other.offset * right - self.offset * left
        offset = self.offset * left + step * (other.size / size)
        squares = self.squares * left**2 + other.squares * right**2
        squares += step**2 * self.size * (other.size / size)
        return Spread(size, unit, self.origin * left, squares, offset)

    @property
    def mean(self) -> float:
        """The mean, in units of ``unit``."""
        return self.origin + self.offset

    @property
    def deviation(self) -> float:
        """The standard deviation to twelve digits, or 0 if it is within rounding error."""
        if self.size == 0:
            return 0.0
        deviation = float(np.sqrt(self.squares / self.size))
        if deviation <= 8 * np.finfo(np.float64).eps:
            return 0.0
        # The last bits depend on the order of the rows. Round them off, so that maps do not.
        fraction, exponent = math.frexp(deviation * self.unit)
        return math.ldexp(round(fraction * 2**DEVIATION_BITS), exponent - DEVIATION_BITS)
