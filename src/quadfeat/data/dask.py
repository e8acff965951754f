"""Rows in Dask arrays and data frames, which the workers process.

A reduction sends a task of a few kilobytes to the workers that hold the blocks. It combines their
results in a tree and returns one result. If a worker dies, Dask computes its results again.
Predictions and features are lazy Dask arrays.

Any Dask scheduler works. Fitting a map takes one pass over the rows, and so does each step of
conjugate gradients: call ``X.persist()`` if rows are slow to read. Each running task needs
``8 * n_components ** 2`` bytes for a Gram matrix. Use Dask's progress bar or dashboard to follow a
fit.

Examples
--------
>>> import dask
>>> import dask.array as da
>>> from quadfeat import QuadratureRidge
>>> rng = da.random.default_rng(0)
>>> X = rng.uniform(-3, 3, (20_000, 2), chunks=(5000, 2))
>>> y = da.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(20_000, chunks=5000)
>>> with dask.config.set(scheduler="synchronous"):
...     model = QuadratureRidge("gaussian", n_components=256, random_state=0).fit(X, y)
...     error = (model.predict(X) - y).std().compute()
>>> round(float(error), 2)
0.1
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array
from quadfeat.data.blocks import Block, is_dask
from quadfeat.data.parcels import Parcel
from quadfeat.data.rows import ArrayRows, Combine, Reader, Rows, Task
from quadfeat.data.watch import Watch

# Number of results that one task combines.
FAN_IN = 8


@dataclass(frozen=True)
class DaskRows(Rows):
    """A Dask array or data frame, with targets and weights, in delayed blocks.

    Attributes
    ----------
    blocks : list of tuples
        Delayed rows, targets and weights.
    columns : array or data frame
        An empty table with the same columns.
    dtype : dtype
        The dtype of features.
    read : callable
        Validates a block.
    """

    blocks: list[tuple[Any, Any, Any]]
    columns: Any
    dtype: Any
    read: Reader
    against_checkpoints = "X is a Dask collection, and Dask recomputes lost results"

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any, read: Reader) -> DaskRows:
        """Return rows with targets and weights in matching blocks."""
        columns, dtype = columns_of(X), dtype_of(X)
        blocks = _delayed_blocks(X)
        others = [
            _matching_blocks(values, name, X, blocks)
            for name, values in (("y", y), ("sample_weight", sample_weight))
        ]
        return cls(list(zip(blocks, *others, strict=True)), columns, dtype, read)

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        n_columns: int = self.columns.shape[1]
        return n_columns

    def changed(self, change: Callable[[Block], Block]) -> DaskRows:
        return replace(self, read=functools.partial(_changed, self.read, change))

    def reduce(self, task: Task, combine: Combine, watch: Watch | None = None) -> Any:
        sent = dask.delayed(Parcel((self.read, task, combine)), traverse=False)
        reduce_block = dask.delayed(_reduced, pure=False)
        join = dask.delayed(_combined, pure=False)
        parts = [reduce_block(*block, sent) for block in self.blocks]
        while True:
            parts = [join(sent, parts[k : k + FAN_IN]) for k in range(0, len(parts), FAN_IN)]
            if len(parts) == 1:
                break
        found = dask.compute(parts[0])[0]
        if found is None:
            raise ValueError("X has no rows: pass at least one block with rows.")
        result, n_rows, has_weight = found
        if not has_weight:
            check.check_any_weight(0.0)
        if watch is not None:
            watch.finish(n_rows)
        return result


def _changed(read: Reader, change: Callable[[Block], Block], *given: Any, **options: Any) -> Block:
    return change(read(*given, **options))


def _reduced(X: Any, y: Any, weights: Any, parcel: Parcel) -> tuple[Any, int, bool] | None:
    """Return the result for a block, its number of rows, and whether a weight is positive.

    Return None for a block without rows.
    """
    n_rows = X.shape[0]
    for name, values in (("y", y), ("sample_weight", weights)):
        if np.ndim(values) > 0 and values.shape[0] != n_rows:
            raise ValueError(
                f"a block of X has {n_rows} rows, but the matching block of {name} has "
                f"{values.shape[0]}. Take both from one data frame, or pass arrays with equal "
                "chunks."
            )
    if n_rows == 0:
        return None
    read, task, combine = parcel.content
    result = ArrayRows(read(X, y, weights, part=True)).reduce(task, combine)
    return result, n_rows, weights is None or bool(np.any(weights))


def _combined(parcel: Parcel, parts: list[Any]) -> tuple[Any, int, bool] | None:
    """Combine the results of blocks; None stands for a block without rows."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    results, counts, have_weight = zip(*found, strict=True)
    return functools.reduce(parcel.content[2], results), sum(counts), any(have_weight)


