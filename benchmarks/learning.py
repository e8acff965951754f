"""Compare models with scikit-learn on real data: time, accuracy and memory.

Each contestant runs in its own process. Memory is the peak beyond the memory in use after loading
the data. Time is the best of several fits.

    QUADFEAT_DATA=folder python benchmarks/learning.py [mnist kin40k covtype cg] [--repeats 2]

Without QUADFEAT_DATA, the only task is scikit-learn's digits. Results are printed as tables and
kept in a CSV file. Run the script again with other tasks to add to it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian

FIELDS = ("task", "contestant", "fit", "predict", "score", "megabytes", "rows_per_second", "note")


class Data(NamedTuple):
    """Training rows and test rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def load(name: str) -> Any:
    """Return a dataset of the folder."""
    return np.load(Path(os.environ["QUADFEAT_DATA"]) / f"{name}.npz")


def digits() -> Data:
    """Return scikit-learn's digits, in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16.0).astype(np.float32)
    return Data(X[:1400], y[:1400], X[1400:], y[1400:])


def mnist() -> Data:
    """Return MNIST in [0, 1]."""
    data = load("mnist")
    X = data["X"].astype(np.float32)
    X /= 255.0
    n = int(data["n_train"])
    return Data(X[:n], data["y"][:n], X[n:], data["y"][n:])


def kin40k() -> Data:
    """Return kin40k, standardized, with the first 35,000 rows for training."""
    data = load("kin40k")
    X, y = data["X"].astype(np.float32), data["y"].astype(np.float64)
    X = StandardScaler().fit(X[:35_000]).transform(X)
    return Data(X[:35_000], y[:35_000], X[35_000:], y[35_000:])


def covtype(n_train: int = 500_000) -> Data:
    """Return covtype, standardized, in random order."""
    data = load("covtype")
    order = np.random.default_rng(0).permutation(len(data["y"]))
    X = data["X"][order].astype(np.float32)
    y = data["y"][order]
    X = StandardScaler(copy=False).fit(X[:n_train]).transform(X)
    return Data(X[:n_train], y[:n_train], X[500_000:], y[500_000:])


class Syrk(RegressorMixin, BaseEstimator):
    """Multiply the features with themselves in memory, without a model."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any) -> Syrk:
        """Multiply a matrix of the shape of the features with itself."""
        Z = np.random.default_rng(0).random((len(X), self.n_components), dtype=np.float32)
        start = time.perf_counter()
        blas.ssyrk(1.0, Z.T)
        self.seconds_ = time.perf_counter() - start
        return self


def gaussian(gamma: float, n_components: int, **options: Any) -> QuadratureRidgeClassifier:
    """Return quadfeat's classifier."""
    options = {"alpha": 1.0, "random_state": 0, "n_jobs": -1, **options}
    return QuadratureRidgeClassifier(Gaussian(gamma), n_components=n_components, **options)


def sampler(gamma: float, n_components: int, model: Any) -> Any:
    """Return scikit-learn's pipeline with ``RBFSampler``."""
    return make_pipeline(RBFSampler(gamma=gamma, n_components=n_components, random_state=0), model)


def nystroem(gamma: float, model: Any) -> Any:
    """Return scikit-learn's pipeline with ``Nystroem``."""
    return make_pipeline(Nystroem(gamma=gamma, n_components=2048, random_state=0), model)


def kin40k_model(**options: Any) -> QuadratureRidge:
    """Return quadfeat's regressor."""
    return QuadratureRidge(random_state=0, n_jobs=-1, **options)


Contestants = dict[str, Callable[[], Any]]

TASKS: dict[str, tuple[Callable[[], Data], Contestants]] = {
    "digits": (
        digits,
        {
            "RBFSampler(1024) + RidgeClassifier": lambda: sampler(0.1, 1024, RidgeClassifier()),
            "quadfeat(1024)": lambda: gaussian(0.1, 1024),
            "quadfeat(1024), cg": lambda: gaussian(0.1, 1024, solver="cg"),
        },
    ),
    "mnist": (
        mnist,
        {
            "RBFSampler(4096) + RidgeClassifier": lambda: sampler(0.03, 4096, RidgeClassifier()),
            "quadfeat(4096)": lambda: gaussian(0.03, 4096),
            "ssyrk(4096) alone": lambda: Syrk(4096),
            "quadfeat(20480), gamma 0.02, cg": lambda: gaussian(
                0.02, 20480, alpha=0.2, solver="cg"
            ),
        },
    ),
    "kin40k": (
        kin40k,
        {
            "RBFSampler(2048) + Ridge": lambda: sampler(0.2, 2048, Ridge(alpha=0.001)),
            "Nystroem(2048) + Ridge": lambda: nystroem(0.2, Ridge(alpha=0.001)),
            "Nystroem(2048), gamma 0.1 + Ridge": lambda: nystroem(0.1, Ridge(alpha=0.001)),
            "quadfeat(4096)": lambda: kin40k_model(
                kernel=Gaussian(0.2), n_components=4096, alpha=0.001
            ),
            "quadfeat(4096), lengthscales learnt": lambda: kin40k_model(
                kernel="gaussian", n_components=4096, alpha=0.001, lengthscales="ard"
            ),
        },
    ),
    "covtype": (
        covtype,
        {
            "RBFSampler(2048) + RidgeClassifier": lambda: sampler(0.05, 2048, RidgeClassifier()),
            "quadfeat(2048)": lambda: gaussian(0.05, 2048),
            "quadfeat(8192)": lambda: gaussian(0.05, 8192),
        },
    ),
    "cg": (
        lambda: covtype(200_000),
        {
            "quadfeat(16384), normal": lambda: gaussian(0.05, 16384, solver="normal"),
            "quadfeat(16384), cg": lambda: gaussian(0.05, 16384, solver="cg"),
        },
    ),
}


