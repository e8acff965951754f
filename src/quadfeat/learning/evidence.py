r"""The evidence of an exact Gaussian process, as a function of lengthscales and noise.

Each output is modeled on its own, with the same kernel and the same ratio :math:`\alpha` of noise
to signal:

.. math:: y \sim N(b 1, s^2 (K_\theta + \alpha W^{-1})),

with a flat prior on the intercept :math:`b`, the best :math:`s^2` for each output, and the weights
of the rows in :math:`W`. A row of weight ``w`` stands for ``w`` copies of it, which makes
:math:`N = \sum_i w_i` rows. Up to a constant, minus twice the log evidence of an output is

.. math::

    (N - 1) \log q + \log |A| + (N - m) \log \alpha + \log 1^\top A^{-1} 1, \qquad
    A = K_\theta + \alpha W^{-1}, \quad q = \min_b (y - b 1)^\top A^{-1} (y - b 1).

It costs a Cholesky factor of the rows each time, and an inverse for the gradient, so it suits
samples of hundreds or a few thousand rows.
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

# Added to the diagonal, ten times more in each attempt, if rows of huge weight make the matrix
# singular.
JITTER = 1e-10
MOST_JITTER = 1e10

# Logarithms of factors that differ by no more than this are the same up to rounding.
SAME_STEP = 1e-14


@dataclass(frozen=True)
class Evidence:
    """The evidence as a function of input factors and of the ratio of noise to signal.

    The loss that a search minimizes is minus the log evidence, up to a constant.

    Attributes
    ----------
    kernel : SeparationKernel
    X : array of shape (m, d)
    Y : array of shape (m, k)
        Columns have mean 0, at least up to rounding: large intercepts would cancel.
    weights : array of shape (m,)
    """

    kernel: SeparationKernel
    X: Float64Array
    Y: Float64Array
    weights: Float64Array

    @property
    def degrees(self) -> float:
        """Degrees of freedom of an output, minus one for the intercept."""
        return float(self.weights.sum()) - 1.0

    @property
    def constant(self) -> float:
        """The sum of loss and log evidence."""
        of_variance = self.degrees * (1.0 + np.log(2.0 * np.pi / self.degrees))
        return float(-0.5 * self.Y.shape[1] * (of_variance + np.log(self.weights).sum()))

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """Positions of the strict lower triangle of a matrix in Fortran order."""
        m = len(self.X)
        return np.flatnonzero(np.tri(m, k=-1, dtype=bool).T)

    def separations(self, log_factors: Float64Array) -> Float64Array:
        """Return the separation of each pair of rows, once.

        A search for one number multiplies all factors alike, and so the separations: with many
        columns, that is much faster than computing them again.
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
        """Compute the loss, given the kernel of each pair of rows."""
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
                f"{check.one_line(self.kernel)} has no lengthscales for these rows: its values do "
                "not form a positive definite matrix of finite numbers. Rescale X."
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
        """Return the loss and its derivatives by the logarithms of the factors and of alpha."""
        m, k = self.Y.shape
        alpha = float(np.exp(log_alpha))
        separations = self.separations(log_factors)
        loss, cholesky, directions = self.solve(self.kernel.value_at(separations), alpha)
        inverse, _ = lapack.dpotri(cholesky, lower=1, overwrite_c=1)
        by_gram = blas.dsyrk(-0.5, directions, 0.5 * k, inverse, lower=1, overwrite_c=1)
        by_alpha = by_gram.diagonal() @ (alpha / self.weights) + 0.5 * k * (self.weights.sum() - m)
        # An entry below the diagonal also stands for the one above.
        by_pairs = 2.0 * by_gram.ravel(order="F")[self.pairs] * self.kernel.slope_at(separations)
        by_factors = self.kernel.factor_gradient(
            self.X * np.exp(log_factors), self._lower_triangle(by_pairs)
        )
        return loss, by_factors, float(by_alpha)

    def _lower_triangle(self, of_pairs: Float64Array) -> Float64Array:
        """Return a matrix with these entries below the diagonal and zeros elsewhere."""
        m = len(self.X)
        entries = np.zeros(m * m)
        entries[self.pairs] = of_pairs
        return entries.reshape((m, m), order="F")


class Solved(NamedTuple):
    r"""The loss, and the matrices that its derivative needs.

    With ``directions`` :math:`Z`, the derivative by the Gram matrix is
    :math:`(k A^{-1} - Z Z^\top) / 2`.
    """

    loss: float
    cholesky: Float64Array
    directions: Float64Array
