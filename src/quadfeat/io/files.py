"""Write files atomically: completely or not at all."""

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

# The default permissions, which the user's umask restricts.
USUAL = 0o666
# Only the owner may read files with training rows.
PRIVATE = 0o600


@contextmanager
def atomic_write(path: Path, mode: int = USUAL) -> Iterator[Any]:
    """Open a draft of a file, which replaces the file once all data is on the disk.

    Missing folders are created.
    """
    path = Path(os.path.realpath(path))  # replace the target of a link, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_orphans(path)
    draft, handle = _new_draft(path, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # rename the draft while it is locked
                os.replace(draft, path)
        if sys.platform == "win32":  # Windows cannot rename an open file
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
            # Another writer may have removed the draft as an orphan before it was locked.
            if draft.exists():
                return draft, handle
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        os.close(handle)


def remove_orphans(path: Path) -> None:
    """Remove drafts of a file that killed processes have left behind.

    A running writer holds a lock on its draft; the system releases the lock when the process ends.
    On Windows, and on file systems without locks, drafts stay.
    """
    if sys.platform == "win32":
        return
    path = Path(os.path.realpath(path))
    # Compare names without glob, since the name of the file may contain wildcards.
    start, end = f".{path.name}.", ".draft"
    with suppress(OSError):  # an unreadable folder will raise an error on writing
        for entry in os.scandir(path.parent):
            token = entry.name[len(start) : -len(end)]
            if entry.name == f"{start}{token}{end}" and len(token) == 16:
                _remove_if_orphaned(entry.path)


def _remove_if_orphaned(draft: str) -> None:
    if sys.platform == "win32":
        return
    with suppress(OSError):  # the writer is running or done, or the file system has no locks
        handle = os.open(draft, os.O_WRONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(draft)
        finally:
            os.close(handle)
