"""Share work out to processes that neither outlive the command nor take it down with them.

``concurrent.futures`` starts and feeds the processes. Our own code starts a new pool after a
process has died, keeps Ctrl-C away from the workers, and ends them when the command is killed. We
do not use pebble: its workers go on for the rest of their task after the command was killed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_in_processes(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int,
    died: Callable[[Item], Result],
) -> Iterator[Result]:
    """Yield results as they come; a process that dies costs only the items that were running.

    The result of such an item is ``died(item)``. A caller that is interrupted does not wait for
    running items. ``work`` is sent to each process once, so it may carry data.
    """
    waiting = iter(items)
    others = active_children()
    while batch := list(islice(waiting, jobs)):
        context = get_context("spawn")
        with ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_serve_parent, initargs=(work,)
        ) as pool:
            running: dict[Future[Result], Item] = {}
            broken = False
            try:
                running.update((_submit(pool, item), item) for item in batch)
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        item = running.pop(future)
                        try:
                            yield future.result()
                        except BrokenProcessPool:
                            broken = True
                            yield died(item)
                        following = [] if broken else list(islice(waiting, 1))
                        running.update((_submit(pool, item), item) for item in following)
            except BaseException:
                for child in active_children():
                    if child not in others:
                        child.terminate()
                raise


def _submit(pool: ProcessPoolExecutor, item: Any) -> Future[Any]:
    """Submit an item; block Ctrl-C in a process that this starts, until it can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(_do, item)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(_do, item)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_work: Callable[[Any], Any]  # of a worker


def _do(item: Any) -> Any:
    return _work(item)


def _serve_parent(work: Callable[[Any], Any]) -> None:
    """Leave Ctrl-C to the parent process, and exit when the parent is gone."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None  # this is a worker

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
