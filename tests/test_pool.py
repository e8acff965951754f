"""Test the threads that the native core keeps between calls."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from quadfeat.engine import core as _core
from quadfeat.kernels import Gaussian
from quadfeat.rules import SphericalRadial

CORES = _core._native.cores() if _core._native is not None else []
pytestmark = pytest.mark.skipif(not CORES, reason="quadfeat was built without its native core")
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

PREPARE = """
import os, signal, sys, threading, time
import numpy as np
from quadfeat.engine import core
from quadfeat.kernels import Gaussian
from quadfeat.rules import SphericalRadial

rng = np.random.default_rng(0)
nodes = SphericalRadial().draw(50, 103, Gaussian(0.5), rng)
native = core.native_map(nodes, Gaussian(0.5), np.dtype(np.float64), "structured")
CORE = core._native.cores()[0]
X = rng.standard_normal((1000, 50))

def transform(n_threads):
    out = np.full((len(X), 103), np.nan)
    native.transform(X, out, n_threads, CORE)
    return out

def normal_multiply(n_threads):
    out = np.zeros((103, 3))
    native.normal_multiply(X, np.ones((len(X), 1)), np.ones((103, 3)), out, n_threads, CORE)
    return out

# Rows without end: one row, repeated with stride 0, and results in one place.
endless = np.broadcast_to(X[:1], (10**12, 50))
def compute_forever(n_threads):
    out = np.lib.stride_tricks.as_strided(np.empty(103), (10**12, 103), (0, 8))
    native.transform(endless, out, n_threads, CORE)

def sum_forever(n_threads):
    weights = np.broadcast_to(np.ones((1, 1)), (10**12, 1))
    V, out = np.ones((103, 3)), np.zeros((103, 3))
    native.normal_multiply(endless, weights, V, out, n_threads, CORE)

def name_of(task):
    try:
        with open(f"/proc/self/task/{task}/comm") as name:
            return name.read()
    except (FileNotFoundError, ProcessLookupError):  # a joined thread may still be ending
        return None

def helpers():
    return [int(task) for task in os.listdir("/proc/self/task") if name_of(task) == "quadfeat\\n"]

expected, summed = transform(1), normal_multiply(1)
"""


def run(script):
    """Run a script after ``PREPARE``, and return what it prints. It must not print errors.

    BLAS has no threads, since they would accept signals that the pool's threads block.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PREPARE + script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture(scope="module")
def compute():
    """Return a function that makes native calls, and its expected results."""
    space = {}
    exec(PREPARE, space)
    return space


def test_numbers_of_threads_that_change(compute):
    for n_threads in (2, 1, 7, 3, 40, 2, 2**64 - 1, 5):
        assert_array_equal(compute["transform"](n_threads), compute["expected"])
        assert_array_equal(compute["normal_multiply"](n_threads), compute["summed"])


def test_many_threads_at_once(compute):
    n = 32
    barrier = threading.Barrier(n)

    def work(k):
        barrier.wait()
        for times in range(20):
            n_threads = 1 + (k + times) % 6
            assert_array_equal(compute["transform"](n_threads), compute["expected"])
            assert_array_equal(compute["normal_multiply"](n_threads), compute["summed"])

    with ThreadPoolExecutor(n) as pool:
        list(pool.map(work, range(n)))


@on_linux
def test_threads_stay_and_are_shared():
    """All calls together start as many threads as one of them may use, less its own."""
    assert run("""
print(len(helpers()))
for _ in range(10):
    transform(4)
first = helpers()
callers = [threading.Thread(target=lambda: [transform(4) for _ in range(20)]) for _ in range(16)]
for caller in callers: caller.start()
for caller in callers: caller.join()
transform(2)
print(len(first), sorted(helpers()) == sorted(first))
transform(6)
print(len(helpers()))
transform(10**9)
print(len(helpers()) <= max(64, os.cpu_count()))
""") == ["0", "3", "True", "5", "True"]


