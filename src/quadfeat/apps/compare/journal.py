"""Keep finished cells on disk, so that a stopped comparison can go on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api import types

import quadfeat
from quadfeat.apps.compare.boosting import boosters
from quadfeat.apps.compare.contest import NAME, Cell, Problem, Row, name
from quadfeat.apps.reporting.errors import CommandError

FILE = "unfinished.jsonl"


class Journal:
    """The finished cells of a comparison, one line of JSON each.

    The first line identifies the comparison. The cells of another comparison, with another table or
    other settings, are not reused.

    Parameters
    ----------
    folder : Path
    problem : Problem

    Attributes
    ----------
    kept : int
        Number of cells from an earlier run.
    """

    def __init__(self, folder: Path, problem: Problem) -> None:
        self._path = folder / FILE
        self._fingerprint = fingerprint(problem)
        self._rows = self._read()
        self.kept = len(self._rows)
        try:
            self._file = self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise CommandError(
                f"cannot write {self._path}: {error.strerror or error}. Choose another --out."
            ) from error
        self._write({"fingerprint": self._fingerprint})
        for row in self._rows.values():
            self._write(row)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, cell: Cell) -> Row | None:
        """Return the row of a cell that is finished, or None."""
        return self._rows.get(name(cell))

    def add(self, row: Row) -> None:
        """Keep the row of a finished cell."""
        self._rows[_name(row)] = row
        self._write(row)

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it if it is not needed any more."""
        self._file.close()
        if remove:
            self._path.unlink(missing_ok=True)

    def _write(self, content: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(content) + "\n")
            self._file.flush()
        except OSError:  # a full disk costs the journal, not the comparison
            return

    def _read(self) -> dict[tuple[Any, ...], Row]:
        """Return the rows of an earlier run of the same comparison."""
        try:
            first, *lines = self._path.read_text(encoding="utf-8").splitlines()
            if json.loads(first) != {"fingerprint": self._fingerprint}:
                return {}
        except (OSError, ValueError):
            return {}
        rows = {}
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:  # the run was killed while it wrote the last line
                break
            rows[_name(row)] = row
        return rows


def _name(row: Row) -> tuple[Any, ...]:
    return tuple(row[column] for column in NAME)


def fingerprint(problem: Problem) -> str:
    """Return a hash of everything that changes a row: the data, the settings, the version.

    Examples
    --------
    >>> import numpy as np
    >>> frame = pd.DataFrame({"x": np.arange(40.0)})
    >>> problems = [Problem(frame, frame["x"].to_numpy(), "r2", seed=seed) for seed in (0, 1)]
    >>> fingerprint(problems[0]) == fingerprint(problems[1])
    False
    """
    settings = (
        quadfeat.__version__,
        boosters(),
        sorted(problem.settings.items()),
        list(problem.rows.columns),
        problem.scoring,
        problem.folds,
        problem.exact_rows,
        problem.components,
        problem.seed,
    )
    digest = hashlib.sha256(repr(settings).encode("utf-8", "backslashreplace"))
    for part in (*(problem.rows[column] for column in problem.rows), pd.Series(problem.y)):
        # Objects may be lists, which have no hash.
        values = part.map(str) if types.is_object_dtype(part) else part
        digest.update(pd.util.hash_pandas_object(values, index=False).to_numpy().tobytes())
    return digest.hexdigest()
