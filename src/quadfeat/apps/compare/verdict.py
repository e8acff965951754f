"""From rows to a choice: what comes near the best, and what is the cheapest of that.

What to use is chosen by the one-standard-error rule: the highest of many scores is high by
chance, too, so that whatever comes within one standard error of it will do, and the simplest
of that is taken. Two contestants are compared fold by fold, on the same rows: one is better if
the mean of its differences is above zero by more than its standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from quadfeat.apps.compare.contest import DEFAULT_RULE, EXACT, GUESS, LINEAR, MAPS, OURS

Key = tuple[str, int]  # contestant and number of features
CLEARLY = 2.0  # standard errors by which another rule must be better than the default


@dataclass(frozen=True)
class Difference:
    """By how much one contestant scores higher than another, fold by fold."""

    mean: float
    error: float

    @property
    def words(self) -> str:
        """Return what that means: better, worse, or as good as."""
        if abs(self.mean) <= self.error:
            return "as good as"
        return "better than" if self.mean > 0 else "worse than"


@dataclass(frozen=True)
class Verdict:
    """What to use.

    Attributes
    ----------
    key : tuple of str and int
        The contestant and its number of features: the plain linear model if that comes near the
        best, otherwise the smallest number with which a contestant does, the cheapest first.
    best : tuple of str and int
        The one with the highest mean score.
    ours : tuple of str and int
        The smallest number of features with which quadfeat comes near its best.
    """

    key: Key
    best: Key
    ours: Key


def choose_kernel(rows: pd.DataFrame) -> tuple[str, str]:
    """Return the kernel with the highest mean score, and the best Gaussian one."""
    scores = rows.groupby("kernel", sort=False)["score"].mean().dropna()
    gaussian = scores[scores.index.str.startswith("Gaussian")]
    return str(scores.idxmax()), str(gaussian.idxmax())


def choose_rule(rows: pd.DataFrame) -> str:
    """Return the rule with the least error, or the default one if that is not clearly worse."""
    wide = rows.pivot(index="fold", columns="rule", values="kernel_error").dropna(axis=1)
    best = str(wide.mean().idxmin())
    if DEFAULT_RULE not in wide:
        return best
    gain = _difference(wide[DEFAULT_RULE] - wide[best])
    return best if gain.mean > CLEARLY * gain.error else DEFAULT_RULE


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over folds, a row for each contestant and number of features.

    Times are medians: a machine has other things to do now and then.
    """
    rows = rows[rows["failed"] == ""]
    grouped = rows.groupby(["contestant", "D"], sort=False)
    table = grouped.agg(
        kernel=("kernel", "first"),
        score=("score", "mean"),
        score_error=("score", _standard_error),
        kernel_error=("kernel_error", "mean"),
        fit_seconds=("fit_seconds", "median"),
        predict_seconds=("predict_seconds", "median"),
        alpha=("alpha", "median"),
        train_rows=("train_rows", "max"),
        test_rows=("test_rows", "max"),
        folds=("fold", "size"),
    ).reset_index()
    # Where some folds failed, the mean of the rest is not comparable.
    table = table[table["folds"] == table["folds"].max()]
    order = {name: k for k, name in enumerate((GUESS, LINEAR, *MAPS, EXACT))}
    return table.sort_values(["contestant", "D"], key=_by_order(order), ignore_index=True)


def _by_order(order: dict[str, int]):  # type: ignore[no-untyped-def]
    return lambda column: column.map(order) if column.name == "contestant" else column


def scores_by_fold(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row a fold and a column a contestant and number of features."""
    rows = rows[rows["failed"] == ""]
    wide = rows.pivot(index="fold", columns=["contestant", "D"], values="score")
    return wide.dropna(axis=1)


def difference(scores: pd.DataFrame, one: Key, other: Key) -> Difference:
    """Return by how much ``one`` scores higher than ``other``."""
    return _difference(scores[one] - scores[other])


def _difference(values: pd.Series) -> Difference:
    return Difference(float(values.mean()), _standard_error(values))


def _standard_error(values: pd.Series) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def decide(scores: pd.DataFrame) -> Verdict:
    """Return what to use."""
    maps = sorted(
        (key for key in scores.columns if key[0] in MAPS),
        key=lambda key: (key[1], MAPS.index(key[0])),
    )
    candidates = [*(key for key in scores.columns if key[0] == LINEAR), *maps]
    best = max(candidates, key=lambda key: float(scores[key].mean()))
    key = _first_near(scores, candidates, best)
    ours = [candidate for candidate in maps if candidate[0] == OURS]
    our_best = max(ours, key=lambda key: float(scores[key].mean()))
    return Verdict(key, best, _first_near(scores, ours, our_best))


def _first_near(scores: pd.DataFrame, candidates: list[Key], best: Key) -> Key:
    """Return the first that is within one standard error of the best."""
    least = float(scores[best].mean()) - _standard_error(scores[best])
    return next(key for key in candidates if float(scores[key].mean()) >= least)


def equal_time(table: pd.DataFrame, ours: Key) -> pd.DataFrame:
    """Return what each contestant reaches in the time that quadfeat takes with ``ours``.

    Time is that of training and of predicting the test rows. Between two numbers of features that
    were tried, time is taken for a power of D and the score for linear in log D.
    """
    seconds = table["fit_seconds"] + table["predict_seconds"]
    timed = table.assign(seconds=seconds)[table["contestant"] != GUESS]
    reference = timed[(timed["contestant"] == ours[0]) & (timed["D"] == ours[1])]
    budget = float(reference["seconds"].iloc[0])
    rows = []
    for name, part in timed.groupby("contestant", sort=False):
        # What is slower with fewer features is so by chance.
        part = part.sort_values("D")
        part = part.assign(seconds=np.maximum.accumulate(part["seconds"].to_numpy()))
        within = part[part["seconds"] <= budget]
        row: dict[str, object] = {"contestant": name, "seconds": budget, "D": "", "remark": ""}
        row["score"] = np.nan
        if name == OURS:
            row.update(D=ours[1], score=float(reference["score"].iloc[0]))
        elif len(within) == 0:
            least = part.loc[part["seconds"].idxmin()]
            row.update(remark=f"takes at least {least['seconds']:.2g} s")
        elif name not in MAPS:
            row.update(score=float(part["score"].iloc[0]), seconds=float(part["seconds"].iloc[0]))
        else:
            row.update(_interpolate(part, budget))
        rows.append(row)
    return pd.DataFrame(rows)


def _interpolate(part: pd.DataFrame, budget: float) -> dict[str, object]:
    """Return the number of features that takes just so long, and its score."""
    seconds = part["seconds"].to_numpy()
    columns, score = part["D"].to_numpy(), part["score"].to_numpy()
    k = int(np.searchsorted(seconds, budget, side="right")) - 1
    if k == len(columns) - 1:
        return {
            "D": int(columns[k]),
            "score": float(score[k]),
            "seconds": float(seconds[k]),
            "remark": "the most that was tried",
        }
    share = np.log(budget / seconds[k]) / np.log(seconds[k + 1] / seconds[k])
    between = columns[k] * (columns[k + 1] / columns[k]) ** share
    found = float(score[k] + share * (score[k + 1] - score[k]))
    remark = f"between {columns[k]} and {columns[k + 1]}, which were tried"
    return {"D": round(float(between)), "score": found, "remark": remark}
