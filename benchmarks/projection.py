"""Where NumPy's dense product of rows and nodes beats the structured one.

Times both ways to compute the arguments of SR(3,3) with butterflies, for maps of two blocks, best
of several, interleaved. ``quadfeat.nodes.DENSE_UP_TO`` stays below where they cross.

    python benchmarks/projection.py [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from quadfeat._validation import Array
from quadfeat.kernels import Gaussian
from quadfeat.nodes import Nodes
from quadfeat.rules import SphericalRadial


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def structured_product(nodes: Nodes, X: Array) -> Array:
    """Return the arguments by the structure of the nodes."""
    return nodes.directions.project(X) * nodes.radii.astype(X.dtype)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="take the best of so many")
    repeats = parser.parse_args().repeats
    print(f"{'d':>5s} {'dense (ms)':>11s} {'structured (ms)':>16s} {'structured / dense':>19s}")
    for d in (4, 16, 64, 256, 512, 1024, 2048, 4096):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2**19 // d, d)).astype(np.float32)
        nodes = SphericalRadial(origin="signed").draw(d, 4 * (d + 1), Gaussian(1.0), rng)
        W = nodes.frequencies().astype(np.float32)
        dense = structured = float("inf")
        for _ in range(repeats):
            dense = min(dense, seconds(partial(np.matmul, X, W.T)))
            time.sleep(0.2)  # OpenBLAS' threads spin for a while after a product
            structured = min(structured, seconds(partial(structured_product, nodes, X)))
        print(f"{d:5d} {1e3 * dense:11.2f} {1e3 * structured:16.2f} {structured / dense:19.2f}")


if __name__ == "__main__":
    main()
