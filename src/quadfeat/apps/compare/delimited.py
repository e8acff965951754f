"""Read tables from text files: detect the separator and the format of numbers.

pandas does the reading. Its own detection, ``sep=None``, uses the first line only, and it does not
detect decimal marks.
"""

from __future__ import annotations

import codecs
import csv
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api import types

from quadfeat.apps.compare.numerals import Mark, Writing, decimal_mark, other, writing
from quadfeat.apps.reporting.errors import CommandError, one_line_of
from quadfeat.apps.reporting.text import quoted

SEPARATORS = (",", ";", "\t", "|")
SAMPLED_LINES = 100  # for detecting the separator
UNKNOWN = "?"  # marks missing values in many older files
MOST_NAMED = 5  # columns listed in a remark
NEVER = "\x1f"  # a separator that no table uses


@dataclass
class Delimited:
    """A table from a text file.

    Attributes
    ----------
    path : Path
    frame : DataFrame
    options : dict
        Arguments of ``pandas.read_csv`` for this file.
    pointed : list of str
        Columns with decimal points in a file with decimal commas. They are read as strings first.
    remarks : list of str
        Assumptions to show to the user.
    """

    path: Path
    frame: pd.DataFrame
    options: dict[str, Any]
    pointed: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def code(self) -> list[str]:
        """Lines of Python that read the file into ``table``; they run in its folder."""
        given = "".join(f", {key}={_as_code(value)}" for key, value in self.options.items())
        lines = [f"table = pd.read_csv({quoted(self.path.name)}{given})"]
        if self.pointed:
            names = ", ".join(map(quoted, self.pointed))
            lines += [f"pointed = [{names}]", "table[pointed] = table[pointed].astype(float)"]
        return lines


def _as_code(value: str | dict[str, type[str]]) -> str:
    if isinstance(value, str):
        return quoted(value)
    return "{" + ", ".join(f"{quoted(name)}: str" for name in value) + "}"


def read_delimited(path: Path, separator: str | None, decimal: Mark | None) -> Delimited:
    """Read a table from a text file.

    Parameters
    ----------
    path : Path
    separator : str or None
        Separator between columns; ``None`` detects it.
    decimal : {".", ","} or None
        Decimal mark; ``None`` detects it.
    """
    options: dict[str, Any] = {}
    if _starts_with_utf16_mark(path):
        options["encoding"] = "utf-16"
    chosen = separator or _find_separator(path, options)
    if chosen != ",":
        options["sep"] = chosen
    table = Delimited(path, _csv(path, options), options)
    texts = _text_columns(table.frame)
    if any((table.frame[name] == UNKNOWN).any() for name in texts):
        options["na_values"] = UNKNOWN
        table.frame = _csv(path, options)
        table.remarks.append(f"Values {UNKNOWN!r} are read as missing.")
    _read_numbers(table, chosen, decimal)
    return table


def _starts_with_utf16_mark(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {one_line_of(error)}") from error


def _find_separator(path: Path, options: Mapping[str, Any]) -> str:
    """Return the separator that splits most lines into as many values as the first line."""
    found = _csv(
        path,
        {
            **options,
            "sep": NEVER,
            "header": None,
            "nrows": SAMPLED_LINES,
            "quoting": csv.QUOTE_NONE,
            "dtype": str,
            "na_filter": False,
            "usecols": [0],
        },
    )
    lines = found[0].tolist()
    if any("\0" in line for line in lines):
        raise CommandError(
            f"{path} contains NUL characters. It may be UTF-16 without a byte order mark: save it "
            "as CSV in UTF-8."
        )
    rated = [(*_rate(lines, separator), separator) for separator in SEPARATORS]
    _, width, best = max(rated, key=lambda one: one[:2])
    return best if width > 1 else ","


def _rate(lines: Sequence[str], separator: str) -> tuple[float, int]:
    """Return the share of lines with as many values as the first line, and that number."""
    if separator not in lines[0]:
        return 0.0, 1
    try:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator)]
    except csv.Error:  # a value of more than 100,000 characters
        return 0.0, 1
    if len(lines) == SAMPLED_LINES and len(widths) > 2:
        del widths[-1]  # a quoted value may continue on the next line
    # Lines with one value more than the header have an index column.
    equal = [width - widths[0] in (0, 1) for width in widths[1:]] or [True]
    return (sum(equal) / len(equal), widths[0]) if widths[0] > 1 else (0.0, 1)


