"""Draw the figures of ``docs/study.md``.

The figures show three tables in ``docs/measured``:

- ``study-errors.csv``: kernel errors of all methods on three datasets, of four on mnist, and of two
  on cifar100 and leukemia.
- ``study-published.csv``: the 90 published errors of the paper's rule, and ours.
- ``study-scores.csv``: test scores of linear models on the features.

To measure the first and the last again, run the study and give its folders:

    quadfeat study kernel-error --full --datasets powerplant,letter,usps --out full
    quadfeat study kernel-error --full --datasets mnist --methods auto,paper,orf,rff --out mnist
    quadfeat study kernel-error --full --datasets cifar100,leukemia --methods auto,paper --out wide
    quadfeat study all --quick --out quick
    python benchmarks/study_figures.py --errors full mnist wide --scores quick

``--errors`` replaces the rows that the given studies measured and keeps the others.

Without options, the script draws the tables that exist. The second table has the errors of
``quadfeat study kernel-error --full --methods paper`` on all six datasets of the paper.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from quadfeat.apps.reporting.colors import INK, Theme
from quadfeat.apps.reporting.drawing import Picture, Screen, finish, theme
from quadfeat.apps.reporting.inline import shortened
from quadfeat.apps.study import plots, report, summary
from quadfeat.apps.study.data import CATALOGUE
from quadfeat.apps.study.findings import Findings
from quadfeat.apps.study.methods import KERNELS, METHODS, PAPER_RULE

DOCS = Path(__file__).parents[1] / "docs"
ERRORS = DOCS / "measured" / "study-errors.csv"
SCORES = DOCS / "measured" / "study-scores.csv"
COLUMNS = [
    "dataset",
    "kernel",
    "method",
    "n",
    "mean",
    "low",
    "high",
    "se",
    "sd_rows",
    "published",
    "z",
    "difference",
    "agrees",
]
PUBLISHED = DOCS / "measured" / "study-published.csv"
SHOWN = ("relative-error", "accuracy")


def write_errors(folders: list[Path]) -> None:
    """Summarize the kernel errors of studies; keep earlier rows that they did not measure."""
    measured = pd.concat([pd.read_csv(folder / "kernel-error.csv") for folder in folders])
    new = summary.kernel_errors(measured)[COLUMNS]
    key = ["dataset", "kernel", "method", "n"]
    rows = pd.concat([pd.read_csv(ERRORS), new]).drop_duplicates(key, keep="last")
    for name, order in (("dataset", CATALOGUE), ("kernel", KERNELS), ("method", METHODS)):
        rows[name] = pd.Categorical(rows[name], list(order))
    rows.sort_values(key).to_csv(ERRORS, index=False, float_format="%.4g")


def write_scores(folder: Path) -> None:
    """Summarize the scores of a study."""
    rows = pd.read_csv(folder / "accuracy.csv", dtype={"n": "Int64"})
    summary.accuracies(rows).to_csv(SCORES, index=False, float_format="%.4g")


def draw_published(table: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw the ratio of measured to published errors: a row for each dataset."""
    datasets = list(dict.fromkeys(table["dataset"]))
    size = (10.0, 3.2) if screen == "wide" else (4.4, 3.6)
    color = METHODS[PAPER_RULE].color.on(name)
    with theme(name, plots.FONT[screen]):
        figure = Figure(figsize=size)
        ax = figure.subplots()
        for kernel, marker in plots.KERNEL_MARKERS.items():
            part = table[table["kernel"] == kernel]
            rows = len(datasets) - 1 - part["dataset"].map(datasets.index)
            shift = (part["n"] - 3) * 0.11  # the five n side by side
            ax.scatter(
                part["error"] / part["published"],
                rows - shift,
                s=20,
                marker=marker,
                color=color,
                alpha=0.75,
                linewidths=0,
                label=f"{KERNELS[kernel]} kernel",
            )
        ax.axvline(1, color=INK[name], linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(datasets)), datasets[::-1])
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        ax.set_xlabel("Measured error / published error")
        return finish(figure, columns=3 if screen == "wide" else 2)


def pictures() -> list[Picture]:
    """Return all figures."""
    errors = pd.read_csv(ERRORS)
    errors["agrees"] = errors["agrees"].where(errors["agrees"].notna(), None)
    scores = pd.read_csv(SCORES, dtype={"n": "Int64"})
    found = Findings([], errors=errors, scores=scores)
    drawn = [picture for picture in report.pictures(found) if picture.name in SHOWN]
    wide, narrow = plots.screens(draw_published)
    return [
        *drawn,
        Picture("published", "", "", wide, pd.read_csv(PUBLISHED), narrow=narrow),
    ]


def draw() -> None:
    """Draw all figures for light and dark pages, and for wide and narrow screens."""
    themes: tuple[Theme, ...] = ("light", "dark")
    screens: tuple[Screen, ...] = ("wide", "narrow")
    for picture in pictures():
        for page, screen in product(themes, screens):
            content = shortened(picture.render(page, "svg", screen).decode())
            path = DOCS / "_static" / f"study-{picture.name}-{screen}-{page}.svg"
            path.write_text(content, encoding="utf-8")
            print(f"wrote {path}")


def main() -> None:
    """Write the tables of the given studies, and draw all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--errors", type=Path, nargs="+", metavar="FOLDER", help="studies with kernel errors"
    )
    parser.add_argument("--scores", type=Path, metavar="FOLDER", help="study with scores")
    arguments = parser.parse_args()
    if arguments.errors:
        write_errors(arguments.errors)
    if arguments.scores:
        write_scores(arguments.scores)
    draw()


if __name__ == "__main__":
    main()
