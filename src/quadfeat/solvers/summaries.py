"""All that a model keeps of the rows it was fitted to; summaries of two tables add up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.sampling import RowSample, beside, row_keys
from quadfeat.io import checks, register
from quadfeat.solvers.moments import Moments

# Rows that a model keeps to calibrate probabilities and intervals, and to guard the choice of
# alpha: so many, but not more entries.
KEPT_ROWS = (256, 2048)
KEPT_ENTRIES = 2**22

# Kinds of dtypes.
NUMBERS = "biuf"


@register
@dataclass(frozen=True)
class Summary:
    """What is left of rows after they were used.

    Attributes
    ----------
    moments : Moments
        Of features and targets. The targets of a classifier are, for each class, whether a row
        belongs to it.
    classes : array of shape (n_classes,) or None
        Ascending; None for regression.
    rows : RowSample or None
        Some of the rows. The last columns are their targets, or the index of their class. None
        without rows, and for regressions from files of formats before 4.
    """

    moments: Moments
    classes: Array | None = None
    rows: RowSample | None = None

    def check_consistency(self) -> None:
        checks.check_kind(self.moments, Moments, "moments of _solution")
        if self.classes is None:
            if self.rows is not None:
                checks.check_kind(self.rows, RowSample, "rows of _solution")
                enough = self.rows.rows.shape[1] > self.moments.n_outputs
                checks.expect(enough, "rows of _solution have no targets")
            return
        check_classes(self.classes, "classes of _solution")
        n_classes = len(self.classes)
        checks.expect(n_classes == self.moments.n_outputs, "classes are not as many as outputs")
        checks.check_kind(self.rows, RowSample, "rows of _solution")
        assert self.rows is not None
        which = self.rows.rows[:, -1]
        known = (which >= 0) & (which < n_classes) & (which == np.floor(which))
        checks.expect(bool(known.all()), "rows have other classes")

    @classmethod
    def empty(cls, n_components: int, targets: Float64Array, classes: Array | None) -> Summary:
        """Return the summary of no rows, for targets like these."""
        shift = _typical(targets) if classes is None else np.zeros(len(classes))
        return cls(Moments.empty(n_components, shift), classes)

    def copied(self) -> Summary:
        """Return this with moments of its own, for an accumulator to write on."""
        products = self.moments.products.copy(order="F")
        return replace(self, moments=replace(self.moments, products=products))

    def with_rows(
        self, X: Any, columns: Array, weights: Any, codes: Float64Array | None = None
    ) -> Summary:
        """Return this with more rows in the sample.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
        columns : array of shape (n_rows, n_targets)
            Their targets, or the indices of their classes.
        weights : array of shape (n_rows,) or None
        codes : array of shape (n_rows, n_targets), default=None
            What keys depend on instead of ``columns``. Indices of classes change when there are
            more classes; keys have to stay as they are.
        """
        sample = self.rows
        if sample is None:
            size = int(np.clip(KEPT_ENTRIES // X.shape[1], *KEPT_ROWS))
            sample = RowSample.empty(X.shape[1] + columns.shape[1], size)
        keys = None if codes is None else row_keys(beside(X, codes))
        return replace(self, rows=sample.extended(beside(X, columns), weights, keys))

    @property
    def lacks_rows(self) -> bool:
        """Whether there were rows of which none were kept, in a file of an older format."""
        return self.rows is None and self.moments.n_rows > 0

    def with_classes(self, classes: Array) -> Summary:
        """Return this for more classes, of which there were no rows."""
        if self.classes is None or np.array_equal(classes, self.classes):
            return self
        places = class_indices(self.classes, classes)
        transform = np.zeros((len(self.classes) + 1, len(classes)))
        transform[np.arange(len(self.classes)), places] = 1.0
        moments = self.moments.with_outputs(transform, self.moments.shift @ transform[:-1])
        rows = self.rows
        if rows is not None:
            table = rows.rows.copy()
            table[:, -1] = places[rows.labels]
            rows = replace(rows, rows=table)
        return replace(self, moments=moments, classes=classes, rows=rows)

    def merged(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        left, right = self, other
        if self.classes is not None and other.classes is not None:
            classes = joint_classes(self.classes, other.classes)
            left, right = self.with_classes(classes), other.with_classes(classes)
        moments = left.moments.merged(right.moments)  # raises an error for other targets
        rows = left.rows or right.rows
        if left.lacks_rows or right.lacks_rows:
            rows = None  # those of one table are no sample of both
        elif left.rows is not None and right.rows is not None:
            rows = left.rows.merged(right.rows)
        return replace(left, moments=moments, rows=rows)


def without_rows(summary: Summary) -> Summary:
    """Return a summary that only codes targets, which is small."""
    return replace(summary, moments=Moments.empty(0, summary.moments.shift), rows=None)


def check_classes(classes: Any, name: str) -> None:
    """Raise a ValueError unless labels are distinct and ascending."""
    checks.check_kind(classes, np.ndarray, name)
    checks.expect(classes.ndim == 1 and len(classes) >= 1, f"{name} has shape {classes.shape}")
    checks.expect(bool((classes[1:] > classes[:-1]).all()), f"{name} are not ascending")


def with_indices(summary: Summary, class_weights: Mapping[Any, float]) -> Summary:
    """Return a summary of format 1 whose rows have indices of classes, and all their weights.

    Format 1 kept codes of labels, and weights without those of the classes.
    """
    assert summary.classes is not None
    assert summary.rows is not None
    rows, codes = summary.rows, label_codes(summary.classes)
    order = np.argsort(codes)
    found = np.minimum(np.searchsorted(codes[order], rows.rows[:, -1]), len(codes) - 1)
    which = order[found]
    known = codes[which] == rows.rows[:, -1]
    factors = np.array([class_weights.get(label, 1.0) for label in summary.classes.tolist()])
    weights = rows.weights * factors[which]
    table = np.column_stack([rows.rows[:, :-1], which])
    kept = replace(rows, keys=rows.keys[known], rows=table[known], weights=weights[known])
    return replace(summary, rows=kept)


def _typical(targets: Float64Array) -> Float64Array:
    """Return, for each column, the value that is nearest to the mean.

    A value that occurs leaves exact zeros of targets that are all equal.
    """
    with np.errstate(over="ignore"):
        means = targets.mean(axis=0)
        distances = np.abs(targets - means)
    return np.take_along_axis(targets, distances.argmin(axis=0)[None], axis=0)[0]


def joint_classes(classes: Array, labels: Array) -> Array:
    """Return the classes together with those of labels, ascending.

    Examples
    --------
    >>> joint_classes(np.array([2, 5]), np.array([3, 5])).tolist()
    [2, 3, 5]
    """
    if (classes.dtype.kind in NUMBERS) != (labels.dtype.kind in NUMBERS):
        raise ValueError(
            f"y has labels such as {labels.tolist()[0]!r}, and had some such as "
            f"{classes.tolist()[0]!r} before: give numbers or strings, not both."
        )
    distinct = np.unique(labels)
    if classes.dtype == distinct.dtype or classes.dtype.kind not in NUMBERS:
        return np.union1d(classes, distinct)
    # NumPy joins signed and unsigned integers, or integers and floats, as float64.
    for dtype in (np.result_type(classes, distinct), np.dtype(np.int64), np.dtype(np.uint64)):
        if _holds(dtype, classes) and _holds(dtype, distinct):
            return np.union1d(classes.astype(dtype), distinct.astype(dtype))
    raise ValueError(
        f"y has labels of dtype {labels.dtype} such as {labels.max()!r}, and had labels of dtype "
        f"{classes.dtype} such as {classes.max()!r} before: no dtype holds both exactly. Give all "
        "labels in one dtype, or as strings."
    )


def _holds(dtype: Any, labels: Array) -> bool:
    """Return whether a dtype holds these numbers exactly."""
    with np.errstate(invalid="ignore"):
        cast = labels.astype(dtype)
    # Python compares integers and floats exactly.
    return cast.tolist() == labels.tolist()


def class_indices(labels: Array, classes: Array) -> NDArray[np.intp]:
    """Return the index of each label among classes, which have to contain it.

    Examples
    --------
    >>> class_indices(np.array([5, 2, 5]), np.array([2, 5])).tolist()
    [1, 0, 1]
    """
    if labels.dtype.kind in NUMBERS:
        labels = labels.astype(classes.dtype)
    return np.searchsorted(classes, labels)


def amounts_of(labels: Array, weights: Any = None) -> tuple[Array, Float64Array]:
    """Return the distinct labels, and how often each occurs or the sum of its weights.

    Examples
    --------
    >>> amounts_of(np.array([5, 2, 5]), np.array([1.0, 2.0, 3.0]))
    (array([2, 5]), array([2., 4.]))
    """
    distinct, which = np.unique(labels, return_inverse=True)
    return distinct, np.asarray(np.bincount(which, weights, len(distinct)), dtype=np.float64)


def label_codes(labels: Array) -> Float64Array:
    """Return a number for each label that depends on nothing but the label.

    That is the label itself if float64 holds it, and a hash of its text otherwise.

    Examples
    --------
    >>> label_codes(np.array([2, 5])).tolist()
    [2.0, 5.0]
    >>> len(set(label_codes(np.array([2**60, 2**60 + 1]))))
    2
    """
    return np.array([_label_code(label) for label in labels.tolist()], dtype=np.float64)


def _label_code(label: Any) -> float:
    if isinstance(label, (bool, int, float)):
        if abs(label) < 2**53:
            return float(label)
        label = int(label)
    digest = hashlib.sha256(str(label).encode(errors="surrogatepass")).digest()
    return float(int.from_bytes(digest[:6], "big"))  # as many bits as a float64 holds
