"""Files that are written as a whole or not at all."""

from __future__ import annotations

import importlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

fcntl: Any = None
if os.name == "posix":  # elsewhere a file that is open cannot be removed anyway
    fcntl = importlib.import_module("fcntl")

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
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(handle, "wb") as file:
            _try_lock(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def remove_orphans(path: Path) -> None:
    """Remove the drafts of a file that killed processes have left behind.

    A process that is alive holds a lock on its draft; the system releases it with the process.
    """
    path = Path(os.path.realpath(path))
    # Not by a pattern: the name of the file may contain its special characters.
    start, end = f".{path.name}.", ".draft"
    with suppress(OSError):  # a folder that cannot be listed will fail where that matters
        for entry in os.scandir(path.parent):
            token = entry.name[len(start) : -len(end)]
            if entry.name == f"{start}{token}{end}" and len(token) == 16:
                _remove_if_orphaned(entry.path)


def _remove_if_orphaned(draft: str) -> None:
    with suppress(OSError):
        if fcntl is None:
            os.unlink(draft)
            return
        with open(draft, "rb") as file:
            if _try_lock(file.fileno()):
                os.unlink(draft)


def _try_lock(handle: int) -> bool:
    """Lock an open file; return whether that was possible."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the file system has no locks
        return False
    return True
