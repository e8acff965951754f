"""Draw the figures of ``docs/study.md``.

The figures show ``docs/measured/study-errors.csv`` and ``docs/measured/study-scores.csv``. To
measure these tables again, run the study and give its folders:

    QUADFEAT_DATA=... quadfeat study kernel-error --full --out full
    quadfeat study all --quick --out quick
    python benchmarks/study_figures.py --errors full --scores quick

Without options, the script draws the tables that exist.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pandas as pd

from quadfeat.apps.reporting.colors import Theme
from quadfeat.apps.reporting.drawing import Screen
from quadfeat.apps.study import report, summary
from quadfeat.apps.study.findings import Findings

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
SHOWN = ("relative-error", "agreement", "accuracy")

# Two decimals are enough for coordinates. Numbers below 1 may be scales and stay.
LONG_NUMBER = re.compile(rb"(?<![\d.])([1-9]\d*\.\d\d)\d+")


def write_errors(folder: Path) -> None:
    """Summarize the kernel errors of a study."""
    errors = summary.kernel_errors(pd.read_csv(folder / "kernel-error.csv"))
    errors[COLUMNS].to_csv(ERRORS, index=False, float_format="%.4g")


def write_scores(folder: Path) -> None:
    """Summarize the scores of a study."""
    rows = pd.read_csv(folder / "accuracy.csv", dtype={"n": "Int64"})
    summary.accuracies(rows).to_csv(SCORES, index=False, float_format="%.4g")


def draw() -> None:
    """Draw the tables for light and dark pages, and for wide and narrow screens."""
    errors = pd.read_csv(ERRORS)
    errors["agrees"] = errors["agrees"].map(
        {"True": True, "False": False, True: True, False: False}
    )
    scores = pd.read_csv(SCORES, dtype={"n": "Int64"})
    found = Findings([], errors=errors, scores=scores)
    themes: tuple[Theme, ...] = ("light", "dark")
    screens: tuple[Screen, ...] = ("wide", "narrow")
    for picture in report.pictures(found):
        for theme in themes if picture.name in SHOWN else ():
            for screen in screens:
                content = LONG_NUMBER.sub(rb"\1", picture.render(theme, "svg", screen))
                path = DOCS / "_static" / f"study-{picture.name}-{screen}-{theme}.svg"
                path.write_bytes(content)
                print(f"wrote {path}")


def main() -> None:
    """Write the tables of the given studies, and draw all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--errors", type=Path, metavar="FOLDER", help="study with kernel errors")
    parser.add_argument("--scores", type=Path, metavar="FOLDER", help="study with scores")
    arguments = parser.parse_args()
    if arguments.errors:
        write_errors(arguments.errors)
    if arguments.scores:
        write_scores(arguments.scores)
    draw()


if __name__ == "__main__":
    main()
