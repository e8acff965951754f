"""The decision between kernels: by the race or by all rows, and never worse than the default."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat.data.rows import Rows
from quadfeat.data.watch import Work
from quadfeat.learning.baseline import BEST_OF_MANY, ONE_ALONE, is_better_than_constant
from quadfeat.learning.candidates import Choice, KernelCandidate, Proposal
from quadfeat.learning.race import Entry, candidate_of, target_variance
from quadfeat.learning.sample import LearningSample
from quadfeat.learning.search import SECOND_HEAT, Search
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.fitted import own_map
from quadfeat.solvers.base import Penalty, Problem, Solution, Solver
from quadfeat.solvers.targets import Targets
from quadfeat.solvers.validation import Validation, validated

# The best kernels of the search are validated on all rows, and so is the default kernel. It is left
# out there if its loss on the sample is larger by this factor and by this many standard errors of
# the difference.
CLEARLY_WORSE = 1.15
CLEAR_ERRORS = 4.0

# If the race has seen all rows, a kernel has to beat the default by this many standard errors of
# the difference. Half as many suffice for a loss that is smaller by this factor. Of 90 samples of
# 150 to 1200 rows of real tables, three then had a score more than .005 below that of the untouched
# default on test rows, all with 150 rows (benchmarks/guard.py --seeds 3).
LEAST_ERRORS = 2.0
CLEAR_GAIN = 0.97

# The second of them is of another family if the loss of one is within this factor of the best.
CLOSE = 1.1

# With more columns than the maps of the search had, narrower kernels may be better. The scale is
# multiplied by this factor as long as the loss falls, so often at most.
NARROWER_FROM = 1024
NARROWER = (1.4, 3)

# A penalty of this many times the weight of the rows leaves nothing but the mean of the targets.
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
    """

    features: Any
    choice: Choice
    solution: Solution | None = None


@dataclass(frozen=True)
class Validated:
    """A kernel that was validated on all rows, and its map."""

    proposal: Proposal
    candidate: KernelCandidate
    features: QuadratureFeatures
    validation: Validation

    def judged_by(self, entry: Entry) -> Validated:
        """Return the same with the loss of an entry: those of rows to learn from are too small."""
        judged = entry.candidate
        candidate = self.candidate._replace(
            loss=judged.loss, standard_error=judged.standard_error, n_rows=judged.n_rows
        )
        return replace(self, candidate=candidate)


