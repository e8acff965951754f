"""The commands ``quadfeat study`` and ``quadfeat data``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.progress import Progress

from quadfeat.apps.reporting.errors import check_names
from quadfeat.apps.reporting.machine import command_line
from quadfeat.apps.reporting.terminal import (
    DownloadBar,
    check_jobs,
    console,
    messages,
    print_table,
    weighted_bar,
)
from quadfeat.apps.study import data, digest, fetch, report, runner, summary
from quadfeat.apps.study.errors import StudyError
from quadfeat.apps.study.experiments import EXPERIMENTS, FULL, QUICK, Cell
from quadfeat.apps.study.findings import Findings, title
from quadfeat.apps.study.methods import ALIASES, AUTO, KERNELS, METHODS, PAPER_RULE
from quadfeat.apps.study.plan import default_datasets, expected_seconds, plan

FAILED, STOPPED = 1, 130  # exit codes
MOST_LISTED = 7  # methods in the summary, which fits a terminal of 24 lines

EPILOG = """\b
Examples:
  quadfeat study                            all experiments, three minutes
  quadfeat study kernel-error --full        narrow intervals, an hour or two
  quadfeat study --methods auto,paper,rff   three methods only
  quadfeat study --json > findings.json     results for programs

\b
Exit codes:
  0    finished
  1    finished, but some measurements failed
  2    wrong option, file or dataset
  130  stopped by Ctrl-C
"""
LIST_EPILOG = """\b
Examples:
  quadfeat data list
  quadfeat data list --data-dir datasets --json

\b
Exit codes:
  0    finished
  2    wrong option or folder
"""
FETCH_EPILOG = """\b
Examples:
  quadfeat data fetch letter
  quadfeat data fetch all

\b
Exit codes:
  0    finished
  2    unknown dataset, no network, or no space
  130  stopped by Ctrl-C
