"""Normal equations that are known by products with their matrix only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._validation import Float64Array
from quadfeat.blocks import Block
from quadfeat.products import FeatureProducts


@dataclass(frozen=True)
class ImplicitEquations:
    """Ridge regression as :class:`quadfeat.moments.NormalEquations` has it, without the matrix.

    Attributes
    ----------
    multiply : callable
        Returns the product of the matrix with vectors, shape (n_components, n_vectors).
    right : array of shape (n_components, n_outputs)
    squares, target_means : array of shape (n_outputs,)
    feature_means : array of shape (n_components,)
    """

    multiply: Callable[[Float64Array], Float64Array]
    right: Float64Array
    squares: Float64Array
    feature_means: Float64Array
    target_means: Float64Array


class System(ABC):
    """Rows, wherever they are, with which features can be multiplied."""

    @abstractmethod
    def borders(self) -> tuple[Float64Array, Float64Array]:
        """Return the weighted products of features and targets, and of targets with each other.

        In both a column of ones is the last of the targets.
        """

    @abstractmethod
    def multiply(self, vectors: Float64Array) -> Float64Array:
        """Return ``Z' W Z`` times vectors."""

    def equations(self, intercept: bool) -> ImplicitEquations:
        """Return the normal equations, of centred features and targets for an intercept."""
        borders, corner = self.borders()
        right, sums, weight = borders[:, :-1], borders[:, -1], corner[-1, -1]
        if weight == 0:
            raise ValueError("all rows have weight 0: give a positive weight to at least one.")
        squares = np.diagonal(corner)[:-1]
        if not intercept:
            zeros = np.zeros(len(right)), np.zeros(right.shape[1])
            return ImplicitEquations(self.multiply, right, squares, *zeros)
        feature_means, target_means = sums / weight, corner[:-1, -1] / weight

        def centred(vectors: Float64Array) -> Float64Array:
            return self.multiply(vectors) - np.outer(sums, feature_means @ vectors)

        return ImplicitEquations(
            centred,
            right - np.outer(sums, target_means),
            np.maximum(squares - weight * target_means**2, 0.0),
            feature_means,
            target_means,
        )


class LocalSystem(System):
    """Rows in blocks that can be read again and again.

    Parameters
    ----------
    products : FeatureProducts
    blocks : callable
        Returns the blocks.
    targets, weights : callable
        Return the targets and the weights of a block.
    """

    def __init__(
        self,
        products: FeatureProducts,
        blocks: Callable[[], Iterable[Block]],
        targets: Callable[[Block], Float64Array],
        weights: Callable[[Block], Float64Array | None],
    ) -> None:
        self.products = products
        self.blocks = blocks
        self.targets = targets
        self.weights = weights

    def borders(self) -> tuple[Float64Array, Float64Array]:
        return sum_pairs(
            borders_of_block(self.products, block.X, self.targets(block), self.weights(block))
            for block in self.blocks()
        )

    def multiply(self, vectors: Float64Array) -> Float64Array:
        total = np.zeros_like(vectors)
        for block in self.blocks():
            total += self.products.normal_multiply(block.X, vectors, self.weights(block))
        return total


def borders_of_block(
    products: FeatureProducts, X: Any, targets: Float64Array, weights: Float64Array | None
) -> tuple[Float64Array, Float64Array]:
    """Return the part of one block in ``System.borders``."""
    columns = np.hstack([targets, np.ones((len(targets), 1))])
    weighted = columns if weights is None else columns * weights[:, None]
    corner = np.einsum("ij,ik->jk", columns, weighted)
    return products.transposed_multiply(X, weighted), corner


def sum_pairs(
    pairs: Iterable[tuple[Float64Array, Float64Array]],
) -> tuple[Float64Array, Float64Array]:
    """Return the sums of the first and of the second of pairs."""
    iterator = iter(pairs)
    first, second = next(iterator)
    for left, right in iterator:
        first, second = first + left, second + right
    return first, second