@dataclass(frozen=True)
class Final:
    """Fits the maps of the best kernels, and validates them on all rows."""

    model: Any
    rows: Rows
    fit: Callable[[QuadratureFeatures, Rows], QuadratureFeatures]
    solver: Solver | None
    penalty: Penalty
    targets: Targets
    sample: LearningSample

    def of_sample(self, entries: list[Entry], search: Search) -> Chosen:
        """Return the kernel that is best on the sample."""
        best = self._best_of_race(entries, search)
        candidates = _first(best, entries)
        why = _why(candidates, self.sample, search, is_clear=_is_clear(best))
        return Chosen(self._fitted(best.candidate.kernel), Choice(why, candidates))

    def of_all_rows(self, entries: list[Entry], search: Search) -> Chosen:
        """Return the kernel that is best on all rows."""
        finalists = self._finalists(entries, search)
        best = self._best_of(finalists, search)
        if best is None:
            return self.of_sample(entries, search)
        if self._has_seen_all:
            is_clear = _is_clear(finalists[0])
            if best.proposal is finalists[0].proposal:
                best = best.judged_by(finalists[0])
        else:
            is_clear = self._beats_constant(best, BEST_OF_MANY)
        if not is_clear and best.proposal.kind != "default":
            best = self._validated(search.default.proposal)
        return self._answer(best, entries, search, is_clear=is_clear)

    def _best_of(self, finalists: list[Entry], search: Search) -> Validated | None:
        """Return the kernel with the smallest loss on all rows; None if none was validated."""
        found: list[Validated] = []
        try:
            for proposal in self._proposals(finalists, found):
                if found and search.clock.is_over():
                    search.notes.append("There was no time to validate others on all rows.")
                    break
                search.clock.show(f"validating {proposal.name} on all rows")
                found.append(self._validated(proposal))
                # One Gram matrix at a time: drop all solutions but the best one.
                found.sort(key=lambda one: one.candidate.loss)
                del found[1:]
        except KeyboardInterrupt:
            search.note_interrupt()
        return found[0] if found else None

    @property
    def _has_seen_all(self) -> bool:
        """Whether the race has seen all rows: then its judgment is better than that of all rows."""
        return self.sample.n_rows <= min(SECOND_HEAT[0], self.sample.sample.size)

    def _beats_constant(self, one: Validated, least: float) -> bool:
        rows = self.targets.kept(one.validation.solution.summary)
        return is_better_than_constant(one.validation, rows, least)

    def _proposals(self, finalists: list[Entry], found: list[Validated]) -> Iterator[Proposal]:
        """Yield the finalists, and then narrower versions of the best one that was found."""
        for entry in finalists:
            yield entry.proposal
        factor, most_steps = NARROWER
        if self.model.n_components > NARROWER_FROM and found[0].proposal.kind != "default":
            for _ in range(most_steps):
                proposal = found[0].proposal.narrower(factor, self.sample.d)
                yield proposal
                if found[0].proposal is not proposal:
                    return

    def _answer(
        self, best: Validated, entries: list[Entry], search: Search, *, is_clear: bool
    ) -> Chosen:
        features, validation = best.features, best.validation
        self._advance(features)
        solution = validation.solution
        can_be_constant = self.penalty.alpha is None and validation.calibration is None
        if can_be_constant and not (is_clear or self._beats_constant(best, ONE_ALONE)):
            search.notes.insert(0, "The model predicts their mean.")
            solution = self._constant(features)
        candidates = (best.candidate, *(entry.candidate for entry in entries))
        why = _why(candidates, self.sample, search, is_clear=is_clear)
        return Chosen(features, Choice(why, candidates), solution)

    def _constant(self, features: QuadratureFeatures) -> Solution:
        """Return the solution that predicts the mean of the targets."""
        assert self.solver is not None
        fixed = Penalty.of(OVERWHELMING * max(1.0, self.sample.spread.weight), None)
        return self.solver.solve(self._problem(features, fixed), self.rows, Work.silent())

    def _finalists(self, entries: list[Entry], search: Search) -> list[Entry]:
        """Return the best kernels, and the default unless it is clearly worse."""
        best = self._best_of_race(entries, search)
        default = _default_beside(best, entries)
        if self._has_seen_all:
            # The default may be better with the map that was asked for.
            return [best] if default is best else [best, default]
        same_heat = [one for one in entries if one.candidate.n_rows == best.candidate.n_rows]
        others = [one for one in same_heat if one.proposal.kind != "default" and one is not best]
        # With more rows and columns, another family may be the best one.
        rivals = [one for one in others if one.proposal.family != best.proposal.family]
        rivals = [one for one in rivals if one.loss <= CLOSE * best.loss]
        chosen = [best, *(rivals or others)[:1]]
        if default is not best and not _is_clearly_worse(default, best):
            chosen.append(default)
        return chosen

    def _best_of_race(self, entries: list[Entry], search: Search) -> Entry:
        """Return the best entry, or the default if that may be as good on a small table."""
        best = entries[0]
        default = _default_beside(best, entries)
        if default is best or not self._has_seen_all:
            return best
        if default.candidate.n_rows != best.candidate.n_rows:
            return best
        gain = default.validation.difference(best.validation)
        least = LEAST_ERRORS * (0.5 if best.loss <= CLEAR_GAIN * default.loss else 1.0)
        if gain.mean >= least * gain.standard_error:
            return best
        search.notes.append(
            f"The default kernel is used: {best.candidate.name} has a smaller loss, "
            f"{best.loss:.4g} instead of {default.loss:.4g}, but that may be chance."
        )
        return default

    def _validated(self, proposal: Proposal) -> Validated:
        start = time.monotonic()
        features = self._fitted(proposal.columns.kernel(proposal.kernel))
        problem = self._problem(features, self.penalty)
        validation = validated(problem, self.rows, Work.silent(), self.solver)
        seconds = time.monotonic() - start
        unit = target_variance(validation) if validation.calibration is None else 1.0
        n_rows, n_columns = self.rows.n_rows, problem.map.n_columns
        candidate = candidate_of(
            proposal.name, features.kernel_, validation, unit, n_rows, n_columns, seconds
        )
        return Validated(proposal, candidate, features, validation)

    def _problem(self, features: QuadratureFeatures, penalty: Penalty) -> Problem:
        """Return the problem of the model with a fitted map."""
        map_: Any = own_map(features)
        return Problem(map_, self.targets, penalty, bool(self.model.fit_intercept))

    def _fitted(self, kernel: Any) -> QuadratureFeatures:
        """Return the fitted map of a kernel, drawn from the model's seed."""
        model = self.model
        features = QuadratureFeatures(
            kernel,
            n_components=model.n_components,
            rule=model.rule,
            random_state=copy.deepcopy(model.random_state),  # each map starts from the same state
            n_jobs=model.n_jobs,
        )
        return self.fit(features, self.rows)

    def _advance(self, features: QuadratureFeatures) -> None:
        """Let the user's generator continue after the draws of the chosen map."""
        ours, theirs = self.model.random_state, features.random_state
        if isinstance(ours, np.random.Generator):
            ours.bit_generator.state = theirs.bit_generator.state
        elif isinstance(ours, np.random.RandomState):
            ours.set_state(theirs.get_state())


