"""The evidence and the errors of rows left out by Cholesky factors, one for each alpha.

An eigendecomposition makes any alpha cheap, but takes as long as some twenty factors.
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
    log_evidence_of,
    usual_alphas,
)

# Products with the matrix that estimate its largest eigenvalue, from below.
POWER_STEPS = 8


class Factored:
    """Normal equations that are solved anew for each alpha; results are remembered.

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
        """An alpha to start from: the mean of the eigenvalues per row."""
        trace = float(np.diagonal(self.system.matrix).sum())
        return max(trace / self.system.weight, float(10.0 ** self.decades()[0]))

    def decades(self) -> Float64Array:
        """Return the logarithms of alphas that cover what may be best: integers, ascending."""
        return np.log10(usual_alphas(self.system, self.largest, per_decade=1)).round()

    def factor(self, decade: float) -> Float64Array:
        """Return the upper Cholesky factor for an alpha."""
        if self._last is None or self._last[0] != decade:
            matrix = self.system.matrix.copy(order="F")
            self._last = decade, cholesky(matrix, 10.0**decade)
        return self._last[1]

    def solved_at(self, decade: float) -> tuple[Float64Array, Float64Array, float]:
        """Return coefficients, explained squares and the log determinant for an alpha."""
        if decade not in self._known:
            factor = self.factor(decade)
            coefficients = linalg.cho_solve((factor, False), self.system.right, check_finite=False)
            explained = np.einsum("ij,ij->j", self.system.right, coefficients)
            log_determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
            self._known[decade] = coefficients, explained, log_determinant
        return self._known[decade]

    def cost(self, decade: float) -> float:
        """Return minus the log evidence; infinite where rounding spoils the factor."""
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
        """Return alphas and the errors of rows of a sample, each left out with all its copies.

        From the one at ``start`` on, alphas are tried while the errors become smaller.
        """
        unit = float(np.mean(self.system.squares / self.system.weight))
        unit = unit if np.isfinite(unit) and unit > 0 else 1.0
        columns: list[Float64Array] = []
        errors: list[float] = []
        for place, decade in enumerate(decades):
            squares = self._squares(decade, sample) / unit
            columns.append(squares)
            with np.errstate(over="ignore"):
                errors.append(float(sample.weights @ squares))
            if place > start and errors[-1] > errors[-2]:
                break
        curve = LeftOutCurve.of(np.column_stack(columns), sample.weights, unit)
        return decades[: len(columns)], curve

    def _squares(self, decade: float, sample: Any) -> Float64Array:
        """Return the squared errors of rows left out, a mean over outputs."""
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
        """Return the criteria for all alphas that were tried; ``tried`` are those of the curve."""
        decades = np.array(sorted(self._known))
        alphas = 10.0**decades
        costs = np.array([self.cost(decade) for decade in decades])
        gcv = np.full(len(decades), np.nan)
        if curve is None:
            return AlphaPath(alphas, gcv, -costs)
        loo, error = np.full((2, len(decades)), np.nan)
        places = np.searchsorted(decades, tried)
        loo[places], error[places] = curve.means, curve.standard_errors()
        return AlphaPath(alphas, gcv, -costs, loo, error)
