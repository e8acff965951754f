"""Get the paper's data sets from where they are published, once, whole and unchanged."""

from __future__ import annotations

import bz2
import hashlib
import io
import os
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.datasets import fetch_openml, load_svmlight_files

from quadfeat._validation import Array
from quadfeat.study.errors import StudyError

CHUNK = 1 << 16
TIMEOUT = 60.0  # seconds without a byte

# Called with the bytes that have come and those there are, if known.
Progress = Callable[[int, int | None], None]


class Source(Protocol):
    """Where a data set comes from."""

    def get(self, folder: Path, progress: Progress) -> tuple[Array, Array]:
        """Return rows and targets, keeping what is downloaded in ``folder``."""

    def describe(self) -> str:
        """Return the address."""


def cache_folder() -> Path:
    """Return where fetched data sets are kept: ``QUADFEAT_CACHE``, or the user's cache folder."""
    folder = os.environ.get("QUADFEAT_CACHE")
    if folder:
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "quadfeat"


@dataclass(frozen=True)
class OpenML:
    """A data set of openml.org, through scikit-learn, which compares the checksums it is given."""

    data_id: int

    def get(self, folder: Path, progress: Progress) -> tuple[Array, Array]:
        """Return rows and targets."""
        bunch = fetch_openml(data_id=self.data_id, data_home=str(folder), as_frame=False)
        return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)

    def describe(self) -> str:
        """Return the address."""
        return f"https://www.openml.org/d/{self.data_id}"


@dataclass(frozen=True)
class Files:
    """Files on a server, and what makes arrays of their contents.

    Attributes
    ----------
    sha256 : tuple of str
        One for each file, where they are known. The digest of a file that was fetched is kept
        beside it, so that a change is seen either way.
    """

    urls: tuple[str, ...]
    parse: Callable[[list[bytes]], tuple[Array, Array]]
    sha256: tuple[str, ...] = ()

    def get(self, folder: Path, progress: Progress) -> tuple[Array, Array]:
        """Return rows and targets."""
        contents = []
        for k, url in enumerate(self.urls):
            path = folder / url.rpartition("/")[2]
            expected = self.sha256[k] if self.sha256 else None
            if not path.exists():
                download(url, path, expected, progress)
            contents.append(path.read_bytes())
            check_digest(path, contents[-1], expected)
        return self.parse(contents)

    def describe(self) -> str:
        """Return the addresses."""
        return ", ".join(self.urls)


def fetch(
    name: str, source: Source, shape: tuple[int, int], progress: Progress = lambda done, all_: None
) -> Path:
    """Fetch a data set into the cache, unless it is there, and return its archive."""
    folder = cache_folder()
    archive = folder / f"{name}.npz"
    if archive.exists():
        return archive
    try:
        folder.mkdir(parents=True, exist_ok=True)
        X, y = source.get(folder, progress)
        if X.shape != shape or len(y) != len(X):
            raise StudyError(
                f"what {source.describe()} sent for '{name}' has shape {X.shape}, not {shape}: "
                f"put the data set as {name}.npz (arrays X and y) into {folder}."
            )
        with atomic_write(archive) as file:
            np.savez_compressed(file, X=X, y=y)
    except (OSError, zipfile.BadZipFile) as error:
        raise StudyError(
            f"cannot fetch '{name}' from {source.describe()} ({error}): are you offline? Put the "
            f"data set as {name}.npz (arrays X and y) into {folder}."
        ) from error
    return archive


def download(url: str, path: Path, sha256: str | None, progress: Progress) -> None:
    """Write what a URL gives to a file, which appears only when it is whole and as expected."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response, atomic_write(path) as file:
        length = response.headers.get("Content-Length")
        expected = int(length) if length else None
        done = 0
        while chunk := response.read(CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(done, expected)
        if expected is not None and done != expected:
            raise OSError(f"the transfer broke off after {done} of {expected} bytes")
        if sha256 is not None and digest.hexdigest() != sha256:
            raise StudyError(
                f"{url} has the checksum {digest.hexdigest()}, not {sha256}: it is not the file "
                "that is known; nothing was kept."
            )
    with atomic_write(_digest_path(path)) as file:
        file.write(digest.hexdigest().encode())


def check_digest(path: Path, content: bytes, sha256: str | None) -> None:
    """Refuse a file that is not what was fetched, or not what is known."""
    found = hashlib.sha256(content).hexdigest()
    kept = _digest_path(path)
    expected = sha256 or (kept.read_text() if kept.exists() else found)
    if found != expected:
        raise StudyError(
            f"{path} has the checksum {found}, not {expected}: delete it and fetch it again."
        )


def _digest_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


@contextmanager
def atomic_write(path: Path) -> Iterator[Any]:
    """Open a file that takes its name only when all is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def power_plant(contents: list[bytes]) -> tuple[Array, Array]:
    """Return the first sheet of the power plant's workbook."""
    import pandas as pd

    with zipfile.ZipFile(io.BytesIO(contents[0])) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("Folds5x2_pp.xlsx"))
        table = pd.read_excel(io.BytesIO(archive.read(member))).to_numpy(dtype=np.float64)
    return table[:, :-1], table[:, -1]


def svmlight(contents: list[bytes], n_features: int) -> tuple[Array, Array]:
    """Return the rows of compressed LIBSVM files, one file after the other."""
    files = [io.BytesIO(bz2.decompress(content)) for content in contents]
    parts = load_svmlight_files(files, n_features=n_features)
    X = np.vstack([part.toarray() for part in parts[0::2]])
    return X, np.concatenate(parts[1::2])


__all__ = ["Files", "OpenML", "Source", "atomic_write", "cache_folder", "fetch", "power_plant"]
