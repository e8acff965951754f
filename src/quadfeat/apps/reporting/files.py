"""Write the files of reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from quadfeat.apps.reporting.errors import CommandError
from quadfeat.io.files import atomic_write

PROBE_BYTES = 1 << 20  # more than all files of a typical report


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}.") from error


def make_folder(folder: Path) -> list[Path]:
    """Create a folder and its parents. Return the new ones, the deepest first."""
    if "\0" in str(folder):
        raise CommandError(
            f"cannot write to {str(folder)!r}. Remove the NUL character from the path."
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
        except OSError:  # it is no longer empty, or no longer there
            return


def check_writable(folder: Path, names: Iterable[str]) -> None:
    """Check that files can be written before spending time on their content.

    Write a hidden file of the size of a report and remove it.
    """
    paths = [Path(os.path.realpath(folder / name)) for name in names]
    for path in paths:
        if path.is_dir():
            raise CommandError(f"cannot write {path}: it is a folder. Choose another --out.")
    for parent in dict.fromkeys(path.parent for path in paths):  # more than one if there are links
        try:
            with tempfile.NamedTemporaryFile(dir=parent, prefix=".") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            reason = error.strerror or error
            raise CommandError(
                f"cannot write to {parent}: {reason}. Choose another --out."
            ) from error


def write_all(folder: Path, files: Mapping[str, Callable[[], bytes]]) -> list[str]:
    """Write all files, even if some fail, and return the problems.

    Parameters
    ----------
    folder : Path
    files : mapping of str to callable
        Names of files, and functions that return their content. Each is called once.

    Returns
    -------
    problems : list of str
        A sentence for each file that failed. Content that cannot be written to the folder is saved
        in a new temporary folder, which the last sentence names.
    """
    problems: list[str] = []
    unsaved: dict[str, bytes] = {}
    for name, make in files.items():
        try:
            content = make()
        except Exception as error:  # the other files are still useful
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
    """Save files in a temporary folder and return a sentence that names it."""
    names = ", ".join(files)
    try:
        folder = Path(tempfile.mkdtemp(prefix="quadfeat-"))
        for name, content in files.items():
            write_whole(folder / name, content)
    except (OSError, CommandError) as error:
        return f"Saving {names} in a temporary folder failed, too: {error}"
    return f"Saved in {folder} instead: {names}."
