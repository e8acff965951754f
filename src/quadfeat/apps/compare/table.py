"""A table to learn from: rows, target, task, and what was done to get there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api import types

from quadfeat._utils.validation import Array
from quadfeat.apps.compare.columns import Column, named, sort_out, tidy
from quadfeat.apps.compare.numerals import Mark
from quadfeat.apps.compare.reading import read
from quadfeat.apps.compare.scoring import Task
from quadfeat.apps.reporting.errors import CommandError

MOST_LISTED = 12  # columns that an error names
FEW_VALUES = 30  # whole numbers, up to so many different ones, are taken for classes


@dataclass(frozen=True)
class Table:
    """A table to learn from.

    Attributes
    ----------
    path : Path
        Its file.
    code : list of str
        Lines of Python that read the file into ``table``, run in its folder.
    target : str
        The name of what is to be predicted.
    task : {"classification", "regression"}
    columns : list of Column
        All others, those that are dropped too.
    rows : DataFrame
        Numbers as float64 and words as strings, of the columns that are kept.
    y : ndarray of shape (n_rows,)
        Strings or numbers for classification, float64 for regression.
    words_target : bool
        Whether the target is made of words, or of truth values.
    target_missing : bool
        Whether rows were dropped because their target is missing.
    sampled : bool
        Whether these are only some of the rows.
    n_rows : int
        How many rows with a target the file has.
    remarks : list of str
        What a reader should know about all this.
    """

    path: Path
    code: list[str]
    target: str
    task: Task
    columns: list[Column]
    rows: pd.DataFrame
    y: Array
    words_target: bool
    target_missing: bool
    sampled: bool
    n_rows: int
    remarks: list[str]


def load(
    path: str | os.PathLike[str],
    target: str | None,
    *,
    task: Task | None = None,
    separator: str | None = None,
    decimal: Mark | None = None,
    max_rows: int = 20_000,
    folds: int = 5,
    seed: int = 0,
) -> Table:
    """Return a table ready to learn from, or say what is wrong with it.

    Parameters
    ----------
    path : str or path-like
        A CSV, Parquet or NPZ file.
    target : str or None
        The column to predict; ``None`` is the array ``y`` of an NPZ file.
    task : {"classification", "regression"} or None
        ``None`` decides by the target: words, truth values and a few different whole numbers are
        classes.
    separator : str or None
        What separates the columns of a text file; ``None`` finds out.
    decimal : {".", ","} or None
        The decimal mark of a text file; ``None`` finds out.
    max_rows : int
        Of more rows, so many are drawn.
    folds : int
        In how many parts rows will be split, for which there must be enough.
    seed : int
        Of the choice of rows.
    """
    source = read(path, target, separator=separator, decimal=decimal)
    path = Path(path)
    frame, name, remarks = source.frame, source.target, list(source.remarks)
    if len(frame) == 0:
        raise CommandError(f"{path} has no rows.")
    columns = sort_out(frame.drop(columns=name))
    has_target = frame[name].notna()
    if not has_target.any():
        raise CommandError(f"target {name!r} is missing in all {len(frame)} rows: name another.")
    without = int((~has_target).sum())
    if without:
        remarks.append(f"{without} rows without a target are left out.")
        frame = frame[has_target]
    _check_rows(path, frame, folds)
    if not named(columns, "number", "date", "words"):
        why = "; ".join(f"{column.name}: {column.treatment}" for column in columns[:MOST_LISTED])
        if len(columns) > MOST_LISTED:
            why += f"; and {len(columns) - MOST_LISTED} more"
        raise CommandError(f"{path} has no column to learn from ({why}).")
    words_target = _is_words(frame[name])
    decided = task or _guess_task(frame[name], words_target)
    n_rows = len(frame)
    sampled = n_rows > max_rows
    if sampled:
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(len(frame), max_rows, replace=False))
        remarks.append(
            f"{max_rows} of {len(frame)} rows, drawn at random, are used (--max-rows for more)."
        )
        frame = frame.iloc[chosen]
    if decided == "classification":
        y = _classes(name, frame[name], words_target, folds, remarks)
        if task is None and not words_target:
            remarks.append(
                f"The target has {len(np.unique(y))} different whole numbers, which are taken "
                "for classes (--task regression if they are not)."
            )
    else:
        y = _numbers(name, frame[name])
    return Table(
        path,
        source.code,
        name,
        decided,
        columns,
        tidy(frame, columns),
        y,
        words_target,
        bool(without),
        sampled,
        n_rows,
        remarks,
    )


def _check_rows(path: Path, frame: pd.DataFrame, folds: int) -> None:
    if len(frame) < 2 * folds:
        rows = "1 row" if len(frame) == 1 else f"{len(frame)} rows"
        raise CommandError(
            f"{path} has {rows} with a target: cross-validation in {folds} folds needs at least "
            f"{2 * folds} (--folds for fewer)."
        )


def _is_words(target: pd.Series) -> bool:
    values = target.dropna()
    return types.is_bool_dtype(values) or not types.is_numeric_dtype(values)


def _guess_task(target: pd.Series, words: bool) -> Task:
    if words:
        return "classification"
    values = target.dropna().astype(np.float64)
    whole = bool((values == values.round()).all())
    return "classification" if whole and values.nunique() <= FEW_VALUES else "regression"


def _classes(name: str, target: pd.Series, words: bool, folds: int, remarks: list[str]) -> Array:
    """Return the classes of the rows, or say why they cannot be learnt."""
    y = np.array(target.astype(object).map(str) if words else target.astype(np.float64))
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise CommandError(
            f"target {name!r} has one class only, {classes[0]!r}: there is nothing to learn."
        )
    if len(classes) > len(y) / 2 or counts.max() < folds:
        raise CommandError(
            f"target {name!r} has {len(classes)} classes in {len(y)} rows: classification needs "
            "rows enough of each; name another target, or use --task regression for numbers."
        )
    rare = int((counts < folds).sum())
    if rare:
        remarks.append(
            f"{rare} of {len(classes)} classes have fewer than {folds} rows: some folds cannot "
            "train on them, or not test them."
        )
    return y


def _numbers(name: str, target: pd.Series) -> Array:
    """Return the numbers to predict, or say why they cannot be learnt."""
    try:
        y = np.array(target, dtype=np.float64)
    except (TypeError, ValueError):
        example = next(value for value in target if not isinstance(value, (int, float)))
        raise CommandError(
            f"target {name!r} is not made of numbers (such as {str(example)!r}): use --task "
            "classification."
        ) from None
    if not np.isfinite(y).all():
        raise CommandError(f"target {name!r} has infinite values: replace or drop such rows.")
    if (y == y[0]).all():
        raise CommandError(f"target {name!r} is constant, {y[0]:g}: there is nothing to learn.")
    return y
