"""The normal equations in the basis of their eigenvectors, where each alpha is cheap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.solvers.curves import LeftOutCurve, left_out_curve
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.ridge import AlphaPath, default_alphas, path_of


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
        shrunk = 1.0 / (self.values + alphas[:, None])
        return path_of(
            self.system,
            alphas,
            explained=shrunk @ self.right**2,
            dual=shrunk**2 @ self.right**2,
            effective=(self.values * shrunk).sum(axis=1),
            log_determinants=-np.log(shrunk).sum(axis=1),
        )

    @property
    def trace(self) -> float:
        """The trace of the Gram matrix."""
        return float(self.values.sum())

    def cast(self, dtype: Any) -> Spectral:
        """Return the same with eigenvectors in a dtype."""
        return replace(self, vectors=self.vectors.astype(dtype, copy=False))

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
        shrunk = 1.0 / (self.values[:, None] + alphas)

        def fitted(output: int, scale: float) -> Float64Array:
            return np.asarray(projected @ (shrunk * (self.right[:, output, None] / scale)))

        leverage = (projected**2) @ shrunk
        return left_out_curve(self.system, leverage, fitted, Y, weights, amounts)

    def solved(self, alpha: float) -> tuple[Float64Array, Float64Array, float]:
        """Return the coefficients, the explained sums of squares and the log determinant."""
        shrunk = 1.0 / (self.values + alpha)
        coefficients = self.vectors @ (shrunk[:, None] * self.right)
        return coefficients, shrunk @ self.right**2, -float(np.log(shrunk).sum())
