"""Conjugate gradients: one pass over the rows per step, without a Gram matrix."""

from __future__ import annotations

import functools
import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.rows import Rows
from quadfeat.data.watch import Work
from quadfeat.io import checks, register
from quadfeat.solvers import krylov
from quadfeat.solvers.base import Problem, Solution, Solver
from quadfeat.solvers.ridge import AlphaPath
from quadfeat.solvers.systems import System

MAX_ITER = 500


@register
class ConjugateGradients(Solver):
    """Solve by preconditioned conjugate gradients, with one pass over the rows per step.

    Use this solver if the Gram matrix of the features does not fit in memory.

    Parameters
    ----------
    tol : float, default=1e-3
        Tolerance: the largest allowed difference between the fitted values and those of the exact
        solution, relative to the targets.
    max_iter : int, default=None
        Maximum number of steps. None means 500.
    """

    name = "cg"
    reads_rows_again = True
    needs_fixed_alpha = True
    keeps_checkpoints = True

    def __init__(self, tol: float = 1e-3, max_iter: int | None = None) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def solve(self, problem: Problem, rows: Rows, work: Work) -> IterativeSolution:
        """Return the solution; see :class:`Solver`."""
        system = System.of(problem, rows, work.row_watch())
        return self._iterate(system, problem, rows.dtype, work)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise an error if the state of an iteration is not valid; see :class:`Solver`."""
        checks.check_kind(state["iteration"], (krylov.State, type(None)), "iteration")

    def _iterate(
        self, system: System, problem: Problem, dtype: Any, work: Work
    ) -> IterativeSolution:
        """Solve a system of equations."""
        tol = check.check_positive(self.tol, "tol")
        max_iter = MAX_ITER
        if self.max_iter is not None:
            max_iter = check.check_count(self.max_iter, "max_iter")
        alpha = problem.penalty.alpha
        assert alpha is not None  # since needs_fixed_alpha is True
        if work.state is None:
            work.begin({"iteration": None})
        equations = system.equations(problem.intercept)
        precision = float(np.finfo(dtype).eps)
        # Seed by the map, so that a resumed fit draws the same vectors.
        rng = np.random.default_rng(_seed(problem.map.fingerprint()))
        current = work.state["iteration"] if work.state else None
        if current is None:
            current = krylov.begin(equations.multiply, equations.right, alpha, precision, rng)
        else:
            work.show(f"resumed after step {current.n_iter} of at most {max_iter}")

        def after_step(step: krylov.State) -> None:
            work.offer({"iteration": step})
            work.show(
                f"step {step.n_iter} of at most {max_iter}, relative error at most "
                f"{step.errors[-1]:.2g} (tol={tol:g})"
            )

        converged = krylov.solve(
            equations.multiply,
            functools.partial(system.check, equations, alpha),
            equations.right,
            system.scales(equations),
            current,
            tol=tol,
            max_iter=max_iter,
            after_step=after_step,
        )
        if not converged:
            self._warn(current, tol, dtype)
        intercept = equations.intercept_for(current.coefficients) + system.shift
        return IterativeSolution(
            current.coefficients,
            intercept,
            alpha,
            current.n_iter,
            current.totals[-1],
            system.classes,
            problem.path,
        )

    def _warn(self, current: krylov.State, tol: float, dtype: Any) -> None:
        """Warn that the solver has not converged, and suggest a remedy."""
        error, rounding = current.totals[-1], current.roundings[-1]
        remedy = "Increase max_iter, tol or alpha"
        if rounding > tol:
            remedy = f"Rounding errors of {dtype} alone are {rounding:.2g}: increase tol"
        if dtype == np.float32:
            remedy += ", or pass X as float64"
        warnings.warn(
            f"conjugate gradients did not converge in {current.n_iter} steps: the relative error "
            f"of the fitted values is up to {error:.2g}, above tol={tol:g}. {remedy}.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _seed(fingerprint: str) -> int:
    """Return a seed from a fingerprint: its first hexadecimal digits, or a hash of other text."""
    try:
        return int(fingerprint[:16], 16)
    except ValueError:
        return int(hashlib.sha256(fingerprint.encode()).hexdigest()[:16], 16)


@register
@dataclass(frozen=True)
class IterativeSolution(Solution):
    """The solution that conjugate gradients found."""

    solver_name = "cg"

    coefficients: Float64Array
    intercept: Float64Array
    alpha: float
    n_iter: int
    error: float
    classes: Array | None = None
    path: AlphaPath | None = None

    def check_consistency(self) -> None:
        """Raise an error if a number is not valid; ``check_fits`` checks the coefficients."""
        check.check_positive(self.alpha, "alpha of _solution")
        check.check_count(self.n_iter, "n_iter of _solution", 0)
        checks.check_number(self.error, "error of _solution")
        if self.path is not None:
            checks.check_kind(self.path, AlphaPath, "path of _solution")

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Add attributes that older formats lack: the classes before 3, the path before 4."""
        if found_format < 3:
            attributes = attributes | {"classes": None}
        return attributes if found_format >= 4 else attributes | {"path": None}
