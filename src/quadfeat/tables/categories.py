"""Encode a category by one column for each of its levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.tables.columns import Column
from quadfeat.tables.encodings import ColumnEncoding, check_levels, positions

RARE = "(rare)"
MISSING = "(missing)"

# The entry of a row with an unknown level in the only output of a category of two.
BETWEEN = 0.5


@register
@dataclass(frozen=True, eq=False)
class OneHotEncoding(ColumnEncoding):
    """One output for each level, and possibly one for rare levels and one for missing values.

    Two of these make one output, which is 0 or 1. Rows that belong to none have zeros, or 0.5 if
    there is one output: they are equally far from all levels.

    Attributes
    ----------
    levels : tuple of str
        The frequent levels, sorted.
    has_rare : bool
        Whether rare and unknown levels share an output.
    has_missing : bool
        Whether missing values have an output.
    """

    levels: tuple[str, ...]
    has_rare: bool
    has_missing: bool

    kind = "category"
    reads = "text"

    @classmethod
    def of(cls, column: Column, min_frequency: int, max_categories: int) -> OneHotEncoding:
        """Return the encoding for the training rows.

        Parameters
        ----------
        column : Column
            Text.
        min_frequency : int
            Levels in fewer rows are rare.
        max_categories : int
            If there are more levels, the less frequent ones are rare, too.
        """
        present = column.values[column.values >= 0]
        counts = np.bincount(present, minlength=len(column.levels))
        # Ties go to the level that is first in the alphabet, so the order of rows does not matter.
        order = sorted(range(len(counts)), key=lambda code: (-counts[code], column.levels[code]))
        kept = [code for code in order[:max_categories] if counts[code] >= min_frequency]
        n_rare = len(present) - counts[kept].sum()
        n_missing = len(column.values) - len(present)
        return cls(
            tuple(sorted(column.levels[code] for code in kept)),
            has_rare=bool(n_rare >= min_frequency),
            has_missing=n_missing >= min_frequency,
        )

    @property
    def _groups(self) -> list[str]:
        return [*self.levels, *[RARE] * self.has_rare, *[MISSING] * self.has_missing]

    def suffixes(self) -> list[str]:
        groups = self._groups
        return [f"_{group}" for group in (groups[1:] if len(groups) == 2 else groups)]

    def encode(self, column: Column) -> Float64Array:
        n_groups, n_levels = len(self._groups), len(self.levels)
        # Positions -2 (unknown) and -1 (missing) index the last two entries.
        group = np.append(np.arange(n_levels), [-1, -1])
        if self.has_rare:
            group[-2] = n_levels
        if self.has_missing:
            group[-1] = n_groups - 1
        found = group[positions(column, self.levels)]
        if n_groups == 2:
            return np.where(found < 0, BETWEEN, found)[:, None]
        return (found[:, None] == np.arange(n_groups)).astype(np.float64)

    def check_consistency(self) -> None:
        check_levels(self.levels)
        checks.check_flag(self.has_rare, "has_rare of encodings_")
        checks.check_flag(self.has_missing, "has_missing of encodings_")
