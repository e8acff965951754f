"""Exact search for the nearest points with a k-d tree, and how much of it a search visits."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from quadfeat._utils.validation import Array, Float64Array

# Points of a coarse tree and of its leaves, and queries, to estimate the share that is visited.
MOST_SAMPLED = 8192
SAMPLED_ENTRIES = 2**21
LEAF_POINTS = 16
SAMPLED_QUERIES = 64


class Tree:
    """The nearest of some points, by Euclidean distance.

    Parameters
    ----------
    points : array of shape (n_rows, d)

    Examples
    --------
    >>> import numpy as np
    >>> Tree(np.array([[0.0], [1.0], [5.0]])).query(np.array([[0.9], [4.0]]), 2, n_threads=1)
    array([[1, 0],
           [2, 1]])
    """

    recall = 1.0

    def __init__(self, points: Float64Array) -> None:
        # Many equal coordinates make a balanced tree slow to build.
        self._tree = cKDTree(points, balanced_tree=False)

    def query(self, queries: Float64Array, k: int, n_threads: int) -> Array:
        """Return the indices of the ``k`` nearest points of each query, nearest first."""
        return np.asarray(self._tree.query(queries, k=np.arange(1, k + 1), workers=n_threads)[1])


def visited_share(points: Float64Array, k: int) -> float:
    """Return the share of points in the leaves that a search for ``k`` neighbors visits.

    It is estimated on the leaves of a coarse tree of the first points, which should be a random
    sample. Leaves are visited if they are not farther than the neighbors.

    Parameters
    ----------
    points : array of shape (n_rows, d)
    k : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> line, cube = rng.uniform(size=(4096, 1)), rng.uniform(size=(4096, 20))
    >>> visited_share(line, 8) < 0.01, visited_share(cube, 8) > 0.9
    (True, True)
    """
    most = min(len(points), MOST_SAMPLED, max(LEAF_POINTS, SAMPLED_ENTRIES // points.shape[1]))
    n_levels = max(0, int(np.log2(most / LEAF_POINTS)))
    leaf = most >> n_levels
    sample = points[: leaf << n_levels]
    leaves = np.arange(len(sample))[None]
    for _ in range(n_levels):
        boxes = sample[leaves]
        widest = np.ptp(boxes, axis=1).argmax(axis=1)
        values = np.take_along_axis(boxes, widest[:, None, None], axis=2)[:, :, 0]
        half = values.shape[1] // 2
        order = np.argpartition(values, half, axis=1)
        leaves = np.take_along_axis(leaves, order, axis=1).reshape(2 * len(leaves), half)
    low, high = sample[leaves].min(axis=1), sample[leaves].max(axis=1)
    n_nearer = min(len(sample) - 1, int(np.ceil(k * len(sample) / len(points))))
    shares = []
    for query in sample[:SAMPLED_QUERIES]:
        differences = sample - query
        squares = np.einsum("ij,ij->i", differences, differences)
        reach = np.partition(squares, n_nearer)[n_nearer]
        gaps = np.maximum(np.maximum(low - query, query - high), 0.0)
        shares.append(np.mean(np.einsum("ij,ij->i", gaps, gaps) <= reach))
    return float(np.mean(shares))
