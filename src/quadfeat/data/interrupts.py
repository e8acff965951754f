"""Hold back Ctrl-C while a state changes."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Held:
    """Holds back Ctrl-C while a block is added, so that the state can be written afterwards.

    Outside of the ``with`` block, Ctrl-C raises ``KeyboardInterrupt`` at once. Inside, it does so
    at the end, and if pressed a second time at once. Only the main thread receives signals, and
    handlers of the user stay in place.

    Parameters
    ----------
    is_wanted : bool
        Whether to hold back anything.

    Attributes
    ----------
    is_whole : bool
        Whether no block was left half added.

    Examples
    --------
    >>> import signal
    >>> held, added = Held(True), []
    >>> try:
    ...     with held:
    ...         signal.raise_signal(signal.SIGINT)
    ...         added.append("the whole block")
    ... except KeyboardInterrupt:
    ...     print(added, held.is_whole)
    ['the whole block'] True
    """

    def __init__(self, is_wanted: bool) -> None:
        self.is_whole = True
        self._is_wanted = is_wanted
        self._is_pending = self._holds = False

    def __enter__(self) -> None:
        self._is_pending = False
        self._holds = (
            self._is_wanted
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self._holds:
            signal.signal(signal.SIGINT, self._note)
        self.is_whole = False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.is_whole = True
        if self._holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if self._is_pending and kind is None:
                raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> Any:
        if self._is_pending:
            signal.default_int_handler(number, frame)
        self._is_pending = True
