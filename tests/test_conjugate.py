"""Conjugate gradients against direct solutions, and the bound that stops them against the truth."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from quadfeat import QuadratureFeatures
from quadfeat.conjugate import Nystrom, advance, begin
from quadfeat.kernels import Gaussian
from quadfeat.products import FeatureProducts
from quadfeat.systems import borders_of_block, sum_pairs

EPS = float(np.finfo(np.float64).eps)


def problem(n=120, n_rows=300, n_outputs=2, decay=0.1, seed=0):
    """Return rows whose products have eigenvalues over many orders, and targets."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    Z = rng.standard_normal((n_rows, n)) * np.exp(-decay * np.arange(n)) @ turn
    return Z, rng.standard_normal((n_rows, n_outputs))


def start(Z, Y, alpha, seed=0):
    A, right = Z.T @ Z, Z.T @ Y
    return A, right, begin(lambda V: A @ V, right, alpha, EPS, np.random.default_rng(seed))


def run(Z, Y, alpha, tol=1e-10, max_iter=400, **options):
    A, right, state = start(Z, Y, alpha)
    scales = np.linalg.norm(Y, axis=0)
    converged = advance(
        lambda V: A @ V, right, scales, state, tol=tol, max_iter=max_iter, **options
    )
    return state, converged


@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 1.0, 1e6])
@pytest.mark.parametrize("n_outputs", [1, 2, 7])
def test_solution_is_the_direct_one(alpha, n_outputs):
    Z, Y = problem(n_outputs=n_outputs)
    state, converged = run(Z, Y, alpha)
    expected = np.linalg.solve(Z.T @ Z + alpha * np.eye(120), Z.T @ Y)
    assert converged
    assert_allclose(Z @ state.coefficients, Z @ expected, atol=1e-8)
    residual = Z.T @ Y - Z.T @ (Z @ state.coefficients) - alpha * state.coefficients
    assert_allclose(state.residual, residual, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-4, 1e-1, 10.0])
def test_the_bound_is_one_at_every_step(alpha):
    Z, Y = problem()
    matrix = Z.T @ Z + alpha * np.eye(120)
    expected = np.linalg.solve(matrix, Z.T @ Y)
    scales = np.linalg.norm(Y, axis=0)
    found = []

    def look(state):
        wrong = state.coefficients - expected
        energy = np.sqrt(np.einsum("ij,ij->j", wrong, matrix @ wrong))
        fitted = np.linalg.norm(Z @ wrong, axis=0)
        bound = state.approximation.bound(state.residual)
        found.append((fitted / scales, energy / scales, bound / scales))
        assert state.errors[-1] == pytest.approx((bound / scales).max())

    run(Z, Y, alpha, after_step=look)
    assert len(found) > 1
    for fitted, energy, bound in found:
        assert (fitted <= energy * (1 + 1e-6) + 1e-12).all()
        assert (energy <= bound * (1 + 1e-6) + 1e-12).all()


@given(st.integers(0, 10_000), st.floats(0.0, 0.5), st.floats(-6, 2))
@settings(max_examples=30, deadline=None)
def test_the_approximation_is_below_the_matrix(seed, decay, log_alpha):
    Z, _ = problem(n=40, n_rows=60, decay=decay, seed=seed)
    A = Z.T @ Z
    alpha = 10.0**log_alpha
    found = Nystrom.of(lambda V: A @ V, 40, alpha, EPS, np.random.default_rng(seed))
    below = found.vectors * found.values @ found.vectors.T
    assert np.linalg.eigvalsh(A - below)[0] >= -1e-12 * np.linalg.norm(A, 2)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(len(found.values)), atol=1e-12)
    assert (np.diff(found.values) <= 0).all()
    # The bound is that with the approximation in the place of the matrix.
    residual = np.random.default_rng(seed).standard_normal((40, 3))
    expected = np.linalg.solve(below + alpha * np.eye(40), residual)
    expected = np.sqrt(np.einsum("ij,ij->j", residual, expected))
    assert_allclose(found.bound(residual), expected, rtol=1e-6)


def test_the_preconditioner_undoes_the_large_eigenvalues():
    Z, _ = problem(n=400, n_rows=500, decay=0.05)
    A, alpha = Z.T @ Z, 1e-3
    found = Nystrom.of(lambda V: A @ V, 400, alpha, EPS, np.random.default_rng(0))
    conditioned = found.precondition(A + alpha * np.eye(400))
    values = np.linalg.eigvals(conditioned).real
    before = np.linalg.cond(A + alpha * np.eye(400))
    assert values.max() / values.min() < before / 100


