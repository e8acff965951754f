"""Test rules: exactness on polynomials, weights as in the paper, and clear errors."""

import itertools
import re

import numpy as np
import pytest
from scipy.special import factorial2
from sklearn.base import clone

from quadfeat._utils.random import restored
from quadfeat._utils.validation import one_line
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
)
from quadfeat.rotations import Butterfly, Haar, Hadamard, Householder
from quadfeat.rules import (
    Fastfood,
    GaussHermite,
    MonteCarlo,
    QuasiMonteCarlo,
    SphericalRadial,
    as_rule,
)
from quadfeat.rules.nodes import Layout

ROTATIONS = [Butterfly(), Haar(), Householder()]
quiet_in_low_dimension = pytest.mark.filterwarnings("ignore:the weights of.*infinite variance")


def monomials(d, degrees):
    """Return all exponents of the given total degrees."""
    return [
        np.bincount(choice, minlength=d)
        for degree in degrees
        for choice in itertools.combinations_with_replacement(range(d), degree)
    ]


def gaussian_moment(exponents):
    if any(e % 2 for e in exponents):
        return 0.0
    return float(np.prod([factorial2(e - 1) if e else 1.0 for e in exponents]))


def integrate(nodes, exponents):
    """Apply a rule to a monomial: sum over the origin, the nodes and any reflections."""
    w = nodes.frequencies()
    at_nodes = (w**exponents).prod(axis=1)
    if nodes.reflected:
        at_nodes = (at_nodes + ((-w) ** exponents).prod(axis=1)) / 2
    at_origin = float(sum(exponents) == 0)
    return nodes.origin_weight * at_origin + nodes.weights @ at_nodes


def draw(rule, d, blocks=1, kernel=None, seed=0):
    """Draw complete blocks with a signed origin."""
    per_block = d + 1 if rule.directions == "simplex" else d
    n_columns = 2 * blocks * per_block
    return rule.draw(d, n_columns, kernel or ArcCosine(0), np.random.default_rng(seed))


@quiet_in_low_dimension
@pytest.mark.parametrize("radii", ["independent", "stratified", "shared", "constant"])
@pytest.mark.parametrize("directions", ["simplex", "orthoplex"])
@pytest.mark.parametrize("rotation", ROTATIONS, ids=repr)
@pytest.mark.parametrize("d", range(1, 9))
def test_each_draw_of_sr33_is_exact_to_degree_3(d, rotation, directions, radii):
    rule = SphericalRadial(directions=directions, radii=radii, origin="signed", rotation=rotation)
    for seed, blocks in [(0, 1), (1, 1), (2, 3)]:
        nodes = draw(rule, d, blocks, seed=seed)
        for exponents in monomials(d, range(4)):
            size = 1 + nodes.weights @ nodes.radii ** sum(exponents)
            error = integrate(nodes, exponents) - gaussian_moment(exponents)
            assert abs(error) < 1e-12 * size, exponents


@pytest.mark.parametrize("rotation", ROTATIONS, ids=repr)
@pytest.mark.parametrize("d", range(1, 9))
def test_each_draw_of_sr13_is_exact_on_odd_monomials_and_constants(d, rotation):
    rule = SphericalRadial(directions="orthoplex", tilt=0.0, rotation=rotation)
    nodes = draw(rule, d)
    assert integrate(nodes, np.zeros(d, int)) == pytest.approx(1.0)
    for exponents in monomials(d, (1, 3)):
        assert integrate(nodes, exponents) == pytest.approx(0.0, abs=1e-12)
    if d > 1:  # not exact on squares, which need degree 3 in the radius
        assert abs(integrate(nodes, np.eye(d, dtype=int)[0] * 2) - 1) > 1e-6


@pytest.mark.parametrize("rule", [SphericalRadial(), SphericalRadial(tilt=0.0)], ids=repr)
def test_without_reflections_odd_monomials_are_not_exact(rule):
    nodes = draw(rule.set_params(reflect=False, origin="signed"), 3)
    assert max(abs(integrate(nodes, exponents)) for exponents in monomials(3, (1, 3))) > 0.01


@pytest.mark.parametrize("d", [3, 8])
def test_the_radius_is_exact_to_degree_5_when_fixed(d):
    nodes = draw(SphericalRadial(tilt="fixed", origin="signed"), d)
    for power, moment in [(0, 1), (2, d), (4, d * (d + 2))]:
        total = nodes.weights @ nodes.radii**power + (power == 0) * nodes.origin_weight
        assert total == pytest.approx(moment)


