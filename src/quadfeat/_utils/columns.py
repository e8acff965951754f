"""Validation of tables, with errors that name the columns whose values are not finite numbers.

The columns are computed only after a check has failed, so that valid rows take no extra time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, validation

# Error messages name at most this many columns.
MOST_COLUMNS = 5

# Longer messages of NumPy and scikit-learn are not repeated.
LONGEST_REASON = 120


class NotFiniteError(ValueError):
    """A table contains NaN or infinity.

    Parameters
    ----------
    missing, infinite : tuple of int
        Positions of the columns with NaN, and of those with infinity.
    dtype : str
        The dtype of the table.
    table : str
        The name of the argument, such as ``"X"``.
    owner : str, default=None
        The class that the user has called.
    names : sequence of str, default=None
        Names of the columns, if they have any.
    place : str, default=""
        Where the values are, such as the name of a file.
    """

    def __init__(
        self,
        missing: tuple[int, ...],
        infinite: tuple[int, ...],
        dtype: str,
        table: str,
        owner: str | None = None,
        names: Sequence[Any] | None = None,
        place: str = "",
    ) -> None:
        super().__init__(missing, infinite, dtype, table, owner, names, place)  # for pickles
        self.missing = missing
        self.infinite = infinite
        self.dtype = dtype
        self.table = table
        self.owner = owner
        self.names = names
        self.place = place

    @classmethod
    def of(cls, X: Any, table: str) -> NotFiniteError:
        """Return the error for a dense or CSR matrix."""
        if sparse.issparse(X):
            rows = sparse.csr_array(X)
            missing = np.unique(rows.indices[np.isnan(rows.data)])
            infinite = np.unique(rows.indices[np.isinf(rows.data)])
        else:
            missing = np.flatnonzero(np.isnan(X).any(axis=0))
            infinite = np.flatnonzero(np.isinf(X).any(axis=0))
        return cls(tuple(missing.tolist()), tuple(infinite.tolist()), str(X.dtype), table)

    def within(self, estimator: Any, names: Iterable[Any] | None) -> NotFiniteError:
        """Return the error for the estimator that the user has called.

        Parameters
        ----------
        estimator : object
            If this error already belongs to another estimator, such as a step of a pipeline, it
            does not change.
        names : iterable of str or None
            Names of the columns, if they have any.
        """
        if self.owner is not None:
            return self
        owner, names = type(estimator).__name__, None if names is None else [*map(str, names)]
        return NotFiniteError(
            self.missing, self.infinite, self.dtype, self.table, owner, names, self.place
        )

    def named(self, owner: str) -> NotFiniteError:
        """Return the error for another class, which contains the one that has raised it."""
        return NotFiniteError(
            self.missing, self.infinite, self.dtype, self.table, owner, self.names, self.place
        )

    def within_file_of(self, rows: Any) -> NotFiniteError:
        """Return the error with the name of the file, if ``rows`` has a method that finds it."""
        if self.names is None or not hasattr(rows, "file_not_finite"):
            return self
        columns = sorted({*self.missing, *self.infinite})
        place = rows.file_not_finite([self.names[column] for column in columns])
        return NotFiniteError(
            self.missing, self.infinite, self.dtype, self.table, self.owner, self.names, place
        )

    def __str__(self) -> str:
        owner = "quadfeat" if self.owner is None else self.owner
        place = f", first in {self.place}" if self.place else ""
        sentences = []
        if self.missing:
            sentences.append(
                f"Input {self.table} contains NaN: {holding(self.missing, self.names)} missing "
                f"values{place}. {owner} needs complete rows: impute the values first, for example "
                "with TableEncoder in a pipeline."
            )
        if self.infinite:
            sentences.append(
                f"Input {self.table} contains infinity or a value too large for "
                f"dtype('{self.dtype}'): {holding(self.infinite, self.names)} such values{place}. "
                f"{owner} needs finite numbers: replace the values, or drop these rows."
            )
        return " ".join(sentences)


def check_finite(X: Any, table: str = "X") -> None:
    """Raise an error that names the columns if a dense or CSR matrix is not finite."""
    try:
        assert_all_finite(X, input_name=table)
    except ValueError:
        raise NotFiniteError.of(X, table) from None


def is_stream(X: Any) -> bool:
    """Return whether ``X`` is an iterable of blocks rather than a table."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and isinstance(X[0], tuple) and hasattr(next(iter(X[0]), None), "shape")
    tabular = hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__")
    return isinstance(X, Iterable) and not tabular and not isinstance(X, (str, bytes, dict))


def reject_path(X: Any, table: str = "X") -> None:
    """Raise an error if the user passes the path of a file instead of its content."""
    if isinstance(X, (str, os.PathLike)):
        path = os.fspath(X)
        raise TypeError(
            f"{table} is the string or path {path!r}, but rows are needed. Read the file, for "
            "example with pandas.read_csv, or use quadfeat.ParquetBlocks for Parquet files."
        )


