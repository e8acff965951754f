"""Recognize text that looks like dates or numbers, but is not read as such."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quadfeat.tables.choosing import FEW_LEVELS
from quadfeat.tables.columns import Column

# Days and months in either order, with a year of two or four digits, or names of months. A time may
# follow.
DIGITS = r"(?P<first>\d{1,2})[./-](?P<second>\d{1,2})[./-](?:\d{4}|\d{2})"
YEAR_FIRST = r"\d{4}[./-](?P<month>\d{1,2})[./-]\d{1,2}"
NAMED = r"\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|[A-Za-z]{3,9} \d{1,2},? \d{4}"
DATE = re.compile(rf"\s*(?:{DIGITS}|{YEAR_FIRST}|{NAMED})(?:[ T,]+\d{{1,2}}:\d{{2}}\S*.*)?\s*")
MONTHS = 12

# Numbers with separators, units of money or percent signs. Digits alone may be codes.
MARK = r"[^\w\s.,+-]"
THOUSANDS = r"\d{1,3}(?:[ ,.'\u00a0\u2019]\d{3})+"
NUMBER = re.compile(rf"\s*[+-]?\s*{MARK}?\s*[+-]?(?:{THOUSANDS}|\d+)(?:[.,]\d+)?\s*{MARK}?\s*")
NOT_A_CODE = re.compile(r"[.,%]|[^\w\s+-]")


class Lookalike(NamedTuple):
    """A column of text that looks like something else.

    Attributes
    ----------
    position : int
        The position of the column.
    kind : str
        ``"dates"`` or ``"numbers"``.
    example : str
        One of its values.
    """

    position: int
    kind: str
    example: str

    @property
    def way_out(self) -> str:
        """How the user can have the column read as what it is."""
        if self.kind == "dates":
            return "Only ISO dates such as 2024-01-31 are read as dates: use pandas.to_datetime."
        return "Only columns of numbers are read as numbers: convert it."


def lookalikes(columns: Sequence[Column]) -> Iterator[Lookalike]:
    """Yield the columns of text whose values all look like dates or numbers.

    Columns of few different values are left out, because a category for each value serves them.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.tables.columns import read
    >>> days = np.array([f"{day}/12/2023" for day in range(1, 31)], dtype=object)
    >>> [(one.kind, one.example) for one in lookalikes([read(days)])]
    [('dates', '1/12/2023')]
    """
    for position, column in enumerate(columns):
        if column.kind == "text" and not column.is_ordered and len(column.levels) > FEW_LEVELS:
            if all(map(_is_date, column.levels)):
                yield Lookalike(position, "dates", column.levels[0])
            elif all(map(NUMBER.fullmatch, column.levels)):
                marked = next(filter(NOT_A_CODE.search, column.levels), None)
                if marked is not None:
                    yield Lookalike(position, "numbers", marked)


def _is_date(text: str) -> bool:
    """Return whether a text may be a date, with a month that exists."""
    found = DATE.fullmatch(text)
    if found is None:
        return False
    first, second, month = (found[name] for name in ("first", "second", "month"))
    if first is not None:
        return min(int(first), int(second)) <= MONTHS
    return month is None or int(month) <= MONTHS
