"""The commands ``quadfeat study`` and ``quadfeat data``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.table import Table

from quadfeat.apps.reporting.errors import check_names
from quadfeat.apps.reporting.machine import command_line
from quadfeat.apps.reporting.terminal import (
    DownloadBar,
    check_jobs,
    console,
    print_table,
    progress_bar,
)
from quadfeat.apps.study import data, digest, fetch, report, runner, summary
from quadfeat.apps.study.errors import StudyError
from quadfeat.apps.study.experiments import EXPERIMENTS, FULL, QUICK, Cell
from quadfeat.apps.study.methods import KERNELS, METHODS
from quadfeat.apps.study.plan import default_datasets, plan

data_app = typer.Typer(no_args_is_help=True, help="The data sets of the study.")

Names = Annotated[list[str] | None, typer.Option(help="Several by commas or by repetition.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with NAME.npz files, arrays X and y.  [default: QUADFEAT_DATA]"),
]


def study(
    experiment: Annotated[
        str, typer.Argument(help=f"{', '.join(EXPERIMENTS)}, or all.", show_default=True)
    ] = "all",
    full: Annotated[
        bool, typer.Option("--full/--quick", help="An hour's effort, or a minute's.")
    ] = False,
    datasets: Names = None,
    kernels: Names = None,
    methods: Names = None,
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder for rows, figures and report.")] = Path("study"),
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all processors.")] = -1,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
) -> None:
    """Run the paper's experiments and write a report. Run again to go on where it stopped."""
    data_dir = _data_dir(data_dir)
    (experiment,) = check_names([experiment], ["all", *EXPERIMENTS], "experiment")
    experiments = list(EXPERIMENTS) if experiment == "all" else [experiment]
    chosen = check_names(_split(datasets), data.CATALOGUE, "data set")
    chosen = chosen or default_datasets(data.available(data_dir), full=full)
    if experiments != ["walltime"]:
        for name in chosen:
            data.load(name, data_dir)  # what is wrong with it is said before anything runs
    cells = plan(
        experiments,
        chosen,
        check_names(_split(kernels), KERNELS, "kernel") or list(KERNELS),
        check_names(_split(methods), METHODS, "method") or list(METHODS),
        full=full,
    )
    folder = str(data_dir.resolve()) if data_dir else None
    effort = replace(FULL if full else QUICK, seed=seed, data_dir=folder)
    store = runner.Store(out, effort)
    n_jobs = check_jobs(jobs)
    try:
        outcomes = _run(cells, runner.run(cells, effort, store, n_jobs))
    except KeyboardInterrupt:
        console.print("\nstopped; what is finished is kept: run the same command to go on")
        raise SystemExit(130) from None
    about = {
        "command": command_line("QUADFEAT_DATA"),
        "seed": seed,
        "configuration": store.fingerprint,
    }
    _write(outcomes, store, {**about, **runner.provenance(outcomes), "jobs": n_jobs})


def _run(cells: Sequence[Cell], running: Iterable[runner.Outcome]) -> list[runner.Outcome]:
    """Return all outcomes in the order of the plan, with a bar while they come."""
    found: dict[Cell, runner.Outcome] = {}
    with progress_bar() as progress:
        bar = progress.add_task("study", total=len(cells))
        for outcome in running:
            found[outcome.cell] = outcome
            progress.update(bar, advance=1, description=outcome.cell.experiment)
    kept = sum(outcome.kept for outcome in found.values())
    if kept:
        console.print(f"{kept} of {len(cells)} cells were kept from an earlier run")
    return [found[cell] for cell in cells]


def _write(outcomes: list[runner.Outcome], store: runner.Store, about: dict[str, object]) -> None:
    """Write rows, figures and report, and print the summary."""
    tables = runner.tables(outcomes)
    for name, table in tables.items():
        table = table.assign(seed=about["seed"], configuration=about["configuration"])
        store.write(store.folder / f"{name}.csv", table.to_csv(index=False).encode())
    store.write(store.folder / "run.json", json.dumps(about, indent=2).encode())
    pictures = report.pictures(tables)
    for picture in pictures:
        for kind in ("png", "svg", "pdf"):
            store.write(store.folder / f"{picture.name}.{kind}", picture.render("light", kind))
    summaries = {picture.name: picture.table for picture in pictures}
    store.write(store.folder / "summary.md", digest.build(summaries, about).encode())
    page = report.build(outcomes, pictures, about)
    store.write(store.folder / "report.html", page.encode())
    _print_summary(summaries)
    failed = [outcome for outcome in outcomes if outcome.failed]
    for outcome in failed:
        console.print(f"failed: {outcome.cell}: {outcome.failed}", markup=False)
    console.print(f"report: {store.folder / 'report.html'}", markup=False, soft_wrap=True)


def _print_summary(tables: dict[str, pd.DataFrame]) -> None:
    if "kernel-error" in tables:
        errors = tables["kernel-error"]
        best = summary.winners(errors)
        narrow = [name for name in best.columns if name not in ("second / best", "B / best")]
        print_table("Smallest error of the kernel", best[narrow])
        known = summary.agreement(errors)
        if len(known):
            print_table("Agreement with the published errors", known)
    if "walltime" in tables:
        print_table("Growth with the width, d^", summary.exponents(tables["walltime"]))


@data_app.command("list")
def list_data(data_dir: DataDir = None) -> None:
    """List the data sets and where they are."""
    folder = _data_dir(data_dir)
    table = Table()
    for name in ("name", "rows", "columns", "task", "what", "here"):
        table.add_column(name)
    for entry in data.CATALOGUE.values():
        here = data.where(entry.name, folder) or f"no: quadfeat data fetch {entry.name}"
        rows, columns = map(str, entry.shape)
        table.add_row(entry.name, rows, columns, entry.task, entry.title, here)
    console.print(table)


@data_app.command("fetch")
def fetch_data(name: Annotated[str, typer.Argument(help="A data set, or all.")]) -> None:
    """Get a data set from where it is published, and keep it."""
    (name,) = check_names([name], ["all", *data.CATALOGUE], "data set")
    for entry in data.CATALOGUE.values():
        if name not in ("all", entry.name):
            continue
        if entry.source is None:
            console.print(f"{entry.name} comes with scikit-learn")
            continue
        with DownloadBar(entry.name) as bar:
            path = fetch.fetch(entry.name, entry.source, entry.shape, bar)
        console.print(f"{entry.name}: {path}", markup=False, soft_wrap=True)


def _data_dir(given: Path | None) -> Path | None:
    folder = given or data.default_data_dir()
    if folder is not None and not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise StudyError(f"data folder '{folder}' {what}: name one with .npz files, or none.")
    return folder


def _split(names: list[str] | None) -> list[str]:
    return [part.strip() for name in names or () for part in name.split(",") if part.strip()]
