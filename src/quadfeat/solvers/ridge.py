"""Ridge regression from moments: the problem, the default alphas and the criteria for alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.solvers.moments import Moments, NormalEquations

# The default grid of alphas starts at the largest eigenvalue. It ends at SMALLEST_ALPHA times that,
# or at ALPHA_PER_ERROR times the rounding error of the Gram matrix if that is larger. At that
# multiple, coefficients have relative errors of at most a quarter, and only in directions that the
# data hardly determines.
SMALLEST_ALPHA = 1e-12
ALPHA_PER_ERROR = 4.0

# Alphas per decade of the default grid. The grid contains the powers of ten, so it does not depend
# on rounding errors, which change with the order of rows.
STEPS_PER_DECADE = 3

# Compute leverages in float32 if alpha exceeds this fraction of the mean squared norm of centered
# features. The relative error of 1 - leverage is then at most a hundredth.
FLOAT32_FROM = 1e-3

# Relative rounding error of a difference of products that cancel.
ROUNDING = 1e-12

# Lower limit of the unexplained fraction of the variance of the targets, because of rounding.
LEAST_UNEXPLAINED = 1e-14


@register
@dataclass(frozen=True)
class AlphaPath:
    """Criteria along a path of alphas.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        The alphas that were tried, in ascending order.
    gcv : array of shape (n_alphas,)
        Generalized cross-validation: an estimate of the mean squared error on new rows. NaN where
        it was not computed.
    log_evidence : array of shape (n_alphas,)
        Log marginal likelihood, summed over outputs.
    loo : array of shape (n_alphas,) or None
        Exact leave-one-out mean squared error. With ``alpha="loo"``, and with ``"auto"`` if rows
        can be read again, all rows are left out; otherwise only the rows that the model keeps. NaN
        where it was not computed. None if the model keeps no rows.
    loo_error : array of shape (n_alphas,) or None
        Standard error of the difference between ``loo`` and its smallest value.
    """

    alphas: Float64Array
    gcv: Float64Array
    log_evidence: Float64Array
    loo: Float64Array | None = None
    loo_error: Float64Array | None = None

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Add ``loo_error``, which formats before 4 do not have."""
        return attributes if found_format >= 4 else attributes | {"loo_error": None}

    def check_consistency(self) -> None:
        shape = (np.size(self.alphas),)
        checks.check_array(self.alphas, shape, np.float64, "alphas of _solution")
        for values in (self.gcv, self.log_evidence, self.loo, self.loo_error):
            if values is not None:  # may be infinite
                checks.check_kind(values, np.ndarray, "path of _solution")
                message = "path of _solution has arrays of different lengths"
                checks.expect(values.shape == shape, message)


@register
@dataclass(frozen=True)
class RidgeProblem:
    """A ridge regression problem, given by the moments of its rows.

    Attributes
    ----------
    moments : Moments
    intercept : bool
    transform : array of shape (n_outputs + 1, n_targets) or None
        Matrix ``T`` with targets ``[Y, 1] @ T`` for outputs ``Y``; None if they are the same.
    """

    moments: Moments
    intercept: bool
    transform: Float64Array | None = None

    def check_consistency(self) -> None:
        checks.check_kind(self.moments, Moments, "moments of _solution")
        checks.check_flag(self.intercept, "intercept of _solution")
        if self.transform is not None:
            name = "transform of _solution"
            shape = (self.moments.n_outputs + 1, checks.n_columns_of(self.transform, name))
            checks.check_array(self.transform, shape, np.float64, name)

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return self.moments.n_outputs if self.transform is None else self.transform.shape[1]

    def mean_square(self) -> float:
        """Return the mean squared norm of the features, centered if there is an intercept."""
        products, d = self.moments.products, self.moments.n_components
        weight = self.moments.weight
        means = products[:d, -1] / weight if self.intercept else np.zeros(d)
        return float(np.diagonal(products)[:d].sum() / weight - means @ means)

    def equations(self) -> NormalEquations:
        """Return the normal equations in new arrays."""
        found = self.moments.normal_equations(intercept=self.intercept, transform=self.transform)
        # It is enough to check the diagonal, which bounds all other entries.
        for sums, what in ((np.diagonal(found.matrix), "features"), (found.squares, "targets")):
            if not np.isfinite(sums).all():
                raise ValueError(
                    f"the weighted sums of squares of the {what} overflow. Rescale X, y or "
                    "sample_weight, or use gram_dtype='float64'."
                )
        found.check_underflow()
        return found


