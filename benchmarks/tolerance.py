"""Test whether ``n_components="auto"`` meets its tolerance, and with how many columns.

In each case, maps are fitted with several seeds. The true error of a map is its error on all rows.
The reference is the smallest number of columns, to a few percent, with which 95% of the draws of
``rule="auto"`` meet the tolerance.

    QUADFEAT_DATA=folder python benchmarks/tolerance.py [--seeds 20]

Without QUADFEAT_DATA, it uses scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from auto import error, kernel_named, load, scaled
from quadfeat import QuadratureFeatures
from quadfeat.auto.selection import Sample, choose
from quadfeat.kernels import Kernel

CASES = (("gaussian 0.1", 0.01), ("gaussian 1", 0.1), ("arccos 0", 0.05), ("arccos 1", 0.05))
N_ROWS = 800
STEP = 1.05  # ratio of successive numbers of columns for the reference


def true_error(Z: Any, exact: Any) -> float:
    """Return the relative error of features in the Frobenius norm."""
    return float(np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact))


def reference(kernel: Kernel, X: Any, exact: Any, tol: float, start: int, n_draws: int) -> int:
    """Return the smallest number of columns that meets the tolerance in 95% of draws."""

    def meets(columns: int) -> bool:
        met = 0
        for seed in range(4):
            rng = np.random.default_rng(1000 + seed)
            rule = choose(Sample.of(X, kernel), columns, rng).rule
            for _ in range(n_draws // 4):
                met += error(rule, columns, kernel, X, exact, rng) <= tol**2
        return met >= 0.95 * (n_draws // 4 * 4)

    columns = start
    while meets(columns) and columns > 1:
        columns = min(columns - 1, int(columns / STEP))
    while not meets(columns):
        columns = max(columns + 1, int(columns * STEP))
    return columns


def measure(name: str, kernel_name: str, tol: float, seeds: int) -> str:
    """Return a row of the table."""
    X = scaled(load(name), "standardised")[:N_ROWS]
    kernel = kernel_named(kernel_name, X.shape[1])
    exact = kernel(X)
    met, columns = 0, []
    for seed in range(seeds):
        features = QuadratureFeatures(kernel, n_components="auto", tol=tol, random_state=seed).fit(
            X
        )
        columns.append(features.n_components_)
        met += true_error(features.transform(X), exact) <= tol
    found = float(np.median(columns))
    least = reference(kernel, X, exact, tol, int(found), 2 * seeds)
    row = (name, X.shape[1], kernel_name, tol, f"{met} of {seeds}", f"{found:.0f}", least)
    return f"| {' | '.join(map(str, row))} | {found / least:.2f} | {max(columns) / least:.2f} |"


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=-1)
    options = parser.parse_args()
    known = ["powerplant", "letter", "usps"] if os.environ.get("QUADFEAT_DATA") else ["digits"]
    heads = ("data set", "d", "kernel", "tol", "met", "columns", "reference")
    print(f"| {' | '.join(heads)} | median / reference | largest / reference |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(measure)(name, kernel, tol, options.seeds)
        for name in known
        for kernel, tol in CASES
    )
    for row in rows:
        print(row, flush=True)


if __name__ == "__main__":
    main()
