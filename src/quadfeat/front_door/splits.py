"""Which rows are held out to compare candidates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import model_selection
from sklearn.model_selection import GroupKFold, check_cv

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array
from quadfeat.data.sampling import Ends, unit_free_keys
from quadfeat.io.registry import register_by_parameters

# Splitters that models with the parameter cv can be saved with.
for _name in (
    *("KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "TimeSeriesSplit"),
    *("ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit", "PredefinedSplit"),
    *("LeaveOneOut", "LeaveOneGroupOut", "LeavePGroupsOut"),
):
    register_by_parameters(getattr(model_selection, _name))

# With fewer units (rows, or groups of rows) than the first number of a pair, every row is held out
# once, in as many folds as the second number. Larger tables hold out a share of the rows, within
# the limits below.
FOLDS = ((300, 5), (1000, 3))
SHARE = 0.2
FEWEST_HELD_OUT = 300
MOST_HELD_OUT = 10_000

# Fewer distinct rows are too few to compare candidates. Two groups are enough.
FEWEST_UNITS = 10


class Fold(NamedTuple):
    """Indices of the rows to fit, and of those that are held out."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]

    def among(self, is_present: NDArray[np.bool_]) -> Fold:
        """Return the fold after rows were dropped, with the numbers of the remaining rows."""
        numbers = np.cumsum(is_present) - 1
        return Fold(*(numbers[rows[is_present[rows]]] for rows in self))


def usual_folds(
    units: NDArray[np.intp], strata: NDArray[np.intp], seed: int, *, once: bool = False
) -> list[Fold]:
    """Return folds that hold out whole units, in proportion from each stratum.

    Parameters
    ----------
    units : int array of shape (n_rows,)
        Rows with the same number stay together.
    strata : int array of shape (n_rows,)
        The class of each row; zeros for regression. A unit has the class of its first row. A class
        with one unit is never held out.
    seed : int
    once : bool, default=False
        Whether to return one fold for small tables too.

    Examples
    --------
    >>> import numpy as np
    >>> folds = usual_folds(np.arange(4000), np.zeros(4000, dtype=int), seed=0)
    >>> [(len(fold.train), len(fold.test)) for fold in folds]
    [(3200, 800)]
    """
    distinct, first = np.unique(units, return_index=True)
    size = len(distinct)
    order = np.random.default_rng(seed).permutation(size)
    stratum = strata[first][order]
    ranks, sizes = _ranks(stratum)
    n_folds = 1 if once else next((folds for least, folds in FOLDS if size < least), 1)
    part = np.full(size, -1)
    if n_folds == 1:
        # Depends on the number of units, so that copies of rows change nothing.
        share = min(SHARE, MOST_HELD_OUT / len(units))
        share = max(share, min(FEWEST_HELD_OUT / size, 0.5))
        counts = np.maximum(np.floor(share * sizes), 1.0)
        part[order[(ranks < counts) & (sizes > 1)]] = 0
    else:
        n_folds = min(n_folds, size)
        part[order] = np.where(sizes > 1, (ranks + stratum) % n_folds, -1)
    of_rows = part[np.searchsorted(distinct, units)]
    folds = [
        Fold(np.flatnonzero(of_rows != k), np.flatnonzero(of_rows == k)) for k in range(n_folds)
    ]
    return [fold for fold in folds if len(fold.test)]


def _ranks(stratum: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rank of each unit within its stratum, and the size of that stratum."""
    by_stratum = np.argsort(stratum, kind="stable")
    _, starts, inverse, counts = np.unique(
        stratum[by_stratum], return_index=True, return_inverse=True, return_counts=True
    )
    ranks = np.empty(len(stratum), dtype=np.intp)
    sizes = np.empty(len(stratum), dtype=np.intp)
    ranks[by_stratum] = np.arange(len(stratum)) - starts[inverse]
    sizes[by_stratum] = counts[inverse]
    return ranks, sizes


def given_folds(
    cv: Any, X: Any, y: Array, groups: Any, is_present: NDArray[np.bool_], *, classes: bool
) -> list[Fold]:
    """Return the folds of a splitter of scikit-learn, a number of folds, or an iterable.

    They split all rows. Their indices are those of the rows that are present.
    """
    if groups is not None and isinstance(cv, (int, np.integer)):
        cv = GroupKFold(int(cv))
    splitter = check_cv(cv, y, classifier=classes)
    pairs = [Fold(*map(_indices, pair)) for pair in splitter.split(X, y, groups)]
    for part in (part for pair in pairs for part in pair if part.size):
        if part.dtype.kind not in "iu" or part.min() < -len(y) or part.max() >= len(y):
            raise ValueError(
                f"cv={check.one_line(cv)} gives {check.one_line(part)}, but X has {len(y)} rows. "
                f"Pass a splitter, or pairs of arrays of integers below {len(y)}."
            )
    folds = [pair.among(is_present) for pair in pairs]
    if not folds or not all(len(fold.train) and len(fold.test) for fold in folds):
        raise ValueError(
            f"cv={check.one_line(cv)} gives no rows to fit or no held-out rows in some fold. Pass "
            "a splitter whose folds have both."
        )
    for number, fold in enumerate(folds, start=1):
        if classes and has_one_class(y[is_present], fold):
            raise ValueError(
                f"The training rows of fold {number} of cv={check.one_line(cv)} have one class. "
                "Pass another splitter, such as StratifiedKFold, or more groups."
            )
    return folds


def has_one_class(y: Array, fold: Fold) -> bool:
    """Return whether the training rows of a fold have the same class."""
    labels = y[fold.train]
    return bool((labels == labels[0]).all())


def _indices(rows: Any) -> NDArray[np.intp]:
    """Return row numbers, also for a mask."""
    found = np.asarray(rows)
    if not found.size:
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(found) if found.dtype == bool else found


def checked_groups(groups: Any) -> Array:
    """Return the groups of rows as an array without missing values."""
    found = np.asarray(groups)
    if found.ndim != 1:
        raise ValueError(
            f"groups has shape {found.shape}, but one group for each row is needed. Pass an array "
            "of one dimension."
        )
    missing = [value is None or value != value for value in found.tolist()]
    if any(missing):
        raise ValueError(
            f"groups has missing values, first in row {missing.index(True)}. Give these rows a "
            "group of their own, or drop them."
        )
    return found.astype(str) if found.dtype.kind == "O" else found


def check_groups(units: NDArray[np.intp]) -> None:
    """Raise an error if there is only one group."""
    if units.size and units.max() == 0:
        raise ValueError(
            "groups has one value, so no rows can be held out. Pass at least two groups, or None."
        )


def copies(X: Any, y: Array) -> NDArray[np.intp]:
    """Return the units of rows: equal rows are one unit, unless some have different targets.

    A copy of a held-out row among the training rows gives its target away. But if equal rows have
    different targets, as in a table of few categories, new rows are copies too.
    """
    keys = unit_free_keys(X, *_ends(X))
    _, first, units = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return np.asarray(units, dtype=np.intp)
    targets = y.reshape(len(y), -1)
    if (targets != targets[first][units]).any():
        return np.arange(len(y))
    return np.asarray(units, dtype=np.intp)


def _ends(X: Any) -> tuple[Any, Any]:
    ends = Ends.of(X)
    return ends.lowest, ends.ranges
