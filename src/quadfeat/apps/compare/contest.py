"""The contest: every contestant in cells of one fold each, a pure function of its configuration."""

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
from quadfeat.apps.compare import boosting, machines
from quadfeat.apps.compare.boosting import HIST, LIGHTGBM
from quadfeat.apps.compare.columns import Column, is_plain, preparation
from quadfeat.apps.compare.measuring import PeakMemory, cpu_seconds
from quadfeat.apps.compare.nystroem import nystroem
from quadfeat.apps.compare.scoring import METRICS, Coding, Metric, Prediction, Scoring, metrics_of
from quadfeat.apps.reporting.processes import run_in_processes
from quadfeat.apps.reporting.text import printable
from quadfeat.kernels import ArcCosine, Gaussian, Kernel, Matern

Row = dict[str, Any]
Stage = Literal["kernel", "rule", "contest"]

OURS = "quadfeat"
MODEL = "QuadratureRidge"  # our model with no settings
RBF_SAMPLER = "RBFSampler"
NYSTROEM = "Nystroem"
LINEAR = "linear"
EXACT = "exact kernel"
GUESS = "guess"
MAPS = (OURS, RBF_SAMPLER, NYSTROEM)  # those with a number of features, the cheapest first
BOOSTERS = (HIST, LIGHTGBM)
ORDER = (GUESS, LINEAR, MODEL, *MAPS, EXACT, *BOOSTERS)  # in tables

DEFAULT_RULE = "auto"
RULES = (DEFAULT_RULE, "sr33", "orf", "rom", "sobol", "rff")
DENSE_RULES = ("orf", "sobol", "rff")  # which keep a matrix that is as wide as the data
WIDE = 2000  # columns from which these are left out

CHOICE_COMPONENTS = 512  # features with which kernels and rules are chosen
CHOICE_ROWS = 4000  # training rows with which kernels are chosen
ERROR_ROWS = 500  # on which the error of the kernel is measured
FEWEST_COMPONENTS = 128


@dataclass(frozen=True)
class Cell:
    """One contestant on one fold; for a rule, one draw of its nodes."""

    stage: Stage
    contestant: str
    fold: int
    kernel: Kernel | None = None
    n_components: int = 0
    rule: str = DEFAULT_RULE


@dataclass(frozen=True)
class Fold:
    """Rows to train and to test on, as numbers.

    Attributes
    ----------
    X_train, X_test : ndarray
        Prepared columns.
    y_train, y_test : ndarray
    plain_train, plain_test : ndarray or None
        The columns as they are, if all are numbers and none is missing.
    """

    X_train: Float64Array
    X_test: Float64Array
    y_train: Array
    y_test: Array
    plain_train: Float64Array | None = None
    plain_test: Float64Array | None = None


