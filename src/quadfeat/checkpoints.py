"""Work that survives the death of its process: its state in a file, now and then."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._files import PRIVATE, atomic_write, remove_drafts
from quadfeat._pickles import FORMAT

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
        parameters = described(value.get_params(deep=False))
        return f"{type(value).__name__}{parameters}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {described(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described, value))}]"
    # Where an object is in memory has no part in what it is.
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(value))


class Checkpoint:
    """A file that holds the state of unfinished work; nothing is written for no path.

    Parameters
    ----------
    path : str, path or None
    identity : dict
        What the work is: a file about other work is refused.
    """

    def __init__(self, path: Any, identity: dict[str, Any]) -> None:
        self.path = None if path is None else Path(os.fspath(path))
        # What is kept of unfinished work is no fitted object that would tell its format itself.
        self.identity = {"format": FORMAT} | identity
        self._due = time.monotonic() + SECONDS

    def load(self) -> Any:
        """Return the state of an earlier process, or None if there is none."""
        if self.path is None or not self.path.exists():
            return None
        try:
            kept = joblib.load(self.path)
            identity, state = kept["identity"], kept["state"]
        except Exception as error:  # whatever unpickling foreign bytes may raise
            raise ValueError(
                f"checkpoint={str(self.path)!r} cannot be read as the state of a fit ({error}): "
                "delete the file, or give another path."
            ) from error
        for name, value in self.identity.items():
            if identity.get(name) != value:
                raise ValueError(
                    f"checkpoint={str(self.path)!r} belongs to another fit, whose {name} is "
                    f"{identity.get(name)!r} and not {value!r}: delete the file, or give another "
                    "path."
                )
        return state

    def offer(self, state: Any) -> None:
        """Write the state, if the last file is old enough."""
        if self.path is not None and time.monotonic() >= self._due:
            self.save(state)

    def save(self, state: Any) -> None:
        """Write the state: as a whole, or not at all."""
        if self.path is None:
            return
        started = time.monotonic()
        with atomic_write(self.path, PRIVATE) as file:
            joblib.dump({"identity": self.identity, "state": state}, file)
        now = time.monotonic()
        self._due = now + max(SECONDS, TIMES_AS_LONG * (now - started))

    def remove(self) -> None:
        """Remove the file of work that is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            remove_drafts(self.path)
