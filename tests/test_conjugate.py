"""Compare conjugate gradients with direct solutions, and their error bound with the true error."""

import copy
import warnings
from functools import reduce

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian
from quadfeat.solvers.krylov import Nystrom, advance, begin, solve
from quadfeat.solvers.systems import (
    Residuals,
    System,
    borders_of_block,
    residuals_of_block,
    sum_pairs,
)
from slow import slow

EPS = float(np.finfo(np.float64).eps)


def problem(n=120, n_rows=300, n_outputs=2, decay=0.1, seed=0):
    """Return rows whose Gram matrix has eigenvalues of many magnitudes, and targets."""
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
def test_solution_agrees_with_the_direct_one(alpha, n_outputs):
    Z, Y = problem(n_outputs=n_outputs)
    state, converged = run(Z, Y, alpha)
    expected = np.linalg.solve(Z.T @ Z + alpha * np.eye(120), Z.T @ Y)
    assert converged
    assert_allclose(Z @ state.coefficients, Z @ expected, atol=1e-8)
    residual = Z.T @ Y - Z.T @ (Z @ state.coefficients) - alpha * state.coefficients
    assert_allclose(state.residual, residual, atol=1e-9)


@pytest.mark.parametrize("alpha", [1e-4, 1e-1, 10.0])
def test_the_bound_holds_at_every_step(alpha):
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
def test_the_approximation_is_a_lower_bound_of_the_matrix(seed, decay, log_alpha):
    Z, _ = problem(n=40, n_rows=60, decay=decay, seed=seed)
    A = Z.T @ Z
    alpha = 10.0**log_alpha
    found = Nystrom.of(lambda V: A @ V, 40, alpha, EPS, np.random.default_rng(seed))
    below = found.vectors * found.values @ found.vectors.T
    assert np.linalg.eigvalsh(A - below)[0] >= -1e-12 * np.linalg.norm(A, 2)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(len(found.values)), atol=1e-12)
    assert (np.diff(found.values) <= 0).all()
    # The bound uses the approximation instead of the matrix.
    residual = np.random.default_rng(seed).standard_normal((40, 3))
    expected = np.linalg.solve(below + alpha * np.eye(40), residual)
    expected = np.sqrt(np.einsum("ij,ij->j", residual, expected))
    assert_allclose(found.bound(residual), expected, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [1e-4, 0.1])  # features that hardly vary, and features that do
@pytest.mark.parametrize("centered", [False, True])
def test_the_approximation_is_a_lower_bound_of_rounded_products(gamma, weighted, centered):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (3000, 3)).astype(np.float32)
    weights = rng.uniform(0, 3, 3000) if weighted else np.ones(3000)
    features = QuadratureFeatures(Gaussian(gamma), n_components=120, random_state=0).fit(X)
    products, Z = features.map_, features.transform(X).astype(np.float64)
    means = weights @ Z / weights.sum() * centered
    outer = weights.sum() * np.outer(means, means)

    def multiply(V):
        return products.normal_multiply(X, V, weights) - outer @ V

    A = (Z - means).T @ (weights[:, None] * (Z - means))
    found = Nystrom.of(multiply, 120, 1.0, float(np.finfo(np.float32).eps), rng)
    below = found.vectors * found.values @ found.vectors.T
    assert np.linalg.eigvalsh(A - below)[0] >= -found.excess
    assert found.excess < 1e-6 * np.trace(Z.T @ (weights[:, None] * Z))
    # Residuals along eigenvectors are the most sensitive to each eigenvalue.
    values, vectors = np.linalg.eigh(A)
    for alpha in (1e-6, 1e-4, 1e-2, 1.0, 100.0):
        exact = 1 / np.sqrt(np.maximum(values, 0) + alpha)
        bound = Nystrom(found.values, found.vectors, alpha, found.excess).bound(vectors)
        assert (exact <= bound * (1 + 1e-6)).all()


