"""Turn the columns of a table into numbers, separately for each part of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing as rows_of

from quadfeat._utils.columns import names_of_frame
from quadfeat._utils.validation import Array, Float64Array
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
    encoder : TableEncoder or None
        An encoder that was fitted to all rows. Its outputs are those of all folds, so a kernel
        that was found on one fold suits all rows. Only mean targets differ.
    """

    X: Any
    y: Array
    weights: Float64Array | None
    groups: Array | None
    encodes: bool
    encoder: TableEncoder | None = None

    def rows(self, which: NDArray[np.intp]) -> Table:
        """Return some of the rows."""
        weights, groups = (
            None if one is None else one[which] for one in (self.weights, self.groups)
        )
        X, y = rows_of(self.X, which), self.y[which]
        return Table(X, y, weights, groups, self.encodes, self.encoder)

    def with_encoder(self) -> Table:
        """Return the same rows with an encoder, if the columns need one."""
        return self._replace(encoder=TableEncoder().fit(self.X, self.y)) if self.encodes else self

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
        if self.encoder is None:
            encoder = TableEncoder()
            X = encoder.fit_transform(self.X, self.y)
        else:
            encoder, X = self.encoder.relearned(self.X, self.y)
        return Part(X, self.y, self.weights), encoder

    def held_out(self, folds: Sequence[Fold]) -> Part:
        """Return the held-out rows of all folds, without columns."""
        rows = np.concatenate([fold.test for fold in folds])
        weights = None if self.weights is None else self.weights[rows]
        return Part(None, self.y[rows], weights)

    def split(self, fold: Fold) -> tuple[Part, Part]:
        """Return the training rows and the held-out rows of a fold as numbers.

        The targets of held-out rows take no part in learning the encoder.
        """
        train, encoder = self.rows(fold.train).encoded()
        test = self.rows(fold.test)
        X = test.X if encoder is None else encoder.transform(test.X)
        return train, Part(X, test.y, test.weights)

    def numbers(self) -> Any:
        """Return the columns as numbers without the help of targets, to find copies of rows."""
        return TableEncoder().fit(self.X).transform(self.X) if self.encodes else self.X


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
