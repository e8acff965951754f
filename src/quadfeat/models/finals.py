"""Decide between the best kernels of the search and the default kernel, on all rows if possible."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat.data.rows import Rows
from quadfeat.data.watch import Work
from quadfeat.learning.baseline import (
    BEST_OF_MANY,
    ONE_ALONE,
    ONE_ALONE_FOR_CLASSES,
    Gain,
    gain_over_constant,
)
from quadfeat.learning.candidates import Choice, KernelCandidate, Proposal, short_score
from quadfeat.learning.race import Entry, candidate_of, target_variance
from quadfeat.learning.sample import LearningSample
from quadfeat.learning.search import FEWEST_ROWS, SECOND_HEAT, Search
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.fitted import own_map
from quadfeat.solvers.base import Penalty, Problem, Solution, Solver
from quadfeat.solvers.targets import Targets
from quadfeat.solvers.validation import Validation, validated

# The best kernels of the search and the default kernel are validated on all rows. The default is
# skipped if its loss on the sample exceeds the best loss by this factor and by this many standard
# errors of the difference.
CLEARLY_WORSE = 1.15
CLEAR_ERRORS = 4.0

# If the race has used all rows, a kernel has to beat the default by this many standard errors of
# the difference. Half as many suffice if the loss is smaller by this factor. This was measured on
# 90 samples of 150 to 1200 rows from real tables: three of them, all with 150 rows, scored more
# than .005 below the default kernel on test rows (benchmarks/guard.py --seeds 3).
LEAST_ERRORS = 2.0
CLEAR_GAIN = 0.97

# A kernel with a smaller log loss, but an accuracy that is lower by more than this, has to beat the
# default by CLEAR_ERRORS standard errors.
MOST_LOST = 0.003

# The second finalist comes from another family if that family's loss is within this factor of the
# best loss.
CLOSE = 1.1

# With more columns than in the search, a narrower kernel may be better. The kernel is narrowed by
# this factor as long as the loss decreases, at most this many times.
NARROWER_FROM = 1024
NARROWER = (1.4, 3)

# With a penalty of this many times the total weight of the rows, a model predicts the mean of the
# targets.
OVERWHELMING = 1e6


@dataclass(frozen=True)
class Chosen:
    """A fitted map, and the reason for its kernel.

    Attributes
    ----------
    features : QuadratureFeatures
    choice : Choice
    solution : Solution or None
        The solution for all rows, if the map was validated on them.
    is_constant : bool
        Whether the model predicts the mean of the targets, because no kernel is better.
    """

    features: Any
    choice: Choice
    solution: Solution | None = None
    is_constant: bool = False


@dataclass(frozen=True)
class Validated:
    """A kernel that was validated on all rows, with its map."""

    proposal: Proposal
    candidate: KernelCandidate
    features: QuadratureFeatures
    validation: Validation

    def judged_by(self, entry: Entry) -> Validated:
        """Return a copy with the loss of the race, unless the loss on all rows is clearly larger.

        The loss on all rows is too optimistic, because the kernel was learned from some of them.
        It can still be larger: with few columns, another draw of the map may be much worse.
        """
        judged = entry.candidate
        if judged.loss + LEAST_ERRORS * judged.standard_error < self.candidate.loss:
            return self
        candidate = self.candidate._replace(
            loss=judged.loss, standard_error=judged.standard_error, n_rows=judged.n_rows
        )
        return replace(self, candidate=candidate)


@dataclass(frozen=True)
class Final:
    """Fit the maps of the best kernels, and validate them on all rows."""

    model: Any
    rows: Rows
    fit: Callable[[QuadratureFeatures, Rows], QuadratureFeatures]
    solver: Solver | None
    penalty: Penalty
    targets: Targets
    sample: LearningSample

    def of_default(self, search: Search) -> Chosen:
        """Return the default kernel without a comparison."""
        proposal = search.default_proposal()
        features = self._fitted(proposal.columns.kernel(proposal.kernel))
        self._advance(features)
        why = f"{proposal.name} is used: {self.sample.size} row is too few to select a kernel."
        return Chosen(features, Choice(why))

    def of_sample(self, entries: list[Entry], search: Search) -> Chosen:
        """Return the best kernel on the sample, or the default kernel if none is clearly good."""
        best = self._best_of_race(entries, search)
        is_clear = best.gain.is_clear(BEST_OF_MANY)
        if not is_clear:
            best = _default_beside(best, entries)
        features = self._fitted(best.candidate.kernel)
        self._advance(features)
        rest = (entry.candidate for entry in entries if entry is not best)
        candidates = (best.candidate, *rest)
        why = _why(candidates, self.sample, search, is_clear=is_clear)
        return Chosen(features, Choice(why, candidates))

    def of_all_rows(self, entries: list[Entry], search: Search) -> Chosen:
        """Return the kernel that is best on all rows."""
        finalists = self._finalists(entries, search)
        best, is_clear = None, True
        try:
            best = self._better(None, finalists[0].proposal, search)
            for finalist in finalists[1:]:
                if search.clock.is_over():
                    search.note("There was no time to validate others on all rows.")
                    break
                best = self._better(best, finalist.proposal, search)
            if self._narrows(best):
                best = self._narrowed(best, search)
            is_clear = self._is_clear(best, finalists[0])
            if not is_clear and best.proposal.kind != "default":
                best = None  # frees its Gram matrix first
                best = self._better(None, search.default.proposal, search)
        except KeyboardInterrupt:
            if search.clock.was_stopped:  # by an earlier one
                raise
            search.note_interrupt()
        if best is None:
            return self.of_sample(entries, search)
        if self._has_seen_all and best.proposal is finalists[0].proposal:
            best = best.judged_by(finalists[0])
        return self._answer(best, entries, search, is_clear=is_clear)

    def _better(self, best: Validated | None, proposal: Proposal, search: Search) -> Validated:
        """Validate a proposal on all rows; return it if it is better, and ``best`` otherwise."""
        search.clock.show(f"validating {proposal.name} on all rows")
        found = self._validated(proposal)
        if best is not None and best.candidate.loss <= found.candidate.loss:
            return best
        return found

    def _narrows(self, best: Validated) -> bool:
        """Return whether narrower kernels may be better than those of the search.

        If the race has used all rows, no rows are left to validate a narrower kernel.
        """
        is_wide = self.model.n_components > NARROWER_FROM and not self._has_seen_all
        return is_wide and best.proposal.kind != "default"

    def _narrowed(self, best: Validated, search: Search) -> Validated:
        """Narrow a kernel as long as this reduces the loss, and return the best version."""
        factor, most_steps = NARROWER
        for _ in range(most_steps):
            before = best
            if search.clock.is_over():
                break
            best = self._better(best, best.proposal.narrower(factor, self.sample.d), search)
            if best is before:
                break
        return best

    def _is_clear(self, best: Validated, winner: Entry) -> bool:
        """Return whether a kernel predicts better than a constant by more than chance."""
        if self._has_seen_all:
            return winner.gain.is_clear(BEST_OF_MANY)
        return self._gain(best).is_clear(BEST_OF_MANY)

    def _gain(self, one: Validated) -> Gain:
        rows = self.targets.kept(one.validation.solution.summary)
        return gain_over_constant(one.validation, rows)

    @property
    def _has_seen_all(self) -> bool:
        """Whether the race has used all rows. Its losses are then more reliable than later ones."""
        return self.sample.n_rows <= min(SECOND_HEAT[0], self.sample.sample.size)

    def _answer(
        self, best: Validated, entries: list[Entry], search: Search, *, is_clear: bool
    ) -> Chosen:
        features, validation = best.features, best.validation
        self._advance(features)
        solution = validation.solution
        is_free = self.penalty.alpha is None and self.penalty.alphas is None
        is_regression = validation.calibration is None
        if not is_regression and self.sample.size < FEWEST_ROWS:
            is_free = False  # too few rows to assess probabilities
        least = ONE_ALONE if is_regression else ONE_ALONE_FOR_CLASSES
        is_constant = is_free and not is_clear and not self._gain(best).is_clear(least)
        if is_constant:
            constant = "mean" if is_regression else "frequencies"
            search.notes.insert(0, f"The model predicts the {constant} of the training rows.")
            solution = self._constant(features)
        candidates = (best.candidate, *(entry.candidate for entry in entries))
        why = _why(candidates, self.sample, search, is_clear=is_clear)
        return Chosen(features, Choice(why, candidates), solution, is_constant)

    def _constant(self, features: QuadratureFeatures) -> Solution:
        """Return a solution that predicts the mean of the targets."""
        assert self.solver is not None
        fixed = Penalty.of(OVERWHELMING * max(1.0, self.sample.spread.weight), None)
        return self.solver.solve(self._problem(features, fixed), self.rows, Work.silent())

    def _finalists(self, entries: list[Entry], search: Search) -> list[Entry]:
        """Return the best kernels, and the default kernel unless it is clearly worse."""
        best = self._best_of_race(entries, search)
        default = _default_beside(best, entries)
        if self._has_seen_all:
            # With the number of columns of the model, the default may be better.
            return [best] if default is best else [best, default]
        same_heat = [one for one in entries if one.is_of_heat(best)]
        others = [one for one in same_heat if one.proposal.kind != "default" and one is not best]
        # With more rows and columns, another family may be better.
        rivals = [one for one in others if one.proposal.family != best.proposal.family]
        rivals = [one for one in rivals if one.loss <= CLOSE * best.loss]
        chosen = [best, *(rivals or others)[:1]]
        if default is not best and not _is_clearly_worse(default, best):
            chosen.append(default)
        return chosen

    def _best_of_race(self, entries: list[Entry], search: Search) -> Entry:
        """Return the best entry, or the default if the difference may be chance on few rows."""
        best = entries[0]
        default = _default_beside(best, entries)
        if default is best or not self._has_seen_all:
            return best
        if not default.is_of_heat(best):
            return best
        gain = best.gain_over(default)
        least = LEAST_ERRORS * (0.5 if best.loss <= CLEAR_GAIN * default.loss else 1.0)
        if gain.mean < least * gain.standard_error:
            is_regression = self.sample.classes is None
            search.note(
                f"The default kernel is used: {best.candidate.name} has "
                f"{short_score(best.loss, is_regression)} instead of "
                f"{short_score(default.loss, is_regression)}, but this may be chance."
            )
            return default
        if best.accuracy is not None and default.accuracy is not None:
            lost = default.accuracy - best.accuracy
            if lost > MOST_LOST and gain.mean < CLEAR_ERRORS * gain.standard_error:
                search.note(
                    f"The default kernel is used: {best.candidate.name} has a smaller log loss, "
                    f"but its accuracy is lower by {lost:.4f}."
                )
                return default
        return best

    def _validated(self, proposal: Proposal) -> Validated:
        start = time.monotonic()
        features = self._fitted(proposal.columns.kernel(proposal.kernel))
        problem = self._problem(features, self.penalty)
        validation = validated(problem, self.rows, self._work(), self.solver)
        seconds = time.monotonic() - start
        unit = target_variance(validation) if validation.calibration is None else 1.0
        n_rows, n_columns = self.rows.n_rows, problem.map.n_columns
        candidate = candidate_of(
            proposal.name, features.kernel_, validation, unit, n_rows, n_columns, seconds
        )
        return Validated(proposal, candidate, features, validation)

    def _work(self) -> Work:
        """Return the work of one validation, which writes no checkpoints."""
        return Work.without_checkpoints(verbose=bool(self.model.verbose))

    def _problem(self, features: QuadratureFeatures, penalty: Penalty) -> Problem:
        """Return the problem of the model for a fitted map."""
        map_: Any = own_map(features)
        return Problem(map_, self.targets, penalty, bool(self.model.fit_intercept))

    def _fitted(self, kernel: Any) -> QuadratureFeatures:
        """Fit the map of a kernel, drawn from the model's seed."""
        model = self.model
        features = QuadratureFeatures(
            kernel,
            n_components=model.n_components,
            rule=model.rule,
            random_state=copy.deepcopy(model.random_state),  # every map starts from this state
            n_jobs=model.n_jobs,
        )
        return self.fit(features, self.rows)

    def _advance(self, features: QuadratureFeatures) -> None:
        """Advance the user's random generator past the draws of the chosen map."""
        ours, theirs = self.model.random_state, features.random_state
        if isinstance(ours, np.random.Generator):
            ours.bit_generator.state = theirs.bit_generator.state
        elif isinstance(ours, np.random.RandomState):
            ours.set_state(theirs.get_state())


