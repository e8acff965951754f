r"""Variances of predictions from leave-one-out errors.

The process predicts a row with a relative variance :math:`r` and from targets of :math:`k`
neighbors whose whitened squares are :math:`Q`; see ``Conditional``. The variance of a new target of
weight :math:`w` is modeled as

.. math:: v = s^2 \ell r + \frac{b}{w}, \qquad \ell = \frac{\nu + Q / q}{\nu + k - 1},

where :math:`q` is the mean of :math:`Q / (k - 1)` over rows. If the signal variance of each
neighborhood had an inverse gamma prior with :math:`\nu` degrees of freedom, :math:`s^2 \ell` would
be its posterior mean: where targets vary much, so do the errors. With infinitely many, the signal
variance is the same everywhere.

The signal variance :math:`s^2`, the noise :math:`b` and :math:`\nu` maximize the likelihood of
leave-one-out errors, with two additions.

- One more row stands for the next copy of a row, where all targets of neighbors are equal. It has
  the mean squared error of all rows. If rows agree with almost all of their near copies, the noise
  would otherwise be almost zero, and the first one that does not would be as unlikely as an error
  of a thousand standard deviations. After ``n`` of ``n`` successes, the next failure has a
  probability of about ``1 / (n + 1)``.
- Targets of equal rows differ by noise alone.
- The logarithm of :math:`b / s^2` has a standard normal prior around that of the ratio that the
  process was learned with, which matters for few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.neighbors.reference import Conditional

# Degrees of freedom to try, and logarithms of the ratio of noise to signal variance.
FREEDOMS = (np.inf, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
LOG_RATIOS = np.linspace(-25.0, 10.0, 36)

# The signal variance differs between neighborhoods only if this raises the log likelihood by more.
LEAST_GAIN = 3.0


@dataclass(frozen=True, eq=False)
class Variances:
    """The variances of the signal and of the noise.

    Attributes
    ----------
    signal : array of shape (n_outputs,)
        The signal variance.
    noise : array of shape (n_outputs,)
        The noise variance of a row of weight 1.
    spread : array of shape (n_outputs,)
        The mean of the squares of a neighborhood, divided by their number minus one.
    freedom : array of shape (n_outputs,)
        The degrees of freedom of the prior of the signal variance of a neighborhood.
    n_neighbors : int
    """

    signal: Float64Array
    noise: Float64Array
    spread: Float64Array
    freedom: Float64Array
    n_neighbors: int

    @classmethod
    def unknown(cls, n_outputs: int) -> Variances:
        """Return the variances if there is nothing to estimate them from."""
        nan = np.full(n_outputs, np.nan)
        return cls(nan, nan, nan, np.full(n_outputs, np.inf), 1)

    @classmethod
    def of(
        cls,
        errors: Float64Array,
        found: Conditional,
        noise: Float64Array,
        alpha: float,
        n_neighbors: int,
        *,
        scatter: Float64Array | None = None,
        n_spare: float = 0.0,
        is_whole: bool = False,
    ) -> Variances:
        """Estimate variances from rows that were left out.

        Parameters
        ----------
        errors : array of shape (n_rows, n_outputs)
        found : Conditional
            The distributions that the process predicts.
        noise : array of shape (n_rows,)
            Noise variances of the rows, relative to that of a row of weight 1.
        alpha : float
            The ratio of noise variance to signal variance that the process was learned with.
        n_neighbors : int
        scatter : array of shape (n_outputs,), default=None
            The sum of the weighted squared differences between targets of copies and their means.
        n_spare : float, default=0.0
            The number of targets of copies minus the number of means.
        is_whole : bool, default=False
            Whether all rows have the same neighbors, so that there is one signal variance.
        """
        n_outputs = errors.shape[1]
        degrees = max(n_neighbors - 1, 1)
        spread = found.squares.mean(axis=0) / degrees
        signal, own_noise = np.zeros(n_outputs), np.zeros(n_outputs)
        freedom = np.full(n_outputs, np.inf)
        scatter = np.zeros(n_outputs) if scatter is None else scatter
        # The variance of a row after its own target is known too.
        copy = np.min(found.variance * alpha * noise / (found.variance + alpha * noise))
        variances, noises = np.append(found.variance, copy), np.append(noise, noise.mean())
        for output in np.flatnonzero((errors != 0).any(axis=0)):
            squares = errors[:, output] ** 2
            squares = np.append(squares, squares.mean())
            of_hoods = np.append(found.squares[:, output], 0.0)
            fits = []
            for one in FREEDOMS if spread[output] > 0 and not is_whole else FREEDOMS[:1]:
                scales = local_scales(of_hoods, spread[output], one, degrees)
                errors_of = _Errors(squares, scales * variances, noises, scatter[output], n_spare)
                fits.append((one, errors_of.fitted(alpha)))
            freedom[output], best = _smoothest(fits)
            signal[output], own_noise[output] = best.signal, best.noise
        return cls(signal, own_noise, spread, freedom, n_neighbors)

    def scales(self, squares: Float64Array) -> Float64Array:
        """Return local signal variances relative to their mean, shape (n_queries, n_outputs)."""
        degrees = max(self.n_neighbors - 1, 1)
        parts = zip(squares.T, self.spread, self.freedom, strict=True)
        return np.stack([local_scales(*part, degrees) for part in parts], axis=1)

    def latent(self, found: Conditional) -> Float64Array:
        """Return the variances of the latent functions, shape (n_queries, n_outputs)."""
        return self.signal * self.scales(found.squares) * found.variance[:, None]

    def of_targets(self, found: Conditional, noise: Float64Array | float) -> Float64Array:
        """Return the variances of new targets.

        ``noise`` is relative to that of a row of weight 1, one number or one for each query.
        """
        return self.latent(found) + np.multiply.outer(np.atleast_1d(noise), self.noise)


def local_scales(squares: Array, spread: float, freedom: float, degrees: int) -> Array:
    """Return the signal variances of neighborhoods relative to their mean.

    Examples
    --------
    >>> local_scales(np.array([0.0, 10.0, 30.0]), 1.0, freedom=10.0, degrees=10)
    array([0.5, 1. , 2. ])
    """
    if np.isinf(freedom):
        return np.ones(len(squares))
    return np.asarray((freedom + squares / spread) / (freedom + degrees))


class _Fit(NamedTuple):
    """Variances that were fitted to errors.

    Attributes
    ----------
    signal, noise : float
    costs : array of shape (n_rows,)
        Negative log likelihoods of the errors.
    rest : float
        The negative logarithms of the other factors of the posterior density.
    """

    signal: float
    noise: float
    costs: Array
    rest: float

    @property
    def total(self) -> float:
        return float(self.costs.sum()) + self.rest


class _Errors(NamedTuple):
    """Squared errors with their variances, apart from two factors.

    Attributes
    ----------
    squares : array of shape (n_rows,)
    variances, noise : array of shape (n_rows,)
        The signal and the noise variance multiply them.
    scatter, n_spare : float
        The sum of squares of errors that are noise alone, and their number.
    """

    squares: Array
    variances: Array
    noise: Array
    scatter: float
    n_spare: float

    def fitted(self, alpha: float) -> _Fit:
        """Return the most likely signal and noise variance."""

        def cost(log_ratio: float) -> float:
            return self._given(alpha, log_ratio).total

        place = int(np.argmin([cost(one) for one in LOG_RATIOS]))
        last = len(LOG_RATIOS) - 1
        bounds = LOG_RATIOS[max(place - 1, 0)], LOG_RATIOS[min(place + 1, last)]
        found = optimize.minimize_scalar(cost, bounds=bounds, method="bounded")
        return self._given(alpha, float(found.x))

    def _given(self, alpha: float, log_ratio: float) -> _Fit:
        """Return the most likely signal, if its ratio to the noise is known."""
        ratio = alpha * np.exp(log_ratio)
        total = self.variances + ratio * self.noise
        of_scatter = self.scatter / ratio
        size = len(self.squares) + self.n_spare
        signal = float((np.sum(self.squares / total) + of_scatter) / size)
        costs = 0.5 * (np.log(2.0 * np.pi * signal * total) + self.squares / (signal * total))
        rest = 0.5 * (self.n_spare * np.log(2.0 * np.pi * signal * ratio) + of_scatter / signal)
        return _Fit(signal, float(ratio * signal), costs, float(rest + 0.5 * log_ratio**2))


def _smoothest(tried: list[tuple[float, _Fit]]) -> tuple[float, _Fit]:
    """Return the largest degrees of freedom that are almost the best.

    A few rows would otherwise choose very small ones.
    """
    (most, first), *others = tried
    best = min(tried, key=lambda one: one[1].total)[1]
    if first.total - best.total <= LEAST_GAIN:
        return most, first
    for freedom, fit in others:
        differences = fit.costs - best.costs
        error = float(np.std(differences) * np.sqrt(len(differences)))
        if fit.total - best.total <= error:
            return freedom, fit
    raise AssertionError("the best one is not worse than itself")
