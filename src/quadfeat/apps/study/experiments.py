"""The experiments: each a function from a cell of the study to tidy rows."""

from __future__ import annotations

import pickle
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.apps.study.data import Dataset, load
from quadfeat.apps.study.methods import (
    METHODS,
    RBF_SAMPLER,
    TOO_WIDE,
    make_kernel,
    walltime_map,
)

Row = dict[str, Any]

HEADLINE = "B"
FEWEST_ROWS = 100  # of the accuracy study
MOST_ITERATIONS = 1000  # of a linear machine
EXACT = "exact kernel"  # the ceiling of the accuracy study


@dataclass(frozen=True)
class Cell:
    """One point of one figure."""

    experiment: str
    dataset: str  # for walltime: the width
    kernel: str
    method: str
    n: int

    def __str__(self) -> str:
        return f"{self.experiment}: {self.dataset}, {self.kernel}, {self.method}, n = {self.n}"


@dataclass(frozen=True)
class Effort:
    """How much is spent on a cell. Everything that changes a number is here or in the cell."""

    seed: int = 0
    seconds: float = 0.06  # about what a kernel-error cell may take; sets the number of runs
    headline_seconds: float = 0.12  # the same for the paper's method, whose agreement is the point
    skip_beyond: float = 0.3  # seconds; cells that would take longer are left out
    fewest_draws: int = 3
    most_draws: int = 100
    maps_per_draw: int = 2
    accuracy_seeds: int = 2
    accuracy_rows: int = 500
    exact_rows: int = 1000
    timing_rows: int = 256
    timing_repeats: int = 5
    data_dir: str | None = None


QUICK = Effort()
FULL = Effort(
    seconds=3.0,
    headline_seconds=12.0,
    skip_beyond=40.0,
    fewest_draws=4,
    accuracy_seeds=3,
    accuracy_rows=70000,  # all of every set
    exact_rows=4000,
    timing_rows=512,
    timing_repeats=15,
)


class Skipped(Exception):
    """A cell that is not run, for a reason that the report shows."""


def kernel_error(cell: Cell, effort: Effort) -> list[Row]:
    """Return relative Frobenius errors over draws of rows, and over maps for each of them."""
    data = _load(cell.dataset, effort.data_dir)
    method = METHODS[cell.method]
    _refuse(cell, data.d)
    draws = n_draws(cell, data, effort)
    rows = []
    for draw in range(draws):
        left, right, exact = _problem(cell.dataset, cell.kernel, draw, effort)
        norm = np.linalg.norm(exact)
        for k in range(effort.maps_per_draw):
            seed = _seed(effort.seed, cell.dataset, cell.kernel, cell.method, cell.n, draw, k)
            features = method.features(cell.kernel, data.d, cell.n, seed).fit(left)
            if method.estimate == "kernel":
                gram = features.approximate_kernel(left, right)
            else:
                gram = features.transform(left) @ features.transform(right).T
            error = float(np.linalg.norm(gram - exact) / norm)
            found = {"draw": draw, "map": k, "error": error, "as_published": data.as_published}
            rows.append({**asdict(cell), **found})
    return rows


def n_draws(cell: Cell, data: Dataset, effort: Effort) -> int:
    """Return how many samples of rows fit into the time that a cell may take."""
    seconds = effort.maps_per_draw * _seconds_a_map(cell, data)
    needed = effort.fewest_draws * seconds
    if needed > effort.skip_beyond:
        raise Skipped(f"left out: about {needed:.1g} seconds for the fewest runs that make sense")
    allowed = effort.headline_seconds if cell.method == HEADLINE else effort.seconds
    return int(np.clip(allowed / seconds, effort.fewest_draws, effort.most_draws))


def _seconds_a_map(cell: Cell, data: Dataset) -> float:
    """Return about how long one run takes, the same on every machine."""
    method = METHODS[cell.method]
    nodes, rows = 2 * cell.n * (data.d + 1), 2 * data.sample
    columns = nodes * (2 if cell.kernel == "gaussian" else 1)
    seconds = 2e-3 + rows * columns * (0.25 * rows / 1.5e10 + 5e-9)
    if method.time == "d^2":
        seconds += nodes * data.d * (1e-7 + rows * 2 / 2e10)
    if method.decomposes:
        seconds += nodes * 3 * data.d**2 / 2e10
    return seconds


