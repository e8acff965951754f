"""Labels of models on nearest rows, as numeric targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quadfeat._utils.validation import Array
from quadfeat.data.blocks import Block
from quadfeat.models.local_fitting import Table
from quadfeat.neighbors.classes import codes_of, encoded
from quadfeat.neighbors.fit import LocalFit
from quadfeat.solvers.summaries import class_indices, joint_classes


class LabeledTable(NamedTuple):
    """Rows with classes.

    Attributes
    ----------
    rows : Table
        The rows of positive weight. The only target is the index of the class.
    classes : array of shape (n_classes,)
        In ascending order, also of rows of weight 0.
    """

    rows: Table
    classes: Array

    @classmethod
    def of(cls, block: Block) -> LabeledTable:
        """Return the rows of a block."""
        classes, which = np.unique(block.y, return_inverse=True)
        return cls(Table.of(block._replace(y=which)), classes)

    @classmethod
    def of_fit(cls, fit: LocalFit, classes: Array) -> LabeledTable:
        """Return the rows of a fit with encoded classes."""
        which = np.zeros(len(fit.Y)) if len(classes) == 1 else codes_of(fit.Y)
        return cls(Table(fit.X, which[:, None].astype(np.float64), fit.weights), classes)

    def merged(self, other: LabeledTable) -> LabeledTable:
        """Return the rows of both."""
        classes = joint_classes(self.classes, other.classes)
        rows = self.with_classes(classes).rows.merged(other.with_classes(classes).rows)
        return LabeledTable(rows, classes)

    def with_classes(self, classes: Array) -> LabeledTable:
        """Return the same rows, for more classes."""
        places = class_indices(self.classes, classes).astype(np.float64)
        Y = places[self.rows.Y.astype(np.intp)]
        return LabeledTable(self.rows._replace(Y=Y), classes)

    def encoded(self) -> Table:
        """Return the rows with numeric targets."""
        which = self.rows.Y[:, 0].astype(np.intp)
        return self.rows._replace(Y=encoded(which, len(self.classes)))
