"""Draw the picture of README and landing page: accuracy on real tables, and error of the kernel.

The left panel shows ``docs/measured/accuracy-regression.csv``, which ``benchmarks/accuracy.py``
writes. The right panel shows the kernel error on scikit-learn's digits against the number of
features. ``--measure`` measures it again (a minute) and writes ``docs/measured/picture-error.csv``.
Both panels are drawn for light and for dark pages.

    python benchmarks/picture.py [--measure]
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split

from quadfeat import QuadratureFeatures
from quadfeat.apps.reporting.colors import FAINT, Color, Theme
from quadfeat.apps.reporting.drawing import Screen, render, theme
from quadfeat.kernels import Gaussian
from tables import Table

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "docs" / "measured"
PICTURES = ROOT / "docs" / "_static"

COLUMNS = (64, 128, 256, 512, 1024, 2048, 4096)
GAMMAS = {"wide": 1 / 64, "narrow": 1 / 4}
MAPS = 5

OURS = Color("#0b7a86", "#2cc7d6")
RANDOM = Color("#68717c", "#97a1ac")

# Row of the CSV file, label in the picture, marker, its size, and its color.
SHOWN = (
    ("RBFSampler, scale + Ridge", "RBFSampler + Ridge", "o", 6, RANDOM),
    ("LightGBM", "LightGBM", "D", 6, Color("#b35900", "#f0a04b")),
    ("KernelRegressor / KernelClassifier", "KernelRegressor", "s", 9, OURS),
)
PAGES: tuple[Theme, ...] = ("light", "dark")
SCREENS: tuple[Screen, ...] = ("wide", "narrow")


def measure() -> Table:
    """Return the mean relative error of the Gram matrix of digits, for two kernels and two maps."""
    X, _ = load_digits(return_X_y=True)
    X_train, X_test = train_test_split(X / 16.0, test_size=0.3, random_state=0)
    makers: dict[str, Callable[[float, int, int], Any]] = {
        "RBFSampler": lambda gamma, n, seed: RBFSampler(
            gamma=gamma, n_components=n, random_state=seed
        ),
        "quadfeat": lambda gamma, n, seed: QuadratureFeatures(
            Gaussian(gamma), n_components=n, random_state=seed
        ),
    }
    table = Table("picture-error", ["kernel", "map", *map(str, COLUMNS)])
    table.start(f"Relative error of the Gram matrix, mean of {MAPS} maps")
    for width, gamma in GAMMAS.items():
        exact = rbf_kernel(X_test, X_train, gamma=gamma)
        for name, make in makers.items():
            cells = []
            for n_components in COLUMNS:
                errors = []
                for seed in range(MAPS):
                    features = make(gamma, n_components, seed).fit(X_train)
                    approximate = features.transform(X_test) @ features.transform(X_train).T
                    errors.append(np.linalg.norm(approximate - exact) / np.linalg.norm(exact))
                cells.append(f"{np.mean(errors):.5f}")
            table.add(width, name, *cells)
    return table


def rows_of(name: str) -> list[list[str]]:
    """Return the rows of a measured table, heads first."""
    with (MEASURED / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.reader(file))


def draw_accuracy(axes: Axes, page: Theme) -> None:
    """Draw the R2 of each model on each table, sorted by the gain over LightGBM."""
    heads, *rows = rows_of("accuracy-regression")
    shown_rows = {row for row, *_ in SHOWN}  # others may have empty cells
    scores = {row[0]: [float(cell) for cell in row[1:]] for row in rows if row[0] in shown_rows}
    gains = np.subtract(scores["KernelRegressor / KernelClassifier"], scores["LightGBM"])
    order = np.argsort(gains)
    places = np.arange(len(order))
    shown = {label: np.clip(np.array(scores[row])[order], 0, 1) for row, label, *_ in SHOWN}
    spread = np.array(list(shown.values()))
    axes.hlines(places, spread.min(axis=0), spread.max(axis=0), color=FAINT[page], linewidth=3)
    for _, label, marker, size, color in SHOWN:
        axes.plot(
            shown[label],
            places,
            marker,
            color=color.on(page),
            markersize=size,
            label=label,
            zorder=4 - size / 10,  # small markers on large ones
        )
    axes.set_yticks(places, np.array(heads[1:])[order])
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("$R^2$ on test rows (0 if negative)")
    axes.set_title("Seven tables, no settings", loc="left", pad=44, fontweight="bold")
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.03, 1.0), ncols=2, frameon=False,
        handletextpad=0.2, columnspacing=1.1, borderaxespad=0.1,
    )  # fmt: skip


def draw_error(axes: Axes, page: Theme, screen: Screen) -> None:
    """Draw the error of the kernel against the number of features."""
    # Labels are longer on a narrow screen. On a wide one, the title is beside that with a legend.
    start, pad = (3, 44) if screen == "wide" else (2, 10)
    for width, name, *cells in rows_of("picture-error")[1:]:
        errors = np.array([float(cell) for cell in cells])
        color = (OURS if name == "quadfeat" else RANDOM).on(page)
        style = "-" if width == "wide" else "--"
        axes.loglog(COLUMNS, errors, style, color=color, linewidth=2.2, marker="o", markersize=4)
        place, offset = (0, -42) if (name, width) == ("quadfeat", "narrow") else (start, 8)
        axes.annotate(
            f"{name}, {width} kernel",
            (COLUMNS[place], errors[place]),
            xytext=(0, offset),
            textcoords="offset points",
            color=color,
        )
    axes.set_xticks(COLUMNS, [f"{n:,}" for n in COLUMNS])
    axes.minorticks_off()
    axes.set_xlabel("number of features")
    axes.set_title("Relative error of the kernel on digits", loc="left", pad=pad, fontweight="bold")


def draw(page: Theme, screen: Screen) -> Path:
    """Draw the picture for a light or a dark page on a wide or a narrow screen; return its path."""
    path = PICTURES / (f"why-{page}.svg" if screen == "wide" else f"why-narrow-{page}.svg")
    size, shape = ((11, 4.2), (1, 2)) if screen == "wide" else ((5.2, 8.0), (2, 1))
    with theme(page, font_size=11):
        figure = Figure(figsize=size, layout="constrained")
        scores, errors = figure.subplots(*shape)
        draw_accuracy(scores, page)
        draw_error(errors, page, screen)
        scores.grid(axis="y", visible=False)
        path.write_bytes(render(figure, "svg"))
    return path


def main() -> None:
    """Measure if asked to, and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="measure kernel errors again")
    if parser.parse_args().measure:
        measure().write(MEASURED)
    for page, screen in product(PAGES, SCREENS):
        print(f"wrote {draw(page, screen).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
