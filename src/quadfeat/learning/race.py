"""Validate kernels on a sample of rows, all with the same number of features.

Kernels are learned on the first half of the rows, and compared by leave-one-out losses on the
second half. Losses on the rows that a kernel was learned from would be too optimistic, especially
on small tables with many columns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import ArrayRows
from quadfeat.data.watch import Work
from quadfeat.kernels import Kernel
from quadfeat.learning.baseline import Gain, gain_over_constant, squares_about_mean
from quadfeat.learning.candidates import KernelCandidate, Proposal
from quadfeat.learning.clock import Clock
from quadfeat.learning.columns import Columns
from quadfeat.learning.metric import average_outer_product
from quadfeat.learning.sample import LearningSample
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.maps.metric import map_of
from quadfeat.rules import QuasiMonteCarlo, Rule, SphericalRadial
from quadfeat.solvers.base import Penalty, Problem
from quadfeat.solvers.normal import Normal
from quadfeat.solvers.summaries import class_indices
from quadfeat.solvers.targets import KeptRows, Targets
from quadfeat.solvers.validation import (
    HITS,
    LOG_LOSSES,
    Losses,
    Score,
    Validation,
    validated,
)

# Low-discrepancy points are better than orthogonal directions up to about this many inputs.
QUASI_UP_TO = 24


@dataclass(frozen=True)
class Entry:
    """A kernel that was validated.

    Attributes
    ----------
    proposal : Proposal
    candidate : KernelCandidate
    map : KernelMap
        The map, for standardized rows.
    losses : Losses
        The losses of the validation rows.
    which : int
        The index of the loss to minimize.
    gain : Gain
        The gain over a constant prediction.
    """

    proposal: Proposal
    candidate: KernelCandidate
    map: KernelMap
    losses: Losses
    which: int
    gain: Gain

    @property
    def loss(self) -> float:
        """The validation loss."""
        return self.candidate.loss

    @property
    def accuracy(self) -> float | None:
        """The accuracy on the validation rows; None for regression."""
        return self.losses.score(HITS).mean if self.which == LOG_LOSSES else None

    def is_of_heat(self, other: Entry) -> bool:
        """Return whether two entries ran in the same heat, so that their losses are comparable."""
        ours, theirs = self.candidate, other.candidate
        return (ours.n_rows, ours.n_columns) == (theirs.n_rows, theirs.n_columns)

    def gain_over(self, other: Entry) -> Score:
        """Return the mean paired loss difference to another entry; positive if this is better."""
        return other.losses.difference(self.losses, self.which)


class Race:
    """Validates proposals on a sample of rows, and stores the results.

    Parameters
    ----------
    sample : LearningSample
    targets : Targets
    penalty : Penalty
        A fixed alpha, or the criterion that selects one for each kernel.
    intercept : bool
    n_rows : int
        Maximum number of rows of the sample to use.
    n_columns : int
        Number of features of the maps.
    n_jobs : int or None
    clock : Clock
    """

    def __init__(
        self,
        sample: LearningSample,
        targets: Targets,
        penalty: Penalty,
        intercept: bool,
        n_rows: int,
        n_columns: int,
        n_jobs: int | None,
        clock: Clock,
    ) -> None:
        self.sample = sample
        self.targets = targets
        self.penalty = penalty
        self.intercept = intercept
        self.n_columns = n_columns
        self.n_jobs = n_jobs
        self.clock = clock
        self.entries: list[Entry] = []
        self.tried: set[str] = set()  # names, including those of withdrawn entries
        self.n_rows = min(n_rows, sample.size)
        self._tables: dict[int, ArrayRows] = {}
        self._gram_dtype = "float32"

    def enter(self, proposal: Proposal) -> Entry:
        """Validate a proposal."""
        self.clock.show(f"trying {proposal.name}")
        start = time.monotonic()
        drawn = self._map(proposal.kernel)
        problem = Problem(drawn, self.targets, self.penalty, self.intercept)
        table = self._table(proposal.columns)
        rows = self.validation_rows(proposal.columns)
        validation = validated(problem, table, None, Normal(self._gram_dtype), rows)
        # Start with this precision next time, since other kernels are likely to need it too.
        solution: Any = validation.solution
        self._gram_dtype = solution.dtype
        seconds = proposal.seconds + time.monotonic() - start
        kernel = proposal.columns.kernel(proposal.kernel)
        encoded = self._with_targets(rows, validation)
        unit = 1.0
        if encoded.labels is None:
            squares = squares_about_mean(validation, encoded)
            unit = float(np.average(squares, weights=encoded.weights)) or 1.0
        candidate = candidate_of(
            proposal.name, kernel, validation, unit, rows.n_rows, self.n_columns, seconds
        )
        gain = gain_over_constant(validation, encoded)
        # Do not store the solution, whose Gram matrix is large.
        entry = Entry(proposal, candidate, drawn, validation.losses, validation.which, gain)
        self.entries.append(entry)
        self.tried.add(candidate.name)
        return entry

    def best(self, *kinds: str) -> Entry:
        """Return the entry with the smallest loss, among the given kinds or among all."""
        wanted = (one for one in self.entries if not kinds or one.proposal.kind in kinds)
        return min(wanted, key=lambda one: one.loss)

    @property
    def n_learning(self) -> int:
        """Number of rows to learn from, the first half."""
        return self.n_rows // 2

    def learning_rows(self, columns: Columns) -> ArrayRows:
        """Return the standardized rows to learn from."""
        return self._part(columns, slice(self.n_learning))

    def validation_rows(self, columns: Columns) -> ArrayRows:
        """Return the standardized rows to validate kernels on."""
        return self._part(columns, slice(self.n_learning, None))

    def average_outer_product(self, entry: Entry) -> Float64Array:
        """Fit an entry to the rows to learn from; return the outer product of its gradients."""
        rows = self.learning_rows(entry.proposal.columns)
        problem = Problem(entry.map, self.targets, self.penalty, self.intercept)
        solution = Normal(self._gram_dtype).solve(problem, rows, Work.silent())
        block = rows.whole
        assert block is not None
        weights = np.ones(block.n_rows) if block.weights is None else block.weights
        return average_outer_product(entry.map.gradients(block.X, solution.coefficients), weights)

    def _with_targets(self, rows: ArrayRows, validation: Validation) -> KeptRows:
        """Return rows with their targets encoded as for a model."""
        block, summary = rows.whole, validation.solution.summary
        assert block is not None
        classes = summary.classes
        return KeptRows(
            block.X,
            self.targets.final(block.y, summary),
            np.ones(block.n_rows) if block.weights is None else block.weights,
            None if classes is None else class_indices(block.y, classes),
        )

    def _part(self, columns: Columns, part: slice) -> ArrayRows:
        block = self._table(columns).whole
        assert block is not None
        weights = None if block.weights is None else block.weights[part]
        return ArrayRows(Block(block.X[part], block.y[part], weights))

    def _table(self, columns: Columns) -> ArrayRows:
        """Return the standardized rows of the race."""
        if id(columns) not in self._tables:
            self._tables[id(columns)] = self.sample.table(columns, self.n_rows)
        return self._tables[id(columns)]

    def withdraw(self, kind: str) -> None:
        """Remove the entries of a kind."""
        self.entries = [one for one in self.entries if one.proposal.kind != kind]

    def _map(self, kernel: Kernel) -> KernelMap:
        """Draw a map for standardized rows, always the same for the same kernel."""
        projection = kernel.projection
        d = self.sample.d if projection is None else projection.width
        rng = np.random.default_rng(0)
        nodes = race_rule(kernel.inner, d).draw(d, self.n_columns, kernel.inner, rng)
        return map_of(kernel, nodes).with_jobs(self.n_jobs)


def race_rule(kernel: Kernel, d: int) -> Rule:
    """Return a rule that works well for any data, since selecting one would take time."""
    if not kernel.spectrum.is_isotropic or d <= QUASI_UP_TO:
        return QuasiMonteCarlo(sequence="halton")
    if kernel.is_stationary:
        return SphericalRadial(directions="orthoplex", tilt=0.0, radii="stratified")
    return SphericalRadial(tilt="exact")


def candidate_of(
    name: str,
    kernel: Kernel,
    validation: Validation,
    unit: float,
    n_rows: int | None,
    n_columns: int,
    seconds: float,
) -> KernelCandidate:
    """Return the record of a validated kernel, with its loss divided by a unit."""
    loss = validation.loss
    return KernelCandidate(
        name,
        kernel,
        float(validation.alpha),
        loss.mean / unit,
        loss.standard_error / unit,
        int(n_rows or len(validation.losses.weights)),
        n_columns,
        seconds,
    )


def target_variance(validation: Validation) -> float:
    """Return the variance of the targets, averaged over outputs; 1 if all are equal."""
    found = float(validation.solution.summary.moments.target_variances.mean())
    return found if found > 0 else 1.0
