"""The contest: fit the candidates and let them predict held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.front_door.candidates import Candidate, Found, Setting
from quadfeat.front_door.forecasts import Forecast, Judge
from quadfeat.front_door.preparation import Part
from quadfeat.front_door.quiet import quiet
from quadfeat.front_door.timing import Interrupts, Timer

# A candidate may take this part of the time that is left for a fold: the first number if others
# follow, the second if none does. The rest is for the fit to all rows.
SHARES_OF_TIME = (0.45, 0.7)

# A candidate may take at least this part of the time limit for its search.
LEAST_SHARE = 1e-3

# Errors that exclude a candidate. Other errors are bugs, of this package or in a user's estimator.
FAILURES = (ValueError, ArithmeticError, MemoryError)


# Without time for the fit to all rows, the model of the first fold is used if it was fitted to at
# least this part of the rows. The first fold of TimeSeriesSplit is smaller.
LEAST_TRAINING = 0.5


def is_most(part: Sized, n_rows: int) -> bool:
    """Return whether a model of some rows can replace one that is fitted to all rows."""
    return len(part) >= LEAST_TRAINING * n_rows


@dataclass
class Entry:
    """A candidate in a contest.

    Attributes
    ----------
    candidate : Candidate
    model : estimator or None
        The model that was fitted to the training rows of the first fold.
    settled : estimator or None
        An unfitted estimator with the parameters that were found on the last fold.
    forecasts : list of Forecast
        Those for the held-out rows of each fold.
    fit_seconds, predict_seconds : float
        Totals over folds.
    refit_seconds : float
        About how long the fit to all rows will take.
    was_cut : bool
        Whether the time limit ended its search on some fold.
    n_kernels : int or None
        The number of kernels that it has tried on the last fold; None if it does not search.
    note : str
        Details of the model, or why the candidate was left out.
    why : str
        The reason for the model's kernel, if it states one.
    is_out : bool
        Whether the candidate was left out.
    error : Exception or None
        The error that excluded it.
    """

    candidate: Candidate
    model: Any = None
    settled: Any = None
    forecasts: list[Forecast] = field(default_factory=list)
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    refit_seconds: float = 0.0
    was_cut: bool = False
    n_kernels: int | None = None
    note: str = ""
    why: str = ""
    is_out: bool = False
    error: Exception | None = None

    def leave_out(self, reason: str, error: Exception | None = None) -> None:
        """Leave the candidate out of this fold and the following ones."""
        self.note, self.error, self.is_out = reason, error, True
        self.forecasts.clear()

    def keep(self, model: Any, forecast: Forecast) -> None:
        """Keep what a fold has found."""
        candidate = self.candidate
        self.settled = candidate.settled(model)
        self.note, self.why = candidate.note(model), candidate.why(model)
        self.n_kernels = candidate.n_kernels(model)
        if not self.forecasts:
            self.model = model
        self.forecasts.append(forecast)  # last, because an interrupt may come at any line

    @property
    def was_hardly_begun(self) -> bool:
        """Whether the time limit ended the search at its first kernel."""
        return self.was_cut and self.n_kernels == 1


@dataclass
class Played:
    """A contest that was run.

    Attributes
    ----------
    entries : list of Entry
    truths : list of Part
        The held-out rows of each fold, without columns.
    notes : list of str
        Sentences about an early end.
    was_interrupted : bool
        Whether the user has pressed Ctrl-C.
    """

    entries: list[Entry]
    truths: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    was_interrupted: bool = False

    @property
    def present(self) -> list[Entry]:
        """The candidates with forecasts."""
        return [entry for entry in self.entries if entry.forecasts]


@dataclass(frozen=True)
class Contest:
    """Fits candidates to the training rows of folds, and computes forecasts of held-out rows.

    Parameters
    ----------
    candidates : sequence of Candidate
    setting : Setting
    timer : Timer
    judge_of : callable
        Returns the judge for held-out targets and weights.
    n_rows : int
        Number of all rows, to which the winner will be fitted.
    """

    candidates: Sequence[Candidate]
    setting: Setting
    timer: Timer
    judge_of: Callable[[Array, Float64Array], Judge]
    n_rows: int

    def run(self, folds: Iterable[tuple[Part, Part]], n_folds: int) -> Played:
        """Run the contest.

        Parameters
        ----------
        folds : iterable of pairs of Part
            Training rows and held-out rows.
        n_folds : int

        Raises
        ------
        KeyboardInterrupt
            If the user presses Ctrl-C before the first candidate has forecasts, or twice.
        """
        played = Played([Entry(one) for one in self.candidates])
        with Interrupts() as interrupts:
            try:
                for number, (train, test) in enumerate(folds, start=1):
                    if number > 1 and self.timer.left <= 0:
                        played.notes.append(
                            f"The time limit ended the contest after {number - 1} of {n_folds} "
                            "folds."
                        )
                        break
                    played.truths.append(Part(None, test.y, test.weights))
                    self._run_fold(played, train, test, (number, n_folds), interrupts)
            except KeyboardInterrupt:
                if not played.present or interrupts.count > 1:
                    raise
                played.was_interrupted = True
                self.timer.show_interrupt(
                    "The best candidate so far is fitted to all rows. Press Ctrl-C again to abort."
                )
                for entry in played.entries:
                    if not entry.forecasts and not entry.is_out:
                        entry.leave_out("the contest was interrupted before its turn")
                played.notes.append("It was interrupted, and the best candidate so far is used.")
        if not played.present:
            raise _failure(played)
        return played

    def _run_fold(
        self,
        played: Played,
        train: Part,
        test: Part,
        place: tuple[int, int],
        interrupts: Interrupts,
    ) -> None:
        """Fit and validate all candidates on one fold."""
        found: dict[str, Found] = {}
        for entry in played.entries:
            if entry.is_out:
                continue
            left = self.timer.left
            if left <= 0 and played.present:
                if place[0] == 1:
                    entry.leave_out(f"no time was left of {self.timer.limit:g} s")
                continue
            reason = entry.candidate.reason_against(train.X.shape, found, left)
            if reason is not None:
                entry.leave_out(reason)
                continue
            is_last = entry is played.entries[-1]
            try:
                self._enter(entry, train, test, found, self._limit(place, is_last=is_last), place)
            except FAILURES as error:
                text = " ".join(str(error).split())
                entry.leave_out(f"{type(error).__name__}: {text}", error)
            # Any of them may win.
            needed = sum(one.refit_seconds for one in played.present)
            has_model = place[0] == 1 and is_most(train.y, self.n_rows)
            self.timer.reserve(needed, is_needed=not has_model)
            if interrupts.count:
                raise KeyboardInterrupt

    def _limit(self, place: tuple[int, int], *, is_last: bool) -> float | None:
        """Return the seconds that the next candidate may take."""
        if self.timer.limit is None:
            return None
        number, n_folds = place
        share = SHARES_OF_TIME[is_last] / (n_folds - number + 1)
        seconds = max(self.timer.left, self.timer.limit * LEAST_SHARE) * share
        return float(f"{seconds:.2g}")  # as messages show it

    def _enter(
        self,
        entry: Entry,
        train: Part,
        test: Part,
        found: dict[str, Found],
        limit: float | None,
        place: tuple[int, int],
    ) -> None:
        """Fit and validate a candidate on one fold."""
        candidate, judge = entry.candidate, self.judge_of(test.y, test.amounts)
        model = candidate.estimator(self.setting, train.X.shape, found, limit)
        start = time.monotonic()
        with quiet():  # the fit to all rows shows the warnings of the winner
            train.fit(model)
            middle = time.monotonic()
            forecast = judge.forecast(model, test.X)
        if not np.isfinite(forecast.values).all():
            raise ValueError(f"{candidate.key} predicts numbers that are not finite")
        entry.keep(model, forecast)
        seconds = middle - start
        entry.fit_seconds += seconds
        entry.predict_seconds += time.monotonic() - middle
        growth = self.n_rows / len(train.y)
        entry.refit_seconds = growth * candidate.refit_seconds(model, seconds)
        if limit is not None and entry.n_kernels is not None and seconds >= limit:
            entry.was_cut = True
        if entry.was_cut:
            entry.note += f"{', ' if entry.note else ''}search cut by its share of time_limit"
        found[candidate.key] = Found(model, seconds)
        loss = np.average(judge.losses(forecast, test.y), weights=test.amounts)
        where = f" on fold {place[0]} of {place[1]}" if place[1] > 1 else ""
        self.timer.show(f"{candidate.key}{where}: {judge.loss_name} {loss:.4f}")


def _failure(played: Played) -> Exception:
    """Return the error for a contest in which no candidate has a forecast."""
    errors = [entry.error for entry in played.entries if entry.error is not None]
    if errors:
        return errors[0]
    reasons = "; ".join(f"{one.candidate.key}: {one.note}" for one in played.entries)
    return ValueError(f"no candidate can be fitted ({reasons}). Pass other candidates.")
