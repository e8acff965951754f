"""Tables and progress bars for a terminal.

Text is plain or bold, never colored, so that it suits light and dark terminals.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from types import MappingProxyType

import pandas as pd
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.theme import Theme

from quadfeat.apps.reporting.errors import CommandError

# The default colors of rich for times and counts, yellow and cyan, are faint on light terminals.
PLAIN = Theme(
    dict.fromkeys(
        ["progress.elapsed", "progress.remaining", "progress.download", "progress.percentage"],
        "none",
    )
)

console = Console(highlight=False, theme=PLAIN)
messages = Console(highlight=False, theme=PLAIN, stderr=True)  # for commands that print JSON


def weighted_bar(to: Console) -> Progress:
    """Return a bar for items that take unequal times.

    Tasks have the total of the expected times, and the fields ``done`` and ``items``.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}/{task.fields[items]}"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=to,
    )


class DownloadBar:
    """A bar of downloaded bytes, with the methods that pooch calls."""

    def __init__(self, name: str, to: Console | None = None) -> None:
        self._progress = Progress(
            TextColumn(name),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=to or console,
            transient=True,
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
        """Number of bytes; 0 if the server does not report it."""
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
    title: str,
    frame: pd.DataFrame,
    formats: Mapping[str, str] = MappingProxyType({}),
    to: Console | None = None,
) -> None:
    """Print a table. Numbers have three digits unless ``formats`` names the column."""
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    for name in frame.columns:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        table.add_column(str(name), justify="right" if numeric else "left")
    for row in frame.itertuples(index=False):
        table.add_row(
            *(
                _text(value, formats.get(str(name), "#.3g"))
                for name, value in zip(frame.columns, row, strict=True)
            )
        )
    (to or console).print(table)


def _text(value: object, form: str) -> str:
    if not isinstance(value, float):
        return str(value)
    return "-" if math.isnan(value) else format(value, form).rstrip(".")


def check_jobs(jobs: int) -> int:
    """Return the number of processes for ``--jobs``."""
    if jobs == 0 or jobs < -1:
        raise CommandError(
            f"--jobs {jobs} is not valid. Pass a positive number, or -1 for all processors."
        )
    return jobs if jobs > 0 else os.cpu_count() or 1
