"""Normal equations: compute the Gram matrix in one pass over the rows, then solve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import CopiedState, cached_property
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows, Rows
from quadfeat.data.watch import Work
from quadfeat.io import checks, register
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers import paths, posterior
from quadfeat.solvers.accumulator import rows_per_block
from quadfeat.solvers.base import Penalty, Problem, Solution, Solver
from quadfeat.solvers.calibration import Calibration
from quadfeat.solvers.curves import LeftOutCurve
from quadfeat.solvers.passes import SumMoments, curve_of_all
from quadfeat.solvers.paths import Decomposed, LeaveOut, Sample
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.ridge import AlphaPath, RidgeProblem
from quadfeat.solvers.summaries import Summary
from quadfeat.solvers.targets import Targets

GRAM_DTYPES = ("float32", "float64")


@register
class Normal(Solver):
    """Compute the Gram matrix in one pass over the rows, and solve the normal equations.

    Memory is of order ``n_columns ** 2``.

    Parameters
    ----------
    gram_dtype : {"float32", "float64"}, default="float32"
        The dtype of products within a block of rows; blocks are added in float64. If alpha is too
        small for the measured rounding error of float32, the Gram matrix is computed again in
        float64, provided that the rows can be read again.
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
        resumed = state if state and state["summary"] is not None else None
        solution = self._solve_in(problem, rows, work, resumed, dtype)
        if solution.needs_precision():
            if rows.repeatable:
                # Compute the Gram matrix again in float64, which is precise enough.
                work.show("computing the Gram matrix again in float64")
                work.checkpoint.restart()
                del solution  # do not keep two Gram matrices in memory
                solution = self._solve_in(problem, rows, work, None, "float64")
            elif problem.penalty.alpha is None:
                solution.warn_of_precision(solution.posterior)
        if problem.penalty.alpha is None:
            solution.warn_of_leverage(solution.posterior)
        solution.coefficients  # noqa: B018  # so that fit raises all errors and warnings
        return solution

    def with_rows(self, problem: Problem, solution: Any, block: Block) -> NormalSolution:
        """Return a solution with the rows of a block added; see :class:`Solver`."""
        dtype = check.check_choice(self.gram_dtype, "gram_dtype", GRAM_DTYPES)
        targets, n_columns = problem.targets, problem.map.n_columns
        # The sum of a float32 and a float64 matrix is only as precise as float32.
        both = dtype if solution is None or solution.dtype == "float64" else "float32"
        before = targets.start(block, n_columns) if solution is None else solution.summary
        size = rows_per_block(len(before.moments.products), dtype)
        task, rows = SumMoments(problem, dtype), ArrayRows(block)
        if block.n_rows <= size:
            task = replace(task, onto=before.copied(), size=size)
            summary = rows.reduce(task, Summary.merged)
        else:
            part = rows.reduce(replace(task, size=size), Summary.merged)
            summary = targets.prepared(before, block).merged(part)
        return NormalSolution.of(problem, summary, both)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise an error if the state of a sum is not valid; see :class:`Solver`."""
        check.check_count(state["n_done"], "n_done", 0)
        check.check_count(state["size"], "size")
        check.check_choice(state["dtype"], "dtype", GRAM_DTYPES)
        checks.check_kind(state["summary"], (Summary, type(None)), "summary")

    def _solve_in(
        self, problem: Problem, rows: Rows, work: Work, state: Any, dtype: str
    ) -> NormalSolution:
        """Return the solution with products in a dtype; resume from a state if one is given."""
        summary = rows.reduce(SumMoments(problem, dtype), Summary.merged, work.watch(state))
        solution = NormalSolution.of(problem, summary, dtype)
        if problem.penalty.alpha is None:
            work.show("selecting alpha")
            left_out = None
            if rows.whole is not None or (rows.repeatable and problem.penalty.leaves_out_all_rows):

                def left_out(decomposed: Decomposed, alphas: Float64Array) -> LeftOutCurve:
                    watch = work.progress("leave-one-out errors")
                    solution.curve = curve_of_all(
                        problem, rows, summary, dtype, decomposed, alphas, watch
                    )
                    return solution.curve

            vars(solution)["posterior"] = solution.solve(left_out)
        return solution


@register(former_names=["Solution"])
class NormalSolution(CopiedState, Solution):
    """The solution from a summary of rows; coefficients are computed on first use."""

    def __init__(
        self, summary: Summary, problem: RidgeProblem, penalty: Penalty, dtype: str
    ) -> None:
        self.summary = summary
        self.problem = problem
        self.penalty = penalty
        self.dtype = dtype
        self.calibration: Calibration | None = None  # for classifiers, computed on first use

    @classmethod
    def of(cls, problem: Problem, summary: Summary, dtype: str) -> NormalSolution:
        """Return the solution of a problem from a summary of its rows."""
        transform = problem.targets.transform(summary)
        ridge = RidgeProblem(summary.moments, problem.intercept, transform)
        solution = cls(summary, ridge, problem.penalty, dtype)
        solution.complete(problem.map, problem.targets)
        return solution

    def complete(self, features: FeatureMap, targets: Targets) -> None:
        """Set the map and the targets, which leave-one-out errors of kept rows need."""
        if "posterior" not in vars(self):
            self.source = features, targets

    def __getstate__(self) -> dict[str, Any]:
        # The model already pickles the map.
        state = super().__getstate__()
        for name in ("source", "curve"):
            state.pop(name, None)
        return state

    has_posterior = True
    solver_name = "normal"
    source: tuple[FeatureMap, Targets] | None = None  # until coefficients are computed
    scores: Any = None  # for intervals of a regression, computed on first use
    curve: LeftOutCurve | None = None  # leave-one-out errors along the path
    unsaved_attributes = ("source", "scores", "curve")
    saved_attributes = ("summary", "problem", "penalty", "dtype", "calibration", "posterior")

    def check_consistency(self) -> None:
        """Raise an error if the parts are inconsistent; see ``quadfeat.io.register``."""
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
                "_solution has two different summaries",
            )
            checks.expect(
                problem.n_targets == self.problem.n_targets, "_solution has two different problems"
            )
        checks.check_kind(self.penalty, Penalty, "penalty of _solution")
        check.check_choice(self.dtype, "dtype of _solution", GRAM_DTYPES)
        if self.calibration is not None:
            checks.check_kind(self.calibration, Calibration, "calibration of _solution")
            classes = self.summary.classes
            fits = classes is not None and len(self.calibration.bias) == len(classes)
            checks.expect(fits, "calibration of _solution belongs to different classes")

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Convert a temperature, which formats before 4 kept instead of a calibration."""
        if found_format >= 4 or "temperature" not in attributes:
            return attributes
        attributes = dict(attributes)
        temperature, classes = attributes.pop("temperature"), attributes["summary"].classes
        known = temperature is not None and classes is not None
        calibration = Calibration(temperature, np.zeros(len(classes))) if known else None
        return attributes | {"calibration": calibration}

    def check_fits(self, n_columns: int, d: int, classes: Array | None) -> int:
        summary = self.summary
        checks.expect(
            summary.moments.n_components == n_columns, "_solution belongs to a different map"
        )
        checks.expect(
            (summary.classes is None) == (classes is None), "classes_ do not match _solution"
        )
        if summary.rows is not None:
            n_targets = summary.moments.n_outputs if classes is None else 1
            expected = d + n_targets
            checks.expect(
                summary.rows.rows.shape[1] == expected, "rows of _solution have different columns"
            )
        if summary.classes is not None and classes is not None:
            checks.expect(
                np.array_equal(summary.classes, classes), "classes_ do not match _solution"
            )
        return self.problem.n_targets

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior distribution of the coefficients."""
        found = self.solve()
        self.warn_of_precision(found)
        self.warn_of_leverage(found)
        return found

    def solve(self, left_out: LeaveOut | None = None) -> Posterior:
        """Solve the normal equations; for ``left_out``, see ``paths.choose_alpha``."""
        if self.penalty.alpha is not None:
            return posterior.solve(self.problem, self.penalty.alpha)
        criterion = self.penalty.criterion
        if criterion == "auto":
            criterion = "evidence" if left_out is None else "loo"
        return paths.choose_alpha(
            self.problem, criterion, self.penalty.alphas, left_out, self._sample(left_out is None)
        )

    def _sample(self, needed: bool) -> Sample | None:
        """Return the kept rows, whose leave-one-out errors limit the choice of alpha.

        Unless they are needed, return them only if some of them have copies.
        """
        rows = self.summary.rows
        if rows is None or self.source is None or len(rows.keys) == 0:
            return None
        if not needed and not (rows.weights > 1.0).any():
            return None
        features, targets = self.source
        kept = targets.kept(self.summary)
        Z = np.asarray(features.columns(kept.X), dtype=np.float64)
        return Sample(Z, kept.targets, kept.weights, kept.amounts)

    def warn_of_leverage(self, found: Posterior) -> None:
        """Warn if a few rows of high leverage misled the criterion for alpha."""
        criterion = self.penalty.criterion
        moments = self.summary.moments
        if found.path is None or criterion in ("auto", "loo"):
            return
        if moments.n_rows <= moments.n_components:
            return  # all rows have high leverage
        own = paths.misleading(found.path, criterion, found.alpha)
        if own is not None:
            check.warn_user(
                f"alpha={criterion!r} alone would choose {own:.3g}, which has much larger "
                f"leave-one-out errors, so {found.alpha:.3g} is used instead. The cause is a few "
                "rows of high leverage, far from all others. Scale or clip columns of X that have "
                "outliers, or use alpha='loo'."
            )

    def warn_of_precision(self, found: Posterior) -> None:
        """Warn if the Gram matrix is not precise enough for an alpha."""
        if self.is_below_precision(found.alpha, found.path):
            check.warn_user(
                f"alpha={found.alpha:.3g} is close to the rounding error of the Gram matrix in "
                "float32, so predictions may be inaccurate. Use gram_dtype='float64', or a larger "
                "alpha."
            )

    def is_below_precision(self, alpha: float, path: AlphaPath | None = None) -> bool:
        """Return whether an alpha, fixed or chosen from a path, needs products in float64."""
        default_path = None if self.penalty.alphas is not None else path
        smallest = 0.0 if default_path is None else float(default_path.alphas[0])
        return self.dtype == "float32" and paths.is_below_precision(
            self.summary.moments, alpha, smallest
        )

    def needs_precision(self) -> bool:
        """Return whether alpha is too small for the precision of the Gram matrix."""
        if self.dtype == "float64":
            return False
        alpha, path = self.penalty.alpha, None
        if alpha is None:
            alpha, path = self.alpha, self.posterior.path
        if path is not None and self.penalty.alphas is None and paths.is_flat_at_start(path):
            return False  # smaller alphas would hardly improve it
        return self.is_below_precision(alpha, path)

    def merged(self, other: NormalSolution, problem: Problem) -> NormalSolution:
        """Return the solution for both sets of rows combined."""
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
        """The penalty."""
        return float(self.posterior.alpha)
