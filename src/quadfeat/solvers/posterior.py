r"""Ridge regression as a Gaussian process: coefficients, evidence, variances, and paths of alphas.

Targets are :math:`y = b + Z \beta + \varepsilon` with :math:`\beta \sim N(0, s^2 I)`,
:math:`\varepsilon \sim N(0, \alpha s^2 I)` and a flat prior of the intercept :math:`b`, if there is
one. With centred moments :math:`A = Z^\top Z`, :math:`r = Z^\top y` and :math:`n` degrees of
freedom the mean of the coefficients is :math:`(A + \alpha I)^{-1} r`, and with :math:`q = (y^\top y
- r^\top (A + \alpha I)^{-1} r) / \alpha` the evidence is

.. math::

    \log p(y) = -\frac{1}{2} \left[n \log(2 \pi s^2) + \frac{q}{s^2} + (n - D) \log \alpha
    + \log |A + \alpha I| \right],

which is largest for :math:`s^2 = q / n`: the signal variance is profiled out. Each output has its
own; alpha is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg, optimize

from quadfeat._utils.lazy import CopiedState, cached_property
from quadfeat._utils.validation import Array, Float64Array, check_positive
from quadfeat.io import checks, register
from quadfeat.solvers.moments import Moments, NormalEquations
from quadfeat.solvers.ridge import AlphaPath, RidgeProblem, cholesky

# Without a grid from the user, alphas go from the largest eigenvalue down to this fraction of it,
# or to this multiple of the Gram matrix's rounding error. At that multiple, coefficients are off by
# at most a quarter, and only in directions about which the data says little.
SMALLEST_ALPHA = 1e-12
ALPHA_PER_ERROR = 4.0

# Alphas per decade of that grid. It contains the powers of ten, so it does not depend on rounding
# errors, which change with the order of rows.
STEPS_PER_DECADE = 3

# A chosen alpha is rounded to this many values per decade, for the same reason.
ALPHAS_PER_DECADE = 100

# An alpha within this factor of the smallest one lies at the edge: a smaller one might be better.
EDGE = 2.0

# What is left of products that cancel, relative to them.
ROUNDING = 1e-12

# A variance of the targets that is explained to rounding is taken for this part of it.
LEAST_UNEXPLAINED = 1e-14

# Noise with a standard deviation below this part of the spacing of float64 at the mean of the
# targets is their rounding, whose own standard deviation is 0.29.
LEAST_NOISE = 0.4

# Rows of the right-hand side that are solved for at once.
ROWS_PER_SOLVE = 1024


@register
@dataclass(frozen=True)
class Posterior(CopiedState):
    """What the rows tell about the coefficients, for one alpha.

    Attributes
    ----------
    coefficients : array of shape (n_components, n_outputs)
    intercept : array of shape (n_outputs,)
    alpha : float
    log_evidence : float
        Summed over outputs.
    signal_variance : array of shape (n_outputs,)
        NaN for outputs whose targets are all equal: it cannot be estimated.
    problem : RidgeProblem
        For the factor that variances need.
    path : AlphaPath or None
        Of the alphas among which this one was chosen.
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
        """Variance of the noise of each output."""
        return self.alpha * self.signal_variance

    def checked_noise_variance(self) -> Float64Array:
        """Return the variance of the noise of each output, if the targets tell it."""
        unknown = np.flatnonzero(np.isnan(self.signal_variance))
        if len(unknown) == 0:
            return self.noise_variance
        which = "" if len(self.signal_variance) == 1 else f" for output {unknown[0]}"
        raise ValueError(
            f"standard deviations cannot be estimated: all targets in y{which} are equal, which "
            "leaves no information about signal or noise. Give rows with different targets."
        )

    @cached_property
    def _factor(self) -> tuple[Float64Array, NormalEquations]:
        equations = self.problem.equations()
        try:
            return cholesky(equations.matrix, self.alpha), equations
        except ValueError:
            if self.path is None:
                raise
        # An alpha that was chosen suits eigenvalues of which rounding has made none negative.
        equations = self.problem.equations()
        return Spectral.of(equations).factor(self.alpha), equations

    def __getstate__(self) -> dict[str, Any]:
        # What can be computed again is not worth pickling.
        state = super().__getstate__()
        state.pop("_factor", None)
        return state

    def leverage(self, Z: Array) -> Float64Array:
        """Return the variance of the mean at rows of features, in units of the noise variance."""
        factor, equations = self._factor
        # An intercept is known no better than the mean of the targets.
        intercept = 1.0 / equations.weight if self.problem.intercept else 0.0
        result = np.empty(len(Z))
        for start in range(0, len(Z), ROWS_PER_SOLVE):
            rows = slice(start, start + ROWS_PER_SOLVE)
            centred = (Z[rows] - equations.feature_means).T
            half = linalg.solve_triangular(
                factor, centred, trans="T", overwrite_b=True, check_finite=False
            )
            result[rows] = np.einsum("ij,ij->j", half, half) + intercept
        return result

    def draw(self, n_draws: int, rng: np.random.Generator) -> tuple[Float64Array, Float64Array]:
        """Return coefficients, shape (n_components, n_outputs, n_draws), and intercepts."""
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


