"""Test how many threads ``n_jobs`` means where others share the processors."""

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from quadfeat import QuadratureFeatures
from quadfeat.engine import threads
from quadfeat.engine.threads import (
    ENTRIES_PER_THREAD,
    VARIABLES,
    limit_of_environment,
    n_threads,
    one_blas_thread,
)

X = np.random.default_rng(0).standard_normal((2000, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch):
    """Pretend that this process may use eight processors, and that nothing limits BLAS."""
    monkeypatch.setattr(threads, "_count_processors", lambda allowed, wanted: 8)
    monkeypatch.setattr(threads, "ENVIRONMENT_LIMIT", None)
    with threadpool_limits(8):
        yield


def in_new_process(code, **environment):
    """Return what the code prints as JSON, in a process without variables that limit threads."""
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    script = f"import json\nfrom quadfeat.engine.threads import n_threads\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=clean | environment,
    )
    return json.loads(done.stdout)


def test_numbers():
    assert [n_threads(given) for given in (None, 1, 3, 20)] == [8, 1, 3, 20]
    assert [n_threads(given) for given in (-1, -2, -8, -50)] == [8, 7, 1, 1]


def test_small_results_take_one_thread():
    for n_jobs in (None, -1, 5):
        assert n_threads(n_jobs, 0) == n_threads(n_jobs, 2 * ENTRIES_PER_THREAD - 1) == 1
        assert n_threads(n_jobs, 3 * ENTRIES_PER_THREAD) == 3


def test_limits_of_threadpoolctl():
    # In a new process: the BLAS of faiss, if loaded, passes its limits on to OpenMP.
    found = in_new_process("""
from threadpoolctl import threadpool_limits
from quadfeat.engine import threads
threads._count_processors = lambda allowed, wanted: 8
found = []
with threadpool_limits(8):
    with threadpool_limits(3):
        found.append([n_threads(given) for given in (None, -1, -2, 5)])
    with threadpool_limits(2, user_api="blas"):
        found.append([n_threads(given) for given in (None, -1)])
    with threadpool_limits(2, user_api="openmp"):
        found.append([n_threads(given) for given in (None, -1)])
    found.append(n_threads(None))
print(json.dumps(found))
""")
    assert found == [[3, 3, 2, 5], [2, 8], [2, 2], 8]


def test_the_environment():
    assert limit_of_environment({}) is None
    for name in VARIABLES:
        assert limit_of_environment({name: "3", "PATH": "1"}) == 3
    assert limit_of_environment({"OMP_NUM_THREADS": "4,2", "MKL_NUM_THREADS": "6"}) == 4
    for meaningless in ("", "0", "-1", "many"):
        assert limit_of_environment({"OMP_NUM_THREADS": meaningless}) is None


def test_a_variable():
    assert in_new_process("print(n_threads(None))", MKL_NUM_THREADS="1") == 1


REPORT = """
import os, joblib
threads = lambda: [n_threads(None), n_threads(-1), joblib.cpu_count()]
report = {"all processors": threads()}
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    report["one processor"] = threads()
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def without_variables():
    """Report the threads that a process without limits uses, and joblib's count."""
    return in_new_process(REPORT)