@pytest.mark.parametrize(
    "kernel", [Matern(2.2, length_scale=1.0), RationalQuadratic(3.0, length_scale=1.0)], ids=repr
)
@pytest.mark.parametrize(
    "parameters", [{}, {"radii": "constant"}, {"radii": "stratified"}, {"tilt": "fixed"}], ids=str
)
def test_degree_3_is_exact_on_squares_for_any_radial_distribution(kernel, parameters):
    d = 5
    rule = SphericalRadial(**parameters, origin="signed")
    # Stationary kernels have even integrands, so they need no reflections.
    nodes = rule.draw(d, 2 * (d + 1), kernel, np.random.default_rng(0))
    second = np.einsum("j,ja,jb->ab", nodes.weights, nodes.frequencies(), nodes.frequencies())
    np.testing.assert_allclose(second, kernel.spectrum.moment(d, 1) / d * np.eye(d), atol=1e-12)


@pytest.mark.parametrize("tilt", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("radii", ["independent", "stratified", "shared"])
def test_weights_agree_with_the_documented_formulas(tilt, radii):
    d, blocks = 6, 4
    rule = SphericalRadial(tilt=tilt, radii=radii, origin="signed")
    nodes = draw(rule, d, blocks)
    n_nodes = blocks * (d + 1)
    moment = Gaussian().spectrum.moment(d, tilt)
    np.testing.assert_allclose(nodes.weights, moment / (n_nodes * nodes.radii ** (2 * tilt)))
    assert nodes.origin_weight == pytest.approx(1 - nodes.weights.sum() if tilt else 0.0)
    shared = nodes.radii.reshape(blocks, d + 1)
    assert (np.ptp(shared, axis=1) == 0).all() == (radii == "shared")


@pytest.mark.parametrize("order", [0, 1, 2])
def test_exact_radius_is_1_with_the_moment_as_weight(order):
    d = 6
    nodes = draw(SphericalRadial(tilt="exact"), d, kernel=ArcCosine(order))
    moment = [1.0, d, d * (d + 2)][order]
    np.testing.assert_allclose(nodes.radii, 1.0)
    np.testing.assert_allclose(nodes.weights, moment / (d + 1))
    assert nodes.origin_weight == 0
    assert not nodes.has_origin_column


def test_exact_radius_equals_the_papers_rule_for_order_1():
    # For a function of homogeneity 1, omega rho^2 is the same number for every node.
    d, kernel = 5, ArcCosine(1)
    exact = draw(SphericalRadial(tilt="exact"), d, kernel=kernel)
    degree_3 = draw(SphericalRadial(), d, kernel=kernel)
    np.testing.assert_allclose(exact.weights * exact.radii**2, degree_3.weights * degree_3.radii**2)


def test_stratified_radii_hit_every_slice_and_make_the_origin_weight_tiny():
    d, blocks = 16, 8
    rule = SphericalRadial(radii="stratified", origin="signed")
    independent = SphericalRadial(origin="signed")
    spread = [draw(independent, d, blocks, seed=s).origin_weight for s in range(50)]
    tiny = [draw(rule, d, blocks, seed=s).origin_weight for s in range(50)]
    assert np.std(tiny) < 0.2 * np.std(spread)
    radii = np.sort(draw(rule, d, blocks).radii)
    edges = Gaussian().spectrum.radii(np.linspace(0, 1, len(radii) + 1)[:, None], d, 1.0)
    assert ((edges[:-1] <= radii) & (radii <= edges[1:])).all()


@pytest.mark.parametrize(
    "rule",
    [
        MonteCarlo(),
        QuasiMonteCarlo(),
        SphericalRadial(),
        SphericalRadial(radii="stratified"),
        SphericalRadial(radii="shared"),
    ],
    ids=one_line,
)
def test_nodes_depend_on_the_state_of_the_generator_alone(rule):
    rng = np.random.default_rng(0)
    rng.random(10)
    kernel = Gaussian(0.5)
    again = restored(rng.bit_generator.state)
    first, second = (rule.draw(4, 40, kernel, generator) for generator in (rng, again))
    np.testing.assert_array_equal(first.frequencies(), second.frequencies())


@pytest.mark.parametrize("radii", ["independent", "stratified", "shared"])
@pytest.mark.parametrize("tilt", [0.4, 1.0])
def test_resample_gives_the_origin_a_real_column(radii, tilt):
    rule = SphericalRadial(radii=radii, tilt=tilt)
    for seed in range(20):
        nodes = rule.draw(5, 25, Gaussian(1.0), np.random.default_rng(seed))
        assert nodes.has_origin_column
        assert nodes.origin_weight >= 0
        assert nodes.weights.sum() + nodes.origin_weight == pytest.approx(1.0)


def test_renormalise_and_a_single_column_have_weights_that_sum_to_1():
    rng = np.random.default_rng(0)
    for rule, n in [(SphericalRadial(origin="renormalise"), 24), (SphericalRadial(), 1)]:
        nodes = rule.draw(5, n, Gaussian(1.0), rng)
        assert nodes.weights.sum() == pytest.approx(1.0)
        assert nodes.origin_weight == 0
        assert not nodes.has_origin_column


@pytest.mark.parametrize("order", [1, 2])
def test_renormalise_does_not_change_kernels_that_vanish_at_the_origin(order):
    rule, kernel = SphericalRadial(origin="renormalise"), ArcCosine(order)
    left = rule.draw(5, 24, kernel, np.random.default_rng(0))
    signed = SphericalRadial(origin="signed").draw(5, 24, kernel, np.random.default_rng(0))
    np.testing.assert_array_equal(left.weights, signed.weights)


def test_signed_weights_are_negative_about_half_of_the_time():
    rule = SphericalRadial(origin="signed")
    weights = [
        rule.draw(16, 34, Gaussian(1.0), np.random.default_rng(s)).origin_weight for s in range(200)
    ]
    assert 0.3 < np.mean(np.array(weights) < 0) < 0.7


@pytest.mark.parametrize(
    ("kernel", "rule", "n", "layout"),
    [
        (Gaussian(1.0), SphericalRadial(), 13, Layout(6, True, False, False)),
        (Gaussian(1.0), SphericalRadial(), 12, Layout(6, True, False, True)),
        (Gaussian(1.0), SphericalRadial(), 2, Layout(1, True, False, True)),
        (Gaussian(1.0), SphericalRadial(), 1, Layout(1, False, False, True)),
        (Gaussian(1.0), SphericalRadial(origin="signed"), 12, Layout(6, False, False, False)),
        (Gaussian(1.0), SphericalRadial(tilt=0.0), 12, Layout(6, False, False, False)),
        (Gaussian(1.0), SphericalRadial(tilt="fixed"), 13, Layout(6, True, False, False)),
        (ArcCosine(0), SphericalRadial(), 13, Layout(6, True, True, False)),
        (ArcCosine(0), SphericalRadial(tilt="exact"), 13, Layout(7, False, True, True)),
        (ArcCosine(1), SphericalRadial(), 12, Layout(6, False, True, False)),
        (ArcCosine(1), SphericalRadial(reflect=False), 12, Layout(12, False, False, False)),
        (ArcCosine(1), MonteCarlo(), 12, Layout(6, False, True, False)),
        (ArcCosine(1), MonteCarlo(reflect=False), 12, Layout(12, False, False, False)),
        (PointwiseNonlinear(np.tanh), SphericalRadial(), 12, Layout(12, False, False, False)),
        (PointwiseNonlinear(np.cos), SphericalRadial(), 12, Layout(11, True, False, False)),
        (PointwiseNonlinear(np.exp), MonteCarlo(), 12, Layout(6, False, True, False)),
    ],
)
def test_the_number_of_columns_is_exact(kernel, rule, n, layout):
    nodes = rule.draw(4, n, kernel, np.random.default_rng(0))
    assert len(nodes.radii) == len(nodes.weights) == nodes.directions.count == layout.n_nodes
    assert nodes.has_origin_column == layout.has_origin_column
    assert nodes.reflected == layout.reflected
    assert nodes.last_is_single == layout.last_is_single


@pytest.mark.parametrize("rotation", [*ROTATIONS, Hadamard()], ids=repr)
@pytest.mark.parametrize("directions", ["simplex", "orthoplex"])
@pytest.mark.parametrize("d", [1, 5, 8])
def test_projection_agrees_with_the_dense_directions(directions, rotation, d):
    rule = SphericalRadial(directions=directions, tilt=0.0, rotation=rotation)
    nodes = rule.draw(d, 50, Gaussian(1.0), np.random.default_rng(0))
    X = np.random.default_rng(1).standard_normal((6, d))
    dense = nodes.directions.dense()
    assert dense.shape == (25, d)
    np.testing.assert_allclose(nodes.directions.project(X), X @ dense.T, atol=1e-13)
    np.testing.assert_allclose(nodes.arguments(X), X @ nodes.frequencies().T, atol=1e-12)
    if rotation.size(d) == d:
        np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1.0)


