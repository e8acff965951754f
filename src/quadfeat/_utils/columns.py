"""Validation of tables, with errors that name the columns whose values are not finite numbers.

The columns are computed only after a check has failed, so that valid rows take no extra time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, get_tags, validation

# Error messages name at most this many columns.
MOST_COLUMNS = 5

# Longer messages of NumPy and scikit-learn are not repeated.
LONGEST_REASON = 120

# How to impute missing values of a table, of blocks, and of a Dask collection.
IN_MEMORY = "for example with TableEncoder in a pipeline"
IN_BLOCKS = (
    "when the files are written, or in a generator that wraps the blocks, as the page 'Parquet "
    "files larger than memory' of the documentation shows"
)
IN_DASK = "for example with fillna of a Dask data frame"

Error = TypeVar("Error", bound="NotFiniteError")


class NotFiniteError(ValueError):
    """Base class of errors about values that are NaN or infinite.

    Such an error passes several places, which complete it: the class that the user has called, the
    names of the columns, the file.

    Parameters
    ----------
    *fields : object
        The attributes that :attr:`names_of_fields` lists. They are the arguments of the exception,
        so that it can be pickled.
    """

    names_of_fields: tuple[str, ...] = ()
    owner: str | None

    def __init__(self, *fields: Any) -> None:
        super().__init__(*fields)
        for name, value in zip(self.names_of_fields, fields, strict=True):
            setattr(self, name, value)

    def changed(self: Error, **changes: Any) -> Error:
        """Return the error with other values of some fields."""
        fields = {name: getattr(self, name) for name in self.names_of_fields}
        return type(self)(*(fields | changes).values())

    def named(self: Error, owner: str) -> Error:
        """Return the error for another class, which contains the one that has raised it."""
        return self.changed(owner=owner)

    def within(self: Error, estimator: Any, names: Iterable[Any] | None) -> Error:
        """Return the error for the estimator that the user has called.

        Parameters
        ----------
        estimator : object
            If this error already belongs to another estimator, such as a step of a pipeline, it
            does not change.
        names : iterable of str or None
            Names of the columns, if they have any.
        """
        return self if self.owner is not None else self.named(type(estimator).__name__)

    def within_source(self: Error, rows: Any, *, is_lazy: bool) -> Error:
        """Return the error for the rows that the user has passed, with the place and a way out.

        Parameters
        ----------
        rows : table, iterable of blocks, or Dask collection
        is_lazy : bool
            Whether it is a Dask collection.
        """
        raise NotImplementedError


class NotFiniteColumnsError(NotFiniteError):
    """A table contains NaN or infinity.

    Attributes
    ----------
    missing, infinite : tuple of int
        Positions of the columns with NaN, and of those with infinity.
    dtype : str
        The dtype of the table.
    table : str
        The name of the argument, such as ``"X"``.
    owner : str or None
        The class that the user has called.
    names : sequence of str or None
        Names of the columns, if they have any.
    place : str
        Where the values are, such as the name of a file.
    advice : str
        How to impute missing values.
    """

    names_of_fields = (
        "missing",
        "infinite",
        "dtype",
        "table",
        "owner",
        "names",
        "place",
        "advice",
    )
    missing: tuple[int, ...]
    infinite: tuple[int, ...]
    dtype: str
    table: str
    names: Sequence[Any] | None
    place: str
    advice: str

    @classmethod
    def of(cls, X: Any, table: str) -> NotFiniteColumnsError:
        """Return the error for a dense or CSR matrix."""
        if sparse.issparse(X):
            rows = sparse.csr_array(X)
            missing = np.unique(rows.indices[np.isnan(rows.data)])
            infinite = np.unique(rows.indices[np.isinf(rows.data)])
        else:
            missing = np.flatnonzero(np.isnan(X).any(axis=0))
            infinite = np.flatnonzero(np.isinf(X).any(axis=0))
        return cls.in_columns(missing.tolist(), infinite.tolist(), str(X.dtype), table)

    @classmethod
    def in_columns(
        cls,
        missing: Sequence[int],
        infinite: Sequence[int],
        dtype: str,
        table: str,
        owner: str | None = None,
        names: Sequence[Any] | None = None,
    ) -> NotFiniteColumnsError:
        """Return the error for columns of a table in memory."""
        return cls(tuple(missing), tuple(infinite), dtype, table, owner, names, "", IN_MEMORY)

    def within(self, estimator: Any, names: Iterable[Any] | None) -> NotFiniteColumnsError:
        if self.owner is not None:
            return self
        shown = None if names is None else [*map(str, names)]
        return self.changed(owner=type(estimator).__name__, names=shown)

    def within_source(self, rows: Any, *, is_lazy: bool) -> NotFiniteColumnsError:
        found = self
        if is_lazy or is_stream(rows):
            found = self.changed(advice=IN_DASK if is_lazy else IN_BLOCKS)
        if self.names is None or not hasattr(rows, "file_not_finite"):
            return found
        columns = sorted({*self.missing, *self.infinite})
        return found.changed(place=rows.file_not_finite([self.names[one] for one in columns]))

    def __str__(self) -> str:
        owner = "quadfeat" if self.owner is None else self.owner
        place = f", first in {self.place}" if self.place else ""
        sentences = []
        if self.missing:
            sentences.append(
                f"Input {self.table} contains NaN: {holding(self.missing, self.names)} missing "
                f"values{place}. {owner} needs complete rows: impute the values first, "
                f"{self.advice}."
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
        raise NotFiniteColumnsError.of(X, table) from None


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


def reject_targets_of_stream(X: Any, y: Any, owner: str) -> None:
    """Raise an error if the user passes targets beside blocks, which carry their own."""
    if y is None or not is_stream(X):
        return
    kind = type(X).__name__
    way_out = "Omit y, as in fit(blocks)"
    if getattr(X, "target", ()) is None:
        way_out = f"Set target= of {kind}, and omit y"
    raise TypeError(
        f"y is given beside X, which is a {kind} and yields blocks of rows. Each block has to "
        f"carry its targets. {way_out}; or pass {owner} a table in memory and its y."
    )


def reject_missing_targets(y: Any, owner: str) -> None:
    """Raise an error if an estimator that needs targets gets none."""
    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None. Pass one target for each "
            "row, as in fit(X, y)."
        )


def validate_data(estimator: Any, X: Any, *args: Any, **options: Any) -> Any:
    """Call scikit-learn's ``validate_data``; name the columns if they do not hold numbers."""
    _reject_stream(X, "X", estimator)
    y = args[0] if args else options.get("y", ())
    if y is None and get_tags(estimator).target_tags.required:
        reject_missing_targets(y, type(estimator).__name__)
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
        return NotFiniteColumnsError.in_columns(list(found), [], "object", table, owner, names)
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