def columns_of(X: Any) -> Any:
    """Return an empty table with the columns of a Dask collection."""
    if isinstance(X, da.Array):
        if X.ndim != 2 or np.isnan(X.shape[1]):
            raise ValueError(
                f"X has shape {X.shape}: pass a matrix with a known number of columns."
            )
        return np.empty((0, X.shape[1]))
    if not hasattr(type(X), "map_partitions") or X.ndim != 2:
        raise TypeError(f"X is a {type(X).__name__}: pass a Dask array or a Dask data frame.")
    return X._meta


def dtype_of(X: Any) -> Any:
    """Return the dtype of the features of a Dask collection."""
    dtypes = [X.dtype] if isinstance(X, da.Array) else list(X.dtypes)
    return np.dtype(np.float32 if all(one == np.float32 for one in dtypes) else np.float64)


def of_first_block(function: Callable[[Any], Any], X: Any) -> Any:
    """Return the result of a function for the first block with rows."""
    apply = dask.delayed(_unless_empty, pure=False)
    for block in _delayed_blocks(X):
        found = dask.compute(apply(function, block))[0]
        if found is not None:
            return found
    raise ValueError("X has no rows: pass at least one block with rows.")


def _unless_empty(function: Callable[[Any], Any], block: Any) -> Any:
    return function(block) if block.shape[0] else None


def _delayed_blocks(values: Any) -> list[Any]:
    """Return the blocks of rows as delayed objects."""
    if isinstance(values, da.Array):
        whole = values.rechunk({1: -1}) if values.ndim == 2 else values
        return list(whole.to_delayed().ravel())
    return list(values.to_delayed())


def _sizes(values: Any) -> tuple[int, ...] | None:
    """Return the number of rows of each block, if known."""
    if not isinstance(values, da.Array) or np.isnan(values.chunks[0]).any():
        return None
    return tuple(values.chunks[0])


def _matching_blocks(values: Any, name: str, X: Any, blocks: list[Any]) -> list[Any]:
    """Return targets or weights in blocks that match those of ``X``."""
    if values is None or np.ndim(values) == 0:
        return [values] * len(blocks)
    sizes = _sizes(X)
    if not is_dask(values):
        if sizes is None:
            sizes = dask.compute(*(dask.delayed(len)(block) for block in blocks))
        values = np.asarray(values)
        _check_lengths(sizes, len(values), name)
        parts = np.split(values, np.cumsum(sizes)[:-1])
        return [dask.delayed(part, traverse=False) for part in parts]
    others = _sizes(values)
    if sizes is not None and others is not None:
        _check_lengths(sizes, sum(others), name)
        values = values.rechunk({0: sizes})
    found = _delayed_blocks(values)
    if len(found) != len(blocks):
        raise ValueError(
            f"X has {len(blocks)} blocks, {name} has {len(found)}, and their sizes are not known. "
            "Take both from one data frame, or compute the sizes: compute_chunk_sizes() of an "
            "array, to_dask_array(lengths=True) of a data frame."
        )
    return found


def _check_lengths(sizes: tuple[int, ...], n_rows: int, name: str) -> None:
    if sum(sizes) != n_rows:
        raise ValueError(
            f"X has {sum(sizes)} rows, but {name} has {n_rows}: pass one value for each row of X."
        )


def map_blocks(
    function: Callable[[Any, Any], Any], content: Any, X: Any, shape: tuple[int, ...], dtype: Any
) -> Any:
    """Apply a function to each block of rows and return a lazy Dask array.

    Parameters
    ----------
    function : callable
        Takes ``content`` and a block of rows; returns an array with a result for each row.
    content : object
        Sent to the workers in a :class:`~quadfeat.data.parcels.Parcel`.
    X : Dask array or data frame
    shape : tuple of int
        Shape of the result for one row.
    dtype : dtype
        Dtype of the result; None means the dtype of the rows.
    """
    meta: Array = np.empty((0, *shape), dtype=dtype_of(X) if dtype is None else dtype)
    task = functools.partial(_of_rows, function, meta)
    sent = dask.delayed(Parcel(content), traverse=False)
    if not isinstance(X, da.Array):
        # Some versions of map_partitions do not compute delayed arguments.
        delayed = dask.delayed(task, pure=False)
        parts = [
            da.from_delayed(delayed(block, sent), (np.nan, *shape), meta=meta)
            for block in _delayed_blocks(X)
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)
    X = X.rechunk({1: -1})
    axes: dict[str, Any] = {"drop_axis": 1}
    if shape:
        chunks = (X.chunks[0], *((size,) for size in shape))
        axes = {"chunks": chunks, "new_axis": list(range(2, len(chunks)))}
    return X.map_blocks(task, sent, dtype=meta.dtype, meta=meta, **axes)


def _of_rows(function: Callable[[Any, Any], Any], empty: Array, X: Any, parcel: Parcel) -> Array:
    """Return the result for a block, which may have no rows."""
    if X.shape[0] == 0:
        return empty
    return np.asarray(function(parcel.content, X)).astype(empty.dtype, copy=False)
