"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

if sys.platform != "win32":
    import fcntl

# May be read and written as far as the user's umask allows.
USUAL = 0o666
# Only the owner may read files that hold data.
PRIVATE = 0o600


@contextmanager
def atomic_write(path: Path, mode: int = USUAL) -> Iterator[Any]:
    """Open a file that takes its name only when all is written, to the disk."""
    path = Path(os.path.realpath(path))  # what a link refers to is replaced, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_orphans(path)
    draft, handle = _new_draft(path, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # as long as the draft is locked
                os.replace(draft, path)
        if sys.platform == "win32":  # which cannot rename a file that is open
            os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _new_draft(path: Path, mode: int) -> tuple[Path, int]:
    """Create a draft of a file and lock it; return its path and its open handle."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
        handle = os.open(draft, flags, mode)
        if sys.platform == "win32":
            return draft, handle
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            # Before it was locked, another writer may have taken it for an orphan.
            if draft.exists():
                return draft, handle
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        os.close(handle)


def remove_orphans(path: Path) -> None:
    """Remove the drafts of a file that killed processes have left behind.

    A writer that is alive holds a lock on its draft; the system releases it with the process. File
    systems without locks, and Windows, cannot tell the two apart: there drafts stay.
    """
    if sys.platform == "win32":
        return
    path = Path(os.path.realpath(path))
    # Not by a pattern: the name of the file may contain its special characters.
    start, end = f".{path.name}.", ".draft"
    with suppress(OSError):  # a folder that cannot be listed will fail where that matters
        for entry in os.scandir(path.parent):
            token = entry.name[len(start) : -len(end)]
            if entry.name == f"{start}{token}{end}" and len(token) == 16:
                _remove_if_orphaned(entry.path)


def _remove_if_orphaned(draft: str) -> None:
    if sys.platform == "win32":
        return
    with suppress(OSError):  # its writer is alive or has finished, or the file system has no locks
        handle = os.open(draft, os.O_WRONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(draft)
        finally:
            os.close(handle)
