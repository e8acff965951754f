"""Read the columns of a table: numbers, dates, or text with its levels.

Data frames are read by ``to_numpy`` of their columns, so this module imports neither pandas nor
polars.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Array

Kind = Literal["number", "date", "text"]

# A date of ISO 8601, and a time. Calendars follow local clocks, so an offset from UTC is not used.
ISO_DATE = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(?:Z|[+-]\d{2}:?\d{2})?)?"
)
MICROSECONDS = len("00:00:00.000000")
NUMERAL = re.compile(r"\s*[+-]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*")
MIDNIGHT = date(1970, 1, 1)  # the day of times without a day


class Column(NamedTuple):
    """The values of a column.

    Attributes
    ----------
    kind : {"number", "date", "text"}
    values : array of shape (n_rows,)
        float64 numbers with NaN, datetime64 with NaT, or for text the indices of its levels, which
        are -1 for missing values.
    levels : tuple of str
        The distinct values of text.
    is_ordered : bool
        Whether the levels have an order.
    """

    kind: Kind
    values: Array
    levels: tuple[str, ...] = ()
    is_ordered: bool = False

    @property
    def missing(self) -> NDArray[np.bool_]:
        """The rows without a value."""
        if self.kind == "text":
            return np.asarray(self.values < 0)
        return np.asarray(np.isnat(self.values) if self.kind == "date" else np.isnan(self.values))

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value."""
        return bool(self.missing.all())


def read(column: Any) -> Column:
    """Read a column whose kind is not known.

    Text that consists of ISO dates becomes dates. An array of text has no other way to hold
    numbers, so numerals become numbers there; elsewhere they stay text.

    Parameters
    ----------
    column : array, or column of a data frame

    Examples
    --------
    >>> import numpy as np
    >>> read(np.array([2, None, "b"], dtype=object))
    Column(kind='text', values=array([ 0, -1,  1]), levels=('2', 'b'), is_ordered=False)
    >>> read(np.array(["2024-02-29", None], dtype=object)).kind
    'date'
    """
    values = _array(column)
    if values is None:
        return _categorical(column)
    found = _plain(values)
    if found.kind == "text" and not found.is_empty:
        parsed = _dates(found)
        if parsed is None and values.dtype.kind in "SU":
            parsed = _numbers(found)
        return found if parsed is None else parsed
    return found


def read_as(kind: Kind, column: Any) -> Column:
    """Read a column as numbers, dates or text.

    Raises
    ------
    ValueError
        With the first value that is of another kind.
    """
    values = _array(column)
    if kind == "text":
        return _categorical(column) if values is None else _text(values)
    found = _categorical(column) if values is None else _plain(values)
    if found.kind == kind:
        return found
    if found.is_empty:
        empty = np.nan if kind == "number" else np.datetime64("NaT", "us")
        return Column(kind, np.full(len(found.values), empty))
    if found.kind == "text":
        parsed = _dates(found) if kind == "date" else _numbers(found)
        if parsed is not None:
            return parsed
        fits = ISO_DATE if kind == "date" else NUMERAL
        used = [found.levels[code] for code in np.unique(found.values[found.values >= 0])]
        wrong = next((level for level in used if not fits.fullmatch(level)), used[0])
    else:
        wrong = str(found.values[~found.missing][0])
    raise ValueError(repr(wrong))


def _array(column: Any) -> Array | None:
    """Return a column as an array; None for a categorical column of pandas."""
    dtype = getattr(column, "dtype", None)
    if getattr(dtype, "name", "") == "category":
        return None
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    if zone is not None:  # calendars follow the clocks of the zone
        local = column.dt
        without = local.tz_localize if hasattr(local, "tz_localize") else local.replace_time_zone
        column = without(None)
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _categorical(column: Any) -> Column:
    """Read a categorical column of pandas."""
    codes = np.asarray(column.cat.codes, dtype=np.intp)
    return _merged(codes, list(column.cat.categories), bool(column.cat.ordered))


