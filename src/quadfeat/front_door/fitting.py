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
from quadfeat.front_door.contest import Contest
from quadfeat.front_door.decision import Outcome, decided
from quadfeat.front_door.leaderboard import Leaderboard, LeaderboardRow
from quadfeat.front_door.mixture import Mixture
from quadfeat.front_door.preparation import Part, Table
from quadfeat.front_door.splits import (
    FEWEST_UNITS,
    Fold,
    check_groups,
    copies,
    given_folds,
    usual_folds,
)
from quadfeat.front_door.timing import Timer
from quadfeat.models.local_fitting import MOST_ENTRIES


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
    if door.cv is None and len(chosen) == 1:
        return fit_alone(chosen[0], table.present(), setting, timer)
    reason = _reason_against_contest(table)
    folds = [] if reason else _folds(door, table, setting)
    table = table.present()
    if not folds:
        reason = reason or f"{len(table.y):,} rows are too few to compare candidates"
        serving = [one for one in chosen if one.serves_streams] or list(chosen)
        return _with_reason(fit_alone(serving[0], table, setting, timer), chosen, reason)
    table = table.with_encoder()
    contest = Contest(chosen, setting, timer, door._judge)
    played = contest.run((table.split(fold) for fold in folds), len(folds))
    for entry in played.entries:
        if entry.error is not None:
            check.warn_user(f"{entry.candidate.key} was left out of the contest: {entry.note}")
    scorer = None if door.scoring is None else get_scorer(door.scoring)
    name = door.scoring if isinstance(door.scoring, str) else "score"
    outcome = decided(played, contest, scorer, name, blend=bool(door.blend))
    mixture, part, answer = _fitted(outcome, table, folds[0], timer, refit=bool(door.refit))
    encoder, notes = answer
    return Answer(
        mixture,
        encoder,
        outcome.leaderboard,
        reasons.why(outcome, notes, timer),
        reasons.spreads(part.X),
        door._scores_of(outcome),
    )


def _reason_against_contest(table: Table) -> str | None:
    """Return why no rows can be held out, or None if they can."""
    if np.prod(table.X.shape, dtype=float) > MOST_ENTRIES:
        return f"X has more than {MOST_ENTRIES:,} entries, too many to copy some of its rows"
    return None


def _folds(door: Any, table: Table, setting: Setting) -> list[Fold]:
    """Return the folds of the contest; none if there are too few rows."""
    if door.cv is not None:
        classes = not setting.is_regression
        folds = given_folds(door.cv, table.y, table.groups, table.is_present, classes=classes)
        if not door.refit and len(folds) > 1:
            raise ValueError(
                f"refit=False needs one held-out part, but cv has {len(folds)} folds. Use "
                "refit=True, or a splitter with one split, such as ShuffleSplit(1)."
            )
        return folds
    table = table.present()
    y = table.y
    if table.groups is not None:
        units = np.unique(table.groups, return_inverse=True)[1].reshape(-1)
        check_groups(units)
    else:
        units = copies(table.numbers(), y)
        if len(np.unique(units)) < FEWEST_UNITS:
            return []
    strata = np.zeros(len(y), dtype=np.intp)
    if not setting.is_regression:
        strata = np.unique(y, return_inverse=True)[1].reshape(-1)
    return usual_folds(units, strata, setting.seed, once=not door.refit)


def _fitted(
    outcome: Outcome, table: Table, fold: Fold, timer: Timer, *, refit: bool
) -> tuple[Mixture, Part, tuple[Any, list[str]]]:
    """Fit the winners to all rows, or keep the models of the contest.

    Return the mixture, the rows that it was fitted to, the encoder and notes.
    """
    shares = tuple(float(share) for _, share in outcome.winners)
    notes = list(outcome.notes)
    if refit:
        try:
            part, encoder = table.encoded()
            models = []
            for entry, _ in outcome.winners:
                timer.show(f"fitting {entry.candidate.key} to all rows")
                models.append(part.fit(entry.settled))
        except KeyboardInterrupt:
            notes.append("The fit to all rows was interrupted, and the validated model is used.")
        else:
            return Mixture(tuple(models), shares), part, (encoder, notes)
    part, encoder = table.rows(fold.train).encoded()
    models = [entry.model for entry, _ in outcome.winners]
    return Mixture(tuple(models), shares), part, (encoder, notes)


def fit_alone(candidate: Candidate, table: Table, setting: Setting, timer: Timer) -> Answer:
    """Fit one candidate to all rows, without a contest."""
    part, encoder = table.encoded()
    model = candidate.estimator(setting, part.X.shape, {}, timer.limit)
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
    n_rows = 2**62  # unknown, and not few
    model = serving[0].estimator(setting, (n_rows, 1), {}, timer.limit)
    door._for_stream(model).fit(X, y, sample_weight)
    spreads = np.ones(model.n_features_in_)
    found = _alone(serving[0], model, None, spreads, setting, timer)
    return _with_reason(found, chosen, f"X is {kind}, of which no rows can be held out")


def _alone(
    candidate: Candidate,
    model: Any,
    encoder: Any,
    spreads: Float64Array,
    setting: Setting,
    timer: Timer,
) -> Answer:
    """Return the answer of a fit without a contest."""
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
