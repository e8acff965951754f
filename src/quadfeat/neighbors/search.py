"""Exact search for the nearest rows, with a k-d tree."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
from scipy.spatial import cKDTree

from quadfeat._utils.validation import Array, Float64Array


class NearestRows:
    """The nearest of some points, by Euclidean distance.

    Parameters
    ----------
    points : array of shape (n_rows, d)
    n_threads : int, default=1

    Examples
    --------
    >>> import numpy as np
    >>> nearest = NearestRows(np.array([[0.0], [1.0], [5.0]]))
    >>> nearest.to(np.array([[0.9]]), 2)
    array([[1, 0]])
    >>> nearest.to_own(np.array([0]), 2)
    array([[1, 2]])
    """

    def __init__(self, points: Float64Array, n_threads: int = 1) -> None:
        self.points = points
        self.n_threads = n_threads
        # Many equal coordinates make a balanced tree slow to build.
        self._tree = cKDTree(points, balanced_tree=False)

    def with_threads(self, n_threads: int) -> NearestRows:
        """Return the same search with another number of threads."""
        other = copy.copy(self)
        other.n_threads = n_threads
        return other

    def to(self, queries: Float64Array, k: int) -> Array:
        """Return the indices of the ``k`` nearest points of each query, nearest first."""
        k = min(k, len(self.points))
        _, found = self._tree.query(queries, k=np.arange(1, k + 1), workers=self.n_threads)
        return np.asarray(found)

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
