"""The statistics that a model keeps of its training rows; summaries of tables can be merged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.sampling import RowSample, append_columns, row_keys
from quadfeat.io import checks, register
from quadfeat.solvers.moments import Moments

# A model keeps some rows to calibrate probabilities and intervals, and to check the choice of
# alpha. It keeps as many as have KEPT_ENTRIES entries in total, within the limits KEPT_ROWS.
KEPT_ROWS = (256, 2048)
KEPT_ENTRIES = 2**22

# Kinds of numeric dtypes.
NUMBERS = "biuf"


@register
@dataclass(frozen=True)
class Summary:
    """Summary statistics of training rows, and a sample of them.

    Attributes
    ----------
    moments : Moments
        Moments of features and targets. The targets of a classifier are indicators of the classes.
    classes : array of shape (n_classes,) or None
        The classes in ascending order; None for regression.
    rows : RowSample or None
        A sample of the rows. The last columns are their targets, or the index of their class. None
        if there were no rows, and for regressions from files of formats before 4.
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
        message = "classes of _solution do not match its outputs"
        checks.expect(n_classes == self.moments.n_outputs, message)
        checks.check_kind(self.rows, RowSample, "rows of _solution")
        assert self.rows is not None
        which = self.rows.rows[:, -1]
        known = (which >= 0) & (which < n_classes) & (which == np.floor(which))
        checks.expect(bool(known.all()), "rows of _solution have unknown classes")

    @classmethod
    def empty(cls, n_components: int, targets: Float64Array, classes: Array | None) -> Summary:
        """Return a summary without rows, for targets like these."""
        shift = _typical(targets) if classes is None else np.zeros(len(classes))
        return cls(Moments.empty(n_components, shift), classes)

    def copied(self) -> Summary:
        """Return a summary with a copy of the moments, which may be overwritten."""
        products = self.moments.products.copy(order="F")
        return replace(self, moments=replace(self.moments, products=products))

    def with_rows(
        self, X: Any, columns: Array, weights: Any, codes: Float64Array | None = None
    ) -> Summary:
        """Return a summary with more rows in the sample.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
        columns : array of shape (n_rows, n_targets)
            The targets of the rows, or the indices of their classes.
        weights : array of shape (n_rows,) or None
        codes : array of shape (n_rows, n_targets), default=None
            Numbers to compute sampling keys from, instead of ``columns``. The index of a class may
            change when classes are added, but the keys must not.
        """
        sample = self.rows
        if sample is None:
            size = int(np.clip(KEPT_ENTRIES // X.shape[1], *KEPT_ROWS))
            sample = RowSample.empty(X.shape[1] + columns.shape[1], size)
        keys = row_keys(X, columns if codes is None else codes)
        if len(sample.keys) == sample.size:  # copy only the rows that the sample has room for
            found = np.flatnonzero(keys <= sample.keys[-1])
            X, columns, keys = X[found], columns[found], keys[found]
            weights = None if weights is None else weights[found]
        return replace(self, rows=sample.extended(append_columns(X, columns), weights, keys))

    @property
    def lacks_rows(self) -> bool:
        """Whether there is no sample although there were rows, as in files of older formats."""
        return self.rows is None and self.moments.n_rows > 0

    def with_classes(self, classes: Array) -> Summary:
        """Return a summary with more classes, which have no rows yet."""
        if self.classes is None or np.array_equal(classes, self.classes):
            return self
        indices = class_indices(self.classes, classes)
        transform = np.zeros((len(self.classes) + 1, len(classes)))
        transform[np.arange(len(self.classes)), indices] = 1.0
        moments = self.moments.with_outputs(transform, self.moments.shift @ transform[:-1])
        rows = self.rows
        if rows is not None:
            table = rows.rows.copy()
            table[:, -1] = indices[rows.labels]
            rows = replace(rows, rows=table)
        return replace(self, moments=moments, classes=classes, rows=rows)

    def merged(self, other: Summary) -> Summary:
        """Return the summary of both sets of rows combined."""
        left, right = self, other
        if self.classes is not None and other.classes is not None:
            classes = joint_classes(self.classes, other.classes)
            left, right = self.with_classes(classes), other.with_classes(classes)
        moments = left.moments.merged(right.moments)  # raises an error if shapes differ
        rows = left.rows or right.rows
        if left.lacks_rows or right.lacks_rows:
            rows = None  # a sample of one table does not represent both
        elif left.rows is not None and right.rows is not None:
            rows = left.rows.merged(right.rows)
        return replace(left, moments=moments, rows=rows)


def without_rows(summary: Summary) -> Summary:
    """Return a small summary that can only encode targets."""
    return replace(summary, moments=Moments.empty(0, summary.moments.shift), rows=None)


def check_classes(classes: Any, name: str) -> None:
    """Raise a ValueError unless classes are distinct and ascending."""
    checks.check_kind(classes, np.ndarray, name)
    checks.expect(classes.ndim == 1 and len(classes) >= 1, f"{name} has shape {classes.shape}")
    checks.expect(bool((classes[1:] > classes[:-1]).all()), f"{name} are not in ascending order")


def with_indices(summary: Summary, class_weights: Mapping[Any, float]) -> Summary:
    """Convert a summary of format 1 to class indices and full weights.

    Format 1 stored codes of labels, and weights that did not include class weights.
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
    """Return the value of each column that is nearest to its mean.

    Subtracting it from targets that are all equal gives exact zeros.
    """
    with np.errstate(over="ignore"):
        means = targets.mean(axis=0)
        distances = np.abs(targets - means)
    return np.take_along_axis(targets, distances.argmin(axis=0)[None], axis=0)[0]


def joint_classes(classes: Array, labels: Array) -> Array:
    """Return the union of classes and labels, in ascending order.

    Examples
    --------
    >>> joint_classes(np.array([2, 5]), np.array([3, 5])).tolist()
    [2, 3, 5]
    """
    if (classes.dtype.kind in NUMBERS) != (labels.dtype.kind in NUMBERS):
        raise ValueError(
            f"y has labels such as {labels.tolist()[0]!r}, but earlier batches had labels such as "
            f"{classes.tolist()[0]!r}. Use either numbers or strings, not both."
        )
    distinct = np.unique(labels)
    if classes.dtype == distinct.dtype or classes.dtype.kind not in NUMBERS:
        return np.union1d(classes, distinct)
    # NumPy promotes int64 and uint64, or integers and floats, to float64, which may be inexact.
    for dtype in (np.result_type(classes, distinct), np.dtype(np.int64), np.dtype(np.uint64)):
        if _represents(dtype, classes) and _represents(dtype, distinct):
            return np.union1d(classes.astype(dtype), distinct.astype(dtype))
    raise ValueError(
        f"y has labels of dtype {labels.dtype} such as {labels.max()!r}, but earlier batches had "
        f"dtype {classes.dtype}, such as {classes.max()!r}. No dtype represents both exactly: use "
        "one dtype for all labels, or strings."
    )


def _represents(dtype: Any, labels: Array) -> bool:
    """Return whether a dtype represents these numbers exactly."""
    with np.errstate(invalid="ignore"):
        cast = labels.astype(dtype)
    # Python compares integers and floats exactly.
    return cast.tolist() == labels.tolist()


def class_indices(labels: Array, classes: Array) -> NDArray[np.intp]:
    """Return the index of each label in the classes, which must contain it.

    Examples
    --------
    >>> class_indices(np.array([5, 2, 5]), np.array([2, 5])).tolist()
    [1, 0, 1]
    """
    if labels.dtype.kind in NUMBERS:
        labels = labels.astype(classes.dtype)
    return np.searchsorted(classes, labels)


def amounts_of(labels: Array, weights: Any = None) -> tuple[Array, Float64Array]:
    """Return the distinct labels, and the number of rows or the total weight of each.

    Examples
    --------
    >>> amounts_of(np.array([5, 2, 5]), np.array([1.0, 2.0, 3.0]))
    (array([2, 5]), array([2., 4.]))
    """
    distinct, which = np.unique(labels, return_inverse=True)
    return distinct, np.asarray(np.bincount(which, weights, len(distinct)), dtype=np.float64)


def label_codes(labels: Array) -> Float64Array:
    """Return a number for each label that depends only on the label.

    The number is the label itself if float64 represents it, and otherwise a hash of its string.

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
    return float(int.from_bytes(digest[:6], "big"))  # 48 bits, exact in float64
