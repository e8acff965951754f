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
from quadfeat.apps.compare.contestants import MODEL, ORDER, in_sentence, title
from quadfeat.apps.compare.findings import Findings
from quadfeat.apps.compare.table import Table
from quadfeat.apps.reporting.text import printable

LINES = 24  # of the smallest usual terminal, the prompt included
MOST_NAMED = 3  # columns that a line names
NAMES = 28  # columns for names of candidates
LABEL = 10  # columns for labels
STRONG = "bold"  # readable on light and on dark terminals, and without colors


def introduce(table: Table, console: Console) -> None:
    """Print how the table was read, before anything runs."""
    count = sum(column.is_used for column in table.columns)
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
        if not column.is_used:
            reasons.setdefault(column.kind, []).append(column)
    for reason, unused in reasons.items():
        names = ", ".join(repr(column.name) for column in unused[:MOST_NAMED])
        more = len(unused) - MOST_NAMED
        also = f" and {more} more" if more > 0 else ""
        _say(console, f"  Not used: {names}{also} ({reason}).")


def _say(console: Console, line: str) -> None:
    """Print a paragraph, indented from its second line on."""
    for part in _wrapped(line, console.width, "    "):
        console.print(part, markup=False, highlight=False, soft_wrap=True)


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(printable(text), width, subsequent_indent=indent, break_on_hyphens=False)


def show(found: Findings, out: Path, console: Console) -> None:
    """Print all models with their scores, the recommendation, and where to find the code."""
    without = [name for name in ORDER if name in set(found.table["contestant"])]
    names = ", ".join(in_sentence(name) for name in without if name not in found.entries)
    missing = f"  Without {found.score_name}: {names}." if names else ""
    used = 2 + len(found.entries) + len(_wrapped(missing, console.width, "    "))
    block = _block(found, out, console.width)
    if found.verdict.hopeless:
        del block["Code"]
    inside = 2 + len(found.leaderboard)
    shows_inside = MODEL in found.entries and not found.verdict.hopeless
    # The last line of a terminal is the prompt.
    for optional in ("Why", "Code", "inside"):
        needed = used + inside * shows_inside + sum(len(lines) for lines in block.values())
        if needed < LINES:
            break
        block.pop(optional, None)
        shows_inside = shows_inside and optional != "inside"
    console.print()
    console.print(_ranking(found, console.width))
    if missing:
        _say(console, missing)
    if shows_inside:
        console.print()
        for place in _leaderboard(found, console.width):
            console.print(place, highlight=False, soft_wrap=True)
    console.print()
    for label, lines in block.items():
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
        marked = chosen and not found.verdict.hopeless
        better = found.difference(key, found.verdict.key).probability
        seconds = found.entry(key)["fit_cpu_seconds"]
        grid.add_row(
            f"{'>' if marked else ' '} {title(key)}",
            found.scored(key),
            found.bounds(key),
            "" if chosen else _percent(better),
            "" if seconds != seconds else f"{seconds:.2f}",
            style=STRONG if marked else None,
        )
    return grid


def _leaderboard(found: Findings, width: int) -> list[Text]:
    """Return the candidates of the kernel model as lines, the smallest loss first."""
    board = found.leaderboard
    header = f"{'share':>{NAMES + 6}}{board['loss_name'].iloc[0]:>10}{'±':>9}{'fit s':>8}"
    lines = [Text(f"{'  Inside the kernel model':{NAMES}}{header[NAMES:]}", style=STRONG)]
    for row in board.itertuples():
        line = f"{f'  {row.candidate}':{NAMES}}"
        if row.folds:
            line += f"{100 * row.share:5.0f}%{row.loss:10.4f}{row.standard_error:9.4f}"
            line += f"{row.fit_seconds:8.1f}"
            if row.folds < found.problem.folds:
                line += f"  ({row.folds} of {found.problem.folds} folds)"
        else:
            line = textwrap.shorten(f"{line.strip()}: left out ({row.note})", width - 2)
            line = f"  {line}"
        lines.append(Text(line, style=STRONG if row.share else ""))
    return lines


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


def _block(found: Findings, out: Path, width: int) -> dict[str, Sequence[str]]:
    """Return the recommendation: the lines of each label."""
    width -= LABEL
    points = conclusions.points(found)
    cautions = conclusions.cautions(found)
    warning = cautions[0] if cautions else ""
    if len(cautions) > 1:
        warning += f" ({len(cautions) - 1} more in the report.)"
    block: dict[str, Sequence[str]] = {
        "Use": _wrapped(_capitalized(points["Use"].removeprefix("Use ")), width),
        "Why": _wrapped(points.get("Why", ""), width),
        "How sure": _wrapped(points["How sure"], width),
        "Warning": _wrapped(warning, width),
        "Code": found.definition(found.verdict.key, width),
        "Script": [_script(found, out, width)],
        "Report": [printable(str(out / "report.html"))],
    }
    return {label: lines for label, lines in block.items() if lines}
