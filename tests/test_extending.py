"""Test user-defined kernels, spectra, nonlinearities, rules, radial rules and rotations."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone

from quadfeat import QuadratureFeatures, QuadratureRidge, grow, load, save
from quadfeat.io import register
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    IsotropicSpectrum,
    Kernel,
    Laplacian,
    LengthScaleKernel,
    Matern,
    Nonlinearity,
    NormalSpectrum,
    PointwiseNonlinear,
    SeparationKernel,
)
from quadfeat.rotations import DenseMatrices, DrawnMatrices, Haar, Rotation
from quadfeat.rules import (
    DenseDirections,
    Draw,
    Exact,
    Fastfood,
    Fixed,
    GaussHermite,
    MonteCarlo,
    QuasiMonteCarlo,
    RadialRule,
    Rule,
    SphericalRadial,
    Tilted,
)
from slow import slow

SEEDS = 400


@dataclass(frozen=True)
class StableSpectrum(IsotropicSpectrum):
    """Normal frequencies whose variance ``s`` is twice a positive stable variable."""

    exponent: float
    n_mixing = 2
    can_be_tilted = False

    def mixing(self, uniforms, tilt=0.0):
        assert tilt == 0
        a = self.exponent / 2
        # Kanter's formula turns an angle and an exponential variable into a positive stable one.
        u, v = np.clip(uniforms, 2.0**-54, 1.0 - 2.0**-53).T
        angle, exponential = np.pi * u, -np.log(v)
        logarithm = (
            np.log(np.sin(a * angle))
            - np.log(np.sin(angle)) / a
            + (1 - a) / a * (np.log(np.sin((1 - a) * angle)) - np.log(exponential))
        )
        with np.errstate(over="ignore"):
            return 2.0 * np.exp(logarithm)

    def mixing_moment(self, t):
        a = self.exponent / 2
        return 2.0**t * special.gamma(1 - t / a) / special.gamma(1 - t) if t < a else np.inf


@register
class Stable(LengthScaleKernel, SeparationKernel):
    """The isotropic stable kernel ``exp(-|x - y|^exponent)``, with an exponent between 0 and 2."""

    def __init__(self, exponent=1.0, *, length_scale="scale"):
        self.exponent = exponent
        self.length_scale = length_scale

    @property
    def spectrum(self):
        return StableSpectrum(self.exponent)

    def value_at(self, separations):
        return np.exp(-(separations ** (self.exponent / 2)))


UNBIASED = [
    MonteCarlo(),
    QuasiMonteCarlo(sequence="halton"),
    QuasiMonteCarlo(sequence="sobol"),
    Fastfood(),
    SphericalRadial(tilt=0.0),
    SphericalRadial(directions="orthoplex", tilt=0.0, rotation=Haar()),
    SphericalRadial(tilt=0.0, radii="stratified", origin="renormalise"),
    SphericalRadial(tilt=0.0, radii="shared"),
]
BIASED = [
    GaussHermite(),
    SphericalRadial(directions="orthoplex", tilt=0.0, radii="constant"),
]
NEED_TILTS = [SphericalRadial(), SphericalRadial(tilt=0.25), SphericalRadial(tilt=Tilted(0.1))]
NEED_MOMENTS = [
    SphericalRadial(tilt="fixed"),
    SphericalRadial(tilt=0.0, origin="match"),
    QuasiMonteCarlo(matched=True),
]


def rows(d, n=60):
    return np.random.default_rng(d).standard_normal((n, d))


def standard_errors_off(make, exact):
    """Return the largest deviation of the mean estimate from the kernel, in standard errors."""
    estimates = np.array([make(seed) for seed in range(SEEDS)])
    error = estimates.std(axis=0, ddof=1) / np.sqrt(SEEDS)
    return float((np.abs(estimates.mean(axis=0) - exact) / (error + 1e-13)).max())


class TestStableKernel:
    @pytest.mark.parametrize("exponent", [0.5, 1.0, 1.7])
    def test_mixing_has_its_moments_and_its_laplace_transform(self, exponent):
        spectrum = StableSpectrum(exponent)
        s = spectrum.mixing(np.random.default_rng(0).random((200_000, 2)))
        for t in (-1.0, -0.5, exponent / 8):
            powers = s**t
            error = powers.std() / np.sqrt(len(s))
            assert abs(powers.mean() - spectrum.mixing_moment(t)) < 4 * error
        for u in (0.1, 1.0, 5.0):
            values = np.exp(-u * s / 2)
            error = values.std() / np.sqrt(len(s))
            assert abs(values.mean() - np.exp(-(u ** (exponent / 2)))) < 4 * error

    def test_exponent_one_is_the_matern_kernel_of_order_one_half(self):
        X = rows(3)
        np.testing.assert_allclose(
            Stable(1.0, length_scale=2.0)(X), Matern(0.5, length_scale=2.0)(X), atol=1e-7
        )

    # At four standard errors, the 8 x 2 x 9 comparisons fail in fewer than one run in a hundred.
    @pytest.mark.parametrize("rule", UNBIASED, ids=repr)
    @pytest.mark.parametrize("exponent", [0.8, slow(1.5)])
    def test_transform_is_unbiased(self, rule, exponent):
        kernel, X = Stable(exponent, length_scale=1.0), rows(4, 3)

        def estimate(seed):
            features = QuadratureFeatures(kernel, rule=rule, n_components=21, random_state=seed)
            Z = features.fit_transform(X)
            return Z @ Z.T

        assert standard_errors_off(estimate, kernel(X)) < 4

    @pytest.mark.parametrize("rule", BIASED, ids=repr)
    def test_other_rules_support_it(self, rule):
        features = QuadratureFeatures(Stable(1.2), rule=rule, n_components=1000, random_state=0)
        assert features.fit(rows(8)).approximation_error_.value < 0.4

    @pytest.mark.parametrize("rule", NEED_TILTS, ids=repr)
    def test_rules_that_tilt_raise_an_error_with_a_fix(self, rule):
        with pytest.raises(ValueError, match=r"radii cannot be tilted: use SphericalRadial.*'orf'"):
            QuadratureFeatures(Stable(), rule=rule).fit(rows(4))

    @pytest.mark.parametrize("rule", NEED_MOMENTS, ids=repr)
    def test_rules_that_need_moments_raise(self, rule):
        with pytest.raises(ValueError, match=r"no finite moment of order|infinite second moments"):
            QuadratureFeatures(Stable(), rule=rule).fit(rows(4))

    @pytest.mark.parametrize("d", [1, 2, 3, 8, 60])
    @pytest.mark.parametrize("n_components", [1, 2, 64, 301])
    def test_auto_chooses_among_rules_without_a_tilt(self, d, n_components):
        features = QuadratureFeatures(
            Stable(1.3), rule="auto", n_components=n_components, random_state=0
        ).fit(rows(d))
        assert features.transform(rows(d)).shape == (60, n_components)
        considered = [candidate.rule for candidate in features.candidates_]
        assert len(considered) > 2
        assert {rule.tilt for rule in considered if hasattr(rule, "tilt")} == {0.0}

    @pytest.mark.parametrize("d", [5, 20])
    def test_closed_form_errors_agree_with_draws(self, d):
        X, kernel = rows(d, 200), Stable(1.5)
        chosen = QuadratureFeatures(kernel, rule="auto", n_components=200, random_state=0).fit(X)
        found = next(c for c in chosen.candidates_ if c.method == "closed form")
        drawn = [
            QuadratureFeatures(kernel, rule=found.rule, n_components=200, random_state=seed)
            .fit(X)
            .kernel_error(X, random_state=0)
            .value
            for seed in range(10)
        ]
        assert np.sqrt(np.mean(np.square(drawn))) == pytest.approx(found.error, rel=0.15)

    def test_auto_finds_a_number_of_columns(self):
        features = QuadratureFeatures(
            Stable(1.5), rule="auto", n_components="auto", tol=0.3, random_state=0
        ).fit(rows(3))
        assert features.approximation_error_.value < 0.4
        assert features.n_components_bound_ is None

    def test_pickle_clone_and_repr(self):
        features = QuadratureFeatures(Stable(1.2), rule="auto", n_components=50, random_state=0)
        assert "Stable(exponent=1.2)" in repr(features)
        X = rows(4)
        features.fit(X)
        again = pickle.loads(pickle.dumps(features))
        np.testing.assert_array_equal(again.transform(X), features.transform(X))
        copy = clone(features).set_params(kernel__exponent=1.4).fit(X)
        assert copy.kernel_.spectrum == StableSpectrum(1.4)

    def test_models_support_it_but_do_not_learn_its_scale(self):
        X = rows(3, 300)
        y = np.sin(X[:, 0])
        model = QuadratureRidge(Stable(1.5), alpha=1.0, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.8
        model.set_params(lengthscales="isotropic")
        with pytest.raises(NotImplementedError, match=r"Stable.*define slope_at"):
            model.fit(X, y)


@dataclass(frozen=True)
class Sine(Nonlinearity):
    """An odd nonlinearity in NumPy."""

    at_zero = 0.0
    is_even = True

    def __call__(self, t):
        return np.sin(t)

    def largest(self, bound):
        return min(bound, 1.0)


@register
class SineKernel(LengthScaleKernel):
    """``E[sin(w.x) sin(w.y)]``, defined only by its Gram matrix."""

    def __init__(self, *, length_scale=1.0):
        self.length_scale = length_scale

    nonlinearity = Sine()
    spectrum = NormalSpectrum()

    def gram(self, X, Y, same):
        squares = (X**2).sum(axis=1)[:, None] + (Y**2).sum(axis=1)
        return np.exp(-squares / 2) * np.sinh(X @ Y.T)


@dataclass(frozen=True)
class SlowFourier(Nonlinearity):
    """Cosine and sine as a user would define them, with two columns per node."""

    at_zero = 1.0
    is_even = True
    columns_per_node = 2
    is_periodic = True

    def __call__(self, t):
        return np.stack([np.cos(t), np.sin(t)], axis=-1)

    def largest(self, bound):
        return 1.0


class SlowGaussian(Gaussian):
    """The Gaussian kernel, with a nonlinearity that the native core does not know."""

    nonlinearity = SlowFourier()


class TestNonlinearity:
    def test_the_exact_kernel_is_right(self):
        X = rows(3, 6)
        kernel = SineKernel(length_scale=2.0)
        np.testing.assert_allclose(
            kernel(X), PointwiseNonlinear(np.sin, length_scale=2.0)(X), atol=1e-10
        )
        np.testing.assert_allclose(kernel.pairs(X, X[::-1]), np.diagonal(kernel(X, X[::-1])))

    @pytest.mark.parametrize("rule", ["auto", "rff", "orf", "sr33", "sobol", "fastfood"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_features_estimate_it(self, rule, dtype):
        X = rows(5, 200).astype(dtype)
        features = QuadratureFeatures(SineKernel(), rule=rule, n_components=2000, random_state=0)
        Z = features.fit_transform(X)
        assert Z.dtype == dtype
        exact = features.kernel_(X)
        assert np.linalg.norm(Z @ Z.T - exact) < 0.25 * np.linalg.norm(exact)

    def test_cost_and_native_names_are_declared(self):
        assert [k.nonlinearity.native_name for k in (Gaussian(), *map(ArcCosine, range(3)))] == [
            "fourier",
            "step",
            "ramp",
            "squared_ramp",
        ]
        assert Gaussian().nonlinearity.cost == 1
        assert Sine().native_name is None
        assert Sine().cost == PointwiseNonlinear(np.tanh).nonlinearity.cost == 16

    @pytest.mark.parametrize("rule", ["rff", "sr33", "fastfood"])
    @pytest.mark.parametrize(
        "n_components", [200, 201]
    )  # the odd number has a single column left over
    def test_two_columns_per_node_equal_those_of_the_native_pair(self, rule, n_components):
        X = rows(50, 20)
        ours, theirs = (
            QuadratureFeatures(kernel, rule=rule, n_components=n_components, random_state=0).fit(X)
            for kernel in (Gaussian(0.01), SlowGaussian(0.01))
        )
        np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-12)


class HeavyRamp(LengthScaleKernel):
    """A homogeneous function of frequencies with infinite second moments."""

    nonlinearity = ArcCosine(1).nonlinearity
    spectrum = StableSpectrum(1.0)

    def __init__(self, *, length_scale=1.0):
        self.length_scale = length_scale

    def gram(self, X, Y, same):
        return np.ones((len(X), len(Y)))  # the test does not use the values


def test_auto_skips_rules_that_need_missing_moments():
    features = QuadratureFeatures(HeavyRamp(), n_components=30, random_state=0).fit(rows(4))
    assert {c.rule.tilt for c in features.candidates_ if hasattr(c.rule, "tilt")} == {0.0}


@register
class Line(Rule):
    """Independent nodes, without any parameters."""

    def draw_nodes(self, d, layout, kernel, rng):
        spectrum, n = kernel.spectrum, layout.n_nodes
        frequencies = spectrum.frequencies(rng.random((n, spectrum.n_uniforms(d))), d)
        return Draw(DenseDirections(frequencies), np.ones(n), np.full(n, 1.0 / n))


@register
class Antipodal(RadialRule):
    """Degree 1, with radii in pairs of opposite quantiles."""

    has_origin_weight = False

    def radii(self, uniforms, problem):
        half = (len(uniforms) + 1) // 2
        paired = np.concatenate([uniforms[:half], 1.0 - uniforms[:half]])[: len(uniforms)]
        return problem.spectrum.radii(paired, problem.d)

    def weights(self, radii, share, problem):
        return np.full(len(radii), share / len(radii))


class PlainRotation(Rotation):
    """The same as Haar, without any declared properties."""

    def draw(self, d, rng, count=1):
        return Haar().draw(d, rng, count)


class TestRules:
    def test_a_rule_needs_one_method(self):
        X, kernel = rows(3, 3), Stable(1.5, length_scale=1.0)

        def estimate(seed):
            Z = QuadratureFeatures(
                kernel, rule=Line(), n_components=21, random_state=seed
            ).fit_transform(X)
            return Z @ Z.T

        assert standard_errors_off(estimate, kernel(X)) < 4

    def test_it_grows_and_is_pickled(self):
        X = rows(3)
        small = QuadratureFeatures(rule=Line(), n_components=20, random_state=0).fit(X)
        large = pickle.loads(pickle.dumps(grow(small, 80)))
        np.testing.assert_allclose(large.transform(X)[:, :20], small.transform(X) / 2)

    def test_rules_report_whether_they_are_fast(self):
        fast = [SphericalRadial(), Fastfood(), MonteCarlo(), SphericalRadial(rotation=Haar())]
        assert [rule.is_fast(1000) for rule in fast] == [True, True, False, False]
        assert all(rule.is_fast(10) for rule in fast)

    def test_rules_give_the_rule_for_a_remainder(self):
        assert QuasiMonteCarlo(matched=True).for_remainder().matched is False
        assert SphericalRadial(tilt=0.5).for_remainder().tilt == 0.5

    def test_closed_forms_need_stationary_kernels_and_uniform_rotations(self):
        stratified = SphericalRadial(radii="stratified")
        assert stratified.describe_block(5, Gaussian(1.0)).is_stratified
        assert stratified.describe_block(5, Gaussian(1.0)).cosine == -0.2
        assert not SphericalRadial(tilt="fixed").describe_block(5, Gaussian(1.0)).is_unbiased
        for rule, kernel in (
            (MonteCarlo(), Gaussian(1.0)),
            (stratified, ArcCosine(1)),
            (stratified, Laplacian(1.0)),
            (SphericalRadial(radii="shared"), Gaussian(1.0)),
            (SphericalRadial(rotation=PlainRotation()), Gaussian(1.0)),
        ):
            assert rule.describe_block(5, kernel) is None


class TestRadialRules:
    @pytest.mark.parametrize(
        ("short", "rule"),
        [(0.0, Tilted(0.0)), (0.3, Tilted(0.3)), (1, Tilted()), ("fixed", Fixed())],
        ids=repr,
    )
    @pytest.mark.parametrize("origin", ["resample", "signed", "renormalise", "match"])
    def test_short_forms_equal_the_objects(self, short, rule, origin):
        X = rows(6)
        maps = [
            QuadratureFeatures(
                rule=SphericalRadial(tilt=tilt, origin=origin), n_components=50, random_state=0
            ).fit(X)
            for tilt in (short, rule)
        ]
        assert maps[0].rule_.radial_rule.get_params() == rule.get_params()
        np.testing.assert_array_equal(*(features.transform(X) for features in maps))

    def test_exact_is_an_object_too(self):
        X = rows(6)
        maps = [
            QuadratureFeatures(
                ArcCosine(1), rule=SphericalRadial(tilt=tilt), n_components=50, random_state=0
            ).fit(X)
            for tilt in ("exact", Exact())
        ]
        np.testing.assert_array_equal(*(features.transform(X) for features in maps))

    def test_short_forms_are_kept_as_parameters(self):
        rule = SphericalRadial(tilt="exact")
        assert clone(rule).tilt == "exact"
        assert repr(rule) == "SphericalRadial(tilt='exact')"
        assert SphericalRadial(tilt=Tilted(0.5)).get_params()["tilt__tilt"] == 0.5

    @pytest.mark.parametrize("tilt", [Tilted(1.5), Tilted("exact"), Tilted(None), object, [0.5]])
    def test_other_objects_are_rejected(self, tilt):
        with pytest.raises(ValueError, match=r"tilt=.*is not valid: pass a number from 0 to 1"):
            SphericalRadial(tilt=tilt).draw(4, 9, Gaussian(1.0), np.random.default_rng(0))

    def test_a_user_defined_radial_rule_is_unbiased_and_grows(self):
        X, kernel = rows(4, 3), Matern(0.5, length_scale=2.0)
        rule = SphericalRadial(tilt=Antipodal())

        def estimate(seed):
            Z = QuadratureFeatures(
                kernel, rule=rule, n_components=21, random_state=seed
            ).fit_transform(X)
            return Z @ Z.T

        assert standard_errors_off(estimate, kernel(X)) < 4
        small = QuadratureFeatures(kernel, rule=rule, n_components=20, random_state=0).fit(X)
        large = pickle.loads(pickle.dumps(grow(small, 80)))
        np.testing.assert_allclose(large.transform(X)[:, :20], small.transform(X) / 2)


@register
@dataclass(frozen=True, eq=False)
class Permutations(DrawnMatrices):
    """Permutations with signs."""

    order: np.ndarray  # (count, d)
    signs: np.ndarray  # (count, d)

    @property
    def count(self):
        return len(self.order)

    @property
    def size(self):
        return self.order.shape[1]

    def turn(self, columns):
        return columns[self.order] * self.signs[:, :, None].astype(columns.dtype)


@register
class SignedPermutation(Rotation):
    """The cheapest rotation: permute the axes and flip their signs."""

    def draw(self, d, rng, count=1):
        order = rng.permuted(np.broadcast_to(np.arange(d), (count, d)), axis=1)
        return Permutations(order, rng.choice([-1.0, 1.0], size=(count, d)))


class TestRotations:
    def test_a_rotation_rotates_rows_and_works_in_rules(self):
        drawn = SignedPermutation().draw(5, np.random.default_rng(0), 3)
        Q = drawn.dense()
        np.testing.assert_allclose(Q @ np.swapaxes(Q, 1, 2), np.broadcast_to(np.eye(5), (3, 5, 5)))
        X = rows(5)
        np.testing.assert_allclose(drawn.apply(X)[:, 1], X @ Q[1])
        rule = SphericalRadial(tilt=0.0, rotation=SignedPermutation())
        features = QuadratureFeatures(rule=rule, n_components=240, random_state=0).fit(X)
        large = pickle.loads(pickle.dumps(grow(features, 480)))
        assert large.transform(X).shape == (60, 480)

    def test_dense_matrices_define_a_rotation(self):
        class Flip(Rotation):
            def draw(self, d, rng, count=1):
                return DenseMatrices(np.broadcast_to(np.eye(d)[::-1], (count, d, d)).copy())

        assert not Flip().is_uniform
        assert Flip().draw(3, np.random.default_rng(0)).dense().shape == (1, 3, 3)


def test_a_kernel_without_a_formula_cannot_be_created():
    class Nothing(LengthScaleKernel, SeparationKernel):
        pass

    with pytest.raises(TypeError, match=r"abstract.*spectrum.*value_at"):
        Nothing()
    assert issubclass(Nothing, Kernel)


@pytest.mark.parametrize(
    ("kernel", "rule"),
    [
        (Stable(1.2), "auto"),
        (Stable(1.2), Line()),
        (Stable(1.2), SphericalRadial(tilt=Antipodal())),
        (SineKernel(), "auto"),
        (Gaussian(), SphericalRadial(tilt=Tilted(0.5))),
        (Gaussian(), SphericalRadial(tilt=Fixed())),
        (ArcCosine(), SphericalRadial(tilt=Exact())),
        (Gaussian(), SphericalRadial(tilt=0.0, rotation=SignedPermutation())),
    ],
    ids=repr,
)
def test_registered_classes_are_saved_and_loaded(kernel, rule, tmp_path):
    X = rows(4)
    features = QuadratureFeatures(kernel, rule=rule, n_components=50, random_state=0).fit(X)
    save(features, tmp_path / "map")
    again = load(tmp_path / "map")
    assert repr(again.rule_) == repr(features.rule_)
    np.testing.assert_array_equal(again.transform(X), features.transform(X))
