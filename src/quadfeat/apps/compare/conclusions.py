"""Say in a few sentences what a comparison found, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from quadfeat.apps.compare.contestants import (
    BOOSTERS,
    EXACT,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    PLURAL,
    class_name,
    in_sentence,
    title,
)
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.fitting import PENALTIES, gammas
from quadfeat.apps.reporting.text import printable

LIKELY, CERTAIN = 0.8, 0.95  # probabilities from which on a model is called better


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
    if key == best:
        why = "It has the best score."
        if EXACT in found.scores and found.difference(EXACT, key).mean > 0:
            why = "Only exact kernel ridge, which is slow for many rows, has a better score."
    else:
        gap = found.difference(best, key)
        why = (
            f"The best score, {found.scored(best)} by {in_sentence(best)}, is not clearly better: "
            f"the difference is {gap.mean:{found.form}} ± {gap.error:{found.form}}."
        )
    return f"{why} This table does not need a kernel." if key == LINEAR else why


def sureness(found: Findings) -> str:
    """Return how sure it is that the recommended model beats its rivals.

    The best rival is not always the one that is most likely to be better: its scores may vary less.
    """
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
        verb = "beat" if rival in PLURAL else "beats"
        return f"Not sure: {in_sentence(rival)} {verb} it with probability {chance}, {paired}."
    closest, least = min(_chances(found).items(), key=lambda chance: chance[1])
    word = "Not sure"
    if least >= LIKELY:
        word = "Almost certain" if least >= CERTAIN else "Likely"
    chance = percent(gap.probability)
    text = f"{word}: it beats {in_sentence(rival)} with probability {chance}, {paired}"
    if percent(least) != chance:
        text += f", and {in_sentence(closest)} with probability {percent(least)}"
    return f"{text}."


def _chances(found: Findings) -> dict[str, float]:
    """Return the probability that the recommended model is better than each of its rivals.

    The two kinds of boosted trees are not compared with each other. If no model beats a constant,
    that is the only rival.
    """
    key, rival = found.verdict.key, found.rival
    others = [] if found.verdict.hopeless else found.entries
    others = [one for one in others if one not in (key, rival, GUESS, EXACT)]
    if key in BOOSTERS:
        others = [one for one in others if one not in BOOSTERS]
    gaps = {one: found.difference(key, one) for one in (rival, *others) if one is not None}
    return {one: gap.probability for one, gap in gaps.items() if one == rival or not gap.same}


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


def ties(found: Findings) -> list[str]:
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
    """Return warnings: no model beats a constant, fits failed, or a choice is at an edge."""
    lines = []
    key = found.verdict.key
    if found.verdict.hopeless:
        constant = "mean" if found.metric.task == "regression" else "class frequencies"
        lines.append(
            f"No model beats a constant prediction, the {constant} of the target, by two standard "
            f"errors: {found.score_name} {found.scored(key)} against {found.scored(GUESS)}. "
            "The columns may be unrelated to the target."
        )
    failed = found.failed
    if len(failed):
        first = failed.iloc[0]
        count = "1 fit" if len(failed) == 1 else f"{len(failed)} fits"
        where = f"{in_sentence(first['contestant'])}, fold {first['fold'] + 1}"
        lines.append(f"{count} failed. The first: {where}: {first['failed']}")
    entry = found.entry(key)
    if key in (LINEAR, *MAPS):
        lines += edge("alpha", title(key), float(entry["alpha"]), PENALTIES)
    if key in MAPS:
        grid = gammas(found.problem.fold(0).X_train.shape[1])
        lines += edge("gamma", title(key), float(entry["gamma"]), grid)
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
    key = found.verdict.key
    regression = found.metric.task == "regression"
    steps = []
    if not found.verdict.hopeless:
        steps.append(
            f"Run the script, model.py, in the folder of {printable(found.source.path.name)}: it "
            f"trains the model{' and saves it' if key == MODEL else ' and prints its score'}."
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
    if key != MODEL and MODEL in found.entries:
        need = "prediction intervals or streaming" if regression else "streaming"
        steps.append(
            f"If you need {need}, use {in_sentence(MODEL)}: {found.score_name} "
            f"{found.scored(MODEL)}, 95% interval {found.bounds(MODEL)}."
        )
    elif regression:
        steps.append("Get an interval for each prediction with model.predict_interval(X).")
    return steps


def comparisons(found: Findings) -> list[str]:
    """Return how the kernel model compares with its rivals, and what it has chosen."""
    lines = []
    ours = MODEL if MODEL in found.entries else found.verdict.key
    if ours == MODEL:
        lines.append(_choices(found))
    rivals = [one for one in (*BOOSTERS, LINEAR, *MAPS, EXACT) if one in found.entries]
    for name in rivals:
        if name == ours:
            continue
        line = _compared(found, ours, name)
        if name == EXACT:
            seen = int(found.entry(EXACT)["train_rows"])
            all_rows = seen >= found.entry(ours)["train_rows"]
            line += f" The latter trained on {'all' if all_rows else 'only'} {seen} rows."
        lines.append(line)
    return lines


def _choices(found: Findings) -> str:
    """Return what the kernel model chose on the folds."""
    chosen = found.leaderboard[found.leaderboard["share"] > 0]
    parts = [f"{row.candidate} ({100 * row.share:.0f}%)" for row in chosen.itertuples()]
    return f"The kernel model chose {' and '.join(parts)}, by held-out rows of its training rows."


def _compared(found: Findings, one: str, other: str) -> str:
    """Return a sentence that compares two models."""
    subject = in_sentence(one)
    verb = "are" if one in PLURAL else "is"
    words = found.difference(one, other).words
    sentence = f"{subject} {verb} {words} {in_sentence(other)} ({found.gap(one, other)})."
    return sentence[0].upper() + sentence[1:]


def summary(found: Findings) -> dict[str, Any]:
    """Return the result for programs."""
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
        "best": found.verdict.best,
        "models": [_entry(found, one) for one in found.entries],
        "leaderboard": _records(found.leaderboard),
        "conclusions": [*points(found).values(), *comparisons(found)],
        "next_steps": next_steps(found),
        "warnings": cautions(found),
        "contestants": _records(found.table),
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, with None for missing numbers."""
    found: list[dict[str, Any]] = (
        table.astype(object).where(table.notna(), None).to_dict(orient="records")
    )
    return found


def _entry(found: Findings, key: str) -> dict[str, Any]:
    low, high = found.interval(key)
    gap = found.difference(key, found.verdict.key)
    entry = found.entry(key)
    return {
        "contestant": key,
        "title": title(key),
        "class": class_name(key, found.metric.task),
        "score": float(entry["score"]),
        "interval": [low, high],
        "standard_error": float(entry["score_error"]),
        "probability_better_than_recommendation": (
            None if key == found.verdict.key else gap.probability
        ),
    }