def test_orf_is_orthogonal_within_blocks_with_chi_radii():
    d = 6
    nodes = as_rule("orf").draw(d, 4 * d, Gaussian(1.0), np.random.default_rng(0))
    W = nodes.frequencies().reshape(2, d, d)
    for block in W:
        gram = block @ block.T
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)
    assert not np.allclose(W[0] @ W[1].T, 0.0, atol=1e-3)
    np.testing.assert_allclose(nodes.weights, 1 / (2 * d))


@pytest.mark.parametrize("name", ["rom", "sorf"])
def test_rom_is_the_scaled_product_of_hadamard_matrices_and_signs(name):
    d, p = 6, 8
    nodes = as_rule(name).draw(d, 2 * p, Gaussian(1.0), np.random.default_rng(0))
    signs = nodes.directions.matrices.signs[0]
    product = np.sqrt(p) * np.eye(p)
    for k in range(3):
        hadamard = Hadamard(1).draw(p, np.random.default_rng(0)).dense()[0]
        hadamard *= hadamard[:, :1] * np.sqrt(
            p
        )  # remove its signs: symmetric, with a positive first row
        product = product @ np.diag(signs[k].astype(float)) @ hadamard
    np.testing.assert_allclose(nodes.frequencies(), product.T[:, :d], atol=1e-12)
    np.testing.assert_allclose(nodes.weights, 1 / p)


