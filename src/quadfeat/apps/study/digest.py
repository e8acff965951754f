"""The findings of a study as a short page of Markdown, to be kept with a project's documents."""

from __future__ import annotations

from typing import Any

import pandas as pd

from quadfeat.apps.study import summary
from quadfeat.apps.study.experiments import HEADLINE
from quadfeat.apps.study.methods import KERNELS


def build(tables: dict[str, pd.DataFrame], about: dict[str, Any]) -> str:
    """Return the page from the tables that the figures are drawn from."""
    parts = [
        "# The study",
        f"Made by `{about['command']}`: quadfeat {about['quadfeat']}, {about['cpu']}, seed "
        f"{about['seed']}. The full report has intervals, all cells and what was left out.",
    ]
    if "kernel-error" in tables:
        table = tables["kernel-error"]
        known = table[table["published"].notna()]
        if len(known):
            parts += _agreement(table, known)
        parts += [
            "## Who wins where",
            "Relative error of the kernel at equal n, in geometric mean over the n that all "
            "methods ran; G is plain random features, B the paper's method.",
            _markdown(summary.winners(table)),
        ]
    if "accuracy" in tables:
        parts += ["## Accuracy", _accuracy(tables["accuracy"])]
    if "walltime" in tables:
        parts += [
            "## Growth of time and state with the width, as powers of d",
            _markdown(summary.exponents(tables["walltime"])),
        ]
    return "\n\n".join(parts) + "\n"


def _agreement(table: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    """Return how the errors compare with the published ones; the paper's method in full."""
    parts = [
        "## Agreement with the published errors",
        f"Published: {summary.CITATION}. Cells agree within three combined standard errors: "
        "ours, theirs, and the spread over the choice of rows, which the authors drew once.",
        _markdown(summary.agreement(table)),
        "\n".join(f"- {remark}" for remark in summary.remarks(table)),
    ]
    ours = known[known["method"] == HEADLINE]
    for kernel, title in KERNELS.items():
        part = ours[ours["kernel"] == kernel]
        if len(part):
            columns = ["dataset", "n", "mean", "published", "sd_maps", "sd_rows", "z", "verdict"]
            parts += [f"### Method B, {title} kernel, cell by cell", _markdown(part[columns])]
    return parts


def _accuracy(table: pd.DataFrame) -> str:
    """Return the mean scores, a row a method and a column a data set and kernel."""
    largest = table[table["n"].isin([0, table["n"].max()])]
    wide = largest.pivot(index="method", columns=["dataset", "kernel"], values="mean")
    wide.columns = [f"{dataset}, {kernel}" for dataset, kernel in wide.columns]
    order = list(dict.fromkeys(table["method"]))
    note = f"Test score at n = {table['n'].max()}, and of the exact kernel machine.\n\n"
    return note + _markdown(wide.loc[order].reset_index())


def _markdown(table: pd.DataFrame) -> str:
    def text(value: Any) -> str:
        if isinstance(value, float):
            return "" if value != value else f"{value:.3g}"
        return str(value)

    lines = [list(map(str, table.columns)), ["---"] * table.shape[1]]
    lines += [[text(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
