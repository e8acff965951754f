"""Tables that are printed row by row, and written as CSV files for the documentation."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from quadfeat.apps.reporting.machine import machine

NARROWEST = 7  # minimum width of a column in the terminal


class Table:
    """A table of strings, the same in the terminal and in a file.

    Parameters
    ----------
    name : str
        Name of the file without its extension.
    columns : sequence of str
        Headers of the columns.
    first_width : int, default=NARROWEST
        Width of the first column in the terminal, unless its header is wider.
    """

    def __init__(self, name: str, columns: Sequence[str], first_width: int = NARROWEST) -> None:
        self.name = name
        self.columns = list(columns)
        self.rows: list[list[str]] = []
        self._widths = [max(len(head), NARROWEST) for head in self.columns]
        self._widths[0] = max(self._widths[0], first_width)

    def start(self, title: str) -> None:
        """Print a title and the headers."""
        print(f"\n{title}\n\n{self._line(self.columns)}", flush=True)

    def add(self, *cells: str) -> None:
        """Add a row and print it."""
        self.keep(*cells)
        print(self._line(cells), flush=True)

    def keep(self, *cells: str) -> None:
        """Add a row without printing it, for :meth:`show`."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for the {len(self.columns)} columns: {cells!r}")
        self.rows.append(list(cells))

    def show(self, title: str) -> None:
        """Print a title and all rows, in columns as wide as their widest cell."""
        lines = [self.columns, *self.rows]
        widest = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        self._widths = [max(pair) for pair in zip(self._widths, widest, strict=True)]
        self.start(title)
        for cells in self.rows:
            print(self._line(cells), flush=True)

    def write(self, folder: Path) -> None:
        """Write ``name.csv`` into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        print(f"wrote {path}")

    def _line(self, cells: Sequence[str]) -> str:
        first = cells[0].ljust(self._widths[0])
        numbers = zip(cells[1:], self._widths[1:], strict=True)
        return "  ".join([first, *(cell.rjust(width) for cell, width in numbers)])


def circumstances(name: str, command: str) -> Table:
    """Return a table of the command, the date, the machine and the versions."""
    table = Table(name, ["what", "is"], first_width=12)
    table.start("Circumstances")
    table.add("command", command)
    table.add("date", date.today().isoformat())
    here = machine()
    for what in ("cpu", "processors", "core", "quadfeat", "python", "numpy", "scikit_learn"):
        table.add(what, str(here[what]))
    return table
