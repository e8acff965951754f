"""Test weights fitted to the data: non-negative, and kept only if they are better on new rows."""

import re

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.datasets import load_digits, load_iris

from quadfeat import QuadratureFeatures
from quadfeat.kernels import ArcCosine, Gaussian
from quadfeat.maps.reweighting import _fit, _sample, reweight
from quadfeat.rules import MonteCarlo, SphericalRadial
from quadfeat.rules.nodes import Nodes

IRIS = load_iris().data
DIGITS = load_digits().data / 16


@pytest.mark.parametrize("rule", [MonteCarlo(), SphericalRadial(), SphericalRadial(tilt="fixed")])
@pytest.mark.parametrize("kernel", [Gaussian(0.2), ArcCosine(0), ArcCosine(1)], ids=str)
@pytest.mark.parametrize("n_components", [40, 41])
def test_weights_stay_non_negative_and_errors_fall(rule, kernel, n_components):
    rng = np.random.default_rng(0)
    nodes = rule.draw(4, n_components, kernel, rng)
    result = reweight(nodes, kernel, IRIS, rng)
    assert (result.nodes.weights >= 0).all()
    assert result.nodes.origin_weight >= 0 or not nodes.has_origin_column
    if result.kept:
        assert result.error_after < result.error_before
    else:
        assert result.nodes is nodes


def test_errors_fall_on_the_whole_table():
    plain, fitted = (
        QuadratureFeatures(
            Gaussian(0.25), rule="rff", n_components=64, reweight=wanted, random_state=0
        ).fit(IRIS)
        for wanted in (False, True)
    )
    assert fitted.kernel_error(IRIS).value < 0.7 * plain.kernel_error(IRIS).value
    said = re.search(r"is (\S+) with them and (\S+) without", fitted.why_)
    assert float(said[1]) < float(said[2])
    assert "the data are used" in fitted.why_


@pytest.mark.parametrize("strength", [1e-4, 1e-1])
@pytest.mark.parametrize("n_nodes", [40, 300])
def test_weights_agree_with_non_negative_least_squares(n_nodes, strength):
    kernel, rng = Gaussian(0.25), np.random.default_rng(0)
    nodes = MonteCarlo().draw(4, 2 * n_nodes, kernel, rng)
    pairs = _sample(nodes, kernel, IRIS, len(IRIS), 2000, rng)
    A = pairs.contributions * pairs.weights[:, None]
    ridge = np.sqrt(strength * np.mean((A**2).sum(axis=0)))
    A = np.vstack([A, ridge * np.eye(n_nodes)])
    b = np.concatenate([pairs.values * pairs.weights, np.full(n_nodes, ridge)])
    exact, _ = nnls(A, b)
    found = _fit(pairs, strength)
    assert np.linalg.norm(A @ found - b) < 1.001 * np.linalg.norm(A @ exact - b)


@pytest.mark.parametrize("scale", [1e-80, 1e-3, 1.0, 1e80])
def test_the_scale_of_the_data_does_not_matter(scale):
    features = QuadratureFeatures(
        ArcCosine(1), n_components=20, rule="rff", reweight=True, random_state=0
    ).fit(IRIS * scale)
    assert "the data are used" in features.why_
    assert features.kernel_error(IRIS * scale).value < 0.05


def test_the_fitted_weights_include_the_origin():
    # With a signed origin, approximate_kernel used to add a constant that the fit ignored.
    rule = SphericalRadial(origin="signed")
    features = QuadratureFeatures(
        Gaussian(0.25), rule=rule, n_components=30, reweight=True, random_state=0
    ).fit(IRIS)
    assert features.map_.origin.reweighted
    Z = features.transform(IRIS)
    assert np.allclose(features.approximate_kernel(IRIS), Z @ Z.T)


def test_contributions_add_up_to_the_estimate():
    for kernel in (Gaussian(0.2), ArcCosine(1)):
        for n in (24, 25):
            nodes: Nodes = SphericalRadial().draw(4, n, kernel, np.random.default_rng(0))
            Z = np.empty((10, n))
            nodes.write_features(IRIS[:10] * kernel.input_factor(4), kernel, Z)
            starts = nodes.column_starts(kernel)
            assert nodes.n_columns(kernel) == n
            assert len(starts) == len(nodes.radii) + nodes.has_origin_column
            assert np.allclose(np.add.reduceat(Z, starts, axis=1).sum(axis=1), Z.sum(axis=1))


def test_reproducible():
    first, second = (
        QuadratureFeatures(n_components=32, reweight=True, random_state=1).fit(DIGITS)
        for _ in range(2)
    )
    assert np.array_equal(first.nodes_.weights, second.nodes_.weights)


def test_too_few_rows_and_too_many_nodes():
    with pytest.raises(ValueError, match=r"X has 5 sample\(s\).* use reweight=False"):
        QuadratureFeatures(reweight=True).fit(IRIS[:5])
    with pytest.raises(
        ValueError, match="the map has 3000 nodes, but reweight=True supports at most 2048"
    ):
        QuadratureFeatures(reweight=True, rule="rff", n_components=6000).fit(IRIS)
