"""Conditional distributions and their derivatives in plain NumPy.

The formulas are those of :mod:`quadfeat.neighbors.conditional`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.engine.threads import one_blas_thread
from quadfeat.kernels import SeparationKernel
from quadfeat.neighbors.hoods import Neighborhoods

# Multiples of the mean diagonal to add until a matrix has a Cholesky factor.
JITTERS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


class Conditional(NamedTuple):
    r"""The distributions of the latent function at some queries.

    Attributes
    ----------
    mean : array of shape (n_queries, n_outputs)
    variance : array of shape (n_queries,)
        The variance relative to the signal variance.
    squares : array of shape (n_queries, n_outputs)
        For the targets of the neighbors, :math:`(y - b 1)^\top A^{-1} (y - b 1)`, with the most
        likely :math:`b`. Its mean is the signal variance times the number of neighbors minus one.
    jitter : array of shape (n_queries,)
        The number added to the diagonal of each matrix, relative to its mean.
    """

    mean: Float64Array
    variance: Float64Array
    squares: Float64Array
    jitter: Float64Array


def condition(kernel: SeparationKernel, hoods: Neighborhoods, alpha: float) -> Conditional:
    """Return the distribution of the latent function at each query."""
    with one_blas_thread():
        parts = [_condition(kernel, hoods.part(rows), alpha) for rows in hoods.slices()]
    return joined(parts)


def joined(parts: list[Conditional]) -> Conditional:
    """Return the distributions of several parts of the queries."""
    return Conditional(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _condition(kernel: SeparationKernel, hoods: Neighborhoods, alpha: float) -> Conditional:
    matrices, with_query, _, _ = _covariances(kernel, hoods, alpha)
    lower, jitter = cholesky(matrices)
    solved = _Solved(lower, with_query, hoods.targets)
    return Conditional(solved.mean, np.maximum(solved.variance, 0.0), solved.squares, jitter)


def pull_back(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    alpha: float,
    by_mean: Float64Array,
    by_variance: Float64Array,
) -> Float64Array:
    """Return the gradient of each query in the logarithms of the factors and of alpha.

    Parameters
    ----------
    kernel : SeparationKernel
    hoods : Neighborhoods
    alpha : float
    by_mean : array of shape (n_queries, n_outputs)
        The derivatives with respect to the means.
    by_variance : array of shape (n_queries,)
        The derivatives with respect to the variances.

    Returns
    -------
    array of shape (n_queries, d + 1)
        The last column is the derivative with respect to the logarithm of alpha.
    """
    with one_blas_thread():
        parts = [
            _pull_back(kernel, hoods.part(rows), alpha, by_mean[rows], by_variance[rows])
            for rows in hoods.slices()
        ]
    return np.concatenate(parts)


def _pull_back(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    alpha: float,
    by_mean: Float64Array,
    by_variance: Float64Array,
) -> Float64Array:
    matrices, with_query, between, to_query = _covariances(kernel, hoods, alpha)
    lower, _ = cholesky(matrices)
    weights, residuals = _Solved(lower, with_query, hoods.targets).weights()
    pulls = np.einsum("nko,no->nk", residuals, by_mean)
    # Derivatives with respect to the entries of A, made symmetric, and of a.
    mixed = (by_variance[:, None] * weights - pulls)[:, :, None] * weights[:, None]
    by_matrix = 0.5 * (mixed + mixed.transpose(0, 2, 1))
    by_query = pulls - 2.0 * by_variance[:, None] * weights
    by_alpha = alpha * np.sum(np.einsum("nkk->nk", by_matrix) * hoods.noise, axis=1)
    by_separation = by_matrix * kernel.slope_at(between)
    # Expand the squared differences, to use a matrix product.
    offsets, totals = hoods.offsets, by_separation.sum(axis=2)
    by_factors = 4.0 * np.einsum("nk,nkd->nd", totals, offsets**2)
    by_factors -= 4.0 * np.einsum("nkd,nkd->nd", by_separation @ offsets, offsets)
    by_query = by_query * kernel.slope_at(to_query)
    by_factors += 2.0 * np.einsum("nk,nkd->nd", by_query, hoods.to_queries**2)
    return np.column_stack([by_factors, by_alpha])


class _Solved:
    """Solutions of the linear systems of some neighborhoods.

    Parameters
    ----------
    lower : array of shape (n_queries, k, k)
        Cholesky factors.
    with_query : array of shape (n_queries, k)
        Kernel values of the neighbors with their query.
    targets : array of shape (n_queries, k, n_outputs)
    """

    def __init__(self, lower: Float64Array, with_query: Float64Array, targets: Float64Array):
        self.lower = lower
        ones = np.ones_like(with_query)
        # Divide by the lower factors. Inner products of the results are those with the inverse.
        right = np.concatenate([ones[:, :, None], with_query[:, :, None], targets], axis=2)
        self.halves = divided(lower, right)
        one, query, outputs = self.halves[:, :, 0], self.halves[:, :, 1], self.halves[:, :, 2:]
        self.of_ones = np.einsum("nk,nk->n", one, one)
        self.rest = 1.0 - np.einsum("nk,nk->n", one, query)
        self.intercept = np.einsum("nk,nko->no", one, outputs) / self.of_ones[:, None]
        residual = outputs - one[:, :, None] * self.intercept[:, None]
        self.squares = np.sum(residual**2, axis=1)
        self.mean = self.intercept + np.einsum("nk,nko->no", query, residual)
        self.variance = 1.0 - np.einsum("nk,nk->n", query, query) + self.rest**2 / self.of_ones

    def weights(self) -> tuple[Float64Array, Float64Array]:
        """Return the weights of the prediction and ``A^-1 (y - b 1)``."""
        whole = divided_by_transpose(self.lower, self.halves)
        one, query, outputs = whole[:, :, 0], whole[:, :, 1], whole[:, :, 2:]
        weights = query + one * (self.rest / self.of_ones)[:, None]
        return weights, outputs - one[:, :, None] * self.intercept[:, None]


def _covariances(
    kernel: SeparationKernel, hoods: Neighborhoods, alpha: float
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """Return the matrices A, the vectors a, and the squared distances of both."""
    offsets = hoods.offsets
    squares = np.einsum("nkd,nkd->nk", offsets, offsets)
    products = offsets @ offsets.transpose(0, 2, 1)
    between = squares[:, :, None] + squares[:, None] - 2.0 * products
    to_query = np.sum(hoods.to_queries**2, axis=2)
    np.maximum(between, 0.0, out=between)
    diagonal = np.arange(offsets.shape[1])
    between[:, diagonal, diagonal] = 0.0
    matrices = kernel.value_at(between)
    matrices[:, diagonal, diagonal] += alpha * hoods.noise
    return matrices, kernel.value_at(to_query), between, to_query


def cholesky(matrices: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return lower Cholesky factors, and the relative jitter that each matrix needed."""
    jitter = np.zeros(len(matrices))
    try:
        return np.asarray(np.linalg.cholesky(matrices)), jitter
    except np.linalg.LinAlgError:  # at least one has none, so try them one by one
        lower = np.empty_like(matrices)
        for n, matrix in enumerate(matrices):
            lower[n], jitter[n] = _with_jitter(matrix)
        return lower, jitter


