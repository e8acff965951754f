"""Choose a model: the simplest one that is near the best score.

Among the linear model and feature maps, the one-standard-error rule decides. The best of many
scores is partly luck, so every model within one standard error of the best is good enough, and the
simplest of them is chosen. The kernel model is chosen instead if it has the best score, or if it
is within one standard error and needs much less memory. Boosted trees are chosen if they are better
than that choice.

Models are compared on the same folds. One is better than another if the mean of the differences
exceeds their standard error. The scores in this module are oriented: metrics such as RMSE change
sign, so that larger is always better.

Folds share training rows, so their scores are correlated and their standard error is too small.
Intervals and probabilities correct for that by the formula of Nadeau and Bengio (2003): the
variance of the mean of k folds is ``(1 / k + 1 / (k - 1)) s^2``, where s is the standard deviation
over folds. Probabilities are those of the Bayesian correlated t-test (Corani and Benavoli, 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from quadfeat.apps.compare.contest import DEFAULT_RULE
from quadfeat.apps.compare.contestants import (
    BOOSTERS,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    ORDER,
    OURS,
    Key,
)

CONFIDENCE = 0.95  # of intervals
CLEARLY = 2.0  # standard errors by which a rule must beat the default, and a model the constant
SAME = 1e-4  # scores that differ by less than this fraction come from the same predictions
# The kernel model wins a tie if it needs less than this share of the memory of the other model, and
# the other model needs more than this number of megabytes. Smaller amounts do not matter.
LESS_MEMORY = 0.8
MUCH_MEMORY = 100.0


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
        if abs(self.mean) <= self.error:
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
    key : tuple of str and int
        The recommended model, and its number of features or 0.
    best : tuple of str and int
        The model with the best mean score.
    ours : tuple of str and int
        Quadrature features, with the fewest features that are near their best score.
    alone : tuple of str and int
        The recommended model of quadfeat: the kernel model or ``ours``.
    rival : tuple of str and int or None
        The best model with another name than ``key``.
    saves_memory : bool
        Whether the kernel model is recommended because it needs less memory than an equally
        good model.
    hopeless : bool
        Whether no model beats a constant prediction by two standard errors.
    """

    key: Key
    best: Key
    ours: Key
    alone: Key
    rival: Key | None = None
    saves_memory: bool = False
    hopeless: bool = False


def choose_kernel(rows: pd.DataFrame, sign: int = 1) -> tuple[str, str]:
    """Return the kernel with the best mean score, and the best Gaussian kernel."""
    scores = sign * rows.groupby("kernel", sort=False)["score"].mean().dropna()
    gaussian = scores[scores.index.str.startswith("Gaussian")]
    return str(scores.idxmax()), str(gaussian.idxmax())


def choose_rule(rows: pd.DataFrame) -> str:
    """Return the rule with the smallest error, or the default if that is not clearly worse."""
    wide = rows.pivot(index="fold", columns="rule", values="kernel_error").dropna(axis=1)
    best = str(wide.mean().idxmin())
    if DEFAULT_RULE not in wide:
        return best
    gain = _difference(wide[DEFAULT_RULE] - wide[best])
    return best if gain.mean > CLEARLY * gain.error else DEFAULT_RULE


def summarize(rows: pd.DataFrame, metrics: Sequence[str] = ()) -> pd.DataFrame:
    """Return means over folds, one row per model and number of features.

    ``metrics`` names more columns of scores. Times are medians over folds, memory is the maximum.
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
    # If some folds failed, the mean over the others is not comparable.
    table = table[table["folds"] == table["folds"].max()]
    order = {name: k for k, name in enumerate(ORDER)}
    return table.sort_values(["contestant", "D"], key=_by_order(order), ignore_index=True)


def _by_order(order: dict[str, int]):  # type: ignore[no-untyped-def]
    return lambda column: column.map(order) if column.name == "contestant" else column


def scores_by_fold(rows: pd.DataFrame, sign: int = 1) -> pd.DataFrame:
    """Return oriented scores, one row per fold, one column per model and number of features.

    Models that failed on a fold, or do not have this score, are left out.
    """
    rows = rows[rows["failed"] == ""]
    wide = rows.pivot(index="fold", columns=["contestant", "D"], values="score")
    return sign * wide.dropna(axis=1)


def difference(scores: pd.DataFrame, one: Key, other: Key) -> Difference:
    """Return by how much ``one`` scores higher than ``other``."""
    same = np.allclose(scores[one], scores[other], SAME, 0.0)
    return _difference(scores[one] - scores[other], same=same)


def _difference(values: pd.Series, *, same: bool = False) -> Difference:
    return Difference(float(values.mean()), _standard_error(values), len(values), same)


def _standard_error(values: pd.Series) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def decide(scores: pd.DataFrame, memory: Mapping[Key, float] | None = None) -> Verdict:
    """Return the recommended model.

    Parameters
    ----------
    scores : DataFrame
        The result of :func:`scores_by_fold`.
    memory : mapping, default=None
        Peak memory of models in megabytes, if measured.
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
        # Trees may beat the simple choice, but not the best of the others.
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
        # Among many maps, some beat the constant by chance. Only chosen ones count.
        _is_hopeless(scores, [key, alone, *(one for one in everyone if one not in maps)]),
    )


