"""Test the variances that leave-one-out errors give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize

from quadfeat.neighbors.reference import Conditional
from quadfeat.neighbors.variances import Variances, local_scales

K = 20


def drawn(n_rows, seed=0, freedom=np.inf, signal=4.0, noise=0.3, n_outputs=1):
    """Return errors that follow the model, with their conditional distributions."""
    rng = np.random.default_rng(seed)
    relative = rng.uniform(0.01, 1.0, n_rows)
    shape = (n_rows, n_outputs)
    local = 1.0 / rng.gamma(freedom / 2, 2 / freedom, shape) if freedom < np.inf else np.ones(shape)
    squares = signal * local * rng.chisquare(K - 1, shape)
    deviations = np.sqrt(signal * local * relative[:, None] + noise)
    errors = deviations * rng.standard_normal(shape)
    return errors, Conditional(np.zeros(shape), relative, squares, np.zeros(n_rows))


def cost(errors, found, noise, fit):
    variances = fit.latent(found) + noise[:, None] * fit.noise
    return np.sum(0.5 * errors**2 / variances + 0.5 * np.log(2 * np.pi * variances))


def test_recovers_the_variances():
    errors, found = drawn(20_000)
    fit = Variances.of(errors, found, np.ones(20_000), 0.1, K)
    assert_allclose(fit.signal, 4.0, rtol=0.1)
    assert_allclose(fit.noise, 0.3, rtol=0.2)
    assert np.isinf(fit.freedom).all()
    assert_array_equal(fit.scales(found.squares), 1.0)


def test_recovers_variances_that_differ_between_neighborhoods():
    errors, found = drawn(20_000, freedom=6.0)
    fit = Variances.of(errors, found, np.ones(20_000), 0.1, K)
    assert 1.0 <= fit.freedom[0] <= 30.0
    constant = Variances.of(errors, found, np.ones(20_000), 0.1, K, is_whole=True)
    assert np.isinf(constant.freedom).all()
    new_errors, new = drawn(20_000, seed=1, freedom=6.0)
    gain = cost(new_errors, new, np.ones(20_000), constant)
    gain -= cost(new_errors, new, np.ones(20_000), fit)
    assert gain > 0.05 * 20_000


@pytest.mark.parametrize("n_spare", [0, 40])
def test_maximizes_the_likelihood_with_one_more_row_and_the_prior(n_spare):
    errors, found = drawn(80, noise=0.05)
    noise = np.random.default_rng(3).uniform(0.5, 2.0, 80)
    given = {"scatter": np.array([0.2 * n_spare]), "n_spare": n_spare}
    fit = Variances.of(errors, found, noise, 0.02, K, is_whole=True, **given)
    copies = 1.0 / (1.0 / found.variance + 1.0 / (0.02 * noise))

    def objective(logarithms):
        signal, own = np.exp(logarithms)
        squares = np.append(errors**2, np.mean(errors**2))
        variances = signal * np.append(found.variance, copies.min())
        variances += own * np.append(noise, noise.mean())
        likelihood = 0.5 * np.sum(squares / variances + np.log(2 * np.pi * variances))
        likelihood += 0.5 * (given["scatter"][0] / own + n_spare * np.log(2 * np.pi * own))
        return likelihood + 0.5 * np.log(own / signal / 0.02) ** 2

    best = optimize.minimize(objective, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7})
    assert_allclose([fit.signal[0], fit.noise[0]], np.exp(best.x), rtol=1e-3)


def test_the_next_copy_of_a_row_may_differ():
    """Errors vanish with the variance, but the noise does not."""
    rng = np.random.default_rng(0)
    relative = 10.0 ** rng.uniform(-9.0, 0.0, 4000)
    errors = np.sqrt(relative)[:, None] * rng.standard_normal((4000, 1))
    found = Conditional(errors, relative, np.full((4000, 1), K - 1.0), relative)
    fit = Variances.of(errors, found, np.ones(4000), 1e-9, K)
    assert_allclose(fit.signal, 1.0, rtol=0.1)
    # The mean squared error is shared by the rows whose variances are smaller than the noise.
    smaller = np.count_nonzero(relative < fit.noise[0])
    assert 0.2 < smaller * fit.noise[0] / np.mean(errors**2) < 5.0


def test_outputs_are_independent_and_scale():
    errors, found = drawn(500, freedom=5.0, n_outputs=2)
    both = Variances.of(errors, found, np.ones(500), 0.1, K)
    for output in range(2):
        own = slice(output, output + 1)
        alone = found._replace(squares=1e-12 * found.squares[:, own])
        fit = Variances.of(1e-6 * errors[:, own], alone, np.ones(500), 0.1, K)
        assert fit.freedom[0] == both.freedom[output]
        assert_allclose(fit.signal[0], 1e-12 * both.signal[output], rtol=1e-9)
        assert_allclose(fit.noise[0], 1e-12 * both.noise[output], rtol=1e-9)
        assert_allclose(fit.latent(alone)[:, 0], 1e-12 * both.latent(found)[:, output], rtol=1e-9)


@pytest.mark.parametrize("n_rows", [2, 3, 10])
def test_few_rows(n_rows):
    errors, found = drawn(n_rows)
    fit = Variances.of(errors, found, np.ones(n_rows), 0.1, n_rows - 1)
    assert (fit.signal > 0).all()
    assert (fit.noise > 0).all()
    assert np.isfinite(fit.of_targets(found, 1.0)).all()


def test_no_errors():
    errors, found = drawn(10)
    fit = Variances.of(0.0 * errors, found._replace(squares=0.0 * errors), np.ones(10), 0.1, K)
    assert_array_equal(fit.of_targets(found, 1.0), 0.0)


def test_scales_are_between_the_prior_and_the_squares():
    squares = np.array([0.0, 19.0, 190.0])
    assert_array_equal(local_scales(squares, 1.0, np.inf, 19), 1.0)
    found = local_scales(squares, 1.0, 5.0, 19)
    assert_allclose(found, (5.0 + squares) / 24.0)
    assert_allclose(found[1], 1.0)
