"""The experiments: functions that turn a cell of the study into tidy rows."""

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
    KERNEL_SVM,
    METHODS,
    PAPER_RULE,
    RBF_SAMPLER,
    TOO_WIDE,
    make_kernel,
    walltime_map,
)

Row = dict[str, Any]

FEWEST_ROWS = 100  # for the accuracy experiment
MOST_ITERATIONS = 1000  # of a linear model
CHOOSING_SECONDS = 0.2  # typical time of rule="auto", measured on nine datasets
FEWEST_OTHERS = 10  # unused rows that rule="auto" needs
NO_BLOCKS = 0  # n of a reference without features


@dataclass(frozen=True)
class Cell:
    """One measurement: a point of a figure."""

    experiment: str
    dataset: str  # for walltime: the dimension
    kernel: str
    method: str
    n: int  # blocks of features, or NO_BLOCKS

    def __str__(self) -> str:
        words = [self.dataset, self.kernel, self.method]
        if self.n != NO_BLOCKS:
            words.append(f"n = {self.n}")
        return f"{self.experiment}: {', '.join(words)}"


@dataclass(frozen=True)
class Effort:
    """The effort for each cell. Everything that changes a number is here or in the cell."""

    seed: int = 0
    seconds: float = 0.06  # target for a kernel-error cell; sets the number of runs
    headline_seconds: float = 0.12  # the same for the paper's rule, which needs more certainty
    skip_beyond: float = 0.3  # seconds; longer cells are skipped
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
    accuracy_rows=70000,  # all rows of every dataset
    exact_rows=4000,
    timing_rows=512,
    timing_repeats=15,
)


class Skipped(Exception):
    """Signal that a cell cannot run. The report shows the message as the reason."""


def kernel_error(cell: Cell, effort: Effort) -> list[Row]:
    """Return relative Frobenius errors for several samples of rows and several maps each."""
    data = _load(cell.dataset, effort.data_dir)
    method = METHODS[cell.method]
    _check_can_run(cell, data.d)
    rows = []
    for draw in range(n_draws(cell, data, effort)):
        problem = _problem(cell.dataset, cell.kernel, draw, effort)
        chosen = None
        for k in range(effort.maps_per_draw):
            seed = _seed(effort.seed, cell.dataset, cell.kernel, method.alias, cell.n, draw, k)
            features = method.features(cell.kernel, data.d, cell.n, seed)
            if chosen is not None:  # choosing a rule takes longer than drawing another map
                features.set_params(rule=chosen)
            features.fit(problem.others)
            chosen = features.rule_ if method.chooses else None
            if method.estimate == "kernel":
                gram = features.approximate_kernel(problem.left, problem.right)
            else:
                gram = features.transform(problem.left) @ features.transform(problem.right).T
            difference = np.linalg.norm(gram - problem.exact)
            error = float(difference / np.linalg.norm(problem.exact))
            found = {"draw": draw, "map": k, "error": error, "as_published": data.as_published}
            rows.append({**asdict(cell), **found})
    return rows


def n_draws(cell: Cell, data: Dataset, effort: Effort) -> int:
    """Return the number of samples of rows that fit into the time for a cell."""
    seconds = effort.maps_per_draw * _seconds_per_map(cell, data)
    needed = effort.fewest_draws * seconds
    if needed > effort.skip_beyond:
        raise Skipped(f"the smallest meaningful number of runs takes about {needed:.1g} seconds")
    allowed = effort.headline_seconds if cell.method == PAPER_RULE else effort.seconds
    if METHODS[cell.method].chooses:
        seconds += CHOOSING_SECONDS
    return int(np.clip(allowed / seconds, effort.fewest_draws, effort.most_draws))


def _seconds_per_map(cell: Cell, data: Dataset) -> float:
    """Estimate how long one run takes. The estimate is the same on every machine."""
    method = METHODS[cell.method]
    nodes, rows = 2 * cell.n * (data.d + 1), 2 * data.sample
    columns = nodes * (2 if cell.kernel == "gaussian" else 1)
    seconds = 2e-3 + rows * columns * (0.25 * rows / 1.5e10 + 5e-9)
    if not (method.fast or method.chooses):
        seconds += nodes * data.d * (1e-7 + rows * 2 / 2e10)
    if method.decomposes:
        seconds += nodes * 3 * data.d**2 / 2e10
    return seconds


