"""Measure solvers in CPU seconds on one thread, to compare two versions of quadfeat.

    QUADFEAT_DATA=folder OPENBLAS_NUM_THREADS=1 python benchmarks/solvers.py
        [decompositions paths fits syrk cg ranks] [--columns 4096] [--rows 20000] [--repeats 2]

``decompositions`` compares a banded matrix with eigenvectors. ``paths`` chooses alpha by each
criterion with a given kernel, and compares this with ``alpha=1``. ``fits`` fits the default model,
which searches for a kernel. ``syrk`` compares a fit with the product of the features alone. ``cg``
times conjugate gradients. ``ranks`` compares the rank that they choose with given ones.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import blas
from sklearn.preprocessing import StandardScaler

import quadfeat
from quadfeat import QuadratureRidge
from quadfeat.solvers import krylov
from quadfeat.solvers.banded import Banded
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.spectral import Spectral

PARTS = ("decompositions", "paths", "fits", "syrk", "cg", "ranks")
TABLES = ("california", "kin40k")
OPTIONS: dict[str, Any] = {"random_state": 0, "n_jobs": 1}


def seconds_of(work: Callable[[], Any], repeats: int) -> float:
    """Return the fewest CPU seconds of several runs."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def rows_of(name: str, n_rows: int) -> Any:
    """Return up to this many random standardized rows of a table, and their targets."""
    data = np.load(Path(os.environ["QUADFEAT_DATA"]) / f"{name}.npz")
    order = np.random.default_rng(0).permutation(len(data["y"]))[:n_rows]
    X = data["X"][order].astype(np.float32)
    return StandardScaler().fit_transform(X), data["y"][order].astype(np.float64)


def show(what: str, seconds: float, more: str = "") -> None:
    """Print a measurement."""
    print(f"{what:32s} {seconds:8.2f}  {more}", flush=True)


def time_decompositions(n_rows: int, n_columns: int, repeats: int) -> None:
    """Time both ways to transform normal equations with one output."""
    Z = np.random.default_rng(0).standard_normal((2 * n_columns, n_columns))
    gram = Z.T @ Z

    def work(kind: type[Banded] | type[Spectral]) -> None:
        system = NormalEquations(
            right=np.ones((n_columns, 1)),
            squares=np.ones(1),
            weight=1.0,
            feature_means=np.zeros(n_columns),
            target_means=np.zeros(1),
            intercept=True,
            matrix=np.array(gram, order="F"),
            gram_error=0.0,
        )
        kind.of(system)

    banded = seconds_of(lambda: work(Banded), repeats)
    spectral = seconds_of(lambda: work(Spectral), repeats)
    show("eigenvectors", spectral)
    show("banded matrix", banded, f"{banded / spectral:.2f} times eigenvectors")


def time_paths(n_rows: int, n_columns: int, repeats: int) -> None:
    """Time fits with a given kernel."""
    X, y = rows_of("california", n_rows)
    for alpha in (1.0, "auto", "loo", "gcv", "evidence"):
        model = QuadratureRidge("gaussian", n_components=n_columns, alpha=alpha, **OPTIONS)
        seconds = seconds_of(partial(model.fit, X, y), repeats)
        show(f"alpha={alpha}", seconds, f"alpha_={model.alpha_:.3g}")


def time_fits(n_rows: int, n_columns: int, repeats: int) -> None:
    """Time fits that search for a kernel, and print the score on other rows."""
    for name in TABLES:
        X, y = rows_of(name, 2 * n_rows)
        n_train = min(n_rows, 9 * len(y) // 10)
        model = QuadratureRidge(n_components=n_columns, **OPTIONS)
        train = X[:n_train], y[:n_train]
        seconds = seconds_of(partial(model.fit, *train), repeats)
        score = model.score(X[n_train:], y[n_train:])
        more = f"{model.candidates_[0].name}, alpha_={model.alpha_:.3g}, R2 {score:.4f}"
        show(f"{name}, {n_train} rows", seconds, more)


def time_syrk(n_rows: int, n_columns: int, repeats: int) -> None:
    """Compare a fit with a given alpha to the product of its features."""
    data = np.load(Path(os.environ["QUADFEAT_DATA"]) / "mnist.npz")
    X, y = data["X"][:n_rows].astype(np.float32) / 255.0, data["y"][:n_rows].astype(np.float64)
    Z = np.random.default_rng(0).random((n_rows, n_columns), dtype=np.float32)
    product = seconds_of(lambda: blas.ssyrk(1.0, Z.T), repeats)
    model = QuadratureRidge("gaussian", n_components=n_columns, alpha=1.0, **OPTIONS)
    fit = seconds_of(lambda: model.fit(X, y), repeats)
    show("ssyrk", product)
    show("fit", fit, f"{fit / product:.2f} times ssyrk")


def time_cg(n_rows: int, n_columns: int, repeats: int) -> None:
    """Time conjugate gradients with four times as many features."""
    X, y = rows_of("california", n_rows)
    model = QuadratureRidge(
        "gaussian", n_components=4 * n_columns, alpha=1.0, solver="cg", **OPTIONS
    )
    seconds = seconds_of(lambda: model.fit(X, y), repeats)
    show("cg", seconds, f"{model.n_iter_} steps")


def time_ranks(n_rows: int, n_columns: int, repeats: int) -> None:
    """Time conjugate gradients with given ranks of the preconditioner and with the chosen one."""
    chosen = krylov.FIRST_RANK, krylov.MOST_RANK
    for name in TABLES:
        X, y = rows_of(name, n_rows)
        for alpha in (1.0, 1e-2, 1e-4):
            model = QuadratureRidge(
                "gaussian", n_components=4 * n_columns, alpha=alpha, solver="cg", **OPTIONS
            )
            for ranks in (chosen, *((rank, rank) for rank in (64, 128, 256, 512))):
                krylov.FIRST_RANK, krylov.MOST_RANK = ranks
                seconds = seconds_of(partial(model.fit, X, y), repeats)
                rank = "chosen" if ranks == chosen else str(ranks[0])
                show(f"{name}, alpha={alpha:g}, rank {rank}", seconds, f"{model.n_iter_} steps")
    krylov.FIRST_RANK, krylov.MOST_RANK = chosen


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    print(f"{quadfeat.__file__}, {options.rows} rows, {options.columns} features: CPU seconds")
    work = {
        "decompositions": time_decompositions,
        "paths": time_paths,
        "fits": time_fits,
        "syrk": time_syrk,
        "cg": time_cg,
        "ranks": time_ranks,
    }
    for part in options.parts:
        work[part](options.rows, options.columns, options.repeats)


if __name__ == "__main__":
    main()
