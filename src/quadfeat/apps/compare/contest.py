"""Run the comparison: one cell for each model and fold, a pure function of its configuration."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from quadfeat import QuadratureFeatures
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.apps.compare import boosting, fitting
from quadfeat.apps.compare.columns import Column, preparation
from quadfeat.apps.compare.contestants import (
    BOOSTERS,
    EXACT,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    NYSTROEM,
    OURS,
    RBF_SAMPLER,
)
from quadfeat.apps.compare.measuring import PeakMemory, cpu_seconds
from quadfeat.apps.compare.nystroem import nystroem
from quadfeat.apps.compare.scoring import METRICS, Coding, Metric, Prediction, Scoring, metrics_of
from quadfeat.apps.reporting.processes import run_in_processes
from quadfeat.apps.reporting.text import printable
from quadfeat.kernels import ArcCosine, Gaussian, Kernel, Matern

Row = dict[str, Any]
Stage = Literal["kernel", "rule", "contest"]

DEFAULT_RULE = "auto"
RULES = (DEFAULT_RULE, "sr33", "orf", "rom", "sobol", "rff")
DENSE_RULES = ("orf", "sobol", "rff")  # rules that store a dense matrix
WIDE = 2000  # from this number of columns on, dense rules are skipped

CHOICE_COMPONENTS = 512  # features for choosing a kernel and a rule
CHOICE_ROWS = 4000  # training rows for choosing a kernel
ERROR_ROWS = 500  # rows for measuring the kernel error
FEWEST_COMPONENTS = 128


@dataclass(frozen=True)
class Cell:
    """One model on one fold, or one random draw of a rule."""

    stage: Stage
    contestant: str
    fold: int
    kernel: Kernel | None = None
    n_components: int = 0
    rule: str = DEFAULT_RULE


@dataclass(frozen=True)
class Fold:
    """Training and test rows as numbers.

    Attributes
    ----------
    X_train, X_test : ndarray
        Prepared columns.
    y_train, y_test : ndarray
    raw_train, raw_test : DataFrame
        Columns as they are in the file.
    """

    X_train: Float64Array
    X_test: Float64Array
    y_train: Array
    y_test: Array
    raw_train: pd.DataFrame
    raw_test: pd.DataFrame


@dataclass(eq=False)
class Problem:
    """The data of the comparison, and its settings.

    Attributes
    ----------
    rows : DataFrame
        Tidy columns: numbers, and categories as strings.
    y : ndarray of shape (n_rows,)
    columns : list of Column
    scoring : str
    folds, exact_rows, max_components, seed : int
        Options of the command.
    raw : DataFrame, default=None
        Columns as they are in the file. None means ``rows``.
    """

    rows: pd.DataFrame
    y: Array
    columns: list[Column]
    scoring: Scoring
    folds: int = 5
    exact_rows: int = 2000
    max_components: int = 2048
    seed: int = 0
    raw: pd.DataFrame | None = None
    _prepared: dict[int, Fold] = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        """The score that ranks models."""
        return METRICS[self.scoring]

    @property
    def n_train(self) -> int:
        """The smallest number of training rows of a fold."""
        return len(self.y) - -(-len(self.y) // self.folds)

    def fold(self, k: int) -> Fold:
        """Return a fold. Only the last one is cached, since cells come fold by fold."""
        if k not in self._prepared:
            self._prepared.clear()
            train, test = np.flatnonzero(self._tested_in != k), np.flatnonzero(self._tested_in == k)
            # Shuffle, so that the first rows are a random sample.
            train = np.random.default_rng(seed_of(self.seed, "order", k)).permutation(train)
            parts = self.rows.iloc[train], self.rows.iloc[test]
            prepare = preparation(self.columns).fit(parts[0])
            raw = self.rows if self.raw is None else self.raw
            self._prepared[k] = Fold(
                prepare.transform(parts[0]),
                prepare.transform(parts[1]),
                self.y[train],
                self.y[test],
                raw.iloc[train],
                raw.iloc[test],
            )
        return self._prepared[k]

    @cached_property
    def _tested_in(self) -> Array:
        """The fold in which each row is tested."""
        splitter = (KFold if self.metric.task == "regression" else StratifiedKFold)(
            self.folds, shuffle=True, random_state=self.seed
        )
        tested_in = np.empty(len(self.y), dtype=np.intp)
        with warnings.catch_warnings():
            # A remark on the table already names classes with too few rows.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            for k, (_, test) in enumerate(splitter.split(self.rows, self.y)):
                tested_in[test] = k
        return tested_in

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_prepared": {}}


def ladder(problem: Problem) -> list[int]:
    """Return the numbers of features to try: a power of two each, up to the training rows."""
    top = 1 << (max(2, min(problem.max_components, problem.n_train)).bit_length() - 1)
    bottom = max(2, min(FEWEST_COMPONENTS, top // 16))
    return [bottom << k for k in range((top // bottom).bit_length())]


def candidate_kernels(problem: Problem) -> list[Kernel]:
    """Return the kernels to try: smooth and rough ones of several widths, and an arc-cosine."""
    return [*(kernel for grid in kernel_grids(problem).values() for kernel in grid), ArcCosine(1)]


def kernel_grids(problem: Problem) -> dict[str, list[Kernel]]:
    """Return one grid of kernels for each parameter, in ascending order of that parameter."""
    X = problem.fold(0).X_train
    length = float(np.asarray(Matern().resolve(X).length_scale))
    rough = [Matern(1.5, length_scale=_round(length * 2.0**k)) for k in range(-1, 4)]
    return {"gamma": [*candidate_gaussians(problem)], "length_scale": [*rough]}


def candidate_gaussians(problem: Problem) -> list[Gaussian]:
    """Return the Gaussian kernels to try."""
    gamma = float(np.asarray(Gaussian().resolve(problem.fold(0).X_train).gamma))
    return [Gaussian(_round(gamma * 4.0**k)) for k in range(-4, 2)]


def _round(value: float) -> float:
    """Round to two digits, which are easier to read and equally good."""
    return float(f"{value:.2g}")


def kernel_cells(problem: Problem) -> list[Cell]:
    """Return the cells for choosing a kernel."""
    columns = min(CHOICE_COMPONENTS, ladder(problem)[-1])
    kernels = candidate_kernels(problem)
    return [
        Cell("kernel", OURS, fold, kernel, columns)
        for fold in range(problem.folds)
        for kernel in kernels
    ]


def rule_cells(problem: Problem, kernel: Kernel) -> list[Cell]:
    """Return the cells for choosing a rule."""
    columns = min(CHOICE_COMPONENTS, ladder(problem)[-1])
    wide = problem.fold(0).X_train.shape[1] >= WIDE
    rules = [rule for rule in RULES if not (wide and rule in DENSE_RULES)]
    return [
        Cell("rule", OURS, fold, kernel, columns, rule)
        for fold in range(problem.folds)
        for rule in rules
    ]


def contest_cells(problem: Problem, kernel: Kernel, gaussian: Gaussian, rule: str) -> list[Cell]:
    """Return the cells of the comparison itself. RBFSampler supports Gaussian kernels only."""
    kernels = {OURS: kernel, NYSTROEM: kernel, RBF_SAMPLER: gaussian}
    cells = []
    for fold in range(problem.folds):
        cells += [
            Cell("contest", who, fold) for who in (GUESS, LINEAR, MODEL, *boosting.boosters())
        ]
        cells.append(Cell("contest", EXACT, fold, kernel))
        cells += [
            Cell("contest", who, fold, kernels[who], columns, rule if who == OURS else "")
            for columns in reversed(ladder(problem))
            for who in MAPS
        ]
    return cells


def run(problem: Problem, cells: Sequence[Cell], jobs: int) -> Generator[Row, None, None]:
    """Run cells in processes, and yield the row of each cell when it finishes."""
    work = partial(run_cell, problem)
    if jobs == 1:
        yield from map(work, cells)
    else:
        yield from run_in_processes(
            work,
            cells,
            jobs,
            lambda cell: _row(problem, cell, failed="the process died, perhaps out of memory"),
        )


def run_cell(problem: Problem, cell: Cell) -> Row:
    """Run a cell on one thread, so that times are comparable, and return its row."""
    if cell.contestant in BOOSTERS:
        # Import first: threads can be limited only in loaded libraries, and an import is no fit.
        boosting.load(cell.contestant)
    with threadpool_limits(1), warnings.catch_warnings():
        # The error of the rule is measured, so its warning is not needed.
        warnings.filterwarnings("ignore", ".* infinite variance", UserWarning)
        try:
            if cell.stage == "rule":
                return _row(problem, cell, **_rule_error(problem, cell))
            return _row(problem, cell, **_contest(problem, cell))
        except (ValueError, ArithmeticError, MemoryError) as error:
            text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
            return _row(problem, cell, failed=text if len(text) <= 200 else f"{text[:200]} ...")


NAME = ("stage", "contestant", "kernel", "rule", "D", "fold")  # the columns that identify a row


def name(cell: Cell) -> tuple[Any, ...]:
    """Return the values that identify the row of a cell."""
    kernel = "" if cell.kernel is None else repr(cell.kernel)
    rule = cell.rule if cell.contestant == OURS else ""
    return cell.stage, cell.contestant, kernel, rule, cell.n_components, cell.fold


def _row(problem: Problem, cell: Cell, **found: Any) -> Row:
    return {
        **dict(zip(NAME, name(cell), strict=True)),
        "score": np.nan,
        **{metric.column: np.nan for metric in metrics_of(problem.metric.task)},
        "kernel_error": np.nan,
        "fit_cpu_seconds": np.nan,
        "predict_cpu_seconds": np.nan,
        "peak_memory_mb": np.nan,
        "alpha": np.nan,
        "choice": "",
        "train_rows": 0,
        "test_rows": 0,
        "failed": "",
        **found,
    }


def _rule_error(problem: Problem, cell: Cell) -> Row:
    """Return the kernel error of a rule, on the same rows for all rules of a fold."""
    assert cell.kernel is not None
    fold = problem.fold(cell.fold)
    transform = _map(problem, cell).fit(fold.X_train).transform
    rng = np.random.default_rng(seed_of(problem.seed, "error", cell.fold))
    return {"kernel_error": relative_error(transform, cell.kernel, fold.X_train, rng)}


def _contest(problem: Problem, cell: Cell) -> Row:
    """Train and test a model on a fold."""
    fold = problem.fold(cell.fold)
    X: Any = fold.X_train
    y = fold.y_train
    if cell.stage == "kernel":
        X, y = X[:CHOICE_ROWS], y[:CHOICE_ROWS]
    elif cell.contestant == EXACT:
        X, y = X[: problem.exact_rows], y[: problem.exact_rows]
    coding = Coding(problem.scoring, y)
    found: Row = {"train_rows": len(X), "test_rows": len(fold.X_test)}
    if cell.contestant == GUESS:
        return {**found, **_scores(problem, coding, coding.guess(len(fold.X_test)), fold)}
    X_test: Any = fold.X_test
    if cell.contestant == MODEL:
        X, X_test = fold.raw_train, fold.raw_test
    memory = PeakMemory()
    start = cpu_seconds()
    fit, transform = _fit(problem, cell, X, y, coding)
    middle = cpu_seconds()
    values = fit.predict(X_test)
    end = cpu_seconds()
    found["fit_cpu_seconds"], found["predict_cpu_seconds"] = middle - start, end - middle
    found["peak_memory_mb"] = memory.megabytes()
    probabilities = None
    if coding.task == "classification" and fit.probabilities is not None:
        probabilities = fit.probabilities(X_test)
    found.update(_scores(problem, coding, Prediction(values, probabilities), fold))
    found["alpha"], found["choice"] = fit.alpha, fit.choice
    if cell.contestant in MAPS:
        assert cell.kernel is not None
        rng = np.random.default_rng(seed_of(problem.seed, "error", cell.fold))
        found["kernel_error"] = relative_error(transform, cell.kernel, fold.X_test, rng)
    return found


def _scores(problem: Problem, coding: Coding, predicted: Prediction, fold: Fold) -> Row:
    """Return all metrics, and the one that ranks models as the score."""
    scores = coding.scores(predicted, fold.y_test)
    return {"score": scores[problem.metric.column], **scores}


def _fit(
    problem: Problem, cell: Cell, X: Any, y: Array, coding: Coding
) -> tuple[fitting.Fit, Callable[[Array], Array]]:
    """Return a fitted model, and its map from rows to features."""
    transform: Callable[[Array], Array] = _identity
    seed = seed_of(problem.seed, cell.contestant, cell.fold)
    if cell.contestant == MODEL:
        fit = fitting.fit_default(X, y, coding.task, balanced=coding.balanced, seed=seed)
    elif cell.contestant in BOOSTERS:
        fit = fitting.fit_booster(
            cell.contestant, X, y, coding.task, balanced=coding.balanced, seed=seed
        )
    elif cell.contestant == EXACT:
        assert cell.kernel is not None
        fit = fitting.fit_exact(cell.kernel, X, coding.Y, coding.weights)
    elif cell.contestant == OURS:
        features = _map(problem, cell).fit(X)
        transform = features.transform
        labels = y if coding.task == "classification" else None
        fit = fitting.fit_quadrature(features, X, coding.Y, coding.weights, labels)
    else:
        if cell.contestant != LINEAR:
            transform = _map(problem, cell).fit(X).transform
        fit = fitting.fit_linear(transform, X, coding.Y, coding.weights)
    return fit, transform


def _identity(X: Array) -> Array:
    return X


def _map(problem: Problem, cell: Cell) -> Any:
    """Return the unfitted feature map of a model."""
    columns, seed = cell.n_components, seed_of(problem.seed, cell.contestant, cell.fold)
    kernel = cell.kernel
    assert kernel is not None
    if cell.contestant == OURS:
        return QuadratureFeatures(kernel, n_components=columns, rule=cell.rule, random_state=seed)
    if cell.contestant == RBF_SAMPLER:  # the kernel is Gaussian
        gamma = kernel.get_params()["gamma"]
        return RBFSampler(gamma=gamma, n_components=columns, random_state=seed)
    return nystroem(kernel, n_components=columns, random_state=seed)


def relative_error(
    transform: Callable[[Array], Array], kernel: Kernel, X: Array, rng: np.random.Generator
) -> float:
    """Return the relative Frobenius error of the kernel matrix on a sample of rows.

    Parameters
    ----------
    transform : callable
        Maps rows to features.
    kernel : Kernel
        The kernel that the inner products of features approximate.
    X : ndarray of shape (n_rows, n_columns)
    rng : numpy.random.Generator
        Draws the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> features = QuadratureFeatures(Gaussian(0.1), n_components=500, random_state=0).fit(X)
    >>> relative_error(features.transform, Gaussian(0.1), X, np.random.default_rng(0)) < 0.05
    True
    """
    sample = X[rng.permutation(len(X))[:ERROR_ROWS]]
    features, exact = transform(sample), kernel(sample)
    return float(np.linalg.norm(features @ features.T - exact) / np.linalg.norm(exact))


def seed_of(*parts: object) -> int:
    """Return a seed that depends on all parts and nothing else."""
    return zlib.crc32("/".join(map(str, parts)).encode())
