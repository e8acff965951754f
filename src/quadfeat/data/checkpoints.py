"""Work that survives the death of its process: its state in a file, now and then.

A file has the format of :func:`quadfeat.save`: numbers and no code, with a checksum. It belongs to
the rows that the work has consumed, of which it keeps a hash.
"""

from __future__ import annotations

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

# Parameters that do not change what is fitted.
NOT_IDENTITY = ("n_jobs", "verbose", "checkpoint")

# Seconds between two files at least, and how much longer than writing one they are apart.
SECONDS = 10.0
TIMES_AS_LONG = 20.0


def described(value: Any) -> str:
    """Return a text that is the same, in any process, for the same value of a parameter.

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
    # Where an object is in memory has no part in what it is.
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


class RowHash:
    """A hash of rows, targets and weights in their order, however they are cut into blocks.

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
        # Each part has a hash of its own, so that it does not matter where blocks end, but for
        # those at which the parts, or their dtypes, change.
        self._parts: dict[str, Any] = {}
        self._n_rows = 0
        self._kinds: list[str] = []
        self._changes: list[str] = []

    def add(self, block: Block) -> None:
        """Add rows that were validated."""
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


def _hashable(y: Any) -> Any:
    """Return targets as bytes that do not depend on the rows beside them."""
    if y.dtype.kind not in "OSU":
        return y
    # A dtype of strings is as wide as the longest of them.
    texts = [str(label).encode(errors="surrogatepass") for label in y.tolist()]
    return np.frombuffer(b"".join(b"%d:%b" % (len(text), text) for text in texts), np.uint8)


class Checkpoint:
    """A file that holds the state of unfinished work; nothing is written for no path.

    Parameters
    ----------
    path : str, path or None
    identity : dict
        What the work is, apart from its rows: a file about other work is rejected.
    check_state : callable, optional
        Raises an error if a state that was read from a file is not one of this work. Objects in it
        are checked already.
    """

    def __init__(
        self,
        path: Any,
        identity: dict[str, Any],
        check_state: Callable[[Any], None] = lambda state: None,
    ) -> None:
        self.path = None if path is None else Path(os.fspath(path))
        self.identity = identity
        self._check_state = check_state
        self._rows = RowHash()
        self._expected: str | None = None
        self._due = time.monotonic() + SECONDS

    def load(self) -> Any:
        """Return the state of an earlier process, or None if there is none."""
        if self.path is None or not self.path.exists():
            return None
        kept = read_checkpoint(self.path, self._check_state)
        for name, value in self.identity.items():
            if kept["identity"].get(name) != value:
                raise ValueError(
                    f"checkpoint={str(self.path)!r} belongs to another fit, whose {name} is "
                    f"{check.one_line(kept['identity'].get(name))} and not "
                    f"{check.one_line(value)}: delete the file, or give another path."
                )
        self._expected = kept["rows"]
        return kept["state"]

    def check_state(self, state: Any, check_state: Callable[[Any], None]) -> None:
        """Raise an error if what was loaded fails a check."""
        try:
            if state is not None:
                check_state(state)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} cannot be loaded: it is not as quadfeat writes it "
                f"({error}): delete the file, or give another path."
            ) from error

    def begin(self, state: Any) -> None:
        """Write a first state, so that a path that cannot be written fails before any work."""
        if self.path is None:
            return
        try:
            self._write(state)
        except OSError as error:
            raise OSError(
                f"checkpoint={str(self.path)!r} cannot be written: {error.strerror or error}. "
                "Give a path in a folder that you can write to."
            ) from error

    def restart(self) -> None:
        """Go over the rows from the beginning, for other work."""
        self._rows = RowHash()

    def add(self, block: Block) -> None:
        """Take note of rows that have been consumed."""
        if self.path is not None:
            self._rows.add(block)

    def check_resumed(self) -> None:
        """Raise an error unless the rows so far are those that the loaded state has consumed."""
        expected, self._expected = self._expected, None
        if expected is not None and expected != self._rows.digest():
            raise ValueError(
                f"checkpoint={str(self.path)!r} belongs to a fit to other data: rows, targets or "
                "weights differ, or come in another order. Give the same data, delete the file, or "
                "give another path."
            )

    def is_due(self) -> bool:
        """Return whether the last file is old enough for another one."""
        return self.path is not None and time.monotonic() >= self._due

    def offer(self, state: Any) -> None:
        """Write the state, if the last file is old enough; warn if that fails."""
        if not self.is_due():
            return
        try:
            self._write(state)
        except OSError as error:
            self._due = time.monotonic() + SECONDS
            check.warn_user(
                f"checkpoint={str(self.path)!r} could not be written ({error.strerror or error}): "
                "the fit goes on, and a restart would resume from the last file that was written."
            )

    def _write(self, state: Any) -> None:
        assert self.path is not None
        started = time.monotonic()
        kept = {"identity": self.identity, "rows": self._rows.digest(), "state": state}
        write_checkpoint(kept, self.path, PRIVATE)
        now = time.monotonic()
        self._due = now + max(SECONDS, TIMES_AS_LONG * (now - started))

    def remove(self) -> None:
        """Remove the file of work that is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_orphans(self.path)
