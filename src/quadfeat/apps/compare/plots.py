"""The figure of a comparison: scores against the number of features and against time."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from quadfeat.apps.compare.boosting import HIST, LIGHTGBM
from quadfeat.apps.compare.contest import (
    EXACT,
    LINEAR,
    MAPS,
    MODEL,
    NYSTROEM,
    OURS,
    RBF_SAMPLER,
)
from quadfeat.apps.reporting.drawing import INK, Theme, finish, log_axis, theme

# Okabe and Ito's colours, as in the study; markers differ too.
STYLES = {
    OURS: {"color": "#D55E00", "marker": "o"},
    RBF_SAMPLER: {"color": "#56B4E9", "marker": "s"},
    NYSTROEM: {"color": "#009E73", "marker": "^"},
}
# Contestants without a number of features; None is the color of the text.
LEVELS: dict[str, tuple[str | None, Any, str]] = {
    LINEAR: (None, "--", "D"),
    EXACT: (None, ":", "*"),
    MODEL: ("#D55E00", "-.", "P"),
    HIST: ("#CC79A7", (0, (5, 1)), "v"),
    LIGHTGBM: ("#E69F00", (0, (3, 1, 1, 1)), "X"),
}


def scores(metric: str, table: pd.DataFrame, name: Theme) -> Figure:
    """Draw what each contestant scores, one standard error up and down."""
    table = table[table["score"].notna()]
    with theme(name):
        figure = Figure(figsize=(9.9, 4.4))
        by_size, by_time = figure.subplots(1, 2, sharey=True)
        for contestant in LEVELS:
            part = table[table["contestant"] == contestant]
            if len(part):
                _draw_line(by_size, by_time, part.iloc[0], INK[name])
        for contestant in MAPS:
            line = table[table["contestant"] == contestant]
            style: dict[str, Any] = {
                "yerr": line["score_error"],
                "label": contestant,
                "markersize": 5,
                "linewidth": 2 if contestant == OURS else 1.3,
                "elinewidth": 0.7,
                **STYLES[contestant],
            }
            by_size.errorbar(line["D"], line["score"], **style)
            by_time.errorbar(_seconds(line), line["score"], **style)
        by_size.set_ylim(*_range(table))
        by_size.set_xscale("log", base=2)
        sizes = sorted(set(table[table["contestant"].isin(MAPS)]["D"]))
        by_size.set_xticks(sizes, [str(size) for size in sizes])
        by_size.set_xlabel("features D")
        by_size.set_ylabel(f"{metric} on test rows")
        by_time.set_xscale("log")
        log_axis(by_time.xaxis, subs=(1,))
        by_time.set_xlabel("CPU seconds to train and predict")
        return finish(figure)


def _seconds(part: Any) -> Any:
    return part["fit_cpu_seconds"] + part["predict_cpu_seconds"]


def _range(table: pd.DataFrame) -> tuple[float, float]:
    """Return the scores to show: all of the maps, and of others what is not far below."""
    maps = table[table["contestant"].isin(MAPS)]
    low = (maps["score"] - maps["score_error"]).min()
    high = (maps["score"] + maps["score_error"]).max()
    reach = max(3.0 * (high - low), 0.02)
    others = table[table["contestant"].isin(LEVELS)]["score"]
    shown = [score for score in others if low - reach <= score <= high + reach]
    low, high = min([low, *shown]), max([high, *shown])
    margin = 0.06 * (high - low) or 0.01
    return low - margin, high + margin


def _draw_line(by_size: Any, by_time: Any, row: pd.Series, ink: str) -> None:
    """Draw a contestant without a number of features: a level, and a point in time."""
    color, dashes, marker = LEVELS[row["contestant"]]
    ink = color or ink
    label = f"{row['contestant']} ({row['score']:.3g})"
    by_size.axhline(row["score"], color=ink, linestyle=dashes, linewidth=1.1, label=label)
    by_time.axhline(row["score"], color=ink, linestyle=dashes, linewidth=0.6)
    by_time.plot(
        _seconds(row),
        row["score"],
        color=ink,
        marker=marker,
        markersize=7,
        linestyle="none",
    )
