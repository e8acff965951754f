"""The distinct rows of a table, in an order that depends on their content alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Float64Array
from quadfeat.data.sampling import Ends, row_keys, unit_free_keys


@dataclass(frozen=True)
class DistinctRows:
    """Rows without copies.

    The targets of copies are averaged, which loses nothing that predictions depend on: rows that
    are equal differ by their noise only. So a weight of 2 is equivalent to a copy. Rows are sorted
    by a hash of their content, so any part of them is a random sample of the table.

    Attributes
    ----------
    X : array of shape (n_rows, d)
    Y : array of shape (n_rows, n_outputs)
        The mean targets.
    weights : array of shape (n_rows,)
        The total weights, all positive.
    of_given : int array
        For each row of positive weight in the table, the index of the distinct row.

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.array([[1.0], [2.0], [1.0]]), np.array([[0.0], [5.0], [1.0]])
    >>> rows = DistinctRows.of(X, Y, np.ones(3))
    >>> sorted(zip(rows.X[:, 0].tolist(), rows.Y[:, 0].tolist(), rows.weights.tolist()))
    [(1.0, 0.5, 2.0), (2.0, 5.0, 1.0)]
    """

    X: Float64Array
    Y: Float64Array
    weights: Float64Array
    of_given: NDArray[np.intp]

    @classmethod
    def of(cls, X: Float64Array, Y: Float64Array, weights: Float64Array) -> DistinctRows:
        """Return the distinct rows of a table whose weights are positive."""
        ends = Ends.of(X)
        free, exact = unit_free_keys(X, ends.lowest, ends.ranges), row_keys(X)
        order = np.lexsort((exact, free))
        is_first = np.ones(len(X), dtype=bool)
        is_first[1:] = (np.diff(free[order]) != 0) | (np.diff(exact[order]) != 0)
        first = order[is_first]
        of_given = np.empty(len(X), dtype=np.intp)
        of_given[order] = np.cumsum(is_first) - 1
        if len(first) == len(X):
            return cls(X[first], Y[first], weights[first], of_given)
        totals = np.asarray(np.bincount(of_given, weights), dtype=np.float64)
        # Sum deviations from one of the targets, so that equal targets keep their exact mean.
        origin = Y[first]
        deviations = (Y - origin[of_given]) * weights[:, None]
        sums = np.stack([np.bincount(of_given, column) for column in deviations.T], axis=1)
        return cls(X[first], origin + sums / totals[:, None], totals, of_given)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.weights)
