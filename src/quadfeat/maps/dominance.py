r"""Find a column that dominates the distances between rows, such as an unscaled one.

The mean squared distance of two rows is :math:`2 \sum_j v_j`, where :math:`v_j` is the variance of
column :math:`j`. A column is negligible if even the square of its range :math:`r_j` is small
compared with the average contribution of a column:

.. math:: r_j^2 < \epsilon \frac{2}{d} \sum_k v_k, \qquad \epsilon = 0.1,

where :math:`d` is the number of columns that vary. A column dominates if it makes up more than half
of the squared distances, and more than half of the other columns are negligible. Among normally
distributed columns, this happens if one column, or a few together, make up at least 99.5%.

No column is negligible if all variances are 1, since :math:`r_j^2 \ge 4 v_j`. The same holds if all
ranges are 1, since all variances are then at most 1/4. So rare one-hot columns and dark pixels do
not count as negligible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from quadfeat._utils.validation import Float64Array

# A column is negligible if its squared range is below this fraction of the average contribution.
NEGLIGIBLE = 0.1

# Fewer rows are not enough to estimate the range of a column.
FEWEST_ROWS = 20

# Differences up to this fraction of the largest value may be due to rounding.
ROUNDING = 256 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Dominance:
    """A column that dominates the squared distances of rows.

    Attributes
    ----------
    column : int
        Its index.
    share : float
        Its share of the squared distances.
    n_negligible, n_others : int
        Number of other columns that are negligible, and of all other columns. Constant columns do
        not count.
    """

    column: int
    share: float
    n_negligible: int
    n_others: int


def dominance(X: Any, weights: Float64Array | None = None) -> Dominance | None:
    """Return the column that dominates the squared distances of rows; None if there is none.

    Return None for fewer than 20 rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
        The rows, without NaN or infinity.
    weights : array of shape (n_rows,), default=None
        Positive weights of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> age = np.arange(20.0, 60.0)
    >>> income = 1000.0 * (age % 7)
    >>> dominance(np.column_stack([age, income]))
    Dominance(column=1, share=0.99..., n_negligible=1, n_others=1)
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
    negligible = (ranges > 0) & (ranges**2 < NEGLIGIBLE * 2.0 * total / n_varying)
    negligible[column] = False
    share, n_negligible = float(variances[column] / total), int(negligible.sum())
    if share <= 0.5 or 2 * n_negligible <= n_varying - 1:
        return None
    return Dominance(column, share, n_negligible, n_varying - 1)


def _ranges_and_variances(
    X: Any, weights: Float64Array | None
) -> tuple[Float64Array, Float64Array]:
    """Return the range and the variance of each column, in units of the largest range."""
    counts = np.ones(X.shape[0]) if weights is None else weights / weights.max()
    X = X.astype(np.float64)  # a copy, which is changed below
    lowest, highest = min_max_axis(X, axis=0) if sparse.issparse(X) else (X.min(0), X.max(0))
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    # In this unit, squares and differences do not overflow.
    unit = np.ldexp(1.0, np.frexp(largest.max())[1] - 1)
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
