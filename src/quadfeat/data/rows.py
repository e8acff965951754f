"""Sources of rows that are read in blocks: one contract for arrays, streams and Dask.

Everything computed from rows is a reduction: a :class:`Task` adds blocks to a state, one after
another, and the results for parts of the rows are combined. The source decides where rows are read,
and whether parts are reduced in parallel.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import gen_even_slices

from quadfeat._utils import validation as check
from quadfeat.data.blocks import Block, is_dask, is_stream
from quadfeat.data.watch import Watch

# Validates rows, targets and weights as a user passes them, and returns a block. With
# ``part=True``, all weights may be zero.
Reader = Callable[..., Block]

Combine = Callable[[Any, Any], Any]


class Task(ABC):
    """A computation on rows, block by block.

    Tasks are immutable, and are pickled if rows are in other processes.
    """

    def begin(self, table: Block) -> Any:
        """Return the state before any row, for a table whose blocks will be added."""
        return None

    @abstractmethod
    def add(self, state: Any, block: Block) -> Any:
        """Return the state with a block added; the given state may be overwritten."""

    def result(self, state: Any) -> Any:
        """Return the result of the last state."""
        return state

    def rows_per_block(self, state: Any) -> int | None:
        """Return how many rows to add at once; None for whole tables."""
        return None

    def kept(self, state: Any) -> dict[str, Any]:
        """Return the entries that a checkpoint needs to resume from a state."""
        raise NotImplementedError

    def resumed(self, kept: dict[str, Any]) -> Any:
        """Return the state from the entries of a checkpoint."""
        raise NotImplementedError


@dataclass(frozen=True)
class PerBlock(Task):
    """Applies a function to each table and combines the results.

    Examples
    --------
    >>> import operator
    >>> import numpy as np
    >>> rows = ArrayRows(Block(np.ones((3, 2)), np.arange(3.0), None))
    >>> rows.reduce(PerBlock(lambda block: block.y.sum(), operator.add), operator.add)
    np.float64(3.0)
    """

    function: Callable[[Block], Any]
    combine: Combine

    def add(self, state: Any, block: Block) -> Any:
        found = self.function(block)
        return found if state is None else self.combine(state, found)


class Rows(ABC):
    """Rows with targets and weights.

    Attributes
    ----------
    n_rows : int or None
        Number of rows, if known.
    repeatable : bool
        Whether they can be read several times.
    dtype : dtype
        Of the rows.
    n_columns : int
        Number of columns of the rows.
    is_stream : bool
        Whether tables arrive one after another. A map is then fitted to the first of them.
    whole : Block or None
        All rows as one table, if they are in one.
    against_checkpoints : str or None
        Why a reduction cannot write checkpoints; None if it can.
    """

    is_stream: bool = False
    whole: Block | None = None
    against_checkpoints: str | None = None
    n_rows: int | None = None
    repeatable: bool = True
    dtype: Any
    n_columns: int

    @abstractmethod
    def reduce(self, task: Task, combine: Combine, watch: Watch | None = None) -> Any:
        """Run a task on all rows and return its result.

        Parameters
        ----------
        task : Task
        combine : callable
            Takes the results for two parts of the rows and returns the result for both.
        watch : Watch, default=None
            Shows progress and writes checkpoints.
        """

    @abstractmethod
    def changed(self, change: Callable[[Block], Block]) -> Rows:
        """Return these rows with a function applied to each block."""

    def opening(self) -> Rows:
        """Return the rows that a map is fitted to: all, or the first block of a stream."""
        return self

    def each(
        self, function: Callable[[Block], Any], combine: Combine, watch: Watch | None = None
    ) -> Any:
        """Apply a function to each table and combine the results; see :meth:`reduce`."""
        return self.reduce(PerBlock(function, combine), combine, watch)


class LocalRows(Rows):
    """Rows that this process reads, one table after another."""

    @abstractmethod
    def tables(self) -> Iterable[Block]:
        """Return the tables, which :meth:`blocks` cuts into blocks."""

    @abstractmethod
    def first(self) -> Block:
        """Return the first table; :meth:`tables` returns it too."""

    @property
    def dtype(self) -> Any:
        return self.first().X.dtype

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        n_columns: int = self.first().X.shape[1]
        return n_columns

    def reduce(self, task: Task, combine: Combine, watch: Watch | None = None) -> Any:
        watch = Watch() if watch is None else watch
        state = task.begin(self.first()) if watch.kept is None else task.resumed(watch.kept)
        watch.begin(self.n_rows, partial(task.kept, state))
        for block in self.blocks(task.rows_per_block(state), watch.n_done, watch.pass_over):
            watch.check_resumed()
            state = task.add(state, block)
            watch.add(block, partial(task.kept, state))
        watch.check_resumed()
        watch.finish()
        return task.result(state)

    def blocks(
        self,
        rows_per_block: int | None,
        n_done: int = 0,
        passed: Callable[[Block], Any] = lambda block: None,
    ) -> Iterator[Block]:
        """Yield the blocks after the first ``n_done`` rows, which are passed to ``passed``."""
        seen = 0
        for table in self.tables():
            n_rows = table.n_rows
            size = n_rows if rows_per_block is None else rows_per_block
            # Blocks of even size, so that none is too small to be efficient.
            for rows in gen_even_slices(n_rows, max(1, -(-n_rows // size))):
                # An earlier process may have cut the table at other rows.
                cut = min(max(n_done - seen, rows.start), rows.stop)
                if cut > rows.start:
                    passed(table.part(slice(rows.start, cut)))
                if cut < rows.stop:
                    whole = (cut, rows.stop) == (0, n_rows)
                    yield table if whole else table.part(slice(cut, rows.stop))
            seen += n_rows
        if seen < n_done:
            raise ValueError(
                f"the data has {seen} rows, of which an earlier fit had used {n_done}: give the "
                "same data, or delete the checkpoint."
            )


class ArrayRows(LocalRows):
    """The rows of one table: an array, a memory map or a CSR matrix."""

    def __init__(self, table: Block) -> None:
        self.whole: Block = table
        self.n_rows = table.n_rows

    def tables(self) -> Iterable[Block]:
        return [self.whole]

    def first(self) -> Block:
        return self.whole

    def changed(self, change: Callable[[Block], Block]) -> ArrayRows:
        return ArrayRows(change(self.whole))


class StreamRows(LocalRows):
    """The tables that an iterable yields.

    Parameters
    ----------
    items : iterable of tuples ``(X, y)`` or ``(X, y, sample_weight)``
    read : callable
        Validates the parts of such a tuple, and returns a Block.
    """

    is_stream = True

    def __init__(self, items: Iterable[Any], read: Reader) -> None:
        self.items = items
        self.read = read
        self.repeatable = iter(items) is not items
        self._first: Block | None = None
        self._rest: Iterator[Block] | None = None

    def tables(self) -> Iterator[Block]:
        if self.repeatable:
            return self._read()
        first, rest = self.first(), self._rest
        assert rest is not None
        return itertools.chain([first], rest)

    def first(self) -> Block:
        if self._first is None:
            rest = self._read()
            try:
                self._first = next(rest)
            except StopIteration:
                raise ValueError(
                    "X yields no rows: give at least one block that has some."
                ) from None
            self._rest = rest if not self.repeatable else None
        return self._first

    def opening(self) -> Rows:
        return ArrayRows(self.first())

    def changed(self, change: Callable[[Block], Block]) -> StreamRows:
        return StreamRows(self.items, lambda *item: change(self.read(*item)))

    def _read(self) -> Iterator[Block]:
        for item in self.items:
            if not isinstance(item, tuple) or len(item) not in (2, 3) or np.ndim(item[0]) == 0:
                raise TypeError(
                    f"X yields {check.one_line(item)}: an iterable has to yield tuples (X, y) or "
                    "(X, y, sample_weight)."
                )
            if len(item[0]) if not hasattr(item[0], "shape") else item[0].shape[0]:
                yield self.read(*item)


def rows_of(X: Any, y: Any, sample_weight: Any, read: Reader) -> Rows:
    """Return the source of rows for the data that a user passes.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection, or iterable of blocks
        Iterables are taken for blocks only without ``y``.
    y, sample_weight : array-like, Dask collection or None
    read : callable
        Validates rows, targets and weights.
    """
    if is_dask(X):
        from quadfeat.data.dask import DaskRows

        return DaskRows.of(X, y, sample_weight, read)
    if y is None and is_stream(X):
        if sample_weight is not None:
            raise ValueError(
                "sample_weight cannot be given beside an iterable of blocks: let it yield "
                "(X, y, sample_weight)."
            )
        return StreamRows(X, read)
    return ArrayRows(read(X, y, sample_weight))
