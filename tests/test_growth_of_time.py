"""Test how run time scales with outputs, classes, columns, blocks and alphas.

Each test fits an exponent to the best of several CPU times. Only ratios of times matter.
"""

import time

import numpy as np
import pytest

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.paths import choose_alpha
from quadfeat.solvers.ridge import RidgeProblem

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 4))
FEATURES = QuadratureFeatures(Gaussian(0.2), rule="orf", n_components=30, random_state=0).fit(X)


def exponent(prepare, sizes, repeats=4):
    """Return ``p`` in ``time ~ size ** p`` at the largest sizes. ``prepare`` returns the work."""
    best = np.full(len(sizes), np.inf)
    for _ in range(repeats):
        for index, size in enumerate(sizes):
            work = prepare(size)
            started = time.process_time()
            work()
            best[index] = min(best[index], time.process_time() - started)
    return float(np.polyfit(np.log(sizes[-2:]), np.log(best[-2:]), 1)[0])


def test_outputs():
    def prepare(n_outputs):
        Y = rng.standard_normal((600, n_outputs))
        model = QuadratureRidge(alpha=1.0, features=FEATURES)
        return lambda: model.fit(X, Y).predict(X[:10])

    # The products of all pairs of outputs are quadratic. Nothing is of a higher order.
    assert exponent(prepare, [100, 300, 900]) < 3.3


def test_classes():
    def prepare(n_classes):
        rows, y = np.vstack([X, X, X]), np.arange(1800) % n_classes
        model = QuadratureRidgeClassifier(alpha=1.0, features=FEATURES)
        return lambda: model.fit(rows, y).predict_proba(X[:10])

    assert exponent(prepare, [100, 300, 900]) < 3.3


def test_equations_of_many_outputs():
    def prepare(n_outputs):
        width = 30 + n_outputs + 1
        products = np.asfortranarray(np.eye(width) * 600.0)
        moments = Moments(products, np.zeros(n_outputs), 600, np.zeros(30))
        transform = rng.standard_normal((n_outputs + 1, n_outputs))
        return lambda: moments.normal_equations(intercept=True, transform=transform)

    assert exponent(prepare, [200, 400, 800]) < 3.3


def test_columns():
    def prepare(n_columns):
        rows = rng.standard_normal((300, n_columns))
        model = QuadratureRidge(Gaussian(1 / n_columns), alpha=1.0, n_components=64, rule="sr33")
        return lambda: model.fit(rows, rows[:, 0]).predict(rows[:10])

    assert exponent(prepare, [1000, 3000, 9000]) < 1.5


def test_blocks():
    def prepare(n_blocks):
        stream = [(X, X[:, 0])] * n_blocks
        model = QuadratureRidge(alpha=1.0, features=FEATURES)
        return lambda: model.fit(iter(stream))

    assert exponent(prepare, [20, 60, 180]) < 1.3


def test_batches():
    def prepare(n_batches):
        model = QuadratureRidge(alpha=1.0, features=FEATURES)

        def work():
            for _ in range(n_batches):
                model.partial_fit(X, X[:, 0])

        return work

    assert exponent(prepare, [10, 30, 90]) < 1.3


@pytest.mark.parametrize("criterion", ["gcv", "evidence", "loo"])
def test_alphas(criterion):
    Z = FEATURES.transform(X)
    table = np.column_stack([Z, X[:, 0], np.ones(600)])
    moments = Moments(np.asfortranarray(np.triu(table.T @ table)), np.zeros(1), 600, np.zeros(30))

    def prepare(n_alphas):
        def left_out(spectral, alphas):
            return spectral.left_out(alphas, Z, X[:, :1])

        alphas = np.geomspace(1e-3, 1e3, n_alphas)
        return lambda: choose_alpha(RidgeProblem(moments, True), criterion, alphas, left_out)

    assert exponent(prepare, [300, 1000, 4000]) < 1.5
