"""Compare closed forms of a rule's variance with draws of the rule."""

import numpy as np
import pytest
from scipy.special import eval_legendre

from quadfeat.auto.variance import AngularRule, BlockMoments
from quadfeat.kernels import Gaussian, Matern, RationalQuadratic
from quadfeat.rotations import Haar
from quadfeat.rules import SphericalRadial
from quadfeat.rules.radial import radial_slices
from slow import slow

KERNELS = {
    "gaussian": Gaussian(0.5),
    "matern": Matern(3.5, length_scale=1.0),
    "rational-quadratic": RationalQuadratic(3.0, length_scale=1.0),
}


@pytest.mark.parametrize("d", [1, 2, 3, 8, 1000])
def test_the_angular_rule_integrates_powers_over_the_sphere(d):
    rule = AngularRule.of(d)
    square = rule.projections[0] @ rule.nodes**2
    fourth = rule.projections[0] @ rule.nodes**4
    assert np.isclose(rule.projections[0].sum(), 1.0)
    assert np.isclose(square, 1 / d)
    assert np.isclose(fourth, 3 / (d * (d + 2)))


def test_ratios_are_legendre_polynomials_in_three_dimensions():
    ratios = AngularRule.of(3, 10).ratios(-1 / 3)
    assert np.allclose(ratios, eval_legendre(np.arange(10), -1 / 3))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("radii", ["independent", "stratified"])
@pytest.mark.parametrize("tilt", [0.5, *map(slow, [0.0, 1.0])])
@pytest.mark.parametrize(
    ("directions", "d", "n_nodes"), [("simplex", 4, 15), ("orthoplex", 4, 3), ("orthoplex", 3, 100)]
)
def test_variance_agrees_with_draws(kernel, radii, tilt, directions, d, n_nodes):
    if radii == "stratified" and kernel.spectrum.n_radial == 2:
        pytest.skip("closed forms do not cover stratification in two variables")
    n_draws = 1500
    distances = np.array([0.4, 1.2, 2.5])
    slices = radial_slices(kernel.spectrum, d, tilt)
    weights = kernel.spectrum.moment(d, tilt) / slices ** (2 * tilt)
    per_block, cosine = (d + 1, -1 / d) if directions == "simplex" else (d, 0.0)
    moments = BlockMoments.of(distances, slices, weights, d)
    expected = moments.variance(n_nodes, per_block, cosine, stratified=radii == "stratified")

    rule = SphericalRadial(
        directions=directions, tilt=tilt, radii=radii, origin="signed", rotation=Haar()
    )
    rng = np.random.default_rng(0)
    X = np.zeros((3, d))
    X[:, 0] = distances
    estimates = np.empty((n_draws, 3))
    for draw in range(n_draws):
        nodes = rule.draw(d, 2 * n_nodes, kernel, rng)
        estimates[draw] = np.cos(nodes.arguments(X)) @ nodes.weights + nodes.origin_weight
    squares = (estimates - kernel.at_distance(distances)) ** 2
    standard_error = squares.std(axis=0) / np.sqrt(n_draws)
    # Allow for noise, and for slices of the radial distribution and strata of points.
    assert np.all(np.abs(squares.mean(axis=0) - expected) < 4 * standard_error + 0.1 * expected)


def test_an_incomplete_block_has_a_larger_variance():
    kernel, d = Gaussian(0.5), 8
    radii = radial_slices(kernel.spectrum, d, 1.0)
    moments = BlockMoments.of(np.array([0.5]), radii, d / radii**2, d)
    one, cut, two = (
        float(moments.variance(n, d + 1, -1 / d, stratified=False)[0]) for n in (9, 13, 18)
    )
    assert two < one < cut  # half a block more breaks the exactness of a complete one
