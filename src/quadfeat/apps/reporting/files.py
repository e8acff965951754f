"""Write the files of reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from quadfeat.apps.reporting.errors import CommandError
from quadfeat.io.files import atomic_write

PROBE_BYTES = 1 << 20  # more than the files of a usual report take together


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}.") from error


def make_folder(folder: Path) -> list[Path]:
    """Create a folder and its parents; return the new ones, the deepest first."""
    if "\0" in str(folder):
        raise CommandError(
            f"cannot write to {str(folder)!r}: a path cannot hold a NUL character; remove it."
        )
    try:
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write to {folder}: {error.strerror or error}.") from error
    return new


def remove_folders(folders: Iterable[Path]) -> None:
    """Remove folders that are still empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # it holds something by now, or someone else has removed it
            return


def check_writable(folder: Path, names: Iterable[str]) -> None:
    """Try to write files before time is spent on their content.

    Writes a hidden file of the size of a report and removes it.
    """
    paths = [Path(os.path.realpath(folder / name)) for name in names]
    for path in paths:
        if path.is_dir():
            raise CommandError(f"cannot write {path}: it is a folder. Give another --out.")
    for parent in dict.fromkeys(path.parent for path in paths):  # several, if there are links
        try:
            with tempfile.NamedTemporaryFile(dir=parent, prefix=".") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or error
            raise CommandError(
                f"cannot write to {parent}: {reason}. Give another --out."
            ) from error


def write_all(folder: Path, files: Mapping[str, Callable[[], bytes]]) -> list[str]:
    """Write files, each one even if others fail, and return the problems.

    Parameters
    ----------
    folder : Path
        Where they go.
    files : mapping of str to callable
        Functions that return the content of a file, by its name; each is called once.

    Returns
    -------
    problems : list of str
        A sentence for each file that failed. Content that the folder does not take is saved in a
        new temporary folder, which the last sentence names.
    """
    problems: list[str] = []
    unsaved: dict[str, bytes] = {}
    for name, make in files.items():
        try:
            content = make()
        except Exception as error:  # whatever it is, the other files are worth having
            problems.append(f"cannot make {folder / name}: {type(error).__name__}: {error}.")
            continue
        try:
            write_whole(folder / name, content)
        except CommandError as error:
            problems.append(str(error))
            unsaved[name] = content
    if unsaved:
        problems.append(_rescue(unsaved))
    return problems


def _rescue(files: Mapping[str, bytes]) -> str:
    """Save files in a temporary folder and return a sentence about it."""
    names = ", ".join(files)
    try:
        folder = Path(tempfile.mkdtemp(prefix="quadfeat-"))
        for name, content in files.items():
            write_whole(folder / name, content)
    except (OSError, CommandError) as error:
        return f"The temporary folder does not take {names} either: {error}"
    return f"Saved in {folder} instead: {names}."
