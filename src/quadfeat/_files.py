"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# May be read and written as far as the user's umask allows.
USUAL = 0o666
# For who owns them only, since they hold data.
PRIVATE = 0o600


@contextmanager
def atomic_write(path: Path, mode: int = USUAL) -> Iterator[Any]:
    """Open a file that takes its name only when all is written, to the disk."""
    path = Path(os.path.realpath(path))  # what a link refers to is replaced, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
