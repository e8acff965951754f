"""From rows to a choice: what comes near the best, and what is the cheapest of that.

Among linear models and kernels, the one-standard-error rule decides: the best of many scores is
partly luck, so any contestant within one standard error of it will do, and the simplest of these is
taken. Our model with no settings is taken if it has the best score, or if it is among these and
needs clearly less memory. Boosted trees are taken if they are better than that choice.

Two contestants are compared fold by fold, on the same rows: one is better if the mean of its
differences is above zero by more than its standard error. All scores here are oriented: those of
metrics such as RMSE have the opposite sign, so that larger is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from quadfeat.apps.compare.contest import (
    BOOSTERS,
    DEFAULT_RULE,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    ORDER,
    OURS,
)

Key = tuple[str, int]  # contestant and number of features
CLEARLY = 2.0  # standard errors by which a rule must beat the default, and a model guessing
SAME = 1e-4  # scores that differ by no more than this part are those of the same predictions
# Our model wins a tie if it needs less than this share of the memory, and the other one needs more
# than these megabytes: below that, memory decides nothing.
LESS_MEMORY = 0.8
MUCH_MEMORY = 100.0


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
        The contestant to use, and its number of features or 0.
    best : tuple of str and int
        The one with the best mean score.
    ours : tuple of str and int
        The smallest number of features with which a map of quadfeat comes near its best.
    alone : tuple of str and int
        What to use of quadfeat: our model with no settings, or ``ours``.
    rival : tuple of str and int or None
        The best contestant of another name than ``key``.
    saves_memory : bool
        Whether our model was taken because it needs less memory than an equally good one.
    hopeless : bool
        Whether no contestant, chosen or without settings, beats guessing by two standard errors.
    """

    key: Key
    best: Key
    ours: Key
    alone: Key
    rival: Key | None = None
    saves_memory: bool = False
    hopeless: bool = False


def choose_kernel(rows: pd.DataFrame, sign: int = 1) -> tuple[str, str]:
    """Return the kernel with the best mean score, and the best Gaussian one."""
    scores = sign * rows.groupby("kernel", sort=False)["score"].mean().dropna()
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


