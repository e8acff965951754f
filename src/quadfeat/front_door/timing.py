"""The time limit, the progress messages and the interrupts of a contest."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import numpy as np

# A final fit of up to this many seconds, or this part of the limit, runs even if no time is left:
# more rows are worth it. A longer one may exceed the limit by this factor.
SHORT_FIT = 1.0
SHORT_PART = 0.1
LATE = 1.1


class Timer:
    """Measures the time of a contest, and prints its progress.

    Parameters
    ----------
    limit : float or None
        Seconds; None for no limit.
    owner : str, default=""
        Starts each line of progress; empty for none.

    Attributes
    ----------
    reserved : float
        Seconds to keep for the fit to all rows.
    """

    def __init__(self, limit: float | None, owner: str = "") -> None:
        self.limit = limit
        self.owner = owner
        self.reserved = 0.0
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Seconds that are left for the contest; infinite without a limit."""
        return np.inf if self.limit is None else self.limit - self.seconds - self.reserved

    def reserve(self, seconds: float, *, is_needed: bool) -> None:
        """Reserve time for the fit to all rows, unless there is too little.

        Parameters
        ----------
        seconds : float
            The time of that fit.
        is_needed : bool
            Whether to keep the time even if there is too little.
        """
        has_time = self.limit is None or self.seconds + seconds <= self.limit
        self.reserved = seconds if has_time or is_needed else 0.0

    def allows(self, seconds: float) -> bool:
        """Return whether the fit to all rows, which takes so many seconds, may begin."""
        if self.limit is None:
            return True
        is_short = seconds <= max(SHORT_FIT, SHORT_PART * self.limit)
        return is_short or self.seconds + seconds <= LATE * self.limit

    def show(self, text: str) -> None:
        """Print a line of progress."""
        if self.owner:
            print(f"{self.owner}: {text} ({self.seconds:.1f} s)", file=sys.stderr, flush=True)

    def show_interrupt(self, text: str) -> None:
        """Print what follows after Ctrl-C, even if no progress is shown."""
        print(f"{self.owner or 'fit'}: interrupted. {text}", file=sys.stderr, flush=True)


class Interrupts:
    """Notices Ctrl-C, even if the code that is running handles it itself.

    A kernel search that is interrupted returns its best kernel so far instead of raising an error.
    The contest still has to end. Use it as a context manager.

    Attributes
    ----------
    count : int
        How often the user has pressed Ctrl-C.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        # Only the main thread may set handlers, and only it receives signals.
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._before(number, frame)
