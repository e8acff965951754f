"""One self-contained page of sections, figures and tables that can be sorted."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from quadfeat.apps.reporting.drawing import Picture


def build(title: str, heading: str, introduction: str, sections: Sequence[str]) -> str:
    """Return the page. ``introduction`` and ``sections`` are HTML, the rest plain text."""
    return _asset("page.html").format(
        title=escape(title),
        heading=escape(heading),
        introduction=introduction,
        style=_asset("page.css"),
        script=_asset("page.js"),
        body="\n".join(sections),
    )


def _asset(name: str) -> str:
    return files("quadfeat.apps.reporting").joinpath(name).read_text(encoding="utf-8")


def section(title: str, content: str) -> str:
    """Return a section; ``content`` is HTML."""
    return f"<section><h2>{escape(title)}</h2>\n{content}</section>"


def summary(lines: Sequence[str]) -> str:
    """Return what stands on top: what was found, a line of HTML each."""
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<section class='summary'><h2>In short</h2><ul>{items}</ul></section>"


def figure(picture: Picture, command: str) -> str:
    """Return a section with a figure, in the ink of the reader's choice of light or dark."""
    light, dark = (
        "data:image/svg+xml;base64," + base64.b64encode(picture.render(theme, "svg")).decode()
        for theme in ("light", "dark")
    )
    return (
        f"<section><h2>{escape(picture.title)}</h2>\n<figure><div class='scroll'><picture>"
        f"<source media='screen and (prefers-color-scheme: dark)' srcset='{dark}'>"
        f"<img class='plot' src='{light}' alt='{escape(picture.caption, quote=True)}'>"
        "</picture></div>"
        f"<figcaption>{escape(picture.caption)} Get it again by <code>{escape(command)}</code>; "
        f"rows: <code>{picture.name}.csv</code>; figure: <code>{picture.name}.png</code>, "
        "<code>.svg</code>, <code>.pdf</code>.</figcaption></figure></section>"
    )


def code(text: str) -> str:
    """Return lines of code with a button that copies them."""
    return (
        "<div class='code'><button class='copy'>Copy</button>"
        f"<pre><code>{escape(text)}</code></pre></div>"
    )


def provenance(about: dict[str, Any]) -> str:
    """Return what ran where, a row for each."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(str(key))}</th><td>{escape(str(value))}</td></tr>"
        for key, value in about.items()
    )
    return f"<div class='scroll'><table>{rows}</table></div>"


def table(frame: pd.DataFrame, formats: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a table that the reader can sort by a click on a column's head.

    Numbers have three digits in columns whose format is not given.
    """
    forms = [formats.get(str(name), ".3g") for name in frame.columns]
    head = "".join(
        f"<th scope='col' aria-sort='none'><button>{escape(str(name))}</button></th>"
        for name in frame.columns
    )
    body = "".join(
        "<tr>" + "".join(map(_entry, row, forms)) + "</tr>" for row in frame.itertuples(index=False)
    )
    return (
        "<div class='scroll'><table class='sortable'>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _entry(value: Any, form: str) -> str:
    if isinstance(value, (float, np.floating)):
        text = "" if np.isnan(value) else format(value, form)
        return f"<td class='number' data-value='{value!r}'>{text}</td>"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"<td class='number' data-value='{value}'>{value}</td>"
    return f"<td>{escape(str(value))}</td>"
