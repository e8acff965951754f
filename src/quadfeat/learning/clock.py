"""The time limit and the progress messages of a search."""

from __future__ import annotations

import sys
import time


class Clock:
    """Measures the time of a search, and prints its progress.

    Parameters
    ----------
    limit : float or None
        Time limit of the search in seconds; None for no limit.
    verbose : bool, default=False
        Whether to print each step to standard error.
    """

    def __init__(self, limit: float | None, *, verbose: bool = False) -> None:
        self.limit = limit
        self.verbose = verbose
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def is_over(self, part: float = 1.0) -> bool:
        """Return whether the time limit has passed, or a part of it."""
        return self.limit is not None and self.seconds >= part * self.limit

    def show(self, text: str) -> None:
        """Print a line of progress if ``verbose``."""
        if self.verbose:
            print(f"kernel search: {text} ({self.seconds:.1f} s)", file=sys.stderr, flush=True)
