"""Blocks of validated rows, and tests for streams and Dask collections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from quadfeat._utils.validation import Float64Array


class Block(NamedTuple):
    """Validated rows with their targets and weights."""

    X: Any
    y: Any
    weights: Float64Array | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        n_rows: int = self.X.shape[0]
        return n_rows

    def part(self, rows: Any) -> Block:
        """Return the rows that a slice or a mask selects."""
        return Block(
            self.X[rows],
            None if self.y is None else self.y[rows],
            None if self.weights is None else self.weights[rows],
        )


def is_stream(X: Any) -> bool:
    """Return whether ``X`` is an iterable of blocks rather than a table."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and isinstance(X[0], tuple) and hasattr(next(iter(X[0]), None), "shape")
    tabular = hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__")
    return isinstance(X, Iterable) and not tabular and not isinstance(X, (str, bytes, dict))


def is_dask(X: Any) -> bool:
    """Return whether ``X`` is a Dask collection, without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
