r"""An exact Gaussian process on the nearest rows of each query, in plain NumPy.

The targets of the neighbors of a query, and the target of the query itself, follow

.. math:: y \sim N(b 1, s^2 (K + \alpha W^{-1}))

with a flat prior on :math:`b`, as in :mod:`quadfeat.learning.evidence`. Let :math:`A` be the matrix
in brackets for the neighbors, and :math:`a` their kernel values with the query. The prediction is
:math:`\lambda^\top y`, where the weights :math:`\lambda` sum to 1 and minimize the variance:

.. math::

    A \lambda + \mu 1 = a, \qquad 1^\top \lambda = 1, \qquad
    r = 1 - a^\top A^{-1} a + \frac{(1 - 1^\top A^{-1} a)^2}{1^\top A^{-1} 1}.

The variance of the latent function is :math:`s^2 r`, and that of a target is
:math:`s^2 (r + \alpha / w)`. The same formulas give conditional likelihoods: with neighbors that
are earlier in some order, their product is the likelihood of Vecchia; with neighbors among all
other rows, it is the leave-one-out pseudo-likelihood.

Since :math:`\lambda` minimizes the variance, its derivative drops out of that of the variance. So
gradients need no inverse, only :math:`\lambda` and :math:`q = A^{-1} (y - \hat b 1)`:

.. math::

    dr = -2 \lambda^\top da + \lambda^\top dA \lambda, \qquad
    d(\lambda^\top y) = q^\top (da - dA \lambda).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels import SeparationKernel

# Multiples of the mean diagonal to add until a matrix has a Cholesky factor.
JITTERS = (0.0, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)

# Matrices of at most this many entries in all are in memory at once: few enough for the cache.
ENTRIES_AT_ONCE = 2**19


@dataclass(frozen=True)
class Neighborhoods:
    """Queries with the rows near them.

    Coordinates are relative to the nearest neighbor. Relative to a query that is far from all rows,
    the differences between rows would be lost.

    Attributes
    ----------
    queries : array of shape (n_queries, d)
    offsets : array of shape (n_queries, k, d)
        Scaled neighbors minus the nearest one.
    targets : array of shape (n_queries, k, n_outputs)
        Targets of the neighbors.
    noise : array of shape (n_queries, k)
        Noise variances of the neighbors, relative to that of a row of weight 1.
    """

    queries: Float64Array
    offsets: Float64Array
    targets: Float64Array
    noise: Float64Array

    @classmethod
    def of(
        cls,
        queries: Float64Array,
        points: Float64Array,
        targets: Float64Array,
        weights: Float64Array,
        neighbors: Array,
    ) -> Neighborhoods:
        """Gather the neighbors, given by index, of some queries.

        Parameters
        ----------
        queries : array of shape (n_queries, d)
        points : array of shape (n_rows, d)
        targets : array of shape (n_rows, n_outputs)
        weights : array of shape (n_rows,)
        neighbors : int array of shape (n_queries, k)
            Nearest first.
        """
        nearest = points[neighbors[:, 0]]
        offsets = points[neighbors] - nearest[:, None]
        return cls(queries - nearest, offsets, targets[neighbors], 1.0 / weights[neighbors])

    def scaled(self, factors: Float64Array) -> Neighborhoods:
        """Return the neighborhoods with coordinates multiplied by factors."""
        return replace(self, queries=self.queries * factors, offsets=self.offsets * factors)

    def part(self, rows: slice) -> Neighborhoods:
        """Return the neighborhoods of some queries."""
        return Neighborhoods(
            self.queries[rows], self.offsets[rows], self.targets[rows], self.noise[rows]
        )

    @property
    def to_queries(self) -> Float64Array:
        """Scaled neighbors minus the query, shape (n_queries, k, d)."""
        return self.offsets - self.queries[:, None]

    @property
    def size(self) -> int:
        """Number of queries."""
        return len(self.offsets)

    def slices(self) -> Iterator[slice]:
        """Yield slices of queries whose matrices fit into the cache."""
        step = max(1, ENTRIES_AT_ONCE // max(1, self.offsets.shape[1] ** 2))
        for start in range(0, self.size, step):
            yield slice(start, min(start + step, self.size))


class Conditional(NamedTuple):
    """The distributions of the latent function at some queries.

    Attributes
    ----------
    mean : array of shape (n_queries, n_outputs)
    variance : array of shape (n_queries,)
        The variance relative to the signal variance.
    jitter : array of shape (n_queries,)
        The number added to the diagonal of each matrix, relative to its mean.
    """

    mean: Float64Array
    variance: Float64Array
    jitter: Float64Array


class LogLikelihood(NamedTuple):
    """The sum of the log densities of targets, and its gradient.

    Attributes
    ----------
    value : float
    by_factors : array of shape (d,)
        The derivatives by the logarithms of the factors of the columns.
    by_alpha : float
        The derivative by the logarithm of the noise-to-signal ratio.
    by_signal : array of shape (n_outputs,)
        The derivatives by the logarithms of the signal variances.
    signal : array of shape (n_outputs,)
        The signal variances.
    """

    value: float
    by_factors: Float64Array
    by_alpha: float
    by_signal: Float64Array
    signal: Float64Array


def condition(kernel: SeparationKernel, hoods: Neighborhoods, alpha: float) -> Conditional:
    """Return the distribution of the latent function at each query.

    Parameters
    ----------
    kernel : SeparationKernel
        Its scale is ignored, because the neighborhoods are scaled already.
    hoods : Neighborhoods
    alpha : float
        The ratio of noise variance to signal variance.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Gaussian
    >>> rows, targets = np.array([[0.0], [1.0]]), np.array([[2.0], [4.0]])
    >>> middle = np.array([[0.5]])
    >>> hoods = Neighborhoods.of(middle, rows, targets, np.ones(2), np.array([[0, 1]]))
    >>> condition(Gaussian(), hoods, alpha=0.0).mean.round(6)
    array([[3.]])
    """
    parts = [_condition(kernel, hoods.part(rows), alpha) for rows in hoods.slices()]
    return Conditional(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _condition(kernel: SeparationKernel, hoods: Neighborhoods, alpha: float) -> Conditional:
    matrices, with_query, _, _ = _covariances(kernel, hoods, alpha)
    lower, jitter = cholesky(matrices)
    solved = _Solved(lower, with_query, hoods.targets)
    return Conditional(solved.mean, np.maximum(solved.variance, 0.0), jitter)


def log_likelihood(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    targets: Float64Array,
    noise: Float64Array,
    alpha: float,
    signal: Float64Array | None = None,
    *,
    scatter: Float64Array | None = None,
    n_spare: float = 0.0,
) -> LogLikelihood:
    """Return the log density of the targets of the queries given those of their neighbors.

    If the queries stand for several copies, pass their mean targets, and the scatter of the copies.

    Parameters
    ----------
    kernel : SeparationKernel
        Its scale is ignored.
    hoods : Neighborhoods
    targets : array of shape (n_queries, n_outputs)
        Targets of the queries.
    noise : array of shape (n_queries,)
        Noise variances of the queries, relative to that of a row of weight 1.
    alpha : float
        The ratio of noise variance to signal variance.
    signal : array of shape (n_outputs,), default=None
        The signal variance of each output; None means the most likely one.
    scatter : array of shape (n_outputs,), default=None
        The sum of the weighted squared differences between targets of copies and their means.
    n_spare : float, default=0.0
        The number of targets of copies minus the number of means.
    """
    pieces = [
        _Piece(kernel, hoods.part(rows), targets[rows], noise[rows], alpha)
        for rows in hoods.slices()
    ]
    n_outputs = targets.shape[1]
    squares = sum(np.sum(one.errors**2 / one.variances[:, None], axis=0) for one in pieces)
    of_noise = np.zeros(n_outputs) if scatter is None or not n_spare else scatter / alpha
    squares = squares + of_noise
    size = hoods.size + n_spare
    if signal is None:
        # Equal targets have no variance. Their density would be infinite.
        signal = np.maximum(squares / size, np.finfo(float).tiny)
    logarithms = sum(float(np.log(one.variances).sum()) for one in pieces)
    if n_spare:
        logarithms += n_spare * float(np.log(alpha))
    value = -0.5 * (
        float(np.sum(squares / signal))
        + n_outputs * logarithms
        + size * float(np.sum(np.log(2.0 * np.pi * signal)))
    )
    gradients = [one.gradient(signal) for one in pieces]
    by_factors, by_alpha = (np.sum(terms, axis=0) for terms in zip(*gradients, strict=True))
    by_alpha += 0.5 * (float(np.sum(of_noise / signal)) - n_outputs * n_spare)
    by_signal = 0.5 * (squares / signal - size)
    return LogLikelihood(value, by_factors, float(by_alpha), by_signal, signal)


class MeanLoss(NamedTuple):
    """A loss of the means at some queries, and its gradient.

    Attributes
    ----------
    value : float
    by_factors : array of shape (d,)
        The derivatives by the logarithms of the factors of the columns.
    by_alpha : float
        The derivative by the logarithm of the noise-to-signal ratio.
    """

    value: float
    by_factors: Float64Array
    by_alpha: float


def mean_loss(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    alpha: float,
    loss: Callable[[Float64Array, slice], tuple[float, Float64Array]],
) -> MeanLoss:
    """Return a loss of the means of the latent function at the queries.

    Parameters
    ----------
    kernel : SeparationKernel
        Its scale is ignored.
    hoods : Neighborhoods
    alpha : float
        The ratio of noise variance to signal variance.
    loss : callable
        Takes the means of a slice of the queries, shape (n, n_outputs), and the slice. Returns
        their total loss, and its derivatives by the means.
    """
    total, by_factors, by_alpha = 0.0, np.zeros(hoods.offsets.shape[2]), 0.0
    for rows in hoods.slices():
        part = hoods.part(rows)
        matrices, with_query, *separations = _covariances(kernel, part, alpha)
        lower, _ = cholesky(matrices)
        solved = _Solved(lower, with_query, part.targets)
        value, by_mean = loss(solved.mean, rows)
        weights, residuals = solved.weights()
        pulls = np.einsum("nko,no->nk", residuals, by_mean)
        mixed = -pulls[:, :, None] * weights[:, None]
        by_matrix = 0.5 * (mixed + mixed.transpose(0, 2, 1))
        total += value
        by_factors += _by_factors(kernel, part, separations, (by_matrix, pulls))
        by_alpha += alpha * float(np.sum(np.einsum("nkk->nk", by_matrix) * part.noise))
    return MeanLoss(total, by_factors, by_alpha)


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
        self.mean = self.intercept + np.einsum("nk,nko->no", query, residual)
        self.variance = 1.0 - np.einsum("nk,nk->n", query, query) + self.rest**2 / self.of_ones

    def weights(self) -> tuple[Float64Array, Float64Array]:
        """Return the weights of the prediction and ``A^-1 (y - b 1)``."""
        whole = divided_by_transpose(self.lower, self.halves)
        one, query, outputs = whole[:, :, 0], whole[:, :, 1], whole[:, :, 2:]
        weights = query + one * (self.rest / self.of_ones)[:, None]
        return weights, outputs - one[:, :, None] * self.intercept[:, None]


class _Piece:
    """The likelihood of some queries: errors, relative variances, and gradients."""

    def __init__(
        self,
        kernel: SeparationKernel,
        hoods: Neighborhoods,
        targets: Float64Array,
        noise: Float64Array,
        alpha: float,
    ) -> None:
        self.kernel, self.hoods, self.noise, self.alpha = kernel, hoods, noise, alpha
        matrices, with_query, self.between, self.to_query = _covariances(kernel, hoods, alpha)
        lower, _ = cholesky(matrices)
        self.solved = _Solved(lower, with_query, hoods.targets)
        self.errors = targets - self.solved.mean
        latent = np.maximum(self.solved.variance, np.finfo(float).eps)
        self.variances = latent + alpha * noise

    def gradient(self, signal: Float64Array) -> tuple[Float64Array, float]:
        """Return the derivatives by the logarithms of the factors and of alpha."""
        kernel = self.kernel
        ratios = self.errors / (signal * self.variances[:, None])
        by_variance = -0.5 * (
            self.errors.shape[1] / self.variances
            - np.sum(self.errors * ratios, axis=1) / self.variances
        )
        weights, residuals = self.solved.weights()
        pulls = np.einsum("nko,no->nk", residuals, ratios)
        # Derivatives by the entries of A, made symmetric, and by those of a.
        mixed = (by_variance[:, None] * weights - pulls)[:, :, None] * weights[:, None]
        by_matrix = 0.5 * (mixed + mixed.transpose(0, 2, 1))
        by_query = pulls - 2.0 * by_variance[:, None] * weights
        diagonal = np.einsum("nkk->nk", by_matrix)
        by_alpha = self.alpha * float(
            np.sum(diagonal * self.hoods.noise) + by_variance @ self.noise
        )
        separations = self.between, self.to_query
        by_factors = _by_factors(kernel, self.hoods, separations, (by_matrix, by_query))
        return by_factors, by_alpha


def _by_factors(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    separations: Sequence[Float64Array],
    by_values: Sequence[Float64Array],
) -> Float64Array:
    """Return derivatives by the logarithms of factors, given those by the kernel values.

    Parameters
    ----------
    kernel : SeparationKernel
    hoods : Neighborhoods
    separations : sequence of arrays of shape (n_queries, k, k) and (n_queries, k)
        The squared distances between neighbors, and to the query.
    by_values : sequence of arrays of the same shapes
        The derivatives by the kernel values. The matrices are symmetric.
    """
    offsets = hoods.offsets
    by_between = by_values[0] * kernel.slope_at(separations[0])
    # Expand the squared differences, to use a matrix product.
    found = 4.0 * np.einsum("nk,nkd->d", by_between.sum(axis=2), offsets**2)
    found -= 4.0 * np.einsum("nkd,nkd->d", by_between @ offsets, offsets)
    by_query = by_values[1] * kernel.slope_at(separations[1])
    found += 2.0 * np.einsum("nk,nkd->d", by_query, hoods.to_queries**2)
    return np.asarray(found)


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
