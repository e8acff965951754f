"""Numbers as people write them: with decimal points or commas, and with thousands set apart.

``"1,5"`` and ``"1.234,5"`` have decimal commas, ``"1,234.5"`` and ``"1,234,567"`` have decimal
points. ``"1,234"`` may be either: other values of the column tell, then other columns of the file,
then what separates its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Mark = Literal[".", ","]

PLAIN = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII)  # of a computer


def other(mark: Mark) -> Mark:
    """Return the mark that sets thousands apart where ``mark`` is the decimal mark."""
    return "," if mark == "." else "."


@lru_cache(maxsize=2)
def _grammar(decimal: Mark) -> re.Pattern[str]:
    """Return what a number looks like; an identifier may start with zeros, a number does not."""
    point, comma = re.escape(decimal), re.escape(other(decimal))
    whole = rf"(?:[1-9]\d{{0,2}}(?:{comma}\d{{3}})+|0|[1-9]\d*)"
    return re.compile(
        rf"\s*[+-]?(?:{whole}(?:{point}\d+)?|{point}\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII
    )


@dataclass(frozen=True)
class Writing:
    """How a column writes its numbers.

    Attributes
    ----------
    decimals : frozenset of str
        The decimal marks with which all values are numbers.
    marks : frozenset of str
        The marks that occur.
    hint : str or None
        The decimal mark that is more likely, if there are two, by values without any mark. Where
        all of these are below 1000, marks set thousands apart; otherwise they would be there too.
    example : str
        A value with a mark.
    """

    decimals: frozenset[Mark]
    marks: frozenset[Mark]
    hint: Mark | None
    example: str

    @property
    def ambiguous(self) -> bool:
        """Whether values are numbers with either decimal mark, but not the same ones."""
        return len(self.decimals) == 2 and bool(self.marks)

    def is_only(self, decimal: Mark) -> bool:
        """Return whether no other decimal mark makes all values numbers."""
        return self.decimals == {decimal}


def writing(values: Iterable[str]) -> Writing | None:
    """Return how values are written, or None if they are not all numbers.

    Examples
    --------
    >>> sorted(writing(["3,14", "2"]).decimals), sorted(writing(["1,234,567"]).decimals)
    ([','], ['.'])
    >>> writing(["1,234"]).ambiguous, writing(["1,234", "950"]).hint
    (True, '.')
    >>> writing(["8001 Zurich"]) is None, writing(["08,5"]) is None
    (True, True)
    """
    decimals: set[Mark] = {".", ","}
    marks: set[Mark] = set()
    plain: list[float] = []
    addresses, example = True, ""
    for value in values:
        decimals = {mark for mark in decimals if _grammar(mark).fullmatch(value)}
        if not decimals:
            return None
        found: set[Mark] = {mark for mark in (".", ",") if mark in value}
        marks |= found
        example = example or (value.strip() if found else "")
        addresses = addresses and ADDRESS.fullmatch(value.strip()) is not None
        if PLAIN.fullmatch(value):
            plain.append(abs(float(value)))
    if addresses:
        return None
    hint: Mark | None = None
    if len(decimals) == 2 and len(marks) == 1 and plain:
        (mark,) = marks
        hint = other(mark) if max(plain) < 1000 else mark
    return Writing(frozenset(decimals), frozenset(marks), hint, example)


def decimal_mark(columns: Mapping[str, Writing], separator: str) -> Mark:
    """Return the decimal mark of a file.

    Columns that are numbers with one mark only are evidence. Where they contradict each other,
    or there are none, the separator of the columns decides: a file with decimal commas hardly
    ever has commas between columns.
    """
    usual: Mark = "." if separator == "," else ","
    for evidence in (
        {mark for mark in (".", ",") if any(one.is_only(mark) for one in columns.values())},
        {one.hint for one in columns.values() if one.hint is not None},
    ):
        if len(evidence) == 1:
            (mark,) = evidence
            return mark  # type: ignore[return-value]
        if evidence:
            return usual
    return usual
