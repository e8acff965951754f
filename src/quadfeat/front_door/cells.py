"""Tables of text, for terminals and notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

# The header first.
Cells = Sequence[tuple[str, ...]]


def as_text(cells: Cells, left: Iterable[int]) -> str:
    """Return a table as lines of text; the columns at the places ``left`` are aligned left."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = set(left)
    lines = []
    for row in cells:
        padded = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def as_html(cells: Cells) -> str:
    """Return a table in HTML."""
    header, *rows = cells
    return (
        "<table><thead><tr>"
        + "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        + "</tr></thead><tbody>"
        + "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        + "</tbody></table>"
    )