def _with_jitter(matrix: Float64Array) -> tuple[Float64Array, float]:
    unit = float(np.mean(np.diagonal(matrix)))
    for jitter in JITTERS:
        try:
            factor = np.linalg.cholesky(matrix + jitter * unit * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            continue
        return np.asarray(factor), jitter
    raise ValueError(
        f"the kernel matrix of {len(matrix)} neighbors has no Cholesky factor, even with "
        f"{JITTERS[-1]:g} added to its diagonal. Use a kernel that is positive definite."
    )


def divided(lower: Float64Array, right: Float64Array) -> Float64Array:
    """Return ``L^-1 R`` for each pair of a lower factor and a right-hand side."""
    found = right.copy()
    for row in range(lower.shape[1]):
        found[:, row] -= (lower[:, row, None, :row] @ found[:, :row])[:, 0]
        found[:, row] /= lower[:, row, row, None]
    return found


def divided_by_transpose(lower: Float64Array, right: Float64Array) -> Float64Array:
    """Return ``L^-T R`` for each pair of a lower factor and a right-hand side."""
    found = right.copy()
    for row in range(lower.shape[1] - 1, -1, -1):
        below = lower[:, row + 1 :, row]
        found[:, row] -= (below[:, None] @ found[:, row + 1 :])[:, 0]
        found[:, row] /= lower[:, row, row, None]
    return found
