"""The command ``quadfeat compare``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import typer

from quadfeat.apps.compare import contest, findings, report, verdict
from quadfeat.apps.compare.contest import Cell, Problem, Row
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.numerals import Mark
from quadfeat.apps.compare.scoring import METRICS, Scoring, Task, metrics_of, options
from quadfeat.apps.compare.table import Table, load
from quadfeat.apps.reporting.errors import CommandError, check_names
from quadfeat.apps.reporting.files import check_writable, make_folder, remove_folders, write_all
from quadfeat.apps.reporting.machine import command_line, machine
from quadfeat.apps.reporting.terminal import check_jobs, console, print_table, progress_bar
from quadfeat.apps.reporting.text import encoded, printable
from quadfeat.kernels import Gaussian, Kernel

FEWEST_ROWS = 100  # to subsample to
MOST_LISTED = 12  # columns that the terminal names


def compare(
    file: Annotated[Path, typer.Argument(help="A table: CSV, Parquet, or NPZ with X and y.")],
    target: Annotated[
        str | None, typer.Option(help="Column to predict.  [default: y, for NPZ]")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression.  [default: by the target]")
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="Score that ranks models: accuracy, balanced-accuracy, auc or log-loss for "
            "classes, r2 or rmse for numbers.  [default: accuracy or r2]"
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(help="Between columns of a text file.  [default: by its first lines]"),
    ] = None,
    decimal: Annotated[
        str | None,
        typer.Option(help="Decimal mark of a text file, . or ,  [default: by its numbers]"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("compare"),
    max_rows: Annotated[int, typer.Option(help="Of more rows, draw so many.")] = 20_000,
    max_components: Annotated[int, typer.Option(help="Most features to try.")] = 2048,
    exact_rows: Annotated[
        int, typer.Option(help="Rows that the exact kernel machine trains on.")
    ] = 2000,
    folds: Annotated[int, typer.Option(help="Parts for cross-validation.")] = 5,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all processors.")] = -1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> None:
    """Find the best model for a table: kernels, our model with no settings, boosted trees."""
    for option, value, least in (
        ("--max-rows", max_rows, FEWEST_ROWS),
        ("--max-components", max_components, 2),
        ("--exact-rows", exact_rows, 2),
        ("--folds", folds, 2),
        ("--seed", seed, 0),
    ):
        if value < least:
            raise CommandError(f"{option} {value} is not valid: give at least {least}.")
    n_jobs = check_jobs(jobs)
    chosen_task = check_names([task] if task else [], ["classification", "regression"], "task")
    chosen_scoring = check_names([scoring] if scoring else [], METRICS, "scoring")
    separator = "\t" if separator == r"\t" else separator
    if separator is not None and len(separator) != 1:
        raise CommandError(f"--separator {separator!r} is not valid: give one character.")
    if decimal not in (None, ".", ","):
        raise CommandError(f"--decimal {decimal!r} is not valid: give . or ,")
    created: list[Path] = []
    try:
        table = load(
            file,
            target,
            task=cast(Task, chosen_task[0]) if chosen_task else None,
            separator=separator,
            decimal=cast(Mark | None, decimal),
            max_rows=max_rows,
            folds=folds,
            seed=seed,
        )
        problem = Problem(
            table.rows,
            table.y,
            table.columns,
            _scoring(table, chosen_scoring),
            folds=folds,
            exact_rows=exact_rows,
            max_components=max_components,
            seed=seed,
        )
        created = make_folder(out)
        check_writable(out, report.FILES)
        _introduce(table)
        played = _run(problem, n_jobs)
    except KeyboardInterrupt:
        console.print("\nstopped; nothing was written")
        remove_folders(created)
        raise SystemExit(130) from None
    except BaseException:
        remove_folders(created)
        raise
    # Scores come first: they took the time, and nothing that follows can lose them.
    problems = write_all(out, {"scores.csv": lambda: encoded(played.rows.to_csv(index=False))})
    found = _find(table, problem, played, problems)
    about = {"command": command_line(), "seed": seed, **machine(), "jobs": n_jobs}
    problems += write_all(out, report.files(found, about))
    _print(found)
    if problems:
        raise CommandError(" ".join(problems))
    console.print(f"report: {printable(str(out / 'report.html'))}", markup=False, soft_wrap=True)


def _scoring(table: Table, chosen: Sequence[str]) -> Scoring:
    metrics = metrics_of(table.task)
    if not chosen:
        return metrics[0].option
    if METRICS[chosen[0]] not in metrics:
        raise CommandError(
            f"--scoring {chosen[0]} is not for {table.task}: give {options(metrics)}."
        )
    return METRICS[chosen[0]].option


def _say(line: str = "") -> None:
    console.print(printable(line), markup=False, highlight=False)


def _introduce(table: Table) -> None:
    """Say what the table was taken for, before anything runs."""
    kinds = {kind: [c for c in table.columns if c.kind == kind] for kind in ("number", "date")}
    kinds["words"] = [column for column in table.columns if column.kind == "words"]
    counts = [f"{len(found)} of {kind}s" for kind, found in kinds.items() if found]
    text = ", ".join(counts).replace("wordss", "words")
    _say(f"{table.path.name}: {len(table.y)} rows; columns: {text}; {table.task} of {table.target}")
    for remark in table.remarks:
        _say(f"  {remark}")
    dropped = [column for column in table.columns if column.kind == "dropped"]
    for column in dropped[:MOST_LISTED]:
        _say(f"  Column {column.name!r} is left out: {column.treatment}.")
    if len(dropped) > MOST_LISTED:
        more = len(dropped) - MOST_LISTED
        _say(f"  {more} more columns are left out: the report lists them.")


@dataclass(frozen=True)
class _Played:
    """The rows of all cells, and what was chosen on the way."""

    kernel: Kernel
    gaussian: Gaussian
    rule: str
    rows: pd.DataFrame


def _run(problem: Problem, jobs: int) -> _Played:
    """Choose a kernel, then a rule, then hold the contest."""
    kernels = contest.candidate_kernels(problem)
    choosing = contest.kernel_cells(problem)
    ruling = contest.rule_cells(problem, kernels[0])
    total = len(choosing) + len(ruling)
    total += len(contest.contest_cells(problem, kernels[0], Gaussian(), ""))
    with progress_bar() as progress:
        bar = progress.add_task("kernels", total=total)

        def play(what: str, cells: Sequence[Cell]) -> pd.DataFrame:
            progress.update(bar, description=what)
            return _collect(problem, cells, jobs, lambda: progress.advance(bar))

        tried = play("kernels", choosing)
        if tried["score"].isna().all():
            raise CommandError(f"no kernel could be tried: {tried['failed'].iloc[0]}")
        best, best_gaussian = verdict.choose_kernel(tried, problem.metric.sign)
        kernel = {repr(one): one for one in kernels}[best]
        gaussian = {repr(one): one for one in contest.candidate_gaussians(problem)}[best_gaussian]
        rules = play("rules", contest.rule_cells(problem, kernel))
        rule = verdict.choose_rule(rules)
        played = play("contest", contest.contest_cells(problem, kernel, gaussian, rule))
    rows = pd.concat([tried, rules, played], ignore_index=True)
    return _Played(kernel, gaussian, rule, rows)


def _find(table: Table, problem: Problem, played: _Played, problems: Sequence[str]) -> Findings:
    """Return the findings, or raise an error that tells all problems so far."""
    rows = played.rows[played.rows["stage"] == "contest"]
    ours = rows[(rows["contestant"] == contest.OURS) & (rows["failed"] == "")]
    if ours.groupby("D").size().max() != problem.folds:
        reason = f"quadfeat could not be tried: {rows['failed'].max()}"
        raise CommandError(" ".join([reason, *problems]))
    return Findings.of(table, problem, played.kernel, played.gaussian, played.rule, played.rows)


def _collect(
    problem: Problem, cells: Sequence[Cell], jobs: int, advance: Callable[[], Any]
) -> pd.DataFrame:
    """Return the rows of cells in an order that does not depend on which finished first."""
    rows: list[Row] = []
    with closing(contest.run(problem, cells, jobs)) as running:
        for row in running:
            rows.append(row)
            advance()
    order = {contest.name(cell): k for k, cell in enumerate(cells)}
    rows.sort(key=lambda row: order[tuple(row[name] for name in contest.NAME)])
    return pd.DataFrame(rows)


def _print(found: Findings) -> None:
    print_table("At equal numbers of features D", findings.equal_size_table(found), found.formats)
    ours = found.verdict.ours[1]
    print_table(
        f"In the time of quadfeat with D = {ours}", findings.equal_time_table(found), found.formats
    )
    _say()
    for line in findings.cautions(found):
        _say(f"warning: {line}")
    for line in [*findings.recommendation(found), *findings.comparisons(found)]:
        _say(f"- {line}")
    _say()
    _say(f"To paste, in the folder of {found.source.path.name}:")
    _say()
    console.print(found.snippet(found.verdict.key), markup=False, highlight=False, soft_wrap=True)
