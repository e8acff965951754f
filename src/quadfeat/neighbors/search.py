"""Search for the nearest rows, in the way that is fastest for their points."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Protocol

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.neighbors import clusters
from quadfeat.neighbors.clusters import Clusters
from quadfeat.neighbors.scan import Scan
from quadfeat.neighbors.tree import Tree, visited_points

# The ways to search, for the parameter ``search`` of the models.
SEARCHES = ("auto", "exact", "approximate")

# Nanoseconds of a query: in a tree, for each coordinate of each point that is visited; in a scan,
# for each point, and in addition for each of its coordinates. ``benchmarks/neighbors.py`` measures
# them.
TREE_COST = 1.5
SCAN_COSTS = (2.2, 0.017)

# The number of neighbors to choose for.
USUAL_NEIGHBORS = 32

# "auto" searches approximately if an exact query takes more nanoseconds.
SLOW = 2e6


class Index(Protocol):
    """A search among some points.

    Attributes
    ----------
    recall : float
        The share of the nearest points that it finds; 1 if it is exact.
    """

    @property
    def recall(self) -> float: ...

    def query(self, queries: Float64Array, k: int, n_threads: int) -> Array:
        """Return the indices of the ``k`` nearest points of each query, nearest first."""
        ...


def index_for(points: Float64Array, search: str = "exact") -> Index:
    """Return the fastest search among some points, which should be in random order.

    Parameters
    ----------
    points : array of shape (n_rows, d)
    search : {"auto", "exact", "approximate"}
        Whether neighbors may be missed: if an exact search is slow and faiss is installed, never,
        or always.
    """
    if search == "approximate":
        return Clusters(points, USUAL_NEIGHBORS)
    n_rows, d = points.shape
    by_tree = TREE_COST * visited_points(points, USUAL_NEIGHBORS) * d
    by_scan = (SCAN_COSTS[0] + SCAN_COSTS[1] * d) * n_rows
    cost = min(by_tree, by_scan)
    if search == "auto" and cost > SLOW:
        if clusters.is_available():
            return Clusters(points, USUAL_NEIGHBORS)
        warnings.warn(
            f"The exact search among {n_rows:,} rows takes about {cost / 1e6:.0f} ms for each row. "
            'Install faiss for an approximate search (pip install "quadfeat[local]"), or pass '
            "search='exact'.",
            stacklevel=2,
        )
    return Tree(points) if by_tree <= by_scan else Scan(points)


class NearestRows:
    """The nearest of some points, by Euclidean distance.

    Parameters
    ----------
    points : array of shape (n_rows, d)
        In random order.
    n_threads : int, default=1
    search : {"auto", "exact", "approximate"}, default="exact"
        See :func:`index_for`.

    Examples
    --------
    >>> import numpy as np
    >>> nearest = NearestRows(np.array([[0.0], [1.0], [5.0]]))
    >>> nearest.to(np.array([[0.9]]), 2)
    array([[1, 0]])
    >>> nearest.to_own(np.array([0]), 2)
    array([[1, 2]])
    """

    def __init__(self, points: Float64Array, n_threads: int = 1, search: str = "exact") -> None:
        self.points = points
        self.n_threads = n_threads
        self.index = index_for(points, search)

    def with_threads(self, n_threads: int) -> NearestRows:
        """Return the same search with another number of threads."""
        other = copy.copy(self)
        other.n_threads = n_threads
        return other

    def to(self, queries: Float64Array, k: int) -> Array:
        """Return the indices of the ``k`` nearest points of each query, nearest first."""
        return self.index.query(queries, min(k, len(self.points)), self.n_threads)

    def to_own(self, which: Array, k: int) -> Array:
        """Return the ``k`` nearest other points of some of the points."""
        k = min(k, len(self.points) - 1)
        found = self.to(self.points[which], k + 1)
        is_own = found == which[:, None]
        # If more than k points are at the same place, a point may not be among its own neighbors.
        is_own[~is_own.any(axis=1), -1] = True
        return found[~is_own].reshape(len(which), k)


def batches(n_rows: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` rows."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
