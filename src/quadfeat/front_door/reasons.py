"""Explain a choice: why a model won, and along which columns it bends."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.validation import Float64Array
from quadfeat.front_door.answer import Answer
from quadfeat.front_door.decision import Outcome
from quadfeat.front_door.leaderboard import Leaderboard, LeaderboardRow
from quadfeat.front_door.timing import Timer

# The spread of a column is that of this many rows.
MOST_ROWS = 20_000


def why(outcome: Outcome, notes: list[str], timer: Timer) -> str:
    """Return the reason for the winner of a contest, in a few sentences."""
    board = outcome.leaderboard
    best, *others = [row for row in board if row.took_part]
    text = f"{capital(best.name)} won with {_result(best, board)} on {best.n_rows:,} held-out rows."
    if others:
        text += f" Next best: {others[0].name} with {_result(others[0], board)}."
    for row in board:
        if not row.took_part:
            text += f" {capital(row.name)} left out: {row.note}."
    for note in notes:
        text += f" {note}"
    text += lateness(timer)
    for entry, _ in outcome.winners:
        if entry.why:
            text += f" {capital(entry.candidate.key)}: {entry.why}"
    return text


def lateness(timer: Timer) -> str:
    """Return a sentence if the fit took longer than its time limit."""
    if timer.limit is None or timer.seconds <= timer.limit:
        return ""
    return f" The fit took {timer.seconds:.1f} s (time_limit={timer.limit:g})."


def capital(text: str) -> str:
    """Return a text with a capital letter at its start."""
    return text[:1].upper() + text[1:]


def _result(row: LeaderboardRow, board: Leaderboard) -> str:
    error = "" if np.isnan(row.standard_error) else f" +- {row.standard_error:.4f}"
    if board.loss_name == "log loss":
        return f"a log loss of {row.loss:.4f}{error}"
    return f"{board.score_name} {row.score:.4f}{error}"


def spreads(X: Any) -> Float64Array:
    """Return the interquartile range of each column, or its standard deviation if that is zero."""
    X = X if sparse.issparse(X) else np.asarray(to_numpy(X, "X"))
    part = X[:: max(1, X.shape[0] // MOST_ROWS)]
    part = part.toarray() if sparse.issparse(part) else part
    part = np.asarray(part, dtype=np.float64)
    low, high = np.percentile(part, [25, 75], axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = part.std(axis=0)
        found = np.where(high > low, (high - low) / 1.349, deviations)
    return np.asarray(np.where(np.isfinite(found), found, 0.0))


def relevance(answer: Answer, n_columns: int) -> Float64Array:
    """Return the relevance of each input column, the sum of those of its encoded columns.

    The relevance of an encoded column to a kernel is its part of the squared distance between
    two typical rows, and relevances are blended by the shares of the models. Models without a
    kernel do not count; if there is no other one, all relevances are zero.
    """
    spread = answer.spreads
    total = np.zeros(len(spread))
    for share, model in zip(answer.mixture.shares, answer.mixture.models, strict=True):
        kernel = getattr(model, "kernel_", None)
        if kernel is None:
            continue
        rates = np.diagonal(kernel.metric_for(len(spread))) * spread**2
        if rates.sum() > 0:
            total += share * rates / rates.sum()
    if answer.encoder is not None:
        totals = np.bincount(answer.encoder.input_of_output_, total, minlength=n_columns)
        total = totals.astype(np.float64)
    return np.asarray(total / total.sum() if total.sum() > 0 else total)
