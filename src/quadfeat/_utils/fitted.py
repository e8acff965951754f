"""Fitted objects that threads share: what they learned changes as a whole.

Fitting works on a draft and then replaces the attributes of the estimator, all of them by one
assignment to ``__dict__``. A method that reads a fitted object works on a :func:`snapshot`, which
holds on to the attributes of that moment. Methods that change an object take turns.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Estimator = TypeVar("Estimator")
Method = TypeVar("Method", bound=Callable[..., Any])


def snapshot(estimator: Estimator) -> Estimator:
    """Return an object with the attributes that an estimator has now.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> features = QuadratureFeatures(n_components=4).fit([[0.0], [1.0]])
    >>> before = snapshot(features)
    >>> _ = features.fit([[0.0, 1.0], [1.0, 0.0]])
    >>> before.n_features_in_, features.n_features_in_
    (1, 2)
    """
    held: Estimator = object.__new__(type(estimator))
    held.__dict__ = estimator.__dict__
    return held


def on_snapshot(method: Method) -> Method:
    """Let a method see one state of its object, whatever other threads do to it."""

    @functools.wraps(method)
    def consistent(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(snapshot(self), *args, **kwargs)

    return consistent  # type: ignore[return-value]


class _Locks:
    """A lock for each estimator that is being changed."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            # No thread of the parent lives on in a child, where its locks would stay closed.
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._of: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()

    def of(self, estimator: Any) -> Any:
        # One call of dict.setdefault, which is atomic. A lock around it, left closed by an
        # interrupt at the wrong moment, would stop all threads.
        return self._of.setdefault(estimator, threading.RLock())


_LOCKS = _Locks()


@contextmanager
def changing(estimator: Any) -> Iterator[None]:
    """Wait for all others that are changing an estimator, then keep them waiting."""
    with _LOCKS.of(estimator):
        yield
