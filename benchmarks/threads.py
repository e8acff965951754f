"""Find how much work is worth a second thread.

The constant ``ENTRIES_PER_THREAD`` of ``quadfeat.engine.threads`` comes from this script. It times
one native call with one and with two threads, for more and more entries of the output: calls one
after another, and calls after a pause, when the threads of the pool sleep deeply. The numbers are
medians of interleaved calls in microseconds, and the time with one thread divided by that with two.

    OPENBLAS_NUM_THREADS=1 python benchmarks/threads.py [--repeats 200]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array
from quadfeat.engine.core import CORE, native_map
from quadfeat.kernels import Gaussian
from quadfeat.rules import SphericalRadial
from timing import repeats_asked_for

PAUSES = (0.0, 0.002)  # seconds between calls
SHAPES = ((16, 17), (16, 272), (100, 404))  # columns of the rows and of the result


def microseconds(work: Callable[[], object]) -> float:
    """Return the time that a call takes."""
    start = time.perf_counter()
    work()
    return 1e6 * (time.perf_counter() - start)


def medians(ways: list[Callable[[], object]], repeats: int, pause: float) -> list[float]:
    """Return the median time of each function, called in turn, each after a pause."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(repeats):
        for way, found in zip(ways, times, strict=True):
            time.sleep(pause)
            found.append(microseconds(way))
    return [median(found) for found in times]


def table(d: int, n_columns: int, dtype: Any, repeats: int) -> None:
    """Print the times of one shape of map for several numbers of rows."""
    print(f"\n{d} columns to {n_columns}, {dtype}")
    kernel = Gaussian(0.5)
    nodes = SphericalRadial(origin="signed").draw(d, n_columns, kernel, np.random.default_rng(0))
    product: Any = "dense" if d <= 36 else "structured"
    native = native_map(nodes, kernel, dtype, product)
    for power in range(10, 20):
        n_rows = max(1, 2**power // nodes.n_columns(kernel))
        X = np.random.default_rng(1).standard_normal((n_rows, d)).astype(dtype)
        out: Array = np.empty((n_rows, nodes.n_columns(kernel)), dtype=dtype)
        cells = []
        for pause in PAUSES:
            ways: list[Callable[[], object]] = [
                partial(native.transform, X, out, n, CORE) for n in (1, 2)
            ]
            one, two = medians(ways, repeats, pause)
            cells.append(f"{one:8.1f} {two:8.1f} us  x {one / two:.2f}")
        print(f"2^{power:2d} entries: " + "   after a pause: ".join(cells))


def main() -> None:
    """Print the tables."""
    repeats = repeats_asked_for(__doc__)
    for d, n_columns in SHAPES:
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            table(d, n_columns, dtype, repeats)


if __name__ == "__main__":
    main()
