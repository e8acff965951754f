"""The command ``quadfeat compare``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import typer
from rich.progress import Progress

from quadfeat import KernelRegressor
from quadfeat.apps.compare import contest, output, report
from quadfeat.apps.compare.contest import Cell, Problem, Row
from quadfeat.apps.compare.contestants import EXACT, GUESS, MODEL, NYSTROEM, RBF_SAMPLER
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.fitting import MODEL_SETTINGS
from quadfeat.apps.compare.journal import FILE, Journal
from quadfeat.apps.compare.numerals import Mark
from quadfeat.apps.compare.scoring import METRICS, Scoring, Task, metrics_of, options
from quadfeat.apps.compare.table import Table, load
from quadfeat.apps.reporting.errors import CommandError, check_names
from quadfeat.apps.reporting.files import check_writable, make_folder, remove_folders, write_all
from quadfeat.apps.reporting.machine import command_line, machine
from quadfeat.apps.reporting.terminal import check_jobs, console, messages, weighted_bar
from quadfeat.apps.reporting.text import encoded, printable

FEWEST_ROWS = 100  # that --max-rows accepts
STOPPED = 130  # exit code
# Expected time of a cell relative to boosted trees, for the progress bar: CPU seconds on the table
# of docs/cli.md, rounded.
WEIGHTS = {MODEL: 150.0, NYSTROEM: 20.0, EXACT: 15.0, RBF_SAMPLER: 6.0}


EPILOG = """\b
Examples:
  quadfeat compare people.csv --target income
  quadfeat compare sales.parquet --target amount --scoring rmse
  quadfeat compare people.csv --target income --json > result.json

\b
Exit codes:
  0    finished
  1    unexpected error
  2    wrong option or table, or a file cannot be written
  130  stopped by Ctrl-C; the same command continues
