"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import re
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
# For who owns them only, since they hold data.
PRIVATE = 0o600

# Random bytes in the name of a draft.
TOKEN = 8


@contextmanager
def atomic_write(path: Path, mode: int = USUAL) -> Iterator[Any]:
    """Open a file that takes its name only when all is written, to the disk.

    A process that is killed in the meantime leaves a draft behind. The next one that writes the
    same file removes it.
    """
    path = Path(os.path.realpath(path))  # what a link refers to is replaced, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_drafts(path)
    draft, handle = _new_draft(path, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # while the lock tells others to keep off
                os.replace(draft, path)
        if sys.platform == "win32":  # which cannot rename an open file
            os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def remove_drafts(path: Path) -> None:
    """Remove the drafts of a file that processes left behind when they were killed.

    The drafts of writers that are alive are locked, and stay. Windows has no such locks, and file
    systems without them cannot tell either: there all drafts stay.
    """
    if sys.platform == "win32":
        return
    path = Path(os.path.realpath(path))
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{{2 * TOKEN}}}")
    try:
        drafts = [
            path.with_name(found) for found in os.listdir(path.parent) if name.fullmatch(found)
        ]
    except OSError:  # a folder that does not exist, or may be written to but not listed
        return
    for draft in drafts:
        with suppress(OSError):  # another process was faster, a writer is alive, or no locks
            handle = os.open(draft, os.O_WRONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                draft.unlink()
            finally:
                os.close(handle)


def _new_draft(path: Path, mode: int) -> tuple[Path, int]:
    """Create a draft of a file and lock it; return its path and its open handle."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(TOKEN)}")
        handle = os.open(draft, flags, mode)
        if sys.platform == "win32":
            return draft, handle
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            # Another process may have taken it for one that was left behind before it was locked.
            if draft.exists():
                return draft, handle
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        os.close(handle)