def test_smaller_alphas_get_a_higher_rank():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((600, 600)))[0]
    A = basis / np.arange(1, 601) ** 2.0 @ basis.T
    widths: list[int] = []

    def multiply(V):
        widths.append(V.shape[1])
        return A @ V

    ranks = []
    for alpha in (1.0, 1e-3, 1e-5, 1e-7):
        widths.clear()
        found = Nystrom.of(multiply, 600, alpha, EPS, np.random.default_rng(0))
        ranks.append(sum(widths))
        assert len(found.values) == ranks[-1]
        # It is the approximation of all vectors together: as good as if they were one product.
        below = found.vectors * found.values @ found.vectors.T
        missed = np.linalg.eigvalsh(A - below)
        assert missed[0] >= -1e-12
        assert missed[-1] <= 40 / ranks[-1] ** 2.0
    assert ranks == sorted(ranks)
    assert ranks[0] == 64
    assert ranks[-1] == 150  # a quarter of the size


def test_a_matrix_of_low_rank_stops_the_growth_of_the_approximation():
    Z = np.random.default_rng(0).standard_normal((20, 600))
    products = []

    def multiply(V):
        products.append(V)
        return Z.T @ (Z @ V)

    found = Nystrom.of(multiply, 600, 1e-9, EPS, np.random.default_rng(0))
    assert len(products) == 1
    assert found.values[20] < 1e-9 < found.values[19]


def test_the_preconditioner_removes_the_large_eigenvalues():
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


def test_linearly_dependent_outputs():
    Z, Y = problem(n_outputs=1)
    Y = np.column_stack([Y, 2 * Y, -Y, Y + 1e-13, np.zeros_like(Y)])
    state, converged = run(Z, Y, 0.1)
    expected = np.linalg.solve(Z.T @ Z + 0.1 * np.eye(120), Z.T @ Y)
    assert converged
    assert state.directions.shape[1] < 5
    assert_allclose(Z @ state.coefficients, Z @ expected, atol=1e-8)
    assert_array_equal(state.coefficients[:, 4], 0.0)


def test_outputs_of_very_different_scales():
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
    # The approximation of a zero matrix has no columns.
    rng = np.random.default_rng(0)
    right = rng.standard_normal((20, n_outputs))
    state = begin(np.zeros_like, right, 0.5, EPS, rng)
    assert advance(np.zeros_like, right, np.ones(n_outputs), state, tol=1e-10, max_iter=5)
    assert_allclose(state.coefficients, right / 0.5)


def test_a_restored_state_continues_unchanged():
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
    # A finished state stays finished.
    again = copy.deepcopy(state)
    assert advance(
        lambda V: A @ V, right, np.linalg.norm(Y, axis=0), again, tol=1e-10, max_iter=400
    )
    assert_array_equal(again.coefficients, whole.coefficients)
    assert again.n_iter == whole.n_iter


def test_steps_stop_at_max_iter():
    Z, Y = problem(decay=0.02)
    state, converged = run(Z, Y, 1e-3, max_iter=4)
    assert not converged
    assert state.n_iter == 4
    assert state.errors[-1] > 1e-10
    loose, converged = run(Z, Y, 1e-3, tol=1e-2)
    assert converged
    assert loose.n_iter < run(Z, Y, 1e-3)[0].n_iter
    assert loose.errors[-1] <= 1e-2 < min([1.0, *loose.errors[:-1]])


