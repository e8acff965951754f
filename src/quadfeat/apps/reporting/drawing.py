"""Shared parts of all figures: colors that suit the page, axes, legends, file formats."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Literal

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

Theme = Literal["light", "dark"]
INK = {"light": "#1a1a1a", "dark": "#e8e8e8"}
FAINT = {"light": "#d9d9d9", "dark": "#444444"}

Draw = Callable[[pd.DataFrame, Theme], Figure]


@contextmanager
def theme(name: Theme) -> Iterator[None]:
    """Draw on a transparent background, in colors that can be read on a light or a dark page."""
    settings: Any = {
        "font.size": 10,
        "text.color": INK[name],
        "axes.labelcolor": INK[name],
        "axes.edgecolor": INK[name],
        "axes.titlesize": 10,
        "xtick.color": INK[name],
        "ytick.color": INK[name],
        "grid.color": FAINT[name],
        "axes.grid": True,
        "grid.linewidth": 0.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.frameon": False,
    }
    with mpl.rc_context(settings):
        yield


def log_axis(axis: Any, subs: Sequence[float] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with plain numbers, few enough to read."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def finish(figure: Figure) -> Figure:
    """Put one legend for all axes on top."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    top = 0.55 / figure.get_figheight()
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=6, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - top))
    return figure


def render(figure: Figure, kind: str) -> bytes:
    """Return a figure as a file of this kind."""
    file = BytesIO()
    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    with mpl.rc_context({"svg.hashsalt": "quadfeat"}):  # the same figure gives the same bytes
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    return file.getvalue()


@dataclass(frozen=True)
class Picture:
    """A figure of a report, and the table that it shows."""

    name: str
    title: str
    caption: str
    draw: Draw
    table: pd.DataFrame
    _drawn: dict[Theme, Figure] = field(default_factory=dict)

    def figure(self, theme: Theme) -> Figure:
        """Return the figure, drawn on the first call."""
        if theme not in self._drawn:
            self._drawn[theme] = self.draw(self.table, theme)
        return self._drawn[theme]

    def render(self, theme: Theme, kind: str) -> bytes:
        """Return the figure as a file."""
        return render(self.figure(theme), kind)

    def data_uri(self, theme: Theme) -> str:
        """Return the figure as an address that holds it, so that a page needs no other file."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.render(theme, "svg")).decode()