def _csv(path: Path, options: Mapping[str, Any]) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # Columns of mixed types become categories later.
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            frame = pd.read_csv(path, **options)
    except pd.errors.EmptyDataError:
        raise CommandError(f"{path} is empty. Its first line must hold the column names.") from None
    except UnicodeError as error:
        reason = getattr(error, "reason", error)
        raise CommandError(
            f"{path} is not UTF-8 text ({reason}). Save it as CSV in UTF-8."
        ) from error
    except (OSError, EOFError, ValueError, ImportError, zipfile.BadZipFile) as error:
        raise CommandError(f"cannot read {path}: {one_line_of(error)}") from error
    return frame


def _text_columns(frame: pd.DataFrame) -> list[str]:
    return list(frame.select_dtypes(include=["object", "string"]).columns)


def _writings(frame: pd.DataFrame) -> dict[str, Writing]:
    """Return how text columns write numbers, for those that hold numbers."""
    found = {}
    for name in _text_columns(frame):
        how = writing(_entries(frame[name]))
        if how is not None and how.marks:
            found[name] = how
    return found


def _entries(column: pd.Series) -> Iterator[str]:
    """Yield the values that are not missing, with an empty string for each non-string."""
    for value in column:
        if isinstance(value, str):
            yield value
        elif not pd.isna(value):
            yield ""


def _read_numbers(table: Delimited, separator: str, decimal: Mark | None) -> None:
    """Read columns again if pandas read their numbers as text or misread them."""
    texts = _writings(table.frame)
    if not texts and decimal != ",":
        return
    floats = list(table.frame.select_dtypes(include=["float"]).columns)
    as_text = {**table.options, "dtype": dict.fromkeys(floats, str)}
    pointed = _writings(_csv(table.path, as_text)[floats]) if floats else {}
    everything = {**texts, **pointed}
    mark = decimal or decimal_mark(everything, separator)
    # Points in numbers that pandas could read are decimal points, unless the file uses commas.
    grouped: list[str] = []
    kept: list[str] = []
    for name, how in pointed.items():
        if mark == ",":
            separates_thousands = how.ambiguous and how.hint != "."
            (grouped if separates_thousands else kept).append(name)
    chosen = [name for name, how in texts.items() if mark in how.decimals]
    if chosen or grouped:
        before = set(_text_columns(table.frame))
        if mark == ",":
            table.options["decimal"] = mark
        if grouped or any(other(mark) in texts[name].marks for name in chosen):
            table.options["thousands"] = other(mark)
        _read_again(table, before.difference(chosen), kept)
    _explain(table, mark, {name: everything[name] for name in [*chosen, *grouped]})
    left = {name: how for name, how in texts.items() if mark not in how.decimals}
    if left:
        example = next(iter(left.values())).example
        table.remarks.append(
            f"{_listed(list(left))} {_verb(left, 'is', 'are')} read as categories: {example!r} is "
            f"no number with a decimal {_spoken(mark)}, which the rest of the file uses. Use "
            f"--decimal {other(mark)} to read decimal {_spoken(other(mark))}s."
        )


def _read_again(table: Delimited, texts: set[str], pointed: list[str]) -> None:
    """Read the file with the options for numbers; text columns stay text."""
    kept: dict[str, type[str]] = dict.fromkeys(pointed, str)
    frame = _csv(table.path, {**table.options, **({"dtype": kept} if kept else {})})
    taken = [name for name in frame if name in texts and types.is_numeric_dtype(frame[name])]
    if taken:
        kept |= dict.fromkeys(taken, str)
        frame = _csv(table.path, {**table.options, "dtype": kept})
    if kept:
        table.options["dtype"] = kept
    if pointed:
        frame[pointed] = frame[pointed].astype(float)
        table.remarks.append(f"{_listed(pointed)} {_verb(pointed, 'uses', 'use')} decimal points.")
    table.frame, table.pointed = frame, pointed


def _explain(table: Delimited, mark: Mark, read: Mapping[str, Writing]) -> None:
    """Add remarks on how numbers were read and how to change that."""
    way_out = f"Use --decimal {other(mark)} to read decimal {_spoken(other(mark))}s."
    for sign in (",", "."):
        names = [name for name, how in read.items() if sign in how.marks]
        if names:
            role = "decimal marks" if sign == mark else "thousands separators"
            table.remarks.append(
                f"{_listed(names)}: {_spoken(sign)}s are read as {role}. {way_out}"
            )
    unsure = [name for name, how in read.items() if how.ambiguous]
    if unsure:
        example = read[unsure[0]].example
        value = example.replace(other(mark), "").replace(mark, ".")
        table.remarks.append(
            f"{_listed(unsure)} {_verb(unsure, 'is', 'are')} ambiguous: {example!r} is read as "
            f"{value}."
        )


def _spoken(mark: str) -> str:
    return "comma" if mark == "," else "point"


def _verb(names: Sequence[str] | Mapping[str, Any], one: str, many: str) -> str:
    return one if len(names) == 1 else many


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"Column{'s' if len(names) > 1 else ''} {shown}{more}"