def summarise(rows: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Return means over folds, a row for each contestant and number of features.

    ``metrics`` are more columns of scores. Times are medians, and peaks of memory maxima.
    """
    rows = rows[rows["failed"] == ""]
    grouped = rows.groupby(["contestant", "D"], sort=False)
    table = grouped.agg(
        kernel=("kernel", "first"),
        score=("score", "mean"),
        score_error=("score", _standard_error),
        **{name: (name, "mean") for name in metrics},
        kernel_error=("kernel_error", "mean"),
        fit_cpu_seconds=("fit_cpu_seconds", "median"),
        predict_cpu_seconds=("predict_cpu_seconds", "median"),
        peak_memory_mb=("peak_memory_mb", "max"),
        alpha=("alpha", "median"),
        train_rows=("train_rows", "max"),
        test_rows=("test_rows", "max"),
        folds=("fold", "size"),
    ).reset_index()
    # Where some folds failed, the mean of the rest is not comparable.
    table = table[table["folds"] == table["folds"].max()]
    order = {name: k for k, name in enumerate(ORDER)}
    return table.sort_values(["contestant", "D"], key=_by_order(order), ignore_index=True)


def _by_order(order: dict[str, int]):  # type: ignore[no-untyped-def]
    return lambda column: column.map(order) if column.name == "contestant" else column


def scores_by_fold(rows: pd.DataFrame, sign: int = 1) -> pd.DataFrame:
    """Return oriented scores, a row per fold and a column per contestant and number of features.

    Contestants that failed on a fold, or do not have this score, are left out.
    """
    rows = rows[rows["failed"] == ""]
    wide = rows.pivot(index="fold", columns=["contestant", "D"], values="score")
    return sign * wide.dropna(axis=1)


def difference(scores: pd.DataFrame, one: Key, other: Key) -> Difference:
    """Return by how much ``one`` scores higher than ``other``."""
    return _difference(scores[one] - scores[other])


def _difference(values: pd.Series) -> Difference:
    return Difference(float(values.mean()), _standard_error(values))


def _standard_error(values: pd.Series) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def decide(scores: pd.DataFrame, memory: Mapping[Key, float] | None = None) -> Verdict:
    """Return what to use.

    Parameters
    ----------
    scores : DataFrame
        As :func:`scores_by_fold` returns them.
    memory : mapping, default=None
        The peak memory of contestants in megabytes, where it was measured.
    """
    keys = list(scores.columns)
    maps = sorted(
        (key for key in keys if key[0] in MAPS), key=lambda key: (key[1], MAPS.index(key[0]))
    )
    ours = [key for key in maps if key[0] == OURS]
    our_map = _first_near(scores, ours, _best(scores, ours))
    model = [key for key in keys if key[0] == MODEL]
    simple = [*(key for key in keys if key[0] == LINEAR), *maps]
    key, saves = _with_model(scores, simple, model, memory or {})
    alone = _with_model(scores, ours, model, memory or {})[0]
    trees = [one for one in keys if one[0] in BOOSTERS]
    if trees:
        tree = _best(scores, trees)
        # Perhaps only the cheaper choice is worse than trees.
        others = [key, _best(scores, [*simple, *model])]
        unbeaten = [one for one in others if difference(scores, tree, one).words != "better than"]
        key, saves = (unbeaten[0], saves and unbeaten[0] == key) if unbeaten else (tree, False)
    everyone = [*simple, *model, *trees]
    best = _best(scores, everyone)
    rivals = [one for one in everyone if one[0] != key[0]]
    return Verdict(
        key,
        best,
        our_map,
        alone,
        _best(scores, rivals) if rivals else None,
        saves,
        # Some of many maps look better than guessing by chance, so only chosen ones count.
        _is_hopeless(scores, [key, alone, *(one for one in everyone if one not in maps)]),
    )


def _best(scores: pd.DataFrame, keys: Sequence[Key]) -> Key:
    """Return the contestant with the best mean score, the first of equal ones."""
    return max(keys, key=lambda key: float(scores[key].mean()))


def _with_model(
    scores: pd.DataFrame, simple: list[Key], model: list[Key], memory: Mapping[Key, float]
) -> tuple[Key, bool]:
    """Return the simplest contestant that is near the best, or our model with no settings.

    The second value tells whether less memory was the reason to take our model.
    """
    best = _best(scores, [*simple, *model])
    near = _near(scores, simple, best)
    linear = [key for key in near if key[0] == LINEAR]
    if linear:
        return linear[0], False
    if not near or best in model:
        return best, False
    if _near(scores, model, best):
        needs, other = (memory.get(key, np.nan) for key in (model[0], near[0]))
        if other > MUCH_MEMORY and needs < LESS_MEMORY * other:
            return model[0], True
    return near[0], False


def _is_hopeless(scores: pd.DataFrame, keys: Sequence[Key]) -> bool:
    """Return whether no contestant is better than guessing by two standard errors."""
    guess = (GUESS, 0)
    if guess not in scores.columns:
        return False
    # A model that predicts the mean is a guess, up to rounding.
    others = [key for key in keys if not np.allclose(scores[key], scores[guess], SAME, 0.0)]
    gains = [difference(scores, key, guess) for key in others]
    return all(gain.mean <= CLEARLY * gain.error for gain in gains)


def _first_near(scores: pd.DataFrame, candidates: list[Key], best: Key) -> Key:
    """Return the first that is within one standard error of the best."""
    return _near(scores, candidates, best)[0]


def _near(scores: pd.DataFrame, candidates: list[Key], best: Key) -> list[Key]:
    """Return those that are within one standard error of the best."""
    least = float(scores[best].mean()) - _standard_error(scores[best])
    return [key for key in candidates if float(scores[key].mean()) >= least]


def equal_time(table: pd.DataFrame, ours: Key) -> pd.DataFrame:
    """Return what each contestant reaches in the time that quadfeat takes with ``ours``.

    Time is the CPU seconds of training and of predicting the test rows. Between two numbers of
    features that were tried, time is taken for a power of D and the score for linear in log D.
    """
    seconds = table["fit_cpu_seconds"] + table["predict_cpu_seconds"]
    timed = table.assign(seconds=seconds)
    timed = timed[(timed["contestant"] != GUESS) & timed["score"].notna()]
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