class TestRefinement:
    """Test solutions to float64 accuracy by products in float32."""

    alpha = 1e-2
    tol = 1e-10

    def parts(self):
        Z, Y = problem(n=120, n_rows=300, decay=0.05)
        A, right = Z.T @ Z, Z.T @ Y
        rough = A.astype(np.float32)

        def multiply(V):
            return (rough @ V.astype(np.float32)).astype(np.float64)

        def check(coefficients):
            residual = right - A @ coefficients - self.alpha * coefficients
            return residual, np.zeros(Y.shape[1])

        return Z, Y, multiply, check, right

    def begin(self, multiply, right):
        return begin(multiply, right, self.alpha, 6e-8, np.random.default_rng(0))

    def test_true_residuals_reach_the_tolerance_that_updated_ones_only_claim(self):
        Z, Y, multiply, check, right = self.parts()
        scales = np.linalg.norm(Y, axis=0)
        expected = np.linalg.solve(Z.T @ Z + self.alpha * np.eye(120), right)

        def error(state):
            return (np.linalg.norm(Z @ (state.coefficients - expected), axis=0) / scales).max()

        state = self.begin(multiply, right)
        assert advance(multiply, right, scales, state, tol=self.tol, max_iter=400)
        assert state.errors[-1] <= self.tol < 1e-8 < error(state)
        state = self.begin(multiply, right)
        assert solve(multiply, check, right, scales, state, tol=self.tol, max_iter=400)
        assert error(state) <= state.totals[-1] <= self.tol
        assert len(state.bounds) > 1
        assert state.bounds == sorted(state.bounds, reverse=True)
        # One check is enough if the updated residual really reaches the tolerance.
        state = self.begin(multiply, right)
        assert solve(multiply, check, right, scales, state, tol=1e-3, max_iter=400)
        assert state.checked_at == [state.n_iter]

    def test_rounding_of_predictions_counts(self):
        _, Y, multiply, check, right = self.parts()
        scales = np.linalg.norm(Y, axis=0)
        for rounding, converges in ((0.6e-6, True), (2e-6, False)):
            state = self.begin(multiply, right)
            converged = solve(
                multiply,
                lambda coefficients, rounding=rounding: (
                    check(coefficients)[0],
                    rounding * scales,
                ),
                right,
                scales,
                state,
                tol=1e-6,
                max_iter=400,
            )
            assert converged == converges
            assert (state.totals[-1] <= 1e-6) == converges
            assert state.roundings[-1] == pytest.approx(rounding)
            assert state.bounds[-1] <= 1e-6
            assert state.totals[-1] >= state.roundings[-1]

    def test_it_stops_at_the_limit_of_rounding(self):
        _, Y, multiply, check, right = self.parts()
        state = self.begin(multiply, right)
        scales = np.linalg.norm(Y, axis=0)
        assert not solve(multiply, check, right, scales, state, tol=1e-40, max_iter=10_000)
        assert state.n_iter < 1000
        assert state.totals[-1] < 1e-10

    def test_steps_stop_at_max_iter(self):
        _, Y, multiply, check, right = self.parts()
        state = self.begin(multiply, right)
        scales = np.linalg.norm(Y, axis=0)
        assert not solve(multiply, check, right, scales, state, tol=self.tol, max_iter=7)
        assert state.n_iter == 7
        assert state.checked_at == [7]

    @pytest.mark.parametrize("every", [10, slow(1)])
    def test_a_restored_state_gives_the_same_solution(self, every):
        _, Y, multiply, check, right = self.parts()
        kept = []
        options = {"tol": self.tol, "max_iter": 400}
        scales = np.linalg.norm(Y, axis=0)
        whole = self.begin(multiply, right)
        assert solve(
            multiply,
            check,
            right,
            scales,
            whole,
            after_step=lambda state: kept.append(copy.deepcopy(state)),
            **options,
        )
        assert len(kept) == whole.n_iter
        assert len(whole.checked_at) > 1
        for state in kept[::-every]:
            assert solve(multiply, check, right, scales, state, **options)
            assert_array_equal(state.coefficients, whole.coefficients)
            for name in ("errors", "checked_at", "bounds", "roundings", "totals"):
                assert getattr(state, name) == getattr(whole, name)


