"""Turn the columns of a table into numbers, separately for each part of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils.validation import has_fit_parameter

from quadfeat._utils.columns import names_of_frame
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.front_door.quiet import quiet
from quadfeat.front_door.splits import Fold
from quadfeat.tables import TableEncoder


class Part(NamedTuple):
    """Some rows as numbers, with targets and weights."""

    X: Any
    y: Array
    weights: Float64Array | None

    @property
    def amounts(self) -> Float64Array:
        """The weights, which are ones by default."""
        return np.ones(len(self.y)) if self.weights is None else self.weights

    def fit(self, model: Any) -> Any:
        """Fit a model to these rows."""
        if self.weights is None:
            return model.fit(self.X, self.y)
        if not has_fit_parameter(model, "sample_weight"):
            raise ValueError(
                f"{type(model).__name__} takes no sample_weight. Use other candidates, or fit "
                "without weights."
            )
        return model.fit(self.X, self.y, sample_weight=self.weights)


class Table(NamedTuple):
    """Rows with targets, before their columns are encoded.

    Attributes
    ----------
    X : array, CSR matrix or data frame
        Validated numbers unless ``encodes``.
    y : array
    weights : array of shape (n_rows,) or None
    groups : array of shape (n_rows,) or None
    encodes : bool
        Whether an encoder has to convert the columns.
    """

    X: Any
    y: Array
    weights: Float64Array | None
    groups: Array | None
    encodes: bool

    def rows(self, which: NDArray[np.intp]) -> Table:
        """Return some of the rows."""
        weights, groups = (
            None if one is None else one[which] for one in (self.weights, self.groups)
        )
        return Table(rows_of(self.X, which), self.y[which], weights, groups, self.encodes)

    @property
    def is_present(self) -> NDArray[np.bool_]:
        """Whether each row has a positive weight."""
        return np.ones(len(self.y), dtype=bool) if self.weights is None else self.weights > 0

    def present(self) -> Table:
        """Return the rows of positive weight."""
        is_present = self.is_present
        return self if is_present.all() else self.rows(np.flatnonzero(is_present))

    def encoded(self) -> tuple[Part, TableEncoder | None]:
        """Return the rows as numbers, and the encoder that was learned from them."""
        if not self.encodes:
            return Part(self.X, self.y, self.weights), None
        encoder = TableEncoder()
        return Part(encoder.fit_transform(self.X, self.y), self.y, self.weights), encoder

    def held_out(self, folds: Sequence[Fold]) -> Part:
        """Return the held-out rows of all folds, without columns."""
        rows = np.concatenate([fold.test for fold in folds])
        weights = None if self.weights is None else self.weights[rows]
        return Part(None, self.y[rows], weights)

    def encoder(self) -> TableEncoder | None:
        """Return the encoder of all rows, which says how many outputs each column has."""
        return TableEncoder().fit(self.X, self.y) if self.encodes else None

    def part(
        self, which: NDArray[np.intp], encoder: TableEncoder | None
    ) -> tuple[Part, TableEncoder | None]:
        """Return some rows as numbers, and their own encoder with the same outputs.

        Parameters
        ----------
        which : array of shape (n_part,)
        encoder : TableEncoder or None
            The encoder of all rows.
        """
        some = self.rows(which)
        if encoder is None:
            return Part(some.X, some.y, some.weights), None
        own, X = encoder.fit_transform_part(some.X, self.y, which)
        return Part(X, some.y, some.weights), own

    def split(self, fold: Fold, encoder: TableEncoder | None) -> tuple[Part, Part]:
        """Return the training rows and the held-out rows of a fold as numbers.

        The encoder of all rows sets the outputs, so that parameters found on one fold fit the
        others and all rows. It does not see the targets of held-out rows.
        """
        train, own = self.part(fold.train, encoder)
        test = self.rows(fold.test)
        X = test.X if own is None else own.transform(test.X)
        return train, Part(X, test.y, test.weights)

    def numbers(self) -> Any:
        """Return the columns as numbers without the help of targets, to find copies of rows."""
        if not self.encodes:
            return self.X
        with quiet():  # the encoder of the model shows its warnings
            return TableEncoder().fit(self.X).transform(self.X)


def needs_encoder(X: Any) -> bool:
    """Return whether columns have names, text or missing values.

    Examples
    --------
    >>> import numpy as np
    >>> needs_encoder(np.zeros((2, 2))), needs_encoder([["a", 1.0]]), needs_encoder([[np.nan]])
    (False, True, True)
    """
    if sparse.issparse(X):
        return False
    if names_of_frame(X) is not None:
        return True
    try:
        table = np.asarray(X)
    except ValueError:  # rows of different lengths: validation has the better message
        return False
    if table.ndim != 2 or table.shape[0] == 0:
        return False
    if table.dtype.kind not in "biuf":
        return table.dtype.kind in "OUS"
    return table.dtype.kind == "f" and bool(np.isnan(table).any())
