"""Compare the kernel error of ``rule="auto"`` with that of every fixed rule, cell by cell.

A cell is a dataset (divided by its largest entry, or standardized), a kernel and a number of
columns. In each cell, every rule is drawn several times on the same rows. ``"auto"`` chooses from
another sample of rows, and its choice is drawn as often. The error is that of ``Z Z'`` relative to
the kernel matrix in the Frobenius norm, root mean square over draws.

    QUADFEAT_DATA=folder python benchmarks/auto.py [--datasets letter usps] [--out auto.csv]
    python benchmarks/auto.py --cost
    python benchmarks/auto.py --choices after.csv [--before before.csv]

``--choices`` measures only ``"auto"``, in fewer cells. Run it with two versions of quadfeat to
compare their choices and their time.

Datasets are the files NAME.npz in the folder QUADFEAT_DATA, and scikit-learn's toy datasets.
Finished cells are kept in the CSV file; run the script again to continue. Rules that are too slow
have an empty column. The smallest of seven noisy errors is biased downward, and few draws are noisy
in few dimensions. ``--again 1.08`` measures such cells again with more draws.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from quadfeat import QuadratureFeatures, transform_into
from quadfeat.auto import selection
from quadfeat.auto.selection import Sample, choose
from quadfeat.engine.core import compile_map
from quadfeat.kernels import ArcCosine, Gaussian, Kernel
from quadfeat.rules import Rule, as_rule
from timing import best

BASELINES = ("rff", "orf", "rom", "halton", "sobol", "gauss-hermite", "sr33")
GAMMAS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)  # times d
BLOCKS = (1, 4, 16, 64)  # columns as multiples of d + 1
COLUMNS = (100, 1000, 4000)
FEW_COLUMNS = (100, 1000)  # with --choices
N_ROWS = 200
FIELDS = ("dataset", "scaling", "kernel", "columns", "d", "auto", *BASELINES, "chosen", "seconds")

# Draws of each rule in a cell, choices of auto in a cell, and the largest number of entries of
# dense nodes; larger cells are skipped.
DRAWS = 48
FEWEST_DRAWS = 12
ENTRIES_OF_DRAWS = 2e7
CHOICES = 6
AGAIN = 5
MOST_ENTRIES = 8e6

# Shapes for which the cost of choosing is measured.
COST_SHAPES = ((4, 1024), (16, 1024), (16, 4000), (54, 4000), (256, 1000), (256, 4000), (784, 4000))

# ORF decomposes d x d matrices, Halton points need memory of order d^2.
MOST_COLUMNS = {"orf": 1024, "halton": 1024}

TOYS = {
    "breast_cancer": load_breast_cancer,
    "diabetes": load_diabetes,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}

Cell = tuple[str, str, str, int]


def kernel_named(name: str, d: int) -> Kernel:
    """Return the kernel of a cell."""
    kind, value = name.split()
    return Gaussian(float(value) / d) if kind == "gaussian" else ArcCosine(int(value))


KERNELS = (*(f"gaussian {gamma:g}" for gamma in GAMMAS), "arccos 0", "arccos 1")


def load(name: str) -> np.ndarray[Any, Any]:
    """Return the rows of a dataset in random order."""
    if name in TOYS:
        X = TOYS[name]().data
    else:
        X = np.load(Path(os.environ["QUADFEAT_DATA"]) / f"{name}.npz")["X"]
    rows = np.random.default_rng(0).permutation(len(X))[:20_000]
    return np.asarray(X[rows], dtype=np.float64)


def scaled(X: np.ndarray[Any, Any], scaling: str) -> np.ndarray[Any, Any]:
    """Return the rows, divided by their largest entry or standardized."""
    if scaling == "raw":
        return X / np.abs(X).max()
    deviations = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)


def cells(names: list[str], fixed: tuple[int, ...] = ()) -> Iterator[Cell]:
    """Yield the cells in order, with other numbers of columns if they are given."""
    for name in names:
        d = load(name).shape[1]
        counts = fixed or tuple(sorted({*(n * (d + 1) for n in BLOCKS), *COLUMNS}))
        for scaling in ("raw", "standardised"):
            for kernel in KERNELS:
                for columns in counts:
                    if columns / 2 * d <= MOST_ENTRIES:
                        yield name, scaling, kernel, columns


def error(
    rule: Rule, columns: int, kernel: Kernel, X: Any, gram: Any, rng: np.random.Generator
) -> float:
    """Return the squared relative error of one draw."""
    nodes = rule.draw(X.shape[1], columns, kernel, rng)
    Z = np.empty((len(X), columns))
    compile_map(nodes, kernel, Z.dtype).write(X, Z, 1)
    return float(((Z @ Z.T - gram) ** 2).sum() / (gram**2).sum())


def measure(cell: Cell, more: int = 1, baselines: tuple[str, ...] = BASELINES) -> dict[str, Any]:
    """Return the errors in a cell, from ``more`` times the usual number of draws."""
    name, scaling, kernel_name, columns = cell
    data = scaled(load(name), scaling)
    d = data.shape[1]
    kernel = kernel_named(kernel_name, d)
    X = data[:N_ROWS]
    others = data[N_ROWS:] if len(data) > 2 * N_ROWS else data
    gram = kernel(X)
    row: dict[str, Any] = dict(zip(FIELDS, (*cell, d), strict=False))
    n_draws = int(np.clip(ENTRIES_OF_DRAWS // (columns * (len(X) + d)), FEWEST_DRAWS, DRAWS)) * more
    for baseline in baselines:
        if d > MOST_COLUMNS.get(baseline, d):
            continue
        rng = np.random.default_rng([1, more])
        errors = [error(as_rule(baseline), columns, kernel, X, gram, rng) for _ in range(n_draws)]
        row[baseline] = np.sqrt(np.mean(errors))
    n_choices = min(n_draws, CHOICES)
    chosen, start = [], time.perf_counter()
    for seed in range(n_choices):
        rng = np.random.default_rng([seed, more])
        chosen.append((choose(Sample.of(others, kernel), columns, rng).rule, rng))
    row["seconds"] = (time.perf_counter() - start) / n_choices
    errors = [
        error(rule, columns, kernel, X, gram, rng)
        for rule, rng in chosen
        for _ in range(n_draws // n_choices)
    ]
    row["auto"] = np.sqrt(np.mean(errors))
    rules = [repr(clone(rule).set_params(remainder=1.0)) for rule, _ in chosen]
    row["chosen"] = " ".join(max(set(rules), key=rules.count).split())
    return row


def read(path: Path) -> list[dict[str, Any]]:
    """Return the latest row of each cell that an earlier run finished."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list({cell_of(row): row for row in csv.DictReader(file)}.values())


