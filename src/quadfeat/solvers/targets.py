"""Convert targets to numeric columns, and manage their summaries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.sampling import RowSample, row_keys
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.summaries import (
    Summary,
    amounts_of,
    class_indices,
    joint_classes,
    label_codes,
)

# Rows with equal inputs are separate observations if at least this fraction of them has different
# targets.
MANY_CASES = 0.1


@dataclass(frozen=True)
class KeptRows:
    """Some of the rows that a model was fitted to.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    targets : array of shape (n_rows, n_outputs)
        The targets as the model uses them.
    weights : array of shape (n_rows,)
    labels : int array of shape (n_rows,) or None
        Indices of classes.
    """

    X: Float64Array
    targets: Float64Array
    weights: Float64Array
    labels: Array | None = None

    @cached_property
    def leaves_one(self) -> bool:
        """Whether to leave out only one copy of a row, instead of all copies.

        If a row was recorded several times, all copies have to be left out together, since another
        copy would reveal its target. But if columns have few distinct values, such as categories,
        equal rows are separate observations. In that case, some rows have equal inputs and
        different targets.
        """
        if len(self.weights) == 0:
            return False
        keys = row_keys(self.X)
        _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
        totals = np.bincount(which, self.weights)
        repeated = totals > self.weights.min()
        several = counts > 1
        return bool(totals[several].sum() > MANY_CASES * totals[repeated | several].sum())

    @property
    def amounts(self) -> Float64Array:
        """The weight to leave out of each row."""
        return np.minimum(self.weights, 1.0) if self.leaves_one else self.weights


def sample_of(summary: Summary) -> RowSample:
    """Return the sample of rows of a summary; raise an error if there is none."""
    if summary.rows is None:
        raise ValueError(
            "the model keeps no training rows, because it was saved by an earlier version of "
            "quadfeat or was fitted without rows. Fit it again."
        )
    return summary.rows


class Targets(ABC):
    """Converts the targets of blocks to numeric columns.

    Objects are immutable and small when pickled. Solvers minimize squared errors in these columns;
    other losses need other solvers.
    """

    @abstractmethod
    def start(self, table: Block, n_columns: int) -> Summary:
        """Return a summary without rows for ``n_columns`` features and blocks like this one."""

    @abstractmethod
    def columns(self, y: Any, summary: Summary | None = None) -> Float64Array:
        """Return the targets as columns of a summary, shape (n_rows, n_outputs)."""

    def prepared(self, summary: Summary, block: Block) -> Summary:
        """Return a summary to which a block can be added."""
        return summary

    def extended(self, summary: Summary, moments: Moments, block: Block) -> Summary:
        """Return a summary that includes a block. ``moments`` already include it."""
        extended = Summary(moments, summary.classes, summary.rows)
        return extended if summary.lacks_rows else self.with_kept(extended, block)

    def with_kept(self, summary: Summary, block: Block) -> Summary:
        """Return a summary with the rows of a block added to its sample."""
        return summary

    def kept(self, summary: Summary) -> KeptRows:
        """Return the rows that a summary keeps, with the final targets."""
        raise NotImplementedError

    def transform(self, summary: Summary) -> Float64Array | None:
        """Return the matrix from the targets of a summary to the final ones; None if equal."""
        return None

    def final(self, y: Any, summary: Summary) -> Float64Array:
        """Return the final targets, as the model uses them, shape (n_rows, n_outputs)."""
        targets = self.columns(y, summary)
        transform = self.transform(summary)
        if transform is None:
            return targets
        return np.asarray(targets @ sparse.csr_array(transform[:-1]) + transform[-1])

    def shift(self, summary: Summary, *, intercept: bool) -> Any:
        """Return the shift of the targets, shape (n_outputs,).

        The shift is zero unless there is an intercept to absorb it.
        """
        return np.zeros(1)


@dataclass(frozen=True)
class Numbers(Targets):
    """Targets of a regression: one or several numbers per row."""

    def start(self, table: Block, n_columns: int) -> Summary:
        targets, weights = self.columns(table.y), table.weights
        if weights is not None and weights.any():  # ignore rows of weight 0
            targets = targets[weights > 0]
        return Summary.empty(n_columns, targets, None)

    def columns(self, y: Any, summary: Summary | None = None) -> Float64Array:
        targets: Float64Array = y.reshape(len(y), -1)
        if summary is not None and targets.shape[1] != summary.moments.n_outputs:
            raise ValueError(
                f"y has {targets.shape[1]} columns, but earlier batches had "
                f"{summary.moments.n_outputs}. Use the same number of columns in all batches."
            )
        return targets

    def with_kept(self, summary: Summary, block: Block) -> Summary:
        return summary.with_rows(block.X, self.columns(block.y), block.weights)

    def kept(self, summary: Summary) -> KeptRows:
        rows, n_outputs = sample_of(summary), summary.moments.n_outputs
        return KeptRows(rows.rows[:, :-n_outputs], rows.rows[:, -n_outputs:], rows.weights)

    def shift(self, summary: Summary, *, intercept: bool) -> Any:
        return summary.moments.shift if intercept else np.zeros(1)


@dataclass(frozen=True, eq=False)
class Labels(Targets):
    """Targets of a classification: an indicator column for each class.

    Parameters
    ----------
    declared : array of shape (n_classes,), default=None
        All classes. None if any batch may contain new classes.
    """

    declared: Array | None = None

    def start(self, table: Block, n_columns: int) -> Summary:
        classes = np.unique(table.y) if self.declared is None else self.declared
        return Summary.empty(n_columns, np.zeros((0, len(classes))), classes)

    def columns(self, y: Any, summary: Summary | None = None) -> Float64Array:
        classes: Any = np.unique(y) if summary is None else summary.classes
        targets = np.zeros((len(y), len(classes)))
        targets[np.arange(len(y)), class_indices(y, classes)] = 1.0
        return targets

    def prepared(self, summary: Summary, block: Block) -> Summary:
        assert summary.classes is not None
        classes = joint_classes(summary.classes, block.y)
        if len(classes) == len(summary.classes):
            return summary
        self.check_declared(classes)
        return summary.with_classes(classes)

    def check_declared(self, classes: Array) -> None:
        """Raise an error for undeclared classes, if classes were declared."""
        if self.declared is None:
            return
        new = np.setdiff1d(classes, self.declared)
        if len(new):
            raise ValueError(
                f"y has the classes {new.tolist()}, which are not in the classes="
                f"{self.declared.tolist()} of the first call to partial_fit."
            )

    def with_kept(self, summary: Summary, block: Block) -> Summary:
        assert summary.classes is not None
        which = class_indices(block.y, summary.classes)[:, None]
        return summary.with_rows(block.X, which, block.weights, label_codes(summary.classes)[which])

    def kept(self, summary: Summary) -> KeptRows:
        rows = sample_of(summary)
        assert summary.classes is not None
        targets = self.final(summary.classes[rows.labels], summary)
        return KeptRows(rows.rows[:, :-1], targets, rows.weights, rows.labels)

    def transform(self, summary: Summary) -> Float64Array:
        assert summary.classes is not None
        n_classes = len(summary.classes)
        transform = np.vstack([2.0 * np.eye(n_classes), -np.ones((1, n_classes))])
        return transform[:, 1:] if n_classes == 2 else transform


@dataclass(frozen=True)
class Outputs:
    """The classes and the shift of targets, from a first pass over the rows.

    Attributes
    ----------
    summary : Summary
        A summary without rows that has all classes.
    weight : float
        The total weight of the rows.
    """

    summary: Summary
    weight: float

    @classmethod
    def of(cls, targets: Targets, block: Block) -> Outputs:
        """Return the outputs of a block."""
        weight = float(block.n_rows if block.weights is None else block.weights.sum())
        return cls(targets.start(block, 0), weight)

    def merged(self, other: Outputs) -> Outputs:
        """Return the outputs of both sets of rows combined."""
        ours, theirs = (one.summary.moments.n_outputs for one in (self, other))
        if self.summary.classes is None and ours != theirs:
            raise ValueError(
                f"y has {theirs} columns, but earlier batches had {ours}. Use the same number of "
                "columns in all batches."
            )
        # Take the shift from rows of positive weight.
        first, second = (self, other) if self.weight > 0 else (other, self)
        return Outputs(first.summary.merged(second.summary), self.weight + other.weight)


@dataclass(frozen=True)
class ClassAmounts:
    """The number of rows of each class, or their total weight."""

    classes: Array
    amounts: Float64Array

    @classmethod
    def of(cls, block: Block) -> ClassAmounts:
        """Count the classes of a block."""
        return cls(*amounts_of(block.y, block.weights))

    def merged(self, other: ClassAmounts) -> ClassAmounts:
        """Return the amounts for both sets of rows combined."""
        classes = joint_classes(self.classes, other.classes)
        amounts = np.zeros(len(classes))
        for one in (self, other):
            amounts[class_indices(one.classes, classes)] += one.amounts
        return ClassAmounts(classes, amounts)