def solve(problem: RidgeProblem, alpha: float) -> Posterior:
    """Return the posterior for one alpha, by a Cholesky factor."""
    system = problem.equations()
    factor = cholesky(system.matrix, alpha)
    coefficients = linalg.cho_solve((factor, False), system.right, check_finite=False)
    log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
    explained = np.einsum("ij,ij->j", system.right, coefficients)
    return _posterior(system, problem, alpha, coefficients, explained, log_determinant)


def _posterior(
    system: NormalEquations,
    problem: RidgeProblem,
    alpha: float,
    coefficients: Float64Array,
    explained: Float64Array,
    log_determinant: float,
    path: AlphaPath | None = None,
) -> Posterior:
    evidence, variance = _log_evidence(
        system, np.array([alpha]), explained[None], np.array([log_determinant])
    )
    if problem.transform is None and problem.intercept:
        _check_noise(system, alpha * variance[0])
    intercept = system.target_means - np.einsum("i,ij->j", system.feature_means, coefficients)
    return Posterior(coefficients, intercept, alpha, float(evidence[0]), variance[0], problem, path)


def _log_evidence(
    system: NormalEquations,
    alphas: Float64Array,
    explained: Float64Array,
    log_determinants: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Return the evidence for each alpha, and the signal variance of each output.

    ``explained``, of shape (n_alphas, n_outputs), are the quadratic forms ``r' (A + alpha I)^-1
    r``. Outputs whose targets are all equal have no variance and no part in the evidence.
    """
    telling = system.squares > 0
    squares = np.where(telling, system.squares, 1.0)
    unexplained = np.maximum(squares - explained, LEAST_UNEXPLAINED * squares)
    # Weights may add up to less than two rows, of which an intercept leaves next to nothing.
    n = max(system.degrees, system.weight / 2.0)
    variance = unexplained / alphas[:, None] / n
    of_alpha = (system.degrees - len(system.matrix)) * np.log(alphas) + log_determinants
    terms = system.degrees * (np.log(2.0 * np.pi * variance) + 1.0) + of_alpha[:, None]
    evidence = -0.5 * terms[:, telling].sum(axis=1)
    if not telling.any():
        evidence = np.full(len(alphas), np.nan)
    return evidence, np.where(telling, variance, np.nan)


def _check_noise(system: NormalEquations, noise_variance: Float64Array) -> None:
    """Raise an error where noise is no more than the rounding of large targets."""
    spacing = np.spacing(np.abs(system.target_means))
    # NaN, where nothing is known of the noise, is not smaller.
    for output in np.flatnonzero(noise_variance < (LEAST_NOISE * spacing) ** 2):
        raise ValueError(
            f"y has a mean of {system.target_means[output]:.6g}, where float64 resolves "
            f"{spacing[output]:.2g}, and noise with a standard deviation of "
            f"{np.sqrt(noise_variance[output]):.2g}: that is rounding. Subtract a constant from y "
            "where it is still known precisely, or give a larger alpha."
        )


@dataclass(frozen=True)
class Spectral:
    """The normal equations in the basis of their eigenvectors, where any alpha is cheap."""

    system: NormalEquations  # whose matrix is no more
    values: Float64Array
    vectors: Float64Array
    right: Float64Array  # (n_components, n_outputs)

    @classmethod
    def of(cls, system: NormalEquations) -> Spectral:
        """Decompose a system, writing on its matrix."""
        values, vectors = linalg.eigh(
            system.matrix, lower=False, overwrite_a=True, check_finite=False, driver="evd"
        )
        return cls(system, np.maximum(values, 0.0), vectors, vectors.T @ system.right)

    def factor(self, alpha: float) -> Float64Array:
        """Return what ``cholesky`` does, but for the signs of rows."""
        roots = np.sqrt(self.values + alpha)
        return np.asarray(linalg.qr(roots[:, None] * self.vectors.T, mode="r")[0])

    def default_alphas(self) -> Float64Array:
        """Return alphas that cover what may be best, and that the Gram matrix can tell apart."""
        means, largest = self.system.feature_means, float(self.values[-1])
        # Features that are the same for all rows leave nothing but rounding when they are centered.
        if largest <= ROUNDING * self.system.weight * float(means @ means):
            largest = 1.0
        smallest = max(SMALLEST_ALPHA * largest, ALPHA_PER_ERROR * self.system.gram_error)
        first = STEPS_PER_DECADE * int(np.ceil(np.log10(smallest)))
        last = int(np.ceil(STEPS_PER_DECADE * np.log10(largest)))
        steps = np.arange(first, max(last, first + 1) + 1)
        return np.asarray(10.0 ** (steps / STEPS_PER_DECADE))

    def path(self, alphas: Float64Array) -> AlphaPath:
        """Return GCV and evidence for each alpha."""
        system, shrunk = self.system, 1.0 / (self.values + alphas[:, None])
        explained = shrunk @ self.right**2
        # Residuals are alpha times the dual coefficients.
        residual = system.squares - explained - alphas[:, None] * (shrunk**2 @ self.right**2)
        residual = np.maximum(residual, LEAST_UNEXPLAINED * system.squares).sum(axis=1)
        left = system.degrees - (self.values * shrunk).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            gcv = system.weight * residual / left**2
        gcv = np.where(left > 0, gcv, np.inf)
        log_determinants = -np.log(shrunk).sum(axis=1)
        evidence, _ = _log_evidence(system, alphas, explained, log_determinants)
        return AlphaPath(alphas, gcv, evidence)

    def refined(self, path: AlphaPath, criterion: str) -> float:
        """Return the best alpha by a criterion, between those of the path too."""
        costs = _costs(path, criterion)
        worst = costs[np.isfinite(costs)].max()

        def cost(log_alpha: float) -> float:
            return min(worst, _costs(self.path(np.exp([log_alpha])), criterion)[0])

        best = int(np.argmin(costs))
        around = np.log(path.alphas[[max(best - 1, 0), min(best + 1, len(path.alphas) - 1)]])
        found = optimize.minimize_scalar(cost, bounds=tuple(around), method="bounded")
        better = found.fun < costs[best]
        log_alpha = found.x if better else np.log(path.alphas[best])
        step = np.log(10.0) / ALPHAS_PER_DECADE
        return float(np.exp(step * np.round(log_alpha / step)))

    def leave_one_out(
        self, alphas: Float64Array, blocks: Iterable[tuple[Array, Float64Array, Any]]
    ) -> Float64Array:
        """Return the mean squared error of rows left out, for each alpha.

        ``blocks`` are features, targets and weights of all rows once more.
        """
        total = np.zeros(len(alphas))
        for Z, Y, weights in blocks:
            vectors = self.vectors.astype(Z.dtype, copy=False)
            total += self.left_out_squares(alphas, Z, Y, weights, vectors)
        return total / self.left_out_weight

    @property
    def left_out_weight(self) -> float:
        """By what the sum of ``left_out_squares`` over all rows is divided for a mean."""
        return self.system.weight * self.system.right.shape[1]

    def left_out_squares(
        self, alphas: Float64Array, Z: Array, Y: Float64Array, weights: Any, vectors: Array
    ) -> Float64Array:
        """Return the sum of squared errors of rows left out, for each alpha.

        A row that counts several times is left out once, so that weights are as good as copies; one
        that counts less than once is left out as a whole.

        Parameters
        ----------
        alphas : array of shape (n_alphas,)
        Z : array of shape (n_rows, n_components)
        Y : array of shape (n_rows, n_outputs)
        weights : array of shape (n_rows,) or None
        vectors : array of shape (n_components, n_components)
            Those of this object, in the dtype of ``Z``.
        """
        system = self.system
        shrunk = 1.0 / (self.values[:, None] + alphas)
        intercept = 1.0 / system.weight if system.intercept else 0.0
        total = np.zeros(len(alphas))
        turned = (Z - system.feature_means.astype(Z.dtype)) @ vectors
        leverage = (turned**2) @ shrunk + intercept
        counts = np.ones(len(Z)) if weights is None else weights
        leverage *= np.minimum(counts, 1.0)[:, None]
        for output, target in enumerate(Y.T):
            fitted = turned @ (shrunk * self.right[:, output, None])
            residual = (target - system.target_means[output])[:, None] - fitted
            with np.errstate(divide="ignore", invalid="ignore"):
                left_out = residual / (1.0 - leverage)
            squares = np.where(leverage < 1.0, left_out**2, np.inf)
            total += counts[counts > 0] @ squares[counts > 0]  # 0 times infinity is nothing
        return total

    def posterior(self, alpha: float, problem: RidgeProblem, path: AlphaPath) -> Posterior:
        """Return the posterior for an alpha."""
        shrunk = 1.0 / (self.values + alpha)
        coefficients = self.vectors @ (shrunk[:, None] * self.right)
        explained = shrunk @ self.right**2
        log_determinant = -float(np.log(shrunk).sum())
        return _posterior(
            self.system, problem, alpha, coefficients, explained, log_determinant, path
        )


def _costs(path: AlphaPath, criterion: str) -> Float64Array:
    """Return what is to be as small as possible, for each alpha."""
    if criterion == "loo":
        assert path.loo is not None
        return path.loo
    return path.gcv if criterion == "gcv" else -path.log_evidence


def choose_alpha(
    problem: RidgeProblem,
    criterion: str,
    alphas: Float64Array | None,
    left_out: Callable[[Spectral, Float64Array], Float64Array] | None = None,
) -> Posterior:
    """Return the posterior for the best alpha.

    Parameters
    ----------
    problem : RidgeProblem
    criterion : {"gcv", "evidence", "loo"}
    alphas : array or None
        All that is tried; None for a path that covers what may be best, and what is between.
    left_out : callable
        For ``"loo"``: returns the sum of ``Spectral.leave_one_out`` over all rows, for some alphas.
    """
    spectral = Spectral.of(problem.equations())
    tried = spectral.default_alphas() if alphas is None else np.sort(alphas)
    path = spectral.path(tried)
    if criterion == "loo":
        assert left_out is not None
        path = replace(path, loo=left_out(spectral, tried))
    system = spectral.system
    telling = bool((system.squares > 0).any())
    if not telling and (system.degrees > 0 or criterion == "evidence"):
        # Equal targets: every alpha predicts the same, and the largest needs no digits.
        return spectral.posterior(float(tried[-1]), problem, path)
    if not np.isfinite(_costs(path, criterion)).any():
        raise ValueError(
            f"alpha={criterion!r} cannot tell which alpha is best: all rows together count as "
            f"{system.weight:.3g} sample(s), which leaves none to judge by. Give a "
            "number, more rows, or weights that say how often each row counts."
        )
    if alphas is None and criterion != "loo":
        best = spectral.refined(path, criterion)
    else:
        best = float(path.alphas[int(np.argmin(_costs(path, criterion)))])
    return spectral.posterior(best, problem, path)


def is_below_precision(moments: Moments, alpha: float, smallest: float = 0.0) -> bool:
    """Return whether an alpha is too small for a Gram matrix that was multiplied in float32.

    ``smallest`` is the smallest alpha that was tried because of the error of the matrix.
    """
    error = moments.gram_error()
    trace = float(np.diagonal(moments.products)[: moments.n_components].sum())
    return error > ROUNDING * trace and alpha < EDGE * max(ALPHA_PER_ERROR * error, smallest)