def accuracy(cell: Cell, effort: Effort) -> list[Row]:
    """Return test scores of a linear machine on features, or of the exact kernel machine.

    ``C`` is chosen for each of them in the same way: the best of a grid on a part of the training
    rows that is held out, after training on a subsample.
    """
    data = _load(cell.dataset, effort.data_dir)
    if len(data.X) < FEWEST_ROWS:
        raise Skipped(f"{len(data.X)} rows are too few to train on some and test on others")
    if data.d >= TOO_WIDE:
        raise Skipped(f"linear machines take hours on features of rows with {data.d} columns")
    if len(data.X) > 50 * effort.accuracy_rows:
        raise Skipped("left out of --quick: the sample would be a small part of so many rows")
    if cell.method != EXACT:
        _refuse(cell, data.d)
    rows = []
    for k in range(effort.accuracy_seeds):
        seed = _seed(effort.seed, cell.dataset, "split", k)
        X_train, X_test, y_train, y_test = _split(data, effort, seed)
        if cell.method == EXACT:
            X_train, y_train = X_train[: effort.exact_rows], y_train[: effort.exact_rows]
            machine = _exact_machine(data, cell.kernel)
        else:
            map_seed = _seed(effort.seed, cell.dataset, cell.kernel, cell.method, cell.n, k)
            features = METHODS[cell.method].features(cell.kernel, data.d, cell.n, map_seed)
            X_train = features.fit(X_train).transform(X_train)
            X_test = features.transform(X_test)
            machine = _linear_machine(data, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is a column of the rows
            C = _choose_C(machine, X_train, y_train, seed)
            fitted = machine(C).fit(X_train, y_train)
        found = {
            "split": k,
            "C": C,
            "train_rows": len(X_train),
            "converged": _has_converged(fitted),
            "score": float(fitted.score(X_test, y_test)),
        }
        rows.append({**asdict(cell), **found})
    return rows


def walltime(cell: Cell, effort: Effort) -> list[Row]:
    """Return times of the explicit map, and the size of its state."""
    d = int(cell.dataset)
    if cell.method != RBF_SAMPLER:
        _refuse(cell, d)
    X = np.random.default_rng(0).standard_normal((effort.timing_rows, d))
    features = walltime_map(cell.method, d, effort.seed)
    start = time.perf_counter()
    features.fit(X)
    fit_seconds = time.perf_counter() - start
    Z = features.transform(X)  # once for nothing: what is compiled or cached
    best = np.inf
    for _ in range(effort.timing_repeats):
        start = time.perf_counter()
        features.transform(X)
        best = min(best, time.perf_counter() - start)
    return [
        {
            **asdict(cell),
            "d": d,
            "rows": effort.timing_rows,
            "columns": Z.shape[1],
            "fit_seconds": fit_seconds,
            "seconds": best,
            "bytes": len(pickle.dumps(features)),
        }
    ]


EXPERIMENTS: dict[str, Callable[[Cell, Effort], list[Row]]] = {
    "kernel-error": kernel_error,
    "accuracy": accuracy,
    "walltime": walltime,
}


def _refuse(cell: Cell, d: int) -> None:
    reason = METHODS[cell.method].refusal(cell.kernel, d)
    if reason is not None:
        raise Skipped(reason)


def _seed(*parts: object) -> int:
    """Return a seed that depends on all parts and on nothing else."""
    return zlib.crc32("/".join(map(str, parts)).encode())


@lru_cache(maxsize=2)
def _load(name: str, data_dir: str | None) -> Dataset:
    return load(name, Path(data_dir) if data_dir else None)


@lru_cache(maxsize=128)
def _problem(
    name: str, kernel: str, draw: int, effort: Effort
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return two samples of rows and their kernel, the same for every method and n."""
    data = _load(name, effort.data_dir)
    rng = np.random.default_rng(_seed(effort.seed, name, "rows", draw))
    left, right = (data.X[rng.choice(data.n_train, data.sample, replace=False)] for _ in range(2))
    return left, right, make_kernel(kernel, data.d)(left, right)


def _split(data: Dataset, effort: Effort, seed: int) -> list[Array]:
    size = min(len(data.X), effort.accuracy_rows)
    stratify = data.y if data.task == "classification" else None
    X, y = data.X, data.y
    if size < len(X):
        X, _, y, _ = train_test_split(X, y, train_size=size, random_state=seed, stratify=stratify)
        stratify = y if stratify is not None else None
    if data.task == "regression":
        y = (y - y.mean()) / y.std()
    return list(train_test_split(X, y, test_size=0.25, random_state=seed, stratify=stratify))


def _has_converged(machine: Any) -> bool:
    if isinstance(machine, (SVC, SVR)):
        return bool(machine.fit_status_ == 0)
    return bool(np.max(machine.n_iter_) < MOST_ITERATIONS)


def _exact_machine(data: Dataset, kernel: str) -> Callable[[float], Any]:
    exact = make_kernel(kernel, data.d)
    machine = SVC if data.task == "classification" else SVR
    return lambda C: machine(kernel=exact, C=C)


def _linear_machine(data: Dataset, seed: int) -> Callable[[float], Any]:
    if data.task == "classification":
        return lambda C: LinearSVC(
            C=C, dual="auto", random_state=seed, max_iter=MOST_ITERATIONS, tol=1e-3
        )
    # In the primal, which has a smooth loss only without the absolute value.
    return lambda C: LinearSVR(
        C=C,
        loss="squared_epsilon_insensitive",
        dual=False,
        random_state=seed,
        max_iter=MOST_ITERATIONS,
    )


def _choose_C(machine: Callable[[float], Any], X: Array, y: Array, seed: int) -> float:
    """Return the best of a grid on rows that are held out."""
    size = min(len(X), 1500)
    X_fit, X_held, y_fit, y_held = train_test_split(
        X[:size], y[:size], test_size=0.3, random_state=seed
    )
    grid = (0.1, 1.0, 10.0, 100.0)
    scores = [machine(C).fit(X_fit, y_fit).score(X_held, y_held) for C in grid]
    return grid[int(np.argmax(scores))]