"""

data_app = typer.Typer(
    no_args_is_help=True,
    help="List and download the datasets of the study.",
    rich_markup_mode=None,
)


def _names(known: str, default: str = "all") -> Any:
    return typer.Option(
        metavar="NAMES", help=f"Names separated by commas: {known}.  [default: {default}]"
    )


Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder with NAME.npz files, arrays X and y.  [default: $QUADFEAT_DATA]",
    ),
]


def study(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help=f"{', '.join(EXPERIMENTS)}, or all.")
    ] = "all",
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick", help="Narrow intervals in hours, or wide ones in three minutes."
        ),
    ] = False,
    datasets: Annotated[
        list[str] | None, _names("see quadfeat data list", "all that are found")
    ] = None,
    kernels: Annotated[list[str] | None, _names(", ".join(KERNELS))] = None,
    methods: Annotated[list[str] | None, _names(", ".join(METHODS))] = None,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the report.")] = Path(
        "study"
    ),
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes; -1 for all processors.")] = -1,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all random numbers.")] = 0,
    as_json: Json = False,
) -> None:
    """Rerun the paper's experiments and write a report.

    Finished measurements are saved at once. After Ctrl-C, the same command continues.
    """
    start = time.monotonic()
    data_dir = _data_dir(data_dir)
    (experiment,) = check_names([experiment], ["all", *EXPERIMENTS], "experiment")
    experiments = list(EXPERIMENTS) if experiment == "all" else [experiment]
    chosen = check_names(_split(datasets), data.CATALOGUE, "dataset")
    chosen = chosen or default_datasets(data.available(data_dir), full=full)
    if experiments != ["walltime"]:
        for name in chosen:
            data.load(name, data_dir)  # raise errors about the data before anything runs
    cells = plan(
        experiments,
        chosen,
        check_names(_split(kernels), KERNELS, "kernel") or list(KERNELS),
        check_names(_split(methods), METHODS, "method", ALIASES) or list(METHODS),
        full=full,
    )
    folder = str(data_dir.resolve()) if data_dir else None
    effort = replace(FULL if full else QUICK, seed=seed, data_dir=folder)
    store = runner.Store(out, effort)
    n_jobs = check_jobs(jobs)
    shown = messages if as_json else console
    done: dict[Cell, runner.Outcome] = {}
    try:
        with weighted_bar(shown) as progress:
            weights = {cell: expected_seconds(cell, effort) for cell in cells}
            _run(weights, runner.run(cells, effort, store, n_jobs), done, progress)
        outcomes = [done[cell] for cell in cells]
        about = {
            "command": command_line("QUADFEAT_DATA"),
            "seed": seed,
            "configuration": store.fingerprint,
            **runner.provenance(outcomes),
            "jobs": n_jobs,
        }
        found = _write(outcomes, store, about, shown)
    except KeyboardInterrupt:
        messages.print(
            f"\nStopped. {len(done)} of {len(cells)} measurements are saved in {out}. Run the same "
            "command to continue.",
            markup=False,
        )
        raise SystemExit(STOPPED) from None
    page = store.folder / "report.html"
    if as_json:
        seconds = round(time.monotonic() - start, 1)
        result = {**found.as_json(), "report": str(page), "seconds": seconds, "about": about}
        print(json.dumps(result, indent=2))
    else:
        _print_summary(found)
        shown.print(f"Report: {page}", markup=False, soft_wrap=True)
    if found.failed:
        _print_failures(found)
        raise SystemExit(FAILED)


def _run(
    weights: Mapping[Cell, float],
    running: Iterable[runner.Outcome],
    done: dict[Cell, runner.Outcome],
    progress: Progress,
) -> None:
    """Collect outcomes as cells finish, and advance the bar."""
    bar = progress.add_task("study", total=sum(weights.values()), done=0, items=len(weights))
    for outcome in running:
        done[outcome.cell] = outcome
        progress.update(
            bar,
            advance=weights[outcome.cell],
            description=outcome.cell.experiment,
            done=len(done),
        )


def _write(
    outcomes: list[runner.Outcome], store: runner.Store, about: dict[str, object], shown: Console
) -> Findings:
    """Write rows, figures and report, and return the findings."""
    tables = runner.tables(outcomes)
    for name, table in tables.items():
        table = table.assign(seed=about["seed"], configuration=about["configuration"])
        store.write(store.folder / f"{name}.csv", table.to_csv(index=False).encode())
    store.write(store.folder / "run.json", json.dumps(about, indent=2).encode())
    found = Findings.of(outcomes, tables)
    with shown.status("Drawing figures"):
        drawn = report.pictures(found)
        for picture in drawn:
            for kind in ("png", "svg", "pdf"):
                store.write(store.folder / f"{picture.name}.{kind}", picture.render("light", kind))
        store.write(store.folder / "summary.md", digest.build(found, about).encode())
        store.write(store.folder / "report.html", report.build(found, drawn, about).encode())
    return found


def _print_summary(found: Findings) -> None:
    """Print the main findings on at most 24 lines."""
    console.print(found.headline(), style="bold", markup=False)
    if found.relative is not None and len(found.relative):
        console.print(f"\nKernel error, 1 = {title(str(found.baseline))}:", markup=False)
        print_table("", _ratio_table(found), dict.fromkeys(KERNELS.values(), ".2f"))
    for line in found.bullets(winners=False):
        console.print(f"- {line}", markup=False)
    kept = sum(outcome.kept for outcome in found.outcomes)
    text = f"{len(found.outcomes)} measurements"
    text += f", {kept} of them from an earlier run" if kept else ""
    text += f"; {len(found.skipped)} skipped" if found.skipped else ""
    console.print(f"{text}.", markup=False)


def _ratio_table(found: Findings) -> pd.DataFrame:
    """Return relative errors, a row for each of the best methods and a column for each kernel."""
    assert found.relative is not None
    ratios = summary.ratios_by_kernel(found.relative)
    wide = ratios.pivot(index="method", columns="kernel", values="ratio")
    wide = wide[[kernel for kernel in KERNELS if kernel in wide]].rename(columns=KERNELS)
    ranked = list(summary.rank(ratios).index)
    main = [name for name in (AUTO, PAPER_RULE, found.baseline) if name in ranked]
    others = [name for name in ranked if name not in main]
    shown = {*main, *others[: MOST_LISTED - len(main)]}
    ordered = wide.loc[[name for name in ranked if name in shown]]
    ordered.insert(0, "method", [title(name) for name in ordered.index])
    return ordered


def _print_failures(found: Findings) -> None:
    """Print the first failures to the standard error."""
    for outcome in found.failed[:3]:
        messages.print(f"failed: {outcome.cell}: {outcome.failed}", markup=False)
    if len(found.failed) > 3:
        messages.print(f"and {len(found.failed) - 3} more failures: see the report", markup=False)


@data_app.command("list", epilog=LIST_EPILOG)
def list_data(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List the datasets and whether they are here."""
    folder = _data_dir(data_dir)
    rows = [
        {
            "name": entry.name,
            "rows": entry.shape[0],
            "columns": entry.shape[1],
            "task": entry.task,
            "description": entry.title,
            "found": data.where(entry.name, folder),
        }
        for entry in data.CATALOGUE.values()
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    missing = [row["name"] for row in rows if row["found"] is None]
    shown = [{**row, "found": "no" if row["found"] is None else "yes"} for row in rows]
    print_table("", pd.DataFrame(shown).drop(columns="task"))
    console.print(f"Searched: {', '.join(data.places(folder))}.", markup=False, soft_wrap=True)
    if missing:
        console.print(
            f"To download a missing dataset: quadfeat data fetch {missing[0]}", markup=False
        )


@data_app.command("fetch", epilog=FETCH_EPILOG)
def fetch_data(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset, or all.")],
    as_json: Json = False,
) -> None:
    """Download a dataset once and keep it.

    After Ctrl-C, complete datasets are kept and the partial one is removed.
    """
    (name,) = check_names([name], ["all", *data.CATALOGUE], "dataset")
    shown = messages if as_json else console
    paths: dict[str, str | None] = {}
    try:
        for entry in data.CATALOGUE.values():
            if name not in ("all", entry.name):
                continue
            if entry.source is None:
                paths[entry.name] = None
                shown.print(f"{entry.name} comes with scikit-learn.")
                continue
            with DownloadBar(entry.name, shown) as bar:
                path = fetch.fetch(entry.name, entry.source, entry.shape, bar)
            paths[entry.name] = str(path)
            shown.print(f"{entry.name}: {path}", markup=False, soft_wrap=True)
    except KeyboardInterrupt:
        messages.print(f"\nStopped. Complete datasets are kept: {', '.join(paths) or 'none'}.")
        raise SystemExit(STOPPED) from None
    if as_json:
        print(json.dumps(paths, indent=2))


def _data_dir(given: Path | None) -> Path | None:
    folder = given or data.default_data_dir()
    if folder is not None and not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise StudyError(
            f"data folder '{folder}' {problem}. Pass a folder with .npz files as --data-dir, or "
            "unset QUADFEAT_DATA."
        )
    return folder


def _split(names: list[str] | None) -> list[str]:
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]
