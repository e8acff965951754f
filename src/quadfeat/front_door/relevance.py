"""The table of columns with their relevance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.front_door import cells

# Longer tables print only their first rows.
MOST_SHOWN = 20


class RelevanceRow(NamedTuple):
    """A column and its relevance.

    Attributes
    ----------
    column : str or int
        The name of a column of a data frame, or the position of one of an array.
    relevance : float
        The share of the column, as in ``relevance_``.
    """

    column: Any
    relevance: float


@dataclass(frozen=True)
class RelevanceTable:
    """The columns from most to least relevant.

    It is a sequence of pairs, so ``dict(model.relevance_table_)`` and
    ``pandas.DataFrame(model.relevance_table_)`` work.

    Attributes
    ----------
    rows : tuple of RelevanceRow

    Examples
    --------
    >>> table = RelevanceTable.of(np.array([0.25, 0.75]), ["age", "income"])
    >>> print(table)
    column  relevance
    income      0.750
    age         0.250
    >>> table[0].column, dict(table)["age"]
    ('income', 0.25)
    """

    rows: tuple[RelevanceRow, ...]

    @classmethod
    def of(cls, relevance: Float64Array, names: Sequence[Any] | None) -> RelevanceTable:
        """Return the table for the relevance of each column, by position if there are no names."""
        order = np.argsort(-relevance, kind="stable").tolist()
        return cls(
            tuple(
                RelevanceRow(i if names is None else names[i], float(relevance[i])) for i in order
            )
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[RelevanceRow]:
        return iter(self.rows)

    @overload
    def __getitem__(self, place: int) -> RelevanceRow: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[RelevanceRow, ...]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return self.rows[place]

    def cells(self) -> list[tuple[str, ...]]:
        """Return the first rows as text, the header first."""
        shown = [(str(row.column), f"{row.relevance:.3f}") for row in self.rows[:MOST_SHOWN]]
        more = len(self.rows) - len(shown)
        if more:
            left = sum(row.relevance for row in self.rows[MOST_SHOWN:])
            shown.append((f"{more:,} more", f"{left:.3f}"))
        return [("column", "relevance"), *shown]

    def __str__(self) -> str:
        return cells.as_text(self.cells(), left=(0,))

    __repr__ = __str__

    def as_html(self) -> str:
        """Return the first rows in HTML."""
        return cells.as_html(self.cells())

    _repr_html_ = as_html
