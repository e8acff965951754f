"""Class weights, which multiply the sample weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows
from quadfeat.solvers.targets import ClassAmounts


@dataclass(frozen=True)
class ClassWeights:
    """Multiply sample weights by class weights.

    Parameters
    ----------
    weights : dict
        Weight of each label. A missing label has weight 1.
    """

    weights: dict[Any, float]

    def __call__(self, block: Block) -> Block:
        """Return the block with its weights multiplied."""
        classes, which = np.unique(block.y, return_inverse=True)
        weights = np.array([self._weight_of(label) for label in classes.tolist()])[which]
        return block._replace(weights=weights if block.weights is None else weights * block.weights)

    def _weight_of(self, label: Any) -> float:
        value = self.weights.get(label, 1.0)
        if not check.is_number(value) or not 0 <= value < np.inf:
            raise ValueError(
                f"class_weight={self.weights!r} is not valid: the weight of {label!r} must be a "
                "number >= 0."
            )
        return float(value)


def balanced(rows: Rows) -> dict[Any, float]:
    """Return the class weights that give all classes the same total weight."""
    if rows.is_stream:
        raise ValueError(
            "class_weight='balanced' needs the classes of all rows at once, but X is an iterable "
            "of blocks. Pass a dict of weights."
        )
    found: ClassAmounts = rows.each(ClassAmounts.of, ClassAmounts.merged)
    amounts = found.amounts
    share = amounts.sum() / max(1, np.count_nonzero(amounts))
    return {
        label: share / amount if amount > 0 else 1.0
        for label, amount in zip(found.classes.tolist(), amounts, strict=True)
    }


def check_class_weight(weights: Any) -> None:
    """Raise an error if ``class_weight`` is not valid."""
    known = weights is None or isinstance(weights, dict)
    if not known and not (isinstance(weights, str) and weights == "balanced"):
        raise ValueError(
            f"class_weight={weights!r} is not valid: pass a dict of weights, 'balanced' or None."
        )


def check_keys(weights: Any, classes: list[Any]) -> None:
    """Reject keys that are not classes, unless all classes have a weight."""
    if not isinstance(weights, dict):
        return
    unknown = [label for label in weights if label not in classes]
    if unknown and not all(label in weights for label in classes):
        raise ValueError(
            f"class_weight={weights!r} has keys that are not in y: {unknown!r}. Pass weights for "
            f"{check.one_line(classes)}."
        )
