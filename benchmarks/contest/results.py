"""Queries on the results of trials, for the report and the targets."""

from __future__ import annotations

from collections.abc import Mapping

from contest.data import TASKS
from contest.trials import Result, Trial

Results = Mapping[Trial, Result]


def main_score(table: str) -> str:
    """Return the name of the score by which contestants of a table are ranked."""
    return "r2" if TASKS[table] == "regression" else "accuracy"


def value(results: Results, trial: Trial, name: str) -> float | None:
    """Return a number of a trial, or None if it was not measured."""
    found = results.get(trial, {}).get(name)
    return None if found is None else float(found)


def score(results: Results, table: str, contestant: str) -> float | None:
    """Return the score of a contestant on the usual split with seed 0."""
    return value(results, Trial(table, contestant), main_score(table))


def over_seeds(results: Results, table: str, contestant: str) -> list[float]:
    """Return the scores on the usual split of all seeds that were tried."""
    name = main_score(table)
    return [
        float(result[name])
        for trial, result in results.items()
        if trial == Trial(table, contestant, seed=trial.seed) and name in result
    ]


def over_splits(results: Results, table: str, contestant: str, name: str) -> list[float]:
    """Return a number of all splits that were tried with seed 0, if they have it."""
    return [
        float(result[name])
        for trial, result in results.items()
        if trial == Trial(table, contestant, split=trial.split) and name in result
    ]


def units_difference(results: Results, table: str, contestant: str) -> float | None:
    """Return the score in other units minus that in the units of the file."""
    name = main_score(table)
    other = value(results, Trial(table, contestant, units=True), name)
    usual = value(results, Trial(table, contestant), name)
    return None if other is None or usual is None else other - usual
