"""The normal equations in the basis of their eigenvectors, where each alpha is cheap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.solvers.curves import LeftOutCurve, weight_of_one_copy
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.ridge import LEAST_UNEXPLAINED, AlphaPath, default_alphas, log_evidence_of


@dataclass(frozen=True)
class Spectral:
    """The normal equations in the basis of their eigenvectors, where each alpha is cheap."""

    system: NormalEquations  # its matrix has been overwritten
    values: Float64Array
    vectors: Float64Array
    right: Float64Array  # (n_components, n_outputs)

    @classmethod
    def of(cls, system: NormalEquations) -> Spectral:
        """Decompose a system; this overwrites its matrix."""
        values, vectors = linalg.eigh(
            system.matrix, lower=False, overwrite_a=True, check_finite=False, driver="evd"
        )
        return cls(system, np.maximum(values, 0.0), vectors, vectors.T @ system.right)

    def factor(self, alpha: float) -> Float64Array:
        """Return the same factor as ``cholesky``, up to the signs of rows."""
        roots = np.sqrt(self.values + alpha)
        return np.asarray(linalg.qr(roots[:, None] * self.vectors.T, mode="r")[0])

    def default_alphas(self) -> Float64Array:
        """Return the default grid of alphas; see ``ridge.default_alphas``."""
        return default_alphas(self.system, float(self.values[-1]))

    def path(self, alphas: Float64Array) -> AlphaPath:
        """Return GCV and evidence for each alpha."""
        system, shrunk = self.system, 1.0 / (self.values + alphas[:, None])
        explained = shrunk @ self.right**2
        # The residuals are alpha times the dual coefficients.
        residual = system.squares - explained - alphas[:, None] * (shrunk**2 @ self.right**2)
        residual = np.maximum(residual, LEAST_UNEXPLAINED * system.squares).sum(axis=1)
        left = system.degrees - (self.values * shrunk).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            gcv = system.weight * residual / left**2
        gcv = np.where(left > 0, gcv, np.inf)
        log_determinants = -np.log(shrunk).sum(axis=1)
        evidence, _ = log_evidence_of(system, alphas, explained, log_determinants)
        return AlphaPath(alphas, gcv, evidence)

    def left_out(
        self,
        alphas: Float64Array,
        Z: Array,
        Y: Float64Array,
        weights: Any = None,
        amounts: Any = None,
    ) -> LeftOutCurve:
        """Return the leave-one-out errors of rows, for each alpha.

        Parameters
        ----------
        alphas : array of shape (n_alphas,)
        Z : array of shape (n_rows, n_components)
        Y : array of shape (n_rows, n_outputs)
        weights : array of shape (n_rows,), default=None
        amounts : array of shape (n_rows,), default=None
            The weight to leave out of each row. By default, leave out one copy: a weight of 1, or
            the whole row if its weight is smaller.
        """
        vectors = self.vectors.astype(Z.dtype, copy=False)
        projected = (Z - self.system.feature_means.astype(Z.dtype)) @ vectors
        return self.left_out_of_projected(alphas, projected, Y, weights, amounts)

    def left_out_of_projected(
        self, alphas: Float64Array, projected: Array, Y: Float64Array, weights: Any, amounts: Any
    ) -> LeftOutCurve:
        """Return leave-one-out errors, given centered features in the basis of the eigenvectors."""
        system = self.system
        shrunk = 1.0 / (self.values[:, None] + alphas)
        leverage = (projected**2) @ shrunk
        leverage += 1.0 / system.weight if system.intercept else 0.0
        amounts = weight_of_one_copy(weights) if amounts is None else amounts
        if amounts is not None:
            leverage *= amounts[:, None]
        # Divide by the variance of the targets, so that squares of squares do not overflow.
        with np.errstate(over="ignore"):
            unit = float(np.mean(system.squares / system.weight))
        unit = unit if np.isfinite(unit) and unit > 0 else 1.0
        total = np.zeros(leverage.shape)
        plain = np.zeros(leverage.shape) if Y.shape[1] > 1 else None
        for output, target in enumerate(Y.T):
            # Scale each target by its standard deviation, so that all targets count equally.
            scale = np.sqrt(system.squares[output] / system.weight)
            scale = scale if np.isfinite(scale) and scale > 0 else np.sqrt(unit)
            fitted = projected @ (shrunk * (self.right[:, output, None] / scale))
            residual = ((target - system.target_means[output]) / scale)[:, None] - fitted
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                errors = residual / (1.0 - leverage)
                squares = np.where(leverage < 1.0, errors**2, np.inf)
                total += squares
                if plain is not None:
                    plain += squares * (scale**2 / unit)
        with np.errstate(over="ignore", invalid="ignore"):
            plain = None if plain is None else plain / Y.shape[1]
            return LeftOutCurve.of(total / Y.shape[1], weights, unit, plain)

    def solved(self, alpha: float) -> tuple[Float64Array, Float64Array, float]:
        """Return the coefficients, the explained sums of squares and the log determinant."""
        shrunk = 1.0 / (self.values + alpha)
        coefficients = self.vectors @ (shrunk[:, None] * self.right)
        return coefficients, shrunk @ self.right**2, -float(np.log(shrunk).sum())
