"""Learn the settings of a process on nearest rows from a table with many columns.

Neighbors among hundreds of correlated columns, such as pixels, take long to find, and so do the
derivatives by the lengthscale of each column. The principal columns of such a table are few, and
neighbors among them are usually better: small differences in many columns no longer count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Float64Array
from quadfeat.engine.threads import one_blas_thread
from quadfeat.kernels import Kernel, Projection, SeparationKernel
from quadfeat.learning.clock import Clock
from quadfeat.learning.columns import standardized
from quadfeat.neighbors.goals import Goal
from quadfeat.neighbors.learning import PART_FOR_LEARNING, LocalSearch
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.tried import Tried, Wanted

# Tables with more columns are projected to this number of principal columns. For images, half as
# many are worse, and all columns are worse in the same time.
WIDE = 128
PRINCIPAL = 64

# Principal columns are those of this many rows.
PRINCIPAL_ROWS = 2048

# With principal columns, settings for all columns are learned only if the usual scale has a loss
# below this multiple of the loss of principal columns. Learning rarely lowers it by more.
WORTH_LEARNING = 1.5


class WideSearch:
    """Learns settings from principal columns, and from all columns if they may be better.

    Parameters
    ----------
    goal_of : callable
        Returns the goal for rows.
    rows : DistinctRows
    wanted : Wanted
    clock : Clock
    n_threads : int

    Attributes
    ----------
    goal : Goal
        The goal for all columns.
    wanted : Wanted
    tried : list of Tried
        The best settings first, and then the others from best to worst.
    """

    def __init__(
        self,
        goal_of: Callable[[DistinctRows], Goal],
        rows: DistinctRows,
        wanted: Wanted,
        clock: Clock,
        n_threads: int,
    ) -> None:
        self.goal = goal_of(rows)
        self.wanted = wanted
        self.clock = clock
        self.tried: list[Tried] = []
        self._goal_of = goal_of
        self._rows = rows
        self._n_threads = n_threads

    def run(self) -> Tried:
        """Return the best settings; ``alpha`` is for rows of weight 1."""
        plain = self._search(self._rows, self.wanted)
        if not plain.can_learn:
            return plain.run()
        best = self._on_principal_columns()
        if self._is_worth_learning(plain, best):
            found = plain.run()
            self.tried += plain.tried
            best = min(best, found, key=lambda one: one.loss)
        others = sorted((one for one in self.tried if one is not best), key=lambda one: one.loss)
        self.tried = [best, *others]
        return best

    def _is_worth_learning(self, plain: LocalSearch, best: Tried) -> bool:
        """Return whether settings for all columns may be better than those that were found."""
        if self.clock.is_over(PART_FOR_LEARNING):
            return False
        X, ranges = self._rows.X[:PRINCIPAL_ROWS], np.ptp(self._rows.X, axis=0)
        units = standardized(X, np.ones(len(X)), ranges)[1]
        usual = self._kernel.usual_factor(int(np.count_nonzero(units)))
        factors = np.divide(usual, units, out=np.zeros_like(units), where=units > 0)
        self.clock.show("trying all columns")
        return plain.loss_at(factors) < WORTH_LEARNING * best.loss

    def _on_principal_columns(self) -> Tried:
        """Return the best settings for principal columns, and add all of them to ``tried``."""
        wanted = replace(self.wanted, compresses=False)
        projections = principal_projections(self._rows)
        searches = [
            self._search(replace(self._rows, X=one.rows(self._rows.X)), wanted)
            for one in projections
        ]
        losses = [one.loss_at(self._usual(one.rows.X)) for one in searches]
        chosen = int(np.argmin(losses))
        search, projection = searches[chosen], projections[chosen]
        del searches
        best = search.run()
        found = [_on(projection, one) for one in search.tried]
        self.tried += found
        return found[0] if found else _on(projection, best)

    @property
    def _kernel(self) -> SeparationKernel:
        """The first family, to compare columns with."""
        return next(iter(self.wanted.families.values()))

    def _usual(self, principal: Float64Array) -> Float64Array:
        """Return the usual factors of principal columns, which share a unit."""
        unit = float(np.sqrt(np.mean(np.var(principal, axis=0))))
        d = principal.shape[1]
        return np.full(d, self._kernel.usual_factor(d) / (unit or 1.0))

    def _search(self, rows: DistinctRows, wanted: Wanted) -> LocalSearch:
        return LocalSearch(self._goal_of(rows), wanted, self.clock, self._n_threads)


def _on(projection: Projection, found: Tried) -> Tried:
    """Return settings that were found for projected rows as settings for all columns."""
    settings = replace(found.settings, projection=projection)
    name = f"{found.name}, {projection.width} principal columns"
    return found._replace(name=name, settings=settings)


def is_of_principal_columns(kernel: Kernel) -> bool:
    """Return whether a learned kernel compares principal columns."""
    projection = kernel.projection
    return projection is not None and projection.width < projection.n_features_in


def principal_projections(rows: DistinctRows) -> list[Projection]:
    """Return projections to principal columns: of columns in their units, and standardized ones.

    Columns such as pixels share a unit, and those that hardly vary should not count. Other columns
    have different units. There is one projection if columns have similar spreads.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 200))
    >>> rows = DistinctRows.of(X, np.zeros((500, 1)), np.ones(500))
    >>> [one.width for one in principal_projections(rows)]
    [64, 64]
    """
    part = slice(PRINCIPAL_ROWS)
    X, weights = rows.X[part], rows.weights[part]
    columns, units = standardized(X, weights, np.ptp(rows.X, axis=0))
    center = np.average(X, axis=0, weights=weights)
    number = min(PRINCIPAL, *X.shape)
    largest = units.max()
    found = []
    for factors in (
        np.where(units > 0, 1.0 / largest, 0.0),
        np.divide(1.0, units, out=np.zeros_like(units), where=units > 0),
    ):
        # Outliers are clipped, so that none of them is a principal column of its own.
        vectors = _principal_directions(columns * (units * factors), weights, number)
        found.append(Projection.of(vectors * factors, center))
    return found


def _principal_directions(X: Float64Array, weights: Float64Array, number: int) -> Float64Array:
    """Return the first right singular vectors of weighted rows, shape (number, d)."""
    X = X * np.sqrt(weights / weights.sum())[:, None]
    n_rows, d = X.shape
    size = min(n_rows, d)
    which = (size - number, size - 1)
    # The matrices are small, and the result should not depend on the number of BLAS threads.
    with one_blas_thread():
        if d <= n_rows:
            vectors = linalg.eigh(X.T @ X, subset_by_index=which)[1].T
        else:
            left = linalg.eigh(X @ X.T, subset_by_index=which)[1]
            vectors = left.T @ X
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return np.ascontiguousarray(vectors[::-1])
