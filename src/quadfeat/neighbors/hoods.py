"""Queries with the rows near them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Array, Float64Array

# At most this many entries of matrices are in memory at once, so that they fit into the cache.
ENTRIES_AT_ONCE = 2**19


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """Queries with the index of the rows near them.

    The native core gathers the rows itself. The properties gather them for NumPy. Coordinates are
    relative to the nearest neighbor. Relative to a query that is far from all rows, the differences
    between rows would be lost.

    Attributes
    ----------
    given_queries : array of shape (n_queries, d)
    points : array of shape (n_rows, d)
    point_targets : array of shape (n_rows, n_outputs)
    weights : array of shape (n_rows,)
        The weights of the rows. The noise variance of a row is divided by its weight.
    neighbors : int array of shape (n_queries, k)
        Indices of rows, nearest first.
    factors : array of shape (d,)
        Multiply the differences between points and queries.

    Examples
    --------
    >>> rows, targets = np.array([[0.0], [1.0], [5.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> hoods = Neighborhoods.of(np.array([[0.9]]), rows, targets, np.ones(3), np.array([[1, 0]]))
    >>> hoods.offsets[0], hoods.targets[0]
    (array([[ 0.], [-1.]]), array([[4.], [2.]]))
    """

    given_queries: Float64Array
    points: Float64Array
    point_targets: Float64Array
    weights: Float64Array
    neighbors: Array
    factors: Float64Array

    @classmethod
    def of(
        cls,
        queries: Float64Array,
        points: Float64Array,
        targets: Float64Array,
        weights: Float64Array,
        neighbors: Array,
    ) -> Neighborhoods:
        """Return the neighborhoods of queries in the scale of the points."""
        return cls(queries, points, targets, weights, neighbors, np.ones(points.shape[1]))

    def scaled(self, factors: Float64Array) -> Neighborhoods:
        """Return the neighborhoods with coordinates multiplied by factors."""
        return replace(self, factors=self.factors * factors)

    def part(self, rows: slice) -> Neighborhoods:
        """Return the neighborhoods of some queries."""
        return replace(self, given_queries=self.given_queries[rows], neighbors=self.neighbors[rows])

    @property
    def size(self) -> int:
        """Number of queries."""
        return len(self.neighbors)

    @property
    def n_neighbors(self) -> int:
        """Number of neighbors of each query."""
        return self.neighbors.shape[1]

    @cached_property
    def offsets(self) -> Float64Array:
        """Scaled neighbors minus the nearest one, shape (n_queries, k, d)."""
        nearest = self.points[self.neighbors[:, 0]]
        return (self.points[self.neighbors] - nearest[:, None]) * self.factors

    @cached_property
    def queries(self) -> Float64Array:
        """Scaled queries minus the nearest neighbor, shape (n_queries, d)."""
        return (self.given_queries - self.points[self.neighbors[:, 0]]) * self.factors

    @property
    def to_queries(self) -> Float64Array:
        """Scaled neighbors minus the query, shape (n_queries, k, d)."""
        return self.offsets - self.queries[:, None]

    @cached_property
    def targets(self) -> Float64Array:
        """Targets of the neighbors, shape (n_queries, k, n_outputs)."""
        return self.point_targets[self.neighbors]

    @cached_property
    def noise(self) -> Float64Array:
        """Noise variances of the neighbors, relative to that of a row of weight 1."""
        return 1.0 / self.weights[self.neighbors]

    def slices(self) -> Iterator[slice]:
        """Yield slices of queries whose matrices fit into the cache."""
        step = max(1, ENTRIES_AT_ONCE // max(1, self.n_neighbors**2))
        for start in range(0, self.size, step):
            yield slice(start, min(start + step, self.size))
