"""The evidence and leave-one-out errors from one Cholesky factor per alpha.

With an eigendecomposition, each alpha is cheap, but the decomposition takes as long as about twenty
Cholesky factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.curves import LeftOutCurve
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.ridge import (
    AlphaPath,
    cholesky,
    default_alphas,
    log_evidence_of,
)

# Number of power iterations that estimate the largest eigenvalue. The estimate is a lower bound.
POWER_STEPS = 8


class Factored:
    """Normal equations that are factored for each alpha. Results are cached.

    Parameters
    ----------
    system : NormalEquations
    """

    def __init__(self, system: NormalEquations) -> None:
        self.system = system
        self.largest = self._largest_eigenvalue()
        self._known: dict[float, tuple[Float64Array, Float64Array, float]] = {}
        self._last: tuple[float, Float64Array] | None = None

    def _largest_eigenvalue(self) -> float:
        vector = np.ones(len(self.system.matrix))
        value = 0.0
        for _ in range(POWER_STEPS):
            vector = blas.dsymv(1.0, self.system.matrix, vector, lower=0)
            value = float(np.linalg.norm(vector))
            if value == 0:
                break
            vector /= value
        return value or 1.0

    @property
    def typical(self) -> float:
        """An alpha to start from: the trace of the Gram matrix per row."""
        trace = float(np.diagonal(self.system.matrix).sum())
        return max(trace / self.system.weight, float(10.0 ** self.decades()[0]))

    def decades(self) -> Float64Array:
        """Return the decimal logarithms of the default alphas: ascending integers."""
        return np.log10(default_alphas(self.system, self.largest, per_decade=1)).round()

    def factor(self, decade: float) -> Float64Array:
        """Return the upper Cholesky factor for the alpha ``10**decade``."""
        if self._last is None or self._last[0] != decade:
            matrix = self.system.matrix.copy(order="F")
            self._last = decade, cholesky(matrix, 10.0**decade)
        return self._last[1]

    def solved_at(self, decade: float) -> tuple[Float64Array, Float64Array, float]:
        """Return the coefficients, the explained sums of squares and the log determinant."""
        if decade not in self._known:
            factor = self.factor(decade)
            coefficients = linalg.cho_solve((factor, False), self.system.right, check_finite=False)
            explained = np.einsum("ij,ij->j", self.system.right, coefficients)
            log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
            self._known[decade] = coefficients, explained, log_determinant
        return self._known[decade]

    def cost(self, decade: float) -> float:
        """Return the negative log evidence; infinite if the factorization fails."""
        try:
            _, explained, log_determinant = self.solved_at(decade)
        except ValueError:
            return np.inf
        evidence, _ = log_evidence_of(
            self.system, np.array([10.0**decade]), explained[None], np.array([log_determinant])
        )
        return -float(evidence[0])

    def left_out(
        self, decades: Float64Array, sample: Any, start: int
    ) -> tuple[Float64Array, LeftOutCurve]:
        """Return the decades that were tried, and the leave-one-out errors of a sample.

        Each row is left out with all its copies. After the decade at ``start``, stop as soon as the
        errors increase.
        """
        unit = float(np.mean(self.system.squares / self.system.weight))
        unit = unit if np.isfinite(unit) and unit > 0 else 1.0
        columns: list[Float64Array] = []
        errors: list[float] = []
        for index, decade in enumerate(decades):
            squares = self._squares(decade, sample) / unit
            columns.append(squares)
            with np.errstate(over="ignore"):
                errors.append(float(sample.weights @ squares))
            if index > start and errors[-1] > errors[-2]:
                break
        curve = LeftOutCurve.of(np.column_stack(columns), sample.weights, unit)
        return decades[: len(columns)], curve

    def _squares(self, decade: float, sample: Any) -> Float64Array:
        """Return the squared leave-one-out errors of rows, averaged over outputs."""
        system = self.system
        try:
            coefficients, _, _ = self.solved_at(decade)
            factor = self.factor(decade)
        except ValueError:
            return np.full(len(sample.Z), np.inf)
        centered = sample.Z - system.feature_means
        half = linalg.solve_triangular(factor, centered.T, trans="T", check_finite=False)
        leverage = np.einsum("ij,ij->j", half, half)
        leverage += 1.0 / system.weight if system.intercept else 0.0
        left = 1.0 - sample.amounts * leverage
        residuals = sample.Y - system.target_means - centered @ coefficients
        with np.errstate(divide="ignore", over="ignore"):
            squares = np.mean((residuals / left[:, None]) ** 2, axis=1)
        return np.where(left > 0, squares, np.inf)

    def path(self, tried: Float64Array, curve: LeftOutCurve | None) -> AlphaPath:
        """Return the criteria for all cached alphas; ``tried`` are the decades of the curve."""
        decades = np.array(sorted(self._known))
        alphas = 10.0**decades
        costs = np.array([self.cost(decade) for decade in decades])
        gcv = np.full(len(decades), np.nan)
        if curve is None:
            return AlphaPath(alphas, gcv, -costs)
        loo, error = np.full((2, len(decades)), np.nan)
        indices = np.searchsorted(decades, tried)
        loo[indices], error[indices] = curve.means, curve.standard_errors()
        return AlphaPath(alphas, gcv, -costs, loo, error)
