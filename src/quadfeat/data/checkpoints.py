"""Checkpoints: files from which a killed fit resumes.

A checkpoint has the format of :func:`quadfeat.save`: numbers, no code, and a checksum. It stores a
hash of the rows that the fit has processed, so that a fit to other rows cannot resume from it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat.data.blocks import Block
from quadfeat.io.files import PRIVATE, remove_orphans
from quadfeat.io.persistence import read_checkpoint, write_checkpoint

# Parameters that do not change the result of a fit.
NOT_IDENTITY = ("n_jobs", "verbose", "checkpoint")

# The time between two checkpoints is at least SECONDS, and at least TIMES_AS_LONG times the time to
# write one.
SECONDS = 10.0
TIMES_AS_LONG = 20.0

# A checkpoint from the time before the first pass identifies a table by about so many of its rows,
# and a stream by so many at its beginning, which fit into a block of any usual size.
SAMPLE_ROWS = 4096
STREAM_ROWS = 64


def described(value: Any) -> str:
    """Return a string that identifies the value of a parameter in any process.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Gaussian
    >>> first, second = np.ones(60), np.ones(60)
    >>> second[30] = 2.0
    >>> described(Gaussian(first)) == described(Gaussian(second))
    False
    """
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        kept = {name: item for name, item in parameters.items() if name not in NOT_IDENTITY}
        return f"{type(value).__name__}{described(kept)}"
    if isinstance(value, np.random.Generator):
        return described(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return described(value.get_state(legacy=False))
    if isinstance(value, np.generic):
        return described(value.item())
    if isinstance(value, dict):
        items = sorted((described(key), described(item)) for key, item in value.items())
        return f"{{{', '.join(f'{key}: {item}' for key, item in items)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described, value))}]"
    if hasattr(value, "__array__") and not isinstance(value, type):
        array = np.asarray(value)
        if array.dtype.hasobject:
            return f"{array.shape}{described(array.ravel().tolist())}"
        return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    # Addresses in memory differ between processes.
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


class RowHash:
    """A hash of rows, targets and weights that depends on their order, but not on block sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.data.blocks import Block
    >>> rows = Block(np.arange(6.0).reshape(3, 2), np.arange(3.0), None)
    >>> whole, parts, other = RowHash(), RowHash(), RowHash()
    >>> whole.add(rows)
    >>> for part in (slice(0, 1), slice(1, 3)):
    ...     parts.add(rows.part(part))
    >>> other.add(rows.part(slice(None, None, -1)))
    >>> whole.digest() == parts.digest(), whole.digest() == other.digest()
    (True, False)
    """

    def __init__(self) -> None:
        # Each part has its own hash, so the result does not depend on where blocks end. A change of
        # the parts or of their dtypes is recorded with its row.
        self._parts: dict[str, Any] = {}
        self._n_rows = 0
        self._kinds: list[str] = []
        self._changes: list[str] = []

    def add(self, block: Block) -> None:
        """Add validated rows."""
        X = block.X
        if X.shape[0] == 0:
            return
        parts = {"targets": _hashable(block.y)}
        if sparse.issparse(X):
            parts["lengths"] = np.diff(X.indptr).astype(np.int64)
            parts["places"] = X.indices.astype(np.int64)
            parts["entries"] = X.data
        else:
            parts["rows"] = X
        if block.weights is not None:
            parts["weights"] = block.weights
        named = {f"{name} {v.dtype.str} {v.shape[1:]}": v for name, v in parts.items()}
        if sorted(named) != self._kinds:
            self._kinds = sorted(named)
            self._changes.append(f"{self._n_rows} {self._kinds}")
        for name, values in named.items():
            part = self._parts.setdefault(name, hashlib.blake2b(digest_size=32))
            part.update(np.ascontiguousarray(values).view(np.uint8).data)
        self._n_rows += X.shape[0]

    def digest(self) -> str:
        """Return the hash of all rows so far."""
        whole = hashlib.blake2b("\n".join(self._changes).encode(), digest_size=32)
        for name, part in sorted(self._parts.items()):
            whole.update(name.encode() + part.digest())
        return whole.hexdigest()


def sample_digest(first: Block, n_rows: int | None) -> str:
    """Return a hash of some of the rows, before any of them has been processed.

    Parameters
    ----------
    first : Block
        The rows that are known: a whole table, or the first one of a stream.
    n_rows : int or None
        Number of all rows; None for a stream.
    """
    rows = RowHash()
    if n_rows is None:
        rows.add(first.part(slice(0, STREAM_ROWS)))
    else:
        rows.add(first.part(slice(0, None, max(1, n_rows // SAMPLE_ROWS))))
    return rows.digest()


def _hashable(y: Any) -> Any:
    """Return targets as bytes that do not depend on the other targets in the block."""
    if y.dtype.kind not in "OSU":
        return y
    # The itemsize of a string dtype depends on the longest string.
    texts = [str(label).encode(errors="surrogatepass") for label in y.tolist()]
    return np.frombuffer(b"".join(b"%d:%b" % (len(text), text) for text in texts), np.uint8)


def prepare_folder(path: Any) -> None:
    """Create the folder of a checkpoint if it is missing.

    Raise an error if no file can be written there, so that a fit fails before any work.
    """
    if path is None:
        return
    file = Path(os.path.realpath(path))
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _cannot_write(Path(path), error) from error


def _cannot_write(path: Path, error: OSError) -> OSError:
    """Return the error for a checkpoint that cannot be written."""
    way_out = "Use a path in a folder that you can write to"
    if isinstance(error, IsADirectoryError):
        way_out = f"Use the path of a file, such as {str(path / 'fit.checkpoint')!r}"
    return type(error)(
        f"checkpoint={str(path)!r} cannot be written: {error.strerror or error}. {way_out}."
    )


def _difference(earlier: dict[str, Any], now: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """Return the name and the values of the first entry that differs between two fits."""
    for name, value in now.items():
        other = earlier.get(name)
        if other == value:
            continue
        if isinstance(other, dict) and isinstance(value, dict):  # name the parameter that differs
            return _difference(other, value) or (name, other, value)
        return name, other, value
    return None


def _shortened(value: Any) -> str:
    """Return the string of a value, shortened if it is long."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:50]} ... {text[-25:]}"


