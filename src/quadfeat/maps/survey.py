"""The statistics of rows that a map is fitted to: their spread, and a sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.columns import check_finite
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Combine, Rows
from quadfeat.data.sampling import RowSample
from quadfeat.kernels import Projection, Spread
from quadfeat.maps.dominance import Dominance, dominance

# A sample has SAMPLE_ENTRIES entries, but its number of rows is within the limits SAMPLE_ROWS.
SAMPLE_ROWS = (1024, 4096)
SAMPLE_ENTRIES = 2**21

# Limits for the number of rows that are used to find a dominating column.
FEW_ROWS = (64, 4096)


class View(ABC):
    """The rows that a map is fitted to: all rows, or a sample and the spread of all rows.

    Attributes
    ----------
    table : array or CSR matrix of shape (n_rows, n_columns)
        The rows of positive weight, or a sample that suffices to estimate the error of a map.
    """

    table: Any

    @property
    @abstractmethod
    def deviation(self) -> float:
        """The standard deviation of all entries, after the projection if there is one."""

    @abstractmethod
    def sample(self, n_rows: int) -> RowSample:
        """Return a sample of rows that does not depend on their order."""

    @abstractmethod
    def dominance(self) -> Dominance | None:
        """Return the column that dominates the squared distances of some rows, if there is one."""


class TableView(View):
    """A view of all rows, which are in one table."""

    def __init__(self, X: Any, weights: Any = None, projection: Projection | None = None) -> None:
        self.X = X
        self.weights = weights
        self.projection = projection
        self.table = X if weights is None or weights.all() else X[weights > 0]

    @property
    def deviation(self) -> float:
        return Spread.of(self.X, self.weights, self.projection).deviation

    def sample(self, n_rows: int) -> RowSample:
        return RowSample.of(self.X, n_rows, self.weights)

    def dominance(self) -> Dominance | None:
        # Take every k-th row, since RowSample would read the whole table.
        n_rows, d = self.table.shape
        few = int(np.clip(SAMPLE_ENTRIES // d, *FEW_ROWS))
        rows = slice(None, None, -(-n_rows // few))
        weights = self.weights
        if weights is not None:
            weights = weights[weights > 0][rows]
        return dominance(self.table[rows], weights)


@dataclass(frozen=True)
class Survey(View):
    """A sample of rows that come in blocks, and the spread of all of them."""

    spread: Spread
    chosen: RowSample
    dtype: Any

    @classmethod
    def of(cls, block: Block, projection: Projection | None = None) -> Survey:
        """Return the survey of a block."""
        X, weights = block.X, block.weights
        check_finite(X)
        size = int(np.clip(SAMPLE_ENTRIES // X.shape[1], *SAMPLE_ROWS))
        spread = Spread.of(X, weights, projection)
        return cls(spread, RowSample.of(X, size, weights), X.dtype)

    def merged(self, other: Survey) -> Survey:
        """Return the survey of the rows of both."""
        dtype = np.result_type(self.dtype, other.dtype)
        spread, chosen = self.spread.merged(other.spread), self.chosen.merged(other.chosen)
        return Survey(spread, chosen, dtype)

    @property
    def table(self) -> Any:
        """The rows of the sample."""
        return self.chosen.rows.astype(self.dtype)

    @property
    def deviation(self) -> float:
        return self.spread.deviation

    def sample(self, n_rows: int) -> RowSample:
        return self.chosen.first(n_rows)

    def dominance(self) -> Dominance | None:
        return dominance(self.chosen.rows, self.chosen.weights)


def view_of(rows: Rows, projection: Projection | None = None) -> View:
    """Return a view of rows from any source; reject rows that are not finite."""
    return look(rows, _nothing, _nothing, projection)[0]


def look(
    rows: Rows,
    function: Callable[[Block], Any],
    combine: Combine,
    projection: Projection | None = None,
) -> tuple[View, Any]:
    """Return a view of rows, and the combined results of a function of blocks.

    Both are computed in one pass over the rows.
    """
    if rows.whole is not None:
        X, _, weights = rows.whole
        if weights is not None:  # class weights may have made all of them zero
            check.check_any_weight(weights.max())
        check_finite(X)
        return TableView(X, weights, projection), function(rows.whole)
    both = _Both(function, combine, projection)
    survey, found = rows.each(both.of, both.merged)
    check.check_any_weight(survey.spread.size)
    return survey, found


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class _Both:
    """Computes the survey and a function of each block."""

    function: Callable[[Block], Any]
    combine: Combine
    projection: Projection | None

    def of(self, block: Block) -> tuple[Survey, Any]:
        return Survey.of(block, self.projection), self.function(block)

    def merged(self, left: Any, right: Any) -> tuple[Survey, Any]:
        return left[0].merged(right[0]), self.combine(left[1], right[1])
