"""Draw the figures of the study from its tables.

Figures that compare many methods have a row for each, labeled by its full name, so that they need
no legend. Each figure has a wide layout and a narrow one for phones.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from quadfeat.apps.reporting.colors import INK, QUIET, Theme
from quadfeat.apps.reporting.drawing import Draw, Screen, finish, log_axis, theme
from quadfeat.apps.study import summary
from quadfeat.apps.study.findings import title
from quadfeat.apps.study.methods import (
    AUTO,
    CONTESTANTS,
    KERNEL_SVM,
    KERNELS,
    METHODS,
    PAPER_RULE,
    PLAIN,
    RBF_SAMPLER,
)

HIGHLIGHTED = (PAPER_RULE, AUTO)
# Methods with a line of their own, the most important first; other lines are thin and gray.
LINES = (AUTO, PAPER_RULE, PLAIN, "orf", "rom", *METHODS)
MOST_LINES = 5
KERNEL_MARKERS = {"gaussian": "o", "arccos0": "^", "arccos1": "s"}

INCHES = {"wide": 10.0, "narrow": 4.4}
FONT = {"wide": 10.5, "narrow": 9.0}
ROW = 0.3  # inches for each method


def screens(draw: Callable[..., Figure]) -> tuple[Draw, Draw]:
    """Return a function that draws for wide screens and one that draws for phones."""
    return partial(draw, screen="wide"), partial(draw, screen="narrow")


def _color(method: str, name: Theme) -> str:
    return CONTESTANTS[method].color.on(name) if method in CONTESTANTS else INK[name]


def _marker(method: str) -> str:
    return CONTESTANTS[method].marker if method in CONTESTANTS else "o"


def _method_rows(ax: Any, methods: Sequence[str], name: Theme, screen: Screen) -> dict[str, int]:
    """Make a row for each method, highlight the main ones, and return positions by name.

    Panels at the left edge have the names of the methods.
    """
    rows = {method: k for k, method in enumerate(reversed(methods))}
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_yticks(list(rows.values()), [""] * len(rows))
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    if ax.get_subplotspec().is_first_col():
        width = 40 if screen == "wide" else 18
        labels = ["\n".join(textwrap.wrap(title(method), width)) for method in rows]
        ax.set_yticklabels(labels)
    for label, method in zip(ax.get_yticklabels(), rows, strict=True):
        if method in HIGHLIGHTED:
            label.set_color(_color(method, name))
            label.set_fontweight("bold")
    for method in HIGHLIGHTED:
        if method in rows:
            row = rows[method]
            ax.axhspan(row - 0.5, row + 0.5, color=_color(method, name), alpha=0.12, linewidth=0)
    return rows


def _panels(
    n: int, n_rows: int, screen: Screen, *, across: int, around: float = 0.75
) -> tuple[Figure, list[Any]]:
    """Return a figure with panels of method rows: side by side, or one below the other."""
    across = min(across, n) if screen == "wide" else 1
    down = -(-n // across)
    row = ROW if screen == "wide" else 1.15 * ROW
    figure = Figure(figsize=(INCHES[screen], down * (n_rows * row + around)))
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for ax in axes[n:]:
        ax.set_visible(False)
    return figure, list(axes[:n])


def relative_error(baseline: str, table: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw errors relative to a baseline: a row for each method, a panel for each kernel."""
    by_kernel = summary.ratios_by_kernel(table)
    kernels = [kernel for kernel in KERNELS if kernel in set(table["kernel"])]
    methods = [str(method) for method in summary.rank(by_kernel).index]
    with theme(name, FONT[screen]):
        figure, axes = _panels(len(kernels), len(methods), screen, across=3)
        limits = table["ratio"].min() / 1.25, table["ratio"].max() * 1.25
        for ax, kernel in zip(axes, kernels, strict=True):
            rows = _method_rows(ax, methods, name, screen)
            ax.axvline(1, color=INK[name], linewidth=0.8, linestyle=":")
            for method, dots in table[table["kernel"] == kernel].groupby("method", sort=False):
                color = _color(str(method), name)
                style = {"s": 16, "color": color, "alpha": 0.8, "linewidths": 0, "zorder": 3}
                if len(dots) > 1:
                    ax.scatter(dots["ratio"], [rows[str(method)]] * len(dots), **style)
            means = by_kernel[by_kernel["kernel"] == kernel].set_index("method")["ratio"]
            for method in methods:
                if method not in means:
                    _value(ax, "-", rows[method], bold=False)
                    continue
                bold = method in HIGHLIGHTED
                marker, size = ("D", 8.0) if bold else ("o", 6.5)
                color = _color(method, name)
                ax.plot(means[method], rows[method], marker, color=color, markersize=size, zorder=4)
                _value(ax, f"{means[method]:.2f}", rows[method], bold=bold)
            ax.set_xscale("log")
            ax.set_xlim(*limits)
            log_axis(ax.xaxis, subs=(1,) if limits[1] / limits[0] > 200 else (1, 2, 5))
            ax.grid(False, axis="y")
            ax.set_title(f"{KERNELS[kernel][0].upper()}{KERNELS[kernel][1:]} kernel", loc="left")
        labeled = axes[len(axes) // 2] if screen == "wide" else axes[-1]
        gap = " " if screen == "wide" else "\n"
        labeled.set_xlabel(f"Kernel error (left is better),{gap}1 = {title(baseline)}")
        figure.tight_layout()
        return figure


def _value(ax: Any, text: str, row: float, *, bold: bool) -> None:
    """Write a number to the right of a row."""
    ax.text(
        1.02,
        row,
        text,
        transform=ax.get_yaxis_transform(),
        va="center",
        fontsize="small",
        fontweight="bold" if bold else "normal",
    )


def kernel_error(table: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw the kernel error against n, with 95% bands: a panel for each dataset and kernel."""
    kernels = [kernel for kernel in KERNELS if kernel in set(table["kernel"])]
    ran = set(zip(table["dataset"], table["kernel"], strict=True))
    datasets = dict.fromkeys(table["dataset"])
    pairs = [pair for pair in product(datasets, kernels) if pair in ran]
    methods = set(table["method"])
    lines = [method for method in dict.fromkeys(LINES) if method in methods][:MOST_LINES]
    across = len(kernels) if screen == "wide" else min(2, len(pairs))
    down = -(-len(pairs) // across)
    with theme(name, FONT[screen]):
        height = (2.15 if screen == "wide" else 1.75) * down + 1.2
        width = INCHES[screen] * (1 if across > 1 or screen == "narrow" else 0.6)
        figure = Figure(figsize=(width, height))
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for ax in axes[len(pairs) :]:
            ax.set_visible(False)
        for ax, (dataset, kernel) in zip(axes, pairs, strict=False):
            part = table[(table["dataset"] == dataset) & (table["kernel"] == kernel)]
            _error_lines(ax, part, lines, name)
            ax.set_title(f"{dataset}, {KERNELS[kernel]}", loc="left")
        for ax in axes[max(len(pairs) - across, 0) : len(pairs)]:
            ax.set_xlabel("n: blocks of features")
        return finish(figure, columns=3 if screen == "wide" else 1)


def _error_lines(ax: Any, part: pd.DataFrame, lines: Sequence[str], name: Theme) -> None:
    """Draw the lines of one panel, the most important on top."""
    by_method = dict(iter(part.groupby("method", sort=False)))
    for k, method in enumerate(line for line in lines if line in by_method):
        line, color = by_method[method], _color(method, name)
        order = 3 - 0.01 * k
        band = {"color": color, "alpha": 0.15, "linewidth": 0, "zorder": order - 1}
        ax.fill_between(line["n"], line["low"], line["high"], **band)
        ax.plot(
            line["n"],
            line["mean"],
            color=color,
            marker=_marker(method),
            markersize=4.5,
            linewidth=2.2 if method in HIGHLIGHTED else 1.2,
            label=title(method),
            zorder=order,
        )
    theirs = part[(part["method"] == PAPER_RULE) & part["published"].notna()]
    if len(theirs):
        ax.plot(
            theirs["n"],
            theirs["published"],
            linestyle="none",
            marker="o",
            markersize=9,
            markerfacecolor="none",
            color=INK[name],
            label="Paper's rule, as published",
            zorder=4,
        )
    for method, line in by_method.items():
        if method not in lines:
            ax.plot(line["n"], line["mean"], **_faint(name))
    ax.set_yscale("log")
    log_axis(ax.yaxis)
    ax.set_xticks(range(1, 6))


def _faint(name: Theme) -> dict[str, Any]:
    """Return the style of the methods that a figure does not tell apart."""
    return {"color": QUIET.on(name), "linewidth": 1, "label": "Other methods", "zorder": 1}


def agreement(table: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw the ratio of measured to published errors: a row for each method."""
    known = table[table["published"].notna()]
    methods = [method for method in METHODS if method in set(known["method"])]
    counts = summary.agreement(table).set_index("method")
    with theme(name, FONT[screen]):
        figure, (ax,) = _panels(1, len(methods), screen, across=1)
        rows = _method_rows(ax, methods, name, screen)
        for method, part in known.groupby("method", sort=False):
            method = str(method)
            agrees = part["agrees"].astype(bool)
            spread = np.linspace(-0.28, 0.28, len(part)) if len(part) > 1 else np.zeros(1)
            for chosen, face in ((agrees, _color(method, name)), (~agrees, "none")):
                ax.scatter(
                    1 + part["difference"][chosen],
                    rows[method] + spread[chosen.to_numpy()],
                    s=16,
                    facecolors=face,
                    edgecolors=_color(method, name),
                    linewidths=0.9,
                    alpha=0.8,
                    zorder=3,
                )
            agree, of = counts.loc[method, ["agree", "of"]]
            text = f"{agree} of {of} agree" if screen == "wide" else f"{agree}/{of}"
            _value(ax, text, rows[method], bold=method in HIGHLIGHTED)
        ax.axvline(1, color=INK[name], linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        low, high = 1 + known["difference"].min(), 1 + known["difference"].max()
        ax.set_xlim(min(low, 0.8) / 1.1, max(high, 1.25) * 1.1)
        ax.xaxis.set_minor_locator(_no_ticks())
        ticks = [tick for tick in (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5) if low / 1.2 < tick < high * 1.3]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.grid(False, axis="y")
        ax.set_xlabel("Measured error / published error")
        figure.tight_layout()
        return figure


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def accuracy(table: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw test scores: a panel for each dataset, a row for each method, a marker per kernel."""
    largest = table.groupby("dataset")["n"].transform("max")
    shown = table[(table["n"] == largest) | (table["method"] == KERNEL_SVM)]
    datasets = list(dict.fromkeys(shown["dataset"]))
    methods = [method for method in CONTESTANTS if method in set(shown["method"])]
    kernels = [kernel for kernel in KERNELS if kernel in set(shown["kernel"])]
    offsets = dict(zip(kernels, np.linspace(0.24, -0.24, len(kernels)), strict=True))
    if len(kernels) == 1:
        offsets = {kernels[0]: 0.0}
    with theme(name, FONT[screen]):
        figure, axes = _panels(len(datasets), len(methods), screen, across=3)
        for ax, dataset in zip(axes, datasets, strict=True):
            rows = _method_rows(ax, methods, name, screen)
            for cell in shown[shown["dataset"] == dataset].itertuples(index=False):
                method = str(cell.method)
                ax.errorbar(
                    cell.mean,
                    rows[method] + offsets[cell.kernel],
                    xerr=None if np.isnan(cell.se) else cell.se,
                    color=_color(method, name),
                    marker=KERNEL_MARKERS[cell.kernel],
                    markersize=4.5,
                    elinewidth=0.7,
                    linestyle="none",
                )
            ax.set_title(dataset, loc="left")
            ax.grid(False, axis="y")
            ax.set_xlabel("Test score")
        for kernel in kernels:
            axes[0].plot(
                [],
                [],
                KERNEL_MARKERS[kernel],
                color=INK[name],
                markersize=4.5,
                label=f"{KERNELS[kernel]} kernel",
            )
        return finish(figure, columns=3 if screen == "wide" else 2)


def walltime(rows: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw the time of the explicit map and the size of its state against the dimension."""
    ran = set(rows["method"])
    lines = [method for method in dict.fromkeys(LINES) if method in ran][:MOST_LINES]
    lines += [RBF_SAMPLER] if RBF_SAMPLER in ran else []
    with theme(name, FONT[screen]):
        size = (INCHES["wide"], 4.6) if screen == "wide" else (INCHES["narrow"], 7.6)
        figure = Figure(figsize=size)
        axes = figure.subplots(1, 2) if screen == "wide" else figure.subplots(2, 1)
        by_method = dict(iter(rows.groupby("method", sort=False)))
        for k, method in enumerate((*lines, *(other for other in by_method if other not in lines))):
            line = by_method[method]
            style = _faint(name)
            if method in lines:
                style = {
                    "color": _color(method, name),
                    "label": title(method),
                    "marker": _marker(method),
                    "markersize": 5,
                    "linewidth": 2.2 if method in HIGHLIGHTED else 1.2,
                    "linestyle": ":" if method == RBF_SAMPLER else "-",
                    "zorder": 3 - 0.01 * k,
                }
            axes[0].plot(line["d"], 1e6 * line["seconds"] / line["rows"], **style)
            axes[1].plot(line["d"], line["bytes"] / 1e6, **style)
        for ax, label in zip(axes, ("Microseconds per row", "State in megabytes"), strict=True):
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            log_axis(ax.yaxis, subs=(1,))
            ticks = sorted(set(rows["d"]))
            ax.set_xticks(ticks, [str(d) for d in ticks])
            ax.set_xlabel("d: columns of the data; 4 (d + 1) features")
            ax.set_ylabel(label)
        return finish(figure, columns=4 if screen == "wide" else 1)
