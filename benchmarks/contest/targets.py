"""Targets for our models, and whether they are met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from contest.contestants import CONTESTANTS, GROUPS
from contest.data import TASKS
from contest.results import Results, over_seeds, over_splits, score, units_difference, value
from contest.trials import Trial

# (contestant, table, number): ("at least" or "at most", bound)
TARGETS: dict[tuple[str, str, str], tuple[str, float]] = {
    ("quadfeat-4096", "pumadyn32nm", "r2"): ("at least", 0.95),
    ("quadfeat-4096", "bike", "r2"): ("at least", 0.945),
    ("quadfeat-4096", "kin40k", "r2"): ("at least", 0.982),
    ("quadfeat-4096", "protein", "r2"): ("at least", 0.57),
    ("quadfeat-4096", "california", "r2"): ("at least", 0.78),
    ("quadfeat-4096", "house8L", "r2"): ("at least", 0.67),
    ("quadfeat-4096", "powerplant", "r2"): ("at least", 0.952),
    ("quadfeat-4096", "adult", "accuracy"): ("at least", 0.853),
    ("quadfeat-4096", "adult", "log_loss"): ("at most", 0.33),
    ("quadfeat-1024", "covtype", "fit_wall_seconds"): ("at most", 180.0),
    ("local", "kin40k", "r2"): ("at least", 0.99),
    ("local", "protein", "r2"): ("at least", 0.71),
    ("local", "california", "r2"): ("at least", 0.855),
    ("local", "bike", "r2"): ("at least", 0.95),
    ("local", "pumadyn32nm", "r2"): ("at least", 0.95),
    **{
        ("local", table, "fit_seconds"): ("at most", 120.0)
        for table in ("kin40k", "protein", "california", "bike", "pumadyn32nm")
    },
}
NOT_BELOW_BOOSTING = {"quadfeat-4096": ("kin40k", "pumadyn32nm", "protein")}
DEFAULTS = {"quadfeat-1024": "default-1024", "quadfeat-4096": "default-4096"}
MOST_BELOW_DEFAULT = {"regression": 0.005, "classes": 0.003}
COVERED = (0.87, 0.93)
SPLITS = 5
LARGEST_SPREAD = 0.01
SEEDS = 10
LARGEST_CHANGE_BY_UNITS = 0.001


class Verdict(NamedTuple):
    """A target, the number that was measured, and whether the target is met.

    ``met`` is None if the number was not measured; ``measured`` then says what is missing.
    """

    contestant: str
    table: str
    target: str
    measured: str
    met: bool | None


def verdicts(results: Results, tables: Sequence[str]) -> list[Verdict]:
    """Return the verdicts on all targets of some tables."""
    found = [*_bounds(results), *_boosting(results)]
    for contestant in GROUPS["ours"]:
        for table in TASKS:
            found += _of_contestant(results, table, contestant)
    return [verdict for verdict in found if verdict.table in tables]


def _bounds(results: Results) -> Iterator[Verdict]:
    for (contestant, table, name), (sense, bound) in TARGETS.items():
        measured = value(results, Trial(table, contestant), name)
        met = None
        if measured is not None:
            met = measured >= bound if sense == "at least" else measured <= bound
        yield Verdict(contestant, table, f"{name} {sense} {bound:g}", _text(measured), met)


def _boosting(results: Results) -> Iterator[Verdict]:
    label = CONTESTANTS["boosting"].label
    for contestant, tables in NOT_BELOW_BOOSTING.items():
        for table in tables:
            gain = _difference(results, table, contestant, "boosting")
            met = None if gain is None else gain >= 0
            yield Verdict(contestant, table, f"not below {label}", _text(gain, "+.4f"), met)


def _of_contestant(results: Results, table: str, contestant: str) -> Iterator[Verdict]:
    """Yield the verdicts on targets that hold for each of our models on each table."""
    if contestant in DEFAULTS:
        most = MOST_BELOW_DEFAULT[TASKS[table]]
        gain = _difference(results, table, contestant, DEFAULTS[contestant])
        met = None if gain is None else gain >= -most
        target = f"at most {most:g} below the default"
        yield Verdict(contestant, table, target, _text(gain, "+.4f"), met)
    if TASKS[table] == "regression":
        yield _coverage(results, table, contestant)
    else:
        loss = value(results, Trial(table, contestant), "log_loss")
        prior = value(results, Trial(table, contestant), "prior_log_loss")
        met = None if loss is None or prior is None else loss <= prior
        target = "log loss at most that of the prior"
        measured = "not measured" if met is None else f"{loss:.4f}, prior {prior:.4f}"
        yield Verdict(contestant, table, target, measured, met)
    seeds = over_seeds(results, table, contestant)
    target = f"spread over {SEEDS} seeds at most {LARGEST_SPREAD:g}"
    if len(seeds) < SEEDS:
        yield Verdict(contestant, table, target, f"{len(seeds)} of {SEEDS} seeds", None)
    else:
        spread = float(np.ptp(seeds))
        yield Verdict(contestant, table, target, _text(spread), spread <= LARGEST_SPREAD)
    change = units_difference(results, table, contestant)
    met = None if change is None else abs(change) <= LARGEST_CHANGE_BY_UNITS
    target = f"change by units at most {LARGEST_CHANGE_BY_UNITS:g}"
    yield Verdict(contestant, table, target, _text(change, "+.1e"), met)


def _coverage(results: Results, table: str, contestant: str) -> Verdict:
    low, high = COVERED
    target = f"coverage over {SPLITS} splits from {low:g} to {high:g}"
    splits = over_splits(results, table, contestant, "coverage")
    if len(splits) < SPLITS:
        return Verdict(contestant, table, target, f"{len(splits)} of {SPLITS} splits", None)
    mean = float(np.mean(splits))
    return Verdict(contestant, table, target, _text(mean), low <= mean <= high)


def _difference(results: Results, table: str, one: str, other: str) -> float | None:
    scores = score(results, table, one), score(results, table, other)
    return None if scores[0] is None or scores[1] is None else scores[0] - scores[1]


def _text(number: float | None, form: str = ".4f") -> str:
    return "not measured" if number is None else format(number, form)
