"""The parameters of a Gaussian process on nearest rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import Kernel, Projection, SeparationKernel

# The largest scaled coordinate of a query. Farther away, kernels are zero, and squares of distances
# could overflow.
FARTHEST = 1e100

# Logarithms of factors that are closer than this are equal up to rounding.
SAME = 1e-12


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a process.

    Attributes
    ----------
    kernel : SeparationKernel
        The family. Its scale is ignored.
    factors : array of shape (d,)
        The factors to multiply the columns by.
    alpha : float
        The ratio of the noise variance of a row of weight 1 to the signal variance.
    n_neighbors : int
    projection : Projection or None
        Transforms rows before their columns are multiplied by the factors.
    search : {"auto", "exact", "approximate"}
        How to search for neighbors; see ``index_for``.
    """

    kernel: SeparationKernel
    factors: Float64Array
    alpha: float
    n_neighbors: int
    projection: Projection | None = None
    search: str = "exact"

    @classmethod
    def of(cls, kernel: Kernel, d: int, alpha: float, n_neighbors: int, search: str) -> Settings:
        """Return settings with a kernel that has a numeric scale, for rows with ``d`` columns."""
        inner: Any = kernel.inner  # a SeparationKernel
        projection = kernel.projection
        width = d if projection is None else projection.width
        factors = np.broadcast_to(inner.input_factor(width), width).astype(np.float64)
        return cls(inner, factors, alpha, n_neighbors, projection, search)

    def changed(self, steps: Float64Array) -> Settings:
        """Return settings with steps added to the logarithms of the factors and of alpha."""
        factors = self.factors * np.exp(steps[:-1])
        return replace(self, factors=factors, alpha=float(self.alpha * np.exp(steps[-1])))

    def shares_points_with(self, other: Settings) -> bool:
        """Return whether points have the same neighbors: whether they differ by one factor only."""
        if self.projection is not other.projection or self.search != other.search:
            return False
        used = self.factors > 0
        if not np.array_equal(used, other.factors > 0):
            return False
        logarithms = np.log(self.factors[used]) - np.log(other.factors[used])
        return bool(np.ptp(logarithms) < SAME) if used.any() else True

    def relative_to(self, other: Settings) -> Float64Array:
        """Return the factors divided by others; 1 for columns that the others ignore."""
        used = other.factors > 0
        return np.divide(self.factors, other.factors, out=np.ones_like(self.factors), where=used)

    def projected(self, X: Float64Array) -> Float64Array:
        """Return rows before their multiplication by factors."""
        return X if self.projection is None else projected(X, self.projection)

    def points(self, X: Float64Array) -> Float64Array:
        """Return training rows as points, whose distances are those of the kernel."""
        return self.projected(X) * self.factors

    def queries(self, X: Float64Array) -> Float64Array:
        """Return any rows as points, limited to a range in which distances are finite."""
        with np.errstate(over="ignore"):  # an infinite limit does not clip
            limits = FARTHEST / self.factors
        return np.clip(self.projected(X), -limits, limits) * self.factors


def projected(X: Float64Array, projection: Projection) -> Float64Array:
    """Return projected rows, each computed independently."""
    matrix = projection.matrix
    with np.errstate(over="ignore", invalid="ignore"):
        rows = projection.centered(X)
        if is_diagonal(matrix):
            return rows * np.diagonal(matrix)
        # The last bit of BLAS results depends on the number of rows.
        found = np.asarray(np.einsum("ij,kj->ik", rows, matrix))
    if np.isnan(found).any():
        raise ValueError(
            "The product of X and the matrix of the kernel is beyond the range of float64: "
            "rescale X."
        )
    return found


def is_diagonal(matrix: Float64Array) -> bool:
    """Return whether a matrix is square and diagonal.

    Examples
    --------
    >>> is_diagonal(np.eye(2)), is_diagonal(np.ones((2, 2))), is_diagonal(np.ones((1, 2)))
    (True, False, False)
    """
    if matrix.shape[0] != matrix.shape[1]:
        return False
    return bool(np.count_nonzero(matrix) == np.count_nonzero(np.diagonal(matrix)))
