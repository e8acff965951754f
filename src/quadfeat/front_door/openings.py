"""The first block of a stream, which stands for the units of its columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from quadfeat.data.blocks import is_dask

Result = TypeVar("Result")


class Opening(ABC):
    """The first rows of a stream.

    Attributes
    ----------
    rows : iterable of blocks, or Dask collection
        What to fit the model to.
    """

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    @abstractmethod
    def of(self, function: Callable[[Any], Result]) -> Result:
        """Apply a function to the first rows, after a fit has validated all rows."""


class DaskOpening(Opening):
    """The first block of a Dask collection with rows. It stays on its worker."""

    def of(self, function: Callable[[Any], Result]) -> Result:
        from quadfeat.data.dask import of_first_block

        found: Result = of_first_block(function, self.rows)
        return found


class BlockOpening(Opening):
    """The first block of an iterable that can be read again."""

    def of(self, function: Callable[[Any], Result]) -> Result:
        return function(next(item[0] for item in self.rows if _has_rows(item)))


class PassingOpening(Opening):
    """The first block of an iterator, which is kept as it passes."""

    def of(self, function: Callable[[Any], Result]) -> Result:
        return function(self.rows.first[0])


class Passing:
    """Yields the blocks of an iterator, and keeps the first one with rows.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = Passing(iter([(np.ones((2, 1)), np.ones(2)), (np.zeros((2, 1)), np.zeros(2))]))
    >>> len(list(blocks)), blocks.first[1]
    (2, array([1., 1.]))
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self.items = items
        self.first: Any = None

    def __iter__(self) -> Passing:
        return self

    def __next__(self) -> Any:
        item = next(self.items)
        if self.first is None and _has_rows(item):
            self.first = item
        return item

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if the iterator knows it."""
        n_rows: int | None = getattr(self.items, "n_rows", None)
        return n_rows


def opening_of(X: Any) -> Opening:
    """Return the opening of a Dask collection or an iterable of blocks."""
    if is_dask(X):
        return DaskOpening(X)
    if iter(X) is X:
        return PassingOpening(Passing(X))
    return BlockOpening(X)


def _has_rows(item: Any) -> bool:
    """Return whether a block has rows. The fit rejects items that are no blocks."""
    return isinstance(item, tuple) and len(item) > 0 and bool(getattr(item[0], "shape", (1,))[0])
