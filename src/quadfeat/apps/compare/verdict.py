"""Choose a model from the scores.

Models are compared on the same folds. One is better than another if the mean of the differences
exceeds their standard error. The linear model is recommended if no model is better, because it is
the simplest one. Otherwise the kernel model is recommended if no model is better, and else the
model with the best mean score. Exact kernel ridge is a reference, since it does not see all rows of
a large table.
 The scores in this module are oriented: metrics such as RMSE change
sign, so that larger is always better.

Folds share training rows, so their scores are correlated and their standard error is too small.
Intervals and probabilities correct for that by the formula of Nadeau and Bengio (2003): the
variance of the mean of k folds is ``(1 / k + 1 / (k - 1)) s^2``, where s is the standard deviation
over folds. Probabilities are those of the Bayesian correlated t-test (Corani and Benavoli, 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from quadfeat.apps.compare.contestants import EXACT, GUESS, LINEAR, MODEL, ORDER

CONFIDENCE = 0.95  # of intervals
CLEARLY = 2.0  # standard errors by which a model must beat the constant
SAME = 1e-4  # scores that differ by less than this fraction come from the same predictions


DIFFERS = "differs between folds"  # a note of the leaderboard


@dataclass(frozen=True)
class Difference:
    """The difference of two models in score, over the same folds.

    Attributes
    ----------
    mean, error : float
        Mean over folds, and its standard error.
    folds : int
        Number of folds.
    same : bool
        Whether the two models predict the same, up to rounding.
    """

    mean: float
    error: float
    folds: int = 1
    same: bool = False

    @property
    def words(self) -> str:
        """The meaning of the difference: better than, worse than, or as good as."""
        if self.same or abs(self.mean) <= self.error:
            return "as good as"
        return "better than" if self.mean > 0 else "worse than"

    @property
    def probability(self) -> float:
        """The probability that the first model is really better.

        Examples
        --------
        >>> round(Difference(0.01, 0.005, folds=5).probability, 2)
        0.87
        """
        if self.same or self.mean == 0.0:
            return 0.5
        scale = self.error * _correction(self.folds)
        if scale == 0.0:
            return float(self.mean > 0)
        return float(stats.t.cdf(self.mean / scale, self.folds - 1))


def _correction(folds: int) -> float:
    """Return the factor by which correlation between folds increases a standard error."""
    return float(np.sqrt(1 + folds / (folds - 1))) if folds > 1 else 1.0


def interval(mean: float, error: float, folds: int) -> tuple[float, float]:
    """Return the confidence interval of a mean over folds.

    Examples
    --------
    >>> low, high = interval(0.9, 0.01, folds=5)
    >>> round(low, 3), round(high, 3)
    (0.858, 0.942)
    """
    if folds < 2:
        return mean, mean
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, folds - 1)) * error * _correction(folds)
    return mean - reach, mean + reach


@dataclass(frozen=True)
class Verdict:
    """The recommended model, and the models to compare it with.

    Attributes
    ----------
    key : str
        The recommended model.
    best : str
        The model with the best mean score, apart from the references.
    rival : str or None
        The best other model, apart from the references.
    hopeless : bool
        Whether no model beats a constant prediction by two standard errors.
    """

    key: str
    best: str
    rival: str | None = None
    hopeless: bool = False


def summarize(rows: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Return means over folds, one row per model.

    ``metrics`` names more columns of scores. Times, penalties and kernel parameters are medians
    over folds, memory is the maximum.
    """
    rows = rows[rows["failed"] == ""]
    grouped = rows.groupby("contestant", sort=False)
    table = grouped.agg(
        score=("score", "mean"),
        score_error=("score", _standard_error),
        **{name: (name, "mean") for name in metrics},
        fit_cpu_seconds=("fit_cpu_seconds", "median"),
        predict_cpu_seconds=("predict_cpu_seconds", "median"),
        peak_memory_mb=("peak_memory_mb", "max"),
        alpha=("alpha", "median"),
        gamma=("gamma", "median"),
        train_rows=("train_rows", "max"),
        test_rows=("test_rows", "max"),
        folds=("fold", "size"),
    ).reset_index()
    # If some folds failed, the mean over the others is not comparable.
    table = table[table["folds"] == table["folds"].max()]
    return table.sort_values(
        "contestant", key=lambda names: names.map(ORDER.index), ignore_index=True
    )


def leaderboard(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the candidates of the kernel model, best first, with means over folds.

    The columns are those of a leaderboard and ``folds``, the number of folds in which a candidate
    took part. Shares count all folds.
    """
    boards = [board for board in rows["leaderboard"] if board]
    if not boards:
        return pd.DataFrame()
    places = pd.DataFrame([place for board in boards for place in board])
    grouped = places.groupby("candidate", sort=False)
    table = grouped.agg(
        share=("share", lambda shares: shares.sum() / len(boards)),
        loss_name=("loss_name", "first"),
        loss=("loss", "mean"),
        standard_error=("standard_error", "mean"),
        fit_seconds=("fit_seconds", "mean"),
        predict_seconds=("predict_seconds", "mean"),
        folds=("fit_seconds", "count"),
        note=("note", lambda notes: notes.iloc[0] if notes.nunique() == 1 else DIFFERS),
    ).reset_index()
    return table.sort_values(["loss", "share"], ascending=[True, False], ignore_index=True)


def scores_by_fold(rows: pd.DataFrame, sign: int = 1) -> pd.DataFrame:
    """Return oriented scores, one row per fold, one column per model.

    Models that failed on a fold, or do not have this score, are left out.
    """
    rows = rows[rows["failed"] == ""]
    return sign * rows.pivot(index="fold", columns="contestant", values="score").dropna(axis=1)


def difference(scores: pd.DataFrame, one: str, other: str) -> Difference:
    """Return by how much ``one`` scores higher than ``other``."""
    same = np.allclose(scores[one], scores[other], SAME, 0.0)
    values = scores[one] - scores[other]
    return Difference(float(values.mean()), _standard_error(values), len(values), same)


def _standard_error(values: pd.Series) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def decide(scores: pd.DataFrame) -> Verdict:
    """Return the recommended model for the result of :func:`scores_by_fold`."""
    ranked = ranking(scores)
    models = [one for one in ranked if one not in (GUESS, EXACT)]
    best = models[0]
    unbeaten = [
        one
        for one in (LINEAR, MODEL)
        if one in models
        and all(difference(scores, other, one).words != "better than" for other in models)
    ]
    key = unbeaten[0] if unbeaten else best
    rival = next((one for one in models if one != key), None)
    return Verdict(key, best, rival, _is_hopeless(scores, [*models, EXACT]))


def ranking(scores: pd.DataFrame) -> list[str]:
    """Return all models, the best mean score first."""
    return sorted(
        (one for one in ORDER if one in scores.columns),
        key=lambda one: -float(scores[one].mean()),
    )


def _is_hopeless(scores: pd.DataFrame, models: Sequence[str]) -> bool:
    """Return whether no model beats the constant prediction by two standard errors."""
    if GUESS not in scores.columns:
        return False
    # Exclude models that predict the constant, up to rounding.
    others = [
        one
        for one in models
        if one in scores.columns and not np.allclose(scores[one], scores[GUESS], SAME, 0.0)
    ]
    gains = [difference(scores, one, GUESS) for one in others]
    return all(gain.mean <= CLEARLY * gain.error for gain in gains)
