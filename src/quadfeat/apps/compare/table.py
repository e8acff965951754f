"""Load a table: rows, target and task."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api import types

from quadfeat._utils.validation import Array
from quadfeat.apps.compare.columns import Column, describe, is_plain, row_numbers
from quadfeat.apps.compare.numerals import Mark
from quadfeat.apps.compare.reading import read
from quadfeat.apps.compare.scoring import Task
from quadfeat.apps.reporting.errors import CommandError

FEW_VALUES = 30  # integers with at most this many different values are classes


@dataclass(frozen=True)
class Table:
    """A table to learn from.

    Attributes
    ----------
    path : Path
        The file.
    code : list of str
        Lines of Python that read the file into ``table``; they run in its folder.
    target : str
        Name of the target column.
    task : {"classification", "regression"}
    columns : list of Column
        All other columns, including those that are not used.
    rows : DataFrame
        The columns as they are in the file, without the target and row numbers.
    y : ndarray of shape (n_rows,)
        Strings or numbers for classification, float64 for regression.
    unused : list of str
        Columns with row numbers, which are removed.
    is_plain : bool
        Whether all columns of the file are numbers without missing values.
    target_as_text : bool
        Whether a script has to convert the target to strings.
    target_missing : bool
        Whether rows without a target were dropped.
    sampled : bool
        Whether ``rows`` is a random sample of the rows in the file.
    n_rows : int
        Number of rows in the file that have a target.
    remarks : list of str
        Assumptions to show to the user.
    """

    path: Path
    code: list[str]
    target: str
    task: Task
    columns: list[Column]
    rows: pd.DataFrame
    y: Array
    unused: list[str]
    is_plain: bool
    target_as_text: bool
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
    """Load a table to learn from; raise an error if it cannot be used.

    Parameters
    ----------
    path : str or path-like
        A CSV, Parquet or NPZ file.
    target : str or None
        The column to predict; ``None`` means the array ``y`` of an NPZ file.
    task : {"classification", "regression"} or None
        ``None`` decides by the target: strings, Booleans and integers with few different values
        are classes.
    separator : str or None
        Separator of a text file; ``None`` detects it.
    decimal : {".", ","} or None
        Decimal mark of a text file; ``None`` detects it.
    max_rows : int
        Sample this many rows if the file has more.
    folds : int
        Number of cross-validation folds, for which there must be enough rows.
    seed : int
        Seed of the sample.
    """
    source = read(path, target, separator=separator, decimal=decimal)
    path = Path(path)
    frame, name, remarks = source.frame, source.target, list(source.remarks)
    if len(frame) == 0:
        raise CommandError(f"{path} has no rows.")
    others = frame.drop(columns=name)
    unused, plain = row_numbers(others), is_plain(others)
    if len(unused) == others.shape[1]:
        raise CommandError(
            f"{path} has no column to learn from: {unused[0]!r} has row numbers. Add columns."
        )
    has_target = frame[name].notna()
    if not has_target.any():
        raise CommandError(
            f"target {name!r} is missing in all {len(frame)} rows. Choose another one."
        )
    without = int((~has_target).sum())
    if without:
        rows = "1 row" if without == 1 else f"{without} rows"
        remarks.append(f"Dropped {rows} without a target.")
        frame = frame[has_target]
    _check_rows(path, frame, folds)
    text_target = _is_text(frame[name])
    decided = task or _guess_task(frame[name], text_target)
    n_rows = len(frame)
    sampled = n_rows > max_rows
    if sampled:
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(len(frame), max_rows, replace=False))
        remarks.append(
            f"A random sample of {max_rows} of {len(frame)} rows is used. Use --max-rows for more."
        )
        frame = frame.iloc[chosen]
    if decided == "classification":
        y = _classes(name, frame[name], text_target, folds, remarks)
        if task is None and not text_target:
            remarks.append(
                f"The target has {len(np.unique(y))} different integers, which are read as "
                "classes. Use --task regression if they are numbers."
            )
    else:
        y = _numbers(name, frame[name])
    others = frame.drop(columns=name)
    return Table(
        path,
        source.code,
        name,
        decided,
        describe(others, y, unused),
        others.drop(columns=unused),
        y,
        unused,
        plain,
        text_target and not _is_plain_text(frame[name]),
        bool(without),
        sampled,
        n_rows,
        remarks,
    )


def _check_rows(path: Path, frame: pd.DataFrame, folds: int) -> None:
    if len(frame) < 2 * folds:
        rows = "1 row" if len(frame) == 1 else f"{len(frame)} rows"
        raise CommandError(
            f"{path} has {rows} with a target, but {folds} folds need at least {2 * folds}. Add "
            "rows, or use fewer --folds."
        )


def _is_text(target: pd.Series) -> bool:
    values = target.dropna()
    return types.is_bool_dtype(values) or not types.is_numeric_dtype(values)


def _is_plain_text(target: pd.Series) -> bool:
    """Return whether scikit-learn accepts the values as classes."""
    is_object = types.is_object_dtype(target) or types.is_string_dtype(target)
    return is_object and all(isinstance(value, str) for value in target)


def _guess_task(target: pd.Series, text: bool) -> Task:
    if text:
        return "classification"
    values = target.dropna().astype(np.float64)
    whole = bool((values == values.round()).all())
    return "classification" if whole and values.nunique() <= FEW_VALUES else "regression"


def _classes(name: str, target: pd.Series, text: bool, folds: int, remarks: list[str]) -> Array:
    """Return the class of each row; raise an error if the classes cannot be learned."""
    y = np.array(target.astype(object).map(str) if text else target.astype(np.float64))
    if not text and (y == np.round(y)).all():
        y = y.astype(np.int64)  # classes, not numbers to average
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise CommandError(
            f"target {name!r} has only one class, {classes[0]!r}. Choose another --target."
        )
    if len(classes) > len(y) / 2 or counts.max() < folds:
        raise CommandError(
            f"target {name!r} has {len(classes)} classes in {len(y)} rows, too few rows per class. "
            "Choose another --target, or use --task regression if it is a number."
        )
    rare = int((counts < folds).sum())
    if rare:
        remarks.append(
            f"{rare} of {len(classes)} classes have fewer than {folds} rows, so some folds do not "
            "train on them or do not test them."
        )
    return y


def _numbers(name: str, target: pd.Series) -> Array:
    """Return the numbers to predict; raise an error if they cannot be learned."""
    try:
        y = np.array(target, dtype=np.float64)
    except (TypeError, ValueError):
        example = next(value for value in target if not isinstance(value, (int, float)))
        raise CommandError(
            f"target {name!r} has values that are not numbers, such as {str(example)!r}. "
            "Use --task classification."
        ) from None
    if not np.isfinite(y).all():
        raise CommandError(f"target {name!r} has infinite values. Replace them or drop these rows.")
    if (y == y[0]).all():
        raise CommandError(f"target {name!r} is constant, {y[0]:g}. Choose another --target.")
    return y
