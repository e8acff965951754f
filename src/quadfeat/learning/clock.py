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

    Attributes
    ----------
    was_stopped : bool
        Whether the user has stopped the search by Ctrl-C.
    """

    def __init__(self, limit: float | None, *, verbose: bool = False) -> None:
        self.limit = limit
        self.verbose = verbose
        self.was_stopped = False
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def is_over(self, part: float = 1.0) -> bool:
        """Return whether the search was stopped, or the time limit or a part of it has passed."""
        return self.was_stopped or (self.limit is not None and self.seconds >= part * self.limit)

    def stop(self) -> None:
        """Stop the search after Ctrl-C, and print what follows, whether ``verbose`` or not.

        A warning would not reach the user: a contest of models hides those of its candidates.
        """
        self.was_stopped = True
        print(
            f"kernel search: interrupted after {self.seconds:.1f} s. The best kernel so far is "
            "fitted now. Press Ctrl-C again to abort the fit.",
            file=sys.stderr,
            flush=True,
        )

    def show(self, text: str) -> None:
        """Print a line of progress if ``verbose``."""
        if self.verbose:
            print(f"kernel search: {text} ({self.seconds:.1f} s)", file=sys.stderr, flush=True)
