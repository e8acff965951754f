"""Measure Gaussian processes on nearest rows: searches, solves, memory, and ways to learn.

``QUADFEAT_DATA`` names the folder of the tables; see ``contest/data.py``. Times are CPU seconds of
one thread, unless a column says otherwise.

    python benchmarks/neighbors.py search      # a k-d tree and a scan; costs of both
    python benchmarks/neighbors.py indexes     # approximate indexes, as far as installed
    python benchmarks/neighbors.py solves      # 100,000 rows, 100,000 queries, 64 neighbors
    python benchmarks/neighbors.py core        # the native core and NumPy
    python benchmarks/neighbors.py objectives  # the leave-one-out and the Vecchia likelihood
    python benchmarks/neighbors.py mean        # a global mean from features
    python benchmarks/neighbors.py large       # 10 million rows
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from contest import data
from quadfeat import LocalGaussianProcess, QuadratureRidge
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels import Matern
from quadfeat.learning.candidates import FAMILIES
from quadfeat.learning.clock import Clock
from quadfeat.neighbors import native, reference
from quadfeat.neighbors.clusters import Clusters
from quadfeat.neighbors.conditional import Neighborhoods, condition
from quadfeat.neighbors.goals import NumericGoal
from quadfeat.neighbors.learning import LocalSearch
from quadfeat.neighbors.process import LocalProcess
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.scan import Scan
from quadfeat.neighbors.search import NearestRows, index_for
from quadfeat.neighbors.settings import Settings
from quadfeat.neighbors.tree import Tree, visited_points
from quadfeat.neighbors.tried import Wanted
from tables import Table, circumstances

NEIGHBORS = 32
MANY_NEIGHBORS = 64
QUERIES = 512


def cpu(work: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the CPU seconds of all threads, and the result."""
    start = time.process_time()
    result = work(*arguments)
    return time.process_time() - start, result


def megabytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def standardized(X: Array) -> Float64Array:
    """Return rows in random order with columns of variance 1."""
    X = X[np.random.default_rng(0).permutation(len(X))].astype(np.float64)
    return X / np.maximum(X.std(axis=0), 1e-9)


def point_sets() -> dict[str, Float64Array]:
    """Return points of several kinds, in random order."""
    rng = np.random.default_rng(0)
    found = {
        f"normal, {n_rows:,} x {d}": rng.standard_normal((n_rows + QUERIES, d))
        for d in (2, 4, 8, 12, 16, 32)
        for n_rows in (5_000, 100_000)
    }
    decay = rng.standard_normal((50_000 + QUERIES, 32)) * 2.0 ** -np.arange(32)
    found["decaying, 50,000 x 32"] = decay
    for table in ("letter", "usps", "adult", "mnist"):
        X = data.read(table)["X"]
        # Pixels have one unit.
        found[f"{table}, {len(X) - QUERIES:,} x {X.shape[1]}"] = (
            X[np.random.default_rng(0).permutation(len(X))] / 255.0
            if table in ("usps", "mnist")
            else standardized(X)
        )
    return found


def search() -> Table:
    """Compare exact searches, and the cost that chooses between them."""
    columns = ["points", "visited", "tree, ms", "scan, ms", "chosen", "tree, ns", "scan, ns"]
    table = Table("neighbors-search", columns, first_width=24)
    table.start("A query for 32 neighbors: milliseconds; nanoseconds by visited point")
    for name, rows in point_sets().items():
        points, queries = rows[:-QUERIES], rows[-QUERIES:]
        n_rows, d = points.shape
        visited = visited_points(points, NEIGHBORS)
        few = queries[: QUERIES if d < 30 else 64]
        tree, scan = Tree(points), Scan(points)
        in_tree = cpu(tree.query, few, NEIGHBORS, 1)[0] / len(few)
        in_scan = cpu(scan.query, queries, NEIGHBORS, 1)[0] / len(queries)
        table.add(
            name,
            f"{visited:.0f}",
            f"{1e3 * in_tree:.3f}",
            f"{1e3 * in_scan:.3f}",
            type(index_for(points)).__name__.lower(),
            f"{1e9 * in_tree / (visited * d):.2f}",
            f"{1e9 * in_scan / n_rows:.1f}",
        )
    return table


