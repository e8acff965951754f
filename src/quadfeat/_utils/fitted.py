"""Make fitted objects safe to share between threads.

Fitting works on a draft, then replaces all attributes of the estimator by one assignment to
``__dict__``. A method that reads a fitted object works on a :func:`snapshot`, which keeps the
attributes of that moment. Methods that change an object take turns.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from quadfeat._utils.columns import NotFiniteError

Estimator = TypeVar("Estimator")
Method = TypeVar("Method", bound=Callable[..., Any])


def snapshot(estimator: Estimator) -> Estimator:
    """Return an object that keeps the current attributes of an estimator.

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
    """Make a method see one consistent state of its object, even if other threads refit it.

    Errors about values that are not finite name the class and the columns.
    """

    @functools.wraps(method)
    def consistent(self: Any, *args: Any, **kwargs: Any) -> Any:
        held = snapshot(self)
        try:
            return method(held, *args, **kwargs)
        except NotFiniteError as error:
            raise error.within(held, getattr(held, "feature_names_in_", None)) from None

    return consistent  # type: ignore[return-value]


class _Locks:
    """Hold one lock for each estimator that is being changed."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            # The parent's threads do not exist in a child, so nothing would release their locks.
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._of: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()

    def of(self, estimator: Any) -> Any:
        # dict.setdefault is atomic. If we used a lock here, an interrupt at the wrong moment could
        # leave it locked and block all threads.
        return self._of.setdefault(estimator, threading.RLock())


_LOCKS = _Locks()


@contextmanager
def changing(estimator: Any) -> Iterator[None]:
    """Hold the lock of an estimator, so that only one thread changes it at a time."""
    with _LOCKS.of(estimator):
        yield
