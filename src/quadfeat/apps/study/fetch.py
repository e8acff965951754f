"""Download the paper's datasets, once and completely.

pooch downloads to a temporary file and renames it once its checksum is right. This module adds:

- A cached file whose checksum has changed is an error. pooch would replace it silently.
- Without a network, errors name the file to provide by hand.
- Archives are unpacked in memory. pooch's processors write files beside the cached ones.
- ``cache_folder`` is in ``~/.cache`` on every platform, as in earlier versions.
"""

from __future__ import annotations

import bz2
import io
import logging
import os
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Protocol

import numpy as np
from sklearn.datasets import fetch_openml, load_svmlight_files

from quadfeat._utils.validation import Array
from quadfeat.apps.reporting.errors import one_line_of
from quadfeat.apps.study.errors import StudyError
from quadfeat.io.files import atomic_write

CHUNK = 1 << 16
TIMEOUT = 60.0  # seconds without data


class Progress(Protocol):
    """A progress bar with the methods that pooch calls."""

    total: int

    def update(self, n: int) -> object:
        """Advance by ``n`` bytes."""

    def reset(self) -> object:
        """Go back to the start."""

    def close(self) -> object:
        """Finish."""


class Source(Protocol):
    """The origin of a dataset."""

    def get(self, folder: Path, progress: Progress | None) -> tuple[Array, Array]:
        """Return rows and targets, and keep downloaded files in ``folder``."""

    def describe(self) -> str:
        """Return the address."""

    def forget(self, folder: Path) -> None:
        """Delete the downloaded files, because they are not the dataset."""


def cache_folder() -> Path:
    """Return the folder of downloaded datasets: ``QUADFEAT_CACHE`` or the user's cache."""
    folder = os.environ.get("QUADFEAT_CACHE")
    if folder:
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "quadfeat"


@dataclass(frozen=True)
class OpenML:
    """A dataset of openml.org, downloaded by scikit-learn, which compares checksums."""

    data_id: int

    def get(self, folder: Path, progress: Progress | None) -> tuple[Array, Array]:
        """Return rows and targets."""
        bunch = fetch_openml(data_id=self.data_id, data_home=str(folder), as_frame=False)
        return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)

    def describe(self) -> str:
        """Return the address."""
        return f"https://www.openml.org/d/{self.data_id}"

    def forget(self, folder: Path) -> None:
        """Delete the downloaded files."""
        shutil.rmtree(folder / "openml", ignore_errors=True)


@dataclass(frozen=True)
class Files:
    """Files on a server, and a function that turns their contents into arrays.

    Attributes
    ----------
    sha256 : tuple of str
        A digest for each file, if they are published. Otherwise the digest of the first download
        is kept beside the file, so that later changes are found.
    """

    urls: tuple[str, ...]
    parse: Callable[[list[bytes]], tuple[Array, Array]]
    sha256: tuple[str, ...] = ()

    def get(self, folder: Path, progress: Progress | None) -> tuple[Array, Array]:
        """Return rows and targets."""
        contents = []
        for k, url in enumerate(self.urls):
            path = folder / url.rpartition("/")[2]
            expected = self.sha256[k] if self.sha256 else None
            if path.exists():
                check_digest(path, expected)
            else:
                download(url, path, expected, progress)
            contents.append(path.read_bytes())
        return self.parse(contents)

    def describe(self) -> str:
        """Return the addresses."""
        return ", ".join(self.urls)

    def forget(self, folder: Path) -> None:
        """Delete the downloaded files."""
        for url in self.urls:
            path = folder / url.rpartition("/")[2]
            path.unlink(missing_ok=True)
            _digest_path(path).unlink(missing_ok=True)


def fetch(
    name: str, source: Source, shape: tuple[int, int], progress: Progress | None = None
) -> Path:
    """Download a dataset into the cache, unless it is there, and return its archive."""
    folder = cache_folder()
    archive = folder / f"{name}.npz"
    if archive.exists():
        return archive
    by_hand = f"put {name}.npz with arrays X and y into {folder}."
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"cannot write to {folder} ({error}). Set QUADFEAT_CACHE.") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn warns when it retries
            X, y = source.get(folder, progress)
    except StudyError:
        raise
    except (OSError, HTTPException) as error:
        raise StudyError(
            f"cannot download '{name}' from {source.describe()} ({one_line_of(error)}). If you are "
            f"offline, {by_hand}"
        ) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        source.forget(folder)
        raise StudyError(
            f"{source.describe()} did not send '{name}' ({error}). Try again, or {by_hand}"
        ) from error
    if X.shape != shape or len(y) != len(X):
        source.forget(folder)
        raise StudyError(
            f"{source.describe()} sent '{name}' with shape {X.shape}, not {shape}. Instead, "
            + by_hand
        )
    with atomic_write(archive) as file:
        np.savez_compressed(file, X=X, y=y)
    return archive


def download(url: str, path: Path, sha256: str | None, progress: Progress | None) -> None:
    """Download a file. It appears only if it is complete and has the expected checksum."""
    import pooch  # imported here because most commands download nothing

    pooch.get_logger().setLevel(logging.WARNING)  # the progress bar is enough
    downloader = pooch.HTTPDownloader(
        progressbar=progress or False,
        chunk_size=CHUNK,
        timeout=TIMEOUT,
        headers={"Accept-Encoding": "identity"},  # the published bytes, not recompressed
    )
    try:
        pooch.retrieve(url, sha256, fname=path.name, path=path.parent, downloader=downloader)
    except OSError as error:  # first, because some errors of requests are also ValueErrors
        raise OSError(one_line_of(_first_cause(error))) from error
    except ValueError as error:
        raise StudyError(
            f"{url} has an unexpected checksum, so nothing was kept: {error}"
        ) from error
    with atomic_write(_digest_path(path)) as file:
        file.write(pooch.file_hash(str(path)).encode())


def _first_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain; requests wraps "connection refused" three times."""
    while before := error.__cause__ or error.__context__:
        error = before
    return error


def check_digest(path: Path, sha256: str | None) -> None:
    """Reject a file that has changed since its download, or differs from the published one."""
    import pooch

    found = pooch.file_hash(str(path))
    kept = _digest_path(path)
    expected = sha256 or (kept.read_text() if kept.exists() else found)
    if found != expected:
        raise StudyError(
            f"checksum mismatch: {path} has {found}, not {expected}. Delete it and fetch it again."
        )


def _digest_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def power_plant(contents: list[bytes]) -> tuple[Array, Array]:
    """Return the first sheet of the workbook with the power plant's data."""
    import pandas as pd

    with zipfile.ZipFile(io.BytesIO(contents[0])) as archive:
        members = [name for name in archive.namelist() if name.endswith("Folds5x2_pp.xlsx")]
        if len(members) != 1:
            raise ValueError("the archive has no workbook Folds5x2_pp.xlsx")
        table = pd.read_excel(io.BytesIO(archive.read(members[0]))).to_numpy(dtype=np.float64)
    return table[:, :-1], table[:, -1]


def svmlight(contents: list[bytes], n_features: int) -> tuple[Array, Array]:
    """Return the rows of compressed LIBSVM files, one file after the other."""
    try:
        files = [io.BytesIO(bz2.decompress(content)) for content in contents]
    except OSError as error:  # elsewhere, an OSError means a failure of network or disk
        raise ValueError(f"not compressed by bzip2: {error}") from error
    parts = load_svmlight_files(files, n_features=n_features)
    X = np.vstack([part.toarray() for part in parts[0::2]])
    return X, np.concatenate(parts[1::2])
