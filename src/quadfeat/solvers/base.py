"""The contract of a solver: its input, its requirements and its result.

A solver takes a :class:`Problem` and rows from any source, and returns a :class:`Solution`. It does
not know where rows are: everything it computes from them is a reduction
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
    """A fixed alpha, or the criterion that chooses one."""

    alpha: float | None
    criterion: str = "gcv"
    alphas: Float64Array | None = None

    @classmethod
    def of(cls, alpha: Any, alphas: Any) -> Penalty:
        """Return the penalty for the parameters ``alpha`` and ``alphas`` of a model."""
        if isinstance(alpha, str):
            check.check_choice(alpha, "alpha", CRITERIA)
            return cls(None, alpha, None if alphas is None else _check_alphas(alphas, "alphas"))
        if alphas is not None:
            raise ValueError(
                f"alphas={alphas!r} has nothing to act on, since alpha={alpha!r} is given: use "
                "alpha='auto', 'loo', 'gcv' or 'evidence' to choose among them."
            )
        if isinstance(alpha, (list, tuple)) or np.ndim(alpha) > 0:
            return cls(None, "gcv", _check_alphas(alpha, "alpha"))
        return cls(check.check_positive(alpha, "alpha"))

    def check_consistency(self) -> None:
        """Raise an error if this penalty is not valid; see ``quadfeat.io.register``."""
        Penalty.of(self.criterion if self.alpha is None else self.alpha, self.alphas)

    @property
    def reads_rows_again(self) -> bool:
        """Whether choosing alpha takes a second pass over the rows."""
        return self.alpha is None and self.criterion == "loo"

    @property
    def leaves_out_all_rows(self) -> bool:
        """Whether the errors of all rows, each left out in turn, choose alpha if possible."""
        return self.alpha is None and self.criterion in ("auto", "loo")


def _check_alphas(values: Any, name: str) -> Float64Array:
    try:
        alphas = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={values!r} is not valid: give numbers > 0.") from error
    if alphas.ndim != 1 or len(alphas) == 0 or not (np.isfinite(alphas) & (alphas > 0)).all():
        raise ValueError(f"{name}={values!r} is not valid: give one or more finite numbers > 0.")
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
        Whether to add a constant, which is not penalized.
    path : AlphaPath or None
        The alphas that were tried before this problem, if its alpha was chosen among them.
    """

    map: FeatureMap
    targets: Targets
    penalty: Penalty
    intercept: bool
    path: AlphaPath | None = None


class Solution(ABC):
    """Coefficients, and what a solver knows about them.

    A subclass is best a dataclass with at least the first three attributes as fields. Register it
    (``quadfeat.io.register``) so that models can be saved.

    Attributes
    ----------
    coefficients : array of shape (n_columns, n_outputs)
    intercept : array of shape (n_outputs,)
    alpha : float
        The penalty that was used.
    n_iter : int
        Number of iterations.
    error : float
        A bound on the error of fitted values, relative to the targets.
    solver_name : str
        The name of the solver in messages.
    classes : array of shape (n_classes,) or None
        The classes, for a classifier.
    summary : Summary
        Summary statistics of the rows, to which more rows can be added. Only if ``has_posterior``.
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
        """Whether a classifier can turn its decisions into probabilities."""
        return self.has_posterior

    def reason_against(self, what: str) -> str:
        """Return the error message for ``what``, which needs a posterior that is not there."""
        return (
            f"{what} needs the matrix of products, which solver={self.solver_name!r} does not "
            "have: use solver='normal'."
        )

    def complete(self, features: FeatureMap, targets: Targets) -> None:  # noqa: B027
        """Take the map and the targets, if a solution is computed on first use and needs them.

        Those that are loaded from a file have none. Do nothing if the solution is complete.
        """

    def merged(self, other: Any, problem: Problem) -> Solution:
        """Return the solution for the rows of both; needs a summary."""
        raise AttributeError(self.reason_against("merge"))

    def check_fits(self, n_columns: int, d: int, classes: Array | None) -> int:
        """Check a solution from a file, and return its number of outputs.

        Raise an error unless a model with these columns and classes can have this solution.
        """
        name = "coefficients of _solution"
        n_outputs = checks.n_columns_of(self.coefficients, name)
        checks.expect(len(self.coefficients) == n_columns, "_solution is that of another map")
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

    Subclasses implement :meth:`solve`, and declare what they need and what they can do. Before any
    work, a model rejects data and parameters that its solver cannot serve, with the solver's name.
    As in every scikit-learn object, ``__init__`` only assigns. Models take an object of any
    subclass as ``solver``.

    Attributes
    ----------
    name : str
        The name in messages; for solvers of this package also the string for ``solver=``.
    reads_rows_again : bool
        Whether it needs more than one pass over the rows.
    needs_fixed_alpha : bool
        Whether ``alpha`` has to be a number. A model with ``alpha="auto"`` then chooses it on a
        sample of rows before it calls :meth:`solve`.
    adds_rows : bool
        Whether its solutions have a summary, to which rows can be added, and a posterior.
    keeps_checkpoints : bool
        Whether an interrupted fit can resume: the solver passes states to ``work``, and
        :meth:`check_state` checks those that come back.
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
            Minimize, over coefficients ``b`` and, with ``problem.intercept``, constants ``c``,
            the sum over rows of ``weight * |y - z'b - c|^2`` plus ``alpha |b|^2``. Here ``z`` are
            the columns that ``problem.map`` makes of a row, ``y`` its targets as
            ``problem.targets`` returns them, and ``alpha`` is that of ``problem.penalty``.
        rows : Rows
            With targets and weights. They may be in other processes: use ``rows.reduce`` or
            ``rows.each``, with functions that can be pickled.
        work : Work
            ``work.watch()`` shows the progress of a pass. Other methods are for solvers that write
            checkpoints.
        """

    def with_rows(self, problem: Problem, solution: Any, block: Block) -> Solution:
        """Return a solution with the rows of a block added, if the solver ``adds_rows``.

        The given solution does not change, even if an error or an interrupt occurs.

        Parameters
        ----------
        problem : Problem
        solution : Solution or None
            Of this solver, for earlier rows; None for the first rows.
        block : Block
        """
        raise NotImplementedError

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise an error if a checkpoint holds no valid state of this solver."""

    def check_penalty(self, penalty: Penalty, alpha: Any) -> None:
        """Raise an error if the solver cannot serve a penalty, the model's ``alpha``."""
        if self.needs_fixed_alpha and penalty.alpha is None and penalty.criterion != "auto":
            raise ValueError(
                f"alpha={alpha!r} cannot be chosen by solver={self.name!r}, which needs a "
                "fixed alpha: give a number or 'auto', or use solver='normal'."
            )

    def check_rows(self, rows: Rows, penalty: Penalty) -> None:
        """Raise an error if the solver has to read rows again, and they can be read only once."""
        if rows.repeatable:
            return
        if self.reads_rows_again:
            raise ValueError(
                f"solver={self.name!r} goes over the rows many times, and X can be iterated over "
                "only once: use solver='normal', or give an object whose __iter__ starts again."
            )
        if self.needs_fixed_alpha and penalty.alpha is None:
            raise ValueError(
                f"alpha='auto' reads rows twice with solver={self.name!r}, and X can be iterated "
                "over only once: give a number, or an object whose __iter__ starts again."
            )
        if penalty.reads_rows_again:
            raise ValueError(
                "alpha='loo' goes over the rows a second time, and X can be iterated over only "
                "once: use alpha='auto', or give an object whose __iter__ starts again."
            )
