"""Measure how the time of a fit grows with the number of features.

``KernelRegressor`` and ``KernelClassifier`` estimate from it whether there is time for more
features. The kernel is given, and one thread is used. Seconds are CPU seconds.

    QUADFEAT_DATA=folder OPENBLAS_NUM_THREADS=1 python benchmarks/front_door.py --out docs/measured
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from contest import data
from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from tables import Table, circumstances

CASES = (("letter", 8000), ("usps", 7000), ("adult", 16000), ("kin40k", 7000), ("kin40k", 28000))
NUMBERS = (1024, 2048, 4096)


def seconds_of(model: Any, X: Any, y: Any) -> float:
    """Return the CPU seconds of a fit."""
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def main() -> int:
    """Print the table, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder for the table as a CSV file")
    options = parser.parse_args()
    if data.folder() is None:
        print("skipped: QUADFEAT_DATA is not set: set it to the folder of the data")
        return 0
    columns = ["table", "rows", "features", "seconds", "power", "refit"]
    table = Table("front-door-growth", columns)
    table.start("Fits that choose alpha, the power of their growth, and refits with a known alpha")
    for name, n_rows in CASES:
        split = data.load(name, 0)
        which = np.random.default_rng(0).permutation(len(split.X))[:n_rows]
        X, y = split.X[which].astype(np.float64), split.y[which]
        is_regression = data.TASKS[name] == "regression"
        kind = QuadratureRidge if is_regression else QuadratureRidgeClassifier
        first = 0.0
        for number in NUMBERS:
            model = kind("matern32", n_components=number, random_state=0, n_jobs=1)
            seconds = seconds_of(model, X, y)
            refit = seconds_of(model.set_params(alpha=model.alpha_), X, y)
            first = first or seconds
            ratio = number / NUMBERS[0]
            power = "" if ratio == 1 else f"{np.log(seconds / first) / np.log(ratio):.2f}"
            cells = (f"{seconds:.2f}", power, f"{refit / seconds:.2f}")
            table.add(name, f"{len(X):,}", f"{number:,}", *cells)
    last = circumstances("front-door-growth-circumstances", "python benchmarks/front_door.py")
    if options.out is not None:
        table.write(options.out)
        last.write(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