def test_the_preconditioner_saves_steps(monkeypatch):
    Z, Y = problem(n=400, n_rows=500, decay=0.03)
    fast, converged = run(Z, Y, 1e-3, tol=1e-6)
    assert converged
    monkeypatch.setattr(Nystrom, "precondition", lambda self, right: right)
    slow, _ = run(Z, Y, 1e-3, tol=1e-6)
    assert fast.n_iter < slow.n_iter / 2


def test_outputs_that_depend_on_each_other():
    Z, Y = problem(n_outputs=1)
    Y = np.column_stack([Y, 2 * Y, -Y, Y + 1e-13, np.zeros_like(Y)])
    state, converged = run(Z, Y, 0.1)
    expected = np.linalg.solve(Z.T @ Z + 0.1 * np.eye(120), Z.T @ Y)
    assert converged
    assert state.directions.shape[1] < 5
    assert_allclose(Z @ state.coefficients, Z @ expected, atol=1e-8)
    assert_array_equal(state.coefficients[:, 4], 0.0)


def test_outputs_of_very_different_size():
    Z, Y = problem(n_outputs=3)
    units = np.array([1e-150, 1.0, 1e150])
    state, converged = run(Z, Y * units, 0.1)
    expected = np.linalg.solve(Z.T @ Z + 0.1 * np.eye(120), Z.T @ Y)
    assert converged
    assert_allclose(Z @ (state.coefficients / units), Z @ expected, atol=1e-8)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_nothing_to_solve(n_outputs):
    Z, _ = problem()
    state, converged = run(Z, np.zeros((300, n_outputs)), 0.1)
    assert converged
    assert state.n_iter == 0
    assert_array_equal(state.coefficients, 0.0)
    # And a matrix of zeros, whose approximation has no columns.
    rng = np.random.default_rng(0)
    right = rng.standard_normal((20, n_outputs))
    state = begin(np.zeros_like, right, 0.5, EPS, rng)
    assert advance(np.zeros_like, right, np.ones(n_outputs), state, tol=1e-10, max_iter=5)
    assert_allclose(state.coefficients, right / 0.5)


def test_a_state_goes_on_as_if_it_had_not_been_left():
    Z, Y = problem(decay=0.02)
    whole, _ = run(Z, Y, 1e-3)
    assert whole.n_iter > 8
    A, right, state = start(Z, Y, 1e-3)
    for max_iter in (3, 5, 400):
        state = copy.deepcopy(state)
        converged = advance(
            lambda V: A @ V,
            right,
            np.linalg.norm(Y, axis=0),
            state,
            tol=1e-10,
            max_iter=max_iter,
        )
        assert converged == (max_iter == 400)
    assert_array_equal(state.coefficients, whole.coefficients)
    assert state.errors == whole.errors
    # It is done, and stays so.
    again = copy.deepcopy(state)
    assert advance(
        lambda V: A @ V, right, np.linalg.norm(Y, axis=0), again, tol=1e-10, max_iter=400
    )
    assert_array_equal(again.coefficients, whole.coefficients)
    assert again.n_iter == whole.n_iter


def test_steps_end_where_they_are_told_to():
    Z, Y = problem(decay=0.02)
    state, converged = run(Z, Y, 1e-3, max_iter=4)
    assert not converged
    assert state.n_iter == 4
    assert state.errors[-1] > 1e-10
    loose, converged = run(Z, Y, 1e-3, tol=1e-2)
    assert converged
    assert loose.n_iter < run(Z, Y, 1e-3)[0].n_iter
    assert loose.errors[-1] <= 1e-2 < min([1.0, *loose.errors[:-1]])


class TestSystems:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    Y = rng.standard_normal((90, 2))
    weights = rng.uniform(0, 2, 90)

    def test_borders_add_up(self):
        features = QuadratureFeatures(Gaussian(0.3), n_components=20, random_state=0).fit(self.X)
        products, Z = FeatureProducts(features), features.transform(self.X)
        columns = np.column_stack([self.Y, np.ones(90)])
        for weights in (None, self.weights):
            borders, corner = sum_pairs(
                borders_of_block(
                    products, self.X[part], self.Y[part], None if weights is None else weights[part]
                )
                for part in np.array_split(np.arange(90), 4)
            )
            weighted = columns if weights is None else columns * weights[:, None]
            assert_allclose(borders, Z.T @ weighted, atol=1e-10)
            assert_allclose(corner, columns.T @ weighted, atol=1e-10)
