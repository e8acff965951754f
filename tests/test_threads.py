"""Test threads that share a model: no rows are lost, and no thread sees a partial fit."""

import copy
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from quadfeat import (
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    load,
    save,
    transform_into,
)
from quadfeat._utils.fitted import changing, snapshot
from quadfeat.io.encoding import NOT_KEPT

rng = np.random.default_rng(0)
X = rng.standard_normal((400, 3))
y = np.sin(X[:, 0]) + X[:, 1]
LABELS = (y > 0).astype(int)
FEATURES = QuadratureFeatures(n_components=20, rule="orf", random_state=0).fit(X)


@pytest.fixture(autouse=True)
def switching_often():
    """Switch threads as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works, times=1):
    """Run each function in its own thread, start all together, and re-raise their errors."""
    barrier = threading.Barrier(len(works) * times)

    def run(work):
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works) * times) as pool:
        futures = [pool.submit(run, work) for work in works for _ in range(times)]
        return [future.result() for future in futures]


def unless_of_other_width(method, rows):
    """Call a method. Return None if the model has been fitted to other columns meanwhile."""
    try:
        return method(rows)
    except ValueError as error:
        if f"X has {rows.shape[1]} features, but Quadrature" not in str(error):
            raise
        return None


@pytest.mark.parametrize("first", ["fresh", "fitted"])
def test_no_batch_is_lost(first):
    model = QuadratureRidge(alpha=1.0, features=FEATURES)
    if first == "fitted":
        model.fit(X, y)
    together(lambda: model.partial_fit(X[:100], y[:100]), times=63)
    expected = 6300 + (400 if first == "fitted" else 0)
    assert model._solution.summary.moments.n_rows == expected
    weights = np.where(np.arange(400) < 100, 63.0, 0.0) + (first == "fitted")
    whole = QuadratureRidge(alpha=1.0, features=FEATURES).fit(X, y, weights)
    assert_allclose(model.predict(X), whole.predict(X), atol=1e-5)


def test_no_merge_is_lost():
    model = QuadratureRidgeClassifier(alpha=1.0, features=FEATURES).fit(X, LABELS)
    parts = [
        QuadratureRidgeClassifier(alpha=1.0, features=FEATURES).fit(X, LABELS) for _ in range(20)
    ]
    together(*(lambda part=part: model.merge(part) for part in parts))
    assert model._solution.summary.moments.n_rows == 8400


def test_two_models_merged_into_each_other():
    left, right = (QuadratureRidge(alpha=1.0, features=FEATURES).fit(X, y) for _ in range(2))
    together(lambda: left.merge(right), lambda: right.merge(left), times=5)
    rows = [model._solution.summary.moments.n_rows for model in (left, right)]
    assert all(count >= 400 * 6 for count in rows)


def test_predictions_come_from_a_single_fit():
    """Alternate fits to two tables with different numbers of columns and outputs."""
    tables = [(X, y), (X[:, :2], np.column_stack([y, -y]))]
    model = QuadratureRidge("gaussian", alpha=1.0, n_components=20, rule="orf", random_state=0)
    expected = [copy.deepcopy(model).fit(*table).predict(table[0][:30]) for table in tables]
    model.fit(*tables[0])
    stop = threading.Event()

    def refit():
        for turn in range(60):
            model.fit(*tables[turn % 2])
        stop.set()

    def look():
        seen = set()
        while not stop.is_set():
            for which, (rows, _) in enumerate(tables):
                found = unless_of_other_width(model.predict, rows[:30])
                if found is not None:
                    assert_array_equal(found, expected[which])
                    seen.add(which)
            held = snapshot(model)
            assert held.coef_.ndim == (1 if held.n_features_in_ == 3 else 2)
            loaded = pickle.loads(pickle.dumps(model))
            width = loaded.n_features_in_
            assert loaded.features_.n_features_in_ == width
            assert loaded.coef_.ndim == (1 if width == 3 else 2)
        return seen

    _, *seen = together(refit, look, look)
    assert set().union(*seen) == {0, 1}


def test_features_come_from_a_single_fit():
    tables = [X, X[:, :2]]
    features = QuadratureFeatures(n_components=20, rule="orf", random_state=0)
    expected = [copy.deepcopy(features).fit(table).transform(table) for table in tables]
    features.fit(X)
    stop = threading.Event()

    def refit():
        for turn in range(60):
            features.fit(tables[turn % 2])
        stop.set()

    def look():
        out = np.empty((400, 20))
        while not stop.is_set():
            for table, right in zip(tables, expected, strict=True):
                for transform in (features.transform, partial(transform_into, features, out=out)):
                    found = unless_of_other_width(transform, table)
                    assert found is None or np.array_equal(found, right)

    together(refit, look, look)


def test_files_contain_a_single_state(tmp_path):
    model = QuadratureRidge(features=FEATURES, alpha="gcv").fit(X, y)
    stop = threading.Event()

    def add():
        for _ in range(40):
            model.partial_fit(X, y)
        stop.set()

    def write():
        path = tmp_path / f"{threading.get_ident()}"
        while not stop.is_set():
            save(model, path)
            assert load(path)._solution.summary.moments.n_rows % 400 == 0

    together(add, write, write)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork")
def test_a_forked_child_does_not_wait_for_locks_of_its_parent():
    model = QuadratureRidge(alpha=1.0, features=FEATURES).fit(X, y)
    locked, done = threading.Event(), threading.Event()

    def hold():
        with changing(model):
            locked.set()
            done.wait()

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        locked.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # ends a child that waits forever
            model.partial_fit(X, y)
            os._exit(0 if model._solution.summary.moments.n_rows == 800 else 1)
        _, status = os.waitpid(child, 0)
        done.set()
        held.result()
    assert os.waitstatus_to_exitcode(status) == 0


class Computes:
    """Simulate another thread that computes an attribute while the object is written."""

    def __init__(self, thing, name):
        self.thing, self.name = thing, name

    def __reduce__(self):
        getattr(self.thing, self.name)
        return (int, ())

    def __contains__(self, attribute):
        if attribute in vars(self.thing):
            getattr(self.thing, self.name)
        return attribute in NOT_KEPT


class TestAttributesComputedWhileAnObjectIsWritten:
    def model(self):
        return QuadratureRidge(alpha=1.0, features=FEATURES).partial_fit(X, y)

    @pytest.mark.parametrize(
        ("find", "name"),
        [
            (lambda model: model._solution, "posterior"),
            (lambda model: model._solution.posterior, "_factor"),
            (lambda model: pickle.loads(pickle.dumps(model)).features_.nodes_, "longest"),
        ],
    )
    def test_pickle(self, find, name):
        thing = find(self.model())
        vars(thing).pop(name, None)
        # This attribute is written first.
        attributes = dict(vars(thing))
        vars(thing).clear()
        vars(thing).update({"first": Computes(thing, name)} | attributes)
        state = pickle.dumps(thing)
        assert name in vars(thing)
        unsaved = getattr(thing, "unsaved_attributes", ())
        assert vars(pickle.loads(state)).keys() == {"first", *attributes}.difference(unsaved)

    def test_save(self, tmp_path, monkeypatch):
        model = self.model()
        assert "posterior" not in vars(model._solution)
        monkeypatch.setattr("quadfeat.io.encoding.NOT_KEPT", Computes(model._solution, "posterior"))
        save(model, tmp_path / "model")
        assert "posterior" in vars(model._solution)
        assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
