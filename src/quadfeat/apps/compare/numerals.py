"""Detect decimal points, decimal commas and thousands separators.

``"1,5"`` and ``"1.234,5"`` have decimal commas, ``"1,234.5"`` and ``"1,234,567"`` have decimal
points. ``"1,234"`` is ambiguous. Other values of the column decide, then other columns of the file,
then the separator between columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Mark = Literal[".", ","]

PLAIN = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII)  # an IP address


def other(mark: Mark) -> Mark:
    """Return the thousands separator that goes with a decimal mark."""
    return "," if mark == "." else "."


@lru_cache(maxsize=2)
def _grammar(decimal: Mark) -> re.Pattern[str]:
    """Return the pattern of a number. Leading zeros mean an identifier, not a number."""
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
        The decimal marks that make all values numbers.
    marks : frozenset of str
        The marks that occur in the values.
    hint : str or None
        The more likely decimal mark if both are possible. It comes from the values without a mark:
        if one of them is 1000 or more, the mark does not separate thousands.
    example : str
        A value that contains a mark.
    """

    decimals: frozenset[Mark]
    marks: frozenset[Mark]
    hint: Mark | None
    example: str

    @property
    def ambiguous(self) -> bool:
        """Whether both decimal marks are possible and give different numbers."""
        return len(self.decimals) == 2 and bool(self.marks)

    def is_only(self, decimal: Mark) -> bool:
        """Return whether this is the only possible decimal mark."""
        return self.decimals == {decimal}


def writing(values: Iterable[str]) -> Writing | None:
    """Return how values are written, or None if some are not numbers.

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

    Columns with only one possible mark decide. If there are none, or if they disagree, the
    separator between columns decides: files with decimal commas rarely separate columns by commas.
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
