"""Base classes of solvers: the problem, the solver and the solution.

A solver takes a :class:`Problem` and rows from any source, and returns a :class:`Solution`. It does
not need to know where the rows are stored, because it reads them only through reductions
(:mod:`quadfeat.data.rows`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows
from quadfeat.data.watch import Work
from quadfeat.io import checks, register
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.calibration import Calibration
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.ridge import AlphaPath
from quadfeat.solvers.summaries import Summary
from quadfeat.solvers.targets import Targets

CRITERIA = ("auto", "loo", "gcv", "evidence")


@register
@dataclass(frozen=True)
class Penalty:
    """A fixed alpha, or the criterion that selects one."""

    alpha: float | None
    criterion: str = "gcv"
    alphas: Float64Array | None = None

    @classmethod
    def of(cls, alpha: Any, alphas: Any) -> Penalty:
        """Return the penalty for the parameters ``alpha`` and ``alphas`` of a model."""
        if isinstance(alpha, str):
            check.check_choice(alpha, "alpha", CRITERIA, "a positive number")
            return cls(None, alpha, None if alphas is None else _check_alphas(alphas, "alphas"))
        if alphas is not None:
            raise ValueError(
                f"alphas={alphas!r} has no effect, because alpha={alpha!r} is fixed. Use "
                "alpha='auto', 'loo', 'gcv' or 'evidence' to choose one of them."
            )
        if isinstance(alpha, (list, tuple)) or np.ndim(alpha) > 0:
            return cls(None, "gcv", _check_alphas(alpha, "alpha"))
        return cls(check.check_positive(alpha, "alpha"))

    def check_consistency(self) -> None:
        """Raise an error if this penalty is not valid; see ``quadfeat.io.register``."""
        Penalty.of(self.criterion if self.alpha is None else self.alpha, self.alphas)

    @property
    def reads_rows_again(self) -> bool:
        """Whether choosing alpha requires a second pass over the rows."""
        return self.alpha is None and self.criterion == "loo"

    @property
    def leaves_out_all_rows(self) -> bool:
        """Whether leave-one-out errors of all rows choose alpha, if rows can be read again."""
        return self.alpha is None and self.criterion in ("auto", "loo")


def _check_alphas(values: Any, name: str) -> Float64Array:
    try:
        alphas = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={values!r} is not valid: pass numbers > 0.") from error
    if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0)).all():
        raise ValueError(f"{name}={values!r} is not valid: pass one or more finite numbers > 0.")
    return alphas


@dataclass(frozen=True)
class Problem:
    """Ridge regression of targets on the columns of a map.

    Attributes
    ----------
    map : FeatureMap
    targets : Targets
    penalty : Penalty
    intercept : bool
        Whether to fit an intercept, which is not penalized.
    path : AlphaPath or None
        The alphas that were tried, if the alpha of this problem was selected from them.
    """

    map: FeatureMap
    targets: Targets
    penalty: Penalty
    intercept: bool
    path: AlphaPath | None = None


class Solution(ABC):
    """The result of a solver: coefficients, and information about the fit.

    Write a subclass as a dataclass with at least the first three attributes as fields. Register it
    with ``quadfeat.io.register`` so that models can be saved.

    Attributes
    ----------
    coefficients : array of shape (n_columns, n_outputs)
    intercept : array of shape (n_outputs,)
    alpha : float
        The penalty.
    n_iter : int
        Number of iterations.
    error : float
        An upper bound on the error of fitted values, relative to the targets.
    solver_name : str
        The name of the solver in error messages.
    classes : array of shape (n_classes,) or None
        The classes of a classifier; None for regression.
    summary : Summary
        Summary statistics of the rows, which can be updated with more rows. Only if
        ``has_posterior``.
    posterior : Posterior
        The posterior distribution of the coefficients. Only if ``has_posterior``.
    """

    summary: Summary
    posterior: Posterior
    coefficients: Float64Array
    intercept: Float64Array
    alpha: float
    n_iter: int = 1
    error: float = 0.0
    solver_name: str = "other"
    classes: Array | None = None

    @property
    def has_posterior(self) -> bool:
        """Whether this solution has a posterior and a summary."""
        return False

    @property
    def has_probabilities(self) -> bool:
        """Whether a classifier can convert its decision values to probabilities."""
        return self.has_posterior

    def reason_against(self, what: str) -> str:
        """Return the error message for a method ``what`` that needs a posterior."""
        return (
            f"{what} needs the Gram matrix of the features, which solver={self.solver_name!r} does "
            "not compute. Use solver='normal'."
        )

    def complete(self, features: FeatureMap, targets: Targets) -> None:  # noqa: B027
        """Set the map and the targets, if the solution needs them to compute results on first use.

        A solution that is loaded from a file has neither. By default, do nothing.
        """

    def merged(self, other: Any, problem: Problem) -> Solution:
        """Return the solution for both sets of rows combined; requires a summary."""
        raise AttributeError(self.reason_against("merge"))

    def check_fits(self, n_columns: int, d: int, classes: Array | None) -> int:
        """Check a solution from a file, and return its number of outputs.

        Raise an error if it does not match the columns and classes of the model.
        """
        name = "coefficients of _solution"
        n_outputs = checks.n_columns_of(self.coefficients, name)
        checks.expect(len(self.coefficients) == n_columns, "_solution belongs to a different map")
        checks.check_array(self.coefficients, (n_columns, n_outputs), np.float64, name)
        checks.check_array(self.intercept, (n_outputs,), np.float64, "intercept of _solution")
        return n_outputs

    def predicting(self, calibration: Calibration | None = None) -> Solution:
        """Return the part of this solution that predictions need."""
        return Coefficients(self.coefficients, self.intercept, calibration)


@dataclass(frozen=True)
class Coefficients(Solution):
    """The part of a solution that predictions need."""

    coefficients: Float64Array
    intercept: Float64Array
    calibration: Calibration | None = None

    @property
    def has_probabilities(self) -> bool:
        """Whether the calibration is known."""
        return self.calibration is not None


class Solver(BaseEstimator, ABC):
    """Base class of solvers.

    Subclasses implement :meth:`solve`, and declare their requirements and capabilities as class
    attributes. Models use these to reject unsupported data and parameters before any computation.
    As in every scikit-learn object, ``__init__`` only assigns. Models accept an instance of any
    subclass as ``solver``.

    Attributes
    ----------
    name : str
        The name in error messages. For the solvers of quadfeat, also the string for ``solver=``.
    reads_rows_again : bool
        Whether the solver needs more than one pass over the rows.
    needs_fixed_alpha : bool
        Whether the solver requires a number as alpha. With ``alpha="auto"``, the model then selects
        alpha on a sample of rows before it calls :meth:`solve`.
    adds_rows : bool
        Whether solutions have a posterior, and a summary that can be updated with more rows.
    keeps_checkpoints : bool
        Whether an interrupted fit can resume. The solver passes its states to ``work``, and
        :meth:`check_state` checks a state that was read back.
    """

    name: str
    reads_rows_again: bool = False
    needs_fixed_alpha: bool = False
    adds_rows: bool = False
    keeps_checkpoints: bool = False

    @abstractmethod
    def solve(self, problem: Problem, rows: Rows, work: Work) -> Solution:
        """Return the solution of a problem.

        Parameters
        ----------
        problem : Problem
            Minimize the sum over rows of ``weight * |y - z'b - c|^2``, plus ``alpha |b|^2``, over
            the coefficients ``b`` and, with ``problem.intercept``, the intercept ``c``. Here ``z``
            are the features of a row under ``problem.map``, ``y`` are its targets as returned by
            ``problem.targets``, and ``alpha`` comes from ``problem.penalty``.
        rows : Rows
            Rows with targets and weights. They may be in other processes: use ``rows.reduce`` or
            ``rows.each`` with functions that can be pickled.
        work : Work
            ``work.watch()`` shows the progress of a pass. Its other methods are for solvers that
            write checkpoints.
        """

    def with_rows(self, problem: Problem, solution: Any, block: Block) -> Solution:
        """Return a solution with the rows of a block added, if the solver ``adds_rows``.

        The given solution is not modified, even if an error or an interrupt occurs.

        Parameters
        ----------
        problem : Problem
        solution : Solution or None
            The solution of this solver for all earlier rows; None for the first rows.
        block : Block
        """
        raise NotImplementedError

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise an error if the state from a checkpoint is not valid for this solver."""

    def check_penalty(self, penalty: Penalty, alpha: Any) -> None:
        """Raise an error if the solver does not support a penalty.

        ``alpha`` is the parameter of the model, for the error message.
        """
        if self.needs_fixed_alpha and penalty.alpha is None and penalty.criterion != "auto":
            raise ValueError(
                f"solver={self.name!r} does not support alpha={alpha!r}. Set alpha to a number or "
                "'auto', or use solver='normal'."
            )

    def check_rows(self, rows: Rows, penalty: Penalty) -> None:
        """Raise an error if the fit needs several passes over rows that can be read only once."""
        if rows.repeatable:
            return
        if self.reads_rows_again:
            raise ValueError(
                f"solver={self.name!r} needs several passes over X, which can be iterated over "
                "only once. Use solver='normal', or an X whose __iter__ returns a new iterator."
            )
        if self.needs_fixed_alpha and penalty.alpha is None:
            raise ValueError(
                f"alpha='auto' with solver={self.name!r} needs several passes over X, which can be "
                "iterated over only once. Set alpha to a number, or use an X whose __iter__ "
                "returns a new iterator."
            )
        if penalty.reads_rows_again:
            raise ValueError(
                "alpha='loo' needs a second pass over X, which can be iterated over only once. Use "
                "alpha='auto', or an X whose __iter__ returns a new iterator."
            )