class TestPublishedError:
    """Compare ``solver_error_`` with a dense solution for the same features in float64."""

    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (500, 3))
    Y = np.column_stack([np.sin(2 * X[:, 0]) * X[:, 1], X[:, 2] ** 2])
    Y += 0.1 * rng.standard_normal(Y.shape)
    weights = rng.uniform(0, 3, 500)

    def fit(self, X, Y, weights=None, *, model=QuadratureRidge, **options):
        """Return a fitted model and whether it warned."""
        parameters = {"solver": "cg", "n_components": 80, "random_state": 0} | options
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = model(Gaussian(0.3), rule="orf", **parameters).fit(X, Y, weights)
        assert all(one.category is ConvergenceWarning for one in caught)
        return fitted, [str(one.message) for one in caught]

    def true_error(self, model, predicted, X, Y, weights, intercept, alpha):
        """Return the largest relative error of predictions, from a QR factor of weighted rows."""
        Z = model.features_.transform(X).astype(np.float64)
        Y = Y.reshape(len(X), -1)
        counts = np.ones(len(X)) if weights is None else weights
        origin = Y[0] * intercept  # avoids cancellation for large targets
        targets = Y - origin
        means, centers = (counts @ rows / counts.sum() * intercept for rows in (Z, targets))
        roots = np.sqrt(counts)[:, None]
        rows = np.vstack([roots * (Z - means), np.sqrt(alpha) * np.eye(Z.shape[1])])
        right = np.vstack([roots * (targets - centers), np.zeros((Z.shape[1], Y.shape[1]))])
        exact = (Z - means) @ np.linalg.lstsq(rows, right)[0] + centers
        wrong = (predicted.reshape(len(X), -1).astype(np.float64) - origin) - exact
        lengths = np.linalg.norm(roots * (targets - centers), axis=0)
        return (np.linalg.norm(roots * wrong, axis=0) / lengths).max()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0, 10.0])
    @pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5, 1e-7, 1e-9])
    def test_is_a_bound(self, dtype, alpha, tol):
        X = self.X.astype(dtype)
        for weights in (None, self.weights):
            for intercept, offset in ((True, 0.0), (True, -3e4), (False, 0.0)):
                Y = self.Y + offset
                model, messages = self.fit(
                    X, Y, weights, alpha=alpha, tol=tol, fit_intercept=intercept
                )
                predicted, error = model.predict(X), model.solver_error_
                wrong = self.true_error(model, predicted, X, Y, weights, intercept, alpha)
                assert wrong <= error * (1 + 1e-6) + 1e-13
                assert error <= 100 * wrong
                # It warns if and only if the tolerance was not reached.
                assert (error > tol) == bool(messages)
                if dtype == np.float64 or (tol >= 1e-3 and not offset):
                    assert not messages
                elif messages:
                    assert f"up to {error:.2g}, above tol" in messages[0]
                    assert "pass X as float64" in messages[0]
                    # With the smallest penalty, the solver may also run out of steps.
                    rounds = "Rounding errors of float32 alone are" in messages[0]
                    assert rounds or (alpha == 1e-4 and model.n_iter_ == 500)

    def test_usual_tolerances_need_one_more_pass(self, monkeypatch):
        passes = []
        residuals = System.residuals

        def counted(system, *arguments):
            passes.append("check")
            return residuals(system, *arguments)

        monkeypatch.setattr(System, "residuals", counted)
        for dtype in (np.float32, np.float64):
            for alpha in (0.1, 1.0, 10.0):
                self.fit(self.X.astype(dtype), self.Y, alpha=alpha, tol=1e-3)
                assert passes == ["check"]
                passes.clear()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("form", ["sparse", "blocks"])
    def test_all_kinds_of_rows(self, form, dtype):
        X = np.where(self.X > 0, self.X, 0).astype(dtype)
        blocks = [(X[part], self.Y[part]) for part in np.array_split(np.arange(500), 3)]
        rows = (sparse.csr_array(X), self.Y) if form == "sparse" else (blocks, None)
        for tol in (1e-3, 1e-6):
            model, messages = self.fit(*rows, alpha=0.1, tol=tol)
            predicted = model.predict(X if form == "blocks" else rows[0])
            wrong = self.true_error(model, predicted, X, self.Y, None, True, 0.1)
            assert wrong <= model.solver_error_ * (1 + 1e-6)
            assert (model.solver_error_ > tol) == bool(messages)

    @pytest.mark.parametrize("n_outputs", [1, 70])  # multiplied by the native core, and by BLAS
    def test_any_number_of_outputs(self, n_outputs):
        X = self.X.astype(np.float32)
        Y = np.sin(X @ np.random.default_rng(0).standard_normal((3, n_outputs)) + 1)
        model, messages = self.fit(X, Y, alpha=1e-3, tol=1e-8)
        wrong = self.true_error(model, model.predict(X), X, Y, None, True, 1e-3)
        assert 1e-8 < wrong <= model.solver_error_ * (1 + 1e-6)
        assert messages

    def test_classifiers(self):
        X = self.X.astype(np.float32)
        labels = np.digitize(self.Y[:, 0], [-1, 1])
        model, messages = self.fit(
            X, labels, self.weights, alpha=1e-3, tol=1e-9, model=QuadratureRidgeClassifier
        )
        codes = np.where(np.equal.outer(labels, range(3)), 1.0, -1.0)
        decisions = model.decision_function(X)
        wrong = self.true_error(model, decisions, X, codes, self.weights, True, 1e-3)
        assert 1e-9 < wrong <= model.solver_error_ * (1 + 1e-6)
        assert messages

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("value", [0.0, 7.1, -1e6 - 0.1])
    def test_constant_targets_are_relative_to_themselves(self, value, dtype):
        X = self.X.astype(dtype)
        for weights in (None, self.weights):
            model, messages = self.fit(X, np.full(500, value), weights)
            assert not messages
            assert model.solver_error_ <= np.finfo(dtype).eps
            assert_allclose(model.predict(X), value, rtol=np.finfo(dtype).eps)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("tol", [1e-3, 1e-7])
    def test_dask(self, dtype, tol):
        X, offset = self.X.astype(dtype), 1e3
        with dask.config.set(scheduler="synchronous"):
            for weights in (None, self.weights):
                lazy = da.from_array(X, chunks=(130, 3))
                model, messages = self.fit(lazy, self.Y + offset, weights, alpha=0.1, tol=tol)
                predicted = model.predict(lazy).compute()
                local, _ = self.fit(X, self.Y + offset, weights, alpha=0.1, tol=tol)
                wrong = self.true_error(model, predicted, X, self.Y + offset, weights, True, 0.1)
                assert wrong <= model.solver_error_ * (1 + 1e-6)
                assert (model.solver_error_ > tol) == bool(messages)
                assert (dtype == np.float32 and tol < 1e-4) == bool(messages)
                assert_allclose(predicted, local.predict(X), atol=10 * model.solver_error_)