def _best(scores: pd.DataFrame, keys: Sequence[Key]) -> Key:
    """Return the model with the best mean score, the first one if several are equal."""
    return max(keys, key=lambda key: float(scores[key].mean()))


def _with_model(
    scores: pd.DataFrame, simple: list[Key], model: list[Key], memory: Mapping[Key, float]
) -> tuple[Key, bool]:
    """Return the simplest model that is near the best, or the kernel model.

    The second value is True if the kernel model was chosen for its smaller memory.
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
    """Return whether no model beats the constant prediction by two standard errors."""
    guess = (GUESS, 0)
    if guess not in scores.columns:
        return False
    # Exclude models that predict the constant, up to rounding.
    others = [key for key in keys if not np.allclose(scores[key], scores[guess], SAME, 0.0)]
    gains = [difference(scores, key, guess) for key in others]
    return all(gain.mean <= CLEARLY * gain.error for gain in gains)


def _first_near(scores: pd.DataFrame, candidates: list[Key], best: Key) -> Key:
    """Return the first model within one standard error of the best."""
    return _near(scores, candidates, best)[0]


def _near(scores: pd.DataFrame, candidates: list[Key], best: Key) -> list[Key]:
    """Return the models within one standard error of the best."""
    least = float(scores[best].mean()) - _standard_error(scores[best])
    return [key for key in candidates if float(scores[key].mean()) >= least]


def representatives(scores: pd.DataFrame, decided: Verdict) -> list[Key]:
    """Return one entry for each model, the best score first.

    A feature map is represented by the recommended number of features, or else by the fewest
    features within one standard error of its own best score.
    """
    chosen = []
    for name in ORDER:
        keys = sorted(key for key in scores.columns if key[0] == name)
        if decided.key in keys:
            chosen.append(decided.key)
        elif name == OURS:
            chosen.append(decided.ours)
        elif keys:
            chosen.append(_first_near(scores, keys, _best(scores, keys)))
    return sorted(chosen, key=lambda key: -float(scores[key].mean()))


def equal_time(table: pd.DataFrame, ours: Key) -> pd.DataFrame:
    """Return the score of each model in the time that quadrature features take with ``ours``.

    Time is the CPU seconds of training and of predicting the test rows. Between two tested numbers
    of features D, time is interpolated as a power of D, and the score linearly in log D.
    """
    seconds = table["fit_cpu_seconds"] + table["predict_cpu_seconds"]
    timed = table.assign(seconds=seconds)
    timed = timed[(timed["contestant"] != GUESS) & timed["score"].notna()]
    reference = timed[(timed["contestant"] == ours[0]) & (timed["D"] == ours[1])]
    budget = float(reference["seconds"].iloc[0])
    rows = []
    for name, part in timed.groupby("contestant", sort=False):
        # Fewer features are never really slower: measured differences are noise.
        part = part.sort_values("D")
        part = part.assign(seconds=np.maximum.accumulate(part["seconds"].to_numpy()))
        within = part[part["seconds"] <= budget]
        row: dict[str, object] = {"contestant": name, "seconds": budget, "D": "", "remark": ""}
        row["score"] = np.nan
        if name == OURS:
            row.update(D=ours[1], score=float(reference["score"].iloc[0]))
        elif len(within) == 0:
            least = part.loc[part["seconds"].idxmin()]
            row.update(remark=f"needs at least {least['seconds']:.2g} s")
        elif name not in MAPS:
            row.update(score=float(part["score"].iloc[0]), seconds=float(part["seconds"].iloc[0]))
        else:
            row.update(_interpolate(part, budget))
        rows.append(row)
    return pd.DataFrame(rows)


def _interpolate(part: pd.DataFrame, budget: float) -> dict[str, object]:
    """Return the number of features that takes this time, and its score."""
    seconds = part["seconds"].to_numpy()
    columns, score = part["D"].to_numpy(), part["score"].to_numpy()
    k = int(np.searchsorted(seconds, budget, side="right")) - 1
    if k == len(columns) - 1:
        return {
            "D": int(columns[k]),
            "score": float(score[k]),
            "seconds": float(seconds[k]),
            "remark": "largest D tested",
        }
    share = np.log(budget / seconds[k]) / np.log(seconds[k + 1] / seconds[k])
    between = columns[k] * (columns[k + 1] / columns[k]) ** share
    found = float(score[k] + share * (score[k + 1] - score[k]))
    remark = f"interpolated between D = {columns[k]} and {columns[k + 1]}"
    return {"D": round(float(between)), "score": found, "remark": remark}
