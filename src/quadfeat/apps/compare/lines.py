"""Lines of Python for scripts: calls, lists and imports that fit the width of a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quadfeat.apps.reporting.text import quoted

WIDTH = 88


def name_list(variable: str, names: Sequence[str]) -> list[str]:
    """Return an assignment of names, over several lines if they are many."""
    line = f"{variable} = [{', '.join(map(quoted, names))}]"
    if len(line) <= WIDTH:
        return [line]
    filled = [""]
    for name in names:
        if len(filled[-1]) + len(quoted(name)) + 5 > WIDTH:
            filled.append("")
        filled[-1] += f"{quoted(name)}, "
    return [f"{variable} = [", *(f"    {part.rstrip()}" for part in filled if part), "]"]


def call(function: str, arguments: Sequence[str], end: str = ")") -> list[str]:
    """Return a call, over several lines if it is long.

    Examples
    --------
    >>> call("model = Ridge", ["alpha=1.0"])
    ['model = Ridge(alpha=1.0)']
    """
    line = f"{function}({', '.join(arguments)}{end}"
    if len(line) <= WIDTH:
        return [line]
    joined = f"    {', '.join(arguments)}"
    if len(joined) <= WIDTH:
        return [f"{function}(", joined, end]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), end]


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Return lines with an indent, empty ones without."""
    return [f"{'    ' * levels}{line}" if line else "" for line in lines]


def script(imports: Iterable[str], lines: Iterable[str]) -> str:
    """Return a script: plain imports first, those from quadfeat last."""
    plain = sorted(line for line in imports if line.startswith("import"))
    others = [line for line in imports if line.startswith("from")]
    others.sort(key=lambda line: ("quadfeat" in line, line))
    return "\n".join([*plain, *others, "", *lines]) + "\n"