class Checkpoint:
    """A file that holds the state of an unfinished fit.

    Parameters
    ----------
    path : str, path or None
        None writes no file.
    identity : dict
        Identifies the fit, apart from its rows. A file of another fit is rejected.
    check_state : callable, optional
        Raises an error if a state from a file is not valid for this fit. It may assume that the
        objects in the state are valid.
    sample : str, default=""
        A hash of some of the rows; see :func:`sample_digest`.
    """

    def __init__(
        self,
        path: Any,
        identity: dict[str, Any],
        check_state: Callable[[Any], None] = lambda state: None,
        sample: str = "",
    ) -> None:
        self.path = None if path is None else Path(os.fspath(path))
        self.identity = identity
        self.sample = sample
        self._check_state = check_state
        self._rows = RowHash()
        self._expected: str | None = None
        self._due = time.monotonic() + SECONDS

    def load(self) -> Any:
        """Return the state that an earlier process has written; None without a file.

        A state from the time before the first pass holds a map. If that was chosen for other data,
        warn and return None. After that, :meth:`check_resumed` compares all rows.
        """
        if self.path is None or not self.path.exists():
            return None
        kept = read_checkpoint(self.path, self._check_state)
        difference = _difference(kept["identity"], self.identity)
        if difference is not None:
            name, earlier, now = difference
            raise ValueError(
                f"checkpoint={str(self.path)!r} belongs to another fit, with {name} "
                f"{_shortened(earlier)} instead of {_shortened(now)}. Delete the file, or use "
                "another path."
            )
        if kept["rows"] == RowHash().digest() and kept["sample"] != self.sample:
            check.warn_user(
                f"checkpoint={str(self.path)!r} belongs to a fit to other data, which had not "
                "processed any rows yet. The fit starts over and replaces the file."
            )
            return None
        self._expected = kept["rows"]
        return kept["state"]

    def check_state(self, state: Any, check_state: Callable[[Any], None]) -> None:
        """Raise an error if a loaded state fails a check."""
        try:
            if state is not None:
                check_state(state)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} cannot be loaded: its content is not valid "
                f"({error}). Delete the file, or use another path."
            ) from error

    def begin(self, state: Any) -> None:
        """Write a first state, so that a fit fails early if the file cannot be written."""
        if self.path is None:
            return
        try:
            self._write(state)
        except OSError as error:
            raise _cannot_write(self.path, error) from error

    def restart(self) -> None:
        """Hash the rows from the beginning, for another pass."""
        self._rows = RowHash()

    def add(self, block: Block) -> None:
        """Record rows that have been processed."""
        if self.path is not None:
            self._rows.add(block)

    def check_resumed(self) -> None:
        """Raise an error unless the rows so far are those of the loaded state."""
        expected, self._expected = self._expected, None
        if expected is not None and expected != self._rows.digest():
            raise ValueError(
                f"checkpoint={str(self.path)!r} belongs to a fit to other data: rows, targets or "
                "weights differ, or are in another order. Pass the same data, delete the file, or "
                "use another path."
            )

    def is_due(self) -> bool:
        """Return whether it is time to write the next checkpoint."""
        return self.path is not None and time.monotonic() >= self._due

    def offer(self, state: Any) -> None:
        """Write the state if a checkpoint is due; warn if writing fails."""
        if self.is_due():
            self.keep(state)

    def keep(self, state: Any) -> bool:
        """Write the state now, and return whether that worked; warn if it fails."""
        try:
            self._write(state)
        except OSError as error:
            self._due = time.monotonic() + SECONDS
            check.warn_user(
                f"checkpoint={str(self.path)!r} could not be written ({error.strerror or error}). "
                "A later fit would resume from the last checkpoint."
            )
            return False
        return True

    def _write(self, state: Any) -> None:
        assert self.path is not None
        started = time.monotonic()
        kept = {
            "identity": self.identity,
            "sample": self.sample,
            "rows": self._rows.digest(),
            "state": state,
        }
        write_checkpoint(kept, self.path, PRIVATE)
        now = time.monotonic()
        self._due = now + max(SECONDS, TIMES_AS_LONG * (now - started))

    def remove(self) -> None:
        """Remove the file of a finished fit."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_orphans(self.path)
