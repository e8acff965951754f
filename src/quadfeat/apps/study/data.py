"""The datasets of a study: the paper's six, and three that come with scikit-learn.

A dataset is searched for in the user's folder (``NAME.npz`` with arrays ``X`` and ``y``), then
among the downloaded ones, then in scikit-learn.
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
    """Rows scaled for the study, and their targets."""

    name: str
    X: Float64Array
    y: Array
    task: Task
    n_train: int
    sample: int  # rows and columns of the measured kernel matrix
    as_published: bool = False  # has the shape of the authors' dataset

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.X.shape[1]


@dataclass(frozen=True)
class Entry:
    """A dataset before it is loaded.

    Attributes
    ----------
    n_train : int or None
        The kernel error samples from this number of first rows, as the authors did.
    subset : tuple of int or None
        The shape of a part of the dataset that is accepted in its place.
    standardize : bool
        Whether to standardize columns before dividing all entries by the largest one.
    """

    name: str
    shape: tuple[int, int]
    task: Task
    title: str
    subset: tuple[int, int] | None = None
    n_train: int | None = None
    sample: int = 550
    standardize: bool = False
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
            standardize=True,
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
            "Handwritten digits (US Postal Service)",
            n_train=4500,
            source=fetch.OpenML(41082),
        ),
        Entry(
            "mnist",
            (70000, 784),
            "classification",
            "Handwritten digits (MNIST)",
            n_train=50000,
            source=fetch.OpenML(554),
        ),
        Entry(
            "cifar100",
            (60000, 3072),
            "classification",
            "Small photographs in 100 classes",
            subset=(5000, 3072),
            sample=50,
            source=fetch.OpenML(41983),
        ),
        Entry(
            "leukemia",
            (72, 7129),
            "classification",
            "Gene expression of leukemia patients",
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
            "Breast cancer (Wisconsin)",
            sample=280,
            standardize=True,
            embedded=datasets.load_breast_cancer,
        ),
        Entry(
            "diabetes",
            (442, 10),
            "regression",
            "Progression of diabetes",
            sample=220,
            standardize=True,
            embedded=datasets.load_diabetes,
        ),
    )
}

CATALOGUE = PAPER | EMBEDDED


def available(data_dir: Path | None) -> list[str]:
    """Return the names of the datasets that were found, embedded ones last."""
    return [name for name in CATALOGUE if _find(CATALOGUE[name], data_dir) is not None]


def where(name: str, data_dir: Path | None) -> str | None:
    """Return the place of a dataset, or None if it was not found."""
    found = _find(CATALOGUE[name], data_dir)
    return str(found) if isinstance(found, Path) else "in scikit-learn" if found else None


@lru_cache(maxsize=32)
def signature(name: str, data_dir: Path | None) -> str:
    """Return a string that changes with the content of a dataset."""
    found = _find(CATALOGUE[name], data_dir)
    if isinstance(found, Path):
        return hashlib.sha256(found.read_bytes()).hexdigest()[:16]
    return f"scikit-learn {sklearn.__version__}"


def load(name: str, data_dir: Path | None = None) -> Dataset:
    """Return a dataset, scaled as the authors did."""
    (name,) = check_names([name], CATALOGUE, "dataset")
    entry = CATALOGUE[name]
    found = _find(entry, data_dir)
    if found is None:
        way = f"put {name}.npz into a folder and give the folder as --data-dir"
        if entry.source is not None:
            way = f"run 'quadfeat data fetch {name}', or {way}"
        raise StudyError(f"dataset '{name}' was not found. {way[0].upper()}{way[1:]}.")
    if isinstance(found, Path):
        X, y = read_archive(found)
    else:
        X, y = found(return_X_y=True)
        X = np.asarray(X, dtype=np.float64)
    _check_target(name, y, entry.task)
    as_published = X.shape == entry.shape or X.shape == entry.subset
    if entry.standardize:
        # By rounding, a constant column may have a standard deviation above 0.
        varying = np.ptp(X, axis=0) > 0
        X = (X - X.mean(axis=0)) / np.where(varying, X.std(axis=0), 1.0)
    n_train = min(entry.n_train or len(X), len(X))
    largest = X[:n_train].max()
    if largest <= 0:
        raise StudyError(f"dataset '{name}': X has no positive entry to scale by.")
    sample = min(entry.sample, n_train)
    return Dataset(name, X / largest, y, entry.task, n_train, sample, as_published)


def _check_target(name: str, y: Array, task: Task) -> None:
    """Reject targets that no model can learn."""
    if task == "regression":
        if y.dtype.kind not in "fiub" or not np.isfinite(y.astype(np.float64)).all():
            raise StudyError(f"dataset '{name}': y must be finite numbers for regression.")
        if (y == y[0]).all():
            raise StudyError(
                f"dataset '{name}': y is constant ({y[0]}), so there is nothing to learn."
            )
        return
    counts = np.unique(y.astype(str), return_counts=True)[1]
    if len(counts) < 2 or len(counts) > len(y) / 2:
        raise StudyError(
            f"dataset '{name}': y has {len(counts)} class(es) in {len(y)} rows. Classification "
            "needs at least two classes, with two rows each on average."
        )


def read_archive(path: Path) -> tuple[Float64Array, Array]:
    """Return ``X`` and ``y`` of an archive; raise an error that names its problem."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise StudyError(f"{path} is not an archive. Save X and y with numpy.savez.")
            missing = [name for name in ("X", "y") if name not in archive]
            if missing:
                raise StudyError(
                    f"{path} has no array '{missing[0]}'. Save X and y with numpy.savez."
                )
            X, y = archive["X"], archive["y"]
    except StudyError:  # also a ValueError, but its message is complete
        raise
    except (OSError, zipfile.BadZipFile, ValueError, EOFError) as error:
        raise StudyError(f"cannot read {path}: {error}") from error
    if X.ndim != 2 or X.shape[1] == 0 or X.dtype.kind not in "fiub":
        raise StudyError(
            f"{path}: X must be a matrix of numbers, but has shape {X.shape} and dtype {X.dtype}."
        )
    if y.shape != (len(X),):
        raise StudyError(f"{path}: y has shape {y.shape}, but X has {len(X)} rows.")
    if len(X) < 2:
        raise StudyError(f"{path} has {len(X)} row(s). A study needs at least two.")
    X = X.astype(np.float64)
    if not np.isfinite(X).all():
        raise StudyError(f"{path}: X has NaN or infinite entries. Impute them or drop their rows.")
    return X, y


def _find(entry: Entry, data_dir: Path | None) -> Path | Callable[..., Any] | None:
    """Return the file of a dataset, or the function of scikit-learn that loads it, or None."""
    for folder in _folders(data_dir):
        path = folder / f"{entry.name}.npz"
        if path.is_file():
            return path
    return entry.embedded


def places(data_dir: Path | None) -> list[str]:
    """Return the names of the places that are searched for datasets."""
    return [*map(str, _folders(data_dir)), "scikit-learn"]


def _folders(data_dir: Path | None) -> list[Path]:
    return [folder for folder in (data_dir, fetch.cache_folder()) if folder is not None]


def default_data_dir() -> Path | None:
    """Return the folder in ``QUADFEAT_DATA``, or None if it is not set."""
    folder = os.environ.get("QUADFEAT_DATA")
    return Path(folder) if folder else None
