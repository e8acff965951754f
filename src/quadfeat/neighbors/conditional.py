r"""An exact Gaussian process on the nearest rows of each query.

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

from typing import NamedTuple

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.engine import core
from quadfeat.kernels import SeparationKernel
from quadfeat.neighbors import native, reference
from quadfeat.neighbors.hoods import Neighborhoods
from quadfeat.neighbors.reference import Conditional

__all__ = [
    "Conditional",
    "LogLikelihood",
    "Neighborhoods",
    "condition",
    "log_likelihood",
    "pull_back",
]

# With more neighbors, the matrices that the native core computes at once outgrow the cache. With 64
# neighbors, it is 30 times as fast as NumPy, and with 1024, 3 times (``benchmarks/neighbors.py``).
NATIVE_UP_TO = 1024


class LogLikelihood(NamedTuple):
    """The sum of the log densities of targets, and its gradient.

    Attributes
    ----------
    value : float
    by_factors : array of shape (d,)
        The derivatives with respect to the logarithms of the factors of the columns.
    by_alpha : float
        The derivative with respect to the logarithm of the noise-to-signal ratio.
    by_signal : array of shape (n_outputs,)
        The derivatives with respect to the logarithms of the signal variances.
    signal : array of shape (n_outputs,)
        The signal variances.
    """

    value: float
    by_factors: Float64Array
    by_alpha: float
    by_signal: Float64Array
    signal: Float64Array


def is_native(kernel: SeparationKernel, n_neighbors: int) -> bool:
    """Return whether the native core computes with this kernel."""
    return (
        core.CORE != "numpy" and kernel.native_profile is not None and n_neighbors <= NATIVE_UP_TO
    )


def condition(
    kernel: SeparationKernel, hoods: Neighborhoods, alpha: float, n_threads: int = 1
) -> Conditional:
    """Return the distribution of the latent function at each query.

    Parameters
    ----------
    kernel : SeparationKernel
        Its scale is ignored, because the neighborhoods are scaled already.
    hoods : Neighborhoods
    alpha : float
        The ratio of noise variance to signal variance.
    n_threads : int, default=1
        Number of threads of the native core. The result does not depend on it.

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
    if is_native(kernel, hoods.n_neighbors):
        return native.condition(kernel, hoods, alpha, n_threads)
    return reference.condition(kernel, hoods, alpha)


def pull_back(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    alpha: float,
    by_mean: Float64Array,
    by_variance: Float64Array,
    n_threads: int = 1,
) -> Float64Array:
    """Differentiate a function of the means and the variances at the queries.

    Parameters
    ----------
    kernel : SeparationKernel
        Its scale is ignored.
    hoods : Neighborhoods
    alpha : float
        The ratio of noise variance to signal variance.
    by_mean : array of shape (n_queries, n_outputs)
        The derivatives with respect to the means of :func:`condition`.
    by_variance : array of shape (n_queries,)
        The derivatives with respect to the variances.
    n_threads : int, default=1

    Returns
    -------
    array of shape (n_queries, d + 1)
        The part of each query in the gradient in the logarithms of the factors and, in the last
        column, of alpha.
    """
    if is_native(kernel, hoods.n_neighbors):
        return native.pull_back(kernel, hoods, alpha, by_mean, by_variance, n_threads)
    return reference.pull_back(kernel, hoods, alpha, by_mean, by_variance)


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
    prior: float = 0.0,
    n_threads: int = 1,
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
    prior : float, default=0.0
        The precision of a normal prior of the logarithms of the most likely signal variances that
        are above 1. Its log density is added.
    n_threads : int, default=1
    """
    found = condition(kernel, hoods, alpha, n_threads)
    errors = targets - found.mean
    variances = np.maximum(found.variance, np.finfo(float).eps) + alpha * noise
    n_outputs = targets.shape[1]
    of_noise = np.zeros(n_outputs) if scatter is None or not n_spare else scatter / alpha
    squares = np.sum(errors**2 / variances[:, None], axis=0) + of_noise
    size = hoods.size + n_spare
    is_free = signal is None
    if signal is None:
        # Equal targets have no variance. Their density would be infinite.
        signal = np.maximum(squares / size, np.finfo(float).tiny)
    logarithms = float(np.log(variances).sum())
    if n_spare:
        logarithms += n_spare * float(np.log(alpha))
    value = -0.5 * (
        float(np.sum(squares / signal))
        + n_outputs * logarithms
        + size * float(np.sum(np.log(2.0 * np.pi * signal)))
    )
    # The most likely signal variance is proportional to the squares.
    excess = np.maximum(np.log(signal), 0.0) * is_free
    value -= 0.5 * prior * float(np.sum(excess**2))
    shares = 1.0 + 2.0 * prior * excess / size
    by_mean = shares * errors / (signal * variances[:, None])
    by_variance = 0.5 * (np.sum(errors * by_mean, axis=1) - n_outputs) / variances
    gradients = pull_back(kernel, hoods, alpha, by_mean, by_variance, n_threads).sum(axis=0)
    by_alpha = gradients[-1] + alpha * (by_variance @ noise)
    by_alpha += 0.5 * (float(np.sum(shares * of_noise / signal)) - n_outputs * n_spare)
    by_signal = 0.5 * (squares / signal - size)
    return LogLikelihood(value, gradients[:-1], float(by_alpha), by_signal, signal)
