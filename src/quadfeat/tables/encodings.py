"""The base class of encodings, and the encodings of numbers and ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.tables.columns import Column, Kind

if TYPE_CHECKING:
    from quadfeat.tables.targets import MeanTargets


class ColumnEncoding(ABC):
    """Base class of fitted encodings, which are immutable.

    Attributes
    ----------
    kind : str
        What :attr:`TableEncoder.kinds_` calls the encoding.
    reads : {"number", "date", "text"}
        The kind of column that :meth:`encode` takes.
    """

    kind: str
    reads: Kind

    @abstractmethod
    def suffixes(self) -> list[str]:
        """Return what follows the column's name in the names of the outputs."""

    @abstractmethod
    def encode(self, column: Column) -> Float64Array:
        """Return the outputs for the rows of a column, shape (n_rows, n_outputs)."""

    def relearned(self, column: Column, targets: MeanTargets | None) -> ColumnEncoding:
        """Return an encoding with the same outputs whose targets are those of other rows.

        By default, that is this encoding, because it does not depend on targets.
        """
        return self

    @abstractmethod
    def check_consistency(self) -> None:
        """Raise an error if the attributes are inconsistent."""


@register
@dataclass(frozen=True, eq=False)
class EmptyEncoding(ColumnEncoding):
    """No outputs, for a column that has nothing to learn from.

    Attributes
    ----------
    reason : str
        Why the column is left out.
    reads : {"number", "date", "text"}
    """

    reason: str
    reads: Kind = "text"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.reason

    def suffixes(self) -> list[str]:
        return []

    def encode(self, column: Column) -> Float64Array:
        return np.empty((len(column.values), 0))

    def check_consistency(self) -> None:
        checks.check_kind(self.reason, str, "reason of encodings_")
        checks.expect(self.reads == "text", f"reads of encodings_ is {self.reads!r}")


@register
@dataclass(frozen=True, eq=False)
class NumberEncoding(ColumnEncoding):
    """A number, with the median in place of missing values.

    Attributes
    ----------
    median : float
        The median of the values in the training rows.
    has_indicator : bool
        Whether there is a second output, which is 1 where a value is missing.
    """

    median: float
    has_indicator: bool

    kind = "number"
    reads = "number"

    @classmethod
    def of(cls, column: Column, has_indicator: bool) -> NumberEncoding:
        """Return the encoding for the training rows."""
        return cls(float(np.nanmedian(column.values)), has_indicator)

    def suffixes(self) -> list[str]:
        return ["", "_missing"] if self.has_indicator else [""]

    def encode(self, column: Column) -> Float64Array:
        missing = column.missing
        values = np.where(missing, self.median, column.values) if missing.any() else column.values
        return np.column_stack([values, missing]) if self.has_indicator else values[:, None]

    def check_consistency(self) -> None:
        checks.check_finite(self.median, "median of encodings_")
        checks.check_flag(self.has_indicator, "has_indicator of encodings_")


@register
@dataclass(frozen=True, eq=False)
class RankEncoding(ColumnEncoding):
    """The rank of an ordered category.

    Attributes
    ----------
    levels : tuple of str
        The levels in their order.
    ranks : NumberEncoding
        Encodes the ranks, which are missing for unknown levels.
    """

    levels: tuple[str, ...]
    ranks: NumberEncoding

    kind = "rank"
    reads = "text"

    @classmethod
    def of(cls, column: Column, has_indicator: bool) -> RankEncoding:
        """Return the encoding for the training rows."""
        ranks = _ranks(column, column.levels)
        return cls(column.levels, NumberEncoding.of(ranks, has_indicator))

    def suffixes(self) -> list[str]:
        return self.ranks.suffixes()

    def encode(self, column: Column) -> Float64Array:
        return self.ranks.encode(_ranks(column, self.levels))

    def check_consistency(self) -> None:
        check_levels(self.levels)
        checks.check_kind(self.ranks, NumberEncoding, "ranks of encodings_")


def _ranks(column: Column, levels: tuple[str, ...]) -> Column:
    ranks = positions(column, levels).astype(np.float64)
    return Column("number", np.where(ranks < 0, np.nan, ranks))


def positions(column: Column, levels: tuple[str, ...]) -> NDArray[np.intp]:
    """Return the position of each row's level in ``levels``.

    It is -1 for missing values and -2 for unknown levels.
    """
    known = {level: position for position, level in enumerate(levels)}
    found = [known.get(level, -2) for level in column.levels]
    return np.array([*found, -1], dtype=np.intp)[column.values]


def check_levels(levels: object) -> None:
    """Expect a tuple of different strings."""
    checks.expect(
        isinstance(levels, tuple) and all(isinstance(level, str) for level in levels),
        "levels of encodings_ are not strings",
    )
    assert isinstance(levels, tuple)
    checks.expect(len(set(levels)) == len(levels), "levels of encodings_ occur twice")
