"""Normal equations whose matrix is not stored: only products with it are computed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows
from quadfeat.data.watch import Watch
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.base import Problem
from quadfeat.solvers.moments import RightHandSide
from quadfeat.solvers.summaries import Summary
from quadfeat.solvers.targets import Outputs

EPS = float(np.finfo(np.float64).eps)

# Targets are constant up to rounding if their relative deviation from the mean is below this.
ROUNDING = 8.0 * EPS


@dataclass(frozen=True)
class ImplicitEquations(RightHandSide):
    """Normal equations whose matrix is not stored.

    Attributes
    ----------
    multiply : callable
        Multiplies the matrix by vectors of shape (n_components, n_vectors).
    """

    multiply: Callable[[Float64Array], Float64Array]

    def intercept_for(self, coefficients: Float64Array) -> Float64Array:
        """Return the best intercept for given coefficients, shape (n_outputs,)."""
        return np.asarray(self.target_means - self.feature_means @ coefficients)


@dataclass(frozen=True)
class Residuals:
    """Sums of the residuals of predictions over rows, in float64.

    Attributes
    ----------
    products : array of shape (n_components, n_outputs + 1)
        Weighted products of features and residuals. The last residual is a column of ones.
    sums : array of shape (n_outputs + 1,)
        Weighted sums of residuals, and of ones.
    rounding : array of shape (n_outputs,)
        Weighted sums of squares of the rounding errors of predictions.
    squares : float
        Weighted sum of squares of the features.
    """

    products: Float64Array
    sums: Float64Array
    rounding: Float64Array
    squares: float

    def merged(self, other: Residuals) -> Residuals:
        """Return the sums over both sets of rows."""
        return Residuals(
            self.products + other.products,
            self.sums + other.sums,
            self.rounding + other.rounding,
            self.squares + other.squares,
        )


class System:
    """Products of the features and targets of rows from any source.

    Parameters
    ----------
    rows : Rows
    problem : Problem
    summary : Summary
        A summary of any of the rows that has all classes.
    """

    def __init__(self, rows: Rows, problem: Problem, summary: Summary) -> None:
        self.rows = rows
        self.part = PartOfSystem(problem, summary)

    @classmethod
    def of(cls, problem: Problem, rows: Rows, watch: Watch | None = None) -> System:
        """Return the system of a problem, after a pass over the targets of all rows."""
        look = partial(Outputs.of, problem.targets)
        return cls(rows, problem, rows.each(look, Outputs.merged, watch).summary)

    @property
    def classes(self) -> Array | None:
        """The classes of a classifier."""
        return self.part.summary.classes

    @property
    def shift(self) -> Float64Array:
        """The shift of the targets, which is added to predictions, shape (n_outputs,)."""
        return self.part.shift

    def borders(self) -> tuple[Float64Array, Float64Array]:
        """Return the weighted products of features with targets, and of targets with each other.

        The last target is a column of ones.
        """
        found: tuple[Float64Array, Float64Array] = self.rows.each(self.part.borders, sum_pairs)
        return found

    def multiply(self, vectors: Float64Array) -> Float64Array:
        """Return ``Z' W Z`` times vectors."""
        task = partial(self.part.multiply, np.ascontiguousarray(vectors))
        product: Float64Array = self.rows.each(task, operator.add)
        return product

    def residuals(self, coefficients: Float64Array, intercept: Float64Array) -> Residuals:
        """Return sums of the residuals for coefficients of shape (n_components, n_outputs)."""
        task = partial(self.part.residuals, np.ascontiguousarray(coefficients), intercept)
        found: Residuals = self.rows.each(task, Residuals.merged)
        return found

    def check(
        self, equations: ImplicitEquations, alpha: float, coefficients: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return the true residual of the normal equations, and the rounding of predictions.

        Features are computed in the dtype of the rows; everything else is computed in float64. The
        rounding of an output is the norm of the rounding errors of its predictions.
        """
        found = self.residuals(coefficients, equations.intercept_for(coefficients))
        products, sums = found.products[:, :-1], found.sums[:-1]
        rounding = np.sqrt(found.rounding)
        # Add the error of this computation. The rounding error of a sum of n terms grows as the
        # square root of n.
        lengths = np.linalg.norm(coefficients, axis=0)
        rounding += EPS * np.sqrt(len(coefficients) * found.squares) * lengths
        if equations.intercept:
            weight = found.sums[-1]
            products = products - np.outer(found.products[:, -1] / weight, sums)
            rounding += np.abs(sums) / np.sqrt(weight)  # the error of the intercept
        return products - alpha * coefficients, rounding

    def scales(self, equations: ImplicitEquations) -> Float64Array:
        """Return the norms of the centered targets, to which errors are relative.

        For targets that are constant up to rounding, return the norm of their means.
        """
        lengths = np.sqrt(equations.squares)
        root = np.sqrt(equations.weight)
        means = root * np.abs(equations.target_means + self.shift)
        differences = root * np.abs(equations.target_means)
        rounding = ROUNDING * means + np.sqrt(ROUNDING) * differences
        return np.asarray(np.where(lengths > rounding, lengths, means))

    def equations(self, intercept: bool) -> ImplicitEquations:
        """Return the normal equations; with an intercept, features and targets are centered."""
        right_side = RightHandSide.of(*self.borders(), intercept=intercept).checked()
        sums = right_side.weight * right_side.feature_means

        def centered(vectors: Float64Array) -> Float64Array:
            return self.multiply(vectors) - np.outer(sums, right_side.feature_means @ vectors)

        multiply = centered if intercept else self.multiply
        return ImplicitEquations(**vars(right_side), multiply=multiply)


@dataclass(frozen=True)
class PartOfSystem:
    """Computes the contributions of single blocks of rows to a system."""

    problem: Problem
    summary: Summary

    @property
    def shift(self) -> Float64Array:
        """The shift of the targets, shape (n_outputs,)."""
        problem = self.problem
        shift = problem.targets.shift(self.summary, intercept=problem.intercept)
        return np.atleast_1d(np.asarray(shift, dtype=np.float64))

    def targets(self, block: Block) -> Float64Array:
        """Return the targets of a block minus the shift."""
        return self.problem.targets.final(block.y, self.summary) - self.shift

    def borders(self, block: Block) -> tuple[Float64Array, Float64Array]:
        """Return the contribution of a block to ``System.borders``."""
        return borders_of_block(self.problem.map, block.X, self.targets(block), block.weights)

    def multiply(self, vectors: Float64Array, block: Block) -> Float64Array:
        """Return the contribution of a block to ``System.multiply``."""
        return self.problem.map.normal_multiply(block.X, vectors, block.weights)

    def residuals(
        self, coefficients: Float64Array, intercept: Float64Array, block: Block
    ) -> Residuals:
        """Return the contribution of a block to ``System.residuals``."""
        return residuals_of_block(
            self.problem.map,
            block.X,
            self.targets(block),
            block.weights,
            coefficients,
            intercept,
            self.shift,
        )


def borders_of_block(
    features: FeatureMap, X: Any, targets: Float64Array, weights: Float64Array | None
) -> tuple[Float64Array, Float64Array]:
    """Return the contribution of one block to ``System.borders``.

    Everything is computed in float64, because residuals depend on the right-hand side and on the
    means of features.
    """
    columns = np.hstack([targets, np.ones((len(targets), 1))])
    weighted = columns if weights is None else columns * weights[:, None]
    corner = columns.T @ weighted
    if X.dtype == np.float64:
        return features.transpose_multiply(X, weighted), corner
    borders = np.zeros((features.n_columns, weighted.shape[1]))
    for rows, Z in features.in_float64(X):
        borders += Z.T @ weighted[rows]
    return borders, corner


def residuals_of_block(
    features: FeatureMap,
    X: Any,
    targets: Float64Array,
    weights: Float64Array | None,
    coefficients: Float64Array,
    intercept: Float64Array,
    shift: Float64Array,
) -> Residuals:
    """Return the contribution of one block to ``System.residuals``."""
    predicted = features.predict(X, coefficients, intercept + shift)
    total = np.zeros((len(coefficients), len(intercept) + 1))
    sums, rounding, squares = np.zeros(len(intercept) + 1), np.zeros(len(intercept)), 0.0
    for rows, Z in features.in_float64(X):
        counts = np.ones(len(Z)) if weights is None else weights[rows]
        fitted = Z @ coefficients + intercept
        columns = np.hstack([targets[rows] - fitted, np.ones((len(Z), 1))])
        weighted = columns * counts[:, None]
        total += Z.T @ weighted
        sums += weighted.sum(axis=0)
        # Subtract the shift first: predictions are close to it, so the difference is exact.
        rounding += counts @ ((predicted[rows] - shift) - fitted) ** 2
        squares += float(counts @ np.einsum("ij,ij->i", Z, Z))
    return Residuals(total, sums, rounding, squares)


def sum_pairs(left: Any, right: Any) -> Any:
    """Add two pairs elementwise."""
    return left[0] + right[0], left[1] + right[1]
