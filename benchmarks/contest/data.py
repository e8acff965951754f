"""Tables of the contest and their splits into training and test rows.

``QUADFEAT_DATA`` names a folder of files ``name.npz`` with ``X``, ``y`` and, where there is a usual
split, ``test``, ``test_fold`` or ``n_train``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from quadfeat._utils.validation import Array

Task = Literal["regression", "classes"]

TASKS: dict[str, Task] = {
    "california": "regression",
    "kin40k": "regression",
    "powerplant": "regression",
    "bike": "regression",
    "protein": "regression",
    "pumadyn32nm": "regression",
    "house8L": "regression",
    "adult": "classes",
    "covtype": "classes",
    "letter": "classes",
    "mnist": "classes",
    "usps": "classes",
}

TEST_SHARE = 0.1
COVTYPE_TRAIN_ROWS = 500_000
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-6, 1e6


class Split(NamedTuple):
    """Training rows and test rows."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def folder() -> Path | None:
    """Return the folder of the data, or None if ``QUADFEAT_DATA`` is not set."""
    name = os.environ.get("QUADFEAT_DATA")
    return Path(name) if name else None


def reason_against(table: str) -> str | None:
    """Return why a table cannot be used, or None if it can."""
    here = folder()
    if here is None:
        return "QUADFEAT_DATA is not set: set it to the folder of the data"
    path = here / f"{table}.npz"
    return None if path.is_file() else f"there is no file {path}"


def read(table: str) -> Any:
    """Return the open file of a table. It reads arrays lazily."""
    reason = reason_against(table)
    if reason is not None:
        raise FileNotFoundError(f"table={table!r}: {reason}")
    here = folder()
    assert here is not None
    return np.load(here / f"{table}.npz")


def rows(table: str, split: int, file: Any) -> tuple[Array, Array]:
    """Return the indices of the training rows and of the test rows of a split.

    Split 0 is the usual split of the table: ``test``, ``test_fold == 0`` or the rows from
    ``n_train`` on, whichever the file has; for covtype, 500,000 training rows in random order.
    Split ``s > 0``, and split 0 of a table without a usual split, has the rows where
    ``default_rng(s).random(n) < 0.1`` as test rows.
    """
    n_rows = len(file["y"])
    if split == 0 and table == "covtype":
        order = np.random.default_rng(0).permutation(n_rows)
        return order[:COVTYPE_TRAIN_ROWS], order[COVTYPE_TRAIN_ROWS:]
    if split == 0 and "test" in file:
        is_test = file["test"].astype(bool)
    elif split == 0 and "test_fold" in file:
        is_test = file["test_fold"] == 0
    elif split == 0 and "n_train" in file:
        is_test = np.arange(n_rows) >= int(file["n_train"])
    else:
        is_test = np.random.default_rng(split).random(n_rows) < TEST_SHARE
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def n_train(table: str, split: int) -> int:
    """Return the number of training rows of a split, without reading the columns."""
    return len(rows(table, split, read(table))[0])


def factors(n_columns: int) -> Array:
    """Return a factor for each column, drawn log-uniformly: a change of units."""
    rng = np.random.default_rng(0)
    return np.exp(rng.uniform(np.log(SMALLEST_FACTOR), np.log(LARGEST_FACTOR), n_columns))


def load(table: str, split: int, units: bool = False) -> Split:
    """Return a split of a table: raw columns in float32, or in other units in float64."""
    file = read(table)
    train, test = rows(table, split, file)
    X, y = file["X"], file["y"]
    # Values in other units have more digits than float32 holds.
    X = X * factors(X.shape[1]) if units else X.astype(np.float32)
    if TASKS[table] == "regression":
        y = y.astype(np.float64)
    return Split(X[train], y[train], X[test], y[test])
