r"""Ridge regression as a Gaussian process: coefficients, evidence and variances.

The model is :math:`y = b + Z \beta + \varepsilon` with :math:`\beta \sim N(0, s^2 I)`,
:math:`\varepsilon \sim N(0, \alpha s^2 I)` and an optional intercept :math:`b` with a flat prior.
Let :math:`A = Z^\top Z` and :math:`r = Z^\top y` be centered moments with :math:`n` degrees of
freedom. The posterior mean of the coefficients is :math:`(A + \alpha I)^{-1} r`. With
:math:`q = (y^\top y - r^\top (A + \alpha I)^{-1} r) / \alpha`, the evidence is

.. math::

    \log p(y) = -\frac{1}{2} \left[n \log(2 \pi s^2) + \frac{q}{s^2} + (n - D) \log \alpha
    + \log |A + \alpha I| \right],

which is largest for :math:`s^2 = q / n`. Each output has its own signal variance :math:`s^2`; all
outputs share alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils.lazy import CopiedState, cached_property
from quadfeat._utils.validation import Array, Float64Array, check_positive
from quadfeat.io import checks, register
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.ridge import FLOAT32_FROM, AlphaPath, RidgeProblem, cholesky, log_evidence_of
from quadfeat.solvers.spectral import Spectral

# Smallest standard deviation of the noise, in units of the spacing of float64 at the mean of the
# targets. The rounding errors of the targets have a standard deviation of 0.29 in these units.
LEAST_NOISE = 0.4

# Number of rows whose leverages are computed at once.
ROWS_PER_SOLVE = 1024


@register
@dataclass(frozen=True)
class Posterior(CopiedState):
    """The posterior distribution of the coefficients, for one alpha.

    Attributes
    ----------
    coefficients : array of shape (n_components, n_outputs)
    intercept : array of shape (n_outputs,)
    alpha : float
    log_evidence : float
        The log marginal likelihood, summed over outputs.
    signal_variance : array of shape (n_outputs,)
        NaN for outputs whose targets are all equal, where it cannot be estimated.
    problem : RidgeProblem
        The problem, from which the Cholesky factor for variances is computed.
    path : AlphaPath or None
        The alphas from which this one was chosen.
    """

    coefficients: Float64Array
    intercept: Float64Array
    alpha: float
    log_evidence: float
    signal_variance: Float64Array
    problem: RidgeProblem
    path: AlphaPath | None = None

    def check_consistency(self) -> None:
        checks.check_kind(self.problem, RidgeProblem, "problem of _solution")
        shape = (self.problem.moments.n_components, self.problem.n_targets)
        checks.check_array(self.coefficients, shape, np.float64, "coefficients of _solution")
        checks.check_array(self.intercept, shape[1:], np.float64, "intercept of _solution")
        check_positive(self.alpha, "alpha of _solution")
        checks.check_number(self.log_evidence, "log_evidence of _solution")
        # NaN for outputs whose targets are all equal.
        variance, name = self.signal_variance, "signal_variance of _solution"
        checks.check_kind(variance, np.ndarray, name)
        known = np.nan_to_num(variance, nan=0.0, posinf=np.inf)
        checks.check_array(known, shape[1:], np.float64, name)
        if self.path is not None:
            checks.check_kind(self.path, AlphaPath, "path of _solution")

    @property
    def noise_variance(self) -> Float64Array:
        """The noise variance of each output."""
        return self.alpha * self.signal_variance

    def checked_noise_variance(self) -> Float64Array:
        """Return the noise variance of each output; raise an error if one cannot be estimated."""
        unknown = np.flatnonzero(np.isnan(self.signal_variance))
        if len(unknown) == 0:
            return self.noise_variance
        which = "" if len(self.signal_variance) == 1 else f" for output {unknown[0]}"
        raise ValueError(
            f"standard deviations cannot be estimated, because all targets in y{which} are equal. "
            "Add rows with different targets."
        )

    @cached_property
    def _factor(self) -> tuple[Float64Array, NormalEquations]:
        equations = self.problem.equations()
        try:
            return cholesky(equations.matrix, self.alpha), equations
        except ValueError:
            if self.path is None:
                raise
        # Alpha was chosen for eigenvalues that are clipped at zero, so use these here too.
        equations = self.problem.equations()
        return Spectral.of(equations).factor(self.alpha), equations

    @property
    def relative_units(self) -> Float64Array:
        """The variance of each target divided by the mean variance, shape (n_outputs,).

        Squared errors are divided by these, so that all targets count equally in any units.
        """
        squares = self._factor[1].squares
        mean = float(squares.mean())
        if len(squares) == 1 or mean == 0:
            return np.ones(len(squares))
        return np.where(squares > 0, squares / mean, 1.0)

    @property
    def center(self) -> Float64Array:
        """The prediction at the means of the features, shape (n_outputs,)."""
        return np.asarray(self.intercept + self._factor[1].feature_means @ self.coefficients)

    def __getstate__(self) -> dict[str, Any]:
        # The factor can be computed again.
        state = super().__getstate__()
        for name in ("_factor", "_single_factor"):
            state.pop(name, None)
        return state

    @cached_property
    def _single_factor(self) -> Array:
        """The Cholesky factor in float32."""
        return self._factor[0].astype(np.float32)

    @property
    def allows_float32(self) -> bool:
        """Whether alpha is large enough for leverages in float32."""
        return self.alpha >= FLOAT32_FROM * self.problem.mean_square()

    def leverage(self, Z: Array, *, single: bool = False) -> Float64Array:
        """Return the variance of the posterior mean for rows of features, in noise variances.

        With ``single``, solve in float32, which is twice as fast; see ``allows_float32``.
        """
        factor, equations = self._factor
        if single:
            factor = self._single_factor
        # The intercept adds the variance of the mean of the targets.
        intercept = 1.0 / equations.weight if self.problem.intercept else 0.0
        result = np.empty(len(Z))
        for start in range(0, len(Z), ROWS_PER_SOLVE):
            rows = slice(start, start + ROWS_PER_SOLVE)
            centered = (Z[rows] - equations.feature_means).T.astype(factor.dtype, copy=False)
            half = linalg.solve_triangular(
                factor, centered, trans="T", overwrite_b=True, check_finite=False
            )
            result[rows] = np.einsum("ij,ij->j", half, half) + intercept
        return result

    def relative_covariance(self, Z: Array) -> Float64Array:
        """Return the posterior covariance of the values at rows of features, in noise variances."""
        factor, equations = self._factor
        intercept = 1.0 / equations.weight if self.problem.intercept else 0.0
        centered = (Z - equations.feature_means).T
        half = linalg.solve_triangular(
            factor, centered, trans="T", overwrite_b=True, check_finite=False
        )
        return np.asarray(half.T @ half + intercept)

    def draw(self, n_draws: int, rng: np.random.Generator) -> tuple[Float64Array, Float64Array]:
        """Draw coefficients, shape (n_components, n_outputs, n_draws), and intercepts."""
        factor, equations = self._factor
        shape = (*self.coefficients.shape, n_draws)
        noise = rng.standard_normal((shape[0], shape[1] * n_draws))
        deviations = np.sqrt(self.checked_noise_variance())[:, None]
        steps = linalg.solve_triangular(factor, noise, check_finite=False).reshape(shape)
        steps *= deviations
        intercepts = np.repeat(self.intercept[:, None], n_draws, axis=1)
        if self.problem.intercept:
            at_means = rng.standard_normal((shape[1], n_draws)) / np.sqrt(equations.weight)
            intercepts += at_means * deviations
            intercepts -= np.einsum("i,ijk->jk", equations.feature_means, steps)
        return self.coefficients[:, :, None] + steps, intercepts


def leverage_at(posterior: Posterior, features: FeatureMap, X: Any) -> Float64Array:
    """Return the leverage of rows; features are computed one block at a time."""
    leverage = np.empty(X.shape[0])
    for start in range(0, X.shape[0], ROWS_PER_SOLVE):
        rows = slice(start, start + ROWS_PER_SOLVE)
        leverage[rows] = posterior.leverage(features.columns(X[rows]))
    return leverage


def solve(problem: RidgeProblem, alpha: float) -> Posterior:
    """Return the posterior for one alpha, from a Cholesky factor."""
    system = problem.equations()
    factor = cholesky(system.matrix, alpha)
    coefficients = linalg.cho_solve((factor, False), system.right, check_finite=False)
    log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
    explained = np.einsum("ij,ij->j", system.right, coefficients)
    return posterior_of(system, problem, alpha, coefficients, explained, log_determinant)


def posterior_of(
    system: NormalEquations,
    problem: RidgeProblem,
    alpha: float,
    coefficients: Float64Array,
    explained: Float64Array,
    log_determinant: float,
    path: AlphaPath | None = None,
) -> Posterior:
    """Return the posterior for coefficients that have been computed.

    ``explained`` contains the quadratic forms ``r' (A + alpha I)^-1 r`` of the outputs, and
    ``log_determinant`` is the log determinant of ``A + alpha I``.
    """
    evidence, variance = log_evidence_of(
        system, np.array([alpha]), explained[None], np.array([log_determinant])
    )
    if problem.transform is None and problem.intercept:
        _check_noise(system, alpha * variance[0])
    intercept = system.target_means - np.einsum("i,ij->j", system.feature_means, coefficients)
    return Posterior(coefficients, intercept, alpha, float(evidence[0]), variance[0], problem, path)


def _check_noise(system: NormalEquations, noise_variance: Float64Array) -> None:
    """Raise an error if the noise is as small as the rounding errors of the targets."""
    spacing = np.spacing(np.abs(system.target_means))
    # Comparisons with NaN (unknown noise) are false.
    for output in np.flatnonzero(noise_variance < (LEAST_NOISE * spacing) ** 2):
        raise ValueError(
            "the noise in y has a standard deviation of "
            f"{np.sqrt(noise_variance[output]):.2g}, which is below the resolution "
            f"{spacing[output]:.2g} of float64 at the mean {system.target_means[output]:.6g}. "
            "Subtract a constant from y before converting it to float64, or use a larger alpha."
        )
