"""Stress tests: memory, threads, processes and interrupts."""

import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import joblib
import numpy as np
import psutil
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import quadfeat
from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier, transform_into
from quadfeat._utils.lazy import cached_property
from quadfeat.kernels import Gaussian, Matern

PACKAGE = os.path.dirname(quadfeat.__file__)

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 30))
y = np.sin(X[:, 0])
LABELS = rng.integers(0, 3, len(X))


def fitted_map(**parameters):
    defaults = {"rule": "sr33", "n_components": 63, "random_state": 0}
    return QuadratureFeatures(**(defaults | parameters)).fit(X)


OWN_MAP = {"kernel": Gaussian(0.1), "rule": "sr33", "n_components": 63, "random_state": 0}


def with_defaults(parameters):
    return {"alpha": 1.0} | ({} if "features" in parameters else OWN_MAP) | parameters


def regressor(**parameters):
    return QuadratureRidge(**with_defaults(parameters))


def classifier(**parameters):
    return QuadratureRidgeClassifier(**with_defaults(parameters))


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


class TestMemory:
    """Test that calls free their memory. A leak of one small array per call would show."""

    def growth(self, call, times):
        """Return how many bytes the process grows over these calls, after as many to warm up."""
        process = psutil.Process()
        for _ in range(max(50, times // 10)):
            call()
        gc.collect()
        before = process.memory_info().rss
        for _ in range(times):
            call()
        gc.collect()
        return process.memory_info().rss - before

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_ten_thousand_transforms(self, dtype):
        features, rows = fitted_map(n_jobs=2), X.astype(dtype)
        # One leaked result in a hundred calls would add up to 1.5 MB.
        assert self.growth(lambda: features.transform(rows), 10_000) < 2**20

    def test_transforms_into_a_buffer_and_of_sparse_rows(self):
        features, out = fitted_map(), np.empty((60, 63))
        rows = sparse.csr_array(X)
        assert self.growth(lambda: transform_into(features, X, out), 5_000) < 2**20
        assert self.growth(lambda: features.transform(rows), 2_000) < 2**20

    def test_rejected_calls(self):
        features, wrong = fitted_map(), X.copy()
        wrong[3, 4] = np.nan

        def refused():
            for rows in (wrong, X[:, :5]):
                with pytest.raises(ValueError, match=r"NaN|features"):
                    features.transform(rows)

        assert self.growth(refused, 1_000) < 2**20

    def test_fits_and_compiled_maps(self):
        def fit():
            fitted_map().transform(X)

        assert self.growth(fit, 300) < 2**21

    def test_models_and_pickles(self):
        model = regressor().fit(X, y)

        def use():
            model.partial_fit(X, y)
            pickle.loads(pickle.dumps(model)).predict(X, return_std=True)

        assert self.growth(use, 300) < 2**21

    def test_a_map_is_freed_with_its_last_reference(self):
        """Maps have no reference cycles, so memory does not wait for the garbage collector."""
        features = fitted_map()
        features.transform(X)
        compiled = features.map_.engine_for(X)
        model = regressor(features=features).fit(X, y)
        model.predict(X)
        gone = [weakref.ref(thing) for thing in (features, compiled, model)]
        gc.disable()
        try:
            del features, compiled, model
            assert [reference() for reference in gone] == [None] * 3
        finally:
            gc.enable()


class TestThreads:
    N = 32

    def at_once(self, *calls):
        """Return the results of calls made by threads that start together."""
        barrier = threading.Barrier(len(calls))

        def run(call):
            barrier.wait()
            return call()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(run, calls))

    @pytest.mark.parametrize("rule", ["sr33", "rom", "rff"])
    def test_a_map_on_first_use(self, rule):
        fitted = fitted_map(rule=rule, n_jobs=2)
        expected = {dtype: fitted.transform(X.astype(dtype)) for dtype in ("f4", "f8")}
        for _ in range(5):
            fresh = pickle.loads(pickle.dumps(fitted))  # has to be compiled again
            dtypes = ["f4", "f8"] * (self.N // 2)
            calls = [partial(fresh.transform, X.astype(dtype)) for dtype in dtypes]
            for dtype, given in zip(dtypes, self.at_once(*calls), strict=True):
                assert_array_equal(given, expected[dtype])

    def test_many_maps(self):
        maps = [fitted_map(random_state=seed, n_components=50 + seed) for seed in range(self.N)]
        expected = [one.transform(X) for one in maps]
        calls = [lambda one=one: clone(one).fit(X).transform(X) for one in maps]
        for given, wanted in zip(self.at_once(*calls), expected, strict=True):
            assert_array_equal(given, wanted)

    def test_a_model_that_is_solved_on_first_use(self):
        model = regressor(alpha="gcv").partial_fit(X, y)
        expected = pickle.loads(pickle.dumps(model)).predict(X, return_std=True)
        calls = [lambda: model.predict(X, return_std=True)] * self.N
        for mean, deviation in self.at_once(*calls):
            assert_allclose(mean, expected[0], rtol=1e-12, atol=1e-12)
            assert_allclose(deviation, expected[1], rtol=1e-12)

    def test_one_classifier(self):
        model = classifier().partial_fit(X, LABELS)
        expected = pickle.loads(pickle.dumps(model)).predict_proba(X)
        for given in self.at_once(*[lambda: model.predict_proba(X)] * self.N):
            assert_allclose(given, expected, rtol=1e-10)

    def test_lazy_attributes_hold_no_lock(self):
        """A process forked in the meantime would inherit the lock and wait forever."""
        both_compute = threading.Barrier(2, timeout=120)

        class Slow:
            @cached_property
            def value(self):
                both_compute.wait()
                return 1

        assert self.at_once(*[lambda: Slow().value] * 2) == [1, 1]

    def test_a_model_predicts_while_rows_are_added(self):
        """Every prediction is that of the model before a batch or after it."""
        model = regressor().fit(X, y)
        batches = [rng.standard_normal((20, 30)) for _ in range(8)]
        states = [copy.copy(model)]
        for batch in batches:
            states.append(copy.copy(states[-1]).partial_fit(batch, batch[:, 0]))
        allowed = np.array([state.predict(X) for state in states])
        found, done = [], threading.Event()

        def look():
            while not done.is_set():
                found.append(model.predict(X))

        watchers = [threading.Thread(target=look) for _ in range(4)]
        for watcher in watchers:
            watcher.start()
        for batch in batches:
            model.partial_fit(batch, batch[:, 0])
        done.set()
        for watcher in watchers:
            watcher.join()
        for prediction in found:
            assert np.abs(allowed - prediction).max(axis=1).min() < 1e-9
        assert_allclose(model.predict(X), allowed[-1], atol=1e-9)


class TestProcesses:
    @pytest.mark.parametrize("mode", ["fork", "spawn"])
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_pools_after_threads_have_run(self, mode):
        if mode not in multiprocessing.get_all_start_methods():
            pytest.skip(f"this system does not support {mode}")
        features = fitted_map(n_jobs=2)
        model = regressor(features=features, n_jobs=-1).fit(X, y)
        with ThreadPoolExecutor(4) as pool:  # a fork must not inherit their locks
            list(pool.map(features.transform, [X] * 16))
        parts = np.array_split(X, 4)
        with multiprocessing.get_context(mode).Pool(2) as pool:
            mapped = pool.map(features.transform, parts)
            predicted = pool.map(model.predict, parts)
        assert_array_equal(np.vstack(mapped), features.transform(X))
        assert_allclose(np.concatenate(predicted), model.predict(X), rtol=1e-12)

    def test_memory_maps_of_joblib(self):
        """joblib passes large arrays to workers as read-only memory maps."""
        features = fitted_map()
        model, labelled = regressor(features=features), classifier(features=features)

        def work(rows, targets, classes):
            assert isinstance(rows, np.memmap)
            assert not rows.flags.writeable
            ridge = clone(model).set_params(features=features).fit(rows, targets)
            ridge.partial_fit(rows, targets)
            labels = clone(labelled).set_params(features=features).fit(rows, classes)
            return (
                features.transform(rows),
                ridge.predict(rows),
                labels.predict_proba(rows),
                clone(features).fit(rows, sample_weight=np.abs(targets)).transform(rows),
                features.kernel_(rows),
            )

        given = Parallel(n_jobs=2, max_nbytes=1)(delayed(work)(X, y, LABELS) for _ in range(2))
        ridge = clone(model).set_params(features=features).fit(X, y).partial_fit(X, y)
        labels = clone(labelled).set_params(features=features).fit(X, LABELS)
        expected = (
            features.transform(X),
            ridge.predict(X),
            labels.predict_proba(X),
            clone(features).fit(X, sample_weight=np.abs(y)).transform(X),
            features.kernel_(X),
        )
        for results in given:
            for found, wanted in zip(results, expected, strict=True):
                assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)

    def test_a_memory_mapped_model(self, tmp_path):
        """All arrays of the model are read-only. New rows are summed in other arrays."""
        expected = classifier().fit(X, LABELS)
        joblib.dump(expected, tmp_path / "model")
        mapped = joblib.load(tmp_path / "model", mmap_mode="r")
        assert isinstance(mapped._solution.summary.moments.products, np.memmap)
        assert_array_equal(mapped.predict_proba(X), expected.predict_proba(X))
        mapped.partial_fit(X, LABELS)
        expected.partial_fit(X, LABELS)
        assert_allclose(mapped.predict_proba(X), expected.predict_proba(X), rtol=1e-12)
        mapped.merge(joblib.load(tmp_path / "model", mmap_mode="r"))
        expected.merge(classifier().fit(X, LABELS))
        assert_allclose(mapped.decision_function(X), expected.decision_function(X), rtol=1e-9)

    # Leave-one-out leaves out both copies of a row that is added twice, unlike GCV.
    @pytest.mark.filterwarnings("ignore:alpha='gcv' alone would choose")
    def test_read_only_arrays_everywhere(self):
        weights, scales = np.abs(y), np.linspace(0.1, 0.3, 30)
        rows = sparse.csr_array(X)
        for part in (rows.data, rows.indices, rows.indptr):
            part.flags.writeable = False

        def results(X, y, labels, weights, scales, rows):
            features = QuadratureFeatures(
                Gaussian(scales), rule="sr33", n_components=63, random_state=0
            ).fit(X, sample_weight=weights)
            model = regressor(features=features, alpha=np.array([0.1, 1.0])).fit(X, y, weights)
            model.partial_fit(X, y, weights)
            labelled = classifier(features=features).fit(rows, labels, weights)
            conjugate = regressor(features=features, solver="cg", random_state=0)
            conjugate.fit(X, y, weights)
            mean, deviation = model.predict(X, return_std=True)
            return [
                *(features.transform(X), features.kernel_(X), features.approximate_kernel(rows)),
                *(mean, deviation, model.sample_y(X), labelled.predict_proba(rows)),
                *(conjugate.predict(X), Matern(1.5, length_scale=scales)(X, rows)),
            ]

        given = results(*map(read_only, (X, y, LABELS, weights, scales)), rows)
        expected = results(X, y, LABELS, weights, scales, sparse.csr_array(X))
        for found, wanted in zip(given, expected, strict=True):
            assert_array_equal(found, wanted)

    @pytest.mark.parametrize("daemon", [True, False])
    def test_the_end_of_a_process_is_quiet(self, daemon):
        """Exit with live maps and with threads in the middle of a transform."""
        script = f"""
import sys, threading, time
import numpy as np
from quadfeat import QuadratureFeatures
X = np.ones((20000, 100), dtype=np.float32)
features = QuadratureFeatures(rule="sr33", n_components=500, random_state=0, n_jobs=2).fit(X[:9])
sys.features = features
features.itself = features
started = threading.Event()
def work():
    while {daemon}:
        started.set()
        features.transform(X)
    started.set()
    features.transform(X)
threads = [threading.Thread(target=work, daemon={daemon}) for _ in range(3)]
for thread in threads:
    thread.start()
started.wait()
print("end", flush=True)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


class Interrupt:
    """Raise KeyboardInterrupt before the ``at``-th line that this thread runs in the package."""

    def __init__(self, at):
        self.at, self.lines = at, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return self

    def __exit__(self, kind, error, traceback):
        sys.settrace(self.before)
        return kind is KeyboardInterrupt

    def trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self.trace


class TestInterrupts:
    """An interrupt on any line leaves the state before the call or the state after it."""

    def outcomes(self, prepare, call, state):
        """Return how many interrupts left the earlier state and how many the later state."""
        before, after = prepare(), prepare()
        call(after)
        before_state, after_state = state(before), state(after)
        assert not np.allclose(before_state, after_state)
        thing = prepare()
        with Interrupt(at=None) as whole:
            call(thing)
        left = [0, 0]
        step = max(1, whole.lines // 60)
        for line in {*range(1, whole.lines, step), *range(max(1, whole.lines - 15), whole.lines)}:
            thing = prepare()
            with Interrupt(line) as interrupt:
                call(thing)
            assert interrupt.lines >= line
            found = state(thing)
            kept, changed = (np.allclose(found, s, rtol=1e-9) for s in (before_state, after_state))
            assert kept or changed
            left[changed] += 1
            # The next call works as if there had been no interrupt.
            if kept:
                call(thing)
                assert_allclose(state(thing), after_state, rtol=1e-9, atol=1e-12)
        return left

    def test_fit_of_a_map(self):
        kept, _ = self.outcomes(
            lambda: fitted_map(rule="rff").set_params(random_state=1, rule="sr33"),
            lambda features: features.fit(X[:20] * 2),
            lambda features: features.transform(X[:3]),
        )
        assert kept > 50

    def test_an_interrupted_first_fit_leaves_the_map_unfitted(self):
        for model, targets in ((regressor(), y), (classifier(), LABELS)):
            for line in range(1, 400, 29):
                thing = clone(model)
                with Interrupt(line):
                    thing.fit(X, targets)
                with pytest.raises(NotFittedError):
                    thing.predict(X)
                assert_array_equal(
                    thing.fit(X, targets).predict(X), model.fit(X, targets).predict(X)
                )

    @pytest.mark.parametrize("what", ["partial_fit", "merge", "fit"])
    def test_regression(self, what):
        features = fitted_map()
        other = regressor(features=features).fit(X[20:], y[20:] + 5)
        calls = {
            "partial_fit": lambda model: model.partial_fit(X[20:], y[20:] + 5),
            "merge": lambda model: model.merge(other),
            "fit": lambda model: model.fit(X[20:], y[20:] + 5),
        }
        start = pickle.dumps(regressor(features=features).fit(X[:20], y[:20]))
        kept, _ = self.outcomes(
            lambda: pickle.loads(start),
            calls[what],
            lambda model: np.append(model.predict(X[:3]), model._solution.summary.moments.n_rows),
        )
        assert kept > 20

    @pytest.mark.parametrize("what", ["partial_fit", "merge"])
    def test_classification_with_a_new_class(self, what):
        features = fitted_map()
        first, second = LABELS < 2, np.arange(len(X)) >= 20
        other = classifier(features=features).fit(X[second], LABELS[second])
        calls = {
            "partial_fit": lambda model: model.partial_fit(X[second], LABELS[second]),
            "merge": lambda model: model.merge(other),
        }
        start = pickle.dumps(classifier(features=features).fit(X[first], LABELS[first]))

        def state(model):
            shares = np.zeros((3, 3))
            shares[:, model.classes_] = model.predict_proba(X[:3])
            return shares

        kept, _ = self.outcomes(lambda: pickle.loads(start), calls[what], state)
        assert kept > 20

    def test_a_fit_with_a_checkpoint_resumes(self, tmp_path, monkeypatch):
        monkeypatch.setattr("quadfeat.data.checkpoints.SECONDS", 0.0)
        monkeypatch.setattr("quadfeat.data.checkpoints.TIMES_AS_LONG", 0.0)
        monkeypatch.setattr("quadfeat.solvers.accumulator.ROWS_PER_BLOCK", (10, 10))
        expected = regressor().fit(X, y).predict(X)
        model = regressor(checkpoint=tmp_path / "state")
        resumed = 0
        with Interrupt(at=None) as whole:
            clone(model).fit(X, y)
        for line in range(1, whole.lines, 1 + whole.lines // 40):
            thing = clone(model)
            with Interrupt(line):
                thing.fit(X, y)
            resumed += (tmp_path / "state").exists()
            assert_array_equal(clone(model).fit(X, y).predict(X), expected)
            assert not (tmp_path / "state").exists()
        assert resumed > 5
