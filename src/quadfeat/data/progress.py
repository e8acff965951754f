"""A line that tells how far long work has come."""

from __future__ import annotations

import sys
import time

# Seconds between two lines: where they overwrite each other, and where they do not.
ON_TERMINAL = 0.1
IN_FILE = 10.0
BAR = 24


class Progress:
    """Counts rows and now and then says how many there are; silent unless it is wanted.

    Parameters
    ----------
    wanted : bool
    what : str
        What is done, such as ``"fit"``.
    total : int or None
        How many rows there will be, if that is known.
    """

    def __init__(self, wanted: bool, what: str, total: int | None = None) -> None:
        self.wanted = wanted
        self.what = what
        self.total = total
        self.rows = self.first_rows = 0
        self._started = self._said = time.monotonic()
        self._on_terminal = wanted and sys.stderr.isatty()

    def start_at(self, rows: int) -> None:
        """Say that so many rows were done before."""
        self.rows = self.first_rows = rows

    def add(self, rows: int) -> None:
        """Count more rows."""
        self.rows += rows
        now = time.monotonic()
        if self.wanted and now - self._said >= (ON_TERMINAL if self._on_terminal else IN_FILE):
            self._say(now)

    def finish(self) -> None:
        """Say how many rows there were."""
        if self.wanted:
            self._say(time.monotonic())
            if self._on_terminal:
                print(file=sys.stderr)

    def _say(self, now: float) -> None:
        self._said = now
        rate = (self.rows - self.first_rows) / max(now - self._started, 1e-9)
        parts = [f"{self.rows:,} rows", f"{rate:,.0f} rows/s"]
        if self.total:
            share = min(self.rows / self.total, 1.0)
            full = round(BAR * share)
            parts.insert(0, f"[{'#' * full}{'.' * (BAR - full)}] {share:.0%}")
            if rate > 0:
                parts.append(f"{max(self.total - self.rows, 0) / rate:,.0f} s left")
        text = f"{self.what}: {', '.join(parts)}"
        if self._on_terminal:
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)
