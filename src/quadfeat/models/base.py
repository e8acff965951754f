"""What models on features have in common: fitting block by block, adding rows, predicting.

The features of a block of rows are made, used and overwritten by those of the next one. What is
kept is a summary, whose size does not depend on the number of rows.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import changing, on_snapshot, snapshot
from quadfeat._utils.lazy import CopiedState, cached_property
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block, Source, Validated, is_dask, is_stream
from quadfeat.data.checkpoints import NOT_IDENTITY, Checkpoint, described
from quadfeat.data.progress import Progress
from quadfeat.data.sampling import RangedSample, beside
from quadfeat.io import checks, register
from quadfeat.io.persistence import reason_against_saving
from quadfeat.io.pickles import VersionedState
from quadfeat.kernels import Kernel, as_kernel
from quadfeat.maps.products import FeatureProducts
from quadfeat.models.features import QuadratureFeatures
from quadfeat.rules import Rule
from quadfeat.solvers import conjugate, lengthscales, posterior
from quadfeat.solvers.moments import Accumulator, Moments, rows_per_block
from quadfeat.solvers.posterior import AlphaPath, Posterior, RidgeProblem
from quadfeat.solvers.summaries import Summary, with_indices
from quadfeat.solvers.systems import LocalSystem, System

Self = TypeVar("Self", bound="QuadratureModel")

CRITERIA = ("gcv", "loo", "evidence")
SOLVERS = ("auto", "normal", "cg")
GRAM_DTYPES = ("float32", "float64")
LENGTHSCALES = ("isotropic", "ard")

# With more features than this, solver="auto" is "cg": the matrix of products would fill the memory.
NORMAL_UP_TO = 8192

MAX_ITER = 500

# Rows on which lengthscales are learnt.
LENGTHSCALE_ROWS = 1000

# Rows among which those are looked for at once.
ROWS_PER_SAMPLE = 8192

# Private attributes that a fit sets; those of scikit-learn stay.
LEARNT = ("_solution", "_one_output", "_declared", "_balanced", "_fitted_with")

# Parameters that rows which are added later have to share with the first ones.
OF_ALL_ROWS = (
    "kernel",
    "n_components",
    "rule",
    "features",
    "lengthscales",
    "random_state",
    "class_weight",
)


@register
@dataclass(frozen=True)
class Penalty:
    """Which alpha: a number, or the best of some by a criterion."""

    alpha: float | None
    criterion: str = "gcv"
    alphas: Float64Array | None = None

    def check_consistency(self) -> None:
        Penalty.of(self.criterion if self.alpha is None else self.alpha, self.alphas)

    @classmethod
    def of(cls, alpha: Any, alphas: Any) -> Penalty:
        """Check what the user gave."""
        if isinstance(alpha, str):
            check.check_choice(alpha, "alpha", CRITERIA)
            return cls(None, alpha, None if alphas is None else _check_alphas(alphas, "alphas"))
        if alphas is not None:
            raise ValueError(
                f"alphas={alphas!r} has nothing to act on, since alpha={alpha!r} is given: use "
                "alpha='gcv', 'loo' or 'evidence' to choose among them."
            )
        if isinstance(alpha, (list, tuple)) or np.ndim(alpha) > 0:
            return cls(None, "gcv", _check_alphas(alpha, "alpha"))
        return cls(check.check_positive(alpha, "alpha"))


def _check_alphas(values: Any, name: str) -> Float64Array:
    try:
        alphas = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={values!r} is not valid: give numbers > 0.") from error
    if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0)).all():
        raise ValueError(f"{name}={values!r} is not valid: give one or more finite numbers > 0.")
    return alphas


def check_same_names(model: Any, other: Any, name: str) -> None:
    """Refuse what was fitted to columns of other names, if both know theirs."""
    ours, theirs = (getattr(one, "feature_names_in_", None) for one in (model, other))
    if ours is not None and theirs is not None and not np.array_equal(ours, theirs):
        raise ValueError(
            f"{name} was fitted to the columns {check.one_line(list(theirs))}, and here they are "
            f"{check.one_line(list(ours))}: give the same ones in the same order."
        )


def can_add_rows(model: Any) -> bool:
    """Return True if a model has ``partial_fit`` and ``merge``; otherwise raise the reason."""
    reason = model._reason_against_adding()
    if reason is not None:
        raise AttributeError(reason)
    return True


def can_predict_proba(model: Any) -> bool:
    """Return True if a classifier has ``predict_proba``; otherwise raise the reason."""
    solution = getattr(model, "_solution", None)
    iterative = (
        model.solver == "cg" if solution is None else isinstance(solution, IterativeSolution)
    )
    if iterative:
        raise AttributeError(
            "probabilities need the matrix of products, which solver='cg' does not have: use "
            "solver='normal'."
        )
    return True


@register
class Solution(CopiedState):
    """The coefficients that follow from a summary, computed when they are first asked for."""

    saved_attributes = ("summary", "problem", "penalty", "dtype", "temperature", "posterior")

    def check_consistency(self) -> None:
        checks.check_kind(self.summary, Summary, "summary of _solution")
        checks.check_kind(self.problem, RidgeProblem, "problem of _solution")
        problems = [self.problem]
        if "posterior" in vars(self):
            checks.check_kind(self.posterior, Posterior, "posterior of _solution")
            problems.append(self.posterior.problem)
        for problem in problems:
            checks.expect(
                problem.moments.products is self.summary.moments.products
                and np.array_equal(problem.moments.shift, self.summary.moments.shift),
                "_solution has two summaries",
            )
            checks.expect(problem.n_targets == self.problem.n_targets, "_solution has two problems")
        checks.check_kind(self.penalty, Penalty, "penalty of _solution")
        check.check_choice(self.dtype, "dtype of _solution", GRAM_DTYPES)
        if self.temperature is not None:
            check.check_positive(self.temperature, "temperature of _solution")

    def check_fits(self, n_components: int, d: int, classes: Array | None) -> int:
        """Check that a model of these columns and classes can have it; return its outputs."""
        summary = self.summary
        checks.expect(
            summary.moments.n_components == n_components, "_solution is that of another map"
        )
        checks.expect((summary.classes is None) == (classes is None), "classes_ do not fit")
        if summary.rows is not None and summary.classes is not None and classes is not None:
            checks.expect(np.array_equal(summary.classes, classes), "classes_ do not fit")
            checks.expect(summary.rows.rows.shape[1] == d + 1, "rows have other columns")
        return self.problem.n_targets

    # A direct solver reports one iteration and no error.
    n_iter = 1
    error = 0.0

    def __init__(
        self, summary: Summary, problem: RidgeProblem, penalty: Penalty, dtype: str
    ) -> None:
        self.summary = summary
        self.problem = problem
        self.penalty = penalty
        self.dtype = dtype
        self.temperature: float | None = None  # of a classifier, when it was asked for

    @cached_property
    def posterior(self) -> Posterior:
        """The coefficients and what is known about them."""
        found = self.solve()
        self.warn_of_precision(found)
        return found

    def warn_of_precision(self, found: Posterior) -> None:
        """Warn if products of features are not precise enough for an alpha."""
        if self.is_below_precision(found.alpha, found.path):
            check.warn_user(
                f"alpha={found.alpha:.3g} is at the limit of products of features in float32: "
                "their rounding may show. Give gram_dtype='float64', or a larger alpha."
            )

    def solve(self, left_out: Any = None) -> Posterior:
        """Solve the normal equations; ``left_out`` is that of ``posterior.choose_alpha``."""
        if self.penalty.alpha is not None:
            return posterior.solve(self.problem, self.penalty.alpha)
        return posterior.choose_alpha(
            self.problem, self.penalty.criterion, self.penalty.alphas, left_out
        )

    def is_below_precision(self, alpha: float, path: AlphaPath | None = None) -> bool:
        """Return whether an alpha, best of a path, takes products in float64, and they are not."""
        default_path = None if self.penalty.alphas is not None else path
        smallest = 0.0 if default_path is None else float(default_path.alphas[0])
        return self.dtype == "float32" and posterior.is_below_precision(
            self.summary.moments, alpha, smallest
        )

    @property
    def coefficients(self) -> Float64Array:
        """Of shape (n_components, n_outputs)."""
        return self.posterior.coefficients

    @property
    def intercept(self) -> Float64Array:
        """Of shape (n_outputs,)."""
        return self.posterior.intercept

    @property
    def alpha(self) -> float:
        """The penalty that was used."""
        return float(self.posterior.alpha)


@register
@dataclass(frozen=True)
class IterativeSolution:
    """The coefficients that conjugate gradients have found."""

    coefficients: Float64Array
    intercept: Float64Array
    alpha: float
    n_iter: int
    error: float

    def check_consistency(self) -> None:
        name = "coefficients of _solution"
        n_outputs = checks.n_columns_of(self.coefficients, name)
        shape = (len(self.coefficients), n_outputs)
        checks.check_array(self.coefficients, shape, np.float64, name)
        checks.check_array(self.intercept, shape[1:], np.float64, "intercept of _solution")
        check.check_positive(self.alpha, "alpha of _solution")
        check.check_count(self.n_iter, "n_iter of _solution", 0)
        checks.check_number(self.error, "error of _solution")

    def check_fits(self, n_components: int, d: int, classes: Array | None) -> int:
        """Check that a model of these columns and classes can have it; return its outputs."""
        checks.expect(len(self.coefficients) == n_components, "_solution is that of another map")
        return self.coefficients.shape[1]


@dataclass(frozen=True)
class Coefficients:
    """What it takes of a solution to predict."""

    coefficients: Float64Array
    intercept: Float64Array
    temperature: float | None = None


def check_state(state: Any) -> None:
    """Raise an error if the state of a fit that was read from a checkpoint is not one."""
    checks.check_kind(state, dict, "state")
    checks.check_kind(state["map"], str, "map")
    features = state["features"]
    if features is not None:
        checks.check_kind(features, QuadratureFeatures, "features")
        checks.expect(features.__sklearn_is_fitted__(), "features are not fitted")
    if "iteration" in state:
        checks.check_kind(state["iteration"], (conjugate.State, type(None)), "iteration")
        return
    check.check_count(state["n_done"], "n_done", 0)
    check.check_count(state["size"], "size")
    check.check_choice(state["dtype"], "dtype", GRAM_DTYPES)
    summary = state["summary"]
    if summary is not None:
        checks.check_kind(summary, Summary, "summary")
        checks.expect(
            features is None or summary.moments.n_components == features.n_components_,
            "moments are those of another map",
        )


class QuadratureModel(VersionedState):
    """What regression and classification have in common."""

    def __init__(
        self,
        kernel: Kernel | str = "gaussian",
        *,
        n_components: int = 1024,
        rule: Rule | str = "auto",
        features: Any = None,
        alpha: Any = 1.0,
        alphas: Any = None,
        lengthscales: str | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        gram_dtype: str = "float32",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        self.kernel = kernel
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
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.checkpoint = checkpoint

    # What regression and classification do differently.

    def _checked_targets(self, y: Any) -> Any:
        """Return validated targets of a batch."""
        raise NotImplementedError

    def _weighted(self, block: Block) -> Block:
        """Return a block with the weights with which its rows count."""
        return block

    def _look_at(self, table: Block) -> None:
        """Learn what has to be known of all rows before they are used."""

    def _targets(self, y: Any, summary: Summary | None) -> Float64Array:
        """Return the targets that are summed up, shape (n_rows, n_outputs)."""
        raise NotImplementedError

    def _start(self, block: Block, n_components: int) -> Summary:
        """Return the summary of no rows, for blocks like this one."""
        raise NotImplementedError

    def _prepared(self, summary: Summary, block: Block) -> Summary:
        """Return a summary that is ready to have a block added."""
        return summary

    def _transform(self, summary: Summary) -> Float64Array | None:
        """Return what makes the targets of the model of those that are summed up."""
        return None

    def _describe(self, summary: Summary) -> None:
        """Set the attributes that tell about the targets."""

    # Pickles and files.

    _needs = ("features_", "_solution", "n_features_in_")
    saved_attributes: tuple[str, ...] = (
        "n_features_in_",
        "feature_names_in_",
        *LEARNT,
        "features_",
    )
    path_parameters = ("checkpoint",)

    def check_consistency(self) -> None:
        if not hasattr(self, "features_"):
            return
        checks.check_kind(self.features_, QuadratureFeatures, "features_")
        checks.expect(self.features_.__sklearn_is_fitted__(), "features_ is not fitted")
        d, expected = self.n_features_in_, self.features_.n_features_in_
        checks.expect(d == expected, f"the model is for {d} columns, and its map for {expected}")
        checks.check_column_names(self)
        classes = getattr(self, "classes_", None)
        n_outputs = self._solution.check_fits(self.features_.n_components_, d, classes)
        expected = self._expected_outputs(n_outputs)
        checks.expect(n_outputs == expected, f"there are {n_outputs} outputs and not {expected}")
        checks.check_flag(getattr(self, "_declared", False), "_declared")
        checks.check_kind(getattr(self, "_balanced", {}), dict, "_balanced")
        checks.check_texts(getattr(self, "_fitted_with", {}), "_fitted_with")

    def _expected_outputs(self, n_outputs: int) -> int:
        """Return how many outputs a solution with ``n_outputs`` has to have."""
        raise NotImplementedError

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        parts = vars(attributes["_solution"]) if "_solution" in attributes else {}
        if found_format < 2 and "summary" in parts:
            summary, problem = parts["summary"], parts["problem"]
            if not hasattr(summary.moments, "control"):  # of a pickle, which has old parts
                old = vars(summary.moments)
                moments = Moments(**Moments.migrate(old, found_format))
                problem = RidgeProblem(moments, problem.intercept, problem.transform)
                summary = replace(summary, moments=moments)
                if "posterior" in parts:
                    parts["posterior"] = replace(parts["posterior"], problem=problem)
            if summary.rows is not None:
                weights = attributes.get("class_weight")
                weights = attributes.get("_balanced") if isinstance(weights, str) else weights
                summary = with_indices(summary, weights or {})
            parts.update(summary=summary, problem=problem)
        return attributes

    @property
    def _penalty(self) -> Penalty:
        """Which alpha the user wants."""
        return Penalty.of(self.alpha, self.alphas)

    # Fitting.

    def fit(self: Self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or iterable of blocks
            A memory map is read a block at a time. An iterable yields tuples ``(X, y)`` or
            ``(X, y, sample_weight)``, such as :class:`~quadfeat.ParquetBlocks`; the first of them
            decides about a map that depends on the data. Dask arrays and data frames are summed up
            where their blocks are.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; None for an iterable of blocks.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.

        Returns
        -------
        object
            The fitted model.
        """
        self._check_parameters()
        with changing(self):
            return self._fit(X, y, sample_weight)

    def _fit(self: Self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit the model while no other thread changes it."""
        if is_dask(X):
            from quadfeat.data import distributed

            return distributed.fit(self, X, y, sample_weight)
        draft = self._blank()
        if y is None and is_stream(X):
            if sample_weight is not None:
                raise ValueError(
                    "sample_weight cannot be given beside an iterable of blocks: let it yield "
                    "(X, y, sample_weight)."
                )
            tables = Validated(X, lambda *item: draft._weighted(draft._validated(*item)))
            source = Source(tables, None, repeatable=iter(X) is not X)
        else:
            block = draft._validated(X, y, sample_weight)
            draft._look_at(block)
            source = Source([draft._weighted(block)], block.X.shape[0], repeatable=True)
        draft._fit_source(source)
        self.__dict__ = draft.__dict__
        return self

    def _blank(self: Self) -> Self:
        """Return a copy that is not fitted: a fit is replaced as a whole or not at all."""
        draft = copy.copy(self)
        draft.__dict__ = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in LEARNT
        }
        return draft

    def _validated(self, X: Any, y: Any, sample_weight: Any = None, *, part: bool = False) -> Block:
        """Return a batch as a block; the first one decides about the columns.

        With ``part=True``, all weights may be zero.
        """
        X, y = to_numpy(X, "X"), to_numpy(y, "y")
        sample_weight = to_numpy(sample_weight, "sample_weight")
        X, y = validate_data(
            self,
            X,
            y,
            reset=not hasattr(self, "n_features_in_"),
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,  # the map sees to that, block by block
            **self._target_checks,
        )
        y = self._checked_targets(y)
        weights = None
        if sample_weight is not None:
            # Later batches, and parts of a table, may as well not be there.
            part = part or hasattr(self, "features_")
            weights = check.check_weights(sample_weight, X, part=part)
        return Block(check.without_duplicates(X), y, weights)

    _target_checks: dict[str, Any] = {}  # noqa: RUF012

    def _check_parameters(self) -> None:
        """Complain about parameters before any work."""
        penalty = self._penalty
        if str(self.n_components) == "auto":
            raise ValueError(
                "n_components='auto' is for the map, which has a tol of its own: give "
                "features=QuadratureFeatures(n_components='auto', tol=0.05), or a number."
            )
        check.check_choice(self.solver, "solver", SOLVERS)
        check.check_choice(self.gram_dtype, "gram_dtype", GRAM_DTYPES)
        check.check_flag(self.fit_intercept, "fit_intercept")
        check.check_positive(self.tol, "tol")
        if self.max_iter is not None:
            check.check_count(self.max_iter, "max_iter")
        if self.lengthscales is not None:
            check.check_choice(self.lengthscales, "lengthscales", LENGTHSCALES)
        if self.solver == "cg" and penalty.alpha is None:
            raise ValueError(
                f"alpha={self.alpha!r} cannot be chosen by solver='cg', which knows no "
                "eigenvalues: give a number, or use solver='normal'."
            )
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise TypeError(
                f"checkpoint={self.checkpoint!r} is not valid: give the path of a file, or None."
            )
        check.check_n_jobs(self.n_jobs)
        if self.features is not None:
            defaults = {"kernel": "gaussian", "n_components": 1024, "rule": "auto"}
            for name, default in (defaults | {"lengthscales": None}).items():
                value = getattr(self, name)
                if not (isinstance(value, type(default)) and value == default):
                    raise ValueError(
                        f"{name}={check.one_line(value)} has nothing to act on, since features "
                        "are given, which have their own: leave it out."
                    )

    def _fit_source(self, source: Source) -> None:
        """Fit to the blocks of a source."""
        first = source.first()
        checkpoint = Checkpoint(self.checkpoint, self._identity(source), check_state)
        state = checkpoint.load()
        kept = state["features"] if state else None
        self.features_ = self._fitted_features(first) if kept is None else kept
        if state and state["map"] != self.features_.fingerprint():
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} belongs to a fit with another map: give the "
                "same data and random_state, delete the file, or give another path."
            )
        self._fitted_with = self._parameters_of_all_rows()
        if self._solver(source) == "cg":
            self._fit_iteratively(source, first, checkpoint, state)
        else:
            self._fit_normal(source, first, checkpoint, state)
        checkpoint.remove()

    def _kept_map(self) -> dict[str, Any]:
        """Return the map for a checkpoint, or None in its place if it can be had again.

        That is a map that was given fitted, or one that is code in part and drawn from a seed.
        """
        if self.checkpoint is None:
            return {}
        features = self.features_
        kept = {"map": features.fingerprint(), "features": None}
        given = self._given_features()
        if given and given.__sklearn_is_fitted__():
            return kept
        reason = reason_against_saving(features)
        if reason is None:
            return kept | {"features": features}
        if not isinstance(features.random_state, Integral):
            raise ValueError(
                f"checkpoint={str(self.checkpoint)!r} cannot hold this map, nor can it be drawn "
                f"again: {reason} Or give an integer as random_state."
            )
        return kept

    def _parameters_of_all_rows(self) -> dict[str, str]:
        """Return texts of the parameters that rows which are added later have to share."""
        names = [name for name in OF_ALL_ROWS if hasattr(self, name)]
        texts = {name: described(getattr(self, name)) for name in names}
        given = self._given_features()
        if given is not None and given.__sklearn_is_fitted__():
            texts["features"] = given.fingerprint()
        return texts

    def _check_same_parameters(self) -> None:
        """Raise an error if a parameter that concerns all rows has changed since the first."""
        before: dict[str, str] = getattr(self, "_fitted_with", {})
        now = self._parameters_of_all_rows()
        for name, text in before.items():
            if now.get(name, text) != text:
                raise ValueError(
                    f"{name}={check.one_line(getattr(self, name))} has no effect on a model that "
                    f"has rows already, for which it was {check.one_line(text)}: set it back, or "
                    "call fit."
                )

    def _solver(self, source: Source) -> str:
        """Return the solver for a source, if it can serve."""
        if self.solver == "cg" and not source.repeatable:
            raise ValueError(
                "solver='cg' goes over the rows many times, and X can be iterated over only once: "
                "use solver='normal', or give an object whose __iter__ begins anew."
            )
        penalty = self._penalty
        if self.solver != "auto":
            return self.solver
        large = self.features_.n_components_ > NORMAL_UP_TO
        return "cg" if large and source.repeatable and penalty.alpha is not None else "normal"

    def _identity(self, source: Source) -> dict[str, Any]:
        """Return what tells this fit from others, apart from its rows."""
        parameters = {
            name: described(value)
            for name, value in self.get_params(deep=False).items()
            if name not in NOT_IDENTITY
        }
        given = self._given_features()
        return {
            "class": type(self).__name__,
            "parameters": parameters,
            "map": given.fingerprint() if given and given.__sklearn_is_fitted__() else None,
            "columns": described(list(getattr(self, "feature_names_in_", []))),
            "number of rows": source.n_rows,
        }

    def _given_features(self) -> QuadratureFeatures | None:
        """Return the map that was given, fitted or not."""
        given = self.features
        if isinstance(given, FrozenEstimator):
            given = given.estimator
        if given is None:
            return None
        if not isinstance(given, QuadratureFeatures):
            raise TypeError(
                f"features={check.one_line(given)} is not valid: give a QuadratureFeatures, fitted "
                "or not."
            )
        return given

    def _fitted_features(self, first: Block) -> QuadratureFeatures:
        """Return the map: a fitted one that was given, or one that is fitted to a block."""
        features = self._usable_features(first.X.shape[1])
        if features is None:
            features = self._new_features(self._kernel(first))
        if features.__sklearn_is_fitted__():
            return features
        return features.fit(first.X, sample_weight=first.weights)

    def _usable_features(self, n_columns: int) -> QuadratureFeatures | None:
        """Return the map that was given, if there is one: fitted as it is, or a clone."""
        given = self._given_features()
        if given is None:
            return None
        if not given.__sklearn_is_fitted__():
            return self._with_our_parameters(clone(given))
        if given.n_features_in_ != n_columns:
            raise ValueError(
                f"features was fitted to {given.n_features_in_} columns, and X has {n_columns}: "
                "fit it to data with the columns of X."
            )
        check_same_names(self, given, "features")
        return self._with_our_parameters(copy.copy(given))

    def _with_our_parameters(self, features: QuadratureFeatures) -> QuadratureFeatures:
        """Return a map that was given, with what it leaves open as it is given here."""
        if self.n_jobs is not None:
            features.n_jobs = self.n_jobs
        if features.random_state is None and not features.__sklearn_is_fitted__():
            features.random_state = self.random_state
        return features

    def _new_features(self, kernel: Kernel | str) -> QuadratureFeatures:
        """Return a map that is not fitted."""
        return QuadratureFeatures(
            kernel,
            n_components=self.n_components,
            rule=self.rule,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _kernel(self, first: Block) -> Kernel | str:
        """Return the kernel, with lengthscales that were learnt if that is wanted."""
        if self.lengthscales is None:
            return self.kernel
        return self._learnt_kernel(self._telling_rows(first, None), first.X.shape[1])

    def _telling_rows(self, block: Block, summary: Summary | None) -> RangedSample:
        """Return rows of which to learn lengthscales, with targets as their last columns."""
        assert_all_finite(block.X, estimator_name=QuadratureFeatures.__name__, input_name="X")
        targets = self._targets(block.y, summary)
        chosen = RangedSample.empty(block.X.shape[1] + targets.shape[1], LENGTHSCALE_ROWS)
        for rows in gen_batches(block.X.shape[0], ROWS_PER_SAMPLE):  # no copy of the whole table
            weights = None if block.weights is None else block.weights[rows]
            chosen = chosen.extended(beside(block.X[rows], targets[rows]), weights)
        return chosen

    def _learnt_kernel(self, chosen: RangedSample, d: int) -> Kernel:
        """Return the kernel with lengthscales that were learnt."""
        sample = chosen.sample
        learnt = lengthscales.learn(
            as_kernel(self.kernel),
            sample.rows[:, :d],
            sample.rows[:, d:],
            sample.weights / sample.weights.mean(),  # as many rows as there are, not as copies
            each=self.lengthscales == "ard",
            ranges=chosen.ranges[:d],
        )
        return learnt.kernel

    def _fit_normal(
        self, source: Source, first: Block, checkpoint: Checkpoint, state: dict[str, Any] | None
    ) -> None:
        """Sum up the rows, then solve the normal equations."""
        penalty = self._penalty
        if penalty.criterion == "loo" and not source.repeatable:
            raise ValueError(
                "alpha='loo' goes over the rows a second time, and X can be iterated over only "
                "once: use alpha='gcv', or give an object whose __iter__ begins anew."
            )
        dtype = state["dtype"] if state else self.gram_dtype
        summary = self._sum_up(source, first, checkpoint, state, dtype)
        self._settle(summary, dtype, self._left_out(source, summary, dtype))
        if self._needs_precision():
            if source.repeatable:
                # Once more in float64, in which smaller alphas make a difference.
                checkpoint.restart()
                del summary, self._solution  # two matrices of products would be in memory
                summary = self._sum_up(source, first, checkpoint, None, "float64")
                self._settle(summary, "float64", self._left_out(source, summary, "float64"))
            elif penalty.alpha is None:
                self._solution.warn_of_precision(self._solution.posterior)
        self._solution.coefficients  # noqa: B018  # errors and warnings belong into fit

    def _left_out(self, source: Source, summary: Summary, dtype: str) -> Any:
        """Return what computes leave-one-out errors from all rows."""
        return lambda spectral, alphas: spectral.leave_one_out(
            alphas, self._once_more(source, summary, dtype)
        )

    def _settle(self, summary: Summary, dtype: str, left_out: Any) -> None:
        """Adopt the summary of all rows, and solve by leave-one-out errors if they are wanted."""
        self._adopt(summary, dtype)
        penalty = self._penalty
        if penalty.criterion == "loo" and penalty.alpha is None:
            self._solution.posterior = self._solution.solve(left_out)

    def _needs_precision(self) -> bool:
        """Return whether alpha is below the precision of the products of features."""
        solution, alpha = self._solution, self._penalty.alpha
        if solution.dtype == "float64":
            return False
        path = None
        if alpha is None:
            if "posterior" not in vars(solution):
                solution.posterior = solution.solve()
            alpha, path = solution.alpha, solution.posterior.path
        below: bool = solution.is_below_precision(alpha, path)
        return below

    def _sum_up(
        self,
        source: Source,
        first: Block,
        checkpoint: Checkpoint,
        state: dict[str, Any] | None,
        dtype: str,
    ) -> Summary:
        """Return the summary of all rows, from a checkpoint on if there is one."""
        if state and state["summary"] is not None:
            summary, n_done, size = state["summary"], state["n_done"], state["size"]
        else:
            summary, n_done = self._start(first, self.features_.n_components_), 0
            size = rows_per_block(len(summary.moments.products), dtype)
        progress = Progress(bool(self.verbose), "fit", source.n_rows)
        progress.start_at(n_done)
        kept = {**self._kept_map(), "size": size, "dtype": dtype}
        if n_done == 0:
            checkpoint.begin({**kept, "summary": None, "n_done": 0})

        def keep(summary: Summary, block: Block) -> None:
            progress.add(block.X.shape[0])
            checkpoint.add(block)
            checkpoint.offer({**kept, "summary": summary, "n_done": progress.rows})

        blocks = source.blocks(size, n_done, checkpoint.add)
        summary = self._summed(blocks, summary, dtype, keep, checkpoint.check_resumed)
        progress.finish()
        return summary

    def _summed(
        self,
        blocks: Iterable[Block],
        summary: Summary,
        dtype: str,
        keep: Callable[[Summary, Block], Any] = lambda *_: None,
        before: Callable[[], Any] = lambda: None,
    ) -> Summary:
        """Return a summary with rows added. The given one is written on.

        ``keep`` is called after each block, and ``before`` before any is added.
        """
        accumulator = None
        for block in blocks:
            before()
            prepared = self._prepared(summary, block)
            if accumulator is None or prepared.classes is not summary.classes:
                accumulator = Accumulator(self.features_, prepared.moments, dtype)
            accumulator.add(block.X, self._targets(block.y, prepared), block.weights)
            summary = self._extended(prepared, accumulator, block)
            keep(summary, block)
        before()
        return summary

    def _extended(self, summary: Summary, accumulator: Accumulator, block: Block) -> Summary:
        """Return a summary with the moments of an accumulator, after it has added a block."""
        return Summary(accumulator.moments, summary.classes, summary.rows)

    def _adopt(self, summary: Summary, dtype: str) -> None:
        """Take a summary for that of the rows seen so far."""
        self._describe(summary)
        problem = RidgeProblem(summary.moments, bool(self.fit_intercept), self._transform(summary))
        self._solution: Any = Solution(summary, problem, self._penalty, dtype)

    def _final_targets(self, y: Any, summary: Summary) -> Float64Array:
        """Return the targets of the model, shape (n_rows, n_outputs)."""
        targets = self._targets(y, summary)
        transform = self._transform(summary)
        if transform is None:
            return targets
        return np.asarray(targets @ sparse.csr_array(transform[:-1]) + transform[-1])

    def _once_more(
        self, source: Source, summary: Summary, dtype: str
    ) -> Iterator[tuple[Array, Float64Array, Any]]:
        """Yield features, targets and weights of all rows."""
        for block in source.blocks(rows_per_block(self.features_.n_components_, np.float64)):
            Z = self.features_._written(block.X)
            Z = Z.astype(np.float64, copy=False) if dtype == "float64" else Z
            yield Z, self._final_targets(block.y, summary), block.weights

    def _fit_iteratively(
        self, source: Source, first: Block, checkpoint: Checkpoint, state: dict[str, Any] | None
    ) -> None:
        """Solve by conjugate gradients, a pass over the rows for each step."""
        summary = self._start(first, 0)
        if summary.classes is not None:  # all of them have to be known
            for block in source.tables:
                summary = self._prepared(summary, block)
        self._describe(summary)
        if checkpoint.path is not None:
            for block in source.tables:
                checkpoint.add(block)
            checkpoint.check_resumed()
        self._iterate(self._system(source.tables, summary), first.X.dtype, checkpoint, state)
        self._unshift(summary)

    def _target_shift(self, summary: Summary) -> Any:
        """Return what is left out of the targets: with an intercept, what all have in common."""
        return summary.moments.shift if self.fit_intercept and summary.classes is None else 0.0

    def _system(self, tables: Iterable[Block], summary: Summary) -> LocalSystem:
        """Return what multiplies the features of rows that are here, by shifted targets."""
        shift = self._target_shift(summary)
        return LocalSystem(
            FeatureProducts(self.features_),
            lambda: tables,
            lambda block: self._final_targets(block.y, summary) - shift,
            lambda block: block.weights,
            np.atleast_1d(np.asarray(shift, dtype=np.float64)),
        )

    def _unshift(self, summary: Summary) -> None:
        """Add to the intercept what was left out of the targets."""
        intercept = self._solution.intercept + self._target_shift(summary)
        self._solution = replace(self._solution, intercept=intercept)

    def _iterate(
        self, system: System, dtype: Any, checkpoint: Checkpoint, state: dict[str, Any] | None
    ) -> None:
        """Solve a system that is known by its products."""
        alpha = self._penalty.alpha
        assert alpha is not None
        kept_map = self._kept_map()
        if state is None:
            checkpoint.begin({**kept_map, "iteration": None})
        equations = system.equations(bool(self.fit_intercept))
        precision = float(np.finfo(dtype).eps)
        # A restart has the same map, and not always the generator that drew it.
        rng = np.random.default_rng(int(self.features_.fingerprint()[:16], 16))
        current = state["iteration"] if state else None
        if current is None:
            current = conjugate.begin(equations.multiply, equations.right, alpha, precision, rng)
        max_iter = MAX_ITER if self.max_iter is None else self.max_iter

        def after_step(step: conjugate.State) -> None:
            checkpoint.offer({**kept_map, "iteration": step})
            if self.verbose:
                print(
                    f"step {step.n_iter}: fitted values are right to {step.errors[-1]:.2g}",
                    file=sys.stderr,
                )

        converged = conjugate.solve(
            equations.multiply,
            functools.partial(system.check, equations, alpha),
            equations.right,
            system.scales(equations),
            current,
            tol=self.tol,
            max_iter=max_iter,
            after_step=after_step,
        )
        error, rounding = current.totals[-1], current.roundings[-1]
        if not converged:
            remedy = "Give a larger max_iter, tol or alpha"
            if rounding > self.tol:
                remedy = f"Rounding to {dtype} alone is {rounding:.2g}: give a larger tol"
            if dtype == np.float32:
                remedy += ", or pass X as float64"
            warnings.warn(
                f"conjugate gradients have not converged in {current.n_iter} steps: fitted values "
                f"are right to {error:.2g} of the targets, and tol={self.tol:g}. {remedy}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        intercept = equations.intercept_for(current.coefficients)
        self._solution = IterativeSolution(
            current.coefficients, intercept, alpha, current.n_iter, error
        )

    def _partial_fit(self: Self, X: Any, y: Any, sample_weight: Any, **start: Any) -> Self:
        """Add rows to those seen so far."""
        self._check_parameters()
        with changing(self):
            return self._add(X, y, sample_weight, **start)

    def _add(self: Self, X: Any, y: Any, sample_weight: Any, **start: Any) -> Self:
        """Add rows while no other thread changes the model."""
        draft = copy.copy(self) if hasattr(self, "features_") else self._blank()
        if isinstance(getattr(self, "_solution", None), IterativeSolution):
            raise ValueError(
                "the model was fitted with solver='cg', which keeps nothing that rows could be "
                "added to: fit it with solver='normal'."
            )
        block = draft._weighted(draft._validated(X, y, sample_weight))
        dtype = self.gram_dtype
        if hasattr(draft, "features_"):
            draft._check_same_parameters()
            summary = draft._solution.summary
            # Products in float32 that were added to others in float64 have spoiled those.
            dtype = dtype if draft._solution.dtype == "float64" else "float32"
        else:
            draft.features_ = draft._fitted_features(block)
            draft._fitted_with = draft._parameters_of_all_rows()
            summary = draft._start(block, draft.features_.n_components_, **start)
        size = rows_per_block(len(summary.moments.products), self.gram_dtype)
        source = Source([block], block.X.shape[0], repeatable=True)
        # Neither an error nor an interrupt may leave a part of the batch behind.
        if block.X.shape[0] <= size:
            summary = draft._summed(source.blocks(size), summary.copied(), self.gram_dtype)
        else:
            summary = draft._prepared(summary, block)
            part = draft._start(block, draft.features_.n_components_, **start)
            part = draft._summed(source.blocks(size), part, self.gram_dtype)
            summary = summary.merged(part)
        draft._adopt(summary, dtype)
        self.__dict__ = draft.__dict__
        return self

    def _reason_against_adding(self) -> str | None:
        """Return why rows cannot be added to others with these parameters, if they cannot."""
        if self.solver == "cg":
            return (
                "solver='cg' goes over all rows many times: use solver='normal' or 'auto' to add "
                "rows."
            )
        if isinstance(self.alpha, str) and self.alpha == "loo":
            return (
                "alpha='loo' goes over all rows a second time: use alpha='gcv' or 'evidence' to "
                "add rows."
            )
        return None

    @available_if(can_add_rows)
    def merge(self: Self, other: Any) -> Self:
        """Add the rows of another model, fitted elsewhere with the same map.

        Parameters
        ----------
        other : object
            A fitted model of the same class. Left as it is.

        Returns
        -------
        object
            This model, as if it had been fitted to the rows of both.
        """
        with changing(self):
            return self._merge(other)

    def _merge(self: Self, other: Any) -> Self:
        """Add the rows of another model while no other thread changes this one."""
        check_is_fitted(self)
        if type(other) is not type(self):
            raise TypeError(
                f"other={check.one_line(other)} is not valid: give a fitted {type(self).__name__}."
            )
        other = snapshot(other)
        check_is_fitted(other)
        for name, model in (("this model", self), ("the other model", other)):
            if isinstance(model._solution, IterativeSolution):
                raise ValueError(
                    f"{name} was fitted with solver='cg', which keeps nothing that could be added: "
                    "fit it with solver='normal'."
                )
        ours, theirs = self.features_.fingerprint(), other.features_.fingerprint()
        if ours != theirs:
            raise ValueError(
                f"the maps of the two models are different ({ours[:12]} and {theirs[:12]}): fit "
                "both with the same features=fitted_map."
            )
        check_same_names(self, other, "the other model")
        draft = copy.copy(self)  # replaced as a whole, even if this is interrupted
        dtypes = (self._solution.dtype, other._solution.dtype)
        dtype = "float64" if dtypes == ("float64", "float64") else "float32"
        draft._adopt(self._solution.summary.merged(other._solution.summary), dtype)
        self.__dict__ = draft.__dict__
        return self

    # Predicting.

    def _rows(self, X: Any) -> Any:
        """Return validated rows to predict."""
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            reset=False,
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,
        )
        return check.without_duplicates(X)

    def _decisions(self, X: Any) -> Float64Array:
        """Return the values of the outputs at validated rows, shape (n_rows, n_outputs)."""
        solution = self._solution
        products = FeatureProducts(self.features_)
        return products.predict(X, solution.coefficients, solution.intercept)

    def _posterior(self, what: str) -> Posterior:
        """Return the posterior, if the solver knows one."""
        check_is_fitted(self)
        if isinstance(self._solution, IterativeSolution):
            raise AttributeError(
                f"{what} needs the matrix of products, which solver='cg' does not have: use "
                "solver='normal'."
            )
        found: Posterior = self._solution.posterior
        return found

    @property
    @on_snapshot
    def alpha_(self) -> float:
        """The penalty that was used."""
        check_is_fitted(self)
        alpha: float = self._solution.alpha
        return alpha

    @property
    @on_snapshot
    def path_(self) -> AlphaPath | None:
        """The alphas that were tried and what speaks for them; None for a single one."""
        return self._posterior("path_").path

    @property
    @on_snapshot
    def log_marginal_likelihood_(self) -> float:
        """The log evidence at ``alpha_``, signal variances profiled out, summed over outputs."""
        return self._posterior("log_marginal_likelihood_").log_evidence

    @property
    @on_snapshot
    def gram_dtype_(self) -> str:
        """The dtype in which products of features were computed."""
        self._posterior("gram_dtype_")
        dtype: str = self._solution.dtype
        return dtype

    @property
    @on_snapshot
    def n_iter_(self) -> int:
        """How many steps conjugate gradients took; 1 for ``solver="normal"``."""
        check_is_fitted(self)
        n_iter: int = self._solution.n_iter
        return n_iter

    @property
    @on_snapshot
    def solver_error_(self) -> float:
        """A bound on the error of fitted values, relative to the targets; 0 for ``"normal"``.

        It includes the rounding of predictions in the dtype of the rows.
        """
        check_is_fitted(self)
        error: float = self._solution.error
        return error

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
