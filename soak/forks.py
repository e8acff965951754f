"""Fork a process whose threads are in the middle of a transform."""

from __future__ import annotations

import copy
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from quadfeat import QuadratureFeatures, QuadratureRidge
from soak import processes
from soak.runner import Scenario, Trial

Array = NDArray[Any]

FORKS = 6

# Exit codes of a child.
SAME, DIFFERENT, ERROR = 0, 10, 11


@contextmanager
def busy(trial: Trial, calls: list[Callable[[], Any]], patience: float) -> Iterator[None]:
    """Repeat each call in its own thread within a context."""
    done = threading.Event()

    def repeat(call: Callable[[], Any]) -> None:
        while not done.is_set():
            call()

    threads = [threading.Thread(target=repeat, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        deadline = time.monotonic() + patience
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            trial.report("a thread of the parent process is stuck")


def check_in_child(call: Callable[[], Array], wanted: Array, stacks: str) -> int:
    """Make a call in a forked child. Return an exit code: ``SAME``, ``DIFFERENT`` or ``ERROR``."""
    with open(stacks, "w", encoding="utf-8") as file:
        processes.keep_stacks(file)
        try:
            return SAME if np.array_equal(call(), wanted) else DIFFERENT
        except Exception:
            traceback.print_exc(file=file)
            return ERROR
        finally:
            processes.forget_stacks()


def fork(call: Callable[[], Array], wanted: Array, stacks: str, patience: float) -> int | None:
    """Make a call in a child of ``os.fork``. Return its exit code, or None if it is stuck."""
    pid = os.fork()
    if pid == 0:
        code = ERROR
        try:
            code = check_in_child(call, wanted, stacks)
        finally:
            os._exit(code)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    processes.end_stuck(pid)
    os.waitpid(pid, 0)
    return None


def _exit_with(call: Callable[[], Array], wanted: Array, stacks: str) -> None:
    raise SystemExit(check_in_child(call, wanted, stacks))


def fork_by_multiprocessing(
    call: Callable[[], Array], wanted: Array, stacks: str, patience: float
) -> int | None:
    """Make a call in a child of ``multiprocessing``; see :func:`fork`."""
    child = multiprocessing.get_context("fork").Process(
        target=_exit_with, args=(call, wanted, stacks), daemon=True
    )
    child.start()
    child.join(patience)
    if child.is_alive():
        assert child.pid is not None
        processes.end_stuck(child.pid)
        child.join()
        return None
    return child.exitcode


class Forks(Scenario):
    """Fork while threads transform, predict and fit, and make the same calls in the child.

    Parameters
    ----------
    patience : float, default=300
        Seconds after which a child counts as stuck.
    """

    name = "forks"

    def __init__(self, patience: float = processes.PATIENCE) -> None:
        self.patience = patience

    def missing(self) -> str | None:
        if not hasattr(os, "fork"):
            return "this system has no fork"
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            # A child inherits the lock of the warnings module, which another thread may hold.
            return "Python itself may hang after a fork from threads without the GIL"
        return None

    def run(self, trial: Trial) -> None:
        d, n_components = int(trial.rng.integers(2, 100)), int(trial.rng.integers(20, 500))
        dtype = trial.choose([np.float32, np.float64])
        X = trial.rng.standard_normal((int(trial.rng.integers(200, 3000)), d)).astype(dtype)
        rule = trial.choose(["sr33", "rom", "rff", "orf"])
        features = QuadratureFeatures(
            n_components=n_components, rule=rule, random_state=0, n_jobs=trial.choose([1, 2, 4])
        ).fit(X[:100])
        model = QuadratureRidge(alpha=1.0, features=features).fit(X, X[:, 0])
        fresh = QuadratureFeatures(n_components=20, random_state=1, n_jobs=2)
        calls: dict[str, Callable[[], Array]] = {
            "transform": lambda: np.asarray(features.transform(X)),
            "predict": lambda: np.asarray(model.predict(X)),
            "fit a map": lambda: np.asarray(clone(fresh).fit(X[:100]).transform(X)),
            "fit a model": lambda: np.asarray(copy.copy(model).fit(X, X[:, 0]).coef_),
        }
        with threadpool_limits(1, user_api="blas"):
            wanted = {name: call() for name, call in calls.items()}
        n_threads = int(trial.rng.integers(1, 5))
        working = [calls[trial.choose(calls)] for _ in range(n_threads)]
        # OpenBLAS itself hangs if a process forks while several BLAS threads compute a product. Our
        # own threads do not have this problem.
        with threadpool_limits(1, user_api="blas"), busy(trial, working, self.patience):
            for _ in range(FORKS):
                time.sleep(float(trial.rng.exponential(0.005)))
                self.fork_once(trial, trial.choose(calls), calls, wanted)

    def fork_once(
        self,
        trial: Trial,
        name: str,
        calls: dict[str, Callable[[], Array]],
        wanted: dict[str, Array],
    ) -> None:
        """Fork, and report a child that hangs, crashes or gets different numbers."""
        way = trial.choose([fork, fork_by_multiprocessing])
        with tempfile.NamedTemporaryFile(dir=trial.folder, delete=False) as file:
            stacks = file.name
        with warnings.catch_warnings():
            # Python warns about forks with threads, which is what this tests.
            warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
            code = way(calls[name], wanted[name], stacks, self.patience)
        trial.count(f"{name} in a child")
        if code == SAME:
            return
        with open(stacks, encoding="utf-8", errors="replace") as text:
            printed = text.read().rstrip()
        if code is None:
            trial.report(f"{name} in a forked child is stuck:\n{printed}")
        elif code == DIFFERENT:
            trial.report(f"{name} gave different numbers in a forked child")
        else:
            trial.report(f"{name} in a forked child ended with code {code}:\n{printed}")
