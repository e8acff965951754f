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
    ("local", "house8L", "r2"): ("at least", 0.67),
    ("local", "covtype", "accuracy"): ("at least", 0.95),
    ("local", "covtype", "fit_wall_seconds"): ("at most", 600.0),
    **{
        ("local", table, "fit_seconds"): ("at most", 120.0)
        for table in ("kin40k", "protein", "california", "bike", "pumadyn32nm")
    },
}
TARGETS |= {
    ("front-door", table, "r2"): ("at least", bound)
    for table, bound in {
        "kin40k": 0.99,
        "protein": 0.71,
        "california": 0.855,
        "bike": 0.95,
        "pumadyn32nm": 0.95,
        "house8L": 0.67,
        "powerplant": 0.96,
    }.items()
}
TARGETS |= {
    ("front-door", table, "accuracy"): ("at least", bound)
    for table, bound in {"covtype": 0.95, "letter": 0.975, "adult": 0.855, "mnist": 0.98}.items()
}
TARGETS["front-door", "adult", "log_loss"] = ("at most", 0.32)
TARGETS |= {
    ("front-door", table, "fit_seconds"): ("at most", 120.0 if task == "regression" else 600.0)
    for table, task in TASKS.items()
}
# The front door is compared with the models it chooses from, and with LightGBM on all regression
# tables together.
FRONT_DOOR = "front-door"
CHOICES = ("local", "quadfeat-1024", "quadfeat-4096")
MOST_BELOW_CHOICES = 0.005
REGRESSION = "regression tables"
MOST_LOST_TO_LIGHTGBM = 1
# The validated loss may be smaller than the loss on test rows by this many standard errors of their
# difference, on average over tables.
MOST_OPTIMISM = 2.0
ALL = "all tables"
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
    found = [*_bounds(results), *_boosting(results), *_front_door(results)]
    for contestant in GROUPS["ours"]:
        for table in TASKS:
            found += _of_contestant(results, table, contestant)
    return [verdict for verdict in found if verdict.table in (*tables, REGRESSION, ALL)]


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


def _front_door(results: Results) -> Iterator[Verdict]:
    """Yield the verdicts on what the front door promises about its choice."""
    for table in TASKS:
        gains = [_difference(results, table, FRONT_DOOR, one) for one in CHOICES]
        least = min((gain for gain in gains if gain is not None), default=None)
        met = None if least is None else least >= -MOST_BELOW_CHOICES
        target = f"at most {MOST_BELOW_CHOICES:g} below the best of its candidates"
        yield Verdict(FRONT_DOOR, table, target, _text(least, "+.4f"), met)
    tables = [table for table in TASKS if TASKS[table] == "regression"]
    known = [_difference(results, table, FRONT_DOOR, "lightgbm") for table in tables]
    found = [gain for gain in known if gain is not None]
    n_wins, least_wins = sum(gain >= 0 for gain in found), len(tables) - MOST_LOST_TO_LIGHTGBM
    is_known = len(found) == len(tables)
    measured = f"{n_wins} of {len(found)}" if is_known else f"{len(found)} of {len(tables)} tables"
    target = f"at or above LightGBM on at least {least_wins}"
    met = n_wins >= least_wins if is_known else None
    yield Verdict(FRONT_DOOR, REGRESSION, target, measured, met)
    scores = [one for table in TASKS if (one := optimism(results, table)) is not None]
    mean = float(np.mean(scores)) if scores else None
    target = f"validated loss at most {MOST_OPTIMISM:g} standard errors below the test loss"
    met = None if mean is None else mean <= MOST_OPTIMISM
    yield Verdict(FRONT_DOOR, ALL, target, _text(mean, "+.2f"), met)


def optimism(results: Results, table: str) -> float | None:
    """Return the test loss minus the validated loss of the front door, in standard errors.

    The standard error is that of the validated loss and of as many rows as the test rows.
    """
    result = results.get(Trial(table, FRONT_DOOR), {})
    validated = result.get("validated")
    if validated is None or not np.isfinite(validated["standard_error"]):
        return None
    loss = 1.0 - result["r2"] if TASKS[table] == "regression" else result["log_loss"]
    ratio = validated["n_rows"] / result["n_test"]
    error = validated["standard_error"] * np.sqrt(1.0 + ratio)
    return float((loss - validated["loss"]) / error)


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
