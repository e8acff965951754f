"""Tables and progress bars for a terminal."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from types import MappingProxyType

import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
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
    """Return a bar that counts finished items and estimates the remaining time."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


class DownloadBar:
    """A bar of the bytes that have come, with the methods that pooch calls."""

    def __init__(self, name: str) -> None:
        self._progress = Progress(
            TextColumn(name), BarColumn(), DownloadColumn(), console=console, transient=True
        )
        self._task = self._progress.add_task("", total=None)
        self._total = 0

    def __enter__(self) -> DownloadBar:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    @property
    def total(self) -> int:
        """How many bytes there are; 0 if the server does not say."""
        return self._total

    @total.setter
    def total(self, n: int) -> None:
        self._total = n
        self._progress.update(self._task, completed=0, total=n or None)

    def update(self, n: int) -> None:
        """Advance by ``n`` bytes."""
        self._progress.advance(self._task, n)

    def reset(self) -> None:
        """Go back to the start."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Do nothing: the bar ends with its block, after the last of several files."""


def print_table(
    title: str, frame: pd.DataFrame, formats: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Print a table. Numbers have three digits unless ``formats`` names the column."""
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
    """Return the number of processes that ``--jobs`` asks for."""
    if jobs == 0 or jobs < -1:
        raise CommandError(f"--jobs {jobs} is not valid: give a positive number, or -1.")
    return jobs if jobs > 0 else os.cpu_count() or 1
