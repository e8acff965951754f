"""The base class of models on the nearest rows: fit, and add rows."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from quadfeat._utils import validation as check
from quadfeat._utils.columns import check_finite
from quadfeat._utils.fitted import changing
from quadfeat._utils.validation import Float64Array
from quadfeat.data.rows import ArrayRows, Rows
from quadfeat.io import checks
from quadfeat.kernels import Kernel
from quadfeat.learning.candidates import Choice
from quadfeat.models.keywords import explain_fit_keywords, explain_keywords
from quadfeat.models.local_attributes import LocalAttributes
from quadfeat.models.local_fitting import Table, check_parameters, fit_local, is_enough
from quadfeat.models.reading import Reader, naming_columns, rows_for
from quadfeat.neighbors.fit import LocalFit
from quadfeat.neighbors.goals import Goal
from quadfeat.neighbors.rows import DistinctRows

Self = TypeVar("Self", bound="LocalModel")

# Private attributes that fit sets, and removes before it starts.
LEARNED = ("_solution", "_choice", "_one_output", "_declared", "_balanced")


class LocalModel(LocalAttributes):
    """Base class of models on the nearest rows."""

    allows_auto_kernel = True
    _target_checks: dict[str, Any] = {}  # noqa: RUF012
    # The kind of the attribute ``_solution``.
    _fit_kind = LocalFit

    @explain_keywords
    def __init__(
        self,
        kernel: Kernel | str = "auto",
        *,
        gamma: Any = None,
        n_neighbors: int | str = "auto",
        alpha: float | str = "auto",
        lengthscales: str | None = None,
        search: str = "auto",
        time_limit: float | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.lengthscales = lengthscales
        self.search = search
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Methods that regression and classification override.

    def _checked_targets(self, y: Any) -> Any:
        """Validate and return the targets of a batch."""
        raise NotImplementedError

    def _table(self, rows: Rows) -> Table:
        """Return rows from any source in one table, with numeric targets."""
        raise NotImplementedError

    def _extended(self, before: LocalFit, rows: Rows) -> Table:
        """Return the rows of an earlier fit together with more rows."""
        raise NotImplementedError

    def _distinct_rows(self, table: Table) -> DistinctRows:
        """Return the rows to learn settings from."""
        return DistinctRows.of(*table)

    def _goal(self, rows: DistinctRows) -> Goal:
        """Return what the search for settings optimizes."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is not valid, before any computation."""
        check_parameters(self)

    def _check_fit(self) -> None:
        """Raise an error if the targets of all rows are not valid."""

    def _declare(self, classes: Any) -> None:
        """Store the classes of all rows, if the user has passed them."""

    def _reason_against_adding(self) -> str | None:
        """Return the reason why rows cannot be added; None if they can."""
        return None

    def _check_outputs(self, n_outputs: int) -> None:
        """Raise an error if the model is not for this number of outputs."""

    @explain_fit_keywords
    def fit(self: Self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or iterable of blocks
            The training rows, which the model keeps in float64. An iterable, such as
            :class:`~quadfeat.ParquetBlocks`, yields tuples ``(X, y)`` or ``(X, y, sample_weight)``.
            The blocks of iterables and of Dask collections are gathered in memory, up to 2 ** 29
            entries.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. None for an iterable of blocks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights: the noise variance of a row is divided by its weight.

        Returns
        -------
        object
            The fitted model.
        """
        self._check_parameters()
        with changing(self):
            draft = self._blank()
            with naming_columns(draft, X):
                table = draft._table(rows_for(draft, X, y, sample_weight))
            draft._check_fit()
            draft._learn(table)
            self.__dict__ = draft.__dict__
        return self

    def _learn(self, table: Table) -> None:
        """Learn the settings from a table."""
        self._solution, self._choice = fit_local(self, table)

    def _add(self: Self, X: Any, y: Any, sample_weight: Any, declared: Any = None) -> Self:
        """Add rows to the rows of earlier calls."""
        self._check_parameters()
        with changing(self):
            is_first = not hasattr(self, "_solution")
            draft = self._blank() if is_first else copy.copy(self)
            if is_first:
                draft._declare(declared)
            with naming_columns(draft, X):
                rows = ArrayRows(Reader(draft)(X, y, sample_weight, part=not is_first))
                table = draft._table(rows) if is_first else draft._extended(self._solution, rows)
            if is_first or not is_enough(self._solution):
                draft._learn(table)
            else:
                draft._solution = self._solution.with_rows(*table)
            self.__dict__ = draft.__dict__
        return self

    def _blank(self: Self) -> Self:
        """Return an unfitted copy to work on, so that a failed fit leaves this model unchanged."""
        draft = copy.copy(self)
        draft.__dict__ = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in LEARNED
        }
        return draft

    def _rows(self, X: Any) -> Float64Array:
        """Validate rows for prediction."""
        X = self._validated(X)
        check_finite(X)
        return check.to_dense_float64(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # Attributes in pickles and files.

    needed_attributes = ("_solution", "_choice", "n_features_in_")
    saved_attributes: tuple[str, ...] = ("n_features_in_", "feature_names_in_", *LEARNED)

    def check_consistency(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""
        if not hasattr(self, "_solution"):
            return
        checks.check_kind(self._solution, LocalFit, "_solution")
        checks.check_kind(self._choice, Choice, "_choice")
        self._check_outputs(self._solution.n_outputs)
        checks.check_column_names(self)
        d, found = self.n_features_in_, self._solution.X.shape[1]
        checks.expect(d == found, f"the model is for {d} columns, but its rows have {found}")
