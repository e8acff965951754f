"""Test the paper's bounds as printed."""

import math

import numpy as np
import pytest

from quadfeat import bounds
from quadfeat.kernels import Gaussian
from quadfeat.rules import SphericalRadial

SETTING = {"diameter": 2.0, "sigma_p": 0.7}


def test_beta_peaks_at_86_and_tends_to_64():
    values = [bounds.beta_d(d) for d in range(1, 2000)]
    assert int(np.argmax(values)) + 1 == 86
    assert max(values) == pytest.approx(64.74, abs=0.005)
    assert bounds.beta_d(10**7) == pytest.approx(64.0, abs=1e-3)


@pytest.mark.parametrize("d", [1, 4, 100])
@pytest.mark.parametrize(
    "factors", [{}, {"kappa": 1.5, "mu": 0.8, "M": 0.9}], ids=["gaussian", "general"]
)
def test_the_number_of_features_is_the_smallest_that_meets_the_bound(d, factors):
    D = bounds.n_components_for_sup_error(0.2, 0.05, d, **SETTING, **factors)
    assert bounds.sup_error_probability(0.2, D, d, **SETTING, **factors) <= 0.05
    assert bounds.sup_error_probability(0.2, D - 1, d, **SETTING, **factors) > 0.05


def test_the_gaussian_case_matches_the_paper():
    d, epsilon, delta, ratio = 6, 0.1, 0.05, 2.0 * 0.7 / 0.1
    log_beta = math.log(bounds.beta_d(d) / delta)
    printed = 2 * (d + 1) / epsilon**2 * (2 / (1 + 1 / d) * math.log(ratio) + log_beta)
    D = bounds.n_components_for_sup_error(epsilon, delta, d, **SETTING)
    assert math.ceil(printed) == D
    extra = d / (d + 1) * math.log((3 * d + 3) / (2 * d))
    printed = 8 * (d + 1) / epsilon**2 * (2 / (1 + 1 / d) * math.log(ratio) + log_beta + extra)
    rff = bounds.rff_n_components_for_sup_error(epsilon, delta, d, **SETTING)
    assert rff == math.ceil(printed)
    assert rff > 4 * D


def test_the_rff_probability_has_the_factors_of_the_paper():
    d, D, epsilon, ratio, alpha = 5, 3000, 0.3, 1.4 / 0.3, 0.6
    printed = (
        (d ** (-d / (d + 1)) + d ** (1 / (d + 1)))
        * 2 ** ((5 * d + 1) / (d + 1))
        * 3 ** (d / (d + 1))
        * ratio ** (2 * d / (d + 1))
        * math.exp(-D * epsilon**2 / (32 * (d + 1) * alpha))
    )
    given = bounds.rff_sup_error_probability(epsilon, D, d, **SETTING, alpha=alpha)
    assert given == pytest.approx(printed)


def test_the_papers_error_in_alpha_is_as_documented():
    D = bounds.rff_n_components_for_sup_error(0.2, 0.05, 7, **SETTING)
    assert bounds.rff_sup_error_probability(0.2, D, 7, **SETTING, alpha=0.25) <= 0.05
    assert bounds.rff_sup_error_probability(0.2, D - 1, 7, **SETTING, alpha=0.25) > 0.05


def test_ridge_bounds_match_the_paper():
    ridge = {"alpha": 0.5, "target_deviation": 2.0}
    assert bounds.ridge_error(0.01, **ridge) == pytest.approx(1.5 / 0.25 * 2.0 * 0.01)
    d, epsilon, delta, lam, sigma_y = 6, 0.3, 0.05, 0.5, 2.0
    factor = (lam + 1) / (lam**2 * epsilon)
    log_ratio = math.log(sigma_y * 0.7 * 2.0 * factor)
    printed = 8 * 0.25 * (d + 1) * sigma_y**2 * factor**2
    printed *= 2 / (1 + 1 / d) * log_ratio + math.log(bounds.beta_d(d) / delta)
    given = bounds.n_components_for_ridge_error(epsilon, delta, d, **SETTING, **ridge)
    assert given == pytest.approx(printed, abs=1)


def test_a_vacuous_bound_is_large_and_raises_no_error():
    assert bounds.sup_error_probability(1e-150, 10, 40, diameter=1e300) == math.inf


def test_variance_bound_matches_the_paper_and_holds_for_the_gaussian_kernel():
    assert bounds.variance(3, 10, kappa=2.0) == pytest.approx((2 + 16 + 4) / (3 * 8))
    d, kernel, rule = 10, Gaussian(1.0), SphericalRadial(origin="signed")
    estimates = []
    for seed in range(500):
        nodes = rule.draw(d, 2 * (d + 1), kernel, np.random.default_rng(seed))
        difference = np.sqrt(2.0) * np.eye(d)[0]
        values = np.cos(nodes.frequencies() @ difference)
        estimates.append(nodes.origin_weight + nodes.weights @ values)
    assert np.var(estimates) < bounds.variance(1, d)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.beta_d(0), "d=0 is not valid"),
        (lambda: bounds.variance(1, 2), "d=2 is not valid: pass an integer >= 3"),
        (lambda: bounds.ridge_error(0.1, alpha=-1.0), "alpha=-1.0 is not valid"),
        (
            lambda: bounds.n_components_for_sup_error(0.1, 1.5, 3, diameter=1.0),
            "delta=1.5 is not valid: pass a probability",
        ),
        (
            lambda: bounds.n_components_for_sup_error(0.0, 0.5, 3, diameter=1.0),
            "epsilon=0.0 is not valid",
        ),
        (
            lambda: bounds.sup_error_probability(0.1, 10, 3, diameter=-1.0),
            "diameter=-1.0 is not valid",
        ),
        (
            lambda: bounds.rff_sup_error_probability(-0.1, 10, 3, diameter=1.0),
            "epsilon=-0.1 is not valid",
        ),
        (
            lambda: bounds.rff_sup_error_probability(0.1, 10, -1, diameter=1.0),
            "d=-1 is not valid",
        ),
        (
            lambda: bounds.rff_sup_error_probability(0.1, 10, 3, diameter=1.0, alpha=7.0),
            "alpha=7.0 is not valid: pass a number above 0 and at most 1",
        ),
        (
            lambda: bounds.n_components_for_ridge_error(-1.0, 0.5, 3, diameter=1.0, alpha=1.0),
            "epsilon=-1.0 is not valid",
        ),
        (
            lambda: bounds.n_components_for_sup_error(1e-200, 0.5, 3, diameter=1.0),
            "epsilon=1e-200 is not valid",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
