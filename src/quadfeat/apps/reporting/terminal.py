"""What commands print: tables, bars and where things were written."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from types import MappingProxyType

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

from quadfeat.apps.reporting.errors import CommandError

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


def print_table(
    title: str, frame: pd.DataFrame, formats: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print a table, with numbers of three digits in columns whose format is not given."""
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(str(name))
    for row in frame.itertuples(index=False):
        table.add_row(
            *(
                _text(value, formats.get(str(name), ".3g"))
                for name, value in zip(frame.columns, row, strict=True)
            )
        )
    console.print(table)


def _text(value: object, form: str) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else format(value, form)


def check_jobs(jobs: int) -> int:
    """Return the number of processes that ``--jobs`` stands for."""
    if jobs == 0 or jobs < -1:
        raise CommandError(f"--jobs {jobs} is not valid: give a positive number, or -1.")
    return jobs if jobs > 0 else os.cpu_count() or 1