def _default_beside(best: Entry, entries: list[Entry]) -> Entry:
    """Return the entry of the default kernel, preferably from the same heat as the best."""
    defaults = [one for one in entries if one.proposal.kind == "default"]
    same = [one for one in defaults if one.is_of_heat(best)]
    return (same or defaults)[0]


def _is_clearly_worse(default: Entry, best: Entry) -> bool:
    """Return whether the default kernel is clearly worse than the best."""
    if default.loss <= CLEARLY_WORSE * best.loss:
        return False
    if not default.is_of_heat(best):
        return False
    difference = best.gain_over(default)
    return difference.mean > CLEAR_ERRORS * difference.standard_error


def _why(
    candidates: tuple[KernelCandidate, ...],
    sample: LearningSample,
    search: Search,
    *,
    is_clear: bool,
) -> str:
    """Return the reason for the first candidate, in a few sentences."""
    best = candidates[0]
    is_regression = sample.classes is None
    text = (
        f"{best.name} has {_score(best, is_regression)} by leave-one-out on {best.n_rows} rows"
        f"{_unseen(best, sample)}, with {best.n_columns} features and alpha={best.alpha:.3g}."
    )
    default = next((one for one in candidates[1:] if one.name.startswith("default")), None)
    if default is not None and not best.name.startswith("default"):
        text += (
            f" The default kernel has {_score(default, is_regression)} on {default.n_rows} rows "
            f"with {default.n_columns} features."
        )
    text += (
        f" {search.n_tried} kernels were tried in {search.clock.seconds:.1f} seconds. These scores "
        "compare kernels: use test rows to estimate the error for new data."
    )
    if not is_clear:
        constant, what = ("mean", "targets") if is_regression else ("frequencies", "classes")
        text += (
            f" No kernel predicts left-out rows better than the {constant} of the {what} by more "
            f"than chance. The columns may be unrelated to the {what}."
        )
    return " ".join([text, *search.notes])


def _unseen(best: KernelCandidate, sample: LearningSample) -> str:
    """Return words for rows that kernels were not learned from; empty if these are all rows."""
    return " that the search did not learn from" if best.n_rows < sample.n_rows else ""


def _score(candidate: KernelCandidate, is_regression: bool) -> str:
    """Return the score of a candidate in words."""
    error = candidate.standard_error
    uncertainty = f" +- {error:.4f}" if np.isfinite(error) else ""
    return f"{short_score(candidate.loss, is_regression)}{uncertainty}"
