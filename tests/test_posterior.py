"""Compare ridge regression as a Gaussian process with scikit-learn, densities and refitting."""

import functools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.linear_model import Ridge, RidgeCV

from quadfeat import QuadratureRidge
from quadfeat.kernels import Gaussian
from quadfeat.solvers.curves import LeftOutCurve
from quadfeat.solvers.moments import Moments, probe
from quadfeat.solvers.paths import choose_alpha
from quadfeat.solvers.posterior import solve
from quadfeat.solvers.ridge import RidgeProblem
from quadfeat.solvers.spectral import Spectral

rng = np.random.default_rng(0)
Z = rng.standard_normal((60, 12)) * np.geomspace(3, 0.01, 12) + 0.5
Y = np.column_stack(
    [Z[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(60), 5 * rng.standard_normal(60) + 40.0]
)
COUNTS = rng.integers(0, 4, 60)
COPIES = np.repeat(np.arange(60), COUNTS)
ALPHAS = np.geomspace(1e-4, 1e4, 17)

both = pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "no intercept"])


def problem(Z, Y, intercept, weights=None, shift=None):
    """Return the problem for given features, without a map."""
    shift = np.zeros(Y.shape[1]) if shift is None else shift
    table = np.column_stack([Z, Y - shift, np.ones(len(Z))])
    products = table.T @ (table if weights is None else table * weights[:, None])
    control = products[: Z.shape[1], : Z.shape[1]] @ probe(Z.shape[1])
    moments = Moments(np.asfortranarray(np.triu(products)), shift, len(Z), control)
    return RidgeProblem(moments, intercept)


def errors(Z, Y, weights=None):
    """Return the function that reads the rows a second time, in parts."""

    def again(spectral, alphas):
        curves = [
            spectral.left_out(alphas, Z[i], Y[i], None if weights is None else weights[i])
            for i in np.array_split(np.arange(len(Z)), 3)
        ]
        return functools.reduce(LeftOutCurve.merged, curves)

    return again


def chosen(Z, Y, intercept, criterion, alphas=ALPHAS, weights=None, shift=None):
    """Choose alpha by one criterion. Only "loo" uses errors of left-out rows."""
    left_out = errors(Z, Y, weights) if criterion == "loo" else None
    return choose_alpha(problem(Z, Y, intercept, weights, shift), criterion, alphas, left_out)


class TestCoefficients:
    @both
    @pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
    @pytest.mark.parametrize("weights", [None, COUNTS * 0.7], ids=["plain", "weighted"])
    def test_coefficients_agree_with_scikit_learn(self, intercept, alpha, weights):
        found = solve(problem(Z, Y, intercept, weights, shift=np.array([3.0, 40.0])), alpha)
        ridge = Ridge(alpha=alpha, fit_intercept=intercept).fit(Z, Y, sample_weight=weights)
        assert_allclose(found.coefficients, ridge.coef_.T, rtol=1e-7, atol=1e-9)
        assert_allclose(found.intercept, ridge.intercept_, rtol=1e-9, atol=1e-9)

    @both
    def test_a_path_solves_as_a_single_alpha_does(self, intercept):
        for alpha in (1e-2, 3.0):
            on_path = chosen(Z, Y, intercept, "gcv", np.array([alpha]))
            alone = solve(problem(Z, Y, intercept), alpha)
            assert_allclose(on_path.coefficients, alone.coefficients, rtol=1e-8, atol=1e-10)
            assert_allclose(on_path.intercept, alone.intercept, rtol=1e-9, atol=1e-9)
            assert on_path.log_evidence == pytest.approx(alone.log_evidence, rel=1e-10)
            assert_allclose(on_path.signal_variance, alone.signal_variance, rtol=1e-9)

    def test_an_alpha_below_rounding_is_rejected(self):
        repeated = np.hstack([Z, Z]) * 1e8
        with pytest.raises(ValueError, match=r"alpha=1e-14 is too small.*larger alpha, or gram_d"):
            solve(problem(repeated, Y, True), 1e-14)

    @pytest.mark.parametrize("unit", [1e160, 1e300])
    def test_sums_out_of_range_are_rejected(self, unit):
        with np.errstate(over="ignore", invalid="ignore"):
            of_features = problem(Z * unit, Y, False)
            of_targets = problem(Z, Y * unit, False)
        with pytest.raises(ValueError, match=r"squares of the features.*Rescale X"):
            solve(of_features, 1.0)
        with pytest.raises(ValueError, match=r"squares of the targets.*Rescale X, y"):
            solve(of_targets, 1.0)


