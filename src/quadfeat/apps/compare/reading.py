"""Read tables from files, and write the code that reads them."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from quadfeat._utils.validation import did_you_mean
from quadfeat.apps.compare.delimited import read_delimited
from quadfeat.apps.compare.numerals import Mark
from quadfeat.apps.reporting.errors import CommandError, one_line_of
from quadfeat.apps.reporting.text import printable, quoted


@dataclass(frozen=True)
class Source:
    """A table, and how it was read.

    Attributes
    ----------
    frame : DataFrame
        All columns, including the target.
    target : str
        Name of the target column.
    code : list of str
        Lines of Python that read the file into ``table``; they run in its folder.
    remarks : list of str
        Assumptions to show to the user.
    """

    frame: pd.DataFrame
    target: str
    code: list[str]
    remarks: list[str]


def read(
    path: str | os.PathLike[str],
    target: str | None,
    *,
    separator: str | None = None,
    decimal: Mark | None = None,
) -> Source:
    """Read the table in a file and check the name of the target."""
    path = _check_path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-1] if suffixes else ""
    if kind in (".gz", ".bz2", ".xz", ".zst", ".zip") and len(suffixes) > 1:
        kind = suffixes[-2]  # pandas decompresses these
    if kind in (".csv", ".tsv", ".txt"):
        table = read_delimited(path, separator or ("\t" if kind == ".tsv" else None), decimal)
        name = _check_target(path, table.frame, target)
        return Source(table.frame, name, table.code, table.remarks)
    if kind not in (".parquet", ".pq", ".npz"):
        raise CommandError(
            f"{path} has {f'the suffix {kind!r}' if kind else 'no suffix'}. Pass a table as .csv, "
            ".tsv or .txt (may be compressed, as .csv.gz), .parquet or .npz."
        )
    for option, value in (("--separator", separator), ("--decimal", decimal)):
        if value is not None:
            raise CommandError(f"{option} {value!r} is for text files only. Remove it for {path}.")
    if kind == ".npz":
        return _read_npz(path, target or "y")
    return _read_parquet(path, target)


def _check_path(given: object) -> Path:
    """Return the path of an existing file."""
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(
            f"path is an object of type {type(given).__name__}. Pass the path of a CSV, Parquet or "
            f"NPZ file.{_way_to_a_file(given)}"
        )
    path = Path(given)
    if "\0" in str(path):
        raise CommandError(f"the path {str(path)!r} contains a NUL character. Remove it.")
    try:
        exists, folder = path.exists(), path.is_dir()
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}.") from error
    if not exists:
        raise CommandError(f"{path} does not exist. Pass a CSV, Parquet or NPZ file.")
    if folder:
        raise CommandError(f"{path} is a folder. Pass a CSV, Parquet or NPZ file in it.")
    return path


def _way_to_a_file(frame: object) -> str:
    """Return how to save a table that is in memory or lazy."""
    # The methods of lazy polars frames, polars frames and pandas frames.
    for method in ("sink_parquet", "write_parquet", "to_parquet"):
        if hasattr(frame, method):
            return f' Save it first, for example with .{method}("table.parquet").'
    return ""


def _read_parquet(path: Path, target: str | None) -> Source:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise CommandError(
            f"cannot read {path}: Parquet files need pyarrow. Run pip install 'quadfeat[study]', "
            "or save the table as CSV."
        ) from None
    try:
        # pyarrow cannot open files whose names are not UTF-8, but Python can.
        with path.open("rb") as file:
            frame = pd.read_parquet(file, engine="pyarrow")
    except (OSError, ValueError, NotImplementedError) as error:  # bases of pyarrow's errors
        raise CommandError(f"cannot read {path}: {one_line_of(error)}") from error
    code = [f"table = pd.read_parquet({quoted(path.name)})"]
    if printable(path.name) != path.name:
        code = [
            f'with open({quoted(path.name)}, "rb") as file:',
            "    table = pd.read_parquet(file)",
        ]
    if any(not isinstance(name, str) for name in frame.columns):
        frame.columns = [str(name) for name in frame.columns]
        code.append("table.columns = [str(name) for name in table.columns]")
    name = _check_target(path, frame, target)
    # The generated script does not use the index either.
    return Source(frame.reset_index(drop=True), name, code, [])


def _read_npz(path: Path, target: str) -> Source:
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise CommandError(
                    f"{path} is not an NPZ file. Save arrays X and y with numpy.savez."
                )
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            arrays = ", ".join(archive.files) or "none"
            for name in ("X", target):
                if name not in archive.files:
                    hint = did_you_mean(name, archive.files)
                    raise CommandError(
                        f"{path} has no array {name!r}; it has {arrays}.{hint} Save X and the "
                        "target with numpy.savez, and name the target with --target."
                    )
            X, y = archive["X"], archive[target]
    except CommandError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"cannot read {path}: {one_line_of(error)}") from error
    if X.ndim != 2 or X.shape[1] == 0:
        raise CommandError(f"X in {path} has shape {X.shape}. Save a matrix, one row per sample.")
    if y.shape != (len(X),):
        raise CommandError(
            f"{target} in {path} has shape {y.shape}. X has {len(X)} rows: save {len(X)} targets."
        )
    frame = pd.DataFrame(X).add_prefix("x")
    if target in frame:
        raise CommandError(f"array {target!r} in {path} has the name of a column of X. Rename it.")
    code = [
        f"archive = np.load({quoted(path.name)})",
        'table = pd.DataFrame(archive["X"]).add_prefix("x")',
        f"table[{quoted(target)}] = archive[{quoted(target)}]",
    ]
    return Source(frame.assign(**{target: y}), target, code, [])


def _check_target(path: Path, frame: pd.DataFrame, target: str | None) -> str:
    """Return the name of the target column."""
    names = [str(name) for name in frame.columns]
    if not names:
        raise CommandError(f"{path} has no columns.")
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    if target is None:
        raise CommandError(f"--target is missing. Name the column to predict, one of {listed}.")
    if target not in names:
        hint = did_you_mean(target, names)
        raise CommandError(f"--target {target!r} is not a column of {path}.{hint} It has {listed}.")
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise CommandError(f"{path} has several columns named {repeated[0]!r}. Rename all but one.")
    if frame.shape[1] == 1:
        raise CommandError(
            f"{path} has only the target column {target!r}. Add columns to learn from."
        )
    return target
