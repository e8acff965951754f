"""The command ``quadfeat compare``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import typer

from quadfeat.compare import contest, findings, report, verdict
from quadfeat.compare.contest import Cell, Problem, Row, Scoring
from quadfeat.compare.findings import SCORES, Findings
from quadfeat.compare.table import Table, Task, load
from quadfeat.kernels import Gaussian
from quadfeat.reporting.errors import CommandError, check_names
from quadfeat.reporting.files import write_whole
from quadfeat.reporting.machine import command_line, machine
from quadfeat.reporting.terminal import check_jobs, console, print_table, progress_bar

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
        typer.Option(help="accuracy, balanced-accuracy or r2.  [default: by the task]"),
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
    """Find the kernel, rule and number of features for a table, against the alternatives."""
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
    chosen_scoring = check_names([scoring] if scoring else [], SCORES, "scoring")
    created = False
    try:
        table = load(
            file,
            target,
            task=cast(Task, chosen_task[0]) if chosen_task else None,
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
        created = _make_folder(out)
        _introduce(table)
        found = _run(table, problem, n_jobs)
    except KeyboardInterrupt:
        console.print("\nstopped; nothing was written")
        if created:
            out.rmdir()
        raise SystemExit(130) from None
    about = {"command": command_line(), "seed": seed, **machine(), "jobs": n_jobs}
    _write(found, out, about)
    _print(found, out)


def _scoring(table: Table, chosen: Sequence[str]) -> Scoring:
    if not chosen:
        return "accuracy" if table.task == "classification" else "r2"
    if (chosen[0] == "r2") != (table.task == "regression"):
        right = "r2" if table.task == "regression" else "accuracy or balanced-accuracy"
        raise CommandError(f"--scoring {chosen[0]} is not for {table.task}: give {right}.")
    return cast(Scoring, chosen[0])


def _make_folder(folder: Path) -> bool:
    """Make sure that there is a folder, before time is spent; return whether it is new."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write to {folder}: {error.strerror or error}.") from error
    return new


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False)


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


def _run(table: Table, problem: Problem, jobs: int) -> Findings:
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
        best, best_gaussian = verdict.choose_kernel(tried)
        by_name = {repr(kernel): kernel for kernel in kernels}
        kernel, gaussian = by_name[best], by_name[best_gaussian]
        assert isinstance(gaussian, Gaussian)
        rules = play("rules", contest.rule_cells(problem, kernel))
        rule = verdict.choose_rule(rules)
        played = play("contest", contest.contest_cells(problem, kernel, gaussian, rule))
    rows = pd.concat([tried, rules, played], ignore_index=True)
    ours = played[(played["contestant"] == contest.OURS) & (played["failed"] == "")]
    if ours.groupby("D").size().max() != problem.folds:
        raise CommandError(f"quadfeat could not be tried: {played['failed'].max()}")
    return Findings.of(table, problem, kernel, gaussian, rule, rows)


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


def _write(found: Findings, folder: Path, about: dict[str, Any]) -> None:
    drawn = report.picture(found)
    write_whole(folder / "scores.csv", found.rows.to_csv(index=False).encode())
    for kind in ("png", "svg", "pdf"):
        write_whole(folder / f"scores.{kind}", drawn.render("light", kind))
    write_whole(folder / "model.py", found.snippet(found.verdict.key).encode())
    write_whole(folder / "run.json", json.dumps(about, indent=2).encode())
    write_whole(folder / "report.html", report.build(found, drawn, about).encode())


def _print(found: Findings, folder: Path) -> None:
    print_table("At equal numbers of features D", findings.equal_size_table(found), found.formats)
    ours = found.verdict.ours[1]
    print_table(
        f"In the time of quadfeat with D = {ours}", findings.equal_time_table(found), found.formats
    )
    _say("")
    for line in [*findings.recommendation(found), *findings.comparisons(found)]:
        _say(f"- {line}")
    _say(f"\nTo paste, in the folder of {found.source.path.name}:\n")
    console.print(found.snippet(found.verdict.key), markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {folder / 'report.html'}", markup=False, soft_wrap=True)
