"""Tables for the terminal and the documentation, and a summary: who wins, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from contest.contestants import CONTESTANTS, GROUPS
from contest.data import TASKS
from contest.results import Results, main_score, over_seeds, over_splits, score, units_difference
from contest.targets import verdicts
from contest.trials import Result, Trial
from tables import Table

OURS = "quadfeat-4096"  # the contestant that the summary compares with the others
COMPARED = ("boosting", "lightgbm", "default-4096")
WIDTH = 26  # width of the column of contestants in the terminal

DETAILS = {
    "r2": ("R2", ".4f"),
    "rmse": ("RMSE", ".4g"),
    "nll": ("NLL", ".3f"),
    "coverage": ("coverage", ".3f"),
    "width": ("width", ".3f"),
    "accuracy": ("accuracy", ".4f"),
    "log_loss": ("log loss", ".4f"),
    "auc": ("AUC", ".4f"),
    "fit_seconds": ("fit, CPU s", ".1f"),
    "predict_seconds": ("predict, CPU s", ".2f"),
    "megabytes": ("MB", ".0f"),
}


def report(results: Results, tables: Sequence[str]) -> list[Table]:
    """Print all tables that have rows and the summary, and return these tables."""
    regression = [table for table in tables if TASKS[table] == "regression"]
    classes = [table for table in tables if TASKS[table] == "classes"]
    seconds, memory = "CPU seconds of fit, all threads", "Peak memory in MB, with the data"
    titled = [
        (_grid("regression", results, regression, "r2"), "R2"),
        (_grid("classes", results, classes, "accuracy"), "Accuracy"),
        (_log_loss(results, classes), "Log loss"),
        (_grid("seconds", results, tables, "fit_seconds", ".1f"), seconds),
        (_grid("memory", results, tables, "megabytes", ".0f"), memory),
        (
            _intervals(results, regression),
            "Predictive distributions: negative log likelihood of a row, coverage and mean width\n"
            "of 90% intervals; unit: standard deviation of the training targets; split 0, and\n"
            "the mean over splits",
        ),
        (_seeds(results, tables), "Scores over seeds"),
        (_units(results, tables), "Score in other units minus score in the units of the file"),
        (_differences(results, tables), "Who wins, and our score minus that of others"),
        (_targets(results, tables), "Targets"),
    ]
    for table, title in titled:
        if table.rows:
            table.show(title)
    for line in summary(results, tables):
        print(line)
    details = _details(results, tables)
    return [table for table, _ in [*titled, (details, "")] if table.rows]


def summary(results: Results, tables: Sequence[str]) -> list[str]:
    """Return sentences: the tables that we win and lose, and how many targets are met."""
    lines = [""]
    rivals: dict[str, Callable[[str], float | None]] = {
        CONTESTANTS[name].label: partial(_score_of, results, name) for name in COMPARED
    }
    rivals["the best of the others"] = lambda table: _best(results, table, others=True)[1]
    for label, rival in rivals.items():
        won: list[str] = []
        lost: list[str] = []
        for table in tables:
            ours, other = score(results, table, OURS), rival(table)
            if ours is not None and other is not None:
                (won if ours >= other else lost).append(f"{table} {ours - other:+.4f}")
        if won or lost:
            lines.append(f"{CONTESTANTS[OURS].label} against {label}:")
            lines.append(f"  at or above on {len(won)}: {', '.join(won) or 'none'}")
            lines.append(f"  below on {len(lost)}: {', '.join(lost) or 'none'}")
    found = verdicts(results, tables)
    counts = [sum(verdict.met is met for verdict in found) for met in (True, False, None)]
    lines.append("Targets: {} met, {} missed, {} not measured.".format(*counts))
    for contestant, table, target, measured, met in found:
        if met is False:
            label = CONTESTANTS[contestant].label
            lines.append(f"  missed by {label} on {table}: {target}: {measured}")
    return lines


def _score_of(results: Results, contestant: str, table: str) -> float | None:
    return score(results, table, contestant)


def _grid(
    name: str, results: Results, tables: Sequence[str], number: str, form: str = ".4f"
) -> Table:
    """Return a table of a number with a row for each contestant and a column for each table."""
    made = Table(f"accuracy-{name}", ["", *tables], first_width=WIDTH)
    for contestant in CONTESTANTS:
        cells = [_cell(results.get(Trial(table, contestant), {}), number, form) for table in tables]
        if any(cells):
            made.keep(CONTESTANTS[contestant].label, *cells)
    return made


def _log_loss(results: Results, tables: Sequence[str]) -> Table:
    """Return the log losses, and that of the class prior for comparison."""
    made = _grid("log-loss", results, tables, "log_loss")
    if made.rows:
        measured: dict[str, Result] = {trial.table: result for trial, result in results.items()}
        cells = [_cell(measured.get(table, {}), "prior_log_loss", ".4f") for table in tables]
        made.keep("prior", *cells)
    return made


def _details(results: Results, tables: Sequence[str]) -> Table:
    """Return all numbers of all trials on the usual splits with seed 0."""
    heads = [head for head, _ in DETAILS.values()]
    made = Table("accuracy-details", ["table", "contestant", *heads])
    for table in tables:
        for name, contestant in CONTESTANTS.items():
            result = results.get(Trial(table, name))
            if result is not None:
                cells = [_cell(result, number, form) for number, (_, form) in DETAILS.items()]
                made.keep(table, contestant.label, *cells)
    return made


def _intervals(results: Results, tables: Sequence[str]) -> Table:
    """Return likelihood, coverage and width of those that have predictive distributions."""
    heads = [
        "table",
        "contestant",
        "NLL",
        "coverage",
        "width",
        "splits",
        "coverage, all",
        "width, all",
    ]
    made = Table("accuracy-intervals", heads, first_width=12)
    for table in tables:
        for name, contestant in CONTESTANTS.items():
            result = results.get(Trial(table, name), {})
            cells = [_cell(result, number, ".3f") for number in ("nll", "coverage", "width")]
            if not any(cells):
                continue
            covered = over_splits(results, table, name, "coverage")
            widths = over_splits(results, table, name, "width")
            means = [f"{np.mean(numbers):.3f}" if numbers else "" for numbers in (covered, widths)]
            made.keep(table, contestant.label, *cells, str(len(covered) or ""), *means)
    return made


def _seeds(results: Results, tables: Sequence[str]) -> Table:
    """Return mean, standard deviation and range of the scores over seeds."""
    heads = ["table", "contestant", "seeds", "mean", "std", "lowest", "highest", "spread"]
    made = Table("accuracy-seeds", heads, first_width=12)
    for table in tables:
        for name, contestant in CONTESTANTS.items():
            scores = over_seeds(results, table, name)
            if len(scores) > 1:
                numbers = [np.mean(scores), np.std(scores, ddof=1), min(scores), max(scores)]
                cells = [f"{number:.4f}" for number in [*numbers, np.ptp(scores)]]
                made.keep(table, contestant.label, str(len(scores)), *cells)
    return made


def _units(results: Results, tables: Sequence[str]) -> Table:
    """Return how far a change of units changes the score."""
    made = Table("accuracy-units", ["", *tables], first_width=WIDTH)
    for name, contestant in CONTESTANTS.items():
        changes = [units_difference(results, table, name) for table in tables]
        if any(change is not None for change in changes):
            cells = ["" if change is None else f"{change:+.1e}" for change in changes]
            made.keep(contestant.label, *cells)
    return made


def _differences(results: Results, tables: Sequence[str]) -> Table:
    """Return the winner of each table, our score, and its difference to that of others."""
    heads = ["table", "score", "winner", "best", CONTESTANTS[OURS].label]
    heads += [f"minus {CONTESTANTS[name].label}" for name in COMPARED]
    made = Table("accuracy-differences", heads, first_width=12)
    for table in tables:
        winner, best = _best(results, table)
        if winner is None:
            continue
        ours = score(results, table, OURS)
        cells = []
        for name in COMPARED:
            other = score(results, table, name)
            cells.append("" if ours is None or other is None else f"{ours - other:+.4f}")
        made.keep(
            table,
            "R2" if main_score(table) == "r2" else "accuracy",
            CONTESTANTS[winner].label,
            f"{best:.4f}",
            "" if ours is None else f"{ours:.4f}",
            *cells,
        )
    return made


def _best(
    results: Results, table: str, others: bool = False
) -> tuple[str, float] | tuple[None, None]:
    """Return the contestant with the best score on a table, and the score."""
    found = [
        (measured, name)
        for name in CONTESTANTS
        if not (others and name in GROUPS["ours"])
        and (measured := score(results, table, name)) is not None
    ]
    if not found:
        return None, None
    best, winner = max(found)
    return winner, best


def _targets(results: Results, tables: Sequence[str]) -> Table:
    """Return each target with a measured number, the number, and whether the target is met."""
    made = Table("accuracy-targets", ["contestant", "table", "target", "measured", "met"], 14)
    for verdict in verdicts(results, tables):
        if verdict.met is not None:
            contestant, met = CONTESTANTS[verdict.contestant].label, "yes" if verdict.met else "no"
            made.keep(contestant, verdict.table, verdict.target, verdict.measured, met)
    return made


def _cell(result: Result, number: str, form: str) -> str:
    return format(result[number], form) if number in result else ""
