"""Best of several interleaved timings, and the options of scripts that measure them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from quadfeat.engine import core as _core

GAP = 0.15  # seconds, since the threads of OpenBLAS spin for a while after a product


def best(
    ways: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the best time of each function in milliseconds, interleaved and with pauses.

    For work in one thread, the clock ``time.process_time`` depends less on other programs.
    """
    times = dict.fromkeys(ways, float("inf"))
    for work in ways.values():
        work()  # warm up: lazy imports, compiled maps
    for _ in range(repeats):
        for name, work in ways.items():
            time.sleep(GAP)
            start = clock()
            result = work()
            times[name] = min(times[name], 1e3 * (clock() - start))
            del result
    return times


def repeats_asked_for(documentation: str | None) -> int:
    """Return the option ``--repeats`` of a script about the native core, if there is a core."""
    parser = argparse.ArgumentParser(description=(documentation or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="take the best of so many")
    repeats: int = parser.parse_args().repeats
    if _core.CORE == "numpy":
        raise SystemExit("quadfeat was installed without its native core: nothing to compare.")
    return repeats
