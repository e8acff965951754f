"""Time the feature map against scikit-learn's RBFSampler, NumPy and memset, in one run.

Times are interleaved with pauses, best of several, into a new array unless marked as warm. The rule
``sr33`` has three rounds of rotations; other rules have two by default, which one column shows.
Tables are printed; ``--out`` also writes them as CSV files for the documentation.

    python benchmarks/transform.py [--repeats 7] [--out docs/measured]
"""

from __future__ import annotations

import argparse
import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_info

from quadfeat import QuadratureFeatures, transform_into
from quadfeat._utils.validation import Array
from quadfeat.engine import threads
from quadfeat.kernels import ArcCosine, Gaussian
from quadfeat.rules import SphericalRadial
from tables import Table, circumstances
from timing import best

SHAPES = [(10000, 16, 16), (10000, 256, 4), (5000, 784, 3), (2000, 3072, 2), (500, 7129, 1)]
WIDTHS = [2**k for k in range(6, 14)]


def numpy_fourier(X: Array, W: Array) -> Array:
    """Return cosines and sines by NumPy."""
    arguments = X @ W.T
    Z = np.empty((len(X), 2 * len(W)), dtype=X.dtype)
    np.cos(arguments, out=Z[:, : len(W)])
    np.sin(arguments, out=Z[:, len(W) :])
    return Z


def numpy_step(X: Array, W: Array) -> Array:
    """Return the features of a step function, computed with NumPy."""
    return np.heaviside(X @ W.T, X.dtype.type(0.5))


def numpy_ramp(X: Array, W: Array) -> Array:
    """Return ramps by NumPy."""
    return np.maximum(X @ W.T, X.dtype.type(0))


def fill_together(buffer: Array, pool: ThreadPoolExecutor, n_threads: int) -> None:
    """Fill a buffer with zeros by several threads, each of which fills some of the rows."""
    list(pool.map(lambda part: part.fill(0), np.array_split(buffer, n_threads)))


