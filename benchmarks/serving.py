"""Time predictions for a few rows, as a server makes them, beside the bare native call.

    OPENBLAS_NUM_THREADS=1 python benchmarks/serving.py [--out docs/measured]

The table has microseconds on one thread for float64 rows of scikit-learn's breast cancer data (30
standardized columns) and 1024 features. The ways are interleaved, and the best of many short loops
counts. LightGBM is measured if it is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.engine import core
from tables import Table

COUNTS = (1, 10, 100)
N_COMPONENTS = 1024
CALLS = 40  # calls in a loop for one row


def fastest(ways: dict[str, Callable[[], object]], calls: int, repeats: int) -> dict[str, float]:
    """Return the microseconds of a call in the best loop of each function, interleaved."""
    times = dict.fromkeys(ways, float("inf"))
    for _ in range(repeats):
        for name, work in ways.items():
            start = time.perf_counter()
            for _ in range(calls):
                work()
            times[name] = min(times[name], 1e6 * (time.perf_counter() - start) / calls)
    return times


def models(X: Any, y: Any) -> dict[str, Any]:
    """Return the fitted models by name."""
    options: dict[str, Any] = {"n_components": N_COMPONENTS, "random_state": 0, "n_jobs": 1}
    gamma = 1.0 / X.shape[1]
    found: dict[str, Any] = {
        "QuadratureRidge": QuadratureRidge(gamma=gamma, kernel="gaussian", **options),
        "QuadratureRidgeClassifier": QuadratureRidgeClassifier(
            gamma=gamma, kernel="gaussian", **options
        ),
        "RBFSampler + Ridge": make_pipeline(
            RBFSampler(gamma=gamma, n_components=N_COMPONENTS, random_state=0), Ridge()
        ),
    }
    try:
        from lightgbm import LGBMRegressor

        found["LightGBM"] = LGBMRegressor(n_jobs=1, verbose=-1)
    except ModuleNotFoundError:
        print("LightGBM is not installed.")
    return {name: model.fit(X, y) for name, model in found.items()}


def bare(features: Any, model: Any, rows: Any) -> dict[str, Callable[[], object]]:
    """Return the native calls that compute features and predictions of rows."""
    engine = features.map_.engine_for(rows)
    solution = model._solution
    product = model.map_.engine_for(rows)
    V = np.ascontiguousarray(solution.coefficients)
    n_rows, n_columns = len(rows), features.n_components_

    def transform() -> Any:
        out = np.empty((n_rows, n_columns))
        engine.map.transform(rows, out, 1, core.CORE, 1e6)
        return out

    def predict() -> Any:
        out = np.empty((n_rows, V.shape[1]))
        product.map.multiply(rows, V, out, 1, core.CORE, 1e6)
        return out

    return {"native features": transform, "native prediction": predict}


def main() -> None:
    """Print the table, and write it if a folder is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the table")
    parser.add_argument("--repeats", type=int, default=60)
    options = parser.parse_args()
    if core.CORE == "numpy":
        raise SystemExit("quadfeat was installed without its native core: nothing to compare.")
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    features = QuadratureFeatures(
        gamma=1.0 / X.shape[1], n_components=N_COMPONENTS, random_state=0, n_jobs=1
    ).fit(X)
    fitted = models(X, y)
    table = Table("serving", ["call", *(f"{n} rows, us" for n in COUNTS)], 28)
    results: dict[str, list[float]] = {}
    for n_rows in COUNTS:
        rows = np.ascontiguousarray(X[:n_rows])
        ways = bare(features, fitted["QuadratureRidge"], rows)
        ways["transform"] = lambda rows=rows: features.transform(rows)  # type: ignore[misc]
        for name, model in fitted.items():
            ways[f"{name} predict"] = lambda model=model, rows=rows: model.predict(rows)  # type: ignore[misc]
        calls = max(2, CALLS // n_rows)
        for work in ways.values():
            work()
        for name, value in fastest(ways, calls, options.repeats).items():
            results.setdefault(name, []).append(value)
    for name, values in results.items():
        table.keep(name, *(f"{value:.0f}" for value in values))
    table.show("Microseconds of a call")
    if options.out:
        table.write(options.out)


if __name__ == "__main__":
    main()
