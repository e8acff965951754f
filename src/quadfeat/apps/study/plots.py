"""The figures of the study, drawn from its tables and nothing else."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from quadfeat.apps.reporting.drawing import INK, Theme, finish, log_axis, theme
from quadfeat.apps.study.experiments import EXACT, HEADLINE
from quadfeat.apps.study.methods import KERNELS, METHODS, RBF_SAMPLER


def _style(method: str, ink: str) -> dict[str, Any]:
    """Return how a method is drawn, in every figure the same."""
    if method not in METHODS:
        return {"color": ink, "marker": "1", "linestyle": ":", "label": method}
    known = METHODS[method]
    return {
        "color": ink if known.colour == "#000000" else known.colour,
        "marker": known.marker,
        "linestyle": known.dashes,
        "label": method,
    }


def _grid(table: pd.DataFrame, what: str) -> tuple[Figure, list[tuple[Any, pd.DataFrame]]]:
    """Return a figure of data sets by kernels, and its axes, each with its part of the table."""
    datasets = list(dict.fromkeys(table["dataset"]))
    kernels = [kernel for kernel in KERNELS if kernel in set(table["kernel"])]
    figure = Figure(figsize=(3.1 * max(len(kernels), 2) + 0.6, 2.3 * len(datasets) + 1.1))
    axes = figure.subplots(len(datasets), len(kernels), squeeze=False)
    for ax, kernel in zip(axes[0], kernels, strict=True):
        ax.set_title(KERNELS[kernel])
    for ax in axes[-1]:
        ax.set_xlabel("n")
    for ax, dataset in zip(axes[:, 0], datasets, strict=True):
        ax.set_ylabel(f"{dataset}\n{what}")
    parts = [
        table[(table["dataset"] == dataset) & (table["kernel"] == kernel)]
        for dataset in datasets
        for kernel in kernels
    ]
    return figure, list(zip(axes.ravel(), parts, strict=True))


def kernel_error(table: pd.DataFrame, name: Theme) -> Figure:
    """Relative error of the kernel against n, with 95 % bands, a row for each data set."""
    with theme(name):
        figure, panels = _grid(table, "relative error")
        for ax, part in panels:
            for method, line in part.groupby("method", sort=False):
                style = _style(str(method), INK[name])
                ax.plot(line["n"], line["mean"], markersize=4.5, linewidth=1.3, **style)
                # A logarithmic axis has no room for what is not positive.
                low = line["low"].where(line["low"] > 0, line["mean"] * 0.1)
                ax.fill_between(
                    line["n"], low, line["high"], color=style["color"], alpha=0.18, linewidth=0
                )
            theirs = part[(part["method"] == HEADLINE) & part["published"].notna()]
            if len(theirs):
                ax.plot(
                    theirs["n"],
                    theirs["published"],
                    linestyle="none",
                    marker="o",
                    markersize=9,
                    markerfacecolor="none",
                    color=INK[name],
                    label="published B",
                )
            ax.set_yscale("log")
            log_axis(ax.yaxis)
            ax.set_xticks(range(1, 6))
        return finish(figure)


def accuracy(table: pd.DataFrame, name: Theme) -> Figure:
    """Test score of a linear machine against n; the exact kernel machine as a line."""
    with theme(name):
        figure, panels = _grid(table, "test score")
        for ax, part in panels:
            for method, line in part.groupby("method", sort=False):
                if method == EXACT:
                    ax.axhline(line["mean"].iloc[0], color=INK[name], linestyle=":", label=EXACT)
                    continue
                style = _style(str(method), INK[name])
                ax.errorbar(
                    line["n"],
                    line["mean"],
                    yerr=line["se"],
                    markersize=4.5,
                    linewidth=1.3,
                    elinewidth=0.7,
                    **style,
                )
            ax.set_xticks(sorted(set(part["n"]) - {0}))
        return finish(figure)


def walltime(rows: pd.DataFrame, name: Theme) -> Figure:
    """Time of the explicit map and size of its state against the width."""
    with theme(name):
        figure = Figure(figsize=(9.9, 4.8))
        axes = figure.subplots(1, 2)
        for method, line in rows.groupby("method", sort=False):
            style = _style(str(method), INK[name])
            style["linewidth"] = 2 if method == RBF_SAMPLER else 1.3
            microseconds = 1e6 * line["seconds"] / line["rows"]
            axes[0].plot(line["d"], microseconds, markersize=5, **style)
            axes[1].plot(line["d"], line["bytes"] / 1e6, markersize=5, **style)
        for ax, label in zip(axes, ("microseconds a row", "megabytes of state"), strict=True):
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xticks(sorted(set(rows["d"])), [str(d) for d in sorted(set(rows["d"]))])
            ax.set_xlabel("width d (4 (d + 1) features)")
            ax.set_ylabel(label)
        return finish(figure)
