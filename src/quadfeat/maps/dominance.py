r"""Find a column that dominates the distances of rows, as raw columns in other units may do.

The mean squared distance of two rows is :math:`2 \sum_j v_j`, where :math:`v_j` is the variance of
column :math:`j`. A column drowns if even its whole range :math:`r_j` adds little to the even share
of a column:

.. math:: r_j^2 < \epsilon \frac{2}{d} \sum_k v_k, \qquad \epsilon = 0.1,

where only the :math:`d` columns that vary count. A column dominates if it makes up more than half
of the squared distances and more than half of the other columns drown. Among normally distributed
columns this is the case for one that makes up 99.5 % or more, or for few that do so together.

No column drowns in a table with unit variances, since :math:`r_j^2 \ge 4 v_j`, or with ranges of 1,
since then all variances are at most 1/4. So one-hot columns may be rare, and pixels may be dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from quadfeat._utils.validation import Float64Array

# A column drowns if its squared range is below this part of the even share.
DROWNED = 0.1

# Fewer rows do not tell the range of a column.
FEWEST_ROWS = 20

# Differences up to this part of the largest value may be rounding.
ROUNDING = 256 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Dominance:
    """A column that dominates the squared distances of rows.

    Attributes
    ----------
    column : int
        Its index.
    share : float
        Its part of the squared distances.
    n_drowned, n_others : int
        How many other columns hardly count, and how many there are. Constant columns are left out.
    """

    column: int
    share: float
    n_drowned: int
    n_others: int


def dominance(X: Any, weights: Float64Array | None = None) -> Dominance | None:
    """Return the column that dominates the squared distances of rows; None if there is none.

    Fewer than 20 rows do not tell.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
        Finite.
    weights : array of shape (n_rows,), default=None
        Positive weights of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> age = np.arange(20.0, 60.0)
    >>> income = 1000.0 * (age % 7)
    >>> dominance(np.column_stack([age, income]))
    Dominance(column=1, share=0.99..., n_drowned=1, n_others=1)
    >>> dominance(np.column_stack([age, income / 1000.0])) is None
    True
    """
    if X.shape[0] < FEWEST_ROWS or X.shape[1] < 2:
        return None
    ranges, variances = _ranges_and_variances(X, weights)
    n_varying, total = int((ranges > 0).sum()), float(variances.sum())
    if n_varying < 2 or total == 0:
        return None
    column = int(variances.argmax())
    drowned = (ranges > 0) & (ranges**2 < DROWNED * 2.0 * total / n_varying)
    drowned[column] = False
    share, n_drowned = float(variances[column] / total), int(drowned.sum())
    if share <= 0.5 or 2 * n_drowned <= n_varying - 1:
        return None
    return Dominance(column, share, n_drowned, n_varying - 1)


def _ranges_and_variances(
    X: Any, weights: Float64Array | None
) -> tuple[Float64Array, Float64Array]:
    """Return the range and the variance of each column, in units of the largest range."""
    counts = np.ones(X.shape[0]) if weights is None else weights / weights.max()
    X = X.astype(np.float64)  # a copy
    lowest, highest = min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(0), X.max(0))
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    unit = np.ldexp(1.0, np.frexp(largest.max())[1] - 1)  # squares and differences stay in range
    ranges = highest / unit - lowest / unit
    constant = ranges <= ROUNDING * (largest / unit)
    if constant.all():
        return np.zeros_like(ranges), np.zeros_like(ranges)
    inner = np.ldexp(1.0, np.frexp(np.where(constant, 0.0, ranges).max())[1] - 1)
    if sparse.issparse(X):
        X.data /= unit
        X.data /= inner
        variances = mean_variance_axis(X, axis=0, weights=counts)[1]
    else:
        X /= unit
        X -= X[0].copy()
        X /= inner
        X -= counts @ X / counts.sum()
        np.square(X, out=X)
        variances = counts @ X / counts.sum()
    nothing = np.zeros_like(ranges)
    return np.where(constant, nothing, ranges / inner), np.where(constant, nothing, variances)