def validate_data(estimator: Any, X: Any, *args: Any, **options: Any) -> Any:
    """Call scikit-learn's ``validate_data``; name the columns if they do not hold numbers."""
    _reject_stream(X, "X", estimator)
    try:
        return validation.validate_data(estimator, X, *args, **options)
    except (TypeError, ValueError) as error:
        raise _without_numbers(X, "X", estimator, error) from error


def check_numbers(X: Any, table: str, estimator: Any = None, **options: Any) -> Any:
    """Call scikit-learn's ``check_array``; name the columns if they do not hold finite numbers."""
    _reject_stream(X, table, estimator)
    try:
        found = check_array(
            X, estimator=estimator, input_name=table, ensure_all_finite=False, **options
        )
    except (TypeError, ValueError) as error:
        raise _without_numbers(X, table, estimator, error) from error
    check_finite(found, table)
    return found


def names_of_frame(X: Any) -> list[Any] | None:
    """Return the column names of a data frame; None for other tables."""
    return list(X.columns) if hasattr(X, "shape") and hasattr(X, "columns") else None


def holding(columns: Sequence[int], names: Sequence[Any] | None) -> str:
    """Return the columns as the subject of a sentence, with its verb.

    Examples
    --------
    >>> holding([0, 5], None), holding([1], ["size", "color"])
    ('columns 0, 5 hold', "column 'color' holds")
    >>> holding(range(9), None)
    'columns 0, 1, 2, 3, 4 and 4 more hold'
    """
    if names is None or max(columns) >= len(names):
        shown = [str(column) for column in columns[:MOST_COLUMNS]]
    else:
        shown = [repr(names[column]) for column in columns[:MOST_COLUMNS]]
    more = len(columns) - len(shown)
    text = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"column {text} holds" if len(columns) == 1 else f"columns {text} hold"


def _reject_stream(X: Any, table: str, estimator: Any) -> None:
    """Raise an error if ``X`` is a path or yields blocks of rows."""
    reject_path(X, table)
    if is_stream(X):
        owner = "quadfeat" if estimator is None else type(estimator).__name__
        # ParquetBlocks without a target yields data frames.
        item = "X" if getattr(X, "target", ()) is None else "X, y"
        raise TypeError(
            f"{table} is a {type(X).__name__}, which yields blocks of rows. Only fit and score of "
            f"models without y accept blocks; here, {owner} needs an array or a data frame. Pass "
            f"one block at a time, as in np.concatenate([model.predict(X) for {item} in blocks])."
        )


def _without_numbers(X: Any, table: str, estimator: Any, error: Exception) -> Exception:
    """Return an error that names the columns without numbers, or ``error`` if there are none."""
    found = {} if sparse.issparse(X) else _first_of_each(X)
    if not found:
        return error
    owner = "quadfeat" if estimator is None else type(estimator).__name__
    names = names_of_frame(X)
    texts = {column: value for column, value in found.items() if isinstance(value, (str, bytes))}
    if texts:
        example = next(iter(texts.values()))
        return ValueError(
            f"Input {table} contains text: {holding(list(texts), names)} text, such as "
            f"{str(example)!r}. {owner} needs numbers: encode the columns first, for example with "
            "TableEncoder in a pipeline, or convert them to numbers."
        )
    if all(_is_missing(value) for value in found.values()):
        return NotFiniteError(tuple(found), (), "object", table, owner, names)
    kind = next(type(value).__name__ for value in found.values() if not _is_missing(value))
    reason = f" ({error})" if len(str(error)) <= LONGEST_REASON else ""
    message = (
        f"Input {table} does not hold numbers: {holding(list(found), names)} values of type {kind}"
        f"{reason}. {owner} needs numbers: convert the columns first, or leave them out."
    )
    return TypeError(message) if isinstance(error, TypeError) else ValueError(message)


def _first_of_each(X: Any) -> dict[int, Any]:
    """Return the first value of each column that is not a number, by the column's position.

    Missing values count only if the column has no other value that is not a number.
    """
    found: dict[int, Any] = {}
    for position, column in enumerate(_object_columns(X)):
        for value in column:
            if _is_missing(value):
                found.setdefault(position, value)
            elif not _is_number(value):
                found[position] = value
                break
    return found


def _object_columns(X: Any) -> list[NDArray[Any]]:
    """Return the columns of a table as arrays; columns with a numeric dtype are empty."""
    names = names_of_frame(X)
    if names is None:
        table = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)
        columns = list(table.T) if table.ndim == 2 else []
    elif hasattr(X, "iloc"):  # a name may occur twice
        columns = [np.asarray(X.iloc[:, position]) for position in range(len(names))]
    else:
        columns = [np.asarray(X[name]) for name in names]
    return [column if column.dtype.kind not in "biufc" else column[:0] for column in columns]


def _is_missing(value: Any) -> bool:
    """Return whether a value is ``pandas.NA``, which has no conversion to a number."""
    return type(value).__name__ == "NAType"


def _is_number(value: Any) -> bool:
    """Return whether NumPy converts a value to a float."""
    if value is None:
        return True
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
