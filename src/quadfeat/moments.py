r"""What a ridge model has to know of its rows: the second moments of features and targets.

With features :math:`Z`, targets :math:`Y` and weights :math:`w` these are the products of the
columns of :math:`[Z, Y, 1]`, weighted: the normal equations, with or without an intercept, and the
sums of squares. They are sums over rows, so that those of two tables add up to those of both, in
any order, and their size does not depend on the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import blas

from quadfeat._validation import Array, Float64Array
from quadfeat.features import QuadratureFeatures
from quadfeat.products import of_usual_size

# Bytes of the block of features that is multiplied at once, and of rows in it at least and at most:
# fewer make slow products, more do not make them faster.
BYTES_PER_BLOCK = 2**26
ROWS_PER_BLOCK = (256, 8192)

# Blocks of fewer rows are multiplied in float64 in any case. Of their time the product is not much.
# So are targets and roots of weights of unusual size.
FEW_ROWS = 512

# Features whose means have this part of their squares are centred before products in float32, which
# round what is left instead: of a wide kernel, whose features hardly vary, next to nothing. So many
# rows tell the means well enough.
CENTRED_FROM = 0.25
ROWS_PER_MEAN = 64

# Rows whose features are made at once where they have to be cast.
ROWS_PER_CAST = 256


@dataclass(frozen=True)
class Moments:
    """Second moments of rows.

    Attributes
    ----------
    products : array of shape (n_components + n_outputs + 1,) * 2
        Products of the columns of features, targets and ones. Of the symmetric matrix only the
        upper triangle; in Fortran order.
    shift : array of shape (n_outputs,)
        What was subtracted from the targets, so that large ones do not cancel.
    n_rows : int
    """

    products: Float64Array
    shift: Float64Array
    n_rows: int

    @classmethod
    def empty(cls, n_components: int, shift: Float64Array) -> Moments:
        """Return the moments of no rows."""
        width = n_components + len(shift) + 1
        return cls(np.zeros((width, width), order="F"), shift, 0)

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.shift)

    @property
    def n_components(self) -> int:
        """Number of features."""
        return len(self.products) - self.n_outputs - 1

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.products[-1, -1])

    def _borders(self, transform: Float64Array) -> tuple[Float64Array, Float64Array]:
        """Return the products of features and targets ``[Y, 1] @ transform``, and of targets.

        Both with a last column for ones.
        """
        d = self.n_components
        whole = np.zeros((self.n_outputs + 1, transform.shape[1] + 1))
        whole[:, :-1], whole[-1, -1] = transform, 1.0
        corner = np.triu(self.products[d:, d:])
        corner += np.triu(corner, 1).T
        right = np.einsum("ij,jk->ik", self.products[:d, d:], whole)
        return right, np.einsum("ji,jk,kl->il", whole, corner, whole)

    def with_outputs(self, transform: Float64Array, shift: Float64Array) -> Moments:
        """Return the moments for targets ``[Y, 1] @ transform``, that is linear ones of these.

        Parameters
        ----------
        transform : array of shape (n_outputs + 1, n_new_outputs)
        shift : array of shape (n_new_outputs,)
            What the new targets are said to be shifted by.
        """
        d = self.n_components
        products = np.zeros((d + len(shift) + 1,) * 2, order="F")
        products[:d, :d] = self.products[:d, :d]
        products[:d, d:], corner = self._borders(transform)
        products[d:, d:] = np.triu(corner)
        return Moments(products, shift, self.n_rows)

    def shifted(self, shift: Float64Array) -> Moments:
        """Return the same moments with other numbers subtracted from the targets."""
        if np.array_equal(shift, self.shift):
            return self
        return self.with_outputs(np.vstack([np.eye(self.n_outputs), self.shift - shift]), shift)

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        if other.products.shape != self.products.shape:
            raise ValueError(
                f"the moments of {self.n_components} features and {self.n_outputs} targets cannot "
                f"be added to those of {other.n_components} and {other.n_outputs}: fit both models "
                "to the same columns and targets."
            )
        products = self.products + other.shifted(self.shift).products
        return replace(self, products=products, n_rows=self.n_rows + other.n_rows)

    def normal_equations(
        self, *, intercept: bool, transform: Float64Array | None = None
    ) -> NormalEquations:
        """Return the normal equations, of centred features and targets for an intercept.

        Parameters
        ----------
        intercept : bool
        transform : array of shape (n_outputs + 1, n_new_outputs), default=None
            Targets are ``[Y, 1] @ transform``; by default those that were given.
        """
        if transform is None:
            transform = np.vstack([np.eye(self.n_outputs), self.shift])
        d = self.n_components
        sides = Sides.of(*self._borders(transform), intercept=intercept)
        matrix = np.array(self.products[:d, :d], order="F")
        if intercept:
            matrix = blas.dsyr(-sides.weight, sides.feature_means, a=matrix, overwrite_a=1)
        return NormalEquations(**vars(sides), matrix=matrix)


@dataclass(frozen=True)
class Sides:
    """Ridge regression with all rows summed up, but for the matrix of products of features.

    Attributes
    ----------
    right : array of shape (n_components, n_outputs)
    squares : array of shape (n_outputs,)
        Sums of squares of the targets, about the mean if there is an intercept.
    weight : float
    feature_means : array of shape (n_components,)
        Zeros without an intercept.
    target_means : array of shape (n_outputs,)
        The intercept where all features are at their means.
    intercept : bool
        Whether features and targets are centred.
    """

    right: Float64Array
    squares: Float64Array
    weight: float
    feature_means: Float64Array
    target_means: Float64Array
    intercept: bool

    @classmethod
    def of(cls, borders: Float64Array, corner: Float64Array, *, intercept: bool) -> Sides:
        """Centre for an intercept.

        Parameters
        ----------
        borders, corner : array
            Products of features and targets, and of targets with each other; a column of ones is
            the last of the targets.
        intercept : bool
        """
        right, sums, weight = borders[:, :-1], borders[:, -1], float(corner[-1, -1])
        if weight == 0:
            raise ValueError("all rows have weight 0: give a positive weight to at least one.")
        squares, target_sums = np.diagonal(corner)[:-1], corner[:-1, -1]
        if not intercept:
            return cls(right, squares, weight, np.zeros(len(sums)), np.zeros(len(squares)), False)
        target_means = target_sums / weight
        right = right - np.multiply.outer(sums, target_means)
        squares = np.maximum(squares - weight * target_means**2, 0.0)
        return cls(right, squares, weight, sums / weight, target_means, True)

    def checked(self) -> Sides:
        """Return this, if it is finite."""
        if not (np.isfinite(self.right).all() and np.isfinite(self.squares).all()):
            raise ValueError(
                "products of features and targets, with their weights, are beyond the range of "
                "numbers: rescale y or sample_weight, or pass X as float64."
            )
        return self

    @property
    def degrees(self) -> float:
        """How many degrees of freedom the rows have beside the intercept."""
        return self.weight - self.intercept


@dataclass(frozen=True)
class NormalEquations(Sides):
    """Normal equations: ``(matrix + alpha I) coefficients = right``.

    Attributes
    ----------
    matrix : array of shape (n_components, n_components)
        The upper triangle, in Fortran order. Solvers may write on it.
    """

    matrix: Float64Array


def rows_per_block(n_columns: int, dtype: Any) -> int:
    """Return how many rows to multiply at once."""
    rows = BYTES_PER_BLOCK // (n_columns * np.dtype(dtype).itemsize)
    return int(np.clip(rows, *ROWS_PER_BLOCK))


class Accumulator:
    """Adds blocks of rows to moments, through buffers that it reuses.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map.
    moments : Moments
        Where to begin. Its array is written on.
    dtype : dtype
        Of products within a block. Blocks are added up in float64.
    """

    def __init__(self, features: QuadratureFeatures, moments: Moments, dtype: Any) -> None:
        self.features = features
        self.moments = moments
        self.dtype = np.dtype(dtype)
        self._buffers: dict[tuple[str, Any], Array] = {}

    def add(self, X: Any, Y: Float64Array, weights: Float64Array | None) -> None:
        """Add validated rows, at most as many as ``rows_per_block`` says."""
        moments = self.moments
        n_rows, d = X.shape[0], moments.n_components
        if n_rows == 0:
            return
        # In float64 as far as it is cheap.
        targets = np.ones((n_rows, moments.n_outputs + 1))
        np.subtract(Y, moments.shift, out=targets[:, :-1])
        if weights is not None:
            roots = np.sqrt(weights)[:, None]
            targets *= roots
        single = n_rows >= FEW_ROWS and bool(of_usual_size(np.abs(targets).max(axis=0)).all())
        dtype = self.dtype if single else np.dtype(np.float64)
        block = self._buffer("block", (n_rows, len(moments.products)), dtype)
        means = self._means_to_leave_out(X) if dtype == np.float32 else None
        self._write_features(X, block[:, :d], means)
        if weights is not None:
            block[:, :d] *= roots.astype(dtype)
        block[:, d:] = targets
        sums = self._add_products(block)
        corner = np.einsum("ij,ik->jk", targets, targets, optimize=False)
        moments.products[d:, d:] += np.triu(corner)
        if means is not None:
            self._add_means(means, sums, corner[:, -1])
        self.moments = replace(moments, n_rows=moments.n_rows + n_rows)

    def _means_to_leave_out(self, X: Any) -> Array | None:
        """Return numbers near the means of the features, if those have much of their squares."""
        some = self.features._written(X[:: -(-X.shape[0] // ROWS_PER_MEAN)])
        means: Array = some.mean(axis=0)
        squares = np.einsum("ij,ij->", some, some, dtype=np.float64) / len(some)
        return means if means @ means > CENTRED_FROM * squares else None

    def _write_features(self, X: Any, out: Array, means: Array | None) -> None:
        """Write features, less the means, made in the dtype of the rows: they are as precise."""
        if X.dtype == out.dtype:
            self.features._write(X, out)
            if means is not None:
                out -= means
            return
        made = self._buffer("made", (ROWS_PER_CAST, out.shape[1]), X.dtype)
        for start in range(0, len(out), ROWS_PER_CAST):
            rows = slice(start, min(start + ROWS_PER_CAST, len(out)))
            part = made[: rows.stop - start]
            self.features._write(X[rows], part)
            if means is not None:
                part -= means
            out[rows] = part

    def _add_products(self, block: Array) -> Float64Array:
        """Add the products of the columns of a block, but for those of targets.

        Returns the sums of its features.
        """
        products, d = self.moments.products, self.moments.n_components
        multiply = blas.ssyrk if block.dtype == np.float32 else blas.dsyrk
        result = self._buffer("products", products.shape, block.dtype, order="F")
        # Its transpose is what Fortran takes for the matrix; the upper triangle is written.
        found = multiply(1.0, block.T, beta=0.0, c=result, overwrite_c=1)
        assert np.shares_memory(found, result)  # or else memory would be twice what it should
        products[:, :d] += result[:, :d]
        products[:d, d:] += result[:d, d:]
        return result[:d, -1].astype(np.float64)

    def _add_means(self, means: Array, sums: Float64Array, target_sums: Float64Array) -> None:
        """Add what products with features that were centred lack.

        That is ``m s' + s m' + w m m'`` of features with the means ``m`` left out, whose sums are
        ``s``, and ``m t'`` of features and targets, whose sums are ``t``, the last of them ``w``.
        """
        left = np.concatenate([means, np.zeros(len(target_sums))])
        right = np.concatenate([sums + target_sums[-1] / 2.0 * means, target_sums])
        products = self.moments.products
        found = blas.dsyr2(1.0, left, right, a=products, overwrite_a=1)
        assert np.shares_memory(found, products)

    def _buffer(self, name: str, shape: tuple[int, int], dtype: Any, order: Any = "C") -> Array:
        """Return an array of this shape, at the beginning of one that is kept."""
        size = shape[0] * shape[1]
        kept = self._buffers.get((name, dtype))
        if kept is None or kept.size < size:
            # Zeros, since of a symmetric matrix only half is written.
            kept = self._buffers[name, dtype] = np.zeros(size, dtype=dtype)
        return kept[:size].reshape(shape, order=order)
