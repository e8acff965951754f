"""Blocks of validated rows, and a test for Dask collections."""

from __future__ import annotations

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


def is_dask(X: Any) -> bool:
    """Return whether ``X`` is a Dask collection, without importing Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")
