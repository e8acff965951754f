"""Run child processes that may be killed, crash or hang without ending the trial."""

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

# The fork server imports these once, since the imports take seconds.
PRELOADED = [
    "quadfeat",
    "quadfeat.apps.cli",
    "quadfeat.apps.study.report",
    "pandas",
    "pyarrow.dataset",
]

# A child counts as stuck after this many seconds, far more than any needs on a loaded machine.
PATIENCE = 300.0


def missing() -> str | None:
    """Return why children cannot be forked and killed on this system, or None if they can."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return f"{sys.platform} has neither fork nor SIGKILL"
    return None


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Start a child, forked from a process without threads."""
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

    ``faulthandler.dump_traceback_later`` would need a thread, which does not survive a fork.
    """
    faulthandler.enable(file)
    faulthandler.register(signal.SIGUSR1, file)


def forget_stacks() -> None:
    """Undo :func:`keep_stacks`. Call it before closing the file."""
    faulthandler.unregister(signal.SIGUSR1)
    faulthandler.disable()


def end_stuck(pid: int) -> None:
    """Make a stuck process write its stacks, then kill it."""
    os.kill(pid, signal.SIGUSR1)
    time.sleep(1.0)
    os.kill(pid, signal.SIGKILL)


class Failed(Exception):
    """A call in a child process did not return."""


def call(function: Callable[..., Any], *arguments: Any, patience: float = PATIENCE) -> Any:
    """Return the result of a call in a child.

    Raise :class:`Failed` if the call crashes, hangs or raises an error.
    """
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
