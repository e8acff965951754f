"""Find where one way to compute features becomes faster than another.

The constants of ``quadfeat.engine.core`` come from this script: dense products in the native core
against butterflies (``DENSE_UP_TO``), the same against BLAS for unstructured nodes
(``TILES_UP_TO``), and NumPy's dense against structured products (``NUMPY_DENSE_UP_TO``). Times are
interleaved, best of several, on one thread.

    python benchmarks/crossover.py [--repeats 7]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from quadfeat._utils.validation import Array
from quadfeat.engine.core import BatchedMap, CompiledMap, FusedMap, native_map
from quadfeat.kernels import Gaussian
from quadfeat.rules import MonteCarlo, Rule, SphericalRadial
from timing import best, repeats_asked_for

ENTRIES = 2**21  # of the output, so that all lines take about the same work


def table(title: str, rule: Rule, widths: tuple[int, ...], dtype: Any, repeats: int) -> None:
    """Print the times of all ways to compute features of a rule."""
    print(f"\n{title}, {dtype}")
    kernel = Gaussian(0.5)
    for d in widths:
        n_columns = 4 * (d + 1)
        nodes = rule.draw(d, n_columns, kernel, np.random.default_rng(0))
        n_rows = ENTRIES // n_columns
        X = np.random.default_rng(1).standard_normal((n_rows, d)).astype(dtype)
        out: Array = np.empty((n_rows, n_columns), dtype=dtype)
        ones = np.ones(d)
        maps: dict[str, CompiledMap] = {
            "core, dense": FusedMap(native_map(nodes, kernel, dtype, "dense")),
            "BLAS": BatchedMap(nodes, kernel, ones, dtype, structured=False),
        }
        if nodes.directions.structure() is not None:
            structured = native_map(nodes, kernel, dtype, "structured")
            maps["core, structured"] = FusedMap(structured)
        ways: dict[str, Callable[[], object]] = {
            name: partial(compiled.write, X, out, 1) for name, compiled in maps.items()
        }
        if nodes.directions.structure() is not None:
            matrix = nodes.frequencies().T.astype(dtype)
            ways["NumPy, dense product"] = partial(np.matmul, X, matrix)
            ways["NumPy, structured product"] = partial(nodes.arguments, X)
        times = best(ways, repeats)
        print(f"d = {d:5d}  " + "  ".join(f"{name} {t:.2f} ms" for name, t in times.items()))


def main() -> None:
    """Print the tables."""
    repeats = repeats_asked_for(__doc__)
    simplex = SphericalRadial(origin="signed")
    narrow = (4, 8, 16, 24, 32, 36, 40, 48, 64, 256, 1024, 2048)
    wide = (8, 32, 64, 128, 192, 256, 384, 512)
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        with threadpool_limits(1):
            table("SR(3,3) with butterflies", simplex, narrow, dtype, repeats)
            table("random Fourier features", MonteCarlo(), wide, dtype, repeats)


if __name__ == "__main__":
    main()