def _plain(values: Array) -> Column:
    """Read an array of any dtype, and do not parse text."""
    kind = values.dtype.kind
    if kind in "biuf":
        return Column("number", values.astype(np.float64))
    if kind == "M":
        return Column("date", values.astype("datetime64[us]"))
    if kind == "m":
        return Column("number", _seconds(values))
    codes, uniques = _distinct(values)
    given = [value for value in uniques if not _is_missing(value)]
    if all(_is_duration(value) for value in given) and given:
        entries = [np.timedelta64("NaT") if _is_missing(one) else one for one in uniques]
        return Column("number", _seconds(np.array(entries, dtype="timedelta64[us]"))[codes])
    if all(_is_number(value) for value in given):
        entries = [np.nan if _is_missing(one) else _float(one) for one in uniques]
        return Column("number", np.array(entries, dtype=np.float64)[codes])
    if all(_is_date(value) for value in given):
        entries = [np.datetime64("NaT") if _is_missing(one) else _local(one) for one in uniques]
        return Column("date", np.array(entries, dtype="datetime64[us]")[codes])
    return _merged(codes, uniques)


def _text(values: Array) -> Column:
    """Read an array of any dtype as text."""
    if values.dtype.kind in "biufmM":
        uniques, codes = np.unique(values, return_inverse=True)
        return _merged(codes.reshape(-1), list(uniques))
    return _merged(*_distinct(values))


def _distinct(values: Array) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the distinct objects of an array, in order of appearance, and their indices."""
    objects = values.astype(object).tolist()
    index: dict[Any, int] = {}
    try:
        codes = [index.setdefault(value, len(index)) for value in objects]
    except TypeError:  # lists and other objects without a hash
        index = {}
        texts = [None if _is_missing(value) else text_of(value) for value in objects]
        codes = [index.setdefault(text, len(index)) for text in texts]
    return np.array(codes, dtype=np.intp), list(index)


def _merged(codes: NDArray[np.intp], values: Sequence[Any], is_ordered: bool = False) -> Column:
    """Return text, given indices of values; values with the same text become one level."""
    levels: dict[str, int] = {}
    new = [
        -1 if _is_missing(one) else levels.setdefault(text_of(one), len(levels)) for one in values
    ]
    found = np.array([*new, -1], dtype=np.intp)[codes]  # the index -1 stays -1
    return Column("text", found, tuple(levels), is_ordered)


def _dates(column: Column) -> Column | None:
    """Return text as dates; None if a level is not an ISO date."""
    found = [ISO_DATE.fullmatch(level) for level in column.levels]
    if not all(found):
        return None
    try:
        entries = [
            f"{match[1]}T{(match[2] or '00:00')[:MICROSECONDS]}"
            for match in found
            if match is not None
        ]
        dates = np.array([*entries, "NaT"], dtype="datetime64[us]")
    except ValueError:  # such as the 30th of February
        return None
    return Column("date", dates[column.values])


def _numbers(column: Column) -> Column | None:
    """Return text as numbers; None if a level is not a number, or a code such as ``007``."""
    if not all(NUMERAL.fullmatch(level) for level in column.levels):
        return None
    return Column("number", np.array([*map(float, column.levels), np.nan])[column.values])


def _seconds(durations: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return durations / np.timedelta64(1, "s")


def text_of(value: Any) -> str:
    """Return a value as text. Equal numbers have the same text.

    Examples
    --------
    >>> text_of(1), text_of(1.0), text_of(True), text_of("1"), text_of(0.5)
    ('1', '1', 'True', '1', '0.5')
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)):
        return str(int(value)) if float(value).is_integer() else repr(float(value))
    return str(value)


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT, NA or blank text."""
    if value is None or type(value).__name__ == "NAType":
        return True
    if isinstance(value, (str, bytes)):
        return not value.strip()
    return bool(np.ndim(value) == 0 and value != value)


def _is_number(value: Any) -> bool:
    is_duration = isinstance(value, np.timedelta64)  # which NumPy counts as integers
    return isinstance(value, (Real, Decimal, np.bool_)) and not is_duration


def _float(value: Any) -> float:
    """Return a number as a float, infinite if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _is_duration(value: Any) -> bool:
    return isinstance(value, (timedelta, np.timedelta64))


def _is_date(value: Any) -> bool:
    return isinstance(value, (date, time, np.datetime64)) or hasattr(value, "to_timestamp")


def _local(value: Any) -> Any:
    """Return a date or time as NumPy reads it, without its time zone."""
    if isinstance(value, time):
        return f"{MIDNIGHT}T{value.replace(tzinfo=None).isoformat()}"
    if hasattr(value, "to_timestamp"):  # a period of pandas
        value = value.to_timestamp()
    return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None else value
