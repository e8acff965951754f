"""Say what the models make of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from pandas.api import types

from quadfeat import TableEncoder
from quadfeat._utils.columns import NotFiniteColumnsError
from quadfeat._utils.validation import Array
from quadfeat.apps.reporting.errors import CommandError

ROW_NUMBERS = "row numbers"


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes
    ----------
    name : str
    kind : str
        How ``TableEncoder`` encodes it, or ``"row numbers"`` if it is removed before.
    outputs : tuple of str
        Names of the numbers that the encoder makes of it; empty if it is not used.
    missing : int
        Number of missing values.
    """

    name: str
    kind: str
    outputs: tuple[str, ...]
    missing: int

    @property
    def is_used(self) -> bool:
        """Whether the models learn from this column."""
        return bool(self.outputs)


def row_numbers(frame: pd.DataFrame) -> list[str]:
    """Return the names of columns that count the rows in any order.

    They say nothing about new rows. Other columns are left to the encoder.

    Examples
    --------
    >>> row_numbers(pd.DataFrame({"id": [3, 1, 2], "age": [31, 31, 62]}))
    ['id']
    """
    return [str(name) for name in frame.columns if _counts_rows(frame[name])]


def _counts_rows(values: pd.Series) -> bool:
    """Return whether these are consecutive integers in any order, each once."""
    values = values.dropna()
    return (
        types.is_integer_dtype(values)
        and len(values) > 2
        and values.is_unique
        and int(values.max()) - int(values.min()) + 1 == len(values)
    )


def is_plain(frame: pd.DataFrame) -> bool:
    """Return whether all columns are numbers without missing values.

    Examples
    --------
    >>> is_plain(pd.DataFrame({"age": [31, 62]})), is_plain(pd.DataFrame({"city": ["Bern"]}))
    (True, False)
    """
    return all(
        types.is_numeric_dtype(frame[name]) and not frame[name].isna().any()
        for name in frame.columns
    )


def describe(frame: pd.DataFrame, y: Array, unused: Sequence[str] = ()) -> list[Column]:
    """Return what the models make of each column.

    Parameters
    ----------
    frame : DataFrame
        All columns but the target.
    y : array of shape (n_rows,)
    unused : sequence of str, default=()
        Columns that are removed before.

    Examples
    --------
    >>> import numpy as np
    >>> frame = pd.DataFrame({"age": [31.0, None], "city": ["Bern", "Basel"], "empty": None})
    >>> for column in describe(frame, np.array([1.0, 2.0])):
    ...     print(column.name, column.kind, *column.outputs, sep=", ")
    age, number, age, age_missing
    city, category, city_Bern
    empty, no values
    """
    removed = set(unused)
    used = frame.drop(columns=list(unused))
    missing = frame.isna().sum().tolist()
    encoder = TableEncoder()
    try:
        encoder.fit(used, y)
    except NotFiniteColumnsError as error:
        name = used.columns[error.infinite[0]]
        raise CommandError(
            f"column {str(name)!r} has infinite values. Replace them, or leave them empty: empty "
            "values are read as missing."
        ) from None
    except ValueError as error:
        raise CommandError(str(error)) from None
    names: list[list[str]] = [[] for _ in encoder.kinds_]
    for place, name in zip(encoder.input_of_output_, encoder.get_feature_names_out(), strict=True):
        names[place].append(name)
    kinds = iter(zip(encoder.kinds_, names, strict=True))
    columns = []
    for name, count in zip(map(str, frame.columns), missing, strict=True):
        kind, outputs = (ROW_NUMBERS, []) if name in removed else next(kinds)
        columns.append(Column(name, kind, tuple(outputs), count))
    return columns
