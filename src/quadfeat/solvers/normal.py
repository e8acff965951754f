"""Normal equations: sum the products of features in one pass, then solve."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import CopiedState, cached_property
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows, Rows, Task
from quadfeat.data.watch import Work
from quadfeat.io import checks, register
from quadfeat.solvers import posterior
from quadfeat.solvers.accumulator import Accumulator, rows_per_block
from quadfeat.solvers.base import Penalty, Problem, Solution, Solver
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.posterior import Posterior, Spectral
from quadfeat.solvers.ridge import AlphaPath, RidgeProblem
from quadfeat.solvers.summaries import Summary

GRAM_DTYPES = ("float32", "float64")


@register
class Normal(Solver):
    """Sum the products of features in one pass over the rows, and solve the normal equations.

    Takes memory of order ``n_columns ** 2``.

    Parameters
    ----------
    gram_dtype : {"float32", "float64"}, default="float32"
        The dtype of products within a block of rows; blocks are added up in float64. If alpha is
        too small for the measured error of float32, products are computed again in float64.
    """

    name = "normal"
    adds_rows = True
    keeps_checkpoints = True

    def __init__(self, gram_dtype: str = "float32") -> None:
        self.gram_dtype = gram_dtype

    def solve(self, problem: Problem, rows: Rows, work: Work) -> NormalSolution:
        """Return the solution; see :class:`Solver`."""
        state = work.state
        dtype = check.check_choice(self.gram_dtype, "gram_dtype", GRAM_DTYPES)
        if state:
            dtype = state["dtype"]
        begun = state if state and state["summary"] is not None else None
        solution = self._summed_up(problem, rows, work, begun, dtype)
        if solution.needs_precision():
            if rows.repeatable:
                # Sum again in float64, which is precise enough for smaller alphas.
                work.checkpoint.restart()
                del solution  # or two Gram matrices would be in memory
                solution = self._summed_up(problem, rows, work, None, "float64")
            elif problem.penalty.alpha is None:
                solution.warn_of_precision(solution.posterior)
        solution.coefficients  # noqa: B018  # fit has to raise its errors and warnings
        return solution

    def with_rows(self, problem: Problem, solution: Any, block: Block) -> NormalSolution:
        """Return a solution with the rows of a block added; see :class:`Solver`."""
        dtype = check.check_choice(self.gram_dtype, "gram_dtype", GRAM_DTYPES)
        targets, n_columns = problem.targets, problem.map.n_columns
        # A sum of float32 and float64 products is only as precise as float32.
        both = dtype if solution is None or solution.dtype == "float64" else "float32"
        before = targets.start(block, n_columns) if solution is None else solution.summary
        size = rows_per_block(len(before.moments.products), dtype)
        task, rows = SumUp(problem, dtype), ArrayRows(block)
        if block.n_rows <= size:
            task = replace(task, onto=before.copied(), size=size)
            summary = rows.reduce(task, Summary.merged)
        else:
            part = rows.reduce(replace(task, size=size), Summary.merged)
            summary = targets.prepared(before, block).merged(part)
        return NormalSolution.of(problem, summary, both)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise an error if a state of the sums is not valid; see :class:`Solver`."""
        check.check_count(state["n_done"], "n_done", 0)
        check.check_count(state["size"], "size")
        check.check_choice(state["dtype"], "dtype", GRAM_DTYPES)
        checks.check_kind(state["summary"], (Summary, type(None)), "summary")

    def _summed_up(
        self, problem: Problem, rows: Rows, work: Work, state: Any, dtype: str
    ) -> NormalSolution:
        """Return the solution from products in a dtype; resume from a state if there is one."""
        summary = rows.reduce(SumUp(problem, dtype), Summary.merged, work.watch(state))
        solution = NormalSolution.of(problem, summary, dtype)
        if problem.penalty.reads_rows_again:
            targets = replace(summary, moments=Moments.empty(0, summary.moments.shift), rows=None)

            def left_out(spectral: Spectral, alphas: Float64Array) -> Float64Array:
                # Workers do not need the matrix of the system.
                light = replace(spectral, system=replace(spectral.system, matrix=np.empty((0, 0))))
                task = LeaveOneOut(problem, targets, light, alphas, dtype)
                total: Float64Array = rows.reduce(task, operator.add)
                return total / spectral.left_out_weight

            vars(solution)["posterior"] = solution.solve(left_out)
        return solution


@dataclass(frozen=True)
class Running:
    """The state of a sum over rows."""

    summary: Summary
    size: int
    accumulator: Accumulator | None = None


@dataclass(frozen=True)
class SumUp(Task):
    """Sums the products of features and targets.

    Attributes
    ----------
    problem : Problem
    dtype : str
        Of products.
    onto : Summary or None
        The summary of earlier rows, which is overwritten.
    size : int or None
        Rows to add at once; None chooses by the number of products.
    """

    problem: Problem
    dtype: str
    onto: Summary | None = None
    size: int | None = None

    def begin(self, table: Block) -> Running:
        summary = self.onto
        if summary is None:
            summary = self.problem.targets.start(table, self.problem.map.n_columns)
        size = self.size or rows_per_block(len(summary.moments.products), self.dtype)
        return Running(summary, size)

    def add(self, state: Running, block: Block) -> Running:
        problem, targets = self.problem, self.problem.targets
        summary, accumulator = targets.prepared(state.summary, block), state.accumulator
        if accumulator is None or summary.classes is not state.summary.classes:
            accumulator = Accumulator(problem.map, summary.moments, self.dtype)
        accumulator.add(block.X, targets.columns(block.y, summary), block.weights)
        extended = targets.extended(summary, accumulator.moments, block)
        return Running(extended, state.size, accumulator)

    def result(self, state: Running) -> Summary:
        return state.summary

    def rows_per_block(self, state: Running) -> int:
        return state.size

    def kept(self, state: Running) -> dict[str, Any]:
        summary = None if state.accumulator is None else state.summary
        return {"summary": summary, "size": state.size, "dtype": self.dtype}

    def resumed(self, kept: dict[str, Any]) -> Running:
        return Running(kept["summary"], kept["size"])


