"""Compare random rotations: the error of the kernel, the bias, and the time.

The rotations are one, two and three rounds of butterflies, two alternatives at the cost of two
rounds, and Haar as the yardstick. The alternatives are a first round with its stages in reverse
order, which makes the rows of the matrix uniform as well as its columns, and, if ``d`` is a power
of two, a Hadamard transform with random signs as second round.

All rotations turn the same rows, and a block of nodes has the same radii for all of them. Blocks
are independent, so the mean squared error of a map of ``n`` blocks is the variance of one block
divided by ``n``, plus the squared bias. The standard error of a ratio allows for the pairing.
``quadfeat.rotations.Butterfly`` chooses its rounds by these tables. They take about half an hour.

    python benchmarks/rotations.py [--small] [--out docs/measured]
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from scipy.ndimage import zoom
from scipy.special import hyp1f1
from sklearn.datasets import load_digits

from quadfeat import QuadratureFeatures, transform_into
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference
from quadfeat.kernels import Gaussian
from quadfeat.rotations import Butterfly, ButterflyMatrices, Haar, Hadamard, Rotation
from quadfeat.rules import SphericalRadial
from tables import Table, circumstances
from timing import best

# A function of (d, generator, number of matrices, columns), which returns the turned columns, of
# shape (number of matrices, d, n_columns).
Turn = Callable[[int, np.random.Generator, int, Float64Array], Array]

DIMENSIONS: tuple[int, ...] = (5, 6, 10, 24, 26, 40, 64, 100, 784)
KINDS = ("one-hot", "sparse", "images", "table")
N_PAIRS = 40
N_BLOCKS = (1, 16)  # the maps to compare
ENTRIES = 2**21  # number of turned entries at once


def turned_by(rotation: Rotation) -> Turn:
    """Return the function for a rotation of the library."""

    def turn(d: int, rng: np.random.Generator, count: int, columns: Float64Array) -> Array:
        return rotation.draw(d, rng, count).turn(columns)

    return turn


def reversed_first(d: int, rng: np.random.Generator, count: int, columns: Float64Array) -> Array:
    """Turn by a round that starts with the most distant pairs, then by an ordinary round."""
    turned: Array = np.broadcast_to(columns, (count, *columns.shape))
    for reverse in (True, False):
        drawn = Butterfly(1).draw(d, rng, count)
        assert isinstance(drawn, ButterflyMatrices)
        turned = turned[np.arange(count)[:, None], drawn.permutations[:, 0]]
        runs = [
            (half, 2 * half * k)
            for half, angles in reference.butterfly_stages(d)
            for k in range(angles)
        ]
        for angle, (half, first) in sorted(enumerate(runs), reverse=reverse):
            right = turned[:, first + half : first + 2 * half]
            left = turned[:, first : first + right.shape[1]]
            cosine, sine = (part[:, 0, angle, None, None] for part in (drawn.cosines, drawn.sines))
            reference.rotate_pairs(left, right, cosine, sine)
    return turned


def with_hadamard(d: int, rng: np.random.Generator, count: int, columns: Float64Array) -> Array:
    """Turn by a round of butterflies, then by random signs and a Hadamard transform."""
    signs = rng.choice([-1.0, 1.0], size=(count, d, 1))
    return reference.walsh_hadamard(turned_by(Butterfly(1))(d, rng, count, columns) * signs)


def haar(d: int, rng: np.random.Generator, count: int, columns: Float64Array) -> Array:
    """Turn by Haar matrices. Only the images of a basis of the columns are drawn."""
    basis, coordinates = np.linalg.qr(columns)
    images, r = np.linalg.qr(rng.standard_normal((count, d, basis.shape[1])))
    return images * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None] @ coordinates


THREE = "three rounds"
ROTATIONS: dict[str, Turn] = {
    THREE: turned_by(Butterfly(3)),
    "one": turned_by(Butterfly(1)),
    "two": turned_by(Butterfly(2)),
    "two, first reversed": reversed_first,
    "one and Hadamard": with_hadamard,
    "Haar": haar,
}


def is_defined(name: str, d: int) -> bool:
    """Return whether a rotation exists for ``d`` columns."""
    return name != "one and Hadamard" or Hadamard().size(d) == d


def rows(kind: str, d: int, rng: np.random.Generator, n_rows: int = 400) -> Float64Array:
    """Return rows of a kind of data."""
    if kind == "one-hot":
        return np.eye(d)[rng.integers(0, d, n_rows)]
    if kind == "sparse":
        present = rng.random((n_rows, d)) < max(0.05, 1.5 / d)
        return np.abs(rng.standard_normal((n_rows, d))) * present
    if kind == "images":
        images = load_digits().images[rng.permutation(1797)[:n_rows]]
        side = math.ceil(math.sqrt(d))
        first = max(0, (8 - side) // 2)
        images = images[:, first : first + side, first : first + side]
        if side > 8:
            images = zoom(images, (1, side / 8, side / 8), order=1)
        return images.reshape(n_rows, -1)[:, :d]
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    correlated = rng.standard_normal((n_rows, d)) * np.exp(-3 * np.arange(d) / d) @ axes.T
    return (correlated - correlated.mean(0)) / correlated.std(0)


def scaled_differences(kind: str, d: int, exponent: float) -> Float64Array:
    """Return differences of rows, scaled so that the median kernel is ``exp(-exponent)``.

    The kernel of a difference is ``exp(-|difference|^2 / 2)``.
    """
    rng = np.random.default_rng(d)
    X = rows(kind, d, rng)
    differences = X[rng.integers(0, len(X), 3000)] - X[rng.integers(0, len(X), 3000)]
    squares = (differences**2).sum(1)
    differences, squares = differences[squares > 0], squares[squares > 0]
    return differences[:N_PAIRS] * math.sqrt(2 * exponent / np.median(squares))


def errors(turn: Turn, differences: Float64Array, n_blocks: int, tilt: float) -> Float64Array:
    """Return the errors of maps of one block, shape (n_blocks, n_pairs)."""
    n_pairs, d = differences.shape
    exact = np.exp(-(differences**2).sum(1) / 2)
    batch = max(1, ENTRIES // (d * n_pairs))
    found = []
    for first in range(0, n_blocks, batch):
        count = min(batch, n_blocks - first)
        turned = turn(d, np.random.default_rng([1, first]), count, differences.T)
        products = reference.simplex(turned)
        squares = np.random.default_rng([2, first]).chisquare(d + 2 * tilt, (count, d + 1, 1))
        weights = (d / squares) ** tilt / (d + 1)
        estimates = 1 + (weights * (np.cos(np.sqrt(squares) * products) - 1)).sum(1)
        found.append(estimates - exact)
    return np.concatenate(found)


def ratio(of: Float64Array, to: Float64Array, n_blocks: int) -> tuple[float, float]:
    """Return the ratio of root mean squared errors of maps of blocks, and its standard error.

    The standard error is that of a jackknife over twenty groups of blocks.
    """

    def mean_square(values: Float64Array) -> float:
        variance, n = values.var(axis=0, ddof=1), len(values)
        return float(((values.mean(axis=0) ** 2 - variance / n) * n_blocks + variance).mean())

    groups = np.arange(len(of)) % 20
    left = [
        math.sqrt(max(0.0, mean_square(of[groups != k]) / mean_square(to[groups != k])))
        for k in range(20)
    ]
    whole = math.sqrt(mean_square(of) / mean_square(to))
    return whole, math.sqrt(19 * float(np.var(left)))


def compare_errors(dimensions: tuple[int, ...], draws: int) -> Table:
    """Return the errors of maps relative to three rounds."""
    names = [name for name in ROTATIONS if name != THREE]
    table = Table(
        "rotations",
        ["d", "rows", "tilt", "blocks", "error of three rounds"]
        + [column for name in names for column in (name, "±")],
    )
    table.start(f"Root mean squared errors relative to three rounds, from {draws} blocks or more")
    for d, kind, (tilt, exponent) in itertools.product(dimensions, KINDS, ((0.0, 1.0), (1.0, 0.3))):
        differences = scaled_differences(kind, d, exponent)
        n = max(draws, 4 * draws * 24 // d)
        found = {
            name: errors(turn, differences, n, tilt)
            for name, turn in ROTATIONS.items()
            if is_defined(name, d)
        }
        three = found[THREE]
        for n_blocks in N_BLOCKS:
            spread = math.sqrt(three.var(axis=0).mean() / n_blocks)
            cells: list[str] = []
            for name in names:
                if name in found:
                    cells += (f"{value:.3f}" for value in ratio(found[name], three, n_blocks))
                else:
                    cells += ["", ""]
            table.add(str(d), kind, f"{tilt:g}", str(n_blocks), f"{spread:.4f}", *cells)
    return table


def compare_biases(dimensions: tuple[int, ...], entries: int) -> Table:
    """Return the biases for differences along an axis, and along the sum of two axes.

    The exact kernel is exp(-2). The radius is integrated out. So each entry of the turned
    difference is one estimate.
    """
    names = [name for name in ROTATIONS if name not in ("Haar", "one and Hadamard")]
    table = Table("rotations-bias", ["d", "axes", *names, "standard error"])
    table.start("Bias x 10,000 for one or two axes, kernel 0.1353, degree 1")
    for d in dimensions:
        two = np.zeros((d, 2))
        two[0, 0], two[:2, 1] = 2.0, math.sqrt(2.0)
        grid = np.linspace(0.0, 2.0, 4001)
        expected = hyp1f1(d / 2, 0.5, -(grid**2) / 2)
        means = {}
        for name in names:
            rng = np.random.default_rng(0)
            per_batch = max(1, min(ENTRIES // 2, entries // 20) // d)
            means[name] = np.array(
                [
                    np.interp(np.abs(ROTATIONS[name](d, rng, per_batch, two)), grid, expected).mean(
                        (0, 1)
                    )
                    for _ in range(max(20, entries // (per_batch * d)))
                ]
            )
        error = max(values.std(0, ddof=1).max() / len(values) ** 0.5 for values in means.values())
        for k in range(2):
            biases = (f"{1e4 * (means[name].mean(0)[k] - math.exp(-2)):+.1f}" for name in names)
            table.add(str(d), str(k + 1), *biases, f"{1e4 * error:.1f}")
    return table


def compare_times(dimensions: tuple[int, ...], repeats: int) -> Table:
    """Return the times per feature of a row, in one thread, in float32 and into a buffer."""
    rotations: dict[str, Rotation] = {
        "one": Butterfly(1),
        "two": Butterfly(2),
        THREE: Butterfly(3),
        "Haar": Haar(),
    }
    table = Table("rotations-time", ["d", *(f"{name}, ns" for name in rotations), "two / three"])
    table.start("Time per feature of a row: Gaussian kernel, two blocks, float32, one thread")
    for d in dimensions:
        D, n_rows = 4 * (d + 1), 2**20 // d
        X = np.random.default_rng(0).standard_normal((n_rows, d)).astype(np.float32)
        out = np.zeros((n_rows, D), dtype=np.float32)
        ways: dict[str, Callable[[], object]] = {}
        for name, rotation in rotations.items():
            rule = SphericalRadial(origin="signed", rotation=rotation)
            features = QuadratureFeatures(
                Gaussian(1 / d), rule=rule, n_components=D, random_state=0, n_jobs=1
            )
            ways[name] = partial(transform_into, features.fit(X), X, out)
        times = best(ways, repeats, time.process_time)
        nanoseconds = (f"{1e6 * taken / (n_rows * D):.3f}" for taken in times.values())
        table.add(str(d), *nanoseconds, f"{times['two'] / times[THREE]:.2f}")
    return table


def main() -> None:
    """Print the tables, and write them if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=600, help="blocks per rotation, at least")
    parser.add_argument("--entries", type=int, default=4_000_000, help="entries per bias")
    parser.add_argument("--repeats", type=int, default=7, help="take the best of so many times")
    parser.add_argument("--small", action="store_true", help="few draws of three dimensions")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    given = parser.parse_args()
    dimensions, draws, entries = DIMENSIONS, given.draws, given.entries
    if given.small:
        dimensions, draws, entries = (5, 64, 100), 200, 400_000
    tables = [
        circumstances(
            "rotations-circumstances",
            f"python benchmarks/rotations.py --repeats {given.repeats}" + " --small" * given.small,
        ),
        compare_times(dimensions, given.repeats),
        compare_errors(dimensions, draws),
        compare_biases(dimensions, entries),
    ]
    if given.out is not None:
        print()
        for table in tables:
            table.write(given.out)


if __name__ == "__main__":
    main()