def accuracy(cell: Cell, effort: Effort) -> list[Row]:
    """Return test scores of a linear model on features, or of the kernel SVM.

    Every contestant chooses ``C`` in the same way: by the best score of a grid on training rows
    that are held out. That best score, ``validation_score``, also ranks methods, so that test rows
    choose nothing.
    """
    data = _load(cell.dataset, effort.data_dir)
    if len(data.X) < FEWEST_ROWS:
        raise Skipped(f"{len(data.X)} rows are too few to split into training and test rows")
    if data.d >= TOO_WIDE:
        raise Skipped(f"linear models take hours on features of {data.d} columns")
    if len(data.X) > 50 * effort.accuracy_rows:
        raise Skipped("--quick would use too small a part of the rows: run with --full")
    if cell.method != KERNEL_SVM:
        _check_can_run(cell, data.d)
    rows = []
    for k in range(effort.accuracy_seeds):
        seed = _seed(effort.seed, cell.dataset, "split", k)
        X_train, X_test, y_train, y_test = _split(data, effort, seed)
        if cell.method == KERNEL_SVM:
            X_train, y_train = X_train[: effort.exact_rows], y_train[: effort.exact_rows]
            machine = _kernel_svm(data, cell.kernel)
        else:
            method = METHODS[cell.method]
            map_seed = _seed(effort.seed, cell.dataset, cell.kernel, method.alias, cell.n, k)
            features = method.features(cell.kernel, data.d, cell.n, map_seed)
            X_train = features.fit(X_train).transform(X_train)
            X_test = features.transform(X_test)
            machine = _linear_machine(data, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the rows report convergence
            C, validation_score = _choose_C(machine, X_train, y_train, seed)
            fitted = machine(C).fit(X_train, y_train)
        found = {
            "split": k,
            "C": C,
            "train_rows": len(X_train),
            "converged": _has_converged(fitted),
            "validation_score": validation_score,
            "score": float(fitted.score(X_test, y_test)),
        }
        rows.append({**asdict(cell), **found})
    return rows


def walltime(cell: Cell, effort: Effort) -> list[Row]:
    """Return the time of the explicit map and the size of its state."""
    d = int(cell.dataset)
    if cell.method != RBF_SAMPLER:
        _check_can_run(cell, d)
    X = np.random.default_rng(0).standard_normal((effort.timing_rows, d))
    features = walltime_map(cell.method, d, effort.seed)
    start = time.perf_counter()
    features.fit(X)
    fit_seconds = time.perf_counter() - start
    Z = features.transform(X)  # warm-up: the first call compiles and fills caches
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


def _check_can_run(cell: Cell, d: int) -> None:
    """Raise ``Skipped`` if the method does not support the kernel or the dimension."""
    reason = METHODS[cell.method].why_not(cell.kernel, d)
    if reason is not None:
        raise Skipped(reason)


def _seed(*parts: object) -> int:
    """Return a seed that depends on all parts and nothing else."""
    return zlib.crc32("/".join(map(str, parts)).encode())


@lru_cache(maxsize=2)
def _load(name: str, data_dir: str | None) -> Dataset:
    return load(name, Path(data_dir) if data_dir else None)


@dataclass(frozen=True)
class _Problem:
    """Two samples of rows, their exact kernel matrix, and other rows of the same dataset."""

    left: Float64Array
    right: Float64Array
    exact: Float64Array
    others: Float64Array


@lru_cache(maxsize=128)
def _problem(name: str, kernel: str, draw: int, effort: Effort) -> _Problem:
    """Return the same problem for every method and n."""
    data = _load(name, effort.data_dir)
    rng = np.random.default_rng(_seed(effort.seed, name, "rows", draw))
    left, right = (rng.choice(data.n_train, data.sample, replace=False) for _ in range(2))
    # rule="auto" chooses on rows whose error is not measured, if there are enough of them.
    unused = np.setdiff1d(np.arange(data.n_train), np.union1d(left, right))
    others = rng.permutation(unused)[: data.sample] if len(unused) >= FEWEST_OTHERS else left
    exact = make_kernel(kernel, data.d)(data.X[left], data.X[right])
    return _Problem(data.X[left], data.X[right], exact, data.X[others])


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


def _kernel_svm(data: Dataset, kernel: str) -> Callable[[float], Any]:
    exact = make_kernel(kernel, data.d)
    machine = SVC if data.task == "classification" else SVR
    return lambda C: machine(kernel=exact, C=C)


def _linear_machine(data: Dataset, seed: int) -> Callable[[float], Any]:
    if data.task == "classification":
        return lambda C: LinearSVC(
            C=C, dual="auto", random_state=seed, max_iter=MOST_ITERATIONS, tol=1e-3
        )
    # The primal solver needs a smooth loss: squared, not absolute.
    return lambda C: LinearSVR(
        C=C,
        loss="squared_epsilon_insensitive",
        dual=False,
        random_state=seed,
        max_iter=MOST_ITERATIONS,
    )


def _choose_C(
    machine: Callable[[float], Any], X: Array, y: Array, seed: int
) -> tuple[float, float]:
    """Return the best of a grid on held-out rows, and its score there."""
    size = min(len(X), 1500)
    X_fit, X_held, y_fit, y_held = train_test_split(
        X[:size], y[:size], test_size=0.3, random_state=seed
    )
    grid = (0.1, 1.0, 10.0, 100.0)
    scores = [machine(C).fit(X_fit, y_fit).score(X_held, y_held) for C in grid]
    best = int(np.argmax(scores))
    return grid[best], float(scores[best])
