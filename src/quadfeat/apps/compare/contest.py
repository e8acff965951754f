"""Run the comparison: one cell for each model and fold, a pure function of its configuration."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from quadfeat import TableEncoder
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.apps.compare import boosting, fitting
from quadfeat.apps.compare.contestants import BOOSTERS, EXACT, GUESS, LINEAR, MAPS, MODEL
from quadfeat.apps.compare.fitting import Fit
from quadfeat.apps.compare.measuring import PeakMemory, cpu_seconds
from quadfeat.apps.compare.scoring import METRICS, Coding, Metric, Prediction, Scoring, metrics_of
from quadfeat.apps.reporting.processes import run_in_processes
from quadfeat.apps.reporting.text import printable

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One model on one fold."""

    contestant: str
    fold: int


@dataclass(frozen=True)
class Fold:
    """Training and test rows.

    Attributes
    ----------
    train, test : DataFrame
        Columns as they are in the file.
    X_train, X_test : ndarray
        The same columns encoded and standardized, for the rivals.
    y_train, y_test : ndarray
    """

    train: pd.DataFrame
    test: pd.DataFrame
    X_train: Float64Array
    X_test: Float64Array
    y_train: Array
    y_test: Array


@dataclass(eq=False)
class Problem:
    """The data of the comparison, and its settings.

    Attributes
    ----------
    rows : DataFrame
        Columns as they are in the file.
    y : ndarray of shape (n_rows,)
    scoring : str
    folds, exact_rows, components, seed : int
        Options of the command.
    settings : dict
        Arguments of the kernel model.
    """

    rows: pd.DataFrame
    y: Array
    scoring: Scoring
    folds: int = 5
    exact_rows: int = 2000
    components: int = 2048
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=fitting.MODEL_SETTINGS.copy)
    _prepared: dict[int, Fold] = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        """The score that ranks models."""
        return METRICS[self.scoring]

    @property
    def n_train(self) -> int:
        """The smallest number of training rows of a fold."""
        return len(self.y) - -(-len(self.y) // self.folds)

    @property
    def n_components(self) -> int:
        """The number of features of scikit-learn's maps: at most one for each training row."""
        return min(self.components, self.n_train)

    def fold(self, k: int) -> Fold:
        """Return a fold. Only the last one is cached, since cells come fold by fold."""
        if k not in self._prepared:
            self._prepared.clear()
            train, test = np.flatnonzero(self._tested_in != k), np.flatnonzero(self._tested_in == k)
            # Shuffle, so that the first rows are a random sample.
            train = np.random.default_rng(seed_of(self.seed, "order", k)).permutation(train)
            rows, unseen = self.rows.iloc[train], self.rows.iloc[test]
            prepare = make_pipeline(TableEncoder(), StandardScaler())
            X = prepare.fit_transform(rows, self.y[train])
            self._prepared[k] = Fold(
                rows, unseen, X, prepare.transform(unseen), self.y[train], self.y[test]
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


def cells_of(problem: Problem) -> list[Cell]:
    """Return all cells, fold by fold."""
    models = (GUESS, LINEAR, MODEL, *boosting.boosters(), *MAPS, EXACT)
    return [Cell(one, fold) for fold in range(problem.folds) for one in models]


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
    with threadpool_limits(1):
        try:
            return _row(problem, cell, **_played(problem, cell))
        except (ValueError, ArithmeticError, MemoryError) as error:
            text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
            return _row(problem, cell, failed=text if len(text) <= 200 else f"{text[:200]} ...")


NAME = ("contestant", "fold")  # the columns that identify a row


def name(cell: Cell) -> tuple[Any, ...]:
    """Return the values that identify the row of a cell."""
    return cell.contestant, cell.fold


def _row(problem: Problem, cell: Cell, **found: Any) -> Row:
    return {
        **dict(zip(NAME, name(cell), strict=True)),
        "score": np.nan,
        **{metric.column: np.nan for metric in metrics_of(problem.metric.task)},
        "fit_cpu_seconds": np.nan,
        "predict_cpu_seconds": np.nan,
        "peak_memory_mb": np.nan,
        "alpha": np.nan,
        "gamma": np.nan,
        "train_rows": 0,
        "test_rows": 0,
        "failed": "",
        "leaderboard": [],
        **found,
    }


def _played(problem: Problem, cell: Cell) -> Row:
    """Train and test a model on a fold."""
    fold = problem.fold(cell.fold)
    raw = cell.contestant == MODEL
    X: Any = fold.train if raw else fold.X_train
    X_test: Any = fold.test if raw else fold.X_test
    y = fold.y_train
    if cell.contestant == EXACT:
        X, y = X[: problem.exact_rows], y[: problem.exact_rows]
    coding = Coding(problem.scoring, y)
    found: Row = {"train_rows": len(X), "test_rows": len(X_test)}
    if cell.contestant == GUESS:
        return {**found, **_scores(problem, coding, coding.guess(len(X_test)), fold)}
    memory = PeakMemory()
    start = cpu_seconds()
    fit = _fit(problem, cell, X, y, coding)
    middle = cpu_seconds()
    values = fit.predict(X_test)
    end = cpu_seconds()
    found["fit_cpu_seconds"], found["predict_cpu_seconds"] = middle - start, end - middle
    found["peak_memory_mb"] = memory.megabytes()
    probabilities = None
    if coding.task == "classification" and fit.probabilities is not None:
        probabilities = fit.probabilities(X_test)
    found.update(_scores(problem, coding, Prediction(values, probabilities), fold))
    return {**found, "alpha": fit.alpha, "gamma": fit.gamma, "leaderboard": fit.leaderboard}


def _scores(problem: Problem, coding: Coding, predicted: Prediction, fold: Fold) -> Row:
    """Return all metrics, and the one that ranks models as the score."""
    scores = coding.scores(predicted, fold.y_test)
    return {"score": scores[problem.metric.column], **scores}


def _fit(problem: Problem, cell: Cell, X: Any, y: Array, coding: Coding) -> Fit:
    """Return a fitted model."""
    seed = seed_of(problem.seed, cell.contestant, cell.fold)
    if cell.contestant == MODEL:
        return fitting.fit_default(
            X, y, coding.task, balanced=coding.balanced, seed=seed, settings=problem.settings
        )
    if cell.contestant in BOOSTERS:
        return fitting.fit_booster(
            cell.contestant, X, y, coding.task, balanced=coding.balanced, seed=seed
        )
    if cell.contestant == LINEAR:
        return fitting.fit_linear(X, coding.Y, coding.weights)
    if cell.contestant == EXACT:
        return fitting.fit_exact(X, coding.Y, coding.weights)
    size = problem.n_components
    return fitting.fit_map(cell.contestant, X, coding.Y, coding.weights, size=size, seed=seed)


def seed_of(*parts: object) -> int:
    """Return a seed that depends on all parts and nothing else."""
    return zlib.crc32("/".join(map(str, parts)).encode())