def test_fastfood_nodes_have_the_drawn_radii():
    nodes = Fastfood().draw(8, 48, Gaussian(1.0), np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(nodes.frequencies(), axis=1), nodes.radii)


def test_gauss_hermite_nodes_lie_on_the_grid():
    nodes = GaussHermite(degree=3).draw(4, 4000, Gaussian(1.0), np.random.default_rng(0))
    w = nodes.frequencies()
    np.testing.assert_allclose(np.unique(np.abs(w).round(9)), [0, np.sqrt(3)], atol=1e-8)
    share = (np.abs(w) > 1).mean()  # the two outer points of three have weight 1/6 each
    assert abs(share - 1 / 3) < 4 * np.sqrt(2 / 9 / w.size)


@pytest.mark.parametrize("sequence", ["halton", "sobol"])
def test_quasi_monte_carlo_fills_space_evenly(sequence):
    rule = QuasiMonteCarlo(sequence=sequence)
    w = rule.draw(2, 512, Gaussian(1.0), np.random.default_rng(0)).frequencies()
    counts, _ = np.histogramdd(w > 0, bins=2)
    # Each quadrant has a quarter of 256 nodes. With random nodes, the standard deviation is 7.
    assert np.abs(counts - 64).max() <= 3


@pytest.mark.parametrize("tilt", ["exact", "fixed"])
@pytest.mark.parametrize("radii", ["stratified", "shared", "constant"])
def test_radii_without_effect_are_rejected(tilt, radii):
    with pytest.raises(ValueError, match=rf"radii='{radii}' has no effect"):
        SphericalRadial(tilt=tilt, radii=radii).draw(4, 9, ArcCosine(0), np.random.default_rng(0))


UNSUPPORTED_KERNELS = [
    (SphericalRadial(), Laplacian(1.0), "not isotropic: use MonteCarlo"),
    (Fastfood(), Laplacian(1.0), "not isotropic: use MonteCarlo"),
    (GaussHermite(), Laplacian(1.0), "not isotropic: use MonteCarlo"),
    (SphericalRadial(), Matern(0.5), "finite moment of order 2: use Spherical"),
    (SphericalRadial(), Matern(1.0), "finite moment of order 2: use Spherical"),
    (SphericalRadial(tilt=0.6), Matern(0.5), "finite moment of order 1.2: use Spherical"),
    (SphericalRadial(tilt="fixed"), Matern(1.5), "finite moment of order 4: use Spherical"),
    (SphericalRadial(radii="constant"), Matern(0.5), "finite moment of order 2: use Spherical"),
    (SphericalRadial(tilt="exact"), Gaussian(1.0), "not homogeneous: use SphericalRadial"),
    (SphericalRadial(tilt="exact"), Matern(0.5), "not homogeneous: use SphericalRadial"),
    (
        SphericalRadial(tilt="exact"),
        PointwiseNonlinear(np.tanh),
        "not homogeneous: use SphericalRadial",
    ),
]


