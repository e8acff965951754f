"""Run the tutorial notebook and store its outputs, or check the stored ones with ``--check``.

The notebook runs in a temporary folder. The check compares the text that cells print, except for
cells with the tag ``varies``. Numbers may differ by 15%, as other processors round differently and
a search for a kernel can then choose another one.

    python scripts/tutorial.py [--check]
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from copy import deepcopy
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

from environments import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
VARIES = "varies"  # the tag of cells that print times
NUMBER = re.compile(r"\d+(?:\.\d+)?")
RELATIVE_DIFFERENCE = 0.15
SECONDS_PER_CELL = 600


def executed(notebook: Any) -> Any:
    """Return a copy of a notebook with new outputs."""
    copy = deepcopy(notebook)
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(copy, timeout=SECONDS_PER_CELL, resources=resources).execute()
    for cell in copy.cells:
        cell.metadata.pop("execution", None)  # the times at which cells ran
    copy.metadata = notebook.metadata  # without the version of Python
    return copy


def printed(cell: Any) -> str:
    """Return the text that a cell printed."""
    streams = (output for output in cell.get("outputs", []) if output.output_type == "stream")
    return "".join(stream.text for stream in streams)


def agree(stored: str, new: str) -> bool:
    """Return whether two texts are equal up to small differences between their numbers."""
    if NUMBER.sub("0", stored) != NUMBER.sub("0", new):
        return False
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(new), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=RELATIVE_DIFFERENCE) for a, b in pairs)


def differences(stored: Any, new: Any) -> list[str]:
    """Return a message for each cell that now prints different text."""
    return [
        f"{before.source}\n\nis stored with the output\n\n{printed(before)}\n"
        f"but prints\n\n{printed(after)}"
        for before, after in zip(stored.cells, new.cells, strict=True)
        if VARIES not in before.metadata.get("tags", [])
        and not agree(printed(before), printed(after))
    ]


def main() -> None:
    """Run the notebook."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare outputs, write nothing")
    check = parser.parse_args().check
    stored = nbformat.read(TUTORIAL, as_version=4)  # type: ignore[no-untyped-call]
    new = executed(stored)
    if not check:
        nbformat.write(new, TUTORIAL)  # type: ignore[no-untyped-call]
        return
    found = differences(stored, new)
    if found:
        sys.exit("\n".join([*found, "Run python scripts/tutorial.py to store the new outputs."]))


if __name__ == "__main__":
    main()
