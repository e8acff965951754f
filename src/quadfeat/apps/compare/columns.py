"""Detect the kind of each column, and prepare columns with scikit-learn.

We do not use skrub's ``TableVectorizer``: the report explains why a column is dropped, and the
generated script needs only scikit-learn and pandas.
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

Kind = Literal["number", "date", "category", "dropped"]

MOST_CATEGORIES = 30  # per column; the rarest ones share a category
ORIGIN = pd.Timestamp("2000-01-01", tz="UTC")  # dates become days since then
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$")


@dataclass(frozen=True)
class Column:
    """A column: its kind, how it is prepared or why it is dropped, and its missing values."""

    name: str
    kind: Kind
    treatment: str
    missing: int


def describe(frame: pd.DataFrame) -> list[Column]:
    """Return the kind of each column.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [31.0, None], "city": ["Bern", "Basel"], "unit": ["m", "m"]})
    >>> [(column.name, column.kind) for column in describe(frame)]
    [('age', 'number'), ('city', 'category'), ('unit', 'dropped')]
    """
    return [_describe(str(name), frame[name]) for name in frame.columns]


def _describe(name: str, series: pd.Series) -> Column:
    missing = int(series.isna().sum())

    def column(kind: Kind, treatment: str) -> Column:
        return Column(name, kind, treatment, missing)

    values = series.dropna()
    if len(values) == 0:
        return column("dropped", "all values are missing")
    first = values.iloc[0]
    if isinstance(first, (list, dict, set, tuple, np.ndarray, bytes)):
        return column("dropped", f"values of type {type(first).__name__}")
    if isinstance(first, (complex, pd.Timedelta)):
        return column("dropped", f"values of type {type(first).__name__}: convert them to numbers")
    kind = _kind(values)
    imputed = "; median and an indicator column for missing values" if missing else ""
    texts = values if kind in ("number", "date") else values.map(str)
    distinct = texts.nunique()
    if distinct == 1 and not missing:
        return column("dropped", "constant")
    if kind == "number":
        numbers = values.astype(np.float64)
        if not np.isfinite(numbers).all():
            where = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise CommandError(
                f"column {name!r} has infinite values, the first one in row {values.index[where]}. "
                "Replace them, or leave them empty: empty values are read as missing."
            )
        if types.is_integer_dtype(values) and _numbers_rows(values):
            return column("dropped", "row numbers")
        return column("number", f"standardized{imputed}")
    if kind == "date":
        return column("date", f"days since {ORIGIN.date()}, standardized{imputed}")
    if distinct > 10 and distinct > 0.5 * len(values):
        return column("dropped", f"{distinct} different values: an identifier or free text")
    rare = f", one column for all but the {MOST_CATEGORIES - 1} most frequent"
    own = "; missing values are a category" if missing else ""
    return column(
        "category",
        f"one-hot encoded, {distinct} categories{rare if distinct > MOST_CATEGORIES else ''}{own}",
    )


def _kind(values: pd.Series) -> Kind:
    """Return the kind of values, none of which is missing."""
    if types.is_bool_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype):
        return "category"
    if types.is_numeric_dtype(values):
        return "number"
    if types.is_datetime64_any_dtype(values):
        return "date"
    if all(isinstance(value, (Real, Decimal)) and not isinstance(value, bool) for value in values):
        return "number"
    if isinstance(values.iloc[0], str) and not ISO_DATE.match(values.iloc[0]):
        return "category"
    found = pd.to_datetime(values.astype(str), format="ISO8601", errors="coerce", utc=True)
    return "date" if found.notna().all() else "category"


def _numbers_rows(values: pd.Series) -> bool:
    """Return whether these are consecutive integers in any order, each once."""
    return (
        len(values) > 2 and values.is_unique and int(values.max() - values.min()) + 1 == len(values)
    )


def named(columns: Sequence[Column], *kinds: Kind) -> list[str]:
    """Return the names of all columns of some kinds."""
    return [column.name for column in columns if column.kind in kinds]


def tidy(frame: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """Return the columns to learn from: float64 numbers, dates as days, categories as strings."""
    parts = {}
    for column in columns:
        if column.kind == "number":
            parts[column.name] = frame[column.name].astype(np.float64)
        elif column.kind == "date":
            parts[column.name] = days(frame[column.name])
        elif column.kind == "category":
            # Missing values become the string "nan", "None" or "<NA>": their own category.
            parts[column.name] = frame[column.name].astype(object).map(str)
    return pd.DataFrame(parts, index=frame.index)


def days(series: pd.Series) -> pd.Series:
    """Return dates as days since the year 2000; missing dates become NaN.

    Examples
    --------
    >>> days(pd.Series(["2000-01-02", None])).tolist()
    [1.0, nan]
    """
    moments = pd.to_datetime(series, format="ISO8601", utc=True)
    return ((moments - ORIGIN) / pd.Timedelta(days=1)).astype(np.float64)


def any_missing(columns: Sequence[Column], *kinds: Kind) -> bool:
    """Return whether any column of some kinds has missing values."""
    return any(column.missing for column in columns if column.kind in kinds)


def is_plain(columns: Sequence[Column]) -> bool:
    """Return whether all columns to learn from are numbers without missing values.

    Examples
    --------
    >>> is_plain([Column("age", "number", "", 0), Column("unit", "dropped", "constant", 3)])
    True
    """
    kept = [column for column in columns if column.kind != "dropped"]
    return all(column.kind == "number" and not column.missing for column in kept)


def preparation(columns: Sequence[Column]) -> Any:
    """Return the transformer from tidy columns to a numeric matrix."""
    numeric, categorical = named(columns, "number", "date"), named(columns, "category")
    scaler: Any = StandardScaler()
    if any_missing(columns, "number", "date"):
        # In some folds a column may have no values at all. It is kept, as zeros.
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        scaler = make_pipeline(imputer, scaler)
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False
    )
    # scikit-learn searches a list for each name, which is slow. Pass positions instead.
    return ColumnTransformer(
        [
            ("numeric", scaler, partial(_positions, numeric)),
            ("categorical", encoder, partial(_positions, categorical)),
        ]
    )


def _positions(names: Sequence[str], frame: pd.DataFrame) -> list[int]:
    """Return the positions of columns in a table that has all of them."""
    position = {name: k for k, name in enumerate(frame.columns)}
    return [position[name] for name in names]
