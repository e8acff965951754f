"""Measure where other methods are better: narrow kernels, few rows, few dimensions.

The data is generated or comes with scikit-learn. The script prints three tables for the page
``docs/when.md``; ``--out`` also writes them as CSV files. It takes about two minutes.

    python benchmarks/when_not.py [--out docs/measured]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    make_friedman1,
    make_friedman2,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat._utils.validation import Array
from quadfeat.auto.budget import MOST_COMPONENTS
from quadfeat.kernels import Gaussian
from tables import Table, circumstances

# Narrow kernels: widths as gamma * d, for rows whose columns have variance 1.
D_NORMAL = 16
WIDTHS = (0.1, 0.5, 1.0, 2.0, 4.0)
RULES = ("rff", "orf", "sr33", "auto")
MAPS = 5
WHOLE_BLOCKS = 2 * 32 * (D_NORMAL + 1) + 1

# Low-dimensional regression.
ROWS = 10_000
ROWS_FOR_GAMMA = 1500
GAMMAS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
ALPHAS = (1e-6, 1e-4, 1e-2, 1.0)
NOISE = 0.1
COLUMNS = (50, 200, 800)
MAPS_OF_REGRESSION = 3


def narrow() -> Table:
    """Compare rules on kernels from wide to narrow."""
    rng = np.random.default_rng(0)
    X, unseen = rng.standard_normal((1000, D_NORMAL)), rng.standard_normal((1000, D_NORMAL))
    columns = ["gamma * d", *RULES, "auto / rff", "Nystroem", "columns for 10%"]
    table = Table("when_not-narrow", columns)
    table.start(
        f"Error of a Gaussian kernel: 1000 normal rows, d = {D_NORMAL}, {WHOLE_BLOCKS} columns,\n"
        f"Frobenius norm relative to the kernel, root mean square of {MAPS} maps"
    )
    for width in WIDTHS:
        kernel = Gaussian(width / D_NORMAL)
        rules = [
            _error(
                partial(QuadratureFeatures, kernel, rule=rule, n_components=WHOLE_BLOCKS),
                X,
                unseen,
                kernel(unseen),
            )
            for rule in RULES
        ]
        # All rows as landmarks: the best that Nystroem can be, without randomness.
        landmarks = partial(Nystroem, gamma=kernel.gamma, n_components=len(X))
        nystroem = _error(landmarks, X, unseen, kernel(unseen), maps=1)
        table.add(
            f"{width:g}",
            *(f"{error:.4f}" for error in rules),
            f"{rules[RULES.index('auto')] / rules[RULES.index('rff')]:.2f}",
            f"{nystroem:.4f}",
            _enough_columns(kernel, unseen),
        )
    return table


def _error(
    make: Callable[..., Any], X: Array, unseen: Array, exact: Array, maps: int = MAPS
) -> float:
    """Return the root mean square of the relative errors of maps on test rows."""
    squares = []
    for seed in range(maps):
        Z = make(random_state=seed).fit(X).transform(unseen)
        squares.append(np.sum((Z @ Z.T - exact) ** 2) / np.sum(exact**2))
    return float(np.sqrt(np.mean(squares)))


def _enough_columns(kernel: Gaussian, X: Array) -> str:
    """Return the number of columns that gives an error below 10%."""
    features = QuadratureFeatures(kernel, n_components="auto", tol=0.1, random_state=0)
    try:
        return str(features.fit(X).n_components_)
    except ValueError:  # the number needed is above the limit
        return f"over {MOST_COMPONENTS}"


def few_rows() -> Table:
    """Compare exact kernel machines with features on few rows."""
    table = Table(
        "when_not-few-rows",
        ["data", "rows", "model", "score", "fit and predict, s"],
        first_width=14,
    )
    table.start("Few rows: accuracy or R2, and seconds, mean over 5 folds; 1024 features")
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    X_friedman, y_friedman = make_friedman1(500, noise=1.0, random_state=0)
    friedman = X_friedman, y_friedman - y_friedman.mean()  # KernelRidge has no intercept
    gp = GaussianProcessRegressor(RBF(np.ones(10)) + WhiteKernel(), normalize_y=True)
    contests: list[tuple[str, tuple[Array, Array], dict[str, Any]]] = [
        (
            "breast cancer",
            cancer,
            {
                "SVC": SVC(C=10),
                "quadfeat": QuadratureRidgeClassifier("gaussian", alpha=0.1, random_state=0),
            },
        ),
        (
            "digits",
            digits,
            {
                "SVC": SVC(C=10),
                "quadfeat": QuadratureRidgeClassifier("gaussian", alpha=0.1, random_state=0),
            },
        ),
        (
            "Friedman 1",
            friedman,
            {
                "KernelRidge": KernelRidge(kernel="rbf", gamma=0.03, alpha=0.1),
                "quadfeat": QuadratureRidge(Gaussian(0.03), alpha=0.1, random_state=0),
                "GP": gp,
                "quadfeat, ard": QuadratureRidge(
                    "gaussian", lengthscales="ard", alpha="evidence", random_state=0
                ),
            },
        ),
    ]
    for name, (X, y), models in contests:
        for label, model in models.items():
            pipeline = make_pipeline(StandardScaler(), model)
            with warnings.catch_warnings():
                # Lengthscales of irrelevant inputs end at the bounds of their range.
                warnings.simplefilter("ignore", ConvergenceWarning)
                found = cross_validate(pipeline, X, y, cv=5)
            seconds = float((found["fit_time"] + found["score_time"]).mean())
            score = float(found["test_score"].mean())
            table.add(name, str(len(X)), label, f"{score:.4f}", f"{seconds:.2f}")
    return table


def waves(n_rows: int) -> tuple[Array, Array]:
    """Return points in a square, and a function with several hills and valleys."""
    X = np.random.default_rng(0).uniform(-1, 1, (n_rows, 2))
    return X, np.sin(6 * X[:, 0]) * np.cos(8 * X[:, 1])


def sheet(n_rows: int) -> tuple[Array, Array]:
    """Return points near a curved surface in 30 dimensions, and a function on it."""
    rng = np.random.default_rng(0)
    place = rng.uniform(-1, 1, (n_rows, 2))
    X = np.sin(place @ rng.normal(0, 3, (2, 30)) + rng.uniform(0, 6, 30))
    return X, np.sin(6 * place[:, 0]) * np.cos(8 * place[:, 1])


def low_dimensions() -> Table:
    """Compare Nystroem with features at equal numbers of columns."""
    table = Table(
        "when_not-nystroem",
        [
            "data",
            "d",
            "gamma",
            "columns",
            "Nystroem, RMSE",
            "quadfeat, RMSE",
            "Nystroem, s",
            "quadfeat, s",
        ],
        first_width=14,
    )
    table.start(
        f"Regression on {ROWS} rows with noise {NOISE}: error of the true values of variance 1,\n"
        f"root mean square over {MAPS_OF_REGRESSION} maps; seconds of map and ridge regression"
    )
    sets: dict[str, tuple[Array, Array]] = {
        "waves": waves(ROWS + 2000),
        "sheet": sheet(ROWS + 2000),
        "Friedman 1": make_friedman1(ROWS + 2000, noise=0.0, random_state=0),
        "Friedman 2": make_friedman2(ROWS + 2000, noise=0.0, random_state=0),
    }
    for name, (raw, truth) in sets.items():
        X = StandardScaler().fit_transform(raw)
        truth = (truth - truth.mean()) / truth.std()
        y = truth + NOISE * np.random.default_rng(1).standard_normal(len(truth))
        gamma = _best_gamma(X[:ROWS_FOR_GAMMA], y[:ROWS_FOR_GAMMA])
        for n_components in COLUMNS:
            makers = (
                partial(Nystroem, gamma=gamma, n_components=n_components),
                partial(QuadratureFeatures, Gaussian(gamma), n_components=n_components),
            )
            errors, seconds = zip(*(_regression(make, X, y, truth) for make in makers), strict=True)
            table.add(
                name,
                str(X.shape[1]),
                f"{gamma:g}",
                str(n_components),
                *(f"{error:.4f}" for error in errors),
                *(f"{time:.2f}" for time in seconds),
            )
    return table


def _best_gamma(X: Array, y: Array) -> float:
    """Return the best gamma of an exact kernel machine."""
    search = GridSearchCV(
        KernelRidge(kernel="rbf"), {"gamma": GAMMAS, "alpha": [1e-3, 1e-1]}, cv=3
    ).fit(X, y)
    return float(search.best_params_["gamma"])


def _regression(make: Callable[..., Any], X: Array, y: Array, truth: Array) -> tuple[float, float]:
    """Return the error of ridge regression on features with the best alpha, and its time.

    The error is the root mean square over maps, and the time is that of the fastest one.
    """
    errors = np.empty((MAPS_OF_REGRESSION, len(ALPHAS)))
    mapping, solving = [], []
    for seed in range(MAPS_OF_REGRESSION):
        start = perf_counter()
        features = make(random_state=seed)
        Z, Z_test = features.fit_transform(X[:ROWS]), features.transform(X[ROWS:])
        mapping.append(perf_counter() - start)
        for n, alpha in enumerate(ALPHAS):
            start = perf_counter()
            predicted = Ridge(alpha=alpha).fit(Z, y[:ROWS]).predict(Z_test)
            solving.append(perf_counter() - start)
            errors[seed, n] = root_mean_squared_error(truth[ROWS:], predicted)
    return float(np.sqrt((errors**2).mean(axis=0)).min()), min(mapping) + min(solving)


def main() -> None:
    """Print the tables, and write them if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    out = parser.parse_args().out
    tables = [
        circumstances("when_not-circumstances", "python benchmarks/when_not.py"),
        narrow(),
        few_rows(),
        low_dimensions(),
    ]
    print()
    for table in tables:
        if out is not None:
            table.write(out)


if __name__ == "__main__":
    main()
