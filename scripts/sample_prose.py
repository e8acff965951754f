"""Print a random sample of the project's prose, for an editor to read.

The kinds are sentences of the documentation, docstrings, comments (Python and C++), and messages of
errors and warnings. The same seed gives the same sample of the same files.

    python scripts/sample_prose.py --seed 1
    python scripts/sample_prose.py --seed 1 --kinds messages --size 40
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "examples", "scripts", "soak", "fuzz", "docs")

# A comment that is an instruction to a tool and not prose.
PRAGMA = re.compile(r"#\s*(type:|noqa|fmt:|pragma|mypy:|%%|!)")
FENCE = re.compile(r"^(```+|:::+).*?^\1\s*$", re.S | re.M)


# A shorter paragraph of the documentation is a head, a link or a row of numbers.
FEWEST_WORDS = 6


class Prose(NamedTuple):
    """A piece of text and where it stands."""

    place: str
    text: str


def of_docs() -> Iterator[Prose]:
    """Yield the paragraphs, list items and table rows of the documentation, without code."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    for path in sorted(pages):
        text = path.read_text(encoding="utf-8")
        text = FENCE.sub(lambda found: "\n" * found.group().count("\n"), text)
        line = 1
        for paragraph in re.split(r"(\n\s*\n|\n(?=[-|] ))", text):
            words = " ".join(paragraph.split())
            is_prose = len(re.findall(r"[a-z]{2,}", words)) >= FEWEST_WORDS
            if is_prose and not words.startswith(("#", "<", "(")):
                yield Prose(
                    _place(path, line + paragraph[: len(paragraph) // 2].count("\n")), words
                )
            line += paragraph.count("\n")


def of_docstrings() -> Iterator[Prose]:
    """Yield the paragraphs of docstrings, without examples."""
    for path, tree in _trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            docstring = ast.get_docstring(node)
            if docstring is None:
                continue
            for paragraph in re.split(r"\n\s*\n", docstring):
                if ">>>" not in paragraph:
                    yield Prose(_place(path, getattr(node, "lineno", 1)), paragraph)


def of_comments() -> Iterator[Prose]:
    """Yield comments. Comments on consecutive lines belong together."""
    for path in _files("*.py"):
        source = path.read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        lines = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokens
            if token.type == tokenize.COMMENT and not PRAGMA.match(token.string)
        }
        yield from _joined(path, lines)
    for path in sorted((ROOT / "native").glob("*.[ch]pp")):
        text = path.read_text(encoding="utf-8").splitlines()
        found = {number: re.search(r"//+\s?(.*)", line) for number, line in enumerate(text, 1)}
        yield from _joined(path, {number: hit[1] for number, hit in found.items() if hit})


def of_messages() -> Iterator[Prose]:
    """Yield the messages of errors and warnings."""
    for path, tree in _trees():
        if ROOT / "src" not in path.parents:
            continue
        for node in ast.walk(tree):
            call = None
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                call = node.exc
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn"):
                call = node
            for argument in call.args[:1] if call else []:
                text = ast.unparse(argument)
                if len(text) > 20:
                    yield Prose(_place(path, argument.lineno), text)


KINDS: dict[str, Callable[[], Iterator[Prose]]] = {
    "docs": of_docs,
    "docstrings": of_docstrings,
    "comments": of_comments,
    "messages": of_messages,
}


def _files(pattern: str) -> Iterator[Path]:
    for folder in FOLDERS:
        found = sorted((ROOT / folder).rglob(pattern))
        yield from (path for path in found if "gallery" not in path.parts)


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in _files("*.py"):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def _joined(path: Path, lines: dict[int, str]) -> Iterator[Prose]:
    start, text = 0, ""
    for number in [*sorted(lines), -1]:
        if text and number - 1 in lines:
            text += "\n" + lines[number]
            continue
        if len(text) > 12:
            yield Prose(_place(path, start), text)
        start, text = number, lines.get(number, "")


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def main() -> None:
    """Print the samples."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=40, help="pieces of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    for kind in options.kinds:
        pieces = list(KINDS[kind]())
        chosen = random.Random(options.seed).sample(pieces, min(options.size, len(pieces)))
        print(f"\n== {kind}: {len(chosen)} of {len(pieces)}")
        for number, piece in enumerate(chosen, 1):
            print(f"\n[{number}] {piece.place}")
            print(textwrap.indent(piece.text, "    "))


if __name__ == "__main__":
    main()