def cell_of(row: dict[str, Any]) -> Cell:
    """Return the cell of a row."""
    return row["dataset"], row["scaling"], row["kernel"], int(row["columns"])


def ratios(rows: list[dict[str, Any]], baseline: str | None) -> np.ndarray[Any, Any]:
    """Return the error of auto divided by that of a baseline, or of the best one if it is None."""
    found = []
    for row in rows:
        errors = [float(row[name]) for name in BASELINES if row.get(name)]
        against = min(errors) if baseline is None else float(row.get(baseline) or "nan")
        found.append(float(row["auto"]) / against)
    return np.array(found)[~np.isnan(found)]


def geometric_mean(values: np.ndarray[Any, Any]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the tables, in Markdown."""
    lines = ["| error of auto / error of | geometric mean | smallest | largest | cells |"]
    lines.append("|---|---|---|---|---|")
    for baseline in (None, *BASELINES):
        values = ratios(rows, baseline)
        lines.append(
            f"| {baseline or 'the best of them in the cell'} | {geometric_mean(values):.3f} "
            f"| {values.min():.2g} | {values.max():.3g} | {len(values)} |"
        )
    lines += ["", "| data set | d | " + " | ".join(KERNELS) + " | above 1.1 |"]
    lines.append("|---|---|" + "---|" * (len(KERNELS) + 1))
    for name, scaling in dict.fromkeys((row["dataset"], row["scaling"]) for row in rows):
        part = [row for row in rows if (row["dataset"], row["scaling"]) == (name, scaling)]
        means = [
            f"{geometric_mean(ratios([row for row in part if row['kernel'] == kernel], None)):.2f}"
            for kernel in KERNELS
        ]
        above = int((ratios(part, None) > 1.1).sum())
        lines.append(f"| {name}, {scaling} | {part[0]['d']} | {' | '.join(means)} | {above} |")
    return "\n".join(lines)


def forget() -> None:
    """Drop the choices that quadfeat keeps; earlier versions keep none."""
    kept = getattr(selection, "CHOICES", None)
    if kept is not None:
        kept.clear()


def fits() -> str:
    """Return the CPU seconds of fits to scikit-learn's breast cancer data, in Markdown."""
    X = scaled(load_breast_cancer().data, "standardised")
    tolerance = {"n_components": "auto", "tol": 0.05}
    cases: dict[str, tuple[dict[str, Any], bool]] = {
        'rule="sr33"': ({"rule": "sr33"}, True),
        'rule="auto"': ({}, True),
        'rule="auto", the same rows again': ({}, False),
        'n_components="auto", tol=0.05': (tolerance, True),
    }
    lines = ["| fit | CPU seconds |", "|---|---|"]
    for name, (options, forgets) in cases.items():
        times = []
        for _ in range(6):
            if forgets:
                forget()
            start = time.process_time()
            QuadratureFeatures(random_state=0, **options).fit(X)
            times.append(time.process_time() - start)
        lines.append(f"| `{name}` | {min(times):.3f} |")
    return "\n".join(lines)


def costs() -> str:
    """Return the seconds of choosing and of a transform of 50,000 rows, in Markdown."""
    lines = ["| d | columns | kernel | choosing, s | transform of 50,000 rows, s | allowed, s |"]
    lines.append("|---|---|---|---|---|---|")
    for d, columns in COST_SHAPES:
        X = np.random.default_rng(0).standard_normal((2000, d))
        for kernel in (Gaussian(1.0 / d), ArcCosine(0)):
            features = QuadratureFeatures(kernel, n_components=columns, random_state=0).fit(X)
            out = np.empty((len(X), columns))

            def choosing(X: Any = X, kernel: Kernel = kernel, columns: int = columns) -> None:
                forget()
                choose(Sample.of(X, kernel), columns, np.random.default_rng(0))

            def transforming(features: Any = features, X: Any = X, out: Any = out) -> None:
                transform_into(features, X, out)

            times = best({"choosing": choosing, "transforming": transforming}, 5)
            choice, transform = times["choosing"] / 1e3, times["transforming"] / 1e3 * 25
            allowed = max(0.3, 0.2 * transform)
            lines.append(
                f"| {d} | {columns} | {type(kernel).__name__} | {choice:.2f} | {transform:.2f} "
                f"| {allowed:.2f} |"
            )
    return "\n".join(lines)


def compare_choices(options: argparse.Namespace) -> str:
    """Measure the choices of this version, and compare them with those of another version."""
    running = Parallel(n_jobs=options.jobs)(
        delayed(measure)(cell, 1, ()) for cell in cells(options.datasets, FEW_COLUMNS)
    )
    with options.choices.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(running)
    if options.before is None:
        return f"wrote {len(running)} cells"
    before = {cell_of(row): row for row in read(options.before)}
    lines = ["| dataset | d | cells | error after / before | largest | seconds before | after |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name in [*options.datasets, None]:
        pairs = [
            (row, before[cell_of(row)])
            for row in running
            if cell_of(row) in before and name in (None, row["dataset"])
        ]
        if not pairs:
            continue
        values = np.array([float(new["auto"]) / float(old["auto"]) for new, old in pairs])
        seconds = [
            np.mean([float(row["seconds"]) for row in rows]) for rows in zip(*pairs, strict=True)
        ]
        lines.append(
            f"| {name or 'all'} | {pairs[0][0]['d'] if name else ''} | {len(pairs)} "
            f"| {geometric_mean(values):.3f} | {values.max():.3f} | {seconds[1]:.3f} "
            f"| {seconds[0]:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the unfinished cells and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    folder = os.environ.get("QUADFEAT_DATA")
    known = sorted(path.stem for path in Path(folder).glob("*.npz")) if folder else []
    known = [name for name in known if np.load(Path(folder or "") / f"{name}.npz")["X"].ndim == 2]
    known += TOYS
    parser.add_argument("--datasets", nargs="+", choices=known, default=known)
    parser.add_argument("--out", type=Path, default=Path("auto.csv"))
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument(
        "--again",
        type=float,
        metavar="RATIO",
        help=f"measure cells where auto / best is above this again, with {AGAIN} times the draws",
    )
    parser.add_argument("--cost", action="store_true", help="only measure the cost of choosing")
    parser.add_argument("--choices", type=Path, metavar="FILE", help="only measure auto's choices")
    parser.add_argument("--before", type=Path, metavar="FILE", help="choices of another version")
    options = parser.parse_args()
    if options.choices:
        print(compare_choices(options))
        return
    if options.cost:
        print(fits(), costs(), sep="\n\n")
        return

    rows = read(options.out)
    if options.again:
        waiting = [cell_of(row) for row in rows if ratios([row], None)[0] > options.again]
        waiting = [cell for cell in waiting if cell[0] in options.datasets]
    else:
        done = set(map(cell_of, rows))
        waiting = [cell for cell in cells(options.datasets) if cell not in done]
    with options.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not rows:
            writer.writeheader()
        running = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
            delayed(measure)(cell, AGAIN if options.again else 1) for cell in waiting
        )
        for count, row in enumerate(running, 1):
            writer.writerow(row)
            file.flush()
            print(f"{count} of {len(waiting)} cells", file=sys.stderr, end="\r", flush=True)
    print(summary([row for row in read(options.out) if row["dataset"] in options.datasets]))


if __name__ == "__main__":
    main()
