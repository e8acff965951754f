"""Encode text with many levels by the mean target of each level.

A level's mean is shrunk to the mean of all rows, because few rows say little. The amount comes from
the analysis of variance: with variances :math:`s^2` within and :math:`t^2` between levels, a level
with :math:`n` rows gets :math:`n / (n + s^2 / t^2)` of its own mean, the best linear prediction.

Training rows must not see their own targets. They are encoded by means of the other folds. A level
with one row is then unknown to its fold, so such levels are not learned at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.tables.categories import OneHotEncoding
from quadfeat.tables.columns import Column
from quadfeat.tables.encodings import ColumnEncoding, check_levels, positions

FEWEST_ROWS = 2  # a level in fewer rows has no mean of its own
N_FOLDS = 5

# At most this many classes or targets have an output, those in most rows.
MOST_OUTPUTS = 10

# Integers with more different values are numbers, not classes.
MOST_CLASSES = 30


@dataclass(frozen=True)
class MeanTargets:
    """The values to average for each level.

    Attributes
    ----------
    values : array of shape (n_rows, n_outputs)
        Numbers, or 1 for the rows of a class and 0 for others.
    suffixes : tuple of str
        What follows the column's name in the names of outputs.
    """

    values: Float64Array
    suffixes: tuple[str, ...]

    def rows(self, which: NDArray[np.intp]) -> MeanTargets:
        """Return those of some rows."""
        return MeanTargets(self.values[which], self.suffixes)

    @classmethod
    def of(cls, y: object) -> MeanTargets:
        """Return what to average, given targets.

        Text, booleans and integers with few different values are classes. Other numbers are
        averaged.
        """
        y = np.asarray(y)
        if y.dtype.kind == "O":  # numbers are kept, and other objects become text
            y = np.array(y.tolist())
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.dtype.kind == "f" or y.ndim == 2:
            values = y.astype(np.float64).reshape(len(y), -1)[:, :MOST_OUTPUTS]
            n_outputs = values.shape[1]
            names = [""] if n_outputs == 1 else [f"_{number}" for number in range(n_outputs)]
            return cls(_finite(values), tuple(f"_mean{name}" for name in names))
        if y.dtype.kind == "O":
            y = y.astype(str)
        classes, index, counts = np.unique(y, return_inverse=True, return_counts=True)
        if y.dtype.kind in "iu" and len(classes) > MOST_CLASSES:
            return cls(y.astype(np.float64)[:, None], ("_mean",))
        kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_OUTPUTS])
        if len(classes) == 2:
            kept = kept[1:]
        values = (index.reshape(-1)[:, None] == kept).astype(np.float64)
        return cls(values, tuple(f"_mean_{classes[one]}" for one in kept))


def _finite(values: Float64Array) -> Float64Array:
    if not np.isfinite(values).all():
        raise ValueError(
            "y contains NaN or infinity, but columns with many levels are encoded by the mean of "
            "y. Drop these rows."
        )
    return values


@register
@dataclass(frozen=True, eq=False)
class MeanEncoding(ColumnEncoding):
    """The mean target of a level, shrunk to the mean of all rows.

    Attributes
    ----------
    levels : tuple of str
        The learned levels, sorted.
    means : array of shape (n_levels + 2, n_outputs)
        The outputs of the levels, of unknown levels and of missing values.
    names : tuple of str
        What follows the column's name in the names of outputs.
    """

    levels: tuple[str, ...]
    means: Float64Array
    names: tuple[str, ...]

    kind = "mean target"
    reads = "text"

    @classmethod
    def of(cls, column: Column, targets: MeanTargets) -> MeanEncoding:
        """Return the encoding for the training rows."""
        means = shrunk_means(column.values, len(column.levels), targets.values)[0]
        counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
        learned = [code for code, count in enumerate(counts) if count >= FEWEST_ROWS]
        learned.sort(key=lambda code: column.levels[code])
        levels = tuple(column.levels[code] for code in learned)
        return cls(levels, means[[*learned, -2, -1]], targets.suffixes)

    def relearned(self, column: Column, targets: MeanTargets | None) -> MeanEncoding:
        assert targets is not None
        return MeanEncoding.of(column, targets)

    def suffixes(self) -> list[str]:
        return list(self.names)

    def encode(self, column: Column) -> Float64Array:
        return self.means[positions(column, self.levels)]

    def encode_training(
        self, column: Column, targets: MeanTargets, folds: NDArray[np.intp]
    ) -> Float64Array:
        """Return the outputs for the training rows, each by the targets of other folds."""
        return cross_fitted(column, targets, folds)

    def check_consistency(self) -> None:
        check_levels(self.levels)
        checks.expect(
            isinstance(self.names, tuple) and all(isinstance(name, str) for name in self.names),
            "names of encodings_ are not strings",
        )
        shape = (len(self.levels) + 2, len(self.names))
        checks.check_array(self.means, shape, np.float64, "means of encodings_")


@register
@dataclass(frozen=True, eq=False)
class LevelsAndMeanEncoding(ColumnEncoding):
    """One output for each level, followed by the mean target.

    Kernels learn a lengthscale for each output. So they can treat levels with similar targets as
    similar, and still tell them apart.

    Attributes
    ----------
    one_hot : OneHotEncoding
    mean : MeanEncoding
    """

    one_hot: OneHotEncoding
    mean: MeanEncoding

    kind = "category and mean target"
    reads = "text"

    def relearned(self, column: Column, targets: MeanTargets | None) -> LevelsAndMeanEncoding:
        return LevelsAndMeanEncoding(self.one_hot, self.mean.relearned(column, targets))

    def suffixes(self) -> list[str]:
        return [*self.one_hot.suffixes(), *self.mean.suffixes()]

    def encode(self, column: Column) -> Float64Array:
        return np.hstack([self.one_hot.encode(column), self.mean.encode(column)])

    def encode_training(
        self, column: Column, targets: MeanTargets, folds: NDArray[np.intp]
    ) -> Float64Array:
        """Return the outputs for the training rows, with means of other folds."""
        return np.hstack([self.one_hot.encode(column), cross_fitted(column, targets, folds)])

    def check_consistency(self) -> None:
        checks.check_kind(self.one_hot, OneHotEncoding, "one_hot of encodings_")
        checks.check_kind(self.mean, MeanEncoding, "mean of encodings_")


def cross_fitted(column: Column, targets: MeanTargets, folds: NDArray[np.intp]) -> Float64Array:
    """Encode training rows by the means of the rows in other folds.

    Parameters
    ----------
    column : Column
        Text.
    targets : MeanTargets
    folds : array of shape (n_rows,)
        The fold of each row.
    """
    n_levels, Y = len(column.levels), targets.values
    overall, is_learned = shrunk_means(column.values, n_levels, Y)[1:]
    found = np.empty_like(Y)
    for fold in np.unique(folds):
        inside = folds == fold
        others = ~inside
        # All folds shrink to one mean. If each had its own, it would tell the folds apart.
        means = shrunk_means(column.values[others], n_levels, Y[others], overall)[0]
        found[inside] = means[column.values[inside]]
    return np.where(is_learned, found, overall)


def shrunk_means(
    codes: NDArray[np.intp], n_levels: int, Y: Float64Array, overall: Float64Array | None = None
) -> tuple[Float64Array, Float64Array, NDArray[np.bool_]]:
    """Return the shrunk means of levels, the overall mean, and whether levels differ.

    Parameters
    ----------
    codes : array of shape (n_rows,)
        The level of each row, -1 for missing values, which are a level like others.
    n_levels : int
    Y : array of shape (n_rows, n_outputs)
    overall : array of shape (n_outputs,), default=None
        The mean to shrink to. By default that of ``Y``.

    Returns
    -------
    means : array of shape (n_levels + 2, n_outputs)
        The last two rows are for unknown levels and missing values. Unknown levels, and levels
        with one row, have the overall mean.
    overall : array of shape (n_outputs,)
    is_learned : array of shape (n_outputs,)
        Whether the estimated variance between levels is positive.
    """
    group = np.where(codes < 0, n_levels + 1, codes)
    counts = np.bincount(group, minlength=n_levels + 2).astype(np.float64)
    if overall is None:
        overall = Y.mean(axis=0)
    centered = Y - overall
    sums = np.column_stack([np.bincount(group, one, n_levels + 2) for one in centered.T])
    means = sums / np.maximum(counts, 1)[:, None]
    shares, is_learned = _shares(group, counts, centered, means)
    means = np.where(counts[:, None] >= FEWEST_ROWS, shares * means, 0.0) + overall
    return means, overall, is_learned


def _shares(
    group: NDArray[np.intp], counts: Float64Array, Y: Float64Array, means: Float64Array
) -> tuple[Float64Array, NDArray[np.bool_]]:
    """Return each level's share of its own mean, and whether levels differ."""
    n_rows, n_groups = len(group), np.count_nonzero(counts)
    if not 1 < n_groups < n_rows:
        return np.zeros_like(means), np.zeros(Y.shape[1], dtype=bool)
    within = ((Y - means[group]) ** 2).sum(axis=0) / (n_rows - n_groups)
    spread = (counts[:, None] * (means - Y.mean(axis=0)) ** 2).sum(axis=0) / (n_groups - 1)
    typical = (n_rows - (counts**2).sum() / n_rows) / (n_groups - 1)
    between = (spread - within) / typical
    is_learned = between > 0
    ratio = np.where(is_learned, within / np.where(is_learned, between, 1.0), np.inf)
    present = np.maximum(counts, 1)[:, None]
    return present / (present + ratio), is_learned
