"""Measure the times, scores and memory that the recipes of the documentation quote.

Each model runs in its own process with one thread. Times are CPU seconds. Memory is the peak beyond
the data. The tasks mnist and svm need the folder ``QUADFEAT_DATA``.

    OPENBLAS_NUM_THREADS=1 python benchmarks/recipes.py [mnist svm quantile parquet] [--out FOLDER]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import QuantileRegressor, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from learning import Data, covtype, forget_peak, memory, mnist
from quadfeat import (
    ParquetBlocks,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from quadfeat.kernels import Gaussian
from tables import Table, circumstances

MNIST_GAMMA = 0.02
SVM_ROWS = (5_000, 20_000, 80_000)
SVM_TEST_ROWS = 20_000
QUANTILE_ROWS = (1_000, 4_000, 16_000)
PARQUET_ROWS = (200_000, 1_000_000, 5_000_000)
PARQUET_COLUMNS = 10
TEST_SEED = 10**6


Score = Callable[[Any, Any, Any], float]  # from a fitted model, rows and targets


@dataclass(frozen=True)
class Cost:
    """CPU seconds, score on test rows and peak memory of one model."""

    fit: float
    predict: float
    score: float
    megabytes: float


def _own_score(model: Any, X: Any, y: Any) -> float:
    return float(model.score(X, y))


def measure(load: Callable[[], Data], model: Any, score: Score = _own_score) -> Cost:
    """Fit and score a model in a new process, so that its peak memory is its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (load, model, score))


def _measure(load: Callable[[], Data], model: Any, score: Score) -> Cost:
    data = load()
    forget_peak()
    before = memory("VmRSS")
    start = process_time()
    model.fit(data.X) if data.y is None else model.fit(data.X, data.y)
    fitted = process_time()
    scored = score(model, data.X_test, data.y_test)
    predicted = process_time()
    return Cost(fitted - start, predicted - fitted, scored, memory("VmHWM") - before)


def mnist_table() -> Table:
    """Measure classifiers of MNIST with pixels in [0, 1]."""
    quadfeat = partial(QuadratureRidgeClassifier, Gaussian(MNIST_GAMMA), alpha=0.2, random_state=0)
    sampler = RBFSampler(gamma=MNIST_GAMMA, n_components=4096, random_state=0)
    ours = "QuadratureRidgeClassifier"
    models: list[tuple[str, str, Any]] = [
        (
            "RBFSampler, RidgeClassifier",
            "4,096",
            make_pipeline(sampler, RidgeClassifier(alpha=0.2)),
        ),
        (ours, "4,096", quadfeat(n_components=4096)),
        (ours, "8,192", quadfeat(n_components=8192)),
        (ours, "20,480", quadfeat(n_components=20480)),
        ("SVC(C=10)", "", SVC(C=10, gamma=MNIST_GAMMA, cache_size=1000)),
    ]
    columns = ["model", "features", "fit, s", "predict, s", "accuracy", "memory, MB"]
    table = Table("recipes-mnist", columns, first_width=27)
    table.start("MNIST, 60,000 rows; predict: 10,000 rows")
    for name, features, model in models:
        cost = measure(mnist, model)
        table.add(
            name,
            features,
            f"{cost.fit:.0f}",
            f"{cost.predict:.2f}",
            f"{cost.score:.4f}",
            f"{cost.megabytes:.0f}",
        )
    return table


def _some_covtype(n_rows: int) -> Data:
    """Return standardized rows of covtype."""
    data = covtype(n_rows)
    return data._replace(X_test=data.X_test[:SVM_TEST_ROWS], y_test=data.y_test[:SVM_TEST_ROWS])


def svm_table() -> Table:
    """Measure exact and approximate support vector machines on more and more rows."""
    features = QuadratureFeatures(n_components=1024, random_state=0)
    models: dict[str, Any] = {
        "SVC(C=10)": SVC(C=10, cache_size=1000),
        "LinearSVC, 1,024 features": make_pipeline(features, LinearSVC()),
        "SGDClassifier, 1,024 features": make_pipeline(
            features, SGDClassifier(alpha=1e-6, random_state=0)
        ),
        "QuadratureRidgeClassifier, 4,096 features": QuadratureRidgeClassifier(
            "gaussian", n_components=4096, random_state=0
        ),
    }
    columns = ["model", "rows", "fit, s", "predict, s", "accuracy", "memory, MB"]
    table = Table("recipes-svm", columns, first_width=41)
    table.start(f"covtype, standardized, 54 columns, 7 classes; predict: {SVM_TEST_ROWS:,} rows")
    for n_rows in SVM_ROWS:
        for name, model in models.items():
            cost = measure(partial(_some_covtype, n_rows), model)
            table.add(
                name,
                f"{n_rows:,}",
                f"{cost.fit:.1f}",
                f"{cost.predict:.2f}",
                f"{cost.score:.3f}",
                f"{cost.megabytes:.0f}",
            )
    return table


