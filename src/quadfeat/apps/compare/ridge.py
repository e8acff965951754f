"""Ridge regression whose penalty is chosen on rows that are held out, at little extra cost.

scikit-learn's ``RidgeCV`` decomposes the whole matrix of features, which takes minutes for
thousands of them. Here the moments of the held-out rows are taken off those of all rows, so
that each penalty costs one Cholesky factorisation. The result is that of scikit-learn's ``Ridge``
and ``RidgeClassifier`` with the chosen ``alpha``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Array, Float64Array

PENALTIES = tuple(10.0**k for k in range(-3, 3))
MANY_ROWS = 2000  # beyond, a fifth of the rows is held out; up to here, each fifth in turn


@dataclass(frozen=True)
class Fit:
    """A fitted ridge regression: ``predict`` takes features, or rows of the kernel matrix."""

    alpha: float
    coefficients: Float64Array
    intercept: Float64Array

    def predict(self, Z: Float64Array) -> Float64Array:
        """Return predictions, a column for each of the targets."""
        return np.asarray(Z @ self.coefficients + self.intercept)


def fit_features(Z: Float64Array, Y: Float64Array, weights: Float64Array) -> Fit:
    """Return the ridge regression of the columns of ``Y`` on features.

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n_components)
    Y : ndarray of shape (n_rows, n_targets)
    weights : ndarray of shape (n_rows,)
        Of the squared errors.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.random.default_rng(0).standard_normal((100, 3))
    >>> fit = fit_features(Z, Z[:, :1] + 2.0, np.ones(100))
    >>> fit.alpha, abs(fit.coefficients.ravel()).round(3)
    (0.001, array([1., 0., 0.]))
    """
    if Z.shape[1] > len(Z):
        fit = fit_kernel(Z @ Z.T, Y, weights)
        return Fit(fit.alpha, Z.T @ fit.coefficients, fit.intercept)
    whole = _Moments.of(Z, Y, weights)
    errors = np.zeros(len(PENALTIES))
    for part in _held_out(len(Z)):
        rest = whole.without(_Moments.of(Z[part], Y[part], weights[part]))
        for k, alpha in enumerate(PENALTIES):
            errors[k] += _squared_error(rest.solve(alpha), Z[part], Y[part], weights[part])
    return _first_that_solves(whole.solve, errors)


def fit_kernel(K: Float64Array, Y: Float64Array, weights: Float64Array) -> Fit:
    """Return the ridge regression of the columns of ``Y`` on a kernel matrix.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> fit = fit_kernel(np.exp(-((x - x.T) ** 2)), x**2, np.ones(50))
    >>> bool(abs(fit.predict(np.exp(-((x - x.T) ** 2))) - x**2).max() < 0.02)
    True
    """

    def solve(rows: Array, alpha: float) -> Fit | None:
        # With an intercept, which is not penalised, the system has one more row: sum(a) = 0.
        system = K[np.ix_(rows, rows)] + np.diag(alpha / weights[rows])
        ones_and_targets = np.column_stack([np.ones(len(rows)), Y[rows]])
        solution = _solve(system, ones_and_targets)
        if solution is None:
            return None
        intercept = solution[:, 1:].sum(axis=0) / solution[:, 0].sum()
        return Fit(alpha, solution[:, 1:] - solution[:, :1] * intercept, intercept)

    everything = np.arange(len(K))
    errors = np.zeros(len(PENALTIES))
    for part in _held_out(len(K)):
        rest = np.setdiff1d(everything, part)
        for k, alpha in enumerate(PENALTIES):
            block = K[np.ix_(part, rest)]
            errors[k] += _squared_error(solve(rest, alpha), block, Y[part], weights[part])
    return _first_that_solves(lambda alpha: solve(everything, alpha), errors)


@dataclass(frozen=True)
class _Moments:
    """Weighted sums over rows, all that a regression needs to know of them."""

    weight: float
    z: Float64Array
    y: Float64Array
    zz: Float64Array
    zy: Float64Array

    @classmethod
    def of(cls, Z: Float64Array, Y: Float64Array, weights: Float64Array) -> _Moments:
        if (weights == 1.0).all():
            return cls(float(len(Z)), Z.sum(axis=0), Y.sum(axis=0), Z.T @ Z, Z.T @ Y)
        root = np.sqrt(weights)[:, None]
        Z, Y = Z * root, Y * root
        z, y = (root * Z).sum(axis=0), (root * Y).sum(axis=0)
        return cls(float(weights.sum()), z, y, Z.T @ Z, Z.T @ Y)

    def without(self, part: _Moments) -> _Moments:
        return _Moments(
            self.weight - part.weight,
            self.z - part.z,
            self.y - part.y,
            self.zz - part.zz,
            self.zy - part.zy,
        )

    def solve(self, alpha: float) -> Fit | None:
        z, y = self.z / self.weight, self.y / self.weight
        system = self.zz - np.outer(self.z, z)
        system[np.diag_indices_from(system)] += alpha
        coefficients = _solve(system, self.zy - np.outer(self.z, y))
        return None if coefficients is None else Fit(alpha, coefficients, y - z @ coefficients)


def _solve(system: Float64Array, right: Float64Array) -> Float64Array | None:
    """Return the solution of a positive definite system, unless rounding made it another."""
    try:
        factor = linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    return np.asarray(linalg.cho_solve(factor, right, check_finite=False))


def _squared_error(
    fit: Fit | None, Z: Float64Array, Y: Float64Array, weights: Float64Array
) -> float:
    if fit is None:
        return np.inf
    return float((weights[:, None] * (Y - fit.predict(Z)) ** 2).sum())


def _held_out(n: int) -> list[Array]:
    """Return the rows of each part that is held out, the same for all that have as many rows."""
    parts = np.array_split(np.random.default_rng(0).permutation(n), min(5, n))
    return parts[:1] if n > MANY_ROWS else parts


def _first_that_solves(solve: Callable[[float], Fit | None], errors: Float64Array) -> Fit:
    """Return the fit with the best penalty, or the next best if rounding does not allow that."""
    for k in np.argsort(errors, kind="stable"):
        fit = solve(PENALTIES[k])
        if fit is not None:
            return fit
    raise ValueError("no penalty makes the system positive definite: rescale the columns.")
