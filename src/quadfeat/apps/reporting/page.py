"""Render a report as one self-contained HTML page.

The templates of this folder hold the frame of a page (``page.html``) and its parts
(``parts.html``). Each command has a ``templates/report.html`` that extends the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from jinja2 import Environment

MISSING = "\u2013"  # an en dash


@dataclass(frozen=True)
class Term:
    """A name that a page explains.

    Attributes
    ----------
    text : str
        The name as the page shows it.
    explanation : str
        One sentence, shown when the reader points at the name or moves the focus to it.
    anchor : str
        The id of the element that explains the name in full.
    """

    text: str
    explanation: str
    anchor: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and its full number if it has one to sort by."""

    text: str
    number: str | None = None
    term: Any = None


@dataclass(frozen=True)
class Table:
    """A table in the form that a page shows.

    Attributes
    ----------
    columns : sequence of str
    rows : sequence of sequences of Cell
    numeric : sequence of bool
        Which columns hold numbers, and so align right, heads included.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[bool]


def table(frame: pd.DataFrame, formats: Mapping[str, str] = MappingProxyType({})) -> Table:
    """Return a table for a page. Numbers have three digits unless ``formats`` names the column.

    Examples
    --------
    >>> shown = table(pd.DataFrame({"name": ["<b>"], "error": [1 / 3]}))
    >>> shown.columns, shown.numeric
    (['name', 'error'], [False, True])
    >>> shown.rows[0][1]
    Cell(text='0.333', number='0.3333333333333333', term=None)
    """
    columns = [str(name) for name in frame.columns]
    forms = [formats.get(name, "#.3g") for name in columns]
    rows = [list(map(_cell, row, forms)) for row in frame.itertuples(index=False)]
    numeric = [
        bool(rows) and all(row[k].number is not None for row in rows) for k in range(len(columns))
    ]
    return Table(columns, rows, numeric)


def _cell(value: Any, form: str) -> Cell:
    if hasattr(value, "explanation"):
        return Cell(str(value), term=value)
    if value is pd.NA or value is None:
        return Cell(MISSING, "nan")
    if isinstance(value, (float, np.floating)):
        text = MISSING if np.isnan(value) else format(value, form).rstrip(".")
        return Cell(text, repr(float(value)))
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return Cell(str(value), str(value))
    return Cell(str(value))


def render(package: str, **context: Any) -> str:
    """Return the page that ``templates/report.html`` of a package describes.

    Every value of the context is escaped. Only the templates write HTML.
    """
    return _environment(package).get_template("report.html").render(context)


@cache
def _environment(package: str) -> Environment:
    # Imported here because most commands write no page.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("quadfeat.apps.reporting")]),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelled name is an error, not an empty string
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
