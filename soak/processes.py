"""Child processes that may be killed, crash or hang without harm to the trial that runs them."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import IO, Any

# Imported once by the server from which children are forked, which takes seconds.
PRELOADED = [
    "quadfeat",
    "quadfeat.apps.cli",
    "quadfeat.apps.study.report",
    "pandas",
    "pyarrow.dataset",
]

# Seconds after which a child is stuck: far more than any of them takes on a loaded machine.
PATIENCE = 300.0


def missing() -> str | None:
    """Return the reason why children cannot be forked and killed here, or None."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return f"{sys.platform} has no fork and no SIGKILL"
    return None


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a child that is forked from a process without threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    child = context.Process(target=target, args=arguments, daemon=True)
    child.start()
    return child


def ending_of(child: BaseProcess) -> str:
    """Describe how a child ended."""
    code = child.exitcode
    assert code is not None
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


def keep_stacks(file: IO[str]) -> None:
    """Write the stacks of all threads to a file when this process crashes or gets SIGUSR1.

    ``faulthandler.dump_traceback_later`` would need a thread, which forks do not copy.
    """
    faulthandler.enable(file)
    faulthandler.register(signal.SIGUSR1, file)


def forget_stacks() -> None:
    """End this, before the file is closed."""
    faulthandler.unregister(signal.SIGUSR1)
    faulthandler.disable()


def end_stuck(pid: int) -> None:
    """Let a stuck process write its stacks, and kill it."""
    os.kill(pid, signal.SIGUSR1)
    time.sleep(1.0)
    os.kill(pid, signal.SIGKILL)


class Failed(Exception):
    """A call in a child that did not return."""


def call(function: Callable[..., Any], *arguments: Any, patience: float = PATIENCE) -> Any:
    """Return the result of a call in a child, or raise Failed if it crashes, raises or hangs."""
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    handle, stacks = tempfile.mkstemp(prefix="soak-stacks-")
    os.close(handle)
    child = start(_answer, sender, function, arguments, stacks)
    sender.close()
    try:
        if not receiver.poll(patience):
            assert child.pid is not None
            end_stuck(child.pid)
            raise Failed(f"the process is stuck:\n{_text(stacks)}")
        try:
            raised, value = receiver.recv()
        except EOFError:
            child.join()
            raise Failed(f"the process {ending_of(child)}\n{_text(stacks)}") from None
        if raised:
            raise Failed(value)
        return value
    finally:
        child.kill()
        child.join()
        receiver.close()
        os.unlink(stacks)


def _answer(sender: Any, function: Callable[..., Any], arguments: Any, stacks: str) -> None:
    """Send the result of a call, or the traceback of its error."""
    with open(stacks, "w", encoding="utf-8") as file:
        keep_stacks(file)
        try:
            answer = (False, function(*arguments))
        except Exception:
            answer = (True, traceback.format_exc().rstrip())
        sender.send(answer)
        forget_stacks()


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().rstrip()
