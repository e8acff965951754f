"""Tables that come in blocks of rows: cut from arrays, or one after the other from anywhere."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sklearn.utils import gen_even_slices

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array

__all__ = ["ParquetBlocks"]


class Block(NamedTuple):
    """Rows that were validated, with their targets and weights."""

    X: Any
    y: Any
    weights: Float64Array | None

    def part(self, rows: slice) -> Block:
        """Return some of the rows."""
        return Block(
            self.X[rows], self.y[rows], None if self.weights is None else self.weights[rows]
        )


class Source:
    """Blocks of rows of at most a given size.

    Parameters
    ----------
    tables : iterable of Block
        Of any size.
    n_rows : int or None
        How many rows there are, if that is known.
    repeatable : bool
        Whether ``tables`` can be iterated over several times.
    """

    def __init__(self, tables: Iterable[Block], n_rows: int | None, *, repeatable: bool) -> None:
        self.tables = tables
        self.n_rows = n_rows
        self.repeatable = repeatable

    def first(self) -> Block:
        """Return the first table, which comes again with the blocks."""
        tables = iter(self.tables)
        try:
            first = next(tables)
        except StopIteration:
            raise ValueError("X yields no rows: give at least one block that has some.") from None
        if not self.repeatable:
            self.tables = itertools.chain([first], tables)
        return first

    def blocks(
        self, rows_per_block: int, n_done: int = 0, passed: Callable[[Block], Any] | None = None
    ) -> Iterator[Block]:
        """Yield the blocks behind the first ``n_done`` rows, which are handed to ``passed``."""
        seen = 0
        for table in self.tables:
            n_rows = table.X.shape[0]
            # Even ones, so that none is so small that it is not worth it.
            for rows in gen_even_slices(n_rows, max(1, -(-n_rows // rows_per_block))):
                # A table may have been cut elsewhere when those rows were done.
                cut = min(max(n_done - seen, rows.start), rows.stop)
                if cut > rows.start and passed is not None:
                    passed(table.part(slice(rows.start, cut)))
                if cut < rows.stop:
                    yield table.part(slice(cut, rows.stop))
            seen += n_rows
        if seen < n_done:
            raise ValueError(
                f"the data has {seen} rows, of which an earlier fit had used {n_done}: give the "
                "same data, or delete the checkpoint."
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


class Validated:
    """The items of an iterable as validated blocks.

    Parameters
    ----------
    items : iterable of tuples ``(X, y)`` or ``(X, y, sample_weight)``
    validate : callable
        Returns a Block for what is in such a tuple.
    """

    def __init__(self, items: Iterable[Any], validate: Callable[..., Block]) -> None:
        self.items = items
        self.validate = validate

    def __iter__(self) -> Iterator[Block]:
        for item in self.items:
            if not isinstance(item, tuple) or len(item) not in (2, 3):
                raise TypeError(
                    f"X yields {check.one_line(item)}: an iterable has to yield tuples (X, y) or "
                    "(X, y, sample_weight)."
                )
            if len(item[0]) if not hasattr(item[0], "shape") else item[0].shape[0]:
                yield self.validate(*item)


class ParquetBlocks:
    """The rows of a Parquet file or folder in blocks, for ``fit`` of a model.

    Parameters
    ----------
    path : str or path
        A file, or a folder of them.
    target : str or list of str
        The column, or columns, that the model is to predict.
    columns : list of str, default=None
        The columns of ``X``; by default all but the target and the weights.
    sample_weight : str, default=None
        The column of weights, if there is one.
    rows_per_block : int, default=65536
        How many rows are read at once.
    dtype : dtype, default="float32"
        Of ``X``.

    Examples
    --------
    >>> from quadfeat import QuadratureRidge, ParquetBlocks
    >>> model = QuadratureRidge()
    >>> model.fit(ParquetBlocks("flights.parquet", target="delay"))  # doctest: +SKIP
    """

    def __init__(
        self,
        path: Any,
        target: str | list[str],
        *,
        columns: list[str] | None = None,
        sample_weight: str | None = None,
        rows_per_block: int = 2**16,
        dtype: Any = "float32",
    ) -> None:
        self.path = os.fspath(path)
        self.target = target
        self.columns = columns
        self.sample_weight = sample_weight
        self.rows_per_block = check.check_count(rows_per_block, "rows_per_block")
        self.dtype = dtype

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            import pandas  # noqa: F401  # what Arrow makes tables of
            import pyarrow.dataset as dataset
        except ImportError as error:
            raise ImportError(
                f"ParquetBlocks needs {error.name}: pip install 'quadfeat[parquet]'."
            ) from error

        table = dataset.dataset(self.path, format="parquet")
        targets = [self.target] if isinstance(self.target, str) else list(self.target)
        extra = [] if self.sample_weight is None else [self.sample_weight]
        columns = self.columns
        if columns is None:
            # The index of a data frame is no column of it, though pandas writes it as one.
            index = (table.schema.pandas_metadata or {}).get("index_columns", [])
            others = {*targets, *extra, *(name for name in index if isinstance(name, str))}
            columns = [name for name in table.schema.names if name not in others]
        for name in (*targets, *extra, *columns):
            if name not in table.schema.names:
                raise ValueError(
                    f"{self.path!r} has no column {name!r}."
                    f"{check.did_you_mean(name, table.schema.names)} It has "
                    f"{', '.join(map(repr, table.schema.names))}."
                )
        for batch in table.to_batches(
            columns=[*columns, *targets, *extra], batch_size=self.rows_per_block
        ):
            frame = batch.to_pandas()
            X = frame[columns].astype(self.dtype)
            y = frame[self.target].to_numpy()
            yield (X, y) if not extra else (X, y, frame[self.sample_weight].to_numpy())
