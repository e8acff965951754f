"""Measure CPU time and peak memory.

CPU seconds include all threads of this process and its finished child processes. Unlike wall-clock
time, they do not grow when other programs use the processors.

Peak memory is the growth of resident memory above its level at the start. Only Linux can reset the
peak of a process, so it is NaN on other systems.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # resets VmHWM; see clear_refs in the documentation of Linux


def cpu_seconds() -> float:
    """Return the CPU seconds of this process so far, including threads and children.

    Examples
    --------
    >>> start = cpu_seconds()
    >>> _ = sum(range(100_000))
    >>> cpu_seconds() > start
    True
    """
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class PeakMemory:
    """Measure peak memory from now on, in megabytes above the current level.

    Examples
    --------
    >>> import numpy as np
    >>> peak = PeakMemory()
    >>> block = np.ones(4_000_000)
    >>> import math
    >>> math.isnan(peak.megabytes()) or 30 < peak.megabytes() < 60
    True
    """

    def __init__(self) -> None:
        self._start = float("nan")
        if sys.platform != "linux":
            return
        try:
            _return_free_memory()
            CLEAR.write_text(RESET_PEAK, encoding="ascii")
            self._start = _kilobytes("VmRSS")
        except OSError:  # containers may forbid it; the report then says so
            self._start = float("nan")

    def megabytes(self) -> float:
        """Return the peak so far, or NaN if this system cannot measure it."""
        if self._start != self._start:
            return self._start
        return max(_kilobytes("VmHWM") - self._start, 0.0) / 1024


def _kilobytes(name: str) -> float:
    found = re.search(rf"^{name}:\s*(\d+) kB", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    return float(found.group(1)) if found else float("nan")


def _return_free_memory() -> None:
    """Return freed memory to the system; new allocations could reuse it unnoticed."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl does not
    if trim is not None:
        trim(0)
