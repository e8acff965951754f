"""Test ``n_components="auto"``: it meets the tolerance with few more columns than needed."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits

from quadfeat import QuadratureFeatures, bounds
from quadfeat.kernels import ArcCosine, Gaussian
from slow import slow

X = load_digits().data[:500] / 16


def true_error(features):
    Z = features.transform(X)
    exact = features.kernel_(X)
    return np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact)


def map_of(kernel, seed, **options):
    return QuadratureFeatures(kernel, random_state=seed, **options).fit(X)


@pytest.mark.parametrize(
    ("kernel", "rule", "tol"),
    [
        slow(Gaussian(0.2 / 64), "auto", 0.01),
        (Gaussian(2.0 / 64), "auto", 0.05),
        (Gaussian(2.0 / 64), "rff", 0.1),
        slow(ArcCosine(1), "auto", 0.05),
    ],
    ids=str,
)
def test_the_tolerance_is_met_with_few_columns(kernel, rule, tol):
    maps = [map_of(kernel, seed, rule=rule, n_components="auto", tol=tol) for seed in range(6)]
    assert sum(true_error(features) <= tol for features in maps) >= 5
    # With fewer columns than that, some draws miss the tolerance.
    fewer = int(np.median([features.n_components_ for features in maps]) / 1.3)
    rules = [features.rule_ for features in maps]
    drawn = [
        map_of(kernel, 100 + seed, rule=rules[seed % 6], n_components=fewer) for seed in range(12)
    ]
    assert any(true_error(features) > tol for features in drawn)


def test_the_choice_is_reported():
    features = map_of(Gaussian(2.0 / 64), 0, n_components="auto", tol=0.1)
    error = features.approximation_error_
    assert error.high <= 0.1
    assert features.why_.startswith(f"{features.n_components_} columns have a relative error of")
    whole = np.sqrt(2 * 2.0 / 64) * pdist(X).max()  # the value for the sample is slightly smaller
    least, most = (
        bounds.n_components_for_sup_error(0.1, 0.05, 64, diameter=diameter)
        for diameter in (0.8 * whole, whole)
    )
    assert least <= features.n_components_bound_ <= most
    assert str(features.n_components_bound_) in features.why_
    assert features.transform(X).shape == (500, features.n_components_)
    assert map_of("arccos1", 0, n_components="auto", tol=0.3).n_components_bound_ is None


def test_an_unreachable_tolerance_reports_what_is_possible():
    with pytest.raises(ValueError, match=r"tol=0.0001 needs about .* Pass a larger tol"):
        map_of(Gaussian(10.0), 0, n_components="auto", tol=1e-4)


def test_a_biased_rule_is_reported_as_biased():
    rows = np.random.default_rng(0).standard_normal((300, 3))
    features = QuadratureFeatures(
        Gaussian(0.5), rule="rom", n_components="auto", tol=0.05, random_state=0
    )
    with pytest.raises(ValueError, match=r"cannot be reached: .* is biased on .* Use rule='auto'"):
        features.fit(rows)


def test_a_loose_tolerance_needs_few_columns():
    assert map_of(Gaussian(1e-4), 0, n_components="auto", tol=0.5).n_components_ <= 2


def test_a_failed_fit_keeps_the_previous_fit():
    features = map_of("gaussian", 0, n_components=16)
    before = features.transform(X)
    features.set_params(n_components="auto", tol=1e-6, kernel=Gaussian(10.0))
    with pytest.raises(ValueError, match="needs about"):
        features.fit(X[:, :5])
    assert np.array_equal(features.transform(X), before)