@on_linux
def test_idle_threads_take_no_time():
    assert run("""
transform(5)
def ticks():
    found = 0
    for task in helpers():
        with open(f"/proc/self/task/{task}/schedstat") as file:
            found += int(file.read().split()[0])
    return found
time.sleep(0.2)
before = ticks()
time.sleep(0.5)
print(ticks() - before)
""") == ["0"]


@on_linux
def test_helpers_get_no_signals():
    """A program that blocks a signal in its threads, to wait for it, must not be ended by it."""
    assert run("""
transform(3)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1)
""") == ["True"]


@on_linux
def test_helpers_may_run_where_their_caller_may():
    assert (
        run("""
allowed = os.sched_getaffinity(0)
def settled(wanted):
    while any(os.sched_getaffinity(task) != wanted for task in helpers()):
        assert np.array_equal(transform(3), expected)
    return os.sched_getaffinity(0) == wanted and len(helpers()) == 2
transform(3)
print(settled(allowed))
os.sched_setaffinity(0, {min(allowed)})
print(settled({min(allowed)}))
os.sched_setaffinity(0, allowed)
print(settled(allowed))
""")
        == ["True"] * 3
    )


@can_fork
def test_forks_while_other_threads_compute():
    """The child starts its own threads, whatever the threads of its parent did at the fork."""
    assert run("""
done = threading.Event()
def repeat():
    while not done.is_set():
        transform(3), normal_multiply(3)
callers = [threading.Thread(target=repeat) for _ in range(3)]
for caller in callers: caller.start()
codes = set()
for k in range(40):
    time.sleep(0.001 * k % 0.01)
    child = os.fork()
    if child == 0:
        same = np.array_equal(transform(3), expected) and np.array_equal(normal_multiply(2), summed)
        os._exit(7 if same else 8)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
for caller in callers: caller.join()
print(codes, np.array_equal(transform(3), expected))
""") == ["{7}", "True"]


@can_fork
@pytest.mark.parametrize("endless", ["compute_forever", "sum_forever"])
def test_a_signal_handler_that_forks(endless):
    """In the child, the threads that help with the call are missing, so the call fails."""
    assert run(f"""
parent, children = os.getpid(), []
def handle(*_):
    children.append(os.fork())
    if children[0]:
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    {endless}(3)
except RuntimeError as error:
    same = np.array_equal(transform(3), expected) and "a signal handler forked" in str(error)
    os._exit(7 if same else 8)
except KeyboardInterrupt:
    print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
print(np.array_equal(transform(3), expected))
""") == ["7", "True"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
@pytest.mark.parametrize("endless", ["compute_forever", "sum_forever"])
def test_interrupts_leave_the_threads_usable(endless):
    """A handler may also call the native core itself."""
    assert (
        run(f"""
def handle(*_):
    assert np.array_equal(transform(3), expected)
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handle)
for n_threads in (1, 2, 5):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        {endless}(n_threads)
    except KeyboardInterrupt:
        print("interrupted")
    assert np.array_equal(transform(n_threads), expected)
    assert np.array_equal(normal_multiply(n_threads), summed)
""")
        == ["interrupted"] * 3
    )


@pytest.mark.parametrize("endless", ["compute_forever", "sum_forever"])
def test_exit_while_a_daemon_thread_computes(endless):
    assert run(f"""
threading.Thread(target={endless}, args=(3,), daemon=True).start()
time.sleep(0.2)
print(np.array_equal(transform(3), expected), flush=True)
""") == ["True"]


def test_more_threads_than_rows():
    nodes = SphericalRadial().draw(20, 43, Gaussian(0.5), np.random.default_rng(0))
    native = _core.native_map(nodes, Gaussian(0.5), np.dtype(np.float64), "structured")
    for n_rows in (0, 1, 9):
        X = np.random.default_rng(0).standard_normal((n_rows, 20))
        one, many = np.full((2, n_rows, 43), np.nan)
        native.transform(X, one, 1, CORES[0])
        native.transform(X, many, 50, CORES[0])
        assert_array_equal(many, one)