def cholesky(matrix: Float64Array, alpha: float) -> Float64Array:
    """Return the upper Cholesky factor of ``matrix + alpha I``; this overwrites the matrix."""
    diagonal = np.einsum("ii->i", matrix)
    diagonal += alpha
    factor, info = lapack.dpotrf(matrix, lower=0, clean=0, overwrite_a=1)
    if info != 0:
        raise ValueError(
            f"alpha={alpha:.3g} is too small: the Gram matrix is not positive definite because of "
            "rounding errors. Use a larger alpha, or gram_dtype='float64'."
        )
    return np.asarray(factor)


def log_evidence_of(
    system: NormalEquations,
    alphas: Float64Array,
    explained: Float64Array,
    log_determinants: Float64Array,
) -> tuple[Float64Array, Float64Array]:
    """Return the log evidence for each alpha, and the signal variance of each output.

    ``explained`` contains the quadratic forms ``r' (A + alpha I)^-1 r``, shape (n_alphas,
    n_outputs). Outputs whose targets are all equal do not contribute to the evidence; their signal
    variance is NaN.
    """
    varies = system.squares > 0
    squares = np.where(varies, system.squares, 1.0)
    unexplained = np.maximum(squares - explained, LEAST_UNEXPLAINED * squares)
    # With an intercept and a total weight near 1, almost no degrees of freedom remain.
    n = max(system.degrees, system.weight / 2.0)
    variance = unexplained / alphas[:, None] / n
    of_alpha = (system.degrees - len(system.matrix)) * np.log(alphas) + log_determinants
    terms = system.degrees * (np.log(2.0 * np.pi * variance) + 1.0) + of_alpha[:, None]
    evidence = -0.5 * terms[:, varies].sum(axis=1)
    if not varies.any():
        evidence = np.full(len(alphas), np.nan)
    return evidence, np.where(varies, variance, np.nan)


def path_of(
    system: NormalEquations,
    alphas: Float64Array,
    explained: Float64Array,
    dual: Float64Array,
    effective: Float64Array,
    log_determinants: Float64Array,
) -> AlphaPath:
    """Return GCV and evidence for each alpha.

    Parameters
    ----------
    system : NormalEquations
    alphas : array of shape (n_alphas,)
    explained, dual : array of shape (n_alphas, n_outputs)
        The quadratic forms ``r' (A + alpha I)^-1 r`` and ``r' (A + alpha I)^-2 r``.
    effective : array of shape (n_alphas,)
        The effective number of parameters, the trace of ``(A + alpha I)^-1 A``.
    log_determinants : array of shape (n_alphas,)
        The log determinants of ``A + alpha I``.
    """
    # The residuals are alpha times the dual coefficients.
    residual = system.squares - explained - alphas[:, None] * dual
    residual = np.maximum(residual, LEAST_UNEXPLAINED * system.squares).sum(axis=1)
    left = system.degrees - effective
    with np.errstate(divide="ignore", invalid="ignore"):
        gcv = system.weight * residual / left**2
    evidence, _ = log_evidence_of(system, alphas, explained, log_determinants)
    return AlphaPath(alphas, np.where(left > 0, gcv, np.inf), evidence)


def default_alphas(
    system: NormalEquations, largest: float, per_decade: int = STEPS_PER_DECADE
) -> Float64Array:
    """Return a grid of all alphas that may be best and that the Gram matrix can resolve.

    ``largest`` is the largest eigenvalue of the Gram matrix.
    """
    means = system.feature_means
    # If all rows are equal, centered features contain only rounding errors.
    if largest <= ROUNDING * system.weight * float(means @ means):
        largest = 1.0
    smallest = max(SMALLEST_ALPHA * largest, ALPHA_PER_ERROR * system.gram_error)
    if not np.isfinite(smallest):
        raise ValueError(
            "the weighted products of features overflow in float32. Rescale sample_weight, or use "
            "gram_dtype='float64'."
        )
    first = per_decade * int(np.ceil(np.log10(smallest)))
    last = int(np.ceil(per_decade * np.log10(largest)))
    steps = np.arange(first, max(last, first + 1) + 1)
    return np.asarray(10.0 ** (steps / per_decade))
