"""Lines on standard error that show the progress of a pass over rows."""

from __future__ import annotations

import sys
import time

# Seconds between two updates: on a terminal they overwrite one line, in a file each is a new line.
ON_TERMINAL = 0.1
IN_FILE = 10.0
BAR = 24


class Progress:
    """Counts rows, and shows from time to time how many are done.

    Parameters
    ----------
    enabled : bool
        Whether to print anything.
    what : str
        The name of the work, such as ``"fit"``.
    total : int or None
        Number of rows, if known.
    """

    def __init__(self, enabled: bool, what: str, total: int | None = None) -> None:
        self.enabled = enabled
        self.what = what
        self.total = total
        self.rows = self.first_rows = 0
        self._started = self._shown = time.monotonic()
        self._on_terminal = enabled and sys.stderr.isatty()

    def start_at(self, rows: int) -> None:
        """Set the number of rows that an earlier process has done; start the clock."""
        self.rows = self.first_rows = rows
        self._started = time.monotonic()

    def show_resumed(self) -> None:
        """Print where a resumed pass starts."""
        self.show_line(f"resumed at {self._count()}")

    def add(self, rows: int) -> None:
        """Count more rows."""
        self.rows += rows
        now = time.monotonic()
        if self.enabled and now - self._shown >= (ON_TERMINAL if self._on_terminal else IN_FILE):
            self._show(now)

    def finish(self) -> None:
        """Show the final number of rows."""
        if self.enabled:
            self._show(time.monotonic())
            if self._on_terminal:
                print(file=sys.stderr)

    def show_line(self, text: str) -> None:
        """Print a line, which later updates do not overwrite."""
        if self.enabled:
            print(f"{self.what}: {text}", file=sys.stderr, flush=True)

    def _show(self, now: float) -> None:
        self._shown = now
        rate = (self.rows - self.first_rows) / max(now - self._started, 1e-9)
        parts = [self._count(), f"{rate:,.0f} rows/s"]
        if self.total:
            share = min(self.rows / self.total, 1.0)
            full = round(BAR * share)
            parts.insert(0, f"[{'#' * full}{'.' * (BAR - full)}] {share:.0%}")
            if rate > 0:
                parts.append(f"{duration(max(self.total - self.rows, 0) / rate)} left")
        text = ", ".join(parts)
        if self._on_terminal:
            print(f"\r{self.what}: {text}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            self.show_line(text)

    def _count(self) -> str:
        return f"{self.rows:,}{f' of {self.total:,}' if self.total else ''} rows"


def duration(seconds: float) -> str:
    """Return a duration as a string in suitable units.

    Examples
    --------
    >>> duration(12.3), duration(200.0), duration(7500.0)
    ('12 s', '3 min', '2 h 5 min')
    """
    minutes = round(seconds / 60.0)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