def memory(name: str) -> float:
    """Return a memory figure of this process in megabytes, such as VmRSS or VmHWM."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def forget_peak() -> None:
    """Reset the memory peak to the current use."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("the memory peak includes loading the data", file=sys.stderr)


def run(task: str, contestant: str, repeats: int, save: str | None) -> dict[str, Any]:
    """Fit and predict in this process."""
    load_data, contestants = TASKS[task]
    data = load_data()
    make = contestants[contestant]
    make().fit(data.X[:64], data.y[:64])  # one-time work of a process
    forget_peak()
    before = memory("VmRSS")
    fit_times, predict_times = [], []
    for _ in range(repeats):
        model = make()
        start = time.perf_counter()
        model.fit(data.X, data.y)
        fit_times.append(getattr(model, "seconds_", time.perf_counter() - start))
    megabytes = memory("VmHWM") - before
    row = {
        "task": task,
        "contestant": contestant,
        "fit": min(fit_times),
        "megabytes": megabytes,
        "rows_per_second": len(data.X) / min(fit_times),
    }
    if not isinstance(model, Syrk):
        for _ in range(max(repeats, 3)):
            start = time.perf_counter()
            predicted = model.predict(data.X_test)
            predict_times.append(time.perf_counter() - start)
        row |= {
            "predict": min(predict_times),
            "score": float(model.score(data.X_test, data.y_test)),
        }
        if hasattr(model, "solver_error_") and model.n_iter_ > 1:
            row["note"] = f"{model.n_iter_} steps, right to {model.solver_error_:.1e}"
        if save:
            decisions = getattr(model, "decision_function", model.predict)(data.X_test)
            np.save(save, decisions)
        del predicted
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows of a task as a table in Markdown."""
    lines = ["| | fit, s | predict, s | score | memory beyond the data, MB | rows/s | |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        predict = f"{float(row['predict']):.3f}" if row.get("predict") else ""
        score = f"{float(row['score']):.4f}" if row.get("score") else ""
        lines.append(
            f"| {row['contestant']} | {float(row['fit']):.2f} | {predict} | {score} "
            f"| {float(row['megabytes']):.0f} | {float(row['rows_per_second']):,.0f} "
            f"| {row.get('note') or ''} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the contestants one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = [name for name in TASKS if name != "digits"]
    default = known if os.environ.get("QUADFEAT_DATA") else ["digits"]
    parser.add_argument("tasks", nargs="*", default=default)
    parser.add_argument("--only", help="only contestants whose names contain this")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("learning.csv"))
    parser.add_argument("--run", nargs=2, metavar=("TASK", "CONTESTANT"), help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        task, contestant = options.run
        print(json.dumps(run(task, contestant, options.repeats, options.save)))
        return
    for task in options.tasks:
        if task not in TASKS:
            parser.error(f"there is no task {task!r}: choose among {', '.join(TASKS)}")
    is_new = not options.out.exists()
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if is_new:
            writer.writeheader()
        for task in options.tasks:
            rows: list[dict[str, Any]] = []
            saved: list[Path] = []
            for contestant in TASKS[task][1]:
                if options.only and options.only not in contestant:
                    continue
                command = [sys.executable, __file__, "--repeats", str(options.repeats)]
                command += ["--run", task, contestant]
                if task == "cg":
                    saved.append(options.out.with_suffix(f".{len(saved)}.npy"))
                    command += ["--save", str(saved[-1])]
                print(f"{task}: {contestant}", file=sys.stderr, flush=True)
                output = subprocess.run(command, check=True, capture_output=True, text=True)
                rows.append(json.loads(output.stdout.splitlines()[-1]))
                writer.writerow(rows[-1])
                file.flush()
            print(f"\n{task}\n\n{table(rows)}")
            if len(saved) == 2:
                one, other = (np.load(path) for path in saved)
                difference = np.linalg.norm(one - other) / np.linalg.norm(one)
                print(f"\nThe decisions of the two differ by {difference:.1e}, relatively.")
                for path in saved:
                    path.unlink()


if __name__ == "__main__":
    main()
