"""Exact search for the nearest points with a k-d tree, and how many points a search visits."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from quadfeat._utils.validation import Array, Float64Array

# Points of a tree and of its leaves, and queries, to estimate how many points are visited. With
# many columns, there are fewer points. The second tree has fewer points by a factor.
MOST_SAMPLED = 8192
FEWEST_SAMPLED = 256
SAMPLED_ENTRIES = 2**21
FEWER = 8
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


def visited_points(points: Float64Array, k: int) -> float:
    """Return the number of points in the leaves that a search for ``k`` neighbors visits.

    It is measured among the first points, which should be a random sample. Two upper estimates are
    made from there, and the smaller one is returned. One takes the share of points that are visited
    for as many neighbors as the sample has of them. The other one also measures it among fewer
    points, and extrapolates it as a power of the number of points.

    Parameters
    ----------
    points : array of shape (n_rows, d)
    k : int

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> line, cube = rng.uniform(size=(20_000, 1)), rng.uniform(size=(20_000, 20))
    >>> visited_points(line, 8) < 100, visited_points(cube, 8) > 15_000
    (True, True)
    """
    n_rows, d = points.shape
    most = min(n_rows, MOST_SAMPLED, max(FEWEST_SAMPLED, SAMPLED_ENTRIES // d))
    fewer = most // FEWER
    share = visited_share(points[:most], max(1, round(k * most / n_rows)))
    visited = visited_share(points[:most], k) * most
    if fewer < LEAF_POINTS:
        return share * n_rows
    before = visited_share(points[:fewer], k) * fewer
    power = np.clip(np.log(visited / before) / np.log(most / fewer), 0.0, 1.0)
    return float(min(visited * (n_rows / most) ** power, share * n_rows))


def visited_share(points: Float64Array, k: int) -> float:
    """Return the share of leaves of a tree that are not farther than the neighbors of a point."""
    n_levels = max(0, int(np.log2(len(points) / LEAF_POINTS)))
    leaf = len(points) >> n_levels
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
    n_nearer = min(len(sample) - 1, k)
    shares = []
    for query in sample[:SAMPLED_QUERIES]:
        differences = sample - query
        squares = np.einsum("ij,ij->i", differences, differences)
        reach = np.partition(squares, n_nearer)[n_nearer]
        gaps = np.maximum(np.maximum(low - query, query - high), 0.0)
        shares.append(np.mean(np.einsum("ij,ij->i", gaps, gaps) <= reach))
    return float(np.mean(shares))
