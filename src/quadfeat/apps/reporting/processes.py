"""Run work in processes that do not outlive the command and whose crash does not end it.

``concurrent.futures`` starts and feeds the processes. This module starts a new pool if a process
dies, keeps Ctrl-C away from the workers, and ends them when the command is killed. pebble does not
do the last: its workers finish their task first.
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
    """Yield results as they come. If a process dies, only the running items are lost.

    The result of a lost item is ``died(item)``. On an interrupt, running items are abandoned.
    ``work`` is sent to each process once, so it may carry data.
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
    """Submit an item. Block Ctrl-C in a process that this starts, until it ignores Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(_do, item)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(_do, item)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_work: Callable[[Any], Any]  # in a worker


def _do(item: Any) -> Any:
    return _work(item)


def _serve_parent(work: Callable[[Any], Any]) -> None:
    """Ignore Ctrl-C, which the parent handles, and exit when the parent is gone."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None  # because this is a worker

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
