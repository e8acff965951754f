"""Files of reports."""

from __future__ import annotations

from pathlib import Path

from quadfeat._files import atomic_write
from quadfeat.reporting.errors import CommandError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all."""
    try:
        with atomic_write(path) as file:
            file.write(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}.") from error
