"""Time products with features that are not stored: the native core against blocks and BLAS.

Times are interleaved, best of several, on one thread, relative to a transform into an existing
buffer. ``OUTPUTS_UP_TO`` of ``quadfeat.engine.core`` is the number of outputs from which blocks are
faster than the core.

    python benchmarks/products.py [--repeats 7]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from quadfeat import QuadratureFeatures, transform_into
from quadfeat._utils.validation import Array
from quadfeat.engine import core as _core
from quadfeat.kernels import Gaussian
from timing import best, repeats_asked_for

ENTRIES = 2**22  # of the features, so that all lines take about the same work
COLUMNS = (1024, 4096, 16384)
WIDTHS = (8, 54, 784)
OUTPUTS = (1, 2, 4, 8, 16, 64, 128)
NAMES = ("multiply", "normal", "transposed")


def with_limit(outputs: int, product: Callable[[], object]) -> object:
    """Return a product that uses the native core up to a number of outputs."""
    limit, _core.OUTPUTS_UP_TO = _core.OUTPUTS_UP_TO, outputs
    try:
        return product()
    finally:
        _core.OUTPUTS_UP_TO = limit


def line(n_columns: int, d: int, n_outputs: int, repeats: int) -> None:
    """Print the times of one shape."""
    n_rows = ENTRIES // n_columns
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, d)).astype(np.float32)
    features = QuadratureFeatures(
        Gaussian(1 / d), rule="sr33", n_components=n_columns, random_state=0
    ).fit(X[:100])
    V = rng.standard_normal((n_columns, n_outputs)).astype(np.float32)
    U = rng.standard_normal((n_rows, n_outputs)).astype(np.float32)
    out: Array = np.empty((n_rows, n_columns), dtype=np.float32)
    made = features.map_
    products: dict[str, Callable[[], object]] = {
        "multiply": partial(made.multiply, X, V),
        "normal": partial(made.normal_multiply, X, V),
        "transposed": partial(made.transpose_multiply, X, U),
    }
    ways: dict[str, Callable[[], object]] = {"transform": partial(transform_into, features, X, out)}
    for name, product in products.items():
        ways[f"{name} native"] = partial(with_limit, n_outputs, product)
        ways[f"{name} blocks"] = partial(with_limit, -1, product)
    times = best(ways, repeats)
    ratios = "  ".join(
        f"{times[f'{name} native'] / times['transform']:6.2f} "
        f"{times[f'{name} blocks'] / times['transform']:6.2f}"
        for name in NAMES
    )
    print(
        f"{n_columns:6d} {d:4d} {n_outputs:4d} {times['transform']:9.2f} ms  {ratios}", flush=True
    )


def main() -> None:
    """Print the table."""
    repeats = repeats_asked_for(__doc__)
    print("Gaussian kernel, rule sr33, float32, one thread; times relative to the transform")
    print(" " * 30 + "  ".join(f"{name:>13s}" for name in NAMES))
    print(f"{'D':>6s} {'d':>4s} {'k':>4s} {'transform':>12s}  " + "  native blocks" * len(NAMES))
    with threadpool_limits(1):
        for n_columns in COLUMNS:
            for d in WIDTHS:
                for n_outputs in OUTPUTS:
                    line(n_columns, d, n_outputs, repeats)


if __name__ == "__main__":
    main()
