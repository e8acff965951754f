"""Exact search for the nearest points by comparing each query with all points."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine.threads import one_blas_thread

# Number of queries and of points in a block of distances. The first block has fewer points, because
# all of them are sorted. In later blocks, only points that are nearer are sorted.
QUERIES_AT_ONCE = 256
FIRST_POINTS = 2**12
POINTS_AT_ONCE = 2**14

# Number of candidates in addition to the neighbors: rounding errors rarely change more ranks.
SPARE = 16

# Queries farther from the points than this many times their spread are compared in float64.
FAR = 1e6

# The origin is the median of so many points, which are in random order.
MIDDLE_OF = 10_000

# Coordinates that are in memory at once to compute exact distances.
ENTRIES_AT_ONCE = 2**21


class Scan:
    """The nearest of some points, by Euclidean distance.

    Distances are computed in float32 by matrix products. A bound of their rounding errors selects
    candidates, whose distances are computed again in float64. So neighbors do not depend on blocks
    and threads. Points at the same distance are ordered by index.

    Parameters
    ----------
    points : array of shape (n_rows, d)

    Examples
    --------
    >>> import numpy as np
    >>> Scan(np.array([[0.0], [1.0], [5.0]])).query(np.array([[0.9], [4.0]]), 2, n_threads=1)
    array([[1, 0],
           [2, 1]])
    """

    recall = 1.0

    def __init__(self, points: Float64Array) -> None:
        self.points = points
        # Rounding errors grow with the distance from the origin, so keep it among most points, also
        # if a few are far away.
        middle = np.median(points[:MIDDLE_OF], axis=0)
        ends = points.min(axis=0), points.max(axis=0)
        spread = max(float(np.abs(end - middle).max()) for end in ends)
        # Keep squares of norms in the range of float32.
        self._middle, self._unit = middle, spread if spread > 0 else 1.0
        # Products of d terms and the rounding of coordinates change squared distances by at most
        # this part of the squared norms of both points.
        n_rows, d = points.shape
        self._kept = np.float32(1.0 - 2.0 * (d + 8) * np.finfo(np.float32).eps)
        # Points have their norm as last column.
        self._small = np.empty((n_rows, d + 1), dtype=np.float32)
        for start in range(0, n_rows, POINTS_AT_ONCE):
            part = slice(start, start + POINTS_AT_ONCE)
            small = self.reduced(points[part])
            self._small[part, :d] = small
            self._small[part, d] = np.einsum("ij,ij->i", small, small) * self._kept

    def query(self, queries: Float64Array, k: int, n_threads: int) -> Array:
        """Return the indices of the ``k`` nearest points of each query, nearest first."""
        found = np.empty((len(queries), k), dtype=np.int64)
        blocks = [
            slice(start, start + QUERIES_AT_ONCE)
            for start in range(0, len(queries), QUERIES_AT_ONCE)
        ]

        def search(block: slice) -> None:
            found[block] = self._of_block(queries[block], k)

        with one_blas_thread():
            if n_threads == 1 or len(blocks) < 2:
                for block in blocks:
                    search(block)
            else:
                with ThreadPoolExecutor(n_threads) as pool:
                    list(pool.map(search, blocks))
        return found

    def reduced(self, points: Float64Array) -> Array:
        """Return points in float32, near the origin."""
        return ((points - self._middle) / self._unit).astype(np.float32)

    def _of_block(self, queries: Float64Array, k: int) -> Array:
        n_points = len(self.points)
        n_candidates = min(n_points, k + SPARE)
        with np.errstate(over="ignore"):
            is_far = np.abs(queries - self._middle).max(axis=1) / self._unit > FAR
        near = np.where(is_far[:, None], self.points[0], queries)
        lowest, candidates, norms = self._candidates(near, n_candidates)
        squares = self.squares(near, candidates)
        order = _order(squares, candidates)[:, :k]
        found = np.take_along_axis(candidates, order, axis=1)
        farthest = np.take_along_axis(squares, order[:, -1:], axis=1)[:, 0] / self._unit**2
        # A point that is not a candidate is at least as far away as the last candidate seems to be.
        is_unsure = farthest >= lowest.max(axis=1).astype(np.float64) + norms
        unsure = np.flatnonzero(is_unsure & (n_candidates < n_points) & ~is_far)
        if len(unsure):
            found[unsure] = self._of_unsure(queries[unsure], k, farthest[unsure])
        everything = np.arange(n_points)
        for row in np.flatnonzero(is_far):
            found[row] = self._nearest(queries[row], everything, k)
        return found

    def _of_unsure(self, queries: Float64Array, k: int, farthest: Float64Array) -> Array:
        """Return the nearest among all points that may be as near as ``farthest``, in float64."""
        scaled = (queries - self._middle) / self._unit
        kept = 1.0 - 2.0 * (queries.shape[1] + 8) * np.finfo(np.float64).eps
        limits = farthest - kept * np.einsum("ij,ij->i", scaled, scaled)
        rows, candidates = [], []
        for start in range(0, len(self.points), POINTS_AT_ONCE):
            part = (self.points[start : start + POINTS_AT_ONCE] - self._middle) / self._unit
            bounds = (-2.0 * scaled) @ part.T
            bounds += kept * np.einsum("ij,ij->i", part, part)
            near = np.divmod(np.flatnonzero(bounds <= limits[:, None]), len(part))
            rows.append(near[0])
            candidates.append(near[1] + start)
        of_query, which = np.concatenate(rows), np.concatenate(candidates)
        which = which[np.argsort(of_query, kind="stable")]
        ends = np.cumsum(np.bincount(of_query, minlength=len(queries)))[:-1]
        parts = zip(queries, np.split(which, ends), strict=True)
        return np.stack([self._nearest(query, part, k) for query, part in parts])

    def _candidates(
        self, queries: Float64Array, n_candidates: int
    ) -> tuple[Array, Array, Float64Array]:
        """Return lower bounds of distances, the indices of the smallest, and what to add to them.

        The bounds are those of squared distances in units, minus the norm of the query.
        """
        extended, norms = self._extended(queries)
        lowest = extended @ self._small[:FIRST_POINTS].T
        candidates = _smallest(lowest, n_candidates)
        lowest = np.take_along_axis(lowest, candidates, axis=1)
        for start in range(FIRST_POINTS, len(self.points), POINTS_AT_ONCE):
            bounds = extended @ self._small[start : start + POINTS_AT_ONCE].T
            if candidates.shape[1] < n_candidates:
                limits = np.full(len(bounds), np.inf, dtype=np.float32)
            else:
                limits = lowest.max(axis=1)
            nearer, which = _below(bounds, limits)
            lowest, candidates = np.hstack([lowest, nearer]), np.hstack([candidates, which + start])
            which = _smallest(lowest, n_candidates)
            lowest = np.take_along_axis(lowest, which, axis=1)
            candidates = np.take_along_axis(candidates, which, axis=1)
        return lowest, candidates, norms

    def _extended(self, queries: Float64Array) -> tuple[Array, Float64Array]:
        """Return queries whose products with points are lower bounds, and what to add to these."""
        small = self.reduced(queries)
        exact = small.astype(np.float64)
        norms = float(self._kept) * np.einsum("ij,ij->i", exact, exact)
        ones = np.ones((len(small), 1), dtype=np.float32)
        return np.hstack([np.float32(-2.0) * small, ones]), norms

    def _nearest(self, query: Float64Array, candidates: Array, k: int) -> Array:
        """Return the nearest of some candidates, by exact distances."""
        step = max(1, ENTRIES_AT_ONCE // self.points.shape[1])
        parts = [candidates[start : start + step] for start in range(0, len(candidates), step)]
        squares = np.hstack([self.squares(query[None], part[None])[0] for part in parts])
        return candidates[_order(squares, candidates)[:k]]

    def sorted(self, queries: Float64Array, found: Array) -> Array:
        """Return indices of points by their distance from the query, nearest first."""
        order = _order(self.squares(queries, found), found)
        return np.take_along_axis(found, order, axis=1)

    def squares(self, queries: Float64Array, candidates: Array) -> Float64Array:
        """Return exact squared distances, shape (n_queries, n_candidates)."""
        found = np.empty(candidates.shape)
        step = max(1, ENTRIES_AT_ONCE // (queries.shape[1] * candidates.shape[1]))
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            differences = self.points[candidates[rows]] - queries[rows, None]
            found[rows] = np.einsum("ikd,ikd->ik", differences, differences)
        return found


def _smallest(values: Array, k: int) -> Array:
    """Return the indices of the ``k`` smallest values of each row, in any order."""
    if k >= values.shape[1]:
        return np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return np.argpartition(values, k - 1, axis=1)[:, :k]


def _below(values: Array, limits: Array) -> tuple[Array, Array]:
    """Return the values of each row below its limit and their indices, filled up with infinity."""
    rows, columns = np.divmod(np.flatnonzero(values < limits[:, None]), values.shape[1])
    counts = np.bincount(rows, minlength=len(values))
    starts = np.cumsum(counts) - counts
    places = np.arange(len(rows)) - starts[rows]
    shape = len(values), int(counts.max(initial=0))
    found = np.full(shape, np.inf, dtype=np.float32)
    which = np.zeros(shape, dtype=np.int64)
    found[rows, places] = values[rows, columns]
    which[rows, places] = columns
    return found, which


def _order(squares: Float64Array, indices: Array) -> Array:
    """Return the order by distance, then by index."""
    return np.lexsort((indices, squares), axis=-1)