Ask = Callable[[Float64Array, int], Array]


def _clusters(points: Float64Array) -> Ask:
    index = Clusters(points, MANY_NEIGHBORS)
    return lambda queries, k: index.query(queries, k, 1)


def _hnsw(points: Float64Array) -> Ask:
    import faiss

    faiss.omp_set_num_threads(1)
    index: Any = faiss.IndexHNSWFlat(points.shape[1], 32)
    index.hnsw.efConstruction, index.hnsw.efSearch = 80, 96
    index.add(points.astype(np.float32))
    return lambda queries, k: np.asarray(index.search(queries.astype(np.float32), k)[1])


def _usearch(points: Float64Array) -> Ask:
    from usearch.index import Index

    index = Index(ndim=points.shape[1], metric="l2sq", dtype="f32", expansion_search=96)
    index.add(np.arange(len(points)), points.astype(np.float32), threads=1)
    return lambda queries, k: np.asarray(
        index.search(queries.astype(np.float32), k, threads=1).keys
    )


def _pynndescent(points: Float64Array) -> Ask:
    from pynndescent import NNDescent

    index = NNDescent(points.astype(np.float32), random_state=0, n_jobs=1)
    index.prepare()
    return lambda queries, k: np.asarray(index.query(queries.astype(np.float32), k)[0])


def _tree(points: Float64Array) -> Ask:
    tree = Tree(points)
    return lambda queries, k: tree.query(queries, k, 1)


def _scan(points: Float64Array) -> Ask:
    scan = Scan(points)
    return lambda queries, k: scan.query(queries, k, 1)


INDEXES: dict[str, tuple[str, Callable[[Float64Array], Ask]]] = {
    "exact tree": ("scipy", _tree),
    "exact scan": ("numpy", _scan),
    "faiss, clusters": ("faiss", _clusters),
    "faiss, HNSW": ("faiss", _hnsw),
    "usearch, HNSW": ("usearch", _usearch),
    "pynndescent": ("pynndescent", _pynndescent),
}


def indexes() -> Table:
    """Compare approximate indexes on 100,000 points with 10 and with 30 columns."""
    columns = ["columns", "index", "build, s", "query, ms", "recall", "same again"]
    table = Table("neighbors-indexes", columns)
    table.start("Approximate indexes: 64 neighbors among 100,000 normal points")
    for d in (10, 30):
        rows = np.random.default_rng(0).standard_normal((100_000 + QUERIES, d))
        points, queries = rows[:-QUERIES], rows[-QUERIES:]
        exact = Scan(points).query(queries, MANY_NEIGHBORS, 1)
        for label, (module, make) in INDEXES.items():
            if find_spec(module) is None:
                print(f"{module} is not installed")
                continue
            make(points[:2000])(queries[:8], 4)  # compile
            build, ask = cpu(make, points)
            seconds, found = cpu(ask, queries, MANY_NEIGHBORS)
            pairs = zip(found, exact, strict=True)
            recall = np.mean([np.isin(*pair).mean() for pair in pairs])
            few, some = points[:10_000], queries[:64]
            same = np.array_equal(make(few)(some, NEIGHBORS), make(few)(some, NEIGHBORS))
            table.add(
                str(d),
                label,
                f"{build:.1f}",
                f"{1e3 * seconds / len(queries):.3f}",
                f"{recall:.3f}",
                "yes" if same else "no",
            )
    return table


