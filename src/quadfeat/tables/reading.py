"""Check a table, and find its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import without_mask
from quadfeat._utils.columns import MOST_COLUMNS, is_stream, names_of_frame, reject_path
from quadfeat.data.blocks import is_dask

OWNER = "TableEncoder"


class Table(NamedTuple):
    """A table whose shape is checked.

    Attributes
    ----------
    X : data frame or array of shape (n_rows, n_columns)
    columns : list of arrays or columns of a data frame
    names : list or None
        Names of the columns of a data frame.
    """

    X: Any
    columns: list[Any]
    names: list[Any] | None

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The dtype of the encoded table."""
        is_single = all(str(column.dtype).lower() == "float32" for column in self.columns)
        return np.float32 if is_single else np.float64

    def label(self, position: int) -> str:
        """Return the name or the position of a column for an error message."""
        return str(position) if self.names is None else repr(self.names[position])


def read_table(X: Any, wanted: Any = None, owner: str = OWNER) -> Table:
    """Return a checked table.

    Parameters
    ----------
    X : data frame, array or list of rows
    wanted : array of str, default=None
        The columns to find in a data frame, in this order.
    owner : str, default="TableEncoder"
        The class that the user has called, for error messages.

    Raises
    ------
    ValueError
        If column names are missing, unknown or duplicated, or the table has no rows or columns.
    """
    _reject_others(X)
    names = names_of_frame(X)
    if names is None:
        X = _array(X)
        return Table(X, list(X.T), None)
    for size, what in zip(X.shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required "
                f"by {owner}."
            )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"X has several columns with the name {_listed(twice)}. Rename or drop columns, so "
            "that each name occurs once."
        )
    if wanted is not None and all(isinstance(name, str) for name in names):
        X, names = _in_order(X, names, list(wanted), owner)
    is_pandas = hasattr(X, "iloc")
    columns = [X.iloc[:, k] if is_pandas else X[name] for k, name in enumerate(names)]
    return Table(X, columns, names)


def _in_order(X: Any, names: list[Any], wanted: list[Any], owner: str) -> tuple[Any, list[Any]]:
    """Return a data frame with its columns in the wanted order."""
    if names == wanted:
        return X, names
    lost = sorted(set(wanted) - set(names))
    extra = sorted(set(names) - set(wanted))
    if lost:
        hint = check.did_you_mean(lost[0], extra)
        way_out = f"{hint} Rename it." if hint else " Add the column; it may be empty."
        raise ValueError(
            f"X lacks the column {_listed(lost)}, which {owner} was fitted with.{way_out}"
        )
    if extra:
        raise ValueError(
            f"X has the column {_listed(extra)}, which {owner} was not fitted with. Drop it, or "
            "select the columns feature_names_in_."
        )
    return X[wanted], wanted


def _listed(names: Sequence[Any]) -> str:
    more = len(names) - MOST_COLUMNS
    return ", ".join(map(repr, names[:MOST_COLUMNS])) + (f" and {more} more" if more > 0 else "")


def _reject_others(X: Any) -> None:
    """Raise an error for paths, tables that are not in memory, and sparse matrices."""
    reject_path(X)
    if is_dask(X) or type(X).__name__ == "LazyFrame":
        raise TypeError(
            f"X is a lazy {type(X).__name__}, but TableEncoder reads tables in memory. Fit it to a "
            "sample, and encode each partition, as in frame.map_partitions(encoder.transform)."
        )
    if sparse.issparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required. TableEncoder is for tables "
            "with columns of different kinds; models take sparse matrices as they are."
        )
    if is_stream(X):
        raise TypeError(
            f"X is a {type(X).__name__}, which yields blocks of rows, but TableEncoder needs a "
            "data frame or an array. Fit it to one block, and encode each block by transform."
        )


def _array(X: Any) -> Any:
    """Return an array, or the rows of a list, as a checked array of two dimensions."""
    if isinstance(X, np.ma.MaskedArray):
        X = without_mask(X)
    if not hasattr(X, "dtype") and not hasattr(X, "__array__"):
        X = np.array(X, dtype=object)  # keep numbers apart from text
    return check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
