"""Compare criteria for alpha with alpha=1 on tables, and print the worst and mean difference.

For each table and criterion, fit ``QuadratureRidge`` to random 90% of the rows, with standardized
columns, and compare the R2 on the other rows with that of ``alpha=1``. The constants in
``quadfeat.solvers.curves`` come from this script. Tables are files ``NAME.npz`` with arrays ``X``
and ``y`` in the folder ``QUADFEAT_DATA``, and three synthetic ones. With ``--fits``, print the
seconds of ``fit`` for each criterion instead.

    QUADFEAT_DATA=data python benchmarks/alpha.py --tables house8L california --splits 20
    python benchmarks/alpha.py --fits --columns 1024 2048 4096 --rows 20000 100000
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureRidge
from quadfeat._utils.validation import Float64Array
from tables import Table

TABLES = ["california", "kin40k", "powerplant", "bike", "protein", "pumadyn32nm", "house8L"]
SYNTHETIC = ["heavy tails", "few rows", "copies"]
CRITERIA = ("auto", "loo", "gcv", "evidence")
TEST_SHARE = 0.1
LEAST_TEST_ROWS = 20  # about


def synthetic(name: str) -> tuple[Float64Array, Float64Array]:
    """Return a table on which alpha is hard to choose."""
    rng = np.random.default_rng(0)
    n_rows = {"heavy tails": 5000, "few rows": 60, "copies": 2000}[name]
    X = rng.standard_normal((n_rows, 5))
    if name == "heavy tails":
        X = np.sign(X) * np.abs(X) ** 3
    y = np.sin(X[:, 0]) + 0.5 * np.tanh(X[:, 1] * X[:, 2]) + 0.3 * rng.standard_t(3, n_rows)
    return X, y


def table_of(name: str) -> tuple[Float64Array, Float64Array]:
    """Return the rows and targets of a table."""
    if name in SYNTHETIC:
        return synthetic(name)
    with np.load(Path(os.environ["QUADFEAT_DATA"]) / f"{name}.npz") as file:
        return file["X"].astype(np.float64), file["y"].astype(np.float64)


def splits_of(name: str, n_splits: int) -> Iterator[tuple[Any, ...]]:
    """Yield standardized rows and targets, for training and for testing."""
    X, y = table_of(name)
    for seed in range(n_splits):
        share = max(TEST_SHARE, LEAST_TEST_ROWS / len(X))
        test = np.random.default_rng(seed).random(len(X)) < share
        scaler = StandardScaler().fit(X[~test])
        rows, targets = scaler.transform(X[~test]), y[~test]
        if name == "copies":
            rows, targets = np.tile(rows, (2, 1)), np.tile(targets, 2)
        yield rows, targets, scaler.transform(X[test]), y[test]


def compare(names: list[str], n_splits: int, n_components: int) -> Table:
    """Return a table of differences to alpha=1."""
    table = Table("alpha", ["table", "alpha", "R2 of 1", "worst", "mean"], first_width=12)
    table.start(f"R2 minus that of alpha=1, {n_splits} splits")
    for name in names:
        scores: dict[Any, list[float]] = {}
        for seed, (X, y, X_test, y_test) in enumerate(splits_of(name, n_splits)):
            for alpha in (1.0, *CRITERIA):
                model = QuadratureRidge(
                    "gaussian", n_components=n_components, alpha=alpha, random_state=seed
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # warnings about misled criteria
                    model.fit(X, y)
                scores.setdefault(alpha, []).append(model.score(X_test, y_test))
        plain = np.array(scores[1.0])
        for alpha in CRITERIA:
            gains = np.array(scores[alpha]) - plain
            table.add(
                name, alpha, f"{plain.mean():.3f}", f"{gains.min():+.4f}", f"{gains.mean():+.4f}"
            )
    return table


def time_fits(columns: list[int], rows: list[int]) -> Table:
    """Return a table of the seconds that fits take."""
    table = Table("alpha-fits", ["columns", "rows", "1", *CRITERIA, "evidence, stream"])
    table.start("Seconds of fit")
    rng = np.random.default_rng(0)
    for n_rows in rows:
        X = rng.standard_normal((n_rows, 10))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n_rows)
        for n_components in columns:
            cells = []
            for alpha in (1.0, *CRITERIA, "stream"):
                given = "evidence" if alpha == "stream" else alpha
                model = QuadratureRidge(
                    "gaussian", n_components=n_components, alpha=given, random_state=0
                )
                start = time.perf_counter()
                if alpha == "stream":
                    model.fit(
                        (X[i : i + 10_000], y[i : i + 10_000]) for i in range(0, n_rows, 10_000)
                    )
                else:
                    model.fit(X, y)
                cells.append(f"{time.perf_counter() - start:.1f}")
            table.add(str(n_components), str(n_rows), *cells)
    return table


def main() -> None:
    """Print a table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = TABLES if "QUADFEAT_DATA" in os.environ else []
    parser.add_argument("--tables", nargs="+", default=[*SYNTHETIC, *known])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--components", type=int, default=1024)
    parser.add_argument("--fits", action="store_true", help="print seconds of fits instead")
    parser.add_argument("--columns", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--out", type=Path, help="folder for a CSV file")
    options = parser.parse_args()
    if options.fits:
        table = time_fits(options.columns, options.rows)
    else:
        table = compare(options.tables, options.splits, options.components)
    if options.out is not None:
        table.write(options.out)


if __name__ == "__main__":
    main()