def solves() -> Table:
    """Time the search and the solves of 100,000 queries among 100,000 rows."""
    table = Table("neighbors-solves", ["points", "threads", "what", "wall, s", "CPU, s", "recall"])
    table.start("100,000 rows with 10 columns, 100,000 queries, 64 neighbors")
    rng = np.random.default_rng(0)
    n_rows, d, k = 100_000, 10, 64
    for name in ("normal", "uniform"):
        shape = (2, n_rows, d)
        draw = rng.standard_normal(shape) if name == "normal" else rng.uniform(size=shape)
        points, queries = draw
        targets = np.sin(points.sum(axis=1))[:, None]
        for n_threads in (1, 2) if name == "normal" else (2,):
            nearest = NearestRows(points, n_threads)
            wall = time.perf_counter()
            seconds, found = cpu(nearest.to, queries, k)
            wall = time.perf_counter() - wall
            recall = f"{nearest.index.recall:.2f}"
            table.add(name, str(n_threads), "search", f"{wall:.1f}", f"{seconds:.1f}", recall)
            hoods = Neighborhoods.of(queries, points, targets, np.ones(n_rows), found)
            hoods = hoods.scaled(np.full(d, 0.3))
            wall = time.perf_counter()
            seconds, _ = cpu(condition, Matern(1.5), hoods, 0.01, n_threads)
            wall = time.perf_counter() - wall
            table.add(name, str(n_threads), "solves", f"{wall:.1f}", f"{seconds:.1f}", "")
    return table


