"""Choose the encoding of each column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quadfeat.tables.categories import OneHotEncoding
from quadfeat.tables.columns import Column
from quadfeat.tables.dates import DateEncoding
from quadfeat.tables.encodings import ColumnEncoding, EmptyEncoding, NumberEncoding, RankEncoding
from quadfeat.tables.targets import LevelsAndMeanEncoding, MeanEncoding, MeanTargets

# With more levels, a category also has an output for the mean target. On samples of adult, that
# lowers the log loss.
FEW_LEVELS = 10

NO_VALUES = "no values"
ALL_DIFFER = "all values differ"


def has_many_levels(column: Column, max_categories: int) -> bool:
    """Return whether a column is text with more levels than have their own output."""
    is_unordered = column.kind == "text" and not column.is_ordered
    return is_unordered and len(column.levels) > max_categories


def encodings_of(
    columns: Sequence[Column],
    max_categories: int,
    min_frequency: int,
    targets: MeanTargets | None,
) -> tuple[ColumnEncoding, ...]:
    """Return an encoding for each column.

    Parameters
    ----------
    columns : sequence of Column
        The training rows.
    max_categories : int
        Text with more levels has mean targets, if there are targets.
    min_frequency : int
        Levels and missing values in fewer rows have no output.
    targets : MeanTargets or None
    """
    patterns: set[bytes] = set()

    def has_indicator(column: Column) -> bool:
        """Return whether missing values are frequent, and no earlier column has the same ones."""
        missing = column.missing
        n_missing = np.count_nonzero(missing)
        if not min_frequency <= n_missing <= len(missing) - min_frequency:
            return False
        pattern = np.packbits(missing).tobytes()
        is_new = pattern not in patterns
        patterns.add(pattern)
        return is_new

    def choose(column: Column) -> ColumnEncoding:
        if column.is_empty:
            return EmptyEncoding(NO_VALUES)
        if column.kind == "number":
            return NumberEncoding.of(column, has_indicator(column))
        if column.kind == "date":
            return DateEncoding.of(column, has_indicator(column))
        if column.is_ordered:
            return RankEncoding.of(column, has_indicator(column))
        is_long = has_many_levels(column, max_categories)
        if is_long and len(column.levels) == np.count_nonzero(~column.missing):
            return EmptyEncoding(ALL_DIFFER)
        if is_long and targets is not None:
            return MeanEncoding.of(column, targets)
        one_hot = OneHotEncoding.of(column, min_frequency, max_categories)
        if targets is None or not has_many_levels(column, FEW_LEVELS):
            return one_hot
        return LevelsAndMeanEncoding(one_hot, MeanEncoding.of(column, targets))

    return tuple(choose(column) for column in columns)
