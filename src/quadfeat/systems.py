"""Normal equations that are known by products with their matrix only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._validation import Float64Array
from quadfeat.blocks import Block
from quadfeat.moments import Sides
from quadfeat.products import FeatureProducts


@dataclass(frozen=True)
class ImplicitEquations(Sides):
    """Normal equations without their matrix.

    Attributes
    ----------
    multiply : callable
        Returns the product of the matrix with vectors, shape (n_components, n_vectors).
    """

    multiply: Callable[[Float64Array], Float64Array]


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
        sides = Sides.of(*self.borders(), intercept=intercept).checked()
        sums = sides.weight * sides.feature_means

        def centred(vectors: Float64Array) -> Float64Array:
            return self.multiply(vectors) - np.outer(sums, sides.feature_means @ vectors)

        return ImplicitEquations(**vars(sides), multiply=centred if intercept else self.multiply)


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