def core() -> Table:
    """Compare the native core with NumPy."""
    table = Table("neighbors-core", ["neighbors", "native, ms", "NumPy, ms"])
    table.start("A query, 10 columns, Matern 3/2, one thread")
    rng = np.random.default_rng(0)
    points, targets = rng.standard_normal((4000, 10)), rng.standard_normal((4000, 1))
    for k in (16, 64, 256, 1024):
        n_queries = max(8, min(2000, 2**24 // k**2))
        found = np.stack([rng.permutation(4000)[:k] for _ in range(n_queries)])
        queries = points[:n_queries] + 0.01
        hoods = Neighborhoods.of(queries, points, targets, np.ones(4000), found)
        ways = (partial(native.condition, n_threads=1), reference.condition)
        times = [
            1e3 / n_queries * min(cpu(way, Matern(1.5), hoods, 0.01)[0] for _ in range(3))
            for way in ways
        ]
        table.add(str(k), *(f"{one:.3f}" for one in times))
    return table


class VecchiaSearch(LocalSearch):
    """Learns with the likelihood given neighbors that are earlier in a random order."""

    def _refined(self, settings: Settings, number: int) -> Settings:
        self._is_learning = True
        try:
            return super()._refined(settings, number)
        finally:
            self._is_learning = False

    def _process(self, settings: Settings) -> LocalProcess:
        process: Any = super()._process(settings)
        if not getattr(self, "_is_learning", False):
            return process
        points, k = process._nearest.points, settings.n_neighbors

        ranks = np.random.default_rng(0).permutation(len(points))

        def earlier(which: Array) -> Neighborhoods:
            found = np.empty((len(which), k), dtype=np.int64)
            for place, row in enumerate(which):
                squares = cdist(points[row][None], points, "sqeuclidean")[0]
                squares[ranks >= max(ranks[row], k)] = np.inf
                squares[row] = np.inf
                nearest = np.argpartition(squares, k)[:k]
                found[place] = nearest[np.argsort(squares[nearest])]
            hoods: Neighborhoods = process._hoods(points[which], found)
            return hoods

        process.without_own = earlier
        return process


def objectives() -> Table:
    """Compare likelihoods to learn with, for one family of kernels."""
    columns = ["table", "likelihood", "R2", "NLL", "leave-one-out R2", "CPU, s"]
    table = Table("neighbors-objectives", columns, first_width=12)
    table.start("Matern 3/2 with 32 neighbors, learned with each likelihood; test rows")
    for name in ("california", "protein", "kin40k", "bike"):
        split = data.load(name, 0)
        X, unit = split.X.astype(np.float64), split.y.std()
        y, y_test = (split.y - split.y.mean()) / unit, (split.y_test - split.y.mean()) / unit
        rows = DistinctRows.of(X, y[:, None], np.ones(len(X)))
        for label, kind in (("leave-one-out", LocalSearch), ("Vecchia", VecchiaSearch)):
            family = {"Matern 3/2": FAMILIES["Matern 3/2"]}
            wanted = Wanted(family, "ard", None, NEIGHBORS)
            made = kind(NumericGoal(rows), wanted, Clock(None), 1)
            seconds, best = cpu(made.run)
            process = LocalProcess(rows, best.settings)
            left_out = process.left_out(np.arange(4096))
            variances = left_out.variance + best.settings.alpha
            errors = rows.Y[:4096, 0] - left_out.mean[:, 0]
            signal = np.mean(errors**2 / variances)
            found = process.predict(split.X_test.astype(np.float64))
            errors = y_test - found.mean[:, 0]
            spread = signal * (found.variance + best.settings.alpha)
            nll = np.mean(0.5 * errors**2 / spread + 0.5 * np.log(2 * np.pi * spread))
            table.add(
                name,
                label,
                f"{1 - np.mean(errors**2) / np.var(y_test):.4f}",
                f"{nll:.3f}",
                f"{1 - best.loss:.4f}",
                f"{seconds:.1f}",
            )
    return table


def mean() -> Table:
    """Compare neighbors alone with neighbors that predict the residuals of features."""
    columns = ["table", "neighbors", "features", "features, then neighbors"]
    table = Table("neighbors-mean", columns, first_width=12)
    table.start("R2 on test rows; Matern 3/2; 1,024 features")
    for name in ("bike", "house8L", "california"):
        split = data.load(name, 0)
        features = QuadratureRidge(n_components=1024, random_state=0).fit(split.X, split.y)
        trend, test_trend = features.predict(split.X), features.predict(split.X_test)
        local = LocalGaussianProcess("matern32", lengthscales="ard")
        found = {
            "neighbors": local.fit(split.X, split.y).predict(split.X_test),
            "features": test_trend,
            "both": test_trend + local.fit(split.X, split.y - trend).predict(split.X_test),
        }
        scores = [
            1 - np.mean((split.y_test - one) ** 2) / split.y_test.var() for one in found.values()
        ]
        table.add(name, *(f"{score:.4f}" for score in scores))
    return table


def large(n_rows: int = 10_000_000) -> Table:
    """Fit and predict with 10 million rows."""
    columns = [
        "rows",
        "columns",
        "fit, wall s",
        "fit, CPU s",
        "query, ms",
        "R2",
        "recall",
        "peak MB",
    ]
    table = Table("neighbors-large", columns)
    table.start("LocalGaussianProcess with no settings, two threads; peak memory of the process")
    rng = np.random.default_rng(0)
    for d in (3, 10):
        X = rng.uniform(size=(n_rows + 10_000, d))
        y = np.sin(20.0 * X[:, 0]) * np.cos(9.0 * X[:, 1]) + X[:, 2:].sum(axis=1)
        truth = y[n_rows:]
        y = y + 0.1 * rng.standard_normal(len(y))
        wall = time.perf_counter()
        model = LocalGaussianProcess(n_jobs=2)
        seconds, _ = cpu(model.fit, X[:n_rows], y[:n_rows])
        wall = time.perf_counter() - wall
        model.predict(X[:1])  # builds the search
        asked, found = cpu(model.predict, X[n_rows:])
        table.add(
            f"{n_rows:,}",
            str(d),
            f"{wall:.0f}",
            f"{seconds:.0f}",
            f"{1e3 * asked / 10_000:.2f}",
            f"{1 - np.mean((truth - found) ** 2) / truth.var():.4f}",
            f"{model.recall_:.3f}",
            f"{megabytes():.0f}",
        )
        del X, y, model
    return table


PARTS: dict[str, Callable[[], Table]] = {
    one.__name__: one for one in (search, indexes, solves, core, objectives, mean, large)
}


def main() -> None:
    """Run the named parts, and write their tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART")
    parser.add_argument("--rows", type=int, default=10_000_000, help="number of rows of 'large'")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"{part}: choose among {', '.join(PARTS)}")
    made = [large(options.rows) if part == "large" else PARTS[part]() for part in options.parts]
    made.append(circumstances("neighbors-circumstances", "python benchmarks/neighbors.py"))
    if options.out is not None:
        for table in made:
            table.write(options.out)


if __name__ == "__main__":
    main()
