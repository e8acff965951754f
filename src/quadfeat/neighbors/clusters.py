"""Approximate search for the nearest points in clusters, with faiss."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.neighbors.scan import Scan

# There are about as many clusters as the square root of the number of points, but not more than
# this. With more of them, queries are faster, but the index takes longer to build, and a fit builds
# a dozen of them.
MOST_CLUSTERS = 1024

# Points per cluster to learn the centers from, and the number of steps.
POINTS_PER_CENTER = 64
STEPS = 10

# Search twice as many clusters until this share of the neighbors of some points is found.
LEAST_RECALL = 0.98
SAMPLED_QUERIES = 64

# Number of points to add at once.
POINTS_AT_ONCE = 2**18


def is_available() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None


def imported() -> Any:
    """Import faiss, whose bindings warn about themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import faiss
    return faiss


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let faiss use this number of threads."""
    faiss = imported()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(number)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class Clusters:
    """Approximately the nearest of some points, by Euclidean distance.

    Each query is compared with the points of the nearest clusters. The number of clusters is such
    that a sample of the points finds most of its neighbors.

    Parameters
    ----------
    points : array of shape (n_rows, d)
    k : int
        The number of neighbors to measure the recall for.

    Attributes
    ----------
    recall : float
        The share of the nearest points that a sample of the points finds.
    """

    def __init__(self, points: Float64Array, k: int) -> None:
        faiss = imported()
        scan = Scan(points)
        n_points, d = points.shape
        n_clusters = min(MOST_CLUSTERS, 1 << max(0, round(np.log2(np.sqrt(n_points)))))
        self._scan = scan
        self._index: Any = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, n_clusters)
        self._index.cp.niter = STEPS
        self._index.cp.seed = 0
        self._index.cp.max_points_per_centroid = POINTS_PER_CENTER
        with threads(1):  # so that centers do not depend on their number
            # The points are in random order.
            self._index.train(scan.reduced(points[: POINTS_PER_CENTER * n_clusters]))
            for start in range(0, n_points, POINTS_AT_ONCE):
                self._index.add(scan.reduced(points[start : start + POINTS_AT_ONCE]))
        self.recall = self._tuned(n_clusters, min(k, n_points))

    def _tuned(self, n_clusters: int, k: int) -> float:
        """Choose the number of clusters to search, and return the recall."""
        queries = self._scan.points[:SAMPLED_QUERIES]
        exact = self._scan.query(queries, k, n_threads=1)
        recall, n_searched = 0.0, 4
        while recall < LEAST_RECALL and n_searched < n_clusters:
            n_searched = min(2 * n_searched, n_clusters)
            self._index.nprobe = n_searched
            found = self.query(queries, k, n_threads=1)
            pairs = zip(found, exact, strict=True)
            recall = float(np.mean([len(np.intersect1d(*pair)) / k for pair in pairs]))
        return recall

    def query(self, queries: Float64Array, k: int, n_threads: int) -> Array:
        """Return the indices of the nearest points that were found, nearest first."""
        with threads(n_threads):
            found = self._index.search(self._scan.reduced(queries), k)[1]
        short = np.flatnonzero((found < 0).any(axis=1))
        if len(short):  # the clusters have fewer points
            found[short] = self._scan.query(queries[short], k, n_threads)
        return self._scan.sorted(queries, found)