def test_no_variable(without_variables):
    """Without limits, all processors are used: as many as joblib counts."""
    default, most, processors = without_variables["all processors"]
    assert default == most == processors
    assert in_new_process(REPORT, LOKY_MAX_CPU_COUNT="1")["all processors"] == [1, 1, 1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity(without_variables):
    assert without_variables["one processor"][:2] == [1, 1]


# A module that joblib's workers can import functions from.
JOBLIB = """
import sys
from concurrent.futures import ThreadPoolExecutor
from joblib import Parallel, delayed, parallel_config
def nested():
    return Parallel(n_jobs=2)(delayed(n_threads)(None) for _ in range(2))
def limited():
    with parallel_config("loky", inner_max_num_threads=1):
        return Parallel(n_jobs=2)(delayed(n_threads)(None) for _ in range(4))
if __name__ == "__main__":
    print(json.dumps({}))
"""


@pytest.fixture(scope="module")
def in_loky():
    """Report the threads of functions in two workers, by default and with a limit."""
    calls = "[delayed(n_threads)(None), delayed(n_threads)(-1), delayed(nested)()] * 2"
    script = JOBLIB.format(f"[Parallel(n_jobs=2)({calls}), limited()]")
    return in_new_process(script)


def test_two_workers_of_loky_share_the_processors(in_loky, without_variables):
    share = max(1, without_variables["all processors"][1] // 2)
    assert in_loky[0] == [share, share, [share, share]] * 2


def test_inner_max_num_threads(in_loky):
    assert in_loky[1] == [1] * 4


def test_parallel_config():
    for backend in ("loky", "threading"):
        with parallel_config(backend):
            assert n_threads(None) == 8
        for n_jobs, expected in {1: 1, 3: 3, -2: 7, 50: 8}.items():
            with parallel_config(backend, n_jobs=n_jobs):
                assert n_threads(None) == expected
                assert n_threads(5) == 5


def test_one_job_of_joblib_has_all_threads():
    """A grid search with its default n_jobs runs its fits one after another."""
    for n_jobs in (None, 1):
        assert Parallel(n_jobs=n_jobs)(delayed(n_threads)(None) for _ in range(2)) == [8, 8]


def _report(connection):
    connection.send(n_threads(None))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_multiprocessing():
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("the workers have to inherit the eight processors")
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(n_threads, [None, None, -1, 3]) == [1, 1, 8, 3]
    with parallel_config("multiprocessing"):
        assert Parallel(n_jobs=2)(delayed(n_threads)(None) for _ in range(4)) == [1] * 4
    receiver, sender = context.Pipe(duplex=False)
    alone = context.Process(target=_report, args=(sender,))  # not one of many
    alone.start()
    assert receiver.recv() == 8
    alone.join()


def test_a_variable_limits_workers_of_multiprocessing(monkeypatch):
    monkeypatch.setattr(threads, "ENVIRONMENT_LIMIT", 3)
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    assert n_threads(None) == 3
    monkeypatch.setattr(threads, "ENVIRONMENT_LIMIT", None)
    assert n_threads(None) == 1


def test_dask_workers_with_one_thread():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert client.gather(client.map(n_threads, [None] * 4, pure=False)) == [1] * 4


def test_results_do_not_depend_on_the_threads_that_are_left():
    features = QuadratureFeatures(n_components=400, rule="orf", random_state=0).fit(X)
    expected = features.transform(X)
    with threadpool_limits(1):
        assert_array_equal(features.transform(X), expected)
    for given in Parallel(n_jobs=3, backend="threading")(
        delayed(features.transform)(X) for _ in range(9)
    ):
        assert_array_equal(given, expected)


def test_overlapping_limits_of_blas_end_with_the_last_user():
    library = threads._libraries("blas")[0]
    before = library.num_threads
    with threadpool_limits(2, user_api="blas"):
        wanted = library.num_threads
        first, second = threads.one_blas_thread(), threads.one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert library.num_threads == 1
        second.__exit__(None, None, None)
        assert library.num_threads == wanted
    assert library.num_threads == before


def test_a_lock_that_an_interrupt_has_left_closed_does_not_block(monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE", 0.01)
    monkeypatch.setattr(threads, "_users", threads._Users())
    before = [library.num_threads for library in threads._libraries("blas")]
    abandoned = threads._users.lock
    with ThreadPoolExecutor(1) as pool:
        pool.submit(abandoned.acquire).result()
        with one_blas_thread(), one_blas_thread():
            assert {library.num_threads for library in threads._libraries("blas")} == {1}
        assert [library.num_threads for library in threads._libraries("blas")] == before
        pool.submit(abandoned.release).result()
