"""Say in a few sentences what a comparison found, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadfeat.apps.compare import contest
from quadfeat.apps.compare.contestants import (
    BOOSTERS,
    EXACT,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    OURS,
    Key,
    class_name,
    in_sentence,
    title,
)
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.fitting import PENALTIES
from quadfeat.apps.reporting.text import printable

LIKELY, CERTAIN = 0.8, 0.95  # probabilities from which on a model is called better
PLURAL = (*MAPS, *BOOSTERS)  # models whose names are plurals


def headline(found: Findings) -> str:
    """Return the result in one sentence."""
    target, key = printable(found.source.target), found.verdict.key
    if found.verdict.hopeless:
        return f"No model predicts {target} better than a constant."
    return f"Use {in_sentence(key)} to predict {target}: {found.score_name} {found.scored(key)}."


def recommendation(found: Findings) -> str:
    """Return the model to use, its score and its interval."""
    key = found.verdict.key
    score = f"{found.score_name} {found.scored(key)}, 95% interval {found.bounds(key)}"
    if found.verdict.hopeless:
        return f"No model is recommended. The choice would be {in_sentence(key)}: {score}."
    return f"Use {in_sentence(key)}: {score}."


def reason(found: Findings) -> str:
    """Return why this model is recommended."""
    key, best = found.verdict.key, found.verdict.best
    top = f"{found.scored(best)} by {in_sentence(best)}"
    near = found.scores[key].mean() >= found.scores[best].mean() - _error(found, best)
    if key == best:
        why = "It has the best score."
        if _is_better(found, (EXACT, 0)):
            why = "Only exact kernel ridge, which is slow for many rows, has a better score."
    elif not near:
        gap = found.difference(best, key)
        why = (
            f"The best score, {top}, is not clearly better: the difference is "
            f"{gap.mean:{found.form}} ± {gap.error:{found.form}}."
        )
    elif key[0] == LINEAR:
        why = f"It is the simplest model within one standard error of the best score, {top}."
    elif found.verdict.saves_memory:
        why = f"It is within one standard error of the best score, {top}. {_saved_memory(found)}"
    elif key[0] in MAPS:
        why = f"It has the fewest features within one standard error of the best score, {top}."
    else:
        why = f"It is within one standard error of the best score, {top}."
    return f"{why} This table does not need a kernel." if key[0] == LINEAR else why


def _error(found: Findings, key: Key) -> float:
    return float(found.entry(key)["score_error"])


def _is_better(found: Findings, key: Key) -> bool:
    """Return whether a model has a better mean score than the recommended one."""
    return key in found.scores and found.difference(key, found.verdict.key).mean > 0


def _saved_memory(found: Findings) -> str:
    maps = [key for key in found.scores.columns if key[0] in MAPS]
    peaks = found.table.set_index(["contestant", "D"])["peak_memory_mb"]
    key = max(maps, key=lambda one: float(found.scores[one].mean()))
    return (
        f"It needs {peaks[found.verdict.key]:.0f} MB of memory to train; {in_sentence(key)}, the "
        f"best feature map, needs {peaks[key]:.0f} MB."
    )


def sureness(found: Findings) -> str:
    """Return how sure it is that the recommended model beats its best rival."""
    key, rival = found.verdict.key, found.rival
    if rival is None:
        return "There is no rival to compare it with."
    gap = found.difference(key, rival)
    if gap.same:
        return f"No difference: it predicts the same as {in_sentence(rival)}."
    amount = f"by {abs(gap.mean):{found.form}} ± {gap.error:{found.form}}"
    paired = f"{amount} (paired over {gap.folds} folds)"
    if gap.mean < 0:
        chance = percent(1 - gap.probability)
        verb = "beat" if rival[0] in PLURAL else "beats"
        return f"Not sure: {in_sentence(rival)} {verb} it with probability {chance}, {paired}."
    word = "Not sure"
    if gap.probability >= LIKELY:
        word = "Almost certain" if gap.probability >= CERTAIN else "Likely"
    chance = percent(gap.probability)
    return f"{word}: it beats {in_sentence(rival)} with probability {chance}, {paired}."


def percent(probability: float) -> str:
    """Return a probability in words that do not overstate it.

    Examples
    --------
    >>> percent(0.863), percent(0.9999), percent(0.0001)
    ('86%', 'over 99%', 'below 1%')
    """
    if probability > 0.99:
        return "over 99%"
    return f"{100 * probability:.0f}%" if probability >= 0.01 else "below 1%"


def ties(found: Findings) -> list[Key]:
    """Return the models that are about as good as the recommended one, except for its rival."""
    others = [key for key in found.entries if key not in (found.verdict.key, found.rival)]
    return [
        key for key in others if found.difference(key, found.verdict.key).probability >= 1 - LIKELY
    ]


def points(found: Findings) -> dict[str, str]:
    """Return the recommendation with all that supports it, by label."""
    if found.verdict.hopeless:
        return {"Use": recommendation(found), "How sure": sureness(found)}
    lines = {
        "Use": recommendation(found),
        "Why": reason(found),
        "How sure": sureness(found),
    }
    equal = ties(found)
    if equal:
        lines["How sure"] += f" About as good, or better: {', '.join(map(in_sentence, equal))}."
    return lines


def cautions(found: Findings) -> list[str]:
    """Return warnings: no model beats a constant, or a choice is at the edge of its grid."""
    lines = []
    key = found.verdict.key
    if found.verdict.hopeless:
        constant = "mean" if found.metric.task == "regression" else "class frequencies"
        lines.append(
            f"No model beats a constant prediction, the {constant} of the target, by two standard "
            f"errors: {found.score_name} {found.scored(key)} against {found.scored((GUESS, 0))}. "
            "The columns may be unrelated to the target."
        )
    for one in dict.fromkeys([key, found.verdict.alone]):
        lines += _edges(found, one)
    return list(dict.fromkeys(lines))


def _edges(found: Findings, key: Key) -> list[str]:
    """Return warnings about hyperparameters at the edge of their grids."""
    lines = []
    kernel = found.kernel_of(key)
    for parameter, grid in contest.kernel_grids(found.problem).items():
        values = [one.get_params()[parameter] for one in grid]
        if kernel is not None and repr(kernel) in map(repr, grid):
            lines += edge(parameter, title(key), kernel.get_params()[parameter], values)
    if key[0] in (LINEAR, *MAPS):
        lines += edge("alpha", title(key), float(found.entry(key)["alpha"]), PENALTIES)
    sizes = contest.ladder(found.problem)
    if key[1] == sizes[-1] and 2 * sizes[-1] <= found.problem.n_train:
        lines.append(
            f"D = {key[1]} is the largest number of features tested. More may be better: run again "
            f"with --max-components {2 * key[1]}."
        )
    return lines


def edge(parameter: str, model: str, value: float, grid: Sequence[float]) -> list[str]:
    """Return a warning if a value is the first or the last of its grid.

    Examples
    --------
    >>> edge("alpha", "Linear model", 100.0, (0.1, 1.0, 100.0))[0]
    'Linear model: alpha = 100 is the largest value tested. Try larger ones in the script.'
    """
    if value not in (grid[0], grid[-1]):
        return []
    size, other = ("smallest", "smaller") if value == grid[0] else ("largest", "larger")
    return [
        f"{model}: {parameter} = {value:g} is the {size} value tested. Try {other} ones in the "
        "script."
    ]


def next_steps(found: Findings) -> list[str]:
    """Return what to do next."""
    key, alone = found.verdict.key, found.verdict.alone
    regression = found.metric.task == "regression"
    steps = []
    if not found.verdict.hopeless:
        steps.append(
            f"Run the script, model.py, in the folder of {printable(found.source.path.name)}: it "
            "trains the model and prints its score."
        )
    if found.source.sampled:
        steps.append(
            f"Only {len(found.source.y)} of {found.source.n_rows} rows were used: run again with "
            f"--max-rows {found.source.n_rows} to use all of them."
        )
    if found.verdict.hopeless:
        steps.append(
            "Add columns that are related to the target, and check that each row has its own "
            "target. Use no model before it beats a constant."
        )
        return steps
    gap = None if found.rival is None else found.difference(key, found.rival)
    if gap is not None and 1 - LIKELY < gap.probability < LIKELY:
        folds = max(10, 2 * found.problem.folds)
        steps.append(
            f"The decision is close: run again with --folds {folds}, or with another --seed, to "
            "see whether it holds."
        )
    if key[0] not in (OURS, MODEL):
        need = "prediction intervals or streaming" if regression else "streaming"
        steps.append(
            f"If you need {need}, use {in_sentence(alone)}: {found.score_name} "
            f"{found.scored(alone)}, 95% interval {found.bounds(alone)}."
        )
    elif regression:
        steps.append(
            "Get a standard deviation for each prediction with model.predict(X, return_std=True)."
        )
    return steps


def comparisons(found: Findings) -> list[str]:
    """Return how quadrature features compare with the other models."""
    ours = found.verdict.ours
    lines = []
    for name in MAPS[1:]:
        other = (name, ours[1])
        if other in found.scores.columns:
            line = _compared(found, other, ours)
            kernels = {found.entry(key)["kernel"] for key in (other, ours)}
            if len(kernels) > 1:
                line += f" They use the kernel {found.entry(other)['kernel']}."
            lines.append(line)
    lines += _in_equal_time(found)
    for name in (MODEL, LINEAR):
        if (name, 0) in found.scores.columns:
            line = _compared(found, (name, 0), ours)
            lines.append(f"{line} {_choices(found)}" if name == MODEL else line)
    for name in BOOSTERS:
        if (name, 0) in found.scores.columns:
            lines.append(_compared(found, (name, 0), found.verdict.alone))
    exact = (EXACT, 0)
    if exact in found.scores.columns:
        seen = int(found.entry(exact)["train_rows"])
        all_rows = seen >= found.entry(ours)["train_rows"]
        line = _compared(found, exact, ours)
        line += f" It trained on {'all' if all_rows else 'only'} {seen} rows."
        if all_rows and not found.source.sampled and found.difference(exact, ours).mean > 0:
            line += " With so few rows it is affordable."
        lines.append(line)
    failed = found.failed
    if len(failed):
        first = failed.iloc[0]
        count = "1 fit" if len(failed) == 1 else f"{len(failed)} fits"
        name = title((first["contestant"], int(first["D"])))
        lines.append(f"{count} failed. The first: {name}: {first['failed']}")
    return lines


def _choices(found: Findings) -> str:
    """Return what the kernel model chose on the folds."""
    rows = found.rows[(found.rows["contestant"] == MODEL) & (found.rows["failed"] == "")]
    counts = rows["choice"].value_counts()
    if len(counts) == 1:
        return f"On each fold, it chose {counts.index[0]}."
    parts = [f"{choice} on {count}" for choice, count in counts.items()]
    return f"Of {len(rows)} folds, it chose {', '.join(parts[:-1])} and {parts[-1]}."


def _compared(found: Findings, one: Key, other: Key) -> str:
    """Return a sentence that compares two models."""
    subject = in_sentence(one)
    verb = "are" if one[0] in PLURAL else "is"
    words = found.difference(one, other).words
    sentence = f"{subject} {verb} {words} {in_sentence(other)} ({found.gap(one, other)})."
    return sentence[0].upper() + sentence[1:]


def _in_equal_time(found: Findings) -> list[str]:
    """Return the scores of other feature maps in the time of quadrature features."""
    timed = found.equal_time.set_index("contestant")
    parts = []
    for name in MAPS[1:]:
        if name in timed.index:
            row = timed.loc[name]
            if np.isnan(row["score"]):
                parts.append(f"{in_sentence((name, 0))} cannot finish with any D tested")
            else:
                parts.append(f"{in_sentence((name, row['D']))} reach {row['score']:{found.form}}")
    if not parts:
        return []
    ours = found.verdict.ours
    parts.insert(0, f"{in_sentence(ours)} reach {found.scored(ours)}")
    return [
        f"In {timed.loc[OURS, 'seconds']:.2g} CPU seconds, {', '.join(parts[:-1])} and {parts[-1]}."
    ]


def summary(found: Findings) -> dict[str, Any]:
    """Return the result for programs."""
    table = found.table.astype(object).where(found.table.notna(), None)
    key = found.verdict.key
    rival = None if found.rival is None else _entry(found, found.rival)
    return {
        "task": found.metric.task,
        "scoring": found.metric.option,
        "higher_is_better": found.metric.sign > 0,
        "folds": found.problem.folds,
        "recommendation": {
            **_entry(found, key),
            "beats_constant": not found.verdict.hopeless,
            "rival": rival,
            "probability_better_than_rival": (
                None if found.rival is None else found.difference(key, found.rival).probability
            ),
            "definition": found.definition(key),
        },
        "use": list(key),
        "best": list(found.verdict.best),
        "models": [_entry(found, one) for one in found.entries],
        "conclusions": [*points(found).values(), *comparisons(found)],
        "next_steps": next_steps(found),
        "warnings": cautions(found),
        "contestants": table.to_dict(orient="records"),
    }


def _entry(found: Findings, key: Key) -> dict[str, Any]:
    low, high = found.interval(key)
    gap = found.difference(key, found.verdict.key)
    entry = found.entry(key)
    return {
        "contestant": key[0],
        "D": key[1] or None,
        "title": title(key),
        "class": class_name(key[0], found.metric.task),
        "score": float(entry["score"]),
        "interval": [low, high],
        "standard_error": float(entry["score_error"]),
        "probability_better_than_recommendation": (
            None if key == found.verdict.key else gap.probability
        ),
    }
