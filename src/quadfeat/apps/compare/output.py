"""Print a comparison to a terminal, in at most 24 lines of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from quadfeat.apps.compare import conclusions
from quadfeat.apps.compare.columns import Column
from quadfeat.apps.compare.contestants import ORDER, in_sentence, title
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.table import Table
from quadfeat.apps.reporting.text import printable

LINES = 24  # of the smallest usual terminal, the prompt included
MOST_NAMED = 3  # columns that a line names
MOST_REASONS = 4  # reasons for dropping columns
LABEL = 10  # columns for labels
STRONG = "bold"  # readable on light and on dark terminals, and without colors


def introduce(table: Table, console: Console) -> None:
    """Print how the table was read, before anything runs."""
    count = sum(column.kind != "dropped" for column in table.columns)
    columns = "1 column" if count == 1 else f"{count} columns"
    _say(
        console,
        f"{table.path.name}: predict {table.target} ({table.task}) from {columns}, "
        f"{len(table.y)} rows",
    )
    for remark in table.remarks:
        _say(console, f"  {remark}")
    reasons: dict[str, list[Column]] = {}
    for column in table.columns:
        if column.kind == "dropped":
            reasons.setdefault(column.treatment, []).append(column)
    for reason, dropped in list(reasons.items())[:MOST_REASONS]:
        names = ", ".join(repr(column.name) for column in dropped[:MOST_NAMED])
        more = len(dropped) - MOST_NAMED
        also = f" and {more} more" if more > 0 else ""
        _say(console, f"  Dropped {names}{also}: {reason}.")
    left = sum(map(len, list(reasons.values())[MOST_REASONS:]))
    if left:
        _say(console, f"  Dropped {left} more columns, which the report lists.")


def _say(console: Console, line: str) -> None:
    """Print a paragraph, indented from its second line on."""
    for part in _wrapped(line, console.width, "    "):
        console.print(part, markup=False, highlight=False, soft_wrap=True)


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(printable(text), width, subsequent_indent=indent, break_on_hyphens=False)


def show(found: Findings, out: Path, console: Console) -> None:
    """Print all models and their scores, the recommendation, and where to find the code."""
    console.print()
    console.print(_ranking(found, console.width))
    without = [name for name in ORDER if name in set(found.table["contestant"])]
    without = [name for name in without if name not in {key[0] for key in found.entries}]
    if without:
        names = ", ".join(in_sentence((name, 0)) for name in without)
        _say(console, f"  Without {found.score_name}: {names}.")
    console.print()
    for label, lines in _block(found, out, console.width, used=3 + len(found.entries)):
        for k, line in enumerate(lines):
            name = Text(f"{label if k == 0 else '':{LABEL}}", style=STRONG)
            console.print(name + Text(line), highlight=False, soft_wrap=True)


def _ranking(found: Findings, width: int) -> Grid:
    """Return one row per model, the best score first."""
    gap = 2 if width > 80 else 1
    grid = Grid(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style=STRONG)
    grid.add_column(f"  Model ({found.metric.direction})", no_wrap=True)
    grid.add_column(found.score_name, justify="right", no_wrap=True)
    grid.add_column("95% interval", justify="right", no_wrap=True)
    grid.add_column("P(better)", justify="right", no_wrap=True)
    grid.add_column("CPU s", justify="right", no_wrap=True)
    for key in found.entries:
        chosen = key == found.verdict.key
        better = found.difference(key, found.verdict.key).probability
        seconds = found.entry(key)["fit_cpu_seconds"]
        grid.add_row(
            f"{'>' if chosen else ' '} {title(key)}",
            found.scored(key),
            found.bounds(key),
            "" if chosen else _percent(better),
            "" if seconds != seconds else f"{seconds:.2f}",
            style=STRONG if chosen else None,
        )
    return grid


def _script(found: Findings, out: Path, width: int) -> str:
    """Return the path of the script, and where to run it if there is room."""
    path = printable(str(out / "model.py"))
    note = f"{path}  (run it in the folder of {printable(found.source.path.name)})"
    return note if len(note) <= width else path


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _percent(probability: float) -> str:
    if probability < 0.01:
        return "< 1%"
    return "> 99%" if probability > 0.99 else f"{100 * probability:.0f}%"


def _block(found: Findings, out: Path, width: int, used: int) -> list[tuple[str, Sequence[str]]]:
    """Return the recommendation: labels and their lines."""
    width -= LABEL
    points = conclusions.points(found)
    cautions = conclusions.cautions(found)
    warning = cautions[0] if cautions else ""
    if len(cautions) > 1:
        warning += f" ({len(cautions) - 1} more in the report.)"
    block: list[tuple[str, Sequence[str]]] = [
        ("Use", _wrapped(_capitalized(points["Use"].removeprefix("Use ")), width)),
        ("Why", _wrapped(points.get("Why", ""), width)),
        ("How sure", _wrapped(points["How sure"], width)),
        ("Warning", _wrapped(warning, width)),
        ("Code", found.definition(found.verdict.key, width)),
        ("Script", [_script(found, out, width)]),
        ("Report", [printable(str(out / "report.html"))]),
    ]
    # The last line of a terminal is the prompt.
    if used + sum(len(lines) for _, lines in block) > LINES - 1:
        block = [part for part in block if part[0] != "Why"]
    if used + sum(len(lines) for _, lines in block) > LINES - 1:
        block = [part for part in block if part[0] != "Code"]
    return [part for part in block if part[1]]
