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

    The targets of copies are averaged. This does not change predictions, because equal rows differ
    only by noise. Their scatter shows how large the noise is. A weight of 2 is equivalent to a copy
    with the same target. Rows are sorted by a hash of their content, so any part of them is a
    random sample of the table.

    Attributes
    ----------
    X : array of shape (n_rows, d)
    Y : array of shape (n_rows, n_outputs)
        The mean targets.
    weights : array of shape (n_rows,)
        The total weights, all positive.
    of_given : int array
        For each row of positive weight in the table, the index of the distinct row.
    scatter : array of shape (n_rows, n_outputs)
        The weighted sum of squared differences between the targets of copies and their mean.
    n_spare : array of shape (n_rows,)
        The number of different targets of copies, minus one.

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
    scatter: Float64Array
    n_spare: Float64Array

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
            scatter, n_spare = np.zeros_like(Y), np.zeros(len(X))
            return cls(X[first], Y[first], weights[first], of_given, scatter, n_spare)
        totals = np.asarray(np.bincount(of_given, weights), dtype=np.float64)
        # Sum deviations from one of the targets, so that equal targets keep their exact mean.
        origin = Y[first]
        deviations = (Y - origin[of_given]) * weights[:, None]
        mean = origin + _summed(deviations, of_given) / totals[:, None]
        scatter = _summed(weights[:, None] * (Y - mean[of_given]) ** 2, of_given)
        # Equal copies are one case with a larger weight.
        cases = np.unique(np.column_stack([of_given, Y]), axis=0)[:, 0].astype(np.intp)
        n_spare = np.asarray(np.bincount(cases), dtype=np.float64) - 1.0
        scatter[n_spare == 0] = 0.0  # rounding errors
        return cls(X[first], mean, totals, of_given, scatter, n_spare)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.weights)


def _summed(values: Float64Array, groups: NDArray[np.intp]) -> Float64Array:
    """Return the sums of values of shape (n_rows, n_outputs) over groups of rows."""
    return np.stack([np.bincount(groups, column) for column in values.T], axis=1)