"""


def compare(
    file: Annotated[
        Path,
        typer.Argument(metavar="TABLE", help="A CSV or Parquet file, or NPZ with arrays X and y."),
    ],
    target: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column to predict.  [default: y, for NPZ only]"),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK", help="classification or regression.  [default: detected from target]"
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            metavar="SCORE",
            help="Score that ranks the models: accuracy, balanced-accuracy, auc or log-loss for "
            "classification; r2 or rmse for regression.  [default: accuracy or r2]",
        ),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="Separator of a text file.  [default: detected]"),
    ] = None,
    decimal: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="Decimal mark of a text file.  [default: detected]"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the report.")] = Path(
        "compare"
    ),
    max_rows: Annotated[
        int, typer.Option(metavar="N", help="Use a random sample if the table has more rows.")
    ] = 20_000,
    components: Annotated[
        int, typer.Option(metavar="N", help="Number of features of RBFSampler and Nystroem.")
    ] = 2048,
    exact_rows: Annotated[
        int, typer.Option(metavar="N", help="Largest number of rows for exact kernel ridge.")
    ] = 2000,
    time_limit: Annotated[
        int,
        typer.Option(metavar="SECONDS", help="Limit for a fit of the kernel model; 0 for none."),
    ] = 60,
    folds: Annotated[int, typer.Option(metavar="N", help="Number of cross-validation folds.")] = 5,
    jobs: Annotated[
        int, typer.Option(metavar="N", help="Number of processes; -1 for all processors.")
    ] = -1,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random numbers.")] = 0,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON to stdout, and messages to stderr."),
    ] = False,
) -> None:
    """Find the best model for a table.

    Compares the kernel model of quadfeat with boosted trees, a linear model, feature maps of
    scikit-learn and exact kernel ridge by cross-validation. Text, categories, dates and missing
    values need no preparation. Finished fits are saved at once: after Ctrl-C, the same command
    continues.
    """
    _check_at_least("--max-rows", max_rows, FEWEST_ROWS)
    _check_at_least("--components", components, 2)
    _check_at_least("--exact-rows", exact_rows, 2)
    _check_at_least("--time-limit", time_limit, 0)
    _check_at_least("--folds", folds, 2)
    _check_at_least("--seed", seed, 0)
    n_jobs = check_jobs(jobs)
    chosen_task = check_names([task] if task else [], ["classification", "regression"], "task")
    chosen_scoring = check_names([scoring] if scoring else [], METRICS, "scoring")
    separator = "\t" if separator == r"\t" else separator
    if separator is not None and len(separator) != 1:
        raise CommandError(f"--separator {separator!r} is not valid. Use one character.")
    if decimal not in (None, ".", ","):
        raise CommandError(f"--decimal {decimal!r} is not valid. Use . or ,")
    shown = messages if as_json else console
    created: list[Path] = []
    run: _Run | None = None
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
            _scoring(table, chosen_scoring),
            folds=folds,
            exact_rows=exact_rows,
            components=components,
            seed=seed,
            settings=_settings(time_limit),
        )
        created = make_folder(out)
        check_writable(out, [*report.FILES, FILE])
        output.introduce(table, shown)
        run = _Run(problem, n_jobs, Journal(out, problem))
        with weighted_bar(shown) as progress:
            rows = run.play(progress)
    except KeyboardInterrupt:
        _stop(run, out, created)
        raise SystemExit(STOPPED) from None
    except CommandError:  # the same command would fail again
        _clean_up(run, created, keep=False)
        raise
    except BaseException:
        _clean_up(run, created, keep=True)
        raise
    # Write the scores first: they took most of the time, and nothing that follows can lose them.
    scores = rows.drop(columns="leaderboard")
    problems = write_all(out, {"scores.csv": lambda: encoded(scores.to_csv(index=False))})
    run.journal.close(remove=not problems)
    found = _find(table, problem, rows, problems)
    about = {"command": command_line(), "seed": seed, **machine(), "jobs": n_jobs}
    with shown.status("Writing the report"):
        problems += write_all(out, report.files(found, about))
    if as_json:
        print(json.dumps(report.result(found, about, out), indent=2))
    else:
        output.show(found, out, shown)
    if problems:
        raise CommandError(" ".join(problems))


def _check_at_least(option: str, value: int, least: int) -> None:
    if value < least:
        raise CommandError(f"{option} {value} is not valid. Pass at least {least}.")


def _settings(time_limit: int) -> dict[str, Any]:
    """Return the arguments of the kernel model, without those that are defaults."""
    default = KernelRegressor().time_limit
    limit = {} if time_limit == default else {"time_limit": time_limit or None}
    return {**MODEL_SETTINGS, **limit}


def _scoring(table: Table, chosen: Sequence[str]) -> Scoring:
    metrics = metrics_of(table.task)
    if not chosen:
        return metrics[0].option
    if METRICS[chosen[0]] not in metrics:
        raise CommandError(
            f"--scoring {chosen[0]} is not for {table.task}. Choose {options(metrics)}."
        )
    return METRICS[chosen[0]].option


def _stop(run: _Run | None, out: Path, created: Sequence[Path]) -> None:
    """Keep finished fits, and print how to continue."""
    _clean_up(run, created, keep=True)
    kept = 0 if run is None else len(run.journal)
    if run is None or not kept:
        messages.print("\nStopped. No fit was finished, and nothing was written.", markup=False)
        return
    messages.print(
        f"\nStopped. {kept} of {run.total} fits are saved in {printable(str(out))}. Run the same "
        "command to continue.",
        markup=False,
        soft_wrap=True,
    )


def _clean_up(run: _Run | None, created: Sequence[Path], *, keep: bool) -> None:
    """Close the journal, keep it if it has rows, and remove new folders that are empty."""
    if run is not None:
        run.journal.close(remove=not keep or not len(run.journal))
    remove_folders(created)


class _Run:
    """All cells of a comparison."""

    def __init__(self, problem: Problem, jobs: int, journal: Journal) -> None:
        self.problem, self.jobs, self.journal = problem, jobs, journal
        self.cells = contest.cells_of(problem)
        self.total = len(self.cells)

    def play(self, progress: Progress) -> pd.DataFrame:
        """Run all cells with a progress bar; return their rows."""
        names = list(dict.fromkeys(cell.contestant for cell in self.cells))
        weight = sum(map(_weight, self.cells))
        text = "comparing models"
        bar = progress.add_task(text, total=weight, done=0, items=self.total)
        _show_line(progress, f"{text}: {self.total} fits of {', '.join(names)}")
        return self._collect(self.cells, progress, bar)

    def _collect(self, cells: Sequence[Cell], progress: Progress, bar: Any) -> pd.DataFrame:
        """Return the rows of cells in the order of the cells, whichever finished first."""
        weights = {contest.name(cell): _weight(cell) for cell in cells}
        rows: dict[tuple[Any, ...], Row] = {}

        def take(row: Row) -> None:
            key = tuple(row[name] for name in contest.NAME)
            rows[key] = row
            done = progress.tasks[bar].fields["done"] + 1
            progress.update(bar, advance=weights[key], done=done)
            result = "failed" if row["failed"] else f"score {row['score']:.4g}"
            _show_line(
                progress,
                f"  {done}/{self.total} {row['contestant']}, fold {row['fold'] + 1}: {result}",
            )

        for cell in cells:
            kept = self.journal.get(cell)
            if kept is not None:
                take(kept)
        missing = [cell for cell in cells if contest.name(cell) not in rows]
        with closing(contest.run(self.problem, missing, self.jobs)) as running:
            for row in running:
                self.journal.add(row)
                take(row)
        return pd.DataFrame([rows[contest.name(cell)] for cell in cells])


def _show_line(progress: Progress, text: str) -> None:
    """Print a line to standard error if there is no bar, because the output is no terminal."""
    if not progress.console.is_terminal:
        messages.print(text, markup=False, soft_wrap=True)


def _weight(cell: Cell) -> float:
    return WEIGHTS.get(cell.contestant, 1.0)


def _find(table: Table, problem: Problem, rows: pd.DataFrame, problems: Sequence[str]) -> Findings:
    """Return the findings, or raise an error that includes all problems so far."""
    models = rows[~rows["contestant"].isin([GUESS, EXACT])]
    scored = models[models["score"].notna()].groupby("contestant").size()
    if scored.max() != problem.folds:
        reason = f"no model could be fitted on all folds: {models['failed'].max()}"
        raise CommandError(" ".join([reason, *problems]))
    return Findings.of(table, problem, rows)
