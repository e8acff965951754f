"""Test ``rule="auto"``: good choices, correct explanations, and reproducibility."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from quadfeat import QuadratureFeatures
from quadfeat.engine.core import compile_map
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
)
from quadfeat.rules import MonteCarlo, QuasiMonteCarlo, SphericalRadial, as_rule
from quadfeat.rules.nodes import Layout
from slow import repeats, slow

DIGITS = load_digits().data / 16
IRIS = load_iris().data
BASELINES = ["rff", "orf", "rom", "halton", "sobol", "gauss-hermite", "sr33"]


def relative_error(rule, kernel, rows, n_components, n_draws=40):
    """Return the root mean square error over draws. "auto" chooses anew for each quarter."""
    exact = kernel(rows)
    rules = (
        [rule]
        if rule != "auto"
        else [
            QuadratureFeatures(kernel, n_components=n_components, random_state=seed).fit(rows).rule_
            for seed in range(4)
        ]
    )
    rng = np.random.default_rng(0)
    Z = np.empty((len(rows), n_components))
    squares = []
    for chosen in rules:
        for _ in range(n_draws // len(rules)):
            nodes = as_rule(chosen).draw(rows.shape[1], n_components, kernel, rng)
            compile_map(nodes, kernel, Z.dtype).write(rows, Z, 1)
            squares.append(((Z @ Z.T - exact) ** 2).sum() / (exact**2).sum())
    return np.sqrt(np.mean(squares))


DATA = {"digits": DIGITS[:200], "iris": IRIS}


@pytest.mark.parametrize(
    ("name", "kernel", "n_components"),
    [
        ("digits", Gaussian(0.2 / 64), 260),
        slow("digits", Gaussian(0.2 / 64), 400),
        ("digits", Gaussian(2.0 / 64), 100),
        ("digits", ArcCosine(0), 130),
        slow("digits", ArcCosine(1), 333),
        slow("iris", Gaussian(0.25), 300),
        ("iris", Gaussian(0.01), 41),
        ("iris", ArcCosine(1), 100),
    ],
    ids=str,
)
def test_no_fixed_rule_is_much_better(name, kernel, n_components):
    rows = DATA[name]
    ours = relative_error("auto", kernel, rows, n_components)
    theirs = {name: relative_error(name, kernel, rows, n_components) for name in BASELINES}
    assert ours < 1.2 * min(theirs.values())  # few draws each, so noise of a few percent


def numbers_after(text, words):
    return [float(number) for number in re.findall(words + r" ([0-9.e-]+[0-9])", text)]


def in_short(rule):
    """Return a rule as ``why_`` prints it, with the computed number rounded to three digits."""
    remainder = getattr(rule, "remainder", 1.0)
    return " ".join(repr(rule).split()).replace(repr(remainder), f"{remainder:.3g}")


@pytest.mark.parametrize("n_components", [1, 5, 64, 301])
@pytest.mark.parametrize(
    "kernel", ["gaussian", "matern12", "laplacian", "arccos0", PointwiseNonlinear(np.tanh)], ids=str
)
def test_why_agrees_with_the_table(kernel, n_components):
    features = QuadratureFeatures(kernel, n_components=n_components, random_state=0).fit(DIGITS)
    candidates = features.candidates_
    errors = [candidate.error for candidate in candidates]
    assert errors == sorted(errors)
    (chosen,) = (c for c in candidates if c.rule is features.rule_)
    why = " ".join(features.why_.split())
    assert why.startswith(("The rule with ", "The rule '"))
    assert f"({in_short(features.rule_)})" in why.partition(" has an expected")[0]
    assert numbers_after(why, "an expected relative error of") == [float(f"{chosen.error:.3g}")]
    columns = "1 column" if n_components == 1 else f"{n_components} columns"
    assert f"with {columns} ({chosen.method} on " in why
    if chosen is candidates[0]:
        assert f"next best of {len(candidates)} candidates" in why or len(candidates) == 1
        if len(candidates) > 1:
            assert why.endswith(f"with {candidates[1].error:.3g}.")
            assert in_short(candidates[1].rule) in why
    else:
        assert (
            f" has {candidates[0].error:.3g}, but is slower, since it multiplies by a dense" in why
        )
        assert isinstance(candidates[0].rule, (QuasiMonteCarlo, MonteCarlo))
        assert isinstance(features.rule_, SphericalRadial)
        assert chosen.error <= 1.05 * candidates[0].error


@pytest.mark.parametrize("n_components", [19, 100])
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.5),
        Gaussian(0.05),
        Matern(1.5, length_scale=1.0),
        RationalQuadratic(1.0, length_scale=10.0),
        RationalQuadratic(0.3, length_scale=0.1),
        ArcCosine(0),
    ],
    ids=str,
)
def test_expected_errors_agree_with_those_of_maps(kernel, d, n_components):
    rows = np.random.default_rng(0).standard_normal((250, d))
    features = QuadratureFeatures(kernel, n_components=n_components, random_state=0).fit(rows)
    (chosen,) = (c for c in features.candidates_ if c.rule is features.rule_)
    measured = relative_error(chosen.rule, kernel, rows, n_components)
    # Allow for sampled rows, few trials and draws, and terms that closed forms neglect.
    assert 0.5 < measured / chosen.error < 2.0


def test_the_weight_of_a_remainder_is_never_above_one():
    # Rounding once made it larger than one.
    rows = np.random.default_rng(0).standard_normal((300, 5))
    for n_components in (33, 41, 57):
        kernel = PointwiseNonlinear(np.exp)
        features = QuadratureFeatures(kernel, n_components=n_components, random_state=0).fit(rows)
        assert features.rule_.remainder <= 1.0


def test_same_seed_same_choice_and_same_features():
    first, second = (
        QuadratureFeatures(n_components=77, random_state=3, n_jobs=n_jobs).fit(DIGITS)
        for n_jobs in (1, 2)
    )
    assert repr(first.candidates_) == repr(second.candidates_)
    assert np.array_equal(first.transform(DIGITS), second.transform(DIGITS))


def test_a_first_batch_is_enough():
    whole = QuadratureFeatures(Gaussian(0.01), n_components=128, random_state=0).fit(DIGITS)
    batch = QuadratureFeatures(Gaussian(0.01), n_components=128, random_state=0).fit(DIGITS[:300])
    error = batch.kernel_error(DIGITS, random_state=0).value
    assert error < 1.3 * whole.kernel_error(DIGITS, random_state=0).value


@pytest.mark.parametrize("n_components", [131, 140, *map(slow, [130, 190, 259])])
def test_a_remainder_does_not_increase_the_error_of_a_block(n_components):
    # For a wide kernel, one complete block of 2 (d + 1) columns is exact to degree 3.
    kernel = Gaussian(0.05 / 64)
    block = relative_error("auto", kernel, DIGITS[:200], 130)
    cut = relative_error("auto", kernel, DIGITS[:200], n_components)
    published = relative_error("sr33", kernel, DIGITS[:200], n_components)
    assert cut < 1.15 * block
    assert n_components == 131 or cut < published


def test_fewer_columns_than_a_block_are_used_well():
    kernel = Gaussian(0.05 / 64)
    for n_components in (20, 21, 101):
        ours = relative_error("auto", kernel, DIGITS[:200], n_components)
        theirs = min(
            relative_error(name, kernel, DIGITS[:200], n_components)
            for name in ("sr33", "orf", "rom", "halton")
        )
        assert ours < 1.2 * theirs


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kernel", ["gaussian", Matern(2.5), "rational-quadratic"], ids=str)
def test_no_weights_of_infinite_variance(d, kernel):
    features = QuadratureFeatures(kernel, n_components=64, random_state=0).fit(IRIS[:, :d])
    for candidate in features.candidates_:
        tilt = getattr(candidate.rule, "tilt", 0.0)
        assert isinstance(tilt, str) or tilt < d / 2


def test_a_kernel_with_an_anisotropic_spectrum():
    features = QuadratureFeatures(Laplacian(0.1), n_components=64, random_state=0).fit(IRIS)
    assert {type(candidate.rule) for candidate in features.candidates_} == {
        MonteCarlo,
        QuasiMonteCarlo,
    }


@pytest.mark.parametrize(
    "rows", [np.zeros((20, 3)), np.ones((1, 4)), np.ones((30, 2)) * 1e-200], ids=str
)
@pytest.mark.parametrize("kernel", ["gaussian", "arccos1"])
def test_data_without_information(rows, kernel):
    features = QuadratureFeatures(kernel, n_components=9, random_state=0).fit(rows)
    assert np.isfinite(features.transform(rows)).all()


class TestRulesThatAutoNeeds:
    def test_matched_points_have_exact_second_moments(self):
        for sequence in ("halton", "sobol"):
            rule = QuasiMonteCarlo(sequence=sequence, matched=True)
            nodes = rule.draw(5, 40, Gaussian(1.0), np.random.default_rng(0))
            frequencies = nodes.frequencies()
            moments = (frequencies * nodes.weights[:, None]).T @ frequencies
            assert np.allclose(moments, np.eye(5), atol=1e-12)

    def test_matched_points_of_a_mixture(self):
        kernel = Matern(2.5, length_scale=1.0)
        nodes = QuasiMonteCarlo(matched=True).draw(3, 200, kernel, np.random.default_rng(0))
        frequencies = nodes.frequencies()
        expected = kernel.spectrum.moment(3, 1.0) / 3
        assert np.allclose(frequencies.T @ frequencies / 100, expected * np.eye(3))

    @pytest.mark.parametrize("tilt", [0.0, 0.5, 1.0])
    def test_matched_weights_leave_no_weight_for_the_origin(self, tilt):
        rule = SphericalRadial(tilt=tilt, radii="stratified", origin="match")
        nodes = rule.draw(6, 2 * 14, Gaussian(1.0), np.random.default_rng(0))
        assert np.isclose(nodes.weights.sum(), 1.0)
        assert np.isclose(nodes.weights @ nodes.radii**2, 6.0)
        assert nodes.origin_weight == 0.0
        assert not nodes.has_origin_column

    @pytest.mark.parametrize("directions", ["simplex", "orthoplex"])
    def test_matched_whole_blocks_are_exact_to_degree_three(self, directions):
        d = 6
        n_nodes = 2 * (d + 1 if directions == "simplex" else d)
        rule = SphericalRadial(directions=directions, radii="stratified", origin="match")
        nodes = rule.draw(d, 2 * n_nodes, Gaussian(1.0), np.random.default_rng(0))
        frequencies = nodes.frequencies()
        moments = (frequencies * nodes.weights[:, None]).T @ frequencies
        assert np.allclose(moments, np.eye(d), atol=1e-12)

    @pytest.mark.parametrize("remainder", [0.0, 0.3, 1.0])
    @pytest.mark.parametrize("n", [29, 33, 36, 7])
    def test_the_remainder_has_its_share(self, remainder, n):
        rule = SphericalRadial(radii="stratified", origin="match", remainder=remainder)
        nodes = rule.draw(6, n, Gaussian(1.0), np.random.default_rng(0))
        layout = Layout.of(n, Gaussian(1.0), origin=False, reflect=True)
        whole, rest = rule.whole_and_rest(layout, 7)
        assert whole + rest == len(nodes.weights)
        assert np.isclose(nodes.weights.sum(), 1.0)
        ratio = nodes.weights[whole:].mean() / nodes.weights[:whole].mean()
        # With remainder=1.0, single weights vary with the radius.
        assert np.isclose(ratio, remainder) or remainder == 1.0

    def test_without_a_remainder_whole_blocks_stay_exact(self):
        d = 6
        rule = SphericalRadial(radii="stratified", origin="match", remainder=0.0)
        nodes = rule.draw(d, 2 * (d + 1) + 5, Gaussian(1.0), np.random.default_rng(0))
        frequencies = nodes.frequencies()
        moments = (frequencies * nodes.weights[:, None]).T @ frequencies
        assert np.allclose(moments, np.eye(d), atol=1e-12)

    @pytest.mark.parametrize("rule", [MonteCarlo(remainder=0.0), QuasiMonteCarlo(remainder=0.0)])
    def test_a_single_column_may_have_no_weight(self, rule):
        features = QuadratureFeatures(Gaussian(1.0), rule=rule, n_components=9, random_state=0)
        Z = features.fit_transform(IRIS)
        assert not Z[:, -1].any()
        assert np.allclose((Z**2).sum(axis=1), 1.0)

    @pytest.mark.parametrize(
        "kernel", repeats([Gaussian(0.5), ArcCosine(1), PointwiseNonlinear(np.tanh)])
    )
    def test_remainders_are_unbiased(self, kernel):
        rows = np.random.default_rng(0).standard_normal((4, 3))
        exact = kernel(rows)
        rule = SphericalRadial(tilt=0.0, remainder=0.3)
        estimates = [
            QuadratureFeatures(kernel, rule=rule, n_components=11, random_state=seed)
            .fit(rows)
            .approximate_kernel(rows)
            for seed in range(1000)
        ]
        standard_error = np.std(estimates, axis=0) / np.sqrt(len(estimates))
        bias = np.mean(estimates, axis=0) - exact
        assert np.all(np.abs(bias) < 4.5 * standard_error + 2e-3)


@pytest.mark.skipif("QUADFEAT_DATA" not in os.environ, reason="needs the paper's data")
@pytest.mark.parametrize("name", repeats(["powerplant", "letter", "usps"]))
def test_better_than_the_published_rule_on_real_data(name):
    rows = np.load(Path(os.environ["QUADFEAT_DATA"]) / f"{name}.npz")["X"][:300].astype(float)
    rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12)
    d = rows.shape[1]
    for gamma, n_components in ((0.1 / d, 4 * (d + 1)), (1.0 / d, 4 * (d + 1) + 30)):
        ours = relative_error("auto", Gaussian(gamma), rows, n_components)
        published = relative_error("sr33", Gaussian(gamma), rows, n_components)
        assert ours < published
