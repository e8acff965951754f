"""Format Python code for scripts: calls, lists and imports that fit the line width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

WIDTH = 88


def call(function: str, arguments: Sequence[str], width: int = WIDTH) -> list[str]:
    """Return a call, wrapped if it is long.

    Examples
    --------
    >>> call("model = Ridge", ["alpha=1.0"])
    ['model = Ridge(alpha=1.0)']
    """
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= width:
        return [line]
    joined = f"    {', '.join(arguments)}"
    if len(joined) <= width:
        return [f"{function}(", joined, ")"]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), ")"]


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    """Return indented lines; empty lines stay empty."""
    return [f"{'    ' * levels}{line}" if line else "" for line in lines]


def script(imports: Iterable[str], lines: Iterable[str], comment: str) -> str:
    """Return a script: a comment, sorted imports with quadfeat last, and lines of code."""
    plain = sorted(line for line in imports if line.startswith("import"))
    others = [line for line in imports if line.startswith("from")]
    others.sort(key=lambda line: ("quadfeat" in line, line))
    return "\n".join([comment, *plain, *others, "", *lines]) + "\n"
