"""Sources of rows that are read in blocks: one contract for arrays, streams and Dask.

All that is computed from rows is a reduction: a :class:`Task` adds blocks to a state, one after the
other, and the results for parts of the rows are combined. Where the rows are, and whether parts are
reduced at the same time, is the affair of the source.
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

# Returns the validated block of rows, targets and weights as a user gives them. With ``part=True``,
# all weights may be zero.
Reader = Callable[..., Block]

Combine = Callable[[Any, Any], Any]


class Task(ABC):
    """Something that is computed from rows, block by block.

    Tasks are immutable, and are pickled where rows are in other processes.
    """

    def begin(self, table: Block) -> Any:
        """Return the state of no rows, for a table whose blocks are going to be added."""
        return None

    @abstractmethod
    def add(self, state: Any, block: Block) -> Any:
        """Return a state with more rows; the given one may be written on."""

    def result(self, state: Any) -> Any:
        """Return what the state has come to."""
        return state

    def rows_per_block(self, state: Any) -> int | None:
        """Return how many rows to add at once; None for whole tables."""
        return None

    def kept(self, state: Any) -> dict[str, Any]:
        """Return what a checkpoint has to keep to go on from a state."""
        raise NotImplementedError

    def resumed(self, kept: dict[str, Any]) -> Any:
        """Return the state that a checkpoint has kept."""
        raise NotImplementedError


@dataclass(frozen=True)
class PerBlock(Task):
    """A function of each table, with results that are combined.

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
        How many there are, if that is known.
    repeatable : bool
        Whether they can be read several times.
    dtype : dtype
        Of the rows.
    n_columns : int
        Of the rows.
    is_stream : bool
        Whether tables come one after the other, and the first of them has to do for what depends
        on the data.
    whole : Block or None
        All rows as one table, if they are here.
    against_checkpoints : str or None
        Why a reduction keeps no checkpoints, if it does not.
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
        """Return what a task makes of all rows.

        Parameters
        ----------
        task : Task
        combine : callable
            Returns the result for two parts of the rows from those of each.
        watch : Watch, default=None
            Shows progress and keeps checkpoints.
        """

    @abstractmethod
    def changed(self, change: Callable[[Block], Block]) -> Rows:
        """Return these rows with a function of each block in its place."""

    def opening(self) -> Rows:
        """Return the rows that decide about a map: all of them, or the first block of a stream."""
        return self

    def each(
        self, function: Callable[[Block], Any], combine: Combine, watch: Watch | None = None
    ) -> Any:
        """Return a function of each table, combined; see :meth:`reduce`."""
        return self.reduce(PerBlock(function, combine), combine, watch)


class LocalRows(Rows):
    """Rows that are read here, one table after the other."""

    @abstractmethod
    def tables(self) -> Iterable[Block]:
        """Return the tables, cut into blocks by :meth:`blocks`."""

    @abstractmethod
    def first(self) -> Block:
        """Return the first table, which comes again with the others."""

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
        """Yield the blocks behind the first ``n_done`` rows, which are handed to ``passed``."""
        seen = 0
        for table in self.tables():
            n_rows = table.n_rows
            size = n_rows if rows_per_block is None else rows_per_block
            # Even ones, so that none is so small that it is not worth it.
            for rows in gen_even_slices(n_rows, max(1, -(-n_rows // size))):
                # A table may have been cut elsewhere when those rows were done.
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
    """Tables that something iterable yields.

    Parameters
    ----------
    items : iterable of tuples ``(X, y)`` or ``(X, y, sample_weight)``
    read : callable
        Returns a Block for what is in such a tuple.
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
    """Return the rows that a user has given, whatever they are in.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection, or iterable of blocks
        An iterable of blocks is one only without ``y``.
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
