"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quadfeat.reporting.errors import CommandError


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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}.") from error
