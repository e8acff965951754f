r"""The evidence of an exact Gaussian process, as a function of lengthscales and noise.

Each output is modeled separately, with the same kernel and the same ratio :math:`\alpha` of noise
variance to signal variance:

.. math:: y \sim N(b 1, s^2 (K_\theta + \alpha W^{-1})),

with a flat prior on the intercept :math:`b`, the best :math:`s^2` for each output, and the weights
of the :math:`m` rows in the diagonal matrix :math:`W`. A row of weight :math:`w` counts as
:math:`w` copies, so there are :math:`N = \sum_i w_i` rows in total. Up to a constant, minus twice
the log evidence of an output is

.. math::

    (N - 1) \log q + \log |A| + (N - m) \log \alpha + \log 1^\top A^{-1} 1, \qquad
    A = K_\theta + \alpha W^{-1}, \quad q = \min_b (y - b 1)^\top A^{-1} (y - b 1).

Each evaluation takes a Cholesky factorization of an :math:`m \times m` matrix, and the gradient
takes its inverse. This is practical for up to a few thousand rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve, lapack

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import SeparationKernel

# Jitter to add to the diagonal if rows of huge weight make the matrix singular. Each attempt
# multiplies it by ten.
JITTER = 1e-10
MOST_JITTER = 1e10

# Log factors are equal up to rounding if they differ by at most this.
SAME_STEP = 1e-14


@dataclass(frozen=True)
class Evidence:
    """The evidence as a function of input factors and of the noise-to-signal ratio.

    The loss to minimize is the negative log evidence, up to a constant.

    Attributes
    ----------
    kernel : SeparationKernel
    X : array of shape (m, d)
    Y : array of shape (m, k)
        Centered targets. A large intercept would cause cancellation.
    weights : array of shape (m,)
    """

    kernel: SeparationKernel
    X: Float64Array
    Y: Float64Array
    weights: Float64Array

    @property
    def degrees(self) -> float:
        """Degrees of freedom of an output: the total weight minus one for the intercept."""
        return float(self.weights.sum()) - 1.0

    @property
    def constant(self) -> float:
        """The sum of the loss and the log evidence, which is constant."""
        of_variance = self.degrees * (1.0 + np.log(2.0 * np.pi / self.degrees))
        return float(-0.5 * self.Y.shape[1] * (of_variance + np.log(self.weights).sum()))

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """Flat indices of the strict lower triangle of a matrix in Fortran order."""
        m = len(self.X)
        return np.flatnonzero(np.tri(m, k=-1, dtype=bool).T)

    def separations(self, log_factors: Float64Array) -> Float64Array:
        """Return the separation of each pair of rows.

        If all factors changed by the same ratio, rescale the last separations. With many columns,
        this is much faster than computing them again.
        """
        last = vars(self).get("_last")
        if last is not None:
            steps = log_factors - last[0]
            if np.ptp(steps) <= SAME_STEP:
                return last[1] * np.exp(self.kernel.separation_degree * steps[0])
        scaled = self.X * np.exp(log_factors)
        found = self.kernel.separations(scaled, scaled, same=True).ravel()[self.pairs]
        vars(self)["_last"] = log_factors, found
        return found

    def solve(self, values: Float64Array, alpha: float) -> Solved:
        """Compute the loss, given the kernel value of each pair of rows."""
        m, k = self.Y.shape
        lower = self._lower_triangle(values)
        diagonal = 1.0 + alpha / self.weights
        np.fill_diagonal(lower, diagonal)
        cholesky, failed = lapack.dpotrf(lower, lower=1)
        jitter = JITTER
        while failed and jitter < MOST_JITTER:
            np.fill_diagonal(lower, diagonal + jitter)
            cholesky, failed = lapack.dpotrf(lower, lower=1)
            jitter *= 10.0
        if failed:
            raise ValueError(
                f"kernel={check.one_line(self.kernel)} cannot be learned: its Gram matrix for X is "
                "not finite and positive definite. Rescale X."
            )
        right = np.column_stack([np.ones(m), self.Y])
        solved = cho_solve((cholesky, True), right, check_finite=False)
        of_ones, of_outputs = solved[:, 0], solved[:, 1:]
        precision = of_ones.sum()
        residuals = of_outputs - np.outer(of_ones, of_outputs.sum(axis=0) / precision)
        squares = np.einsum("aj,aj->j", self.Y, residuals)
        shared = 2.0 * np.log(cholesky.diagonal()).sum() + np.log(precision)
        shared += (self.weights.sum() - m) * np.log(alpha)
        loss = 0.5 * (self.degrees * np.log(squares).sum() + k * shared)
        directions = np.column_stack(
            [np.sqrt(k / precision) * of_ones, np.sqrt(self.degrees / squares) * residuals]
        )
        return Solved(float(loss), cholesky, directions)

    def loss_and_gradient(
        self, log_factors: Float64Array, log_alpha: float
    ) -> tuple[float, Float64Array, float]:
        """Return the loss and its derivatives with respect to log factors and log alpha."""
        m, k = self.Y.shape
        alpha = float(np.exp(log_alpha))
        separations = self.separations(log_factors)
        loss, cholesky, directions = self.solve(self.kernel.value_at(separations), alpha)
        inverse, _ = lapack.dpotri(cholesky, lower=1, overwrite_c=1)
        by_gram = blas.dsyrk(-0.5, directions, 0.5 * k, inverse, lower=1, overwrite_c=1)
        by_alpha = by_gram.diagonal() @ (alpha / self.weights) + 0.5 * k * (self.weights.sum() - m)
        # Count each entry below the diagonal twice, for the equal one above.
        by_pairs = 2.0 * by_gram.ravel(order="F")[self.pairs] * self.kernel.slope_at(separations)
        by_factors = self.kernel.factor_gradient(
            self.X * np.exp(log_factors), self._lower_triangle(by_pairs)
        )
        return loss, by_factors, float(by_alpha)

    def _lower_triangle(self, of_pairs: Float64Array) -> Float64Array:
        """Return a matrix with entries below the diagonal and zeros elsewhere."""
        m = len(self.X)
        entries = np.zeros(m * m)
        entries[self.pairs] = of_pairs
        return entries.reshape((m, m), order="F")


class Solved(NamedTuple):
    r"""The loss, and the matrices from which its gradient is computed.

    The derivative with respect to the Gram matrix is :math:`(k A^{-1} - Z Z^\top) / 2`, where
    :math:`Z` is ``directions``.
    """

    loss: float
    cholesky: Float64Array
    directions: Float64Array