class TestSystems:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    Y = rng.standard_normal((90, 2))
    weights = rng.uniform(0, 2, 90)

    def test_borders_add_up(self):
        features = QuadratureFeatures(Gaussian(0.3), n_components=20, random_state=0).fit(self.X)
        products, Z = features.map_, features.transform(self.X)
        columns = np.column_stack([self.Y, np.ones(90)])
        for weights in (None, self.weights):
            parts = [
                borders_of_block(
                    products, self.X[part], self.Y[part], None if weights is None else weights[part]
                )
                for part in np.array_split(np.arange(90), 4)
            ]
            borders, corner = reduce(sum_pairs, parts)
            weighted = columns if weights is None else columns * weights[:, None]
            assert_allclose(borders, Z.T @ weighted, atol=1e-10)
            assert_allclose(corner, columns.T @ weighted, atol=1e-10)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_residuals_add_up(self, dtype):
        X = self.X.astype(dtype)
        features = QuadratureFeatures(Gaussian(0.3), n_components=20, random_state=0).fit(X)
        products, Z = features.map_, features.transform(X).astype(np.float64)
        coefficients = self.rng.standard_normal((20, 2))
        intercept, shift = np.array([0.3, -0.2]), np.array([1e3, 0.0])
        for weights in (None, self.weights):
            parts = [
                residuals_of_block(
                    products,
                    X[part],
                    self.Y[part],
                    None if weights is None else weights[part],
                    coefficients,
                    intercept,
                    shift,
                )
                for part in np.array_split(np.arange(90), 4)
            ]
            found = reduce(Residuals.merged, parts)
            counts = np.ones(90) if weights is None else weights
            fitted = Z @ coefficients + intercept
            columns = np.column_stack([self.Y - fitted, np.ones(90)])
            assert_allclose(found.products, Z.T @ (counts[:, None] * columns), atol=1e-11)
            assert_allclose(found.sums, counts @ columns, atol=1e-11)
            assert found.squares == pytest.approx(counts @ (Z**2).sum(axis=1))
            predicted = products.predict(X, coefficients, intercept + shift)
            rounding = counts @ (predicted.astype(np.float64) - shift - fitted) ** 2
            if dtype == np.float32:
                assert_allclose(found.rounding, rounding, rtol=1e-6)
                assert (found.rounding > 1e-16).all()
            else:
                assert (found.rounding < 1e-20).all()
