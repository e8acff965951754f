"""The base class of models on features: fit, add rows and merge.

Subclasses define targets, weights and predictions. The map comes from
:mod:`quadfeat.models.mapping`, the rows from :mod:`quadfeat.data`, the coefficients from a solver.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import changing, snapshot
from quadfeat.data.checkpoints import Checkpoint, prepare_folder, sample_digest
from quadfeat.data.rows import ArrayRows, Rows
from quadfeat.data.watch import Work
from quadfeat.engine.threads import one_blas_thread
from quadfeat.kernels import Kernel
from quadfeat.maps.transformer import TransformerMap
from quadfeat.models import parameters, saved
from quadfeat.models.choosing import searches
from quadfeat.models.fitted import FittedModel, own_map
from quadfeat.models.keywords import explain_fit_keywords, explain_keywords
from quadfeat.models.mapping import check_same_names, features_for, kept_map
from quadfeat.models.reading import Reader, naming_columns, rows_for
from quadfeat.rules import Rule
from quadfeat.solvers.base import Penalty, Problem, Solution, Solver
from quadfeat.solvers.dual import settled

Self = TypeVar("Self", bound="QuadratureModel")

# Private attributes that fit sets, and removes before it starts.
LEARNED = (
    "_solution",
    "_one_output",
    "_declared",
    "_balanced",
    "_fitted_with",
    "_transformer_map",
    "_choice",
)

# With at most this many rows, all matrices are small. Several BLAS threads would spend more time
# waiting for each other than they save, most of all on a busy machine.
FEW_ROWS = 2048


def can_add_rows(model: Any) -> bool:
    """Return True if a model can add rows; otherwise raise an error with the reason."""
    reason = model._reason_against_adding()
    if reason is not None:
        raise AttributeError(reason)
    return True


class QuadratureModel(FittedModel):
    """Base class of regression and classification."""

    # Options for scikit-learn's validation of the targets.
    _target_checks: dict[str, Any] = {}  # noqa: RUF012

    @explain_keywords
    def __init__(
        self,
        kernel: Kernel | str = "auto",
        *,
        gamma: Any = None,
        n_components: int = 1024,
        rule: Rule | str = "auto",
        features: Any = None,
        alpha: Any = "auto",
        alphas: Any = None,
        lengthscales: str | None = None,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        gram_dtype: str = "float32",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.rule = rule
        self.features = features
        self.alpha = alpha
        self.alphas = alphas
        self.lengthscales = lengthscales
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.gram_dtype = gram_dtype
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint

    # Methods that regression and classification override.

    def _checked_targets(self, y: Any) -> Any:
        """Validate and return the targets of a batch."""
        raise NotImplementedError

    def _weighted(self, rows: Rows) -> Rows:
        """Return the rows with their final weights."""
        return rows

    def _describe(self, solution: Solution) -> None:
        """Set the attributes that describe the targets."""

    def _declare(self, classes: Any) -> None:
        """Store the classes of all rows, if the user has passed them."""

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is not valid, before any computation."""
        parameters.check_all(self)

    def _check_fit(self) -> None:
        """Raise an error if the targets of all rows are not valid."""

    def _n_outputs(self, solved: int) -> int:
        """Return the expected number of outputs, given that the solution has ``solved``."""
        raise NotImplementedError

    def _reason_against_adding(self) -> str | None:
        """Return the reason why rows cannot be added; None if they can."""
        return parameters.reason_against_adding(self)

    # Fitting.

    @explain_fit_keywords
    def fit(self: Self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or iterable of blocks
            The training rows. A memory map is read one block at a time. An iterable, such as
            :class:`~quadfeat.ParquetBlocks`, yields tuples ``(X, y)`` or ``(X, y, sample_weight)``.
            If the map depends on the data, it is fitted to the first block. Dask workers process
            the blocks of Dask arrays and data frames.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. None for an iterable of blocks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        object
            The fitted model.
        """
        self._check_parameters()
        with changing(self):
            draft = self._blank()
            with naming_columns(draft, X):
                rows = rows_for(draft, X, y, sample_weight)
                if rows.against_checkpoints is None:
                    prepare_folder(self.checkpoint)
                is_small = rows.n_rows is not None and rows.n_rows <= FEW_ROWS
                with one_blas_thread() if is_small else nullcontext():
                    draft._fit_rows(draft._weighted(rows))
            self.__dict__ = draft.__dict__
        return self

    def _fit_rows(self, rows: Rows) -> None:
        """Fit the model to rows from any source."""
        if self.checkpoint is not None and rows.against_checkpoints is not None:
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} has no effect, because "
                f"{rows.against_checkpoints}. Remove checkpoint."
            )
        first = rows.opening().whole  # sets the column names, which are part of the identity
        identity, sample = {}, ""
        if self.checkpoint is not None:
            assert first is not None  # local rows are in memory
            identity = parameters.identity(self, rows.n_rows)
            sample = sample_digest(first, rows.n_rows)
        checkpoint = Checkpoint(self.checkpoint, identity, saved.check_state, sample)
        state = checkpoint.load()
        solver = parameters.solver_for(self, self.n_components, rows) if searches(self) else None
        solved = self._take_features(state, rows, solver)
        if state and state["map"] != self.map_.fingerprint():
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} belongs to a fit with another map. Use the "
                "same data and random_state, delete the file, or set another path."
            )
        problem = self._problem()
        solver = parameters.solver_for(self, self.map_.n_columns, rows)
        solver.check_rows(rows, problem.penalty)
        checkpoint.check_state(state, solver.check_state)
        work = Work(checkpoint, state, kept_map(self), verbose=bool(self.verbose))
        if state and state.get("n_done") == 0:
            work.show(f"resumed from checkpoint={str(self.checkpoint)!r}, which has the map")
        if solved is None:
            solved = solver.solve(settled(solver, problem, rows), rows, work)
        self._solution: Any = solved
        self._describe(self._solution)
        checkpoint.remove()
        self._check_fit()

    def _blank(self: Self) -> Self:
        """Return an unfitted copy to work on, so that a failed fit leaves this model unchanged."""
        draft = copy.copy(self)
        draft.__dict__ = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in LEARNED
        }
        return draft

    def _take_features(self, state: Any, rows: Rows, solver: Solver | None) -> Solution | None:
        """Set the map, from a checkpoint or for the rows.

        Return the solution if it was already computed to validate the map.
        """
        solution = None
        if state and state["features"] is not None:
            self.features_, self._choice = state["features"], state["choice"]
        else:
            found = features_for(self, rows, solver)
            self.features_, self._choice = found.features, found.choice
            # With a checkpoint, solve again, so that a killed fit can resume from its state.
            if self.checkpoint is None or found.is_constant:
                solution = found.solution
        if own_map(self.features_) is None:
            self._transformer_map = TransformerMap.of(self.features_, rows.n_columns)
        self._fitted_with = parameters.of_all_rows(self)
        return solution

    def _problem(self) -> Problem:
        """Return the problem for the solver."""
        penalty = Penalty.of(self.alpha, self.alphas)
        return Problem(self.map_, self._targets(), penalty, bool(self.fit_intercept))

    def _add(self: Self, X: Any, y: Any, sample_weight: Any, declared: Any = None) -> Self:
        """Add rows to the rows of earlier calls."""
        self._check_parameters()
        with changing(self):
            is_first = not hasattr(self, "features_")
            draft = self._blank() if is_first else copy.copy(self)
            if not is_first and not self._solution.has_posterior:
                raise ValueError(
                    f"the model was fitted with solver={self._solution.solver_name!r}, which does "
                    "not keep the Gram matrix. Fit it with solver='normal' to add rows."
                )
            if is_first:
                draft._declare(declared)
            with naming_columns(draft, X):
                rows = draft._weighted(ArrayRows(Reader(draft)(X, y, sample_weight)))
                assert rows.whole is not None
                if is_first:
                    draft._take_features(None, rows, None)
                else:
                    parameters.check_same(draft)
                before = None if is_first else draft._solution
                solver = parameters.adding_solver(self)
                draft._solution = solver.with_rows(draft._problem(), before, rows.whole)
            draft._describe(draft._solution)
            self.__dict__ = draft.__dict__
        return self

    @available_if(can_add_rows)
    def merge(self: Self, other: Any) -> Self:
        """Add the rows of another fitted model that has the same map.

        Parameters
        ----------
        other : object
            A fitted model of the same class. It does not change.

        Returns
        -------
        object
            This model, now fitted to the rows of both.
        """
        with changing(self):
            check_is_fitted(self)
            if type(other) is not type(self):
                raise TypeError(
                    f"other={check.one_line(other)} is not valid: pass a fitted "
                    f"{type(self).__name__}."
                )
            other = snapshot(other)
            check_is_fitted(other)
            self._check_mergeable(other)
            draft = copy.copy(self)  # so that an interrupt leaves this model unchanged
            draft._solution = self._solution.merged(other._solution, self._problem())
            draft._describe(draft._solution)
            self.__dict__ = draft.__dict__
        return self

    def _check_mergeable(self, other: Any) -> None:
        """Raise an error if the rows of another model cannot be added."""
        for name, model in (("this model", self), ("the other model", other)):
            if not model._solution.has_posterior:
                raise ValueError(
                    f"{name} was fitted with solver={model._solution.solver_name!r}, which does "
                    "not keep the Gram matrix. Fit it with solver='normal' to merge."
                )
        ours, theirs = self.map_.fingerprint(), other.map_.fingerprint()
        if ours != theirs:
            raise ValueError(
                f"the two models have different maps ({ours[:12]} and {theirs[:12]}). Fit both "
                "with the same features=fitted_map."
            )
        check_same_names(self, other, "the other model")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # Attributes in pickles and files.

    needed_attributes = ("features_", "_solution", "n_features_in_")
    saved_attributes: tuple[str, ...] = (
        "n_features_in_",
        "feature_names_in_",
        *LEARNED,
        "features_",
    )
    path_parameters = ("checkpoint",)

    def check_consistency(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""
        if hasattr(self, "features_"):
            saved.check_model(self)

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Convert the attributes of an older format."""
        return saved.migrated(attributes, found_format)
