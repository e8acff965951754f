"""Rank the candidates of a contest by their held-out losses, and choose one or a blend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.front_door.blending import best_shares, mean_and_error
from quadfeat.front_door.contest import Contest, Entry, Played
from quadfeat.front_door.forecasts import Forecast, Judge
from quadfeat.front_door.leaderboard import Leaderboard, LeaderboardRow
from quadfeat.front_door.preparation import Part
from quadfeat.front_door.quiet import quiet

# With a scorer of scikit-learn, the standard error comes from the scores of up to PARTS parts, each
# of at least PART_ROWS rows.
PARTS = 20
PART_ROWS = 20

# Only the best candidates are blended: the number of blends to try grows quickly.
MOST_BLENDED = 3


class Outcome(NamedTuple):
    """The result of a contest.

    Attributes
    ----------
    winners : list of tuples (Entry, float)
        The candidates of the final model with their shares, the largest share first.
    leaderboard : Leaderboard
    forecast : Forecast
        The forecast of the final model for the held-out rows.
    truth : Part
        The held-out rows, without columns.
    notes : list of str
    """

    winners: list[tuple[Entry, float]]
    leaderboard: Leaderboard
    forecast: Forecast
    truth: Part
    notes: list[str]


@dataclass(frozen=True)
class Measure:
    """The loss that ranks candidates: that of the judge, or minus a score of scikit-learn.

    Parameters
    ----------
    judge : Judge
        The judge for the held-out rows.
    truth : Part
    scorer : callable or None
    scorer_name : str
    """

    judge: Judge
    truth: Part
    scorer: Any
    scorer_name: str

    @property
    def names(self) -> tuple[str, str]:
        """The names of the loss and of the score."""
        if self.scorer is None:
            return self.judge.loss_name, self.judge.score_name
        return f"-{self.scorer_name}", self.scorer_name

    def loss(self, forecast: Forecast) -> tuple[float, float]:
        """Return the loss of a forecast with its standard error."""
        truth = self.truth
        if self.scorer is None:
            return mean_and_error(self.judge.losses(forecast, truth.y), truth.amounts)
        everything = np.arange(len(truth.y))
        value = self._scored_at_once(forecast)
        if not np.isfinite(value):
            raise ValueError(
                f"scoring={self.scorer_name!r} gives {value} on the held-out rows. Choose another "
                "score."
            )
        n_parts = min(PARTS, len(everything) // PART_ROWS)
        if n_parts < 2:
            return -value, float("nan")
        spread = np.array(
            [self._scored(forecast, rows) for rows in np.array_split(everything, n_parts)]
        )
        spread = spread[np.isfinite(spread)]
        error = float(np.std(spread) / np.sqrt(len(spread))) if len(spread) > 1 else float("nan")
        return -value, error

    def _scored_at_once(self, forecast: Forecast) -> float:
        """Return the score of scikit-learn for all held-out rows."""
        try:
            return self._scored(forecast, np.arange(len(self.truth.y)))
        except (TypeError, ValueError) as error:
            weights = " with their weights" if self.truth.weights is not None else ""
            raise ValueError(
                f"scoring={self.scorer_name!r} fails on the held-out rows{weights}: "
                f"{str(error).rstrip('.')}. Choose another score."
            ) from error

    def _scored(self, forecast: Forecast, rows: Any) -> float:
        """Return the score of scikit-learn for some rows."""
        deviations = None if forecast.deviations is None else forecast.deviations[rows]
        stored = self.judge.stored(Forecast(forecast.values[rows], deviations))
        X, weights = np.zeros((len(rows), 1)), {}
        if self.truth.weights is not None:
            weights = {"sample_weight": self.truth.weights[rows]}
        with quiet():  # a part may have too few rows for the score
            try:
                return float(self.scorer(stored, X, self.truth.y[rows], **weights))
            except ValueError:
                if len(rows) == len(self.truth.y):
                    raise
                return float("nan")  # a part without one of the classes

    def row(self, name: str, share: float, forecast: Forecast) -> LeaderboardRow:
        """Return the row of a forecast in the leaderboard."""
        loss, error = self.loss(forecast)
        score = -loss
        if self.scorer is None:
            score = self.judge.score(forecast, self.truth.y, self.truth.amounts)
        return LeaderboardRow(name, share, loss, error, score, len(self.truth.y))


def check_scorer(
    truth: Part, judge_of: Callable[[Array, Float64Array], Judge], scorer: Any, scorer_name: str
) -> None:
    """Raise an error before the contest if a score cannot be computed on the held-out rows."""
    if scorer is not None:
        judge = judge_of(truth.y, truth.amounts)
        Measure(judge, truth, scorer, scorer_name)._scored_at_once(judge.perfect(truth.y))


def decided(
    played: Played, contest: Contest, scorer: Any, scorer_name: str, *, blend: bool
) -> Outcome:
    """Rank the candidates by the folds that all of them have, and choose."""
    present, notes = played.present, list(played.notes)
    # Candidates that missed a fold for lack of time are compared on those that all have.
    most = max(len(entry.forecasts) for entry in present)
    n_folds = min(len(entry.forecasts) for entry in present)
    if n_folds < most:
        notes.append(f"Candidates are compared on the first {n_folds} of {most} folds.")
    y = np.concatenate([one.y for one in played.truths[:n_folds]])
    weights = np.concatenate([one.amounts for one in played.truths[:n_folds]])
    has_weights = played.truths[0].weights is not None
    truth = Part(None, y, weights if has_weights else None)
    measure = Measure(contest.judge_of(y, weights), truth, scorer, scorer_name)

    pooled = {id(entry): _joined(entry.forecasts[:n_folds]) for entry in present}
    losses = {id(entry): measure.loss(pooled[id(entry)])[0] for entry in present}
    present.sort(key=lambda entry: losses[id(entry)])
    forecasts = [pooled[id(entry)] for entry in present]
    shares = _shares(measure, forecasts[:MOST_BLENDED]) if blend else (1.0,)
    shares = (*shares, *[0.0] * (len(present) - len(shares)))

    rows = []
    forecast = measure.judge.mixed(forecasts, shares)
    winners = [(one, share) for one, share in zip(present, shares, strict=True) if share > 0]
    winners.sort(key=lambda pair: -pair[1])
    if len(winners) > 1:
        name = " + ".join(f"{share:.1f} {entry.candidate.key}" for entry, share in winners)
        rows.append(measure.row(name, 1.0, forecast))
    for entry, share, own in zip(present, shares, forecasts, strict=True):
        row = measure.row(entry.candidate.key, share, own)
        rows.append(
            row._replace(
                fit_seconds=entry.fit_seconds,
                predict_seconds=entry.predict_seconds,
                note=entry.note,
                estimator=entry.settled,
            )
        )
    rows += [
        LeaderboardRow(entry.candidate.key, note=entry.note)
        for entry in played.entries
        if not entry.forecasts
    ]
    return Outcome(winners, Leaderboard(tuple(rows), *measure.names), forecast, truth, notes)


def _shares(measure: Measure, forecasts: list[Forecast]) -> tuple[float, ...]:
    """Return the shares of a blend, or of the best candidate alone."""
    judge, truth = measure.judge, measure.truth

    def losses(forecast: Forecast) -> Float64Array:
        return judge.losses(forecast, truth.y)

    shares = best_shares(forecasts, losses, judge.mixed, truth.amounts)
    if max(shares) == 1.0:
        return (1.0,)
    if measure.scorer is None:
        return shares
    blended, error = measure.loss(judge.mixed(forecasts, shares))
    single, _ = measure.loss(forecasts[0])
    return shares if blended < single - error else (1.0,)


def _joined(forecasts: list[Forecast]) -> Forecast:
    """Return the forecasts for the held-out rows of several folds."""
    values = np.concatenate([one.values for one in forecasts])
    deviations = None
    if all(one.deviations is not None for one in forecasts):
        deviations = np.concatenate([np.asarray(one.deviations) for one in forecasts])
    return Forecast(values, deviations)
