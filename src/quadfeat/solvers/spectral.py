"""The normal equations in the basis of their eigenvectors, where any alpha is cheap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.solvers.curves import LeftOutCurve, once
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.ridge import LEAST_UNEXPLAINED, AlphaPath, log_evidence_of, usual_alphas


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
        return usual_alphas(self.system, float(self.values[-1]))

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
        """Return the errors of rows left out, for each alpha.

        Parameters
        ----------
        alphas : array of shape (n_alphas,)
        Z : array of shape (n_rows, n_components)
        Y : array of shape (n_rows, n_outputs)
        weights : array of shape (n_rows,), default=None
        amounts : array of shape (n_rows,), default=None
            The weight that is left out of each row. By default a row that counts several times is
            left out once, so that weights are as good as copies; one that counts less than once is
            left out as a whole.
        """
        vectors = self.vectors.astype(Z.dtype, copy=False)
        turned = (Z - self.system.feature_means.astype(Z.dtype)) @ vectors
        return self.left_out_of_turned(alphas, turned, Y, weights, amounts)

    def left_out_of_turned(
        self, alphas: Float64Array, turned: Array, Y: Float64Array, weights: Any, amounts: Any
    ) -> LeftOutCurve:
        """Return the same for features in the basis of the eigenvectors, minus their means."""
        system = self.system
        shrunk = 1.0 / (self.values[:, None] + alphas)
        leverage = (turned**2) @ shrunk
        leverage += 1.0 / system.weight if system.intercept else 0.0
        amounts = once(weights) if amounts is None else amounts
        if amounts is not None:
            leverage *= amounts[:, None]
        # In units of the targets, numbers of any size can be squared twice.
        with np.errstate(over="ignore"):
            unit = float(np.mean(system.squares / system.weight))
        unit = unit if np.isfinite(unit) and unit > 0 else 1.0
        total = np.zeros(leverage.shape)
        plain = np.zeros(leverage.shape) if Y.shape[1] > 1 else None
        for output, target in enumerate(Y.T):
            # Each target in its own unit, so that none outweighs the others.
            scale = np.sqrt(system.squares[output] / system.weight)
            scale = scale if np.isfinite(scale) and scale > 0 else np.sqrt(unit)
            fitted = turned @ (shrunk * (self.right[:, output, None] / scale))
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
        """Return coefficients, explained squares and the log determinant for an alpha."""
        shrunk = 1.0 / (self.values + alpha)
        coefficients = self.vectors @ (shrunk[:, None] * self.right)
        return coefficients, shrunk @ self.right**2, -float(np.log(shrunk).sum())