@dataclass(frozen=True)
class LeaveOneOut(Task):
    """Sums the squared leave-one-out errors of rows, for several alphas.

    Attributes
    ----------
    problem : Problem
    summary : Summary
        Without rows, but with classes and shift.
    spectral : Spectral
    alphas : array of shape (n_alphas,)
    dtype : str
        Of features.
    """

    problem: Problem
    summary: Summary
    spectral: Spectral
    alphas: Float64Array
    dtype: str

    def begin(self, table: Block) -> tuple[Array, Any]:
        dtype = np.dtype(np.float64) if self.dtype == "float64" else table.X.dtype
        return self.spectral.vectors.astype(dtype, copy=False), 0.0

    def add(self, state: tuple[Array, Any], block: Block) -> tuple[Array, Any]:
        vectors, total = state
        Z = self.problem.map.columns(block.X).astype(vectors.dtype, copy=False)
        targets = self.problem.targets.final(block.y, self.summary)
        found = self.spectral.left_out_squares(self.alphas, Z, targets, block.weights, vectors)
        return vectors, total + found

    def result(self, state: tuple[Array, Any]) -> Any:
        return state[1]

    def rows_per_block(self, state: Any) -> int:
        return rows_per_block(self.problem.map.n_columns, np.float64)


@register(former_names=["Solution"])
class NormalSolution(CopiedState, Solution):
    """The solution for summarized rows; coefficients are computed on first use."""

    def __init__(
        self, summary: Summary, problem: RidgeProblem, penalty: Penalty, dtype: str
    ) -> None:
        self.summary = summary
        self.problem = problem
        self.penalty = penalty
        self.dtype = dtype
        self.temperature: float | None = None  # of a classifier, computed on first use

    @classmethod
    def of(cls, problem: Problem, summary: Summary, dtype: str) -> NormalSolution:
        """Return the solution of a problem for summarized rows."""
        transform = problem.targets.transform(summary)
        ridge = RidgeProblem(summary.moments, problem.intercept, transform)
        return cls(summary, ridge, problem.penalty, dtype)

    has_posterior = True
    solver_name = "normal"
    saved_attributes = ("summary", "problem", "penalty", "dtype", "temperature", "posterior")

    def check_consistency(self) -> None:
        """Raise an error if the parts do not fit together; see ``quadfeat.io.register``."""
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

    def check_fits(self, n_columns: int, d: int, classes: Array | None) -> int:
        summary = self.summary
        checks.expect(summary.moments.n_components == n_columns, "_solution is that of another map")
        checks.expect((summary.classes is None) == (classes is None), "classes_ do not fit")
        if summary.rows is not None and summary.classes is not None and classes is not None:
            checks.expect(np.array_equal(summary.classes, classes), "classes_ do not fit")
            checks.expect(summary.rows.rows.shape[1] == d + 1, "rows have other columns")
        return self.problem.n_targets

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior distribution of the coefficients."""
        found = self.solve()
        self.warn_of_precision(found)
        return found

    def solve(self, left_out: Any = None) -> Posterior:
        """Solve the normal equations; ``left_out`` is that of ``posterior.choose_alpha``."""
        if self.penalty.alpha is not None:
            return posterior.solve(self.problem, self.penalty.alpha)
        return posterior.choose_alpha(
            self.problem, self.penalty.criterion, self.penalty.alphas, left_out
        )

    def warn_of_precision(self, found: Posterior) -> None:
        """Warn if products of features are not precise enough for an alpha."""
        if self.is_below_precision(found.alpha, found.path):
            check.warn_user(
                f"alpha={found.alpha:.3g} is at the limit of products of features in float32: "
                "their rounding may show. Give gram_dtype='float64', or a larger alpha."
            )

    def is_below_precision(self, alpha: float, path: AlphaPath | None = None) -> bool:
        """Return whether an alpha, chosen from a path or not, needs products in float64."""
        default_path = None if self.penalty.alphas is not None else path
        smallest = 0.0 if default_path is None else float(default_path.alphas[0])
        return self.dtype == "float32" and posterior.is_below_precision(
            self.summary.moments, alpha, smallest
        )

    def needs_precision(self) -> bool:
        """Return whether alpha is below the precision of the products of features."""
        if self.dtype == "float64":
            return False
        alpha, path = self.penalty.alpha, None
        if alpha is None:
            if "posterior" not in vars(self):
                vars(self)["posterior"] = self.solve()
            alpha, path = self.alpha, self.posterior.path
        return self.is_below_precision(alpha, path)

    def merged(self, other: NormalSolution, problem: Problem) -> NormalSolution:
        """Return the solution for the rows of both."""
        both = self.dtype == other.dtype == "float64"
        summary = self.summary.merged(other.summary)
        return NormalSolution.of(problem, summary, "float64" if both else "float32")

    @property
    def classes(self) -> Array | None:  # type: ignore[override]
        """The classes of a classifier."""
        return self.summary.classes

    @property
    def coefficients(self) -> Float64Array:  # type: ignore[override]
        """Coefficients of shape (n_columns, n_outputs)."""
        return self.posterior.coefficients

    @property
    def intercept(self) -> Float64Array:  # type: ignore[override]
        """Intercepts of shape (n_outputs,)."""
        return self.posterior.intercept

    @property
    def alpha(self) -> float:  # type: ignore[override]
        """The penalty that was used."""
        return float(self.posterior.alpha)
