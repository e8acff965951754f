"""Time the feature map against scikit-learn's RBFSampler, NumPy and memset, in one run.

Everything is measured in turns, best of several, with gaps, into a fresh array unless it says warm.
Prints tables and writes ``benchmarks/transform.csv``.

    python benchmarks/transform.py [--repeats 7]
"""

from __future__ import annotations

import argparse
import csv
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from quadfeat import QuadratureFeatures, show_config, transform_into
from quadfeat._validation import Array
from quadfeat.kernels import ArcCosine, Gaussian
from timing import best

SHAPES = [(10000, 16, 16), (10000, 256, 4), (5000, 784, 3), (2000, 3072, 2), (500, 7129, 1)]
Row = dict[str, object]


def numpy_fourier(X: Array, W: Array) -> Array:
    """Return cosines and sines by NumPy."""
    arguments = X @ W.T
    Z = np.empty((len(X), 2 * len(W)), dtype=X.dtype)
    np.cos(arguments, out=Z[:, : len(W)])
    np.sin(arguments, out=Z[:, len(W) :])
    return Z


def numpy_step(X: Array, W: Array) -> Array:
    """Return steps by NumPy."""
    return np.heaviside(X @ W.T, X.dtype.type(0.5))


def numpy_ramp(X: Array, W: Array) -> Array:
    """Return ramps by NumPy."""
    return np.maximum(X @ W.T, X.dtype.type(0))


def fresh_memset(shape: tuple[int, int], dtype: type) -> Array:
    """Return a fresh array, written once."""
    Z: Array = np.empty(shape, dtype=dtype)
    Z.fill(0)
    return Z


def gaussian(repeats: int) -> list[Row]:
    """Time the Gaussian kernel at all shapes and dtypes."""
    rows: list[Row] = []
    print("\nGaussian kernel, rule sr33, n_jobs=-1; milliseconds, and ratios to quadfeat (fresh)")
    print(
        f"{'N':>6s} {'d':>5s} {'dtype':8s} {'quadfeat':>9s} {'warm':>8s} {'RBFSampler':>11s} "
        f"{'NumPy':>9s} {'memset':>7s} {'warm':>7s} | {'RBFSampler':>10s} {'NumPy':>6s} "
        f"{'warm/memset warm':>17s}"
    )
    for n_rows, d, n in SHAPES:
        for dtype in (np.float32, np.float64):
            X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(dtype)
            D = 2 * n * (d + 1)
            features = QuadratureFeatures(
                Gaussian(1 / d), n_components=D + 1, random_state=0, n_jobs=-1
            ).fit(X)
            sampler = RBFSampler(gamma=1 / d, n_components=D, random_state=0).fit(X)
            W = np.random.default_rng(1).standard_normal((D // 2, d)).astype(dtype)
            warm: Array = np.zeros((n_rows, D + 1), dtype=dtype)
            times = best(
                {
                    "quadfeat": partial(features.transform, X),
                    "quadfeat_warm": partial(transform_into, features, X, warm),
                    "rbfsampler": partial(sampler.transform, X),
                    "numpy": partial(numpy_fourier, X, W),
                    "memset": partial(fresh_memset, (n_rows, D + 1), dtype),
                    "memset_warm": partial(warm.fill, 0),
                },
                repeats,
            )
            ours = times["quadfeat"]
            print(
                f"{n_rows:6d} {d:5d} {np.dtype(dtype).name:8s} {ours:9.1f} "
                f"{times['quadfeat_warm']:8.1f} {times['rbfsampler']:11.1f} {times['numpy']:9.1f} "
                f"{times['memset']:7.1f} {times['memset_warm']:7.1f} | "
                f"{times['rbfsampler'] / ours:10.1f} {times['numpy'] / ours:6.1f} "
                f"{times['quadfeat_warm'] / times['memset_warm']:17.1f}",
                flush=True,
            )
            for way, t in times.items():
                rows.append(_row("gaussian", n_rows, d, D, np.dtype(dtype).name, way, t))
    return rows


def arc_cosine(repeats: int) -> list[Row]:
    """Time the arc-cosine kernels in float32."""
    rows: list[Row] = []
    print("\nArc-cosine kernels, float32; milliseconds")
    for n_rows, d, n in SHAPES:
        X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(np.float32)
        D = 2 * n * (d + 1)
        W = np.random.default_rng(1).standard_normal((D, d)).astype(np.float32)
        for order, dense in [(0, numpy_step), (1, numpy_ramp)]:
            features = QuadratureFeatures(
                ArcCosine(order), n_components=D + (order == 0), random_state=0, n_jobs=-1
            ).fit(X)
            times = best(
                {"quadfeat": partial(features.transform, X), "numpy": partial(dense, X, W)}, repeats
            )
            ratio = times["numpy"] / times["quadfeat"]
            print(
                f"order {order}  N = {n_rows:5d}  d = {d:4d}  quadfeat {times['quadfeat']:7.1f}  "
                f"NumPy {times['numpy']:7.1f}  ratio {ratio:5.1f}",
                flush=True,
            )
            for way, t in times.items():
                rows.append(_row(f"arccos{order}", n_rows, d, D, "float32", way, t))
    return rows


def growth(repeats: int) -> list[Row]:
    """Time per feature against d, and the exponent that fits it."""
    rows: list[Row] = []
    print("\nTime per feature and row against d, one block, float32, one thread")
    widths = [2**k for k in range(6, 14)]
    nanoseconds = []
    for d in widths:
        n_rows, D = 2**21 // d, 2 * (d + 1)
        X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(np.float32)
        features = QuadratureFeatures(Gaussian(1 / d), n_components=D + 1, random_state=0).fit(X)
        out: Array = np.zeros((n_rows, D + 1), dtype=np.float32)
        (t,) = best({"quadfeat": partial(transform_into, features, X, out)}, repeats).values()
        nanoseconds.append(1e6 * t / (n_rows * D))
        print(f"d = {d:5d}  {nanoseconds[-1]:.3f} ns", flush=True)
        rows.append(_row("growth", n_rows, d, D, "float32", "quadfeat_warm", t))
    exponent = np.polyfit(np.log(widths), np.log(nanoseconds), 1)[0]
    print(f"time per feature grows as d^{exponent:.2f} (a dense product: d^1)")
    return rows


def _row(kernel: str, N: int, d: int, D: int, dtype: str, way: str, milliseconds: float) -> Row:
    return {
        "kernel": kernel,
        "N": N,
        "d": d,
        "D": D,
        "dtype": dtype,
        "way": way,
        "milliseconds": round(milliseconds, 4),
    }


def main() -> None:
    """Run everything, print tables and write the CSV file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="take the best of so many")
    repeats = parser.parse_args().repeats
    show_config()
    rows = gaussian(repeats) + arc_cosine(repeats) + growth(repeats)
    path = Path(__file__).with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