@pytest.mark.parametrize(("rule", "kernel", "message"), UNSUPPORTED_KERNELS)
def test_an_unsupported_kernel_raises_and_names_a_rule_that_supports_it(rule, kernel, message):
    with pytest.raises(ValueError, match=message) as caught:
        rule.draw(4, 50, kernel, np.random.default_rng(0))
    assert one_line(rule) in str(caught.value)
    assert one_line(kernel) in str(caught.value)
    assert str(caught.value).count(". ") == 0  # one sentence
    recommended = re.findall(r"rule='(.+?)'", str(caught.value))
    assert recommended
    for name in recommended:
        as_rule(name).draw(4, 50, kernel, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("rule", "kernel", "d", "infinite"),
    [
        (SphericalRadial(), Gaussian(1.0), 1, True),
        (SphericalRadial(), Gaussian(1.0), 2, True),
        (SphericalRadial(tilt=0.5), Gaussian(1.0), 1, True),
        (SphericalRadial(), RationalQuadratic(0.9), 8, True),
        (SphericalRadial(radii="constant"), RationalQuadratic(0.9), 8, True),
        (SphericalRadial(radii="constant"), Gaussian(1.0), 1, False),
        (SphericalRadial(), Gaussian(1.0), 3, False),
        (SphericalRadial(tilt=0.5), Gaussian(1.0), 2, False),
        (SphericalRadial(tilt="fixed"), Gaussian(1.0), 1, False),
        (SphericalRadial(tilt="exact"), ArcCosine(0), 1, False),
        (SphericalRadial(), ArcCosine(0), 2, True),
        (SphericalRadial(), ArcCosine(1), 2, False),
        (SphericalRadial(tilt=0.0), Gaussian(1.0), 1, False),
    ],
)
def test_weights_of_infinite_variance_warn(rule, kernel, d, infinite, recwarn):
    rule.draw(d, 50, kernel, np.random.default_rng(0))
    assert [w.category for w in recwarn] == ([UserWarning] if infinite else [])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (SphericalRadial(directions="simplx"), "directions='simplx'.*Did you mean 'simplex'"),
        (SphericalRadial(radii="stratify"), "radii='stratify'.*Did you mean 'stratified'"),
        (SphericalRadial(origin="sign"), "origin='sign'.*Did you mean 'signed'"),
        (SphericalRadial(tilt=1.5), "tilt=1.5 is not valid: pass a number from 0 to 1"),
        (SphericalRadial(tilt=np.nan), "tilt=nan is not valid"),
        (SphericalRadial(tilt="exacto"), "tilt='exacto'.*Did you mean 'exact'"),
        (SphericalRadial(tilt=None), "tilt=None is not valid"),
        (QuasiMonteCarlo(sequence="sobel"), "sequence='sobel'.*Did you mean 'sobol'"),
        (GaussHermite(1), "degree=1 is not valid"),
        (GaussHermite(500), "degree=500 is not valid: pass at most 128"),
    ],
)
def test_bad_parameters(rule, message):
    with pytest.raises(ValueError, match=message):
        rule.draw(4, 9, Gaussian(1.0), np.random.default_rng(0))


def test_bad_types():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="rotation='haar' is not valid: pass an object"):
        SphericalRadial(rotation="haar").draw(4, 9, Gaussian(1.0), rng)
    with pytest.raises(TypeError, match="reflect='yes' is not valid"):
        MonteCarlo(reflect="yes").draw(4, 9, Gaussian(1.0), rng)


def test_sobol_with_too_many_dimensions_names_a_fix():
    for kernel in (Gaussian(1.0), Laplacian(1.0)):
        with pytest.raises(ValueError, match=r"needs 30000 coordinates .* 21201 of Sobol .*rff"):
            QuasiMonteCarlo(sequence="sobol").draw(30_000, 4, kernel, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["sr33", "rff", "orf", "rom", "halton", "sobol", "fastfood"])
def test_nodes_are_immutable_and_rules_clone(name):
    rule = as_rule(name)
    assert repr(clone(rule)) == repr(rule)
    nodes = rule.draw(4, 30, Gaussian(1.0), np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        nodes.radii[0] = 1.0
    with pytest.raises(AttributeError):
        nodes.radii = None
