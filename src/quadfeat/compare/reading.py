"""Files of tables: how each kind is read, here and by the code that is pasted."""

from __future__ import annotations

import json
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from quadfeat._validation import did_you_mean
from quadfeat.reporting.errors import CommandError

SEPARATORS = (";", "\t", "|")  # what is tried where commas leave one column
UNKNOWN = "?"  # how many older files say that a value is missing


@dataclass(frozen=True)
class Source:
    """A table as it was read, and how.

    Attributes
    ----------
    frame : DataFrame
        All columns, the target among them.
    target : str
        The name of the target's column.
    code : list of str
        Lines of Python that read the file into ``table``, run in its folder.
    remarks : list of str
        What a reader should know about it.
    """

    frame: pd.DataFrame
    target: str
    code: list[str]
    remarks: list[str]


def read(path: Path, target: str | None) -> Source:
    """Return the table in a file, with the name of its target checked."""
    if not path.exists():
        raise CommandError(f"{path} does not exist: name a CSV, Parquet or NPZ file.")
    if path.is_dir():
        raise CommandError(f"{path} is a folder: name a CSV, Parquet or NPZ file in it.")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-1] if suffixes else ""
    if kind in (".gz", ".bz2", ".xz", ".zst", ".zip") and len(suffixes) > 1:
        kind = suffixes[-2]  # pandas unpacks these by itself
    if kind in (".csv", ".tsv", ".txt"):
        return _read_csv(path, target)
    if kind in (".parquet", ".pq"):
        return _read_parquet(path, target)
    if kind == ".npz":
        return _read_npz(path, target or "y")
    raise CommandError(
        f"{path} has the ending {kind or 'of no kind'!r}: give a table as .csv, .tsv, .txt (also "
        "packed, .csv.gz), .parquet or .npz."
    )


def _read_csv(path: Path, target: str | None) -> Source:
    options: dict[str, str] = {"sep": "\t"} if ".tsv" in path.suffixes else {}
    frame = _csv(path, options)
    if frame.shape[1] == 1:
        found = next((sep for sep in SEPARATORS if sep in str(frame.columns[0])), None)
        if found is not None:
            options["sep"] = found
            frame = _csv(path, options)
    remarks = []
    texts = frame.select_dtypes(include=["object", "string"])
    if any((texts[name] == UNKNOWN).any() for name in texts):
        options["na_values"] = UNKNOWN
        frame = _csv(path, options)
        remarks.append(f"Entries {UNKNOWN!r} are read as missing.")
    name = _check_target(path, frame, target)
    given = "".join(f", {key}={quoted(value)}" for key, value in options.items())
    code = [f"table = pd.read_csv({quoted(path.name)}{given})"]
    return Source(frame, name, code, remarks)


def _csv(path: Path, options: dict[str, str]) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # Columns of several types are made into words later.
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            frame = pd.read_csv(path, **options)
    except pd.errors.EmptyDataError:
        raise CommandError(f"{path} is empty: give a table with a line of names.") from None
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{path} is not text in UTF-8 ({error.reason}): save it as CSV in UTF-8."
        ) from error
    except (OSError, EOFError, ValueError, pd.errors.ParserError, zipfile.BadZipFile) as error:
        raise CommandError(f"{path} cannot be read: {_one_line(error)}") from error
    return frame


def _read_parquet(path: Path, target: str | None) -> Source:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise CommandError(
            f"{path}: Parquet files need pyarrow: pip install 'quadfeat[study]', or save it as CSV."
        ) from None
    try:
        frame = pd.read_parquet(path, engine="pyarrow")
    except (OSError, ValueError, NotImplementedError) as error:  # as all of pyarrow's are
        raise CommandError(f"{path} cannot be read: {_one_line(error)}") from error
    frame.columns = [str(name) for name in frame.columns]
    name = _check_target(path, frame, target)
    # An index would be no column of the pasted code either.
    code = [f"table = pd.read_parquet({quoted(path.name)})"]
    return Source(frame.reset_index(drop=True), name, code, [])


def _read_npz(path: Path, target: str) -> Source:
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise CommandError(f"{path} is no archive: save arrays X and y by numpy.savez.")
            file.seek(0)
            archive = np.load(file)
            arrays = ", ".join(archive.files) or "none"
            for name in ("X", target):
                if name not in archive.files:
                    hint = did_you_mean(name, archive.files)
                    raise CommandError(
                        f"{path} has no array {name!r}, but {arrays}.{hint} Save X and the target "
                        "by numpy.savez, and name the target by --target."
                    )
            X, y = archive["X"], archive[target]
    except CommandError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CommandError(f"{path} cannot be read: {_one_line(error)}") from error
    if X.ndim != 2 or X.shape[1] == 0:
        raise CommandError(f"{path}: X has shape {X.shape}: save it as a matrix of rows.")
    if y.shape != (len(X),):
        raise CommandError(f"{path}: {target} has shape {y.shape}, not ({len(X)},) as X has rows.")
    frame = pd.DataFrame(X).add_prefix("x")
    if target in frame:
        raise CommandError(f"{path}: the columns of X are called x0, x1, ...: rename {target!r}.")
    code = [
        f"archive = np.load({quoted(path.name)})",
        'table = pd.DataFrame(archive["X"]).add_prefix("x")',
        f"table[{quoted(target)}] = archive[{quoted(target)}]",
    ]
    return Source(frame.assign(**{target: y}), target, code, [])


def _check_target(path: Path, frame: pd.DataFrame, target: str | None) -> str:
    """Return the name of the target's column."""
    names = [str(name) for name in frame.columns]
    if not names:
        raise CommandError(f"{path} has no columns.")
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    if target is None:
        raise CommandError(f"--target is missing: name the column to predict, of {listed}.")
    if target not in names:
        lower = {name.lower(): name for name in names}
        hint = did_you_mean(target, lower)
        for key, name in lower.items():
            hint = hint.replace(f"'{key}'?", f"'{name}'?")
        raise CommandError(f"--target {target!r} is no column of {path}.{hint} It has {listed}.")
    if frame.shape[1] == 1:
        raise CommandError(f"{path} has no column but {target!r}: there is nothing to learn from.")
    return target


def quoted(text: str) -> str:
    """Return a string as code, in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} ..."
