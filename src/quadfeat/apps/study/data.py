"""The data sets of a study: the paper's six, and some that come with scikit-learn.

A data set is looked for in the folder that the user names (``NAME.npz`` with arrays ``X`` and
``y``), then among those that were fetched, then in scikit-learn.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sklearn
from sklearn import datasets

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.apps.reporting.errors import check_names
from quadfeat.apps.study import fetch
from quadfeat.apps.study.errors import StudyError

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Dataset:
    """Rows scaled for the study, and what they are for."""

    name: str
    X: Float64Array
    y: Array
    task: Task
    n_train: int
    sample: int  # rows and columns of the kernel matrix whose error is measured
    as_published: bool = False  # whether it has the shape of the authors' set

    @property
    def d(self) -> int:
        """Width of the rows."""
        return self.X.shape[1]


@dataclass(frozen=True)
class Entry:
    """What is known of a data set before it is loaded.

    Attributes
    ----------
    n_train : int or None
        How many of the first rows the kernel error samples from, as the authors did.
    subset : tuple of int or None
        Another shape, of a part of the set that serves as well.
    standardise : bool
        Whether columns are standardised before all is divided by the largest entry.
    """

    name: str
    shape: tuple[int, int]
    task: Task
    title: str
    subset: tuple[int, int] | None = None
    n_train: int | None = None
    sample: int = 550
    standardise: bool = False
    embedded: Callable[..., Any] | None = None
    source: fetch.Source | None = None


PAPER = {
    entry.name: entry
    for entry in (
        Entry(
            "powerplant",
            (9568, 4),
            "regression",
            "Combined cycle power plant (UCI)",
            n_train=8500,
            standardise=True,
            source=fetch.Files(
                ("https://archive.ics.uci.edu/ml/machine-learning-databases/00294/CCPP.zip",),
                fetch.power_plant,
            ),
        ),
        Entry(
            "letter",
            (20000, 16),
            "classification",
            "Letter recognition (UCI)",
            n_train=10000,
            source=fetch.OpenML(6),
        ),
        Entry(
            "usps",
            (9298, 256),
            "classification",
            "Handwritten digits of the US postal service",
            n_train=4500,
            source=fetch.OpenML(41082),
        ),
        Entry(
            "mnist",
            (70000, 784),
            "classification",
            "Handwritten digits",
            n_train=50000,
            source=fetch.OpenML(554),
        ),
        Entry(
            "cifar100",
            (60000, 3072),
            "classification",
            "Tiny photographs in 100 classes",
            subset=(5000, 3072),
            sample=50,
            source=fetch.OpenML(41983),
        ),
        Entry(
            "leukemia",
            (72, 7129),
            "classification",
            "Gene expressions of leukemia patients",
            n_train=38,
            sample=10,
            source=fetch.Files(
                (
                    "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/leu.bz2",
                    "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/leu.t.bz2",
                ),
                partial(fetch.svmlight, n_features=7129),
            ),
        ),
    )
}

EMBEDDED = {
    entry.name: entry
    for entry in (
        Entry(
            "digits",
            (1797, 64),
            "classification",
            "Small handwritten digits",
            embedded=datasets.load_digits,
        ),
        Entry(
            "breast-cancer",
            (569, 30),
            "classification",
            "Breast cancer in Wisconsin",
            sample=280,
            standardise=True,
            embedded=datasets.load_breast_cancer,
        ),
        Entry(
            "diabetes",
            (442, 10),
            "regression",
            "Progress of diabetes",
            sample=220,
            standardise=True,
            embedded=datasets.load_diabetes,
        ),
    )
}

CATALOGUE = PAPER | EMBEDDED


def available(data_dir: Path | None) -> list[str]:
    """Return the names of the data sets that are here, embedded ones last."""
    return [name for name in CATALOGUE if _find(CATALOGUE[name], data_dir) is not None]


def where(name: str, data_dir: Path | None) -> str | None:
    """Return in words where a data set is, if it is here."""
    found = _find(CATALOGUE[name], data_dir)
    return str(found) if isinstance(found, Path) else "in scikit-learn" if found else None


@lru_cache(maxsize=32)
def signature(name: str, data_dir: Path | None) -> str:
    """Return what changes when a data set does."""
    found = _find(CATALOGUE[name], data_dir)
    if isinstance(found, Path):
        return hashlib.sha256(found.read_bytes()).hexdigest()[:16]
    return f"scikit-learn {sklearn.__version__}"


def load(name: str, data_dir: Path | None = None) -> Dataset:
    """Return a data set, scaled as the authors did."""
    (name,) = check_names([name], CATALOGUE, "data set")
    entry = CATALOGUE[name]
    found = _find(entry, data_dir)
    if found is None:
        places = [f"as {name}.npz into a folder given by --data-dir"]
        if entry.source is not None:
            places.append(f"get it by 'quadfeat data fetch {name}'")
        raise StudyError(f"data set '{name}' is not here: put it {', or '.join(places)}.")
    if isinstance(found, Path):
        X, y = read_archive(found)
    else:
        X, y = found(return_X_y=True)
        X = np.asarray(X, dtype=np.float64)
    _check_target(name, y, entry.task)
    as_published = X.shape == entry.shape or X.shape == entry.subset
    if entry.standardise:
        varying = np.ptp(X, axis=0) > 0  # rounding may give a constant column a deviation
        X = (X - X.mean(axis=0)) / np.where(varying, X.std(axis=0), 1.0)
    n_train = min(entry.n_train or len(X), len(X))
    largest = X[:n_train].max()
    if largest <= 0:
        raise StudyError(f"data set '{name}' has no positive entry to scale it by.")
    sample = min(entry.sample, n_train)
    return Dataset(name, X / largest, y, entry.task, n_train, sample, as_published)


def _check_target(name: str, y: Array, task: Task) -> None:
    """Refuse targets that no machine can learn."""
    if task == "regression":
        if y.dtype.kind not in "fiub" or not np.isfinite(y.astype(np.float64)).all():
            raise StudyError(f"data set '{name}': y must be finite numbers, for regression.")
        if (y == y[0]).all():
            raise StudyError(f"data set '{name}': y is constant, {y[0]}: nothing to learn.")
        return
    counts = np.unique(y.astype(str), return_counts=True)[1]
    if len(counts) < 2 or len(counts) > len(y) / 2:
        raise StudyError(
            f"data set '{name}': y has {len(counts)} classes in {len(y)} rows; classification "
            "needs at least two, and rows enough for each."
        )


def read_archive(path: Path) -> tuple[Float64Array, Array]:
    """Return ``X`` and ``y`` of an archive, or say what is wrong with it."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise StudyError(f"{path} is not an archive: save arrays X and y by numpy.savez.")
            missing = [name for name in ("X", "y") if name not in archive]
            if missing:
                raise StudyError(f"{path} has no array '{missing[0]}': save it by numpy.savez.")
            X, y = archive["X"], archive["y"]
    except StudyError:  # a ValueError that says it all
        raise
    except (OSError, zipfile.BadZipFile, ValueError, EOFError) as error:
        raise StudyError(f"{path} cannot be read: {error}") from error
    if X.ndim != 2 or X.shape[1] == 0 or X.dtype.kind not in "fiub":
        raise StudyError(f"{path}: X is not a matrix of numbers (shape {X.shape}, {X.dtype}).")
    if y.shape != (len(X),):
        raise StudyError(f"{path}: y has shape {y.shape}, not ({len(X)},) as X has rows.")
    if len(X) < 2:
        raise StudyError(f"{path} has {len(X)} row(s): a study needs at least two.")
    X = X.astype(np.float64)
    if not np.isfinite(X).all():
        raise StudyError(f"{path}: X has NaN or infinite entries: impute or drop such rows.")
    return X, y


def _find(entry: Entry, data_dir: Path | None) -> Path | Callable[..., Any] | None:
    """Return the file of a data set, or what loads it from scikit-learn, if there is one."""
    folders = [folder for folder in (data_dir, fetch.cache_folder()) if folder is not None]
    for folder in folders:
        path = folder / f"{entry.name}.npz"
        if path.is_file():
            return path
    return entry.embedded


def default_data_dir() -> Path | None:
    """Return the folder that ``QUADFEAT_DATA`` names."""
    folder = os.environ.get("QUADFEAT_DATA")
    return Path(folder) if folder else None
