r"""Zip archives of arrays, with a format number and a checksum.

An archive holds ``model.json``, a tree of plain values (:mod:`quadfeat.io.encoding`), and one
``.npy`` file for each array in the tree. Any zip program and ``numpy.load`` can read them. The
comment at the end of the archive has the format, the version of quadfeat that wrote it and the
SHA-256 of all bytes before it, so that a corrupt file is rejected before it is read. Members are
not compressed, so none can be larger than the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from quadfeat._utils.validation import Array
from quadfeat._utils.version import __version__
from quadfeat.io.encoding import names_of_arrays
from quadfeat.io.migrations import FORMAT

TREE = "model.json"
# Limits for the bytes of the tree, and for its lists and objects. The names, parameters and
# candidates of wide tables take far less.
LARGEST_TREE = 2**24
MOST_CONTAINERS = 2**18
DIGEST_LENGTH = 64
COMMENT = re.compile(
    rb"quadfeat (model|checkpoint), format (\d{1,9}), version (\S{1,64}), "
    rb"sha256 ([0-9a-f]{64})\Z"
)
LONGEST_COMMENT = 256

# The header of an array of numbers, flags or strings in the .npy format.
ARRAY_HEADER = re.compile(
    rb"\{'descr': '([<>|][biufSU]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \((|\d{1,18},|\d{1,18}(?:, \d{1,18})+)\),? ?\} *\n"
)

# Bytes that are hashed at once.
CHUNK = 2**20

# The first byte of a pickle. Checkpoints of quadfeat 0.1.0 were pickles.
PICKLE = b"\x80"

# A member of an archive consists of a header, its name, an extra field, its bytes, and a descriptor
# if the flag HAS_DESCRIPTOR is set. The header has the lengths of the name and of the extra field.
# The descriptor is longer if the extra field contains 64-bit sizes.
HEADER = struct.Struct("<4s2xH18x2H")
SIGNATURE = b"PK\x03\x04"
HAS_DESCRIPTOR = 0x08
OF_64_BITS = b"\x01\x00"
SIZE_FIELD = 20
DESCRIPTOR = {True: 24, False: 16}


class NotRead(Exception):
    """Raised if a file is rejected; the message is the reason."""


def write_archive(file: IO[bytes], tree: Any, arrays: dict[str, Array], kind: str) -> None:
    """Write a tree and its arrays; ``kind`` is ``"model"`` or ``"checkpoint"``."""
    digesting = _Digesting(file)
    archive = zipfile.ZipFile(digesting, "w", zipfile.ZIP_STORED)  # type: ignore[call-overload]
    try:
        archive.writestr(_member(TREE), json.dumps(tree, allow_nan=False, indent=1))
        for name, array in arrays.items():
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        archive.comment = (
            f"quadfeat {kind}, format {FORMAT}, version {__version__}, sha256 "
        ).encode() + b"0" * DIGEST_LENGTH
        archive.close()
    except BaseException:
        archive.fp = None  # closing an unfinished archive would raise an error that hides this one
        raise
    digesting.finish()


@contextmanager
def opened_archive(file: IO[bytes]) -> Iterator[tuple[Any, Callable[[str], Array]]]:
    """Yield the tree of a checked file, and a function that reads an array by its name."""
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("a member is compressed")
        _check_layout(file, archive)
        if archive.getinfo(TREE).file_size > LARGEST_TREE:
            raise ValueError(f"{TREE} has more than {LARGEST_TREE} bytes")
        text = archive.read(TREE)
        if text.count(b"[") + text.count(b"{") > MOST_CONTAINERS:
            raise ValueError(f"{TREE} has more than {MOST_CONTAINERS} lists and objects")
        tree = json.loads(text)
        known = {TREE, *(f"{name}.npy" for name in names_of_arrays(tree))}
        if sorted(known) != sorted(archive.namelist()):
            raise ValueError(f"its members are not those listed in {TREE}")
        yield tree, lambda name: read_array(archive, f"{name}.npy", size)


def check_whole(file: IO[bytes], kind: str, readable: Collection[int]) -> int:
    """Return the format of a file; raise NotRead if it is unknown or the file is corrupt."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LONGEST_COMMENT))
    found = COMMENT.search(file.read())
    file.seek(0)
    start = file.read(len(SIGNATURE))
    if found is None:
        if size == 0:
            raise NotRead("it is empty")
        if start.startswith(PICKLE) and kind == "checkpoint":
            raise NotRead(
                "it is a pickle, such as the checkpoints of quadfeat 0.1.0, and loading a pickle "
                "can run code"
            )
        if start != SIGNATURE:
            raise NotRead("it was not written by quadfeat")
        raise NotRead("it was not written by quadfeat, or it is incomplete")
    found_kind, found_format = found[1].decode(), int(found[2])
    version = found[3].decode(errors="replace")
    if found_kind != kind:
        raise NotRead(f"it is a {found_kind}, not a {kind}")
    digest, left = hashlib.sha256(), size - DIGEST_LENGTH
    file.seek(0)
    while chunk := file.read(min(CHUNK, left)):
        digest.update(chunk)
        left -= len(chunk)
    if digest.hexdigest().encode() != found[4]:
        way_out = ". Copy it again from its source" if kind == "model" else ""
        raise NotRead(f"its checksum does not match, so the file is corrupt{way_out}")
    if found_format not in readable:
        raise NotRead(
            f"quadfeat {version} wrote it in format {found_format}, but quadfeat {__version__} "
            f"reads format {FORMAT}. Install quadfeat>={version}"
        )
    return found_format


