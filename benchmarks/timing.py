"""The best of several times, measured in turns."""

from __future__ import annotations

import time
from collections.abc import Callable

GAP = 0.15  # seconds: OpenBLAS' threads spin for a while after a product


def best(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the best time of each way in milliseconds, measured in turns with gaps."""
    times = dict.fromkeys(ways, float("inf"))
    for work in ways.values():
        work()  # once for nothing: lazy imports, compiled maps
    for _ in range(repeats):
        for name, work in ways.items():
            time.sleep(GAP)
            start = time.perf_counter()
            result = work()
            times[name] = min(times[name], 1e3 * (time.perf_counter() - start))
            del result
    return times
