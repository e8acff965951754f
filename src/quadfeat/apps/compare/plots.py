"""The figures of a comparison, each in a wide layout and in a narrow one for phones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from quadfeat.apps.compare.contestants import CONTESTANTS, GUESS, title
from quadfeat.apps.compare.scoring import Metric
from quadfeat.apps.reporting.colors import Theme
from quadfeat.apps.reporting.drawing import Draw, Screen, finish, log_axis, theme

INCHES = {"wide": 10.0, "narrow": 4.3}
FONT = {"wide": 11.0, "narrow": 10.5}
ROW = {"wide": 0.42, "narrow": 0.6}  # inches per model
ZOOM = 4.0  # show scores down to this many times the distance from the best to the median


def screens(draw: Callable[..., Figure]) -> tuple[Draw, Draw]:
    """Return a function that draws for wide screens and one that draws for phones."""
    return partial(draw, screen="wide"), partial(draw, screen="narrow")


def ranking(
    metric: Metric, form: str, table: pd.DataFrame, name: Theme, *, screen: Screen
) -> Figure:
    """Draw the score of each model with its interval, the best at the top.

    Parameters
    ----------
    metric : Metric
        The score.
    form : str
        Format of scores.
    table : DataFrame
        One row per model, best first, with the columns ``contestant``, ``score``, ``low``,
        ``high`` and ``chosen``.
    name : {"light", "dark"}
    screen : {"wide", "narrow"}
    """
    rows = list(table.itertuples(index=False))
    with theme(name, FONT[screen]):
        height = ROW[screen] * len(rows) + 0.9
        figure = Figure(figsize=(INCHES[screen], height))
        ax = figure.subplots()
        limits = score_range(metric, table)
        ax.set_xlim(*limits)
        ax.set_ylim(-0.7, len(rows) - 0.3)
        for k, row in enumerate(reversed(rows)):
            _draw_score(ax, row, k, form, limits, name, screen)
        if screen == "wide":
            labels = [title(row.contestant) for row in reversed(rows)]
            ax.set_yticks(range(len(rows)), labels)
            for label, row in zip(ax.get_yticklabels(), reversed(rows), strict=True):
                label.set_fontweight("bold" if row.chosen else "normal")
        else:
            ax.set_yticks([])
        ax.tick_params(axis="y", length=0)
        ax.xaxis.set_major_locator(MaxNLocator(7 if screen == "wide" else 4))
        ax.grid(axis="y", visible=False)
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(f"{metric.label} on test rows ({metric.direction})")
        figure.tight_layout(rect=(0, 0, 0.93 if screen == "wide" else 0.85, 1))
    return figure


def score_range(metric: Metric, table: pd.DataFrame) -> tuple[float, float]:
    """Return the range of scores to show: good models with their intervals, and some others."""
    oriented = metric.sign * table["score"]
    best, spread = oriented.max(), oriented.max() - oriented.min()
    distance = best - oriented.median()
    worst = max(oriented.min(), best - ZOOM * distance) if distance > 0 else oriented.min()
    # Intervals over few folds can be so wide that they would hide all differences.
    reach = min(((table["high"] - table["low"]) / 2).median(), spread)
    margin = max(1.1 * reach, 0.12 * (best - worst)) or 0.02 * abs(best) or 0.02
    ends = metric.sign * (worst - margin), metric.sign * (best + margin)
    return min(ends), max(ends)


def _draw_score(
    ax: Any,
    row: Any,
    k: int,
    form: str,
    limits: tuple[float, float],
    name: Theme,
    screen: Screen,
) -> None:
    """Draw a model: marker, interval and number. A score outside the range is an arrow."""
    contestant = CONTESTANTS[row.contestant]
    color = contestant.color.on(name)
    weight = "bold" if row.chosen else "normal"
    if row.chosen:
        ax.axhspan(k - 0.5, k + 0.5, color=color, alpha=0.12, linewidth=0)
    shift = 0.0 if screen == "wide" else -0.17  # the name is above the marker
    inside = limits[0] <= row.score <= limits[1]
    if inside:
        ax.hlines(k + shift, row.low, row.high, color=color, linewidth=3 if row.chosen else 2)
        size = 10 if row.chosen else 7
        ax.plot(row.score, k + shift, marker="o", color=color, markersize=size)
    else:
        left = row.score < limits[0]
        near = 0.015 if left else 0.985
        x = limits[0] + near * (limits[1] - limits[0])
        ax.plot(x, k + shift, marker="<" if left else ">", color=color, markersize=8)
    ax.annotate(
        format(row.score, form),
        (1.02, k + shift),
        xycoords=("axes fraction", "data"),
        va="center",
        fontweight=weight,
        annotation_clip=False,
    )
    if screen == "narrow":
        ax.annotate(
            title(row.contestant),
            (0.0, k + 0.2),
            xycoords=("axes fraction", "data"),
            va="center",
            fontweight=weight,
        )


def cost(metric: Metric, table: pd.DataFrame, name: Theme, *, screen: Screen) -> Figure:
    """Draw scores against CPU time.

    Parameters
    ----------
    metric : Metric
        The score.
    table : DataFrame
        Means over folds, one row per model.
    name : {"light", "dark"}
    screen : {"wide", "narrow"}
    """
    table = table[table["score"].notna() & (table["contestant"] != GUESS)]
    wide = screen == "wide"
    with theme(name, FONT[screen]):
        figure = Figure(figsize=(INCHES[screen], 4.2))
        ax: Any = figure.subplots()
        for row in table.itertuples(index=False):
            shown = CONTESTANTS[row.contestant]
            seconds = row.fit_cpu_seconds + row.predict_cpu_seconds
            ax.errorbar(
                seconds,
                row.score,
                row.score_error,
                color=shown.color.on(name),
                marker=shown.marker,
                markersize=9,
                elinewidth=0.8,
                linestyle="none",
                label=shown.title,
            )
        ax.set_xscale("log")
        log_axis(ax.xaxis, subs=(1,))
        ax.set_xlabel("CPU seconds to train and predict")
        ax.set_ylim(*_range(metric, table))
        ax.set_ylabel(f"{metric.label} on test rows")
        return finish(figure, 4 if wide else 2)


def _range(metric: Metric, table: pd.DataFrame) -> tuple[float, float]:
    """Return the range of scores of all models, without those that are far off."""
    oriented = metric.sign * table["score"]
    best, distance = oriented.max(), oriented.max() - oriented.median()
    near = table[oriented >= best - ZOOM * distance] if distance > 0 else table
    low = (near["score"] - near["score_error"]).min()
    high = (near["score"] + near["score_error"]).max()
    margin = 0.06 * (high - low) or 0.01
    return low - margin, high + margin
