"""Decide how many threads a call uses, for everything that takes ``n_jobs``.

===============  ==================================================================================
``n_jobs``       threads
===============  ==================================================================================
None, default    as many as a matrix product of NumPy, see below
1, 2, ...        this number
-1               all processors that the process may use, within the limit of OpenMP
-2, -3, ...      one less than -1, two less, ...; at least one
===============  ==================================================================================

None means the smallest of these numbers:

- the processors that the process may use: by its affinity, by the CPU quota of its cgroup and by
  ``LOKY_MAX_CPU_COUNT``
- the threads that BLAS and OpenMP may use now, which ``threadpoolctl.threadpool_limits`` changes
- ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS``, ``MKL_NUM_THREADS`` and the other ``VARIABLES`` at
  the time of import, which is also when BLAS reads them. joblib's loky sets them in its workers to
  ``inner_max_num_threads`` or to an equal share of the processors. Dask sets them to 1 in the
  processes of its workers.
- the ``n_jobs`` of an enclosing ``joblib.parallel_config``
- one, in a worker of a ``multiprocessing`` pool, including joblib's, unless a variable says more: a
  worker does not know how many there are

Threads of one process that compute at the same time, such as those of joblib, of Dask or of a
server, share the helpers of the native core: see ``native/pool.hpp``. Small calls use one thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from multiprocessing.process import current_process
from typing import Any

from joblib import cpu_count
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from quadfeat._utils import validation as check

# With fewer entries of the result per thread, waking threads takes longer than the work.
# ``benchmarks/threads.py`` measures it.
ENTRIES_PER_THREAD = 2**16

VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def limit_of_environment(environment: Mapping[str, str]) -> int | None:
    """Return the smallest number in ``VARIABLES``, or None if none of them has one.

    OpenMP allows one number for each level of nesting, as in ``"4,2"``. The first one counts.
    """
    given = (environment.get(name, "").split(",")[0].strip() for name in VARIABLES)
    return min((int(text) for text in given if text.isdecimal() and int(text) > 0), default=None)


ENVIRONMENT_LIMIT = limit_of_environment(os.environ)


def n_threads(n_jobs: int | None, entries: int | None = None) -> int:
    """Return the number of threads for ``n_jobs``, and for so many entries of the result.

    Without ``entries``, assume a large result.
    """
    n_jobs = check.check_n_jobs(n_jobs)
    enough = None if entries is None else max(1, entries // ENTRIES_PER_THREAD)
    if enough == 1 or n_jobs == 1:
        return 1  # the most frequent calls, so do not ask the libraries
    if n_jobs is None:
        wanted = _default()
    elif n_jobs > 0:
        wanted = n_jobs
    else:
        wanted = max(1, min([_processors(), *_limits_of_libraries("openmp")]) + 1 + n_jobs)
    return wanted if enough is None else min(wanted, enough)


def _default() -> int:
    """Return the number of threads for ``n_jobs=None``."""
    processors = _processors()
    limits = [processors, *_limits_of_libraries("blas"), *_limits_of_libraries("openmp")]
    if ENVIRONMENT_LIMIT is not None:
        limits.append(ENVIRONMENT_LIMIT)
    elif current_process().daemon:
        return 1
    in_context = get_active_backend()[1]
    if in_context is not None:
        limits.append(in_context if in_context > 0 else max(1, processors + 1 + in_context))
    return min(limits)


def _processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        allowed = len(os.sched_getaffinity(0))  # type: ignore[attr-defined, unused-ignore]
    except (AttributeError, NotImplementedError, OSError):  # not on every system
        allowed = 0
    return _count_processors(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache(maxsize=8)
def _count_processors(allowed: int, wanted: str | None) -> int:
    """Return the number of usable processors, cached for each pair of arguments.

    ``cpu_count`` reads the files of the cgroup, which takes as long as a small transform. The cache
    assumes that the cgroup's quota does not change.
    """
    return cpu_count()


def _limits_of_libraries(user_api: str) -> list[int]:
    """Return how many threads each library may use now. Libraries without threads do not count."""
    found = (library.num_threads for library in _libraries(user_api))
    return [number for number in found if number is not None and number > 0]


@lru_cache(maxsize=2)
def _libraries(user_api: str) -> tuple[Any, ...]:
    """Return those libraries for BLAS or OpenMP that NumPy, SciPy and scikit-learn have loaded.

    The search takes milliseconds. Libraries that other packages load later do not concern us.
    """
    return tuple(
        library
        for library in _controller().lib_controllers
        if library.user_api == user_api
        and getattr(library, "threading_layer", None) not in ("disabled", "sequential")
    )


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    """Return the threads of the libraries that NumPy, SciPy and scikit-learn have loaded."""
    import scipy.linalg  # noqa: F401  # loads its BLAS
    import sklearn.utils._openmp_helpers  # noqa: F401  # loads OpenMP

    return ThreadpoolController()


# Seconds to wait for a lock that is held for microseconds.
PATIENCE = 1.0


class _Users:
    """The users of a limit of BLAS to one thread.

    The limit belongs to the process. If every thread restored what it had found, the last one could
    restore the limit of another.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all users, in a forked child, which has only one thread."""
        self.lock = threading.RLock()
        self.present: set[int] = set()
        self.limiter: Any = None

    def add(self, user: int) -> None:
        with self._locked():
            if not self.present:
                self.limiter = _controller().limit(limits=1, user_api="blas")
            self.present.add(user)

    def remove(self, user: int) -> None:
        with self._locked():
            self.present.discard(user)
            if not self.present and self.limiter is not None:
                self.limiter.restore_original_limits()
                self.limiter = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock; replace it if an interrupt has left it closed."""
        lock = self.lock
        if not lock.acquire(timeout=PATIENCE):
            lock = self.lock = threading.RLock()
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


_users = _Users()
if hasattr(os, "register_at_fork"):  # another thread may hold the lock at that time
    os.register_at_fork(after_in_child=_users.forget)


class _OneThread:
    """A context manager that limits BLAS to one thread.

    After an interrupt in ``__exit__``, its deletion removes it from the users.
    """

    def __enter__(self) -> None:
        self._deletion = weakref.finalize(self, _users.remove, id(self))
        self._deletion.atexit = False
        _users.add(id(self))

    def __exit__(self, *_: object) -> None:
        _users.remove(id(self))
        self._deletion.detach()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread, for many products of small matrices.

    More threads would spend their time waiting for each other.

    Examples
    --------
    >>> with one_blas_thread():
    ...     _libraries("blas")[0].num_threads
    1
    """
    return _OneThread()
