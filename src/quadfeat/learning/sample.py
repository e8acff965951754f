"""A sample of rows to learn a kernel from, and the standardization of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis

from quadfeat._utils.columns import check_finite
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows, Rows
from quadfeat.data.sampling import Ends, RowSample, append_columns, unit_free_keys
from quadfeat.learning.columns import ROUNDING, Columns, knees, standardized
from quadfeat.solvers.summaries import Summary
from quadfeat.solvers.targets import Outputs, Targets

# Number of rows in a sample: as many as have SAMPLE_ENTRIES entries, within the limits SAMPLE_ROWS.
SAMPLE_ROWS = (2048, 8192)
SAMPLE_ENTRIES = 2**22

# Number of rows that are added to a sample at once.
ROWS_PER_BATCH = 8192


@dataclass(frozen=True)
class ColumnSpread:
    """Means and sums of squared deviations of columns, which can be merged."""

    weight: float
    means: Float64Array
    squares: Float64Array

    @classmethod
    def of(cls, X: Any, weights: Float64Array | None) -> ColumnSpread:
        """Return the spread of the columns of a dense or CSR matrix."""
        if weights is not None and not weights.all():  # ignore rows of weight 0
            X, weights = X[weights > 0], weights[weights > 0]
        counts = np.ones(X.shape[0]) if weights is None else weights
        weight = float(counts.sum())
        if weight == 0:
            return cls(0.0, np.zeros(X.shape[1]), np.zeros(X.shape[1]))
        if sparse.issparse(X):
            means, variances = mean_variance_axis(X.astype(np.float64), axis=0, weights=counts)
            return cls(weight, means, variances * weight)
        rows = np.asarray(X, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            origin = rows[0]  # so that equal values deviate by exactly 0
            offsets = (counts @ (rows - origin)) / weight
            squares = counts @ (rows - origin - offsets) ** 2
        return cls(weight, origin + offsets, squares)

    def merged(self, other: ColumnSpread) -> ColumnSpread:
        """Return the spread of both sets of rows combined."""
        if self.weight == 0 or other.weight == 0:
            return other if self.weight == 0 else self
        weight = self.weight + other.weight
        with np.errstate(over="ignore", invalid="ignore"):
            steps = other.means - self.means
            means = self.means + steps * (other.weight / weight)
            between = steps**2 * (self.weight * other.weight / weight)
        return ColumnSpread(weight, means, self.squares + other.squares + between)

    @property
    def deviations(self) -> Float64Array:
        """The standard deviation of each column."""
        return np.asarray(np.sqrt(self.squares / max(self.weight, np.finfo(float).tiny)))


@dataclass(frozen=True)
class LearningSample:
    """A sample of rows with targets, and the spread of all rows.

    Rows are sampled by a hash of their values. The sample does not depend on the order of rows, on
    blocks or, up to rounding, on units.

    Attributes
    ----------
    sample : RowSample
        Rows with their targets as the last columns.
    ends : Ends
        The smallest and the largest value of each column in all rows, including targets.
    spread : ColumnSpread
        The spread of the columns in all rows.
    classes : array of shape (n_classes,) or None
        The classes; None for regression.
    n_rows : int
        Total number of rows.
    """

    sample: RowSample
    ends: Ends
    spread: ColumnSpread
    classes: Array | None
    n_rows: int

    @classmethod
    def of(cls, targets: Targets, summary: Summary, ends: Ends, block: Block) -> LearningSample:
        """Sample a block of rows; ``ends`` are those of all rows."""
        check_finite(block.X)
        d = block.X.shape[1]
        size = int(np.clip(SAMPLE_ENTRIES // d, *SAMPLE_ROWS))
        sample = RowSample.empty(len(ends.lowest), size)
        spread = ColumnSpread(0.0, np.zeros(d), np.zeros(d))
        for table, weights in _batches(targets, summary, block):
            keys = unit_free_keys(table, ends.lowest, ends.ranges)
            sample = sample.extended(table, weights, keys)
            spread = spread.merged(ColumnSpread.of(table[:, :d], weights))
        return cls(sample, ends, spread, summary.classes, block.n_rows)

    def merged(self, other: LearningSample) -> LearningSample:
        """Return the sample of both sets of rows combined."""
        return LearningSample(
            self.sample.merged(other.sample),
            self.ends,
            self.spread.merged(other.spread),
            self.classes,
            self.n_rows + other.n_rows,
        )

    @classmethod
    def gathered(cls, targets: Targets, outputs: Outputs, rows: Rows) -> LearningSample:
        """Sample rows from any source; ``outputs`` come from an earlier pass over the targets."""
        ends = rows.each(partial(_ends_of, targets, outputs.summary), Ends.merged)
        task = partial(cls.of, targets, outputs.summary, ends)
        found: LearningSample = rows.each(task, cls.merged)
        return found

    @property
    def d(self) -> int:
        """Number of columns of X."""
        return len(self.spread.means)

    @property
    def size(self) -> int:
        """Number of sampled rows."""
        return len(self.sample.weights)

    @property
    def weights(self) -> Float64Array:
        """Weights of the sampled rows, scaled to mean 1."""
        weights = self.sample.weights
        return weights / weights.mean()

    @property
    def Y(self) -> Float64Array:
        """Targets of the sampled rows, shape (n_rows, n_outputs)."""
        return self.sample.rows[:, self.d :]

    @property
    def rows(self) -> Float64Array:
        """Sampled rows in their original units, shape (n_rows, d)."""
        return self.sample.rows[:, : self.d]

    @cached_property
    def columns(self) -> Columns:
        """The robust standardization of the columns."""
        finite = np.isfinite(self.spread.means)
        center = np.where(finite, self.spread.means, self.rows.mean(axis=0))
        return self._in_units(Columns(center, np.ones(self.d)), self.ends.ranges[: self.d])

    @cached_property
    def compressed(self) -> Columns | None:
        """The standardization with compressed tails; None if no column has heavy tails."""
        d = self.d
        ends = self.ends.lowest[:d], self.ends.highest[:d]
        center, knee = knees(self.rows, self.weights, *ends)
        if knee is None:
            return None
        columns = Columns(center, np.ones(d), knee)
        low, high = (columns.standard(end[None])[0] for end in ends)
        return self._in_units(columns, high - low)

    def _in_units(self, columns: Columns, ranges: Float64Array) -> Columns:
        """Return columns with robust units, in which their spread is about 1."""
        rows = columns.standard(self.rows)
        _, units = standardized(rows, self.weights, ranges)
        largest = np.abs(self.rows).max(axis=0)
        return replace(columns, units=_positive(units, largest, ranges))

    @cached_property
    def deviations(self) -> Float64Array:
        """The standard deviation of each column in all rows, or its robust unit if that fails."""
        found = self.spread.deviations
        largest = np.abs(self.spread.means)
        usable = np.isfinite(found) & (found > ROUNDING * np.maximum(largest, found))
        return np.where(usable, found, self.columns.units)

    def table(self, columns: Columns, n_rows: int) -> ArrayRows:
        """Return the first ``n_rows`` sampled rows, standardized."""
        weights = self.sample.weights[:n_rows]
        y: Array = self.Y[:n_rows]
        if self.classes is not None:
            y = self.classes[y.argmax(axis=1)]
        X = columns.standard(self.rows[:n_rows]).astype(np.float32)
        return ArrayRows(Block(X, y, None if (weights == 1.0).all() else weights))


def _batches(targets: Targets, summary: Summary, block: Block) -> Iterator[tuple[Any, Any]]:
    """Yield batches of rows with their targets as the last columns, and their weights."""
    columns = targets.columns(block.y, summary)
    for rows in gen_batches(block.n_rows, ROWS_PER_BATCH):  # avoid a copy of the whole table
        weights = None if block.weights is None else block.weights[rows]
        yield append_columns(block.X[rows], columns[rows]), weights


def _ends_of(targets: Targets, summary: Summary, block: Block) -> Ends:
    """Return the ends of the columns of a block, including targets."""
    parts = (Ends.of(*batch) for batch in _batches(targets, summary, block))
    return reduce(Ends.merged, parts)


def _positive(units: Float64Array, largest: Float64Array, ranges: Float64Array) -> Float64Array:
    """Replace units of 0 by the range or the magnitude of the column."""
    constant = np.where(ranges > ROUNDING * largest, ranges, largest)
    found = np.where(units > 0, units, constant)
    return np.where(found > 0, found, 1.0)
