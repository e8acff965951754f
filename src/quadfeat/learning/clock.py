"""The time limit of a search, and its progress."""

from __future__ import annotations

import sys
import time


class Clock:
    """Measures the time of a search, and shows what it does.

    Parameters
    ----------
    limit : float or None
        Seconds after which the search should end; None for no limit.
    verbose : bool, default=False
        Show each step on standard error.
    """

    def __init__(self, limit: float | None, *, verbose: bool = False) -> None:
        self.limit = limit
        self.verbose = verbose
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def is_over(self) -> bool:
        """Return whether the time limit has passed."""
        return self.limit is not None and self.seconds >= self.limit

    def show(self, text: str) -> None:
        """Show a line of progress, if wanted."""
        if self.verbose:
            print(f"kernel search: {text} ({self.seconds:.1f} s)", file=sys.stderr, flush=True)
