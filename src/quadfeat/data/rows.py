"""Sources of rows: one interface for arrays, streams and Dask collections.

Every computation on rows is a reduction: a :class:`Task` adds blocks to a state, one after another,
and the results for parts of the rows are combined. The source decides where rows are read, and
whether parts are reduced in parallel.
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
from quadfeat._utils.columns import is_stream, reject_path
from quadfeat.data.blocks import Block, is_dask
from quadfeat.data.interrupts import Held
from quadfeat.data.watch import Watch

# Validates the rows, targets and weights that a user passes, and returns a block. With
# ``part=True``, all weights may be zero.
Reader = Callable[..., Block]

Combine = Callable[[Any, Any], Any]


class Task(ABC):
    """A computation on rows, block by block.

    Tasks are immutable. They are pickled and sent if other processes hold the rows.
    """

    def begin(self, table: Block) -> Any:
        """Return the initial state; ``table`` is the first table of rows."""
        return None

    @abstractmethod
    def add(self, state: Any, block: Block) -> Any:
        """Add a block and return the new state; the old state may be overwritten."""

    def result(self, state: Any) -> Any:
        """Return the result, given the final state."""
        return state

    def rows_per_block(self, state: Any) -> int | None:
        """Return how many rows to add at once; None means whole tables."""
        return None

    def kept(self, state: Any) -> dict[str, Any]:
        """Return the entries of a checkpoint for a state."""
        raise NotImplementedError

    def resumed(self, kept: dict[str, Any]) -> Any:
        """Return the state for the entries of a checkpoint."""
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
        Whether the rows can be read several times.
    dtype : dtype
        Dtype of the rows.
    n_columns : int
        Number of columns of the rows.
    is_stream : bool
        Whether tables arrive one after another. A map is then fitted to the first table.
    whole : Block or None
        All rows, if they are in one table.
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
        """Return the rows to fit a map to: all rows, or the first table of a stream."""
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
        """Return the tables; :meth:`blocks` splits them into blocks."""

    @abstractmethod
    def first(self) -> Block:
        """Return the first table, which :meth:`tables` also returns."""

    @property
    def expected_rows(self) -> int | None:
        """Number of rows to show as the total, if known."""
        return self.n_rows

    @property
    def dtype(self) -> Any:
        return self.first().X.dtype

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        n_columns: int = self.first().X.shape[1]
        return n_columns

    def reduce(self, task: Task, combine: Combine, watch: Watch | None = None) -> Any:
        is_fit = watch is not None
        watch = Watch() if watch is None else watch
        state = task.begin(self.first()) if watch.kept is None else task.resumed(watch.kept)
        watch.begin(self.expected_rows, partial(task.kept, state))
        held = Held(watch.keeps_state)
        try:
            for block in self.blocks(task.rows_per_block(state), watch.n_done, watch.pass_over):
                watch.check_resumed()
                with held:
                    state = task.add(state, block)
                    watch.add(block, partial(task.kept, state))
        except KeyboardInterrupt as interrupt:
            if held.is_whole:
                watch.keep_interrupted(partial(task.kept, state), interrupt)
            if self.is_stream and is_fit:
                watch.explain_loss(interrupt)
            raise
        watch.check_resumed()
        watch.finish()
        return task.result(state)

    def blocks(
        self,
        rows_per_block: int | None,
        n_done: int = 0,
        passed: Callable[[Block], Any] = lambda block: None,
    ) -> Iterator[Block]:
        """Yield the blocks after the first ``n_done`` rows; call ``passed`` with earlier ones."""
        seen = 0
        for table in self.tables():
            n_rows = table.n_rows
            size = n_rows if rows_per_block is None else rows_per_block
            # Blocks of nearly equal size: a small last block would be inefficient.
            for rows in gen_even_slices(n_rows, max(1, -(-n_rows // size))):
                # An earlier process may have split the table at other rows.
                cut = min(max(n_done - seen, rows.start), rows.stop)
                if cut > rows.start:
                    passed(table.part(slice(rows.start, cut)))
                if cut < rows.stop:
                    whole = (cut, rows.stop) == (0, n_rows)
                    yield table if whole else table.part(slice(cut, rows.stop))
            seen += n_rows
        if seen < n_done:
            raise ValueError(
                f"the data has {seen} rows, but the checkpoint is from a fit that has read "
                f"{n_done}. Pass the same data, or delete the checkpoint."
            )


class ArrayRows(LocalRows):
    """Rows in one table: an array, a memory map or a CSR matrix."""

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
    """Rows in the tables that an iterable yields.

    Parameters
    ----------
    items : iterable of tuples ``(X, y)`` or ``(X, y, sample_weight)``
        An attribute ``n_rows``, if there is one, is shown as the total number of rows.
    read : callable
        Validates the parts of such a tuple and returns a Block.
    """

    is_stream = True

    def __init__(self, items: Iterable[Any], read: Reader) -> None:
        self.items = items
        self.read = read
        self.repeatable = iter(items) is not items
        self._first: Block | None = None
        self._rest: Iterator[Block] | None = None

    @property
    def expected_rows(self) -> int | None:
        return getattr(self.items, "n_rows", None)

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
                raise ValueError("X yields no rows: pass at least one block with rows.") from None
            self._rest = rest if not self.repeatable else None
        return self._first

    def opening(self) -> Rows:
        return ArrayRows(self.first())

    def changed(self, change: Callable[[Block], Block]) -> StreamRows:
        return StreamRows(self.items, lambda *item: change(self.read(*item)))

    def _read(self) -> Iterator[Block]:
        for item in self.items:
            if not isinstance(item, tuple) or len(item) not in (2, 3) or np.ndim(item[0]) == 0:
                shape = getattr(item, "shape", None)
                shown = f"{type(item).__name__} of shape {shape}" if shape else check.one_line(item)
                raise TypeError(
                    f"X yields {shown}: an iterable must yield tuples (X, y) or "
                    "(X, y, sample_weight). ParquetBlocks does if it has a target."
                )
            if len(item[0]) if not hasattr(item[0], "shape") else item[0].shape[0]:
                yield self.read(*item)


def rows_of(X: Any, y: Any, sample_weight: Any, read: Reader) -> Rows:
    """Return the source of rows for the data that a user passes.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection, or iterable of blocks
        An iterable of blocks is accepted only if ``y`` is None.
    y, sample_weight : array-like, Dask collection or None
    read : callable
        Validates rows, targets and weights.
    """
    reject_path(X)
    if is_dask(X):
        from quadfeat.data.dask import DaskRows

        return DaskRows.of(X, y, sample_weight, read)
    if y is None and is_stream(X):
        if sample_weight is not None:
            raise ValueError(
                "sample_weight cannot be passed with an iterable of blocks: let the iterable yield "
                "(X, y, sample_weight)."
            )
        return StreamRows(X, read)
    return ArrayRows(read(X, y, sample_weight))
