"""The command ``quadfeat compare``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import typer
from rich.progress import Progress

from quadfeat.apps.compare import contest, output, report, verdict
from quadfeat.apps.compare.contest import Cell, Problem, Row
from quadfeat.apps.compare.contestants import EXACT, MODEL, OURS
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.journal import FILE, Journal
from quadfeat.apps.compare.numerals import Mark
from quadfeat.apps.compare.scoring import METRICS, Scoring, Task, metrics_of, options
from quadfeat.apps.compare.table import Table, load
from quadfeat.apps.reporting.errors import CommandError, check_names
from quadfeat.apps.reporting.files import check_writable, make_folder, remove_folders, write_all
from quadfeat.apps.reporting.machine import command_line, machine
from quadfeat.apps.reporting.terminal import check_jobs, console, messages, weighted_bar
from quadfeat.apps.reporting.text import encoded, printable
from quadfeat.kernels import Gaussian, Kernel

FEWEST_ROWS = 100  # that --max-rows accepts
STOPPED = 130  # exit code
# Expected time of a cell relative to a feature map, for the progress bar: CPU seconds on a table of
# 2000 rows and 12 columns, rounded.
WEIGHTS = {MODEL: 30.0, EXACT: 6.0}


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
    max_components: Annotated[
        int, typer.Option(metavar="N", help="Largest number of features to try.")
    ] = 2048,
    exact_rows: Annotated[
        int, typer.Option(metavar="N", help="Largest number of rows for exact kernel ridge.")
    ] = 2000,
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

    Compares quadfeat with feature maps of scikit-learn, boosted trees, a linear model and exact
    kernel ridge by cross-validation. Finished fits are saved at once: after Ctrl-C, the same
    command continues.
    """
    _check_at_least("--max-rows", max_rows, FEWEST_ROWS)
    _check_at_least("--max-components", max_components, 2)
    _check_at_least("--exact-rows", exact_rows, 2)
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
            table.columns,
            _scoring(table, chosen_scoring),
            folds=folds,
            exact_rows=exact_rows,
            max_components=max_components,
            seed=seed,
            raw=table.raw,
        )
        created = make_folder(out)
        check_writable(out, [*report.FILES, FILE])
        output.introduce(table, shown)
        run = _Run(problem, n_jobs, Journal(out, problem))
        with weighted_bar(shown) as progress:
            played = run.play(progress)
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
    problems = write_all(out, {"scores.csv": lambda: encoded(played.rows.to_csv(index=False))})
    run.journal.close(remove=not problems)
    found = _find(table, problem, played, problems)
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


@dataclass(frozen=True)
class _Played:
    """The rows of all cells, and the choices made on the way."""

    kernel: Kernel
    gaussian: Gaussian
    rule: str
    rows: pd.DataFrame


class _Run:
    """All cells of a comparison: those that choose a kernel, then a rule, then the models."""

    def __init__(self, problem: Problem, jobs: int, journal: Journal) -> None:
        self.problem, self.jobs, self.journal = problem, jobs, journal
        kernels = contest.candidate_kernels(problem)
        planned = [
            *contest.kernel_cells(problem),
            *contest.rule_cells(problem, kernels[0]),
            *contest.contest_cells(problem, kernels[0], Gaussian(), ""),
        ]
        self.total = len(planned)
        self._weight = sum(map(_weight, planned))

    def play(self, progress: Progress) -> _Played:
        """Run all cells with a progress bar."""
        problem = self.problem
        bar = progress.add_task("", total=self._weight, done=0, items=self.total)

        def collect(what: str, cells: Sequence[Cell]) -> pd.DataFrame:
            progress.update(bar, description=what)
            candidates = dict.fromkeys(_candidate(vars(cell)) for cell in cells)
            _show_line(progress, f"{what}: {len(cells)} fits of {', '.join(candidates)}")
            return self._collect(cells, progress, bar)

        tried = collect("choosing a kernel", contest.kernel_cells(problem))
        if tried["score"].isna().all():
            raise CommandError(f"no kernel could be fitted: {tried['failed'].iloc[0]}")
        best, best_gaussian = verdict.choose_kernel(tried, problem.metric.sign)
        kernel = {repr(one): one for one in contest.candidate_kernels(problem)}[best]
        gaussian = {repr(one): one for one in contest.candidate_gaussians(problem)}[best_gaussian]
        rules = collect("choosing a rule", contest.rule_cells(problem, kernel))
        rule = verdict.choose_rule(rules)
        cells = contest.contest_cells(problem, kernel, gaussian, rule)
        played = collect("comparing models", cells)
        rows = pd.concat([tried, rules, played], ignore_index=True)
        return _Played(kernel, gaussian, rule, rows)

    def _collect(self, cells: Sequence[Cell], progress: Progress, bar: Any) -> pd.DataFrame:
        """Return the rows of cells in the order of the cells, whichever finished first."""
        weights = {contest.name(cell): _weight(cell) for cell in cells}
        rows: dict[tuple[Any, ...], Row] = {}

        def take(row: Row) -> None:
            key = tuple(row[name] for name in contest.NAME)
            rows[key] = row
            done = progress.tasks[bar].fields["done"] + 1
            progress.update(bar, advance=weights[key], done=done)
            measured = "kernel error" if row["stage"] == "rule" else "score"
            result = f"{measured} {row[measured.replace(' ', '_')]:.4g}"
            result = "failed" if row["failed"] else result
            _show_line(
                progress,
                f"  {done}/{self.total} {_candidate(row)}, fold {row['fold'] + 1}: {result}",
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


def _candidate(named: Mapping[str, Any]) -> str:
    """Return what a cell or its row tries, in a few words."""
    tried = {"kernel": named["kernel"], "rule": named["rule"]}.get(named["stage"])
    return str(named["contestant"] if tried is None else tried)


def _show_line(progress: Progress, text: str) -> None:
    """Print a line to standard error if there is no bar, because the output is no terminal."""
    if not progress.console.is_terminal:
        messages.print(text, markup=False, soft_wrap=True)


def _weight(cell: Cell) -> float:
    return WEIGHTS.get(cell.contestant, 1.0)


def _find(table: Table, problem: Problem, played: _Played, problems: Sequence[str]) -> Findings:
    """Return the findings, or raise an error that includes all problems so far."""
    rows = played.rows[played.rows["stage"] == "contest"]
    ours = rows[(rows["contestant"] == OURS) & (rows["failed"] == "")]
    if ours.groupby("D").size().max() != problem.folds:
        reason = f"quadrature features could not be fitted: {rows['failed'].max()}"
        raise CommandError(" ".join([reason, *problems]))
    return Findings.of(table, problem, played.kernel, played.gaussian, played.rule, played.rows)