def blas_threads() -> int:
    """Return the number of threads of the BLAS that NumPy and scikit-learn use."""
    return max(
        (pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1
    )


def gaussian(shapes: list[tuple[int, int, int]], repeats: int) -> list[Table]:
    """Time the Gaussian kernel at all shapes and dtypes, into fresh arrays and into a buffer."""
    case = ["rows", "d", "features", "dtype"]
    fresh = Table(
        "transform-gaussian",
        [
            *case,
            "quadfeat, ms",
            "RBFSampler, ms",
            "NumPy, ms",
            "RBFSampler / quadfeat",
            "NumPy / quadfeat",
            "threads of quadfeat",
            "threads of BLAS",
        ],
    )
    reused = Table(
        "transform-buffer",
        [
            *case,
            "into a buffer, ms",
            "fill, ms",
            "memset, ms",
            "fill of a fresh array, ms",
            "buffer / fill",
            "buffer / memset",
            "threads",
            "fill by these threads, ms",
            "buffer / fill by these threads",
            "two rounds / fill by these threads",
        ],
    )
    n_threads = threads.n_threads(-1)
    pool = ThreadPoolExecutor(n_threads)
    fresh.start("Gaussian kernel, rule sr33, n_jobs=-1, into fresh arrays")
    for n_rows, d, n in shapes:
        for dtype in (np.float32, np.float64):
            X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(dtype)
            D = 2 * n * (d + 1)
            features = QuadratureFeatures(
                Gaussian(1 / d), rule="sr33", n_components=D + 1, random_state=0, n_jobs=-1
            ).fit(X)
            two_rounds = QuadratureFeatures(
                Gaussian(1 / d), rule=SphericalRadial(tilt=0.0), n_components=D, n_jobs=-1
            ).fit(X)
            sampler = RBFSampler(gamma=1 / d, n_components=D, random_state=0).fit(X)
            W = np.random.default_rng(1).standard_normal((D // 2, d)).astype(dtype)
            buffer: Array = np.zeros((n_rows, D + 1), dtype=dtype)
            narrower: Array = np.zeros((n_rows, D), dtype=dtype)
            times = best(
                {
                    "quadfeat": partial(features.transform, X),
                    "buffer": partial(transform_into, features, X, buffer),
                    "two rounds": partial(transform_into, two_rounds, X, narrower),
                    "RBFSampler": partial(sampler.transform, X),
                    "NumPy": partial(numpy_fourier, X, W),
                    "fill": partial(buffer.fill, 0),
                    "fill together": partial(fill_together, buffer, pool, n_threads),
                    "memset": partial(ctypes.memset, buffer.ctypes.data, 0, buffer.nbytes),
                    "fresh fill": partial(np.full_like, buffer, 0),
                },
                repeats,
            )
            measured = [str(n_rows), str(d), str(D), np.dtype(dtype).name]
            fresh.add(
                *measured,
                *(f"{times[way]:.1f}" for way in ("quadfeat", "RBFSampler", "NumPy")),
                *(f"{times[way] / times['quadfeat']:.1f}" for way in ("RBFSampler", "NumPy")),
                str(n_threads),
                str(blas_threads()),
            )
            reused.keep(
                *measured,
                *(f"{times[way]:.1f}" for way in ("buffer", "fill", "memset", "fresh fill")),
                *(f"{times['buffer'] / times[way]:.1f}" for way in ("fill", "memset")),
                str(n_threads),
                f"{times['fill together']:.1f}",
                f"{times['buffer'] / times['fill together']:.1f}",
                f"{times['two rounds'] / times['fill together']:.1f}",
            )
    reused.show(
        "The same into a buffer that is there already, beside filling it with zeros by NumPy's "
        "fill and by memset, in one thread, and by fill in all threads"
    )
    pool.shutdown()
    return [fresh, reused]


def arc_cosine(shapes: list[tuple[int, int, int]], repeats: int) -> Table:
    """Time the arc-cosine kernels in float32."""
    table = Table(
        "transform-arccosine",
        ["order", "rows", "d", "features", "quadfeat, ms", "NumPy, ms", "NumPy / quadfeat"],
    )
    table.start("Arc-cosine kernels, rule sr33, float32, n_jobs=-1")
    for n_rows, d, n in shapes:
        X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(np.float32)
        D = 2 * n * (d + 1)
        W = np.random.default_rng(1).standard_normal((D, d)).astype(np.float32)
        for order, dense in [(0, numpy_step), (1, numpy_ramp)]:
            features = QuadratureFeatures(
                ArcCosine(order),
                rule="sr33",
                n_components=D + (order == 0),
                random_state=0,
                n_jobs=-1,
            ).fit(X)
            times = best(
                {"quadfeat": partial(features.transform, X), "NumPy": partial(dense, X, W)}, repeats
            )
            table.add(
                str(order),
                str(n_rows),
                str(d),
                str(D),
                f"{times['quadfeat']:.1f}",
                f"{times['NumPy']:.1f}",
                f"{times['NumPy'] / times['quadfeat']:.1f}",
            )
    return table


def growth(widths: list[int], repeats: int) -> Table:
    """Return the time per feature for each d; the last row is the fitted exponent."""
    table = Table("transform-growth", ["d", "a feature of a row, ns"], first_width=8)
    table.start("Against d: Gaussian kernel, sr33, one block, float32, one thread, into a buffer")
    nanoseconds = []
    for d in widths:
        n_rows, D = 2**21 // d, 2 * (d + 1)
        X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(np.float32)
        features = QuadratureFeatures(
            Gaussian(1 / d), rule="sr33", n_components=D + 1, random_state=0, n_jobs=1
        ).fit(X)
        out: Array = np.zeros((n_rows, D + 1), dtype=np.float32)
        (t,) = best({"quadfeat": partial(transform_into, features, X, out)}, repeats).values()
        nanoseconds.append(1e6 * t / (n_rows * D))
        table.add(str(d), f"{nanoseconds[-1]:.3f}")
    exponent = np.polyfit(np.log(widths), np.log(nanoseconds), 1)[0]
    table.add("exponent", f"{exponent:.2f}")
    return table


def main() -> None:
    """Print all tables, and write them if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="take the best of so many")
    parser.add_argument("--small", action="store_true", help="the two smallest shapes only")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    given = parser.parse_args()
    shapes, widths = (SHAPES[:2], WIDTHS[:3]) if given.small else (SHAPES, WIDTHS)
    small = " --small" if given.small else ""
    tables = [
        circumstances(
            "transform-circumstances",
            f"python benchmarks/transform.py --repeats {given.repeats}{small}",
        ),
        *gaussian(shapes, given.repeats),
        arc_cosine(shapes, given.repeats),
        growth(widths, given.repeats),
    ]
    print()
    for table in tables:
        if given.out is not None:
            table.write(given.out)


if __name__ == "__main__":
    main()
