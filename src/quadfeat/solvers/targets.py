"""How targets become columns of numbers, and what a model keeps to make more of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.summaries import Summary, amounts_of, class_indices, joint_classes


class Targets(ABC):
    """Makes columns of the targets of a block. Immutable, and small when it is pickled.

    Errors in these columns are squared: another loss takes a solver of its own.
    """

    @abstractmethod
    def start(self, table: Block, n_columns: int) -> Summary:
        """Return the summary of no rows and so many features, for blocks like this one."""

    @abstractmethod
    def columns(self, y: Any, summary: Summary | None = None) -> Float64Array:
        """Return the targets that are summed up, shape (n_rows, n_outputs)."""

    def prepared(self, summary: Summary, block: Block) -> Summary:
        """Return a summary that is ready to have a block added."""
        return summary

    def extended(self, summary: Summary, moments: Moments, block: Block) -> Summary:
        """Return a summary with the moments that include a block."""
        return Summary(moments, summary.classes, summary.rows)

    def transform(self, summary: Summary) -> Float64Array | None:
        """Return what makes the targets of the model of those that are summed up."""
        return None

    def final(self, y: Any, summary: Summary) -> Float64Array:
        """Return the targets of the model, shape (n_rows, n_outputs)."""
        targets = self.columns(y, summary)
        transform = self.transform(summary)
        if transform is None:
            return targets
        return np.asarray(targets @ sparse.csr_array(transform[:-1]) + transform[-1])

    def shift(self, summary: Summary, *, intercept: bool) -> Any:
        """Return what may be left out of the targets: with an intercept, what all have in common.

        Of shape (n_outputs,).
        """
        return np.zeros(1)


@dataclass(frozen=True)
class Numbers(Targets):
    """Numbers, one or several for each row."""

    def start(self, table: Block, n_columns: int) -> Summary:
        targets, weights = self.columns(table.y), table.weights
        if weights is not None and weights.any():  # a target that does not count may be anything
            targets = targets[weights > 0]
        return Summary.empty(n_columns, targets, None)

    def columns(self, y: Any, summary: Summary | None = None) -> Float64Array:
        targets: Float64Array = y.reshape(len(y), -1)
        if summary is not None and targets.shape[1] != summary.moments.n_outputs:
            raise ValueError(
                f"y has {targets.shape[1]} columns, and had {summary.moments.n_outputs} before: "
                "give targets of the same shape."
            )
        return targets

    def shift(self, summary: Summary, *, intercept: bool) -> Any:
        return summary.moments.shift if intercept else np.zeros(1)


@dataclass(frozen=True, eq=False)
class Labels(Targets):
    """Classes: for each of them, whether a row belongs to it.

    Parameters
    ----------
    declared : array of shape (n_classes,), default=None
        All classes there are. None if any batch may have new ones.
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
        """Raise an error for classes that were not declared, if some were."""
        if self.declared is None:
            return
        new = np.setdiff1d(classes, self.declared)
        if len(new):
            raise ValueError(
                f"y has the classes {new.tolist()}, which are not among those that were given to "
                f"the first partial_fit: {self.declared.tolist()}."
            )

    def extended(self, summary: Summary, moments: Moments, block: Block) -> Summary:
        extended = super().extended(summary, moments, block)
        assert extended.classes is not None
        which = class_indices(block.y, extended.classes)
        return extended.with_rows(block.X, which, block.weights)

    def transform(self, summary: Summary) -> Float64Array:
        assert summary.classes is not None
        n_classes = len(summary.classes)
        transform = np.vstack([2.0 * np.eye(n_classes), -np.ones((1, n_classes))])
        return transform[:, 1:] if n_classes == 2 else transform


@dataclass(frozen=True)
class Outputs:
    """What a model may have to know of its targets before it sums up its rows.

    Attributes
    ----------
    summary : Summary
        Of no rows, but with all classes.
    weight : float
        The sum of the weights of the rows.
    """

    summary: Summary
    weight: float

    @classmethod
    def of(cls, targets: Targets, block: Block) -> Outputs:
        """Look at the targets of a block."""
        weight = float(block.n_rows if block.weights is None else block.weights.sum())
        return cls(targets.start(block, 0), weight)

    def merged(self, other: Outputs) -> Outputs:
        """Return that of the rows of both."""
        ours, theirs = (one.summary.moments.n_outputs for one in (self, other))
        if self.summary.classes is None and ours != theirs:
            raise ValueError(
                f"y has {theirs} columns, and had {ours} before: give targets of the same shape."
            )
        # The shift of the targets is that of rows that count.
        first, second = (self, other) if self.weight > 0 else (other, self)
        return Outputs(first.summary.merged(second.summary), self.weight + other.weight)


@dataclass(frozen=True)
class ClassAmounts:
    """How often classes occur, or the sums of their weights."""

    classes: Array
    amounts: Float64Array

    @classmethod
    def of(cls, block: Block) -> ClassAmounts:
        """Count the classes of a block."""
        return cls(*amounts_of(block.y, block.weights))

    def merged(self, other: ClassAmounts) -> ClassAmounts:
        """Return those of the rows of both."""
        classes = joint_classes(self.classes, other.classes)
        amounts = np.zeros(len(classes))
        for one in (self, other):
            amounts[class_indices(one.classes, classes)] += one.amounts
        return ClassAmounts(classes, amounts)
