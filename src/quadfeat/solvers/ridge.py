"""Ridge regression from moments: the problem, and criteria for alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.solvers.moments import Moments, NormalEquations

# Without a grid from the user, alphas go from the largest eigenvalue down to this fraction of it,
# or to this multiple of the Gram matrix's rounding error. At that multiple, coefficients are off by
# at most a quarter, and only in directions about which the data says little.
SMALLEST_ALPHA = 1e-12
ALPHA_PER_ERROR = 4.0

# Alphas per decade of that grid. It contains the powers of ten, so it does not depend on rounding
# errors, which change with the order of rows.
STEPS_PER_DECADE = 3

# What is left of products that cancel, relative to them.
ROUNDING = 1e-12

# A variance of the targets that is explained to rounding is taken for this part of it.
LEAST_UNEXPLAINED = 1e-14


@register
@dataclass(frozen=True)
class AlphaPath:
    """Criteria for a path of alphas.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Ascending.
    gcv : array of shape (n_alphas,)
        Generalized cross-validation: an estimate of the mean squared error of new rows. NaN where
        it was not computed.
    log_evidence : array of shape (n_alphas,)
        Log marginal likelihood, summed over outputs.
    loo : array of shape (n_alphas,) or None
        Mean squared error of rows that are left out, exactly: of all rows with ``alpha="loo"`` and,
        if rows can be read again, with ``"auto"``; otherwise of the rows that the model keeps. NaN
        where it was not computed. None if there are no such rows.
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
        """Add what formats before 4 do not have."""
        return attributes if found_format >= 4 else attributes | {"loo_error": None}

    def check_consistency(self) -> None:
        shape = (np.size(self.alphas),)
        checks.check_array(self.alphas, shape, np.float64, "alphas of _solution")
        for values in (self.gcv, self.log_evidence, self.loo, self.loo_error):
            if values is not None:  # infinite if there are no degrees of freedom
                checks.check_kind(values, np.ndarray, "path of _solution")
                checks.expect(values.shape == shape, "path of _solution has two lengths")


@register
@dataclass(frozen=True)
class RidgeProblem:
    """A ridge regression, given by the moments of its rows.

    Attributes
    ----------
    moments : Moments
    intercept : bool
    transform : array of shape (n_outputs + 1, n_targets) or None
        Matrix from the outputs and 1 to the targets; None if they are the same.
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

    def equations(self) -> NormalEquations:
        """Return the normal equations, in new arrays."""
        found = self.moments.normal_equations(intercept=self.intercept, transform=self.transform)
        # Products off the diagonal are not larger.
        for sums, what in ((np.diagonal(found.matrix), "features"), (found.squares, "targets")):
            if not np.isfinite(sums).all():
                raise ValueError(
                    f"the sums of squares of the {what}, with their weights, are beyond the range "
                    "of numbers: rescale X, y or sample_weight, or give gram_dtype='float64'."
                )
        return found


def cholesky(matrix: Float64Array, alpha: float) -> Float64Array:
    """Return the upper factor of ``matrix + alpha I``, written over the matrix."""
    diagonal = np.einsum("ii->i", matrix)
    diagonal += alpha
    factor, info = lapack.dpotrf(matrix, lower=0, clean=0, overwrite_a=1)
    if info != 0:
        raise ValueError(
            f"alpha={alpha:.3g} is too small for these features: their products are not positive "
            "definite to rounding. Give a larger alpha, or gram_dtype='float64'."
        )
    return np.asarray(factor)


def log_evidence_of(
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


def usual_alphas(
    system: NormalEquations, largest: float, per_decade: int = STEPS_PER_DECADE
) -> Float64Array:
    """Return alphas that cover what may be best, and that the Gram matrix can tell apart.

    ``largest`` is the largest eigenvalue of the matrix.
    """
    means = system.feature_means
    # Features that are the same for all rows leave nothing but rounding when they are centered.
    if largest <= ROUNDING * system.weight * float(means @ means):
        largest = 1.0
    smallest = max(SMALLEST_ALPHA * largest, ALPHA_PER_ERROR * system.gram_error)
    if not np.isfinite(smallest):
        raise ValueError(
            "the products of features, with their weights, are beyond the range of float32: "
            "rescale sample_weight, or give gram_dtype='float64'."
        )
    first = per_decade * int(np.ceil(np.log10(smallest)))
    last = int(np.ceil(per_decade * np.log10(largest)))
    steps = np.arange(first, max(last, first + 1) + 1)
    return np.asarray(10.0 ** (steps / per_decade))
