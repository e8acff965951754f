"""Encode dates and times by a trend and by the parts of the calendar."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io import checks, register
from quadfeat.tables.columns import Column
from quadfeat.tables.encodings import ColumnEncoding

DAY = 86_400_000_000  # microseconds
YEAR = 365.2425 * DAY
THURSDAY = 3  # the first day of the epoch; Monday is 0
SATURDAY = 5

# The parts, and their outputs.
PARTS = {
    "years": ("_years",),
    "year": ("_year_sin", "_year_cos"),
    "week": ("_week_sin", "_week_cos"),
    "weekend": ("_weekend",),
    "day": ("_day_sin", "_day_cos"),
}


@register
@dataclass(frozen=True, eq=False)
class DateEncoding(ColumnEncoding):
    """Years since the median date, and the position in the year, the week and the day.

    A position is a point on a circle, its sine and its cosine, so that December is close to
    January. Missing values are at the center of each circle.

    Attributes
    ----------
    origin : int
        The median date, in microseconds since 1970.
    parts : tuple of str
        Those that vary in the training rows: ``"years"``, ``"year"``, ``"week"``, ``"weekend"``
        and ``"day"``.
    has_indicator : bool
        Whether there is another output, which is 1 where a value is missing.
    """

    origin: int
    parts: tuple[str, ...]
    has_indicator: bool

    kind = "date"
    reads = "date"

    @classmethod
    def of(cls, column: Column, has_indicator: bool) -> DateEncoding:
        """Return the encoding for the training rows."""
        dates = column.values[~column.missing]
        origin = int(np.median(_microseconds(dates)))
        day, moment = _days(dates)
        weekday = _weekday(day)
        varies = {
            "years": _varies(day),
            "year": _varies(dates.astype("datetime64[M]").astype(np.int64) % 12),
            "week": _varies(weekday),
            "weekend": _varies(weekday >= SATURDAY),
            "day": _varies(moment),
        }
        parts = tuple(part for part in PARTS if varies[part])
        return cls(origin, parts or ("years",), has_indicator)

    def suffixes(self) -> list[str]:
        found = [suffix for part in self.parts for suffix in PARTS[part]]
        return [*found, "_missing"] if self.has_indicator else found

    def encode(self, column: Column) -> Float64Array:
        missing = column.missing
        dates = np.where(missing, np.datetime64(self.origin, "us"), column.values)
        found = [output for part in self.parts for output in self._outputs(part, dates)]
        table = np.where(missing[:, None], 0.0, np.column_stack(found))
        return np.column_stack([table, missing]) if self.has_indicator else table

    def _outputs(self, part: str, dates: Array) -> list[Float64Array]:
        """Return the outputs of one part."""
        day, moment = _days(dates)
        if part == "years":
            return [(_microseconds(dates) - self.origin) / YEAR]
        if part == "weekend":
            return [(_weekday(day) >= SATURDAY).astype(np.float64)]
        if part == "week":
            position = _weekday(day) / 7
        elif part == "day":
            position = moment / DAY
        else:
            years = dates.astype("datetime64[Y]")
            start, end = _microseconds(years), _microseconds(years + 1)
            position = (_microseconds(dates) - start) / (end - start)
        return [np.sin(2 * np.pi * position), np.cos(2 * np.pi * position)]

    def check_consistency(self) -> None:
        checks.check_kind(self.origin, int, "origin of encodings_")
        checks.check_flag(self.has_indicator, "has_indicator of encodings_")
        checks.expect(
            isinstance(self.parts, tuple) and len(self.parts) > 0 and set(self.parts) <= set(PARTS),
            f"parts of encodings_ are {self.parts!r}",
        )


def _microseconds(dates: Array) -> Array:
    return dates.astype("datetime64[us]").astype(np.int64)


def _days(dates: Array) -> tuple[Array, Array]:
    """Return the days since 1970, and the microseconds since midnight."""
    day, moment = np.divmod(_microseconds(dates), DAY)
    return day, moment


def _weekday(day: Array) -> Array:
    return (day + THURSDAY) % 7


def _varies(values: Array) -> bool:
    return bool((values != values[0]).any())
