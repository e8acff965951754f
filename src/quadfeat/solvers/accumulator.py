"""Accumulate the moments of features and targets, one block of rows at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import blas
from sklearn.utils import gen_batches

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine.threads import n_threads, one_blas_thread
from quadfeat.maps.base import ENTRIES_PER_CAST, FeatureMap, of_usual_size
from quadfeat.solvers.moments import COLUMNS_PER_PANEL, Moments, probe

# Size in bytes of a block of features, and its minimum and maximum number of rows. Products of
# fewer rows are slow; more rows do not make them faster.
BYTES_PER_BLOCK = 2**26
ROWS_PER_BLOCK = (256, 8192)

# Blocks with fewer rows are always multiplied in float64, since that takes little time. So are
# blocks with weights whose square roots are too large or too small for float32.
FEW_ROWS = 512

# Center features before multiplying in float32 if their squared means exceed this fraction of their
# mean squares. Rounding errors are then relative to the variance, which is small for a wide kernel.
# ROWS_PER_MEAN rows estimate the means well enough.
CENTERED_FROM = 0.25
ROWS_PER_MEAN = 64

# Number of rows that a thread multiplies by targets before it takes others. It does not depend on
# the number of threads, so that sums do not either.
ROWS_PER_PART = 256


def rows_per_block(n_columns: int, dtype: Any) -> int:
    """Return the number of rows to multiply at once."""
    rows = BYTES_PER_BLOCK // (n_columns * np.dtype(dtype).itemsize)
    return int(np.clip(rows, *ROWS_PER_BLOCK))


class Accumulator:
    """Adds blocks of rows to moments and reuses its buffers.

    Parameters
    ----------
    features : FeatureMap
    moments : Moments
        The initial moments. Their array is overwritten.
    dtype : dtype
        The dtype of products within a block. Blocks are added in float64.
    """

    def __init__(self, features: FeatureMap, moments: Moments, dtype: Any) -> None:
        self.features = features
        self.moments = moments
        self.dtype = np.dtype(dtype)
        self._buffers: dict[tuple[str, Any], Array] = {}

    def add(self, X: Any, Y: Float64Array, weights: Float64Array | None) -> None:
        """Add validated rows, at most ``rows_per_block`` of them."""
        n_rows = X.shape[0]
        if n_rows == 0:
            return
        moments = self._shifted_for(Y, weights)
        d = moments.n_components
        # Only the Gram matrix is worth computing in float32. All other products are in float64.
        targets = np.ones((n_rows, moments.n_outputs + 1))
        np.subtract(Y, moments.shift, out=targets[:, :-1])
        roots = None if weights is None else np.sqrt(weights)[:, None]
        if roots is not None:
            targets *= roots
        single = n_rows >= FEW_ROWS and (roots is None or bool(of_usual_size(roots.max())))
        dtype = self.dtype if single else np.dtype(np.float64)
        block = self._buffer("block", (n_rows, d), dtype)
        means = self._means_to_subtract(X) if dtype == np.float32 else None
        borders = self._write_block(X, block, targets, roots, means)
        self._add_products(block)
        products = moments.products
        products[:d, d:] += borders[:, :-1]
        products[d:, d:] += np.triu(targets.T @ targets)
        if means is not None:
            self._add_means(means, borders[:, -2], float(targets[:, -1] @ targets[:, -1]))
        self.moments = replace(
            moments, n_rows=moments.n_rows + n_rows, control=moments.control + borders[:, -1]
        )

    def _shifted_for(self, Y: Float64Array, weights: Float64Array | None) -> Moments:
        """Return the moments with a shift that also suits these targets."""
        moments = self.moments
        targets = Y - moments.shift
        counts = np.ones(len(Y)) if weights is None else weights
        weight = float(counts.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            means = counts @ targets / (weight or 1.0)
            squares = counts @ (targets - means) ** 2
        shift = moments.joint_shift(means, squares, weight)
        return moments if shift is moments.shift else moments.shift_in_place(shift)

    def _means_to_subtract(self, X: Any) -> Array | None:
        """Return approximate means of the features, or None if they are too small to matter."""
        some = self.features.columns(X[:: -(-X.shape[0] // ROWS_PER_MEAN)])
        means: Array = some.mean(axis=0)
        squares = np.einsum("ij,ij->", some, some, dtype=np.float64) / len(some)
        return means if means @ means > CENTERED_FROM * squares else None

    def _write_block(
        self,
        X: Any,
        block: Array,
        targets: Float64Array,
        roots: Float64Array | None,
        means: Array | None,
    ) -> Float64Array:
        """Write weighted features minus their means, and return their products with the targets.

        Features are computed in the dtype of the rows. They are multiplied by the targets in
        float64 before they are rounded to the dtype of the block. The last column of the result is
        the contribution of these rows to ``Moments.control``.
        """
        n_rows, d = block.shape
        in_place = X.dtype == block.dtype
        size = max(1, ENTRIES_PER_CAST // d)

        def multiply(first: int, made: Array) -> Float64Array:
            """Process the rows from ``first`` on, whose features are in ``made``."""
            borders = np.zeros((d, targets.shape[1] + 1))
            precise = np.empty((min(size, len(made)), d))
            for start in range(0, len(made), size):
                some = made[start : start + size]
                rows = slice(first + start, first + start + len(some))
                exact = precise[: len(some)]
                exact[:] = some
                if roots is not None:
                    exact *= roots[rows]
                borders += exact.T @ np.column_stack([targets[rows], exact @ probe(d)])
                if not in_place or roots is not None:
                    if means is not None:
                        exact -= means if roots is None else roots[rows] * means
                    block[rows] = exact
                elif means is not None:
                    some -= means
            return borders

        threads = n_threads(self.features.n_jobs, block.size)
        borders = np.zeros((d, targets.shape[1] + 1))
        for rows in gen_batches(n_rows, n_rows if in_place else threads * ROWS_PER_PART):
            count = rows.stop - rows.start
            made = block if in_place else self._buffer("made", (count, d), X.dtype)
            self.features.write(X[rows], made)
            parts = gen_batches(count, ROWS_PER_PART)
            work = [(multiply, rows.start + part.start, made[part]) for part in parts]
            for found in in_threads(work, threads):
                borders += found
        return borders

    def _add_products(self, block: Array) -> None:
        """Add the Gram matrix of a block."""
        products, d = self.moments.products, self.moments.n_components
        multiply = blas.ssyrk if block.dtype == np.float32 else blas.dsyrk
        result = self._buffer("products", (d, d), block.dtype, order="F")
        # In Fortran order, block.T needs no copy. The result is the upper triangle.
        found = multiply(1.0, block.T, beta=0.0, c=result, overwrite_c=1)
        assert np.shares_memory(found, result)  # BLAS must not allocate a copy

        def add(panel: slice) -> None:
            products[: panel.stop, panel] += result[: panel.stop, panel]

        work = [(add, panel) for panel in gen_batches(d, COLUMNS_PER_PANEL)]
        in_threads(work, n_threads(self.features.n_jobs, result.size))

    def _add_means(self, means: Array, sums: Float64Array, weight: float) -> None:
        """Undo the centering of the Gram matrix of a block.

        For the means ``m`` that were subtracted, the sums ``s`` of the features and the weight
        ``w`` of the rows, add ``m s' + s m' - w m m'``.
        """
        products, d = self.moments.products, self.moments.n_components
        width = len(products)
        left, right = np.zeros(width), np.zeros(width)
        left[:d] = means
        right[:d] = sums - weight / 2.0 * left[:d]
        found = blas.dsyr2(1.0, left, right, a=products, overwrite_a=1)
        assert np.shares_memory(found, products)

    def _buffer(self, name: str, shape: tuple[int, int], dtype: Any, order: Any = "C") -> Array:
        """Return an array of this shape that is a view of a reused buffer."""
        size = shape[0] * shape[1]
        kept = self._buffers.get((name, dtype))
        if kept is None or kept.size < size:
            # Initialize, since BLAS writes only one triangle of a symmetric matrix.
            kept = self._buffers[name, dtype] = np.zeros(size, dtype=dtype)
        return kept[:size].reshape(shape, order=order)


def in_threads(work: list[Any], threads: int) -> list[Any]:
    """Call functions, given as tuples with their arguments, and return the results in order.

    Each call uses one thread of BLAS, so results do not depend on the number of threads.
    """
    with one_blas_thread():
        if threads == 1:
            return [function(*arguments) for function, *arguments in work]
        calls = [delayed(function)(*arguments) for function, *arguments in work]
        return list(Parallel(n_jobs=threads, backend="threading")(calls))