def _is_clear(entry: Entry) -> bool:
    """Return whether an entry of the race beats a constant by more than chance."""
    return is_better_than_constant(entry.validation, entry.judges, BEST_OF_MANY)


def _default_beside(best: Entry, entries: list[Entry]) -> Entry:
    """Return the entry of the default kernel, of the same heat if there is one."""
    defaults = [one for one in entries if one.proposal.kind == "default"]
    same = [one for one in defaults if one.candidate.n_rows == best.candidate.n_rows]
    return (same or defaults)[0]


def _first(best: Entry, entries: list[Entry]) -> tuple[KernelCandidate, ...]:
    """Return the candidates of entries with the best one first."""
    rest = (entry.candidate for entry in entries if entry is not best)
    return (best.candidate, *rest)


def _is_clearly_worse(default: Entry, best: Entry) -> bool:
    """Return whether the default kernel is worse than another one beyond doubt."""
    if default.loss <= CLEARLY_WORSE * best.loss:
        return False
    if default.candidate.n_rows != best.candidate.n_rows:
        return False
    difference = default.validation.difference(best.validation)
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
        f"{best.name} has {_score(best, is_regression)} when each of {best.n_rows} rows is left "
        f"out, with {best.n_columns} columns and alpha={best.alpha:.3g}."
    )
    default = next((one for one in candidates[1:] if one.name.startswith("default")), None)
    if default is not None and not best.name.startswith("default"):
        text += (
            f" The default kernel has {_score(default, is_regression)} on {default.n_rows} rows "
            f"with {default.n_columns} columns."
        )
    text += f" {len(candidates)} kernels were tried in {search.clock.seconds:.1f} seconds."
    if not is_clear:
        constant, what = ("mean", "targets") if is_regression else ("frequencies", "classes")
        text += (
            f" None predicts rows left out better than the {constant} of the {what} by more than "
            f"chance: the columns may be unrelated to the {what}."
        )
    return " ".join([text, *search.notes])


def _score(candidate: KernelCandidate, is_regression: bool) -> str:
    """Return the score of a candidate in words."""
    if is_regression:
        return f"an R2 of {1.0 - candidate.loss:.4f} +- {candidate.standard_error:.4f}"
    return f"a log loss of {candidate.loss:.4f} +- {candidate.standard_error:.4f}"
