"""A Gaussian process on nearest rows, with all its parameters."""

from __future__ import annotations

import copy

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.neighbors.conditional import (
    Conditional,
    LogLikelihood,
    Neighborhoods,
    condition,
    log_likelihood,
    pull_back,
)
from quadfeat.neighbors.reference import joined
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.search import NearestRows, batches
from quadfeat.neighbors.settings import Settings

__all__ = ["LocalProcess", "Settings"]

# Neighborhoods of at most this many coordinates are in memory at once.
ENTRIES_AT_ONCE = 2**23


class LocalProcess:
    """A Gaussian process that predicts each row from the rows nearest to it.

    Parameters
    ----------
    rows : DistinctRows
    settings : Settings
    n_threads : int, default=1

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Gaussian
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> rows = DistinctRows.of(X, np.sin(X), np.ones(40))
    >>> process = LocalProcess(rows, Settings(Gaussian(), np.ones(1), 1e-6, n_neighbors=8))
    >>> process.predict(np.array([[1.0]])).mean.round(2)
    array([[0.84]])
    """

    def __init__(self, rows: DistinctRows, settings: Settings, n_threads: int = 1) -> None:
        self.rows = rows
        self.settings = settings
        # The settings that scale the points.
        self._searched = settings
        self._nearest = NearestRows(settings.points(rows.X), n_threads, settings.search)

    def with_threads(self, n_threads: int) -> LocalProcess:
        """Return the same process with another number of threads."""
        other = copy.copy(self)
        other._nearest = self._nearest.with_threads(n_threads)
        return other

    def with_settings(self, settings: Settings) -> LocalProcess:
        """Return a process with other settings that share the points; see ``Settings``."""
        other = copy.copy(self)
        other.settings = settings
        return other

    def with_targets(self, rows: DistinctRows) -> LocalProcess:
        """Return a process with other targets and weights of the same rows."""
        other = copy.copy(self)
        other.rows = rows
        return other

    @property
    def recall(self) -> float:
        """The share of the nearest rows that the search finds."""
        return self._nearest.index.recall

    def predict(self, X: Float64Array) -> Conditional:
        """Return the distribution of the latent function at some rows."""
        settings, nearest = self.settings, self._nearest
        parts = []
        for part in batches(len(X), self._rows_at_once):
            queries = self._searched.queries(X[part])
            found = nearest.to(queries, settings.n_neighbors)
            parts.append(self._conditions(self._hoods(queries, found)))
        return joined(parts)

    def left_out(self, which: Array) -> Conditional:
        """Return the distribution at some of the own rows, given all other rows."""
        parts = []
        for part in batches(len(which), self._rows_at_once):
            parts.append(self._conditions(self.without_own(which[part])))
        return joined(parts)

    def _conditions(self, hoods: Neighborhoods) -> Conditional:
        settings = self.settings
        return condition(settings.kernel, hoods, settings.alpha, self._nearest.n_threads)

    def conditions_of(self, hoods: Neighborhoods, settings: Settings) -> Conditional:
        """Return the distributions for neighborhoods of this process, with other settings."""
        scaled = hoods.scaled(settings.relative_to(self.settings))
        return condition(settings.kernel, scaled, settings.alpha, self._nearest.n_threads)

    def slopes_of(
        self, hoods: Neighborhoods, settings: Settings, by_mean: Float64Array
    ) -> Float64Array:
        """Return the derivatives of a loss by the logarithms of the factors and of alpha.

        ``by_mean`` has its derivatives with respect to the means of :meth:`conditions_of`.
        """
        scaled = hoods.scaled(settings.relative_to(self.settings))
        by_variance = np.zeros(len(by_mean))
        return pull_back(
            settings.kernel, scaled, settings.alpha, by_mean, by_variance, self._nearest.n_threads
        ).sum(axis=0)

    def likelihood_of(
        self,
        hoods: Neighborhoods,
        which: Array,
        settings: Settings | None = None,
        prior: float = 0.0,
    ) -> LogLikelihood:
        """Return the log likelihood of own rows given neighborhoods, with other settings if given.

        The neighborhoods are scaled by the factors of the process. ``prior`` is that of
        :func:`log_likelihood`.
        """
        rows, settings = self.rows, self.settings if settings is None else settings
        if settings is not self.settings:
            hoods = hoods.scaled(settings.relative_to(self.settings))
        noise = 1.0 / rows.weights[which]
        return log_likelihood(
            settings.kernel,
            hoods,
            rows.Y[which],
            noise,
            settings.alpha,
            scatter=rows.scatter[which].sum(axis=0),
            n_spare=float(rows.n_spare[which].sum()),
            prior=prior,
            n_threads=self._nearest.n_threads,
        )

    def without_own(self, which: Array) -> Neighborhoods:
        """Return the neighborhoods of some of the own rows, which do not contain these rows."""
        nearest = self._nearest
        found = nearest.to_own(which, self.settings.n_neighbors)
        return self._hoods(nearest.points[which], found)

    def _hoods(self, queries: Float64Array, neighbors: Array) -> Neighborhoods:
        rows, points = self.rows, self._nearest.points
        hoods = Neighborhoods.of(queries, points, rows.Y, rows.weights, neighbors)
        if self.settings is self._searched:
            return hoods
        return hoods.scaled(self.settings.relative_to(self._searched))

    @property
    def _rows_at_once(self) -> int:
        width = self.rows.X.shape[1] + self.rows.Y.shape[1] + 1
        return max(1, ENTRIES_AT_ONCE // (width * self.settings.n_neighbors))