class TestCriteria:
    @both
    def test_generalized_cross_validation_agrees_with_its_formula(self, intercept):
        path = chosen(Z, Y, intercept, "gcv").path
        centre = Z - Z.mean(axis=0) * intercept
        for alpha, gcv in zip(path.alphas, path.gcv, strict=True):
            hat = centre @ np.linalg.solve(centre.T @ centre + alpha * np.eye(12), centre.T)
            hat = hat + intercept / 60
            residual = Y - hat @ Y
            left = np.trace(np.eye(60) - hat)
            assert gcv == pytest.approx(60 * (residual**2).sum() / left**2, rel=1e-8)
        assert_array_equal(path.alphas, ALPHAS)
        assert path.loo is None

    @both
    def test_leave_one_out_agrees_with_refitting(self, intercept):
        path = chosen(Z, Y, intercept, "loo").path
        for alpha, loo in list(zip(path.alphas, path.loo, strict=True))[::4]:
            ridge = Ridge(alpha=alpha, fit_intercept=intercept)
            errors = [
                ridge.fit(np.delete(Z, i, axis=0), np.delete(Y, i, axis=0)).predict(Z[[i]])[0]
                - Y[i]
                for i in range(60)
            ]
            assert loo == pytest.approx(np.mean(np.square(errors)), rel=1e-7)

    @both
    def test_leave_one_out_leaves_out_one_copy_at_a_time(self, intercept):
        weighted = chosen(Z, Y, intercept, "loo", weights=COUNTS * 1.0).path
        copied = chosen(Z[COPIES], Y[COPIES], intercept, "loo").path
        assert_allclose(weighted.loo, copied.loo, rtol=1e-8)
        assert_allclose(weighted.gcv, copied.gcv, rtol=1e-8)
        assert_allclose(weighted.log_evidence, copied.log_evidence, rtol=1e-8)
        alpha = weighted.alphas[6]
        ridge = Ridge(alpha=alpha, fit_intercept=intercept)
        total = 0.0
        for row in np.flatnonzero(COUNTS):
            less = COUNTS * 1.0
            less[row] -= 1
            error = ridge.fit(Z, Y, sample_weight=less).predict(Z[[row]])[0] - Y[row]
            total += COUNTS[row] * (error**2).mean()
        assert weighted.loo[6] == pytest.approx(total / COUNTS.sum(), rel=1e-7)

    @both
    def test_the_path_agrees_with_scikit_learn(self, intercept):
        found = chosen(Z, Y, intercept, "loo")
        ridge = RidgeCV(ALPHAS, fit_intercept=intercept).fit(Z, Y)
        assert_allclose(found.path.loo.min(), -ridge.best_score_, rtol=1e-8)
        assert found.path.alphas[found.path.loo.argmin()] == ridge.alpha_
        # A larger alpha may be chosen if it is as good, and 1 unless others are clearly better.
        assert found.alpha >= ridge.alpha_
        near = found.path.loo[found.path.alphas == found.alpha] <= 1.02 * found.path.loo.min()
        assert near or found.alpha == pytest.approx(1.0)
        same = Ridge(found.alpha, fit_intercept=intercept).fit(Z, Y)
        assert_allclose(found.coefficients, same.coef_.T, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("criterion", ["gcv", "evidence"])
    def test_the_best_alpha_of_the_path_is_chosen(self, criterion):
        found = chosen(Z, Y, True, criterion, ALPHAS[::-1])
        costs = {"gcv": found.path.gcv, "evidence": -found.path.log_evidence}
        assert found.alpha == found.path.alphas[np.argmin(costs[criterion])]
        assert (np.diff(found.path.alphas) > 0).all()

    @pytest.mark.parametrize("criterion", ["gcv", "evidence"])
    def test_without_alphas_the_global_optimum_is_found(self, criterion):
        found = chosen(Z, Y, True, criterion, None)
        fine = found.alpha * np.geomspace(0.1, 10, 2001)
        path = chosen(Z, Y, True, criterion, fine).path
        costs = path.gcv if criterion == "gcv" else -path.log_evidence
        spectral = Spectral.of(problem(Z, Y, True).equations())
        here = spectral.path(np.array([found.alpha]))
        cost = here.gcv[0] if criterion == "gcv" else -here.log_evidence[0]
        assert cost <= costs.min() + 1e-6 * abs(costs.min())

    def test_weights_too_small_for_any_criterion(self):
        with pytest.raises(ValueError, match=r"alpha cannot be chosen.* count as 1 sample"):
            chosen(Z, Y, True, "gcv", weights=np.full(60, 1 / 60))
        with pytest.raises(ValueError, match=r"alpha cannot be chosen.* count as 1 sample"):
            chosen(Z[:1], Y[:1], True, "loo")

    @both
    def test_a_row_of_weight_below_1_is_left_out_completely(self, intercept):
        light = chosen(Z, Y, intercept, "loo", ALPHAS / 60, np.full(60, 1 / 60)).path
        assert_allclose(light.loo, chosen(Z, Y, intercept, "loo").path.loo, rtol=1e-8)

    @pytest.mark.parametrize("n_rows", [3, 12, 13])
    def test_no_more_rows_than_features(self, n_rows):
        for criterion in ("gcv", "loo", "evidence"):
            found = chosen(Z[:n_rows], Y[:n_rows], True, criterion)
            assert np.isfinite(found.coefficients).all()
            assert np.isfinite(found.path.gcv).all()
            assert np.isfinite(found.log_evidence)


def log_density(Z, y, alpha, variance, intercept):
    """Return the log density of the targets, or of their contrasts if there is an intercept."""
    if intercept:
        # An orthonormal basis of the complement of the vector of ones.
        basis = np.linalg.qr(np.column_stack([np.ones(len(Z)), np.eye(len(Z))[:, 1:]]))[0][:, 1:]
        Z, y = basis.T @ Z, basis.T @ y
    covariance = variance * (Z @ Z.T + alpha * np.eye(len(Z)))
    return stats.multivariate_normal(np.zeros(len(Z)), covariance).logpdf(y)


class TestEvidence:
    @both
    @pytest.mark.parametrize("alpha", [0.01, 1.0, 30.0])
    def test_it_is_the_density_of_targets_or_contrasts(self, intercept, alpha):
        found = solve(problem(Z, Y, intercept), alpha)
        densities = [
            log_density(Z, y, alpha, variance, intercept)
            for y, variance in zip(Y.T, found.signal_variance, strict=True)
        ]
        assert found.log_evidence == pytest.approx(sum(densities), rel=1e-9)

    @both
    def test_the_signal_variance_is_profiled_out(self, intercept):
        for y in Y.T:
            found = solve(problem(Z, y[:, None], intercept), 0.5)
            for factor in (0.9, 1.1):
                other = log_density(Z, y, 0.5, factor * found.signal_variance[0], intercept)
                assert other < found.log_evidence
            assert found.noise_variance[0] == pytest.approx(0.5 * found.signal_variance[0])

    def test_it_agrees_with_scikit_learn(self):
        found = solve(problem(Z, Y[:, :1], False), 0.5)
        process = GaussianProcessRegressor(
            ConstantKernel(found.signal_variance[0]) * DotProduct(0.0, "fixed"),
            alpha=found.noise_variance[0],
            optimizer=None,
        ).fit(Z, Y[:, 0])
        evidence = process.log_marginal_likelihood_value_
        assert found.log_evidence == pytest.approx(evidence, rel=1e-8)
        test = rng.standard_normal((9, 12))
        mean, deviation = process.predict(test, return_std=True)
        assert_allclose((test @ found.coefficients)[:, 0] + found.intercept, mean, rtol=1e-6)
        assert_allclose(np.sqrt(found.leverage(test) * found.noise_variance), deviation, rtol=1e-5)

    def test_weights_that_add_up_to_one_row(self):
        for total in (0.01, 1.0, 1.0 + 1e-15):
            found = solve(problem(Z, Y, True, np.full(60, total / 60)), 0.5 * total / 60)
            assert np.isfinite(found.log_evidence)
            usual = solve(problem(Z, Y, True), 0.5)
            assert_allclose(found.coefficients, usual.coefficients, rtol=1e-6, atol=1e-9)
            # The profiled variance is the mean square, up to the factor of one degree of freedom.
            ratio = found.noise_variance / usual.noise_variance
            assert ((ratio > 0.4) & (ratio < 2.5)).all()

    @both
    def test_copies(self, intercept):
        weighted = solve(problem(Z, Y, intercept, COUNTS * 1.0), 0.5)
        copied = solve(problem(Z[COPIES], Y[COPIES], intercept), 0.5)
        assert weighted.log_evidence == pytest.approx(copied.log_evidence, rel=1e-10)
        assert_allclose(weighted.signal_variance, copied.signal_variance, rtol=1e-9)

    def test_noise_and_signal_variances_are_recovered(self):
        rng = np.random.default_rng(1)
        rows = rng.standard_normal((4000, 40))
        y = rows @ (2.0 * rng.standard_normal(40)) + 3.0 * rng.standard_normal(4000) + 7.0
        found = chosen(rows, y[:, None], True, "evidence", None)
        # The relative standard error is sqrt(2 / n).
        assert found.noise_variance[0] == pytest.approx(9.0, rel=4 * np.sqrt(2 / 4000))
        assert found.signal_variance[0] == pytest.approx(4.0, rel=4 * np.sqrt(2 / 40))

    @pytest.mark.parametrize("n_rows", [3, 60])
    @both
    def test_constant_and_zero_targets(self, intercept, n_rows):
        for value in (0.0, 5.0):
            for copies in (1.0, 1e9):
                weights = np.full(n_rows, copies)
                for criterion in ("gcv", "evidence", "loo"):
                    y = np.full((n_rows, 1), value)
                    found = chosen(Z[:n_rows], y, intercept, criterion, None, weights, shift=y[0])
                    tells = value != 0 and not intercept
                    assert np.isfinite(found.log_evidence) == tells
                    assert np.isfinite(found.noise_variance[0]) == tells
                    if not tells:
                        with pytest.raises(
                            ValueError, match=r"all targets in y are equal.*Add rows"
                        ):
                            found.draw(1, np.random.default_rng(0))
                    fitted = Z[:n_rows] @ found.coefficients + found.intercept
                    if intercept:
                        assert_allclose(fitted, value, atol=1e-6)


class TestVariance:
    @both
    @pytest.mark.parametrize("weights", [None, COUNTS * 1.0], ids=["plain", "weighted"])
    def test_leverage_agrees_with_its_formula(self, intercept, weights):
        found = solve(problem(Z, Y, intercept, weights), 0.7)
        test = rng.standard_normal((40, 12))
        # The intercept is a coefficient without a penalty.
        design = np.column_stack([Z, np.ones(60)]) if intercept else Z
        at = np.column_stack([test, np.ones(40)]) if intercept else test
        penalty = 0.7 * np.diag(np.r_[np.ones(12), [0.0] * intercept])
        W = np.diag(np.ones(60) if weights is None else weights)
        expected = np.einsum(
            "ij,ij->i", at, np.linalg.solve(design.T @ W @ design + penalty, at.T).T
        )
        assert_allclose(found.leverage(test), expected, rtol=1e-8)
        assert_allclose(found.leverage(test.astype(np.float32)), expected, rtol=1e-4)

    def test_leverage_of_many_rows_equals_that_of_each_row(self, monkeypatch):
        found = solve(problem(Z, Y, True), 0.7)
        expected = found.leverage(Z)
        monkeypatch.setattr("quadfeat.solvers.posterior.ROWS_PER_SOLVE", 7)
        assert_allclose(found.leverage(Z), expected, rtol=1e-12)

    def test_an_intercept_determined_by_huge_weights(self):
        weights = np.full(60, 1e17)  # subtracting 1 does not change their sum
        found = solve(problem(Z, Y, True, weights), 0.7e17)
        expected = solve(problem(Z, Y, True), 0.7).leverage(Z) / 1e17
        assert_allclose(found.leverage(Z), expected, rtol=1e-6)

    @both
    def test_draws_have_the_mean_and_covariance_of_the_posterior(self, intercept):
        found = solve(problem(Z, Y, intercept), 2.0)
        n = 20_000
        coefficients, intercepts = found.draw(n, np.random.default_rng(0))
        assert coefficients.shape == (12, 2, n)
        assert intercepts.shape == (2, n)
        design = np.column_stack([Z, np.ones(60)])[:, : 12 + intercept]
        penalty = 2.0 * np.diag(np.r_[np.ones(12), [0.0] * intercept])
        shape = np.linalg.inv(design.T @ design + penalty)
        for output in range(2):
            draws = np.vstack([coefficients[:, output], intercepts[output]])[: 12 + intercept]
            mean = np.append(found.coefficients[:, output], found.intercept[output])
            covariance = shape * found.noise_variance[output]
            scale = np.sqrt(np.diagonal(covariance))
            error = (draws.mean(axis=1) - mean[: 12 + intercept]) / scale
            assert np.abs(error).max() < 4.5 / np.sqrt(n)
            error = (np.cov(draws) - covariance) / np.multiply.outer(scale, scale)
            assert np.abs(error).max() < 4.5 * np.sqrt(2 / n)
        # Outputs are independent of each other.
        across = np.corrcoef(coefficients[0])[0, 1]
        assert abs(across) < 4 / np.sqrt(n)

    def test_pickles_omit_the_factor(self):
        found = solve(problem(Z, Y, True), 0.7)
        bare = len(pickle.dumps(found))
        expected = found.leverage(Z)
        restored = pickle.loads(pickle.dumps(found))
        assert len(pickle.dumps(found)) == bare
        assert_array_equal(restored.leverage(Z), expected)


@given(
    st.integers(0, 10_000),
    st.integers(2, 30),
    st.integers(1, 8),
    st.floats(-6, 3),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_solution_agrees_with_scikit_learn(seed, n_rows, n_columns, log_alpha, intercept):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, n_columns))
    y = rng.standard_normal((n_rows, 1))
    weights = rng.uniform(0.1, 2, n_rows)
    alpha = 10.0**log_alpha
    found = solve(problem(rows, y, intercept, weights), alpha)
    ridge = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd")
    ridge.fit(rows, y[:, 0], sample_weight=weights)
    fitted = (rows @ found.coefficients)[:, 0] + found.intercept
    assert_allclose(fitted, ridge.predict(rows), atol=1e-6)
    path = chosen(rows, y, intercept, "evidence", np.array([alpha]), weights)
    assert path.log_evidence == pytest.approx(found.log_evidence, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("criterion", ["gcv", "evidence", "loo"])
def test_a_chosen_alpha_is_used_for_deviations_and_draws(criterion, dtype, gamma):
    X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
    model = QuadratureRidge(
        Gaussian(gamma), n_components=128, alpha=criterion, gram_dtype=dtype, random_state=0
    ).fit(X, np.sin(2 * X[:, 0]))
    mean, deviation = model.predict(X[:50], return_std=True)
    assert np.isfinite(deviation).all()
    draws = model.sample_y(X[:50], 2000)
    off = (draws.mean(axis=1) - mean) * np.sqrt(2000) / np.maximum(deviation, 1e-12)
    assert np.abs(off).max() < 6 or deviation.max() < 1e-6
    assert_allclose(draws.std(axis=1), deviation, rtol=0.2, atol=1e-6)