@dataclass(eq=False)
class Problem:
    """What the contest is about, and its settings."""

    rows: pd.DataFrame
    y: Array
    columns: list[Column]
    scoring: Scoring
    folds: int = 5
    exact_rows: int = 2000
    max_components: int = 2048
    seed: int = 0
    _prepared: dict[int, Fold] = field(default_factory=dict)

    @property
    def metric(self) -> Metric:
        """The score by which contestants are ranked."""
        return METRICS[self.scoring]

    @property
    def n_train(self) -> int:
        """Rows that a fold trains on, at least."""
        return len(self.y) - -(-len(self.y) // self.folds)

    def fold(self, k: int) -> Fold:
        """Return a fold; the last one is kept, since cells come fold by fold."""
        if k not in self._prepared:
            self._prepared.clear()
            train, test = np.flatnonzero(self._tested_in != k), np.flatnonzero(self._tested_in == k)
            # In random order, so that the first rows are a sample.
            train = np.random.default_rng(seed_of(self.seed, "order", k)).permutation(train)
            parts = self.rows.iloc[train], self.rows.iloc[test]
            prepare = preparation(self.columns).fit(parts[0])
            plain = is_plain(self.columns)
            self._prepared[k] = Fold(
                prepare.transform(parts[0]),
                prepare.transform(parts[1]),
                self.y[train],
                self.y[test],
                parts[0].to_numpy(np.float64) if plain else None,
                parts[1].to_numpy(np.float64) if plain else None,
            )
        return self._prepared[k]

    @cached_property
    def _tested_in(self) -> Array:
        """The fold that tests each row, split once for all folds."""
        splitter = (KFold if self.metric.task == "regression" else StratifiedKFold)(
            self.folds, shuffle=True, random_state=self.seed
        )
        tested_in = np.empty(len(self.y), dtype=np.intp)
        with warnings.catch_warnings():
            # Classes of too few rows are among the remarks on the table.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            for k, (_, test) in enumerate(splitter.split(self.rows, self.y)):
                tested_in[test] = k
        return tested_in

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_prepared": {}}


def ladder(problem: Problem) -> list[int]:
    """Return the numbers of features that are tried: powers of two, at most the training rows."""
    top = 1 << (max(2, min(problem.max_components, problem.n_train)).bit_length() - 1)
    bottom = max(2, min(FEWEST_COMPONENTS, top // 16))
    return [bottom << k for k in range((top // bottom).bit_length())]


def candidate_kernels(problem: Problem) -> list[Kernel]:
    """Return the kernels that are tried: widths around ``"scale"``, rough and smooth."""
    return [*(kernel for grid in kernel_grids(problem).values() for kernel in grid), ArcCosine(1)]


def kernel_grids(problem: Problem) -> dict[str, list[Kernel]]:
    """Return the kernels of each grid by the parameter that varies, in ascending order."""
    X = problem.fold(0).X_train
    length = float(np.asarray(Matern().resolve(X).length_scale))
    rough = [Matern(1.5, length_scale=_round(length * 2.0**k)) for k in range(-1, 4)]
    return {"gamma": [*candidate_gaussians(problem)], "length_scale": [*rough]}


def candidate_gaussians(problem: Problem) -> list[Gaussian]:
    """Return the Gaussian kernels that are tried."""
    gamma = float(np.asarray(Gaussian().resolve(problem.fold(0).X_train).gamma))
    return [Gaussian(_round(gamma * 4.0**k)) for k in range(-4, 2)]


def _round(value: float) -> float:
    """Return a number that is as good and can be read."""
    return float(f"{value:.2g}")


def kernel_cells(problem: Problem) -> list[Cell]:
    """Return the cells that choose a kernel."""
    columns = min(CHOICE_COMPONENTS, ladder(problem)[-1])
    kernels = candidate_kernels(problem)
    return [
        Cell("kernel", OURS, fold, kernel, columns)
        for fold in range(problem.folds)
        for kernel in kernels
    ]


def rule_cells(problem: Problem, kernel: Kernel) -> list[Cell]:
    """Return the cells that choose a rule."""
    columns = min(CHOICE_COMPONENTS, ladder(problem)[-1])
    wide = problem.fold(0).X_train.shape[1] >= WIDE
    rules = [rule for rule in RULES if not (wide and rule in DENSE_RULES)]
    return [
        Cell("rule", OURS, fold, kernel, columns, rule)
        for fold in range(problem.folds)
        for rule in rules
    ]


def contest_cells(problem: Problem, kernel: Kernel, gaussian: Gaussian, rule: str) -> list[Cell]:
    """Return the cells of the contest itself, in which RBFSampler can only have a Gaussian."""
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
    """Yield a row for each cell as it finishes."""
    work = partial(run_cell, problem)
    if jobs == 1:
        yield from map(work, cells)
    else:
        yield from run_in_processes(
            work,
            cells,
            jobs,
            lambda cell: _row(problem, cell, failed="its process died: out of memory?"),
        )


def run_cell(problem: Problem, cell: Cell) -> Row:
    """Return the row of a cell, run on one thread: times then mean the same for everyone."""
    if cell.contestant in BOOSTERS:
        # Only libraries that are loaded can be limited, and an import is not part of a fit.
        boosting.load(cell.contestant)
    with threadpool_limits(1), warnings.catch_warnings():
        # Its error is measured, so that a rule need not warn of it.
        warnings.filterwarnings("ignore", ".* infinite variance", UserWarning)
        try:
            if cell.stage == "rule":
                return _row(problem, cell, **_rule_error(problem, cell))
            return _row(problem, cell, **_contest(problem, cell))
        except (ValueError, ArithmeticError, MemoryError) as error:
            text = printable(" ".join(f"{type(error).__name__}: {error}".split()))
            return _row(problem, cell, failed=text if len(text) <= 200 else f"{text[:200]} ...")


NAME = ("stage", "contestant", "kernel", "rule", "D", "fold")  # what tells rows apart


def name(cell: Cell) -> tuple[Any, ...]:
    """Return what tells the row of a cell from all others."""
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
        "train_rows": 0,
        "test_rows": 0,
        "failed": "",
        **found,
    }


def _rule_error(problem: Problem, cell: Cell) -> Row:
    """Return the error of a rule; rows differ between folds and are the same for all rules."""
    assert cell.kernel is not None
    fold = problem.fold(cell.fold)
    transform = _map(problem, cell).fit(fold.X_train).transform
    rng = np.random.default_rng(seed_of(problem.seed, "error", cell.fold))
    return {"kernel_error": relative_error(transform, cell.kernel, fold.X_train, rng)}


def _contest(problem: Problem, cell: Cell) -> Row:
    """Train and test a contestant on a fold."""
    fold = problem.fold(cell.fold)
    X, y = fold.X_train, fold.y_train
    if cell.stage == "kernel":
        X, y = X[:CHOICE_ROWS], y[:CHOICE_ROWS]
    elif cell.contestant == EXACT:
        X, y = X[: problem.exact_rows], y[: problem.exact_rows]
    coding = Coding(problem.scoring, y)
    found: Row = {"train_rows": len(X), "test_rows": len(fold.X_test)}
    if cell.contestant == GUESS:
        return {**found, **_scores(problem, coding, coding.guess(len(fold.X_test)), fold)}
    X_test = fold.X_test
    if cell.contestant == MODEL and fold.plain_train is not None and fold.plain_test is not None:
        X, X_test = fold.plain_train, fold.plain_test
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
    found["alpha"] = fit.alpha
    if cell.contestant in MAPS:
        assert cell.kernel is not None
        rng = np.random.default_rng(seed_of(problem.seed, "error", cell.fold))
        found["kernel_error"] = relative_error(transform, cell.kernel, fold.X_test, rng)
    return found


def _scores(problem: Problem, coding: Coding, predicted: Prediction, fold: Fold) -> Row:
    """Return all metrics, and as the score the one by which contestants are ranked."""
    scores = coding.scores(predicted, fold.y_test)
    return {"score": scores[problem.metric.column], **scores}


def _fit(
    problem: Problem, cell: Cell, X: Array, y: Array, coding: Coding
) -> tuple[machines.Fit, Callable[[Array], Array]]:
    """Return a fitted contestant, and its map from rows to features."""
    transform: Callable[[Array], Array] = _as_they_are
    seed = seed_of(problem.seed, cell.contestant, cell.fold)
    if cell.contestant == MODEL:
        fit = machines.fit_default(X, y, coding.task, balanced=coding.balanced, seed=seed)
    elif cell.contestant in BOOSTERS:
        fit = machines.fit_booster(
            cell.contestant, X, y, coding.task, balanced=coding.balanced, seed=seed
        )
    elif cell.contestant == EXACT:
        assert cell.kernel is not None
        fit = machines.fit_exact(cell.kernel, X, coding.Y, coding.weights)
    elif cell.contestant == OURS:
        features = _map(problem, cell).fit(X)
        transform = features.transform
        labels = y if coding.task == "classification" else None
        fit = machines.fit_quadrature(features, X, coding.Y, coding.weights, labels)
    else:
        if cell.contestant != LINEAR:
            transform = _map(problem, cell).fit(X).transform
        fit = machines.fit_linear(transform, X, coding.Y, coding.weights)
    return fit, transform


def _as_they_are(X: Array) -> Array:
    return X


def _map(problem: Problem, cell: Cell) -> Any:
    """Return the unfitted map of a contestant."""
    columns, seed = cell.n_components, seed_of(problem.seed, cell.contestant, cell.fold)
    kernel = cell.kernel
    assert kernel is not None
    if cell.contestant == OURS:
        return QuadratureFeatures(kernel, n_components=columns, rule=cell.rule, random_state=seed)
    if cell.contestant == RBF_SAMPLER:  # whose kernel is Gaussian
        gamma = kernel.get_params()["gamma"]
        return RBFSampler(gamma=gamma, n_components=columns, random_state=seed)
    return nystroem(kernel, n_components=columns, random_state=seed)


def relative_error(
    transform: Callable[[Array], Array], kernel: Kernel, X: Array, rng: np.random.Generator
) -> float:
    """Return the relative error of the kernel matrix on a sample of rows, in the Frobenius norm.

    Parameters
    ----------
    transform : callable
        From rows to features.
    kernel : Kernel
        What the inner products of features approximate.
    X : ndarray of shape (n_rows, n_columns)
    rng : numpy.random.Generator
        Of the sample.

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
    """Return a seed that depends on all parts and on nothing else."""
    return zlib.crc32("/".join(map(str, parts)).encode())
