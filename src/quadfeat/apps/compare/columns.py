"""Columns of a table: what each is, and how scikit-learn makes numbers of it.

What a column is taken for is decided here, and not by skrub's ``TableVectorizer``: the report says
why a column is dropped, and the script to paste needs nothing but scikit-learn and pandas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from quadfeat.apps.reporting.errors import CommandError

Kind = Literal["number", "date", "words", "dropped"]

MOST_CATEGORIES = 30  # of a column; those beyond share one
ORIGIN = pd.Timestamp("2000-01-01", tz="UTC")  # dates are days since then
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$")


@dataclass(frozen=True)
class Column:
    """A column, what it is taken for, and what is done to it or why it is dropped."""

    name: str
    kind: Kind
    treatment: str
    missing: int


def sort_out(frame: pd.DataFrame) -> list[Column]:
    """Return what each column is.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31.0, None], "city": ["Bern", "Basel"], "unit": ["m", "m"]})
    >>> [(column.name, column.kind) for column in sort_out(frame)]
    [('age', 'number'), ('city', 'words'), ('unit', 'dropped')]
    """
    return [_sort_out(str(name), frame[name]) for name in frame.columns]


def _sort_out(name: str, series: pd.Series) -> Column:
    missing = int(series.isna().sum())

    def column(kind: Kind, treatment: str) -> Column:
        return Column(name, kind, treatment, missing)

    values = series.dropna()
    if len(values) == 0:
        return column("dropped", "all missing")
    first = values.iloc[0]
    if isinstance(first, (list, dict, set, tuple, np.ndarray, bytes)):
        return column("dropped", f"holds values of type {type(first).__name__}")
    if isinstance(first, (complex, pd.Timedelta)):
        return column("dropped", f"holds values of type {type(first).__name__}: make them numbers")
    kind = _kind(values)
    texts = values if kind in ("number", "date") else values.map(str)
    distinct = texts.nunique()
    if distinct == 1 and not missing:
        return column("dropped", "constant")
    if kind == "number":
        numbers = values.astype(np.float64)
        if not np.isfinite(numbers).all():
            where = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise CommandError(
                f"column {name!r} has infinite values, the first in row {values.index[where]}: "
                "replace them, or leave them empty, which is read as missing."
            )
        if types.is_integer_dtype(values) and _counts_rows(values):
            return column("dropped", "numbers the rows")
        imputed = "; median where missing, and a column that says so" if missing else ""
        return column("number", f"standardised{imputed}")
    if kind == "date":
        imputed = "; median where missing, and a column that says so" if missing else ""
        return column("date", f"days since {ORIGIN.date()}, standardised{imputed}")
    if distinct > 10 and distinct > 0.5 * len(values):
        return column("dropped", f"{distinct} different entries: an identifier, or free text")
    rare = f", all but the {MOST_CATEGORIES - 1} most frequent as one"
    missed = "; missing is one of them" if missing else ""
    return column(
        "words",
        f"one column a category ({distinct}{rare if distinct > MOST_CATEGORIES else ''}){missed}",
    )


def _kind(values: pd.Series) -> Kind:
    """Return what values, none of which is missing, are taken for."""
    if types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return "words"
    if types.is_numeric_dtype(values):
        return "number"
    if types.is_datetime64_any_dtype(values):
        return "date"
    if all(isinstance(value, (Real, Decimal)) and not isinstance(value, bool) for value in values):
        return "number"
    if isinstance(values.iloc[0], str) and not ISO_DATE.match(values.iloc[0]):
        return "words"
    found = pd.to_datetime(values.astype(str), format="ISO8601", errors="coerce", utc=True)
    return "date" if found.notna().all() else "words"


def _counts_rows(values: pd.Series) -> bool:
    """Return whether these are consecutive whole numbers in some order, each once."""
    return (
        len(values) > 2 and values.is_unique and int(values.max() - values.min()) + 1 == len(values)
    )


def named(columns: Sequence[Column], *kinds: Kind) -> list[str]:
    """Return the names of the columns of some kinds."""
    return [column.name for column in columns if column.kind in kinds]


def tidy(frame: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Return the columns that are kept: numbers as float64, dates as days, words as strings."""
    parts = {}
    for column in columns:
        if column.kind == "number":
            parts[column.name] = frame[column.name].astype(np.float64)
        elif column.kind == "date":
            parts[column.name] = days(frame[column.name])
        elif column.kind == "words":
            # A missing one becomes the word "nan", "None" or "<NA>": a category of its own.
            parts[column.name] = frame[column.name].astype(object).map(str)
    return pd.DataFrame(parts, index=frame.index)


def days(series: pd.Series) -> pd.Series:
    """Return dates as days since the year 2000, missing ones as NaN.

    Examples
    --------
    >>> days(pd.Series(["2000-01-02", None])).tolist()
    [1.0, nan]
    """
    moments = pd.to_datetime(series, format="ISO8601", utc=True)
    return ((moments - ORIGIN) / pd.Timedelta(days=1)).astype(np.float64)


def any_missing(columns: Sequence[Column], *kinds: Kind) -> bool:
    """Return whether a column of some kinds has missing values."""
    return any(column.missing for column in columns if column.kind in kinds)


def is_plain(columns: Sequence[Column]) -> bool:
    """Return whether all columns that are kept are numbers without missing values.

    Examples
    --------
    >>> is_plain([Column("age", "number", "", 0), Column("unit", "dropped", "constant", 3)])
    True
    """
    kept = [column for column in columns if column.kind != "dropped"]
    return all(column.kind == "number" and not column.missing for column in kept)


def preparation(columns: Sequence[Column]) -> Any:
    """Return the transformer from tidy columns to a matrix of numbers."""
    numbers, words = named(columns, "number", "date"), named(columns, "words")
    scaler: Any = StandardScaler()
    if any_missing(columns, "number", "date"):
        # A part of the rows may have a column without any value: it is kept, as zeros.
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        scaler = make_pipeline(imputer, scaler)
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False
    )
    # scikit-learn searches a list for each name, so it gets positions instead.
    return ColumnTransformer(
        [
            ("numbers", scaler, partial(_positions, numbers)),
            ("words", encoder, partial(_positions, words)),
        ]
    )


def _positions(names: Sequence[str], frame: pd.DataFrame) -> list[int]:
    """Return where columns are in a table that has all of them."""
    position = {name: k for k, name in enumerate(frame.columns)}
    return [position[name] for name in names]
