"""Test growing maps: existing columns stay unchanged."""

import pickle

import numpy as np
import pytest

from quadfeat import QuadratureFeatures, grow
from quadfeat.kernels import ArcCosine, Gaussian, Matern
from quadfeat.rotations import Haar, Householder
from quadfeat.rules import QuasiMonteCarlo, SphericalRadial

X = np.random.default_rng(0).standard_normal((60, 5))

GROWABLE = {
    "rff": ("rff", 40),
    "halton": ("halton", 40),
    "sobol": ("sobol", 40),
    "gauss-hermite": ("gauss-hermite", 40),
    "orf": ("orf", 40),
    "rom": ("rom", 48),
    "fastfood": ("fastfood", 48),
    "sr33": ("sr33", 2 * 12 + 1),
    "signed": (SphericalRadial(origin="signed"), 48),
    "householder": (SphericalRadial(tilt=0.0, rotation=Householder()), 48),
    "fixed": (SphericalRadial(tilt="fixed"), 25),
    "shared": (SphericalRadial(origin="signed", radii="shared", rotation=Haar()), 48),
}


def fitted(rule, n_components, kernel="gaussian", **options):
    return QuadratureFeatures(
        kernel, rule=rule, n_components=n_components, random_state=0, **options
    ).fit(X)


@pytest.mark.parametrize(("rule", "n_components"), GROWABLE.values(), ids=GROWABLE.keys())
@pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern(2.5), ArcCosine(1)], ids=str)
def test_earlier_nodes_and_columns_stay(rule, n_components, kernel):
    n_components -= (
        kernel.nonlinearity.at_zero == 0 and n_components % 2
    )  # without an origin column
    small = fitted(rule, n_components, kernel)
    large = grow(small, 2 * n_components + 9)
    before, after = len(small.nodes_.radii), len(large.nodes_.radii)
    assert np.array_equal(large.nodes_.frequencies()[:before], small.nodes_.frequencies()[:before])
    columns = n_components - small.nodes_.has_origin_column
    old, new = small.transform(X)[:, :columns], large.transform(X)[:, :columns]
    assert np.allclose(new, old * np.sqrt(before / after), rtol=1e-12, atol=1e-14)
    assert large.transform(X).shape == (60, 2 * n_components + 9)
    assert large.n_components_ == large.n_components == 2 * n_components + 9
    assert small.n_components_ == n_components
    if kernel.nonlinearity.at_zero and not isinstance(kernel, Matern):
        total = large.nodes_.weights.sum() + large.nodes_.origin_weight
        assert np.isclose(total, 1.0)


def test_growing_is_reproducible_and_can_be_repeated():
    small = fitted("sr33", 25)
    copy = pickle.loads(pickle.dumps(small))
    twice = [grow(grow(features, 49), 97) for features in (small, copy)]
    assert np.array_equal(twice[0].transform(X), twice[1].transform(X))
    frequencies = twice[0].nodes_.frequencies()
    assert len(np.unique(frequencies.round(12), axis=0)) == len(frequencies)


def test_a_grown_map_is_more_accurate():
    kernel = Gaussian(0.3)
    small = fitted("rff", 40, kernel)
    large = grow(small, 4000)
    assert large.kernel_error(X).value < small.kernel_error(X).value / 3
    assert not hasattr(large, "approximation_error_")


@pytest.mark.parametrize(
    ("rule", "n_components", "larger", "message"),
    [
        ("rff", 40, 40, "n_components=40 is not valid: the map already has 40 columns"),
        ("rff", 41, 80, "not whole blocks of 1 with two columns each"),
        ("sr33", 31, 80, "its 15 nodes are not whole blocks of 6"),
        (SphericalRadial(radii="stratified"), 25, 80, "stratified radii depend on the number"),
        (SphericalRadial(origin="match"), 24, 80, "origin='match' changes all weights"),
        (SphericalRadial(origin="renormalise"), 24, 80, "origin='renormalise' changes"),
        (QuasiMonteCarlo(matched=True), 24, 80, "matched nodes depend on the number"),
        (
            SphericalRadial(tilt=0.0, remainder=0.5),
            24,
            80,
            "the remaining nodes depends on their number",
        ),
        ("sr33", 1, 25, "leaves no room for the origin"),
    ],
    ids=str,
)
def test_maps_that_cannot_grow_raise_with_the_reason(rule, n_components, larger, message):
    with pytest.raises(ValueError, match=message):
        grow(fitted(rule, n_components), larger)


def test_reweighted_maps_do_not_grow():
    features = fitted("rff", 16, Gaussian(0.05), reweight=True)
    assert features.map_.origin.reweighted
    with pytest.raises(ValueError, match="weights were fitted"):
        grow(features, 64)


def test_only_fitted_maps_grow():
    with pytest.raises(TypeError, match="features=3 is not valid"):
        grow(3, 10)
    with pytest.raises(ValueError, match="not fitted"):
        grow(QuadratureFeatures(), 2000)
