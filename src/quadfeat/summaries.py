"""All that a model keeps of the rows it was fitted to; summaries of two tables add up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat._validation import Array, Float64Array
from quadfeat.moments import Moments
from quadfeat.sampling import RowSample, beside

# Rows that a classifier keeps to calibrate its probabilities: so many, but not more entries.
CALIBRATION_ROWS = (256, 2048)
CALIBRATION_ENTRIES = 2**22

# Kinds of dtypes.
NUMBERS = "biuf"


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
        For a classifier: some rows, and the code of their class as the last column.
    """

    moments: Moments
    classes: Array | None = None
    rows: RowSample | None = None

    @classmethod
    def empty(cls, n_components: int, targets: Float64Array, classes: Array | None) -> Summary:
        """Return the summary of no rows, for targets like these."""
        shift = targets.mean(axis=0) if classes is None else np.zeros(len(classes))
        return cls(Moments.empty(n_components, shift), classes)

    def copied(self) -> Summary:
        """Return this with moments of its own, for an accumulator to write on."""
        products = self.moments.products.copy(order="F")
        return replace(self, moments=replace(self.moments, products=products))

    def with_rows(self, X: Any, labels: Array, weights: Any) -> Summary:
        """Return this with more rows in the sample."""
        sample = self.rows
        if sample is None:
            size = int(np.clip(CALIBRATION_ENTRIES // X.shape[1], *CALIBRATION_ROWS))
            sample = RowSample.empty(X.shape[1] + 1, size)
        table = beside(X, label_codes(labels)[:, None])
        return replace(self, rows=sample.extended(table, weights))

    def with_classes(self, classes: Array) -> Summary:
        """Return this for more classes, of which there were no rows."""
        if self.classes is None or np.array_equal(classes, self.classes):
            return self
        transform = np.zeros((len(self.classes) + 1, len(classes)))
        transform[np.arange(len(self.classes)), np.searchsorted(classes, self.classes)] = 1.0
        moments = self.moments.with_outputs(transform, np.zeros(len(classes)))
        return replace(self, moments=moments, classes=classes)

    def merged(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        left, right = self, other
        if self.classes is not None and other.classes is not None:
            classes = joint_classes(self.classes, other.classes)
            left, right = self.with_classes(classes), other.with_classes(classes)
        rows = left.rows or right.rows
        if left.rows is not None and right.rows is not None:
            rows = left.rows.merged(right.rows)
        return replace(left, moments=left.moments.merged(right.moments), rows=rows)


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
            f"{classes.tolist()[0]!r} before: give numbers or texts, not both."
        )
    return np.union1d(classes, labels)


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

    Examples
    --------
    >>> label_codes(np.array([2, 5])).tolist()
    [2.0, 5.0]
    """
    if labels.dtype.kind in NUMBERS and np.abs(labels.astype(np.float64)).max(initial=0) < 2.0**53:
        return labels.astype(np.float64)
    distinct, which = np.unique(labels, return_inverse=True)
    digests = [hashlib.sha256(str(label).encode()).digest() for label in distinct]
    # As many bits as a float64 holds.
    codes = np.array([int.from_bytes(digest[:6], "big") for digest in digests], dtype=np.float64)
    return codes[which]
