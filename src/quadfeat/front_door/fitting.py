"""Fit the front door: run the contest, and fit the winners to all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.front_door import reasons
from quadfeat.front_door.answer import Answer
from quadfeat.front_door.candidates import Candidate, Setting
from quadfeat.front_door.contest import SHARES_OF_TIME, Contest, Entry, is_most
from quadfeat.front_door.decision import Outcome, check_scorer, decided
from quadfeat.front_door.leaderboard import Leaderboard, LeaderboardRow
from quadfeat.front_door.mixture import Mixture
from quadfeat.front_door.openings import opening_of
from quadfeat.front_door.preparation import Part, Table
from quadfeat.front_door.quiet import quiet
from quadfeat.front_door.splits import (
    FEWEST_UNITS,
    Fold,
    check_groups,
    copies,
    given_folds,
    has_one_class,
    usual_folds,
)
from quadfeat.front_door.timing import Timer
from quadfeat.models.local_fitting import MOST_ENTRIES
from quadfeat.tables import TableEncoder

FEWEST_ROWS = 2


def fit_table(
    door: Any, chosen: Sequence[Candidate], table: Table, setting: Setting, timer: Timer
) -> Answer:
    """Find and fit the best candidates for a table in memory.

    Parameters
    ----------
    door : KernelRegressor or KernelClassifier
    chosen : sequence of Candidate
    table : Table
    setting : Setting
    timer : Timer
    """
    _check_rows(table.present(), type(door).__name__, setting)
    if door.cv is None and len(chosen) == 1:
        if table.groups is not None:
            check.warn_user(
                f"groups has no effect: {chosen[0].key} is the only candidate, so no rows are held "
                "out. Pass cv to validate it, or leave groups out."
            )
        return fit_alone(chosen[0], table.present(), setting, timer)
    if setting.is_regression and not np.ptp(table.present().y, axis=0).any():
        alone = fit_alone(chosen[0], table.present(), setting, timer)
        return _with_reason(alone, chosen, "all targets in y are equal")
    folds, reason = _folds(door, table, setting)
    table = table.present()
    if not folds:
        serving = [one for one in chosen if one.serves_streams] or list(chosen)
        return _with_reason(fit_alone(serving[0], table, setting, timer), chosen, reason)
    scorer = None if door.scoring is None else get_scorer(door.scoring)
    name = door.scoring if isinstance(door.scoring, str) else "score"
    check_scorer(table.held_out(folds), door._judge, scorer, name)
    contest = Contest(chosen, setting, timer, door._judge, len(table.y))
    encoder = table.encoder()
    played = contest.run((table.split(fold, encoder) for fold in folds), len(folds))
    for entry in played.entries:
        if entry.error is not None:
            check.warn_user(f"{entry.candidate.key} was left out of the contest: {entry.note}")
    outcome = decided(played, contest, scorer, name, blend=bool(door.blend))
    _warn_of_short_time(played.present, len(chosen), timer)
    mixture, part, own_encoder, notes = _fitted(
        outcome,
        table,
        encoder,
        folds[0],
        timer,
        refit=bool(door.refit),
        was_interrupted=played.was_interrupted,
    )
    return Answer(
        mixture,
        own_encoder,
        outcome.leaderboard,
        reasons.why(outcome, notes, timer),
        reasons.spreads(part.X),
        door._scores_of(outcome),
    )


def _check_rows(table: Table, owner: str, setting: Setting) -> None:
    """Raise an error if a model cannot be fitted to the rows of positive weight."""
    check.check_any_weight(len(table.y))
    if setting.is_regression and len(table.y) < FEWEST_ROWS:
        raise ValueError(
            f"Found array with {len(table.y)} sample(s) of positive weight, while a minimum of "
            f"{FEWEST_ROWS} is required by {owner}."
        )
    if not setting.is_regression and (table.y == table.y[0]).all():
        raise ValueError(
            f"y has only one class, {table.y.tolist()[0]!r}, in rows of positive weight. Pass rows "
            "of at least two classes."
        )


def _warn_of_short_time(present: Sequence[Entry], n_candidates: int, timer: Timer) -> None:
    """Warn if the time limit left almost no search, or nothing to compare."""
    searching = [one for one in present if one.n_kernels is not None]
    if searching and all(one.was_hardly_begun for one in searching):
        check.warn_user(
            f"time_limit={timer.limit:g} ended the search at its first kernel: "
            f"{_names(searching)}. Use a longer limit for better predictions."
        )
    elif timer.left <= 0 and len(present) == 1 < n_candidates:
        check.warn_user(
            f"time_limit={timer.limit:g} was over after the first candidate, {_names(present)}, so "
            "there was no comparison. Use a longer limit."
        )


def _names(entries: Sequence[Entry]) -> str:
    return " and ".join(entry.candidate.key for entry in entries)


def _folds(door: Any, table: Table, setting: Setting) -> tuple[list[Fold], str]:
    """Return the folds of the contest, or why no rows can be held out."""
    if np.prod(table.X.shape, dtype=float) > MOST_ENTRIES:
        return [], f"X has more than {MOST_ENTRIES:,} entries, too many to copy some of its rows"
    if door.cv is not None:
        classes = not setting.is_regression
        folds = given_folds(
            door.cv, table.X, table.y, table.groups, table.is_present, classes=classes
        )
        if not door.refit and len(folds) > 1:
            raise ValueError(
                f"refit=False needs one held-out part, but cv has {len(folds)} folds. Use "
                "refit=True, or a splitter with one split, such as ShuffleSplit(1)."
            )
        return folds, ""
    table = table.present()
    y = table.y
    if table.groups is not None:
        units = np.unique(table.groups, return_inverse=True)[1].reshape(-1)
        check_groups(units)
    else:
        units = copies(table.numbers(), y)
        if len(np.unique(units)) < FEWEST_UNITS:
            return [], f"{len(y):,} rows are too few to compare candidates"
    strata = np.zeros(len(y), dtype=np.intp)
    if not setting.is_regression:
        strata = np.unique(y, return_inverse=True)[1].reshape(-1)
    folds = usual_folds(units, strata, setting.seed, once=not door.refit)
    if not setting.is_regression:
        folds = [fold for fold in folds if not has_one_class(y, fold)]
    return folds, "no group can be held out without losing a class"


def _fitted(
    outcome: Outcome,
    table: Table,
    encoder: TableEncoder | None,
    fold: Fold,
    timer: Timer,
    *,
    refit: bool,
    was_interrupted: bool,
) -> tuple[Mixture, Part, TableEncoder | None, list[str]]:
    """Fit the winners to all rows, or keep the models of the contest.

    ``encoder`` is that of all rows. Return the mixture, the rows that it was fitted to, their
    encoder, and notes.
    """
    shares = tuple(float(share) for _, share in outcome.winners)
    notes = list(outcome.notes)
    needed = sum(entry.refit_seconds for entry, _ in outcome.winners)
    has_model = is_most(fold.train, len(table.y))
    if refit and has_model and not timer.allows(needed):
        notes.append(
            f"There was no time for the fit to all {len(table.y):,} rows, so the model is the one "
            f"that was validated, which was fitted to {len(fold.train):,} of them."
        )
        check.warn_user(f"{notes[-1]} Increase time_limit={timer.limit:g}.")
    elif refit:
        try:
            with quiet():  # the encoder of the contest has shown its warnings
                part, own_encoder = table.encoded()
            models = []
            for entry, _ in outcome.winners:
                timer.show(f"fitting {entry.candidate.key} to all rows")
                models.append(part.fit(entry.settled))
        except KeyboardInterrupt:
            if was_interrupted:  # before, in the contest
                raise
            timer.show_interrupt(
                f"The validated model is used, which was fitted to {len(fold.train):,} rows."
            )
            notes.append("The fit to all rows was interrupted, and the validated model is used.")
        else:
            return Mixture(tuple(models), shares), part, own_encoder, notes
    part, own_encoder = table.part(fold.train, encoder)
    models = [entry.model for entry, _ in outcome.winners]
    return Mixture(tuple(models), shares), part, own_encoder, notes


def fit_alone(candidate: Candidate, table: Table, setting: Setting, timer: Timer) -> Answer:
    """Fit one candidate to all rows, without a contest."""
    part, encoder = table.encoded()
    model = candidate.estimator(setting, part.X.shape, {}, _limit_alone(timer))
    timer.show(f"fitting {candidate.key} to all rows")
    return _alone(candidate, part.fit(model), encoder, reasons.spreads(part.X), setting, timer)


def fit_stream(
    door: Any,
    chosen: Sequence[Candidate],
    X: Any,
    y: Any,
    sample_weight: Any,
    setting: Setting,
    timer: Timer,
) -> Answer:
    """Fit the candidate that serves streams and Dask collections."""
    serving = [one for one in chosen if one.serves_streams]
    kind = "a Dask collection" if is_dask(X) else "a stream of blocks"
    if not serving:
        raise ValueError(
            f"X is {kind}, which none of candidates={check.one_line(door.candidates)} serves. Add "
            "'features', or pass an array or a data frame."
        )
    n_rows = 2**62  # their number is unknown: assume many
    model = serving[0].estimator(setting, (n_rows, 1), {}, _limit_alone(timer))
    timer.show(f"fitting {serving[0].key} to {kind}")
    is_shown = "verbose" in model.get_params() and not model.verbose
    if is_shown:  # each pass over a stream may take long
        model.set_params(verbose=bool(door.verbose))
    opening = opening_of(X)
    door._for_stream(model).fit(opening.rows, y, sample_weight)
    if is_shown:
        model.set_params(verbose=False)
    found = _alone(serving[0], model, None, opening.of(reasons.spreads), setting, timer)
    return _with_reason(found, chosen, f"X is {kind}, of which no rows can be held out")


def _limit_alone(timer: Timer) -> float | None:
    """Return the seconds for the search of the only candidate."""
    return None if timer.limit is None else timer.limit * SHARES_OF_TIME[True]


def _alone(
    candidate: Candidate,
    model: Any,
    encoder: Any,
    spreads: Float64Array,
    setting: Setting,
    timer: Timer,
) -> Answer:
    """Return the answer of a fit without a contest."""
    entry = Entry(candidate, n_kernels=candidate.n_kernels(model))
    limit = _limit_alone(timer)
    entry.was_cut = limit is not None and timer.seconds >= limit and entry.n_kernels is not None
    _warn_of_short_time([entry], 1, timer)
    row = LeaderboardRow(
        candidate.key,
        1.0,
        fit_seconds=timer.seconds,
        note=candidate.note(model) or "not validated",
        estimator=candidate.settled(model),
    )
    tried = getattr(model, "candidates_", ())
    if tried:  # the losses of its own kernel search
        best = tried[0]
        row = row._replace(loss=best.loss, standard_error=best.standard_error, n_rows=best.n_rows)
    names = ("1 - R2", "R2") if setting.is_regression else ("log loss", "accuracy")
    why = str(getattr(model, "why_", f"{candidate.key} is the only candidate."))
    why += reasons.lateness(timer)
    board = Leaderboard((row,), *names)
    return Answer(Mixture((model,), (1.0,)), encoder, board, why, spreads)


def _with_reason(answer: Answer, chosen: Sequence[Candidate], reason: str) -> Answer:
    """Return an answer with the candidates that were left out, and the reason for it."""
    (row,) = answer.leaderboard.rows
    left_out = [one.key for one in chosen if one.key != row.name]
    if not left_out:
        return answer
    rows = (row, *(LeaderboardRow(key, note=reason) for key in left_out))
    text = f"{reasons.capital(reason)}: {row.name} used, {' and '.join(left_out)} left out."
    board = replace(answer.leaderboard, rows=rows)
    return replace(answer, leaderboard=board, why=f"{text} {answer.why}")