class _Digesting:
    """A file that replaces its last bytes by the digest of all bytes before them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._last = b""

    def write(self, data: Any) -> int:
        """Write data, but hold back the bytes that may be the last ones."""
        data = bytes(data)
        together = self._last + data
        ready, self._last = together[:-DIGEST_LENGTH], together[-DIGEST_LENGTH:]
        self._digest.update(ready)
        self._file.write(ready)
        return len(data)

    def flush(self) -> None:
        """Do nothing: the last bytes are held back until :meth:`finish`."""

    def finish(self) -> None:
        """Write the digest instead of the last bytes."""
        self._file.write(self._digest.hexdigest().encode())


def _member(name: str) -> zipfile.ZipInfo:
    """Return a member of an archive with a fixed date, so that equal models give equal files."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _check_layout(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Raise an error if there are bytes before, between or after the members.

    Zip programs skip such bytes, which could hide a file of another kind.
    """
    place = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        if member.header_offset != place:
            raise ValueError(f"there are unexpected bytes before {member.filename}")
        file.seek(place)
        signature, flags, name, extra = HEADER.unpack(file.read(HEADER.size))
        if signature != SIGNATURE:
            raise ValueError(f"{member.filename} has no header")
        fields = file.read(name + extra)[name:]
        if member.comment or (fields and not _is_size_field(fields)):
            raise ValueError(f"{member.filename} has a comment or an unknown field")
        place += HEADER.size + name + extra + member.file_size
        if flags & HAS_DESCRIPTOR:
            place += DESCRIPTOR[fields.startswith(OF_64_BITS)]
    if archive.start_dir != place:
        raise ValueError("there are unexpected bytes after the last member")


def _is_size_field(fields: bytes) -> bool:
    """Return whether an extra field contains 64-bit sizes and nothing else."""
    return fields.startswith(OF_64_BITS) and len(fields) == SIZE_FIELD


def read_header(member: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of an array in version 1.0 of the .npy format.

    NumPy parses the header as a Python expression, which sometimes fails in threads of Python 3.11
    before 3.11.8.
    """
    length = int.from_bytes(member.read(2), "little")
    found = ARRAY_HEADER.fullmatch(member.read(length))
    if found is None:
        raise ValueError(f"{name} has a header that quadfeat does not write")
    descr, order, shape = (group.decode() for group in found.groups())
    return tuple(map(int, shape.replace(",", " ").split())), order == "True", np.dtype(descr)


def read_array(archive: zipfile.ZipFile, name: str, size: int) -> Array:
    """Return an array; check its shape against the size of its member before allocating it."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ValueError(f"{name} is in version {version} of the .npy format")
        shape, fortran_order, dtype = read_header(member, name)
        n_bytes = archive.getinfo(name).file_size - member.tell()
        # With an itemsize of zero, a small file could claim a shape of any size.
        if dtype.hasobject or dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize != n_bytes:
            raise ValueError(f"the size of {name} does not match its shape")
        if max(shape, default=0) > size:
            raise ValueError(f"{name} has shape {shape}, larger than the file")
        content = member.read()  # zipfile checks its CRC
        order: Any = "F" if fortran_order else "C"
        array: Array = np.ndarray(shape, dtype, buffer=content, order=order)
        # Copy it to writable memory, in the byte order of this machine.
        return array.astype(dtype.newbyteorder("="), order="K")
