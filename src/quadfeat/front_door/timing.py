"""The time limit, the progress messages and the interrupts of a contest."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import numpy as np


class Timer:
    """Measures the time of a contest, and prints its progress.

    Parameters
    ----------
    limit : float or None
        Seconds; None for no limit.
    owner : str, default=""
        Starts each line of progress; empty for none.
    """

    def __init__(self, limit: float | None, owner: str = "") -> None:
        self.limit = limit
        self.owner = owner
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Seconds that are left; infinite without a limit."""
        return np.inf if self.limit is None else self.limit - self.seconds

    def show(self, text: str) -> None:
        """Print a line of progress."""
        if self.owner:
            print(f"{self.owner}: {text} ({self.seconds:.1f} s)", file=sys.stderr, flush=True)


class Interrupts:
    """Notices Ctrl-C, even if the code that is running handles it itself.

    A kernel search that is interrupted returns its best kernel so far instead of raising an error.
    The contest still has to end. Use it as a context manager.

    Attributes
    ----------
    seen : bool
        Whether the user has pressed Ctrl-C.
    """

    def __init__(self) -> None:
        self.seen = False
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
        self.seen = True
        self._before(number, frame)
