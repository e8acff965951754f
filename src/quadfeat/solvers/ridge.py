"""Ridge regression from moments: the problem, and criteria for alpha."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.solvers.moments import Moments, NormalEquations


@register
@dataclass(frozen=True)
class AlphaPath:
    """Criteria for a path of alphas.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        Ascending.
    gcv : array of shape (n_alphas,)
        Generalized cross-validation: an estimate of the mean squared error of new rows.
    log_evidence : array of shape (n_alphas,)
        Log marginal likelihood, summed over outputs.
    loo : array of shape (n_alphas,) or None
        Mean squared error of each row when left out, exactly; only with ``alpha="loo"``.
    """

    alphas: Float64Array
    gcv: Float64Array
    log_evidence: Float64Array
    loo: Float64Array | None = None

    def check_consistency(self) -> None:
        shape = (np.size(self.alphas),)
        checks.check_array(self.alphas, shape, np.float64, "alphas of _solution")
        for values in (self.gcv, self.log_evidence, self.loo):
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
