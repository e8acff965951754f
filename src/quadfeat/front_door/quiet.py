"""Hide warnings while candidates are fitted, even if several threads do so at once."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

HIDDEN = (UserWarning, RuntimeWarning)

# Matches every message, and marks our filters among those of the user.
PATTERN = r"(?s:.*)(?#quadfeat)"

# One object for each thread that hides warnings. Adding and discarding are atomic. A lock could
# stay locked after an interrupt or a fork.
_inside: set[object] = set()


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings until the last thread has left this context.

    ``warnings.catch_warnings`` is not for threads: if two overlap, the filters of the one that left
    first come back when the other leaves, and then hide warnings for good. So this adds filters,
    and removes them again.

    Examples
    --------
    >>> import warnings
    >>> before = list(warnings.filters)
    >>> with quiet():
    ...     warnings.warn("a detail")
    >>> warnings.filters == before
    True
    """
    if getattr(sys.flags, "context_aware_warnings", False):  # Python keeps threads apart
        with warnings.catch_warnings():
            _hide()
            yield
        return
    token = object()
    try:
        _inside.add(token)
        _hide()
        yield
    finally:
        _inside.discard(token)
        if not _inside:
            _show()


def _hide() -> None:
    for category in HIDDEN:
        warnings.filterwarnings("ignore", PATTERN, category)


def _show() -> None:
    """Remove our filters."""
    kept = [one for one in warnings.filters if getattr(one[1], "pattern", "") != PATTERN]
    warnings.filters[:] = kept  # type: ignore[index]


def _start_in_child() -> None:
    """Forget the threads of the parent, which do not exist in a forked child."""
    if _inside:
        _inside.clear()
        _show()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_in_child)
