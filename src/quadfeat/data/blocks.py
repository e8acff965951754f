"""Blocks of validated rows, and what kind of thing a user gives as rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from quadfeat._utils.validation import Float64Array


class Block(NamedTuple):
    """Rows that were validated, with their targets and weights."""

    X: Any
    y: Any
    weights: Float64Array | None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        n_rows: int = self.X.shape[0]
        return n_rows

    def part(self, rows: slice) -> Block:
        """Return some of the rows."""
        return Block(
            self.X[rows],
            None if self.y is None else self.y[rows],
            None if self.weights is None else self.weights[rows],
        )


def is_stream(X: Any) -> bool:
    """Return whether this is something that yields blocks, rather than a table."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and isinstance(X[0], tuple) and hasattr(next(iter(X[0]), None), "shape")
    tabular = hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__")
    return isinstance(X, Iterable) and not tabular and not isinstance(X, (str, bytes, dict))


def is_dask(X: Any) -> bool:
    """Return whether this is a collection of Dask's, without importing it."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
