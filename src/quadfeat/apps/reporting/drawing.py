"""Shared parts of all figures: colors, axes, legends, file formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Literal

import matplotlib as mpl
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from quadfeat.apps.reporting.colors import FAINT, INK, Color, Theme
from quadfeat.apps.reporting.inline import inline_svg

__all__ = [
    "FAINT",
    "INK",
    "Color",
    "Draw",
    "Picture",
    "Theme",
    "finish",
    "log_axis",
    "render",
    "theme",
]

Screen = Literal["wide", "narrow"]
Draw = Callable[[pd.DataFrame, Theme], Figure]


@contextmanager
def theme(name: Theme, font_size: float = 10) -> Iterator[None]:
    """Draw on a transparent background, in colors that suit a light or a dark page."""
    settings: Any = {
        "font.size": font_size,
        "text.color": INK[name],
        "axes.labelcolor": INK[name],
        "axes.edgecolor": INK[name],
        "axes.titlesize": font_size,
        "xtick.color": INK[name],
        "ytick.color": INK[name],
        "grid.color": FAINT[name],
        "axes.grid": True,
        "axes.axisbelow": True,
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
    """Label a logarithmic axis with few plain numbers."""
    axis.set_major_locator(LogLocator(subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def finish(figure: Figure, columns: int = 6) -> Figure:
    """Put one legend for all axes at the top, in at most this number of columns."""
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    lines = -(-len(handles) // columns)
    top = (0.25 + 0.2 * lines) / figure.get_figheight() if handles else 0.0
    if handles:
        figure.legend(
            handles.values(), handles.keys(), loc="upper center", ncols=columns, fontsize=9
        )
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
    """A figure of a report, and the table that it shows.

    Attributes
    ----------
    name : str
        Name of its files.
    title : str
        Heading of its section.
    caption : str
        Text below the figure.
    draw : callable
        Draws the table in a theme.
    table : pandas.DataFrame
        The rows of the figure.
    narrow : callable or None
        Draws the table for a phone. None scales the figure of ``draw`` down.
    alt : str
        Description for readers who cannot see the figure. Empty for the caption.
    source : str
        Name of the CSV file with its data. Empty for ``name``.
    """

    name: str
    title: str
    caption: str
    draw: Draw
    table: pd.DataFrame
    narrow: Draw | None = None
    alt: str = ""
    source: str = ""
    _drawn: dict[tuple[Theme, Screen], Figure] = field(default_factory=dict)

    @property
    def alternative(self) -> str:
        """The text in place of the figure."""
        return self.alt or self.caption

    def figure(self, theme: Theme, screen: Screen = "wide") -> Figure:
        """Return the figure, drawn on the first call."""
        key = (theme, screen)
        if key not in self._drawn:
            draw = self.narrow if screen == "narrow" and self.narrow is not None else self.draw
            self._drawn[key] = draw(self.table, theme)
        return self._drawn[key]

    def render(self, theme: Theme, kind: str, screen: Screen = "wide") -> bytes:
        """Return the figure as a file."""
        return render(self.figure(theme, screen), kind)

    def inline(self, screen: Screen = "wide") -> Markup:
        """Return the figure as an element of a page, in the colors of the page."""
        light, dark = self.render("light", "svg", screen), self.render("dark", "svg", screen)
        return inline_svg(light, dark, self.name, self.alternative, screen)
