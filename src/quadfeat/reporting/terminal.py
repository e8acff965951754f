"""What commands print: tables, bars and where things were written."""

from __future__ import annotations

import os

import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from quadfeat.reporting.errors import CommandError

console = Console()


def progress_bar() -> Progress:
    """Return a bar that counts what is done and guesses how long the rest takes."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def print_table(title: str, frame: pd.DataFrame) -> None:
    """Print a table with numbers of three digits."""
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(str(name))
    for row in frame.itertuples(index=False):
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row))
    console.print(table)


def check_jobs(jobs: int) -> int:
    """Return the number of processes that ``--jobs`` stands for."""
    if jobs == 0 or jobs < -1:
        raise CommandError(f"--jobs {jobs} is not valid: give a positive number, or -1.")
    return jobs if jobs > 0 else os.cpu_count() or 1
