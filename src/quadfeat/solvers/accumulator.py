"""Sums of products of features, computed one block of rows at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.maps.base import FeatureMap, of_usual_size
from quadfeat.solvers.moments import Moments, probe

# Size in bytes of a block of features, and the fewest and most rows in it. Products of fewer rows
# are slow; more rows do not make them faster.
BYTES_PER_BLOCK = 2**26
ROWS_PER_BLOCK = (256, 8192)

# Blocks of fewer rows are multiplied in float64 in any case, since their products take little time.
# So are rows whose weights have roots of unusual size.
FEW_ROWS = 512

# Features are centered before products in float32 if their squared means are more than this part of
# their mean squares. Rounding is then relative to the variation, which is small for a wide kernel.
# This many rows estimate the means well enough.
CENTERED_FROM = 0.25
ROWS_PER_MEAN = 64

# Number of rows whose features are in float64 at once.
ROWS_PER_CAST = 256


def rows_per_block(n_columns: int, dtype: Any) -> int:
    """Return how many rows to multiply at once."""
    rows = BYTES_PER_BLOCK // (n_columns * np.dtype(dtype).itemsize)
    return int(np.clip(rows, *ROWS_PER_BLOCK))


class Accumulator:
    """Adds blocks of rows to moments, with reused buffers.

    Parameters
    ----------
    features : FeatureMap
    moments : Moments
        The initial moments. Their array is overwritten.
    dtype : dtype
        Of products within a block. Blocks are added in float64.
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
        # All products except those of features with each other are in float64, which costs little.
        targets = np.ones((n_rows, moments.n_outputs + 1))
        np.subtract(Y, moments.shift, out=targets[:, :-1])
        roots = None if weights is None else np.sqrt(weights)[:, None]
        if roots is not None:
            targets *= roots
        single = n_rows >= FEW_ROWS and (roots is None or bool(of_usual_size(roots.max())))
        dtype = self.dtype if single else np.dtype(np.float64)
        block = self._buffer("block", (n_rows, d), dtype)
        means = self._means_to_leave_out(X) if dtype == np.float32 else None
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
        """Return the moments with a shift that suits these targets too."""
        moments = self.moments
        targets = Y - moments.shift
        counts = np.ones(len(Y)) if weights is None else weights
        weight = float(counts.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            means = counts @ targets / (weight or 1.0)
            squares = counts @ (targets - means) ** 2
        shift = moments.joint_shift(means, squares, weight)
        return moments if shift is moments.shift else moments.shift_in_place(shift)

    def _means_to_leave_out(self, X: Any) -> Array | None:
        """Return approximate means of the features, if they are large enough to subtract."""
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
        """Write weighted features minus their means, and return products with the targets.

        Features are computed in the dtype of the rows, and multiplied by the targets in float64
        before they are rounded to the dtype of the block. The last column of the result is the part
        of these rows in ``Moments.control``.
        """
        n_rows, d = block.shape
        right = np.empty((n_rows, targets.shape[1] + 1))
        right[:, :-1] = targets
        borders = np.zeros((d, right.shape[1]))
        size = min(ROWS_PER_CAST, n_rows)
        in_place = X.dtype == block.dtype
        if in_place:
            self.features.write(X, block)
        else:
            made = self._buffer("made", (size, d), X.dtype)
        precise = self._buffer("precise", (size, d), np.dtype(np.float64))
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            exact = precise[: rows.stop - start]
            if in_place:
                exact[:] = block[rows]
            else:
                self.features.write(X[rows], made[: rows.stop - start])
                exact[:] = made[: rows.stop - start]
            if roots is not None:
                exact *= roots[rows]
            np.matmul(exact, probe(d), out=right[rows, -1])
            borders += exact.T @ right[rows]
            if means is not None:
                exact -= means if roots is None else roots[rows] * means
            if not in_place or roots is not None or means is not None:
                block[rows] = exact
        return borders

    def _add_products(self, block: Array) -> None:
        """Add the products of the features of a block."""
        products, d = self.moments.products, self.moments.n_components
        multiply = blas.ssyrk if block.dtype == np.float32 else blas.dsyrk
        result = self._buffer("products", (d, d), block.dtype, order="F")
        # Fortran reads the transpose as the matrix, and writes the upper triangle.
        found = multiply(1.0, block.T, beta=0.0, c=result, overwrite_c=1)
        assert np.shares_memory(found, result)  # a copy would double the memory
        products[:d, :d] += result

    def _add_means(self, means: Array, sums: Float64Array, weight: float) -> None:
        """Correct the products of features from which the means ``m`` were subtracted.

        With the sums ``s`` of the features and the weight ``w`` of the rows, the correction is
        ``m s' + s m' - w m m'``.
        """
        products, d = self.moments.products, self.moments.n_components
        width = len(products)
        left, right = np.zeros(width), np.zeros(width)
        left[:d] = means
        right[:d] = sums - weight / 2.0 * left[:d]
        found = blas.dsyr2(1.0, left, right, a=products, overwrite_a=1)
        assert np.shares_memory(found, products)

    def _buffer(self, name: str, shape: tuple[int, int], dtype: Any, order: Any = "C") -> Array:
        """Return an array of this shape, a part of a larger buffer that is reused."""
        size = shape[0] * shape[1]
        kept = self._buffers.get((name, dtype))
        if kept is None or kept.size < size:
            # Zeros, since only one triangle of a symmetric matrix is written.
            kept = self._buffers[name, dtype] = np.zeros(size, dtype=dtype)
        return kept[:size].reshape(shape, order=order)
