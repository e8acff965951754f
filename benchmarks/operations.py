"""Count the operations of a transform, and compare its time with the processor's peak.

Operations are counted for one feature of one row: additions, multiplications and fused
multiply-adds of the rotations, the simplex, the cosine and the sine count as one. The peak is the
speed of a product of two large matrices by BLAS, whose fused multiply-adds are counted in the same
way. The time of the rotations is the difference between maps with one and with three rounds. The
last columns compare with the time to fill the output with zeros. Times are CPU nanoseconds of one
thread, interleaved and best of several.

    QUADFEAT_CORE=v3 OPENBLAS_NUM_THREADS=1 python benchmarks/operations.py [--repeats 9]
        [--out docs/measured]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from quadfeat import QuadratureFeatures, transform_into
from quadfeat._utils.validation import Array
from quadfeat.engine import core as _core
from quadfeat.kernels import Gaussian
from quadfeat.rotations import Butterfly
from quadfeat.rules import SphericalRadial
from tables import Table, circumstances
from timing import best

WIDTHS = (64, 784, 3072)
ENTRIES = 2**23  # of the features: more than the caches hold
ROUNDS = 2  # the default
SIZE = 1024  # of the matrices whose product gives the peak

# Two for the simplex; three to multiply by the radius and reduce the angle, its square, polynomials
# of degree 5 and 4 in the square, the odd factor of the sine, and the amplitude twice
# (native/sincos.hpp).
OPERATIONS_OF_A_NODE = 2 + 3 + 1 + 5 + 4 + 1 + 2


def rotation_operations(d: int) -> float:
    """Return the operations of one round for one coordinate; see native/tangents.hpp."""
    stages = int(np.ceil(np.log2(d)))
    # One fused multiply-add per stage, and one factor per pass of up to three stages. Passes do not
    # cross the boundary at 512 coordinates.
    inside = min(stages, 9)
    passes = -(-inside // 3) + -(-(stages - inside) // 3)
    return stages + passes


def measure(d: int, repeats: int) -> dict[str, float]:
    """Return nanoseconds per feature of all maps and of a fill, and per operation of the peak."""
    blocks = 3
    n_columns = 2 * blocks * (d + 1)
    n_rows = ENTRIES // n_columns
    X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(np.float32)
    out: Array = np.zeros((n_rows, n_columns), dtype=np.float32)
    A, B = np.random.default_rng(0).random((2, SIZE, SIZE), dtype=np.float32)
    ways: dict[str, Callable[[], object]] = {
        "fill": partial(out.fill, 0),
        "product": partial(np.matmul, A, B),
    }
    for rounds in (1, ROUNDS, 3):
        rule = SphericalRadial(tilt=0.0, rotation=Butterfly(rounds=rounds))
        features = QuadratureFeatures(
            Gaussian(1 / d), rule=rule, n_components=n_columns, random_state=0, n_jobs=1
        ).fit(X)
        ways[f"{rounds} rounds"] = partial(transform_into, features, X, out)
    with threadpool_limits(1):
        times = best(ways, repeats, time.process_time)
    found = {way: 1e6 * milliseconds / out.size for way, milliseconds in times.items()}
    found["operation"] = 1e6 * times["product"] / SIZE**3
    return found


def add_steps(table: Table, d: int, found: dict[str, float]) -> None:
    """Add the rows for one number of columns."""
    whole, fill = found[f"{ROUNDS} rounds"], found["fill"]
    rotations = ROUNDS * (found["3 rounds"] - found["1 rounds"]) / 2
    count = ROUNDS * rotation_operations(d) / 2
    rest = OPERATIONS_OF_A_NODE / 2
    for step, nanoseconds, operations in (
        (f"{ROUNDS} rounds of rotations", rotations, count),
        ("all others, loads and stores", whole - rotations, rest),
        ("the whole transform", whole, count + rest),
    ):
        least = operations * found["operation"]
        table.add(
            step,
            str(d),
            f"{operations:.1f}",
            f"{nanoseconds:.3f}",
            f"{least:.3f}",
            f"{least / nanoseconds:.0%}",
            f"{nanoseconds / fill:.1f}",
            f"{least / fill:.1f}",
        )


def main() -> None:
    """Print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="take the best of so many")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    given = parser.parse_args()
    if _core.CORE == "numpy":
        raise SystemExit("quadfeat was installed without its native core: nothing to measure.")
    command = f"python benchmarks/operations.py --repeats {given.repeats}"
    machine = circumstances("operations-circumstances", command)
    table = Table(
        "operations",
        [
            "step",
            "d",
            "operations",
            "ns",
            "ns at peak",
            "share of peak",
            "time / fill",
            "time at peak / fill",
        ],
        first_width=30,
    )
    table.start("Gaussian kernel, simplex, float32, one thread, for one feature of one row")
    for d in WIDTHS:
        add_steps(table, d, measure(d, given.repeats))
    if given.out is not None:
        table.write(given.out)
        machine.write(given.out)


if __name__ == "__main__":
    main()
