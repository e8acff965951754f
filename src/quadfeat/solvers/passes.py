"""Passes over the rows for normal equations: second moments, and leave-one-out errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows, Task
from quadfeat.data.sampling import row_keys
from quadfeat.data.watch import Watch
from quadfeat.solvers.accumulator import Accumulator, rows_per_block
from quadfeat.solvers.base import Problem
from quadfeat.solvers.curves import MOST_PAIRED, LeftOutCurve
from quadfeat.solvers.paths import Decomposed
from quadfeat.solvers.ridge import FLOAT32_FROM
from quadfeat.solvers.summaries import Summary, without_rows

# Choose alpha by the leave-one-out errors of at most about this many rows. More rows would hardly
# change the choice, since standard errors are already small.
MOST_LEFT_OUT = 65_536


@dataclass(frozen=True)
class RunningSum:
    """The state of the sums over rows."""

    summary: Summary
    size: int
    accumulator: Accumulator | None = None


@dataclass(frozen=True)
class SumMoments(Task):
    """Computes the moments of features and targets.

    Attributes
    ----------
    problem : Problem
    dtype : str
        The dtype of products.
    onto : Summary or None
        The summary of earlier rows. It is overwritten.
    size : int or None
        Number of rows to add at once; None chooses it from the size of the Gram matrix.
    """

    problem: Problem
    dtype: str
    onto: Summary | None = None
    size: int | None = None

    def begin(self, table: Block) -> RunningSum:
        summary = self.onto
        if summary is None:
            summary = self.problem.targets.start(table, self.problem.map.n_columns)
        size = self.size or rows_per_block(len(summary.moments.products), self.dtype)
        return RunningSum(summary, size)

    def add(self, state: RunningSum, block: Block) -> RunningSum:
        problem, targets = self.problem, self.problem.targets
        summary, accumulator = targets.prepared(state.summary, block), state.accumulator
        if accumulator is None or summary.classes is not state.summary.classes:
            accumulator = Accumulator(problem.map, summary.moments, self.dtype)
        accumulator.add(block.X, targets.columns(block.y, summary), block.weights)
        extended = targets.extended(summary, accumulator.moments, block)
        return RunningSum(extended, state.size, accumulator)

    def result(self, state: RunningSum) -> Summary:
        return state.summary

    def rows_per_block(self, state: RunningSum) -> int:
        return state.size

    def kept(self, state: RunningSum) -> dict[str, Any]:
        summary = None if state.accumulator is None else state.summary
        return {"summary": summary, "size": state.size, "dtype": self.dtype}

    def resumed(self, kept: dict[str, Any]) -> RunningSum:
        return RunningSum(kept["summary"], kept["size"])


@dataclass(frozen=True)
class LeaveOneOut(Task):
    """Sums the squared leave-one-out errors over rows, for several alphas.

    Attributes
    ----------
    problem : Problem
    summary : Summary
        A summary without rows that has the classes and the shift.
    decomposed : Banded or Spectral
    alphas : array of shape (n_alphas,)
    dtype : str
        The dtype of products of features.
    single : bool
        Whether to multiply features in float32 even if rows are float64.
    share : float, default=1.0
        The fraction of rows to leave out. Rows are sampled by a hash of their values, so the sample
        does not depend on the order of rows or on blocks.
    """

    problem: Problem
    summary: Summary
    decomposed: Decomposed
    alphas: Float64Array
    dtype: str
    single: bool
    share: float = 1.0

    def begin(self, table: Block) -> tuple[Decomposed, Any]:
        return self.decomposed.cast(self._dtype_for(table.X)), None

    def add(self, state: tuple[Decomposed, Any], block: Block) -> tuple[Decomposed, Any]:
        decomposed, total = state
        if self.share < 1.0:
            block = block.part(row_keys(block.X) < np.uint64(self.share * 2.0**64))
        Z = self.problem.map.columns(block.X).astype(self._dtype_for(block.X), copy=False)
        targets = self.problem.targets.final(block.y, self.summary)
        found = decomposed.left_out(self.alphas, Z, targets, block.weights)
        return decomposed, found if total is None else total.merged(found)

    def result(self, state: tuple[Decomposed, Any]) -> Any:
        return state[1]

    def _dtype_for(self, X: Any) -> Any:
        if self.single:
            return np.float32
        return np.float64 if self.dtype == "float64" else X.dtype

    def rows_per_block(self, state: Any) -> int:
        return rows_per_block(self.problem.map.n_columns, np.float64)


def curve_of_all(
    problem: Problem,
    rows: Rows,
    summary: Summary,
    dtype: str,
    decomposed: Decomposed,
    alphas: Float64Array,
    watch: Watch,
) -> LeftOutCurve:
    """Return leave-one-out errors of all rows, or of a sample if there are very many.

    Small alphas need products in float64. They are skipped if the others show that they cannot be
    chosen.
    """
    system = decomposed.system
    norm = decomposed.trace / system.weight
    # Workers do not need the Gram matrix.
    light = replace(decomposed, system=replace(system, matrix=np.empty((0, 0))))
    share = min(1.0, MOST_LEFT_OUT / summary.moments.n_rows)
    task = LeaveOneOut(problem, without_rows(summary), light, alphas, dtype, False, share)
    n_small = int(np.searchsorted(alphas, FLOAT32_FROM * norm))
    skips = problem.penalty.leaves_out_all_rows and n_small < len(alphas) <= MOST_PAIRED
    if dtype == "float32" and (n_small == 0 or skips):
        single = replace(task, alphas=alphas[n_small:], single=True)
        curve = _curve_of(rows, single, system.weight, watch)
        if n_small == 0 or curve.is_final(single.alphas):
            return curve.extended(n_small)
    return _curve_of(rows, task, system.weight, watch)


def _curve_of(rows: Rows, task: LeaveOneOut, weight: float, watch: Watch) -> LeftOutCurve:
    """Return the sums of a task; if a few rows carry most of the weight, use all rows."""
    curve: LeftOutCurve = rows.reduce(task, LeftOutCurve.merged, watch)
    if curve.weight < 0.5 * task.share * weight:
        curve = rows.reduce(replace(task, share=1.0), LeftOutCurve.merged, watch)
    return curve