def _noisy_sine(n_rows: int) -> Data:
    """Return rows of five columns, with noise that grows along the first one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (n_rows + 10_000, 5))
    y = np.sin(X[:, 0]) + (0.1 + 0.2 * abs(X[:, 0])) * rng.standard_normal(len(X))
    return Data(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def _below_prediction(model: Any, X: Any, y: Any) -> float:
    """Return the share of targets below the prediction."""
    return float(np.mean(y <= model.predict(X)))


def _below_upper_bound(model: Any, X: Any, y: Any) -> float:
    """Return the share of targets below the upper bound of 80% intervals."""
    return float(np.mean(y <= model.predict_interval(X, coverage=0.8)[1]))


def quantile_table() -> Table:
    """Measure the 90% quantile by a linear program and by intervals of a Gaussian process."""
    features = QuadratureFeatures(n_components=128, random_state=0)
    models: dict[str, tuple[Any, Score]] = {
        "QuantileRegressor(quantile=0.9)": (
            make_pipeline(features, QuantileRegressor(quantile=0.9, alpha=1e-4)),
            _below_prediction,
        ),
        "QuadratureRidge, 80% interval": (
            QuadratureRidge("gaussian", n_components=128, random_state=0),
            _below_upper_bound,
        ),
    }
    columns = ["model", "rows", "fit, s", "targets below"]
    table = Table("recipes-quantile", columns, first_width=32)
    table.start("5 columns, 128 features; the share of test targets below the 90% quantile")
    for n_rows in QUANTILE_ROWS:
        for name, (model, score) in models.items():
            cost = measure(partial(_noisy_sine, n_rows), model, score)
            table.add(name, f"{n_rows:,}", f"{cost.fit:.1f}", f"{cost.score:.3f}")
    return table


def _table(seed: int, n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, PARQUET_COLUMNS), dtype=np.float32)
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(n_rows)
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(PARQUET_COLUMNS)]).assign(y=y)


def _write_files(folder: Path, n_rows: int) -> float:
    """Write Parquet files of 200,000 rows each, and return their size in MB."""
    for part in range(n_rows // PARQUET_ROWS[0]):
        _table(part, PARQUET_ROWS[0]).to_parquet(folder / f"{part}.parquet")
    return sum(path.stat().st_size for path in folder.iterdir()) / 2**20


def _blocks(folder: Path) -> Data:
    test = _table(TEST_SEED, 10_000)
    return Data(ParquetBlocks(folder, target="y"), None, test.drop(columns="y"), test["y"])


def parquet_table() -> Table:
    """Measure a fit to Parquet files that are read block by block."""
    columns = ["rows", "files, MB", "fit, s", "R2", "memory, MB"]
    table = Table("recipes-parquet", columns, first_width=10)
    table.start(f"Parquet files of {PARQUET_COLUMNS} float32 columns, 256 features")
    for n_rows in PARQUET_ROWS:
        with TemporaryDirectory() as name:
            megabytes = _write_files(Path(name), n_rows)
            model = QuadratureRidge("gaussian", n_components=256, random_state=0)
            cost = measure(partial(_blocks, Path(name)), model)
        table.add(
            f"{n_rows:,}",
            f"{megabytes:.0f}",
            f"{cost.fit:.1f}",
            f"{cost.score:.3f}",
            f"{cost.megabytes:.0f}",
        )
    return table


TASKS: dict[str, Callable[[], Table]] = {
    "mnist": mnist_table,
    "svm": svm_table,
    "quantile": quantile_table,
    "parquet": parquet_table,
}


def main() -> None:
    """Print the tables of the chosen tasks, and write them if a folder is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", nargs="*", help=f"{', '.join(TASKS)}; all by default")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    options = parser.parse_args()
    for task in options.tasks:
        if task not in TASKS:
            parser.error(f"unknown task {task!r}: choose from {', '.join(TASKS)}")
    command = "OPENBLAS_NUM_THREADS=1 python benchmarks/recipes.py"
    tables = [circumstances("recipes-circumstances", command)]
    for task in options.tasks or TASKS:
        tables.append(TASKS[task]())
    print()
    for table in tables:
        if options.out is not None:
            table.write(options.out)


if __name__ == "__main__":
    main()
