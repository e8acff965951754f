"""Compare evidence with plain formulas and scikit-learn; test its gradient and learned scales."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss

from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
)
from quadfeat.learning import lengthscales
from quadfeat.learning.evidence import Evidence
from quadfeat.learning.lengthscales import learn
from slow import repeats, slow

LEARNABLE = [
    Gaussian(),
    Laplacian(),
    Matern(0.3),
    Matern(0.5),
    Matern(1.0),
    Matern(1.5),
    Matern(2.5),
    Matern(3.2),
    Matern(60.0),
    Matern(np.inf),
    RationalQuadratic(0.7),
]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rows_and_outputs(m=40, d=3, k=2):
    rng = np.random.default_rng(m)
    X = rng.standard_normal((m, d))
    Y = np.sin(X[:, :1] + np.arange(k)) + 0.2 * rng.standard_normal((m, k))
    return X, Y - Y.mean(axis=0)


def log_evidence_of(kernel, X, Y, alpha):
    """Return the log evidence by the formula of the restricted likelihood, row by row."""
    n, k = Y.shape
    A = kernel(X) + alpha * np.eye(n)
    inverse = np.linalg.inv(A)
    ones = np.ones(n)
    projected = inverse - np.outer(inverse @ ones, inverse @ ones) / (ones @ inverse @ ones)
    variances = np.einsum("aj,ab,bj->j", Y, projected, Y) / (n - 1)
    shared = np.linalg.slogdet(A)[1] + np.log(ones @ inverse @ ones)
    return -0.5 * ((n - 1) * (1 + np.log(2 * np.pi * variances)).sum() + k * shared)


def with_factor(kernel, factor):
    return clone(kernel).set_params(
        **{kernel.scale_parameter: kernel.factor_to_scale(np.asarray(factor))}
    )


def drawn(kernel, X, noise, k, rng):
    """Draw outputs from the Gaussian process of a kernel, with this noise standard deviation."""
    cholesky = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(len(X)))
    return cholesky @ rng.standard_normal((len(X), k)) + noise * rng.standard_normal((len(X), k))


@pytest.mark.parametrize("kernel", LEARNABLE, ids=repr)
def test_evidence_agrees_with_the_plain_formula(kernel):
    X, Y = rows_and_outputs()
    factors = np.array([0.5, 1.0, 1.7])
    evidence = Evidence(kernel, X, Y, np.ones(len(X)))
    loss, _, _ = evidence.loss_and_gradient(np.log(factors), np.log(0.05))
    expected = log_evidence_of(with_factor(kernel, factors), X, Y, 0.05)
    assert evidence.constant - loss == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (Gaussian(0.5 / 0.9**2), gp.RBF(0.9)),
        (Matern(1.5, length_scale=0.9), gp.Matern(0.9, nu=1.5)),
        (RationalQuadratic(0.7, length_scale=0.9), gp.RationalQuadratic(0.9, 0.7)),
    ],
    ids=repr,
)
def test_evidence_agrees_with_scikit_learn_under_a_wide_intercept_prior(kernel, theirs):
    X, Y = rows_and_outputs(k=1)
    alpha, wide = 0.05, 1e6
    intercept = gp.ConstantKernel(wide)
    process = GaussianProcessRegressor(optimizer=None)

    def opposite(log_variance):
        variance = np.exp(log_variance)
        process.kernel = gp.ConstantKernel(variance) * theirs + intercept
        process.alpha = variance * alpha
        return -process.fit(X, Y[:, 0]).log_marginal_likelihood()

    best = optimize.minimize_scalar(opposite, bounds=(-10, 10), method="bounded")
    flat = 0.5 * np.log(2 * np.pi * wide)  # the term that a flat prior of height 1 omits
    evidence = Evidence(kernel, X, Y, np.ones(len(X)))
    loss, _, _ = evidence.loss_and_gradient(
        np.log(np.full(3, kernel.input_factor(3))), np.log(alpha)
    )
    assert evidence.constant - loss == pytest.approx(flat - best.fun, abs=1e-4)


@pytest.mark.parametrize("kernel", LEARNABLE, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_agrees_with_finite_differences(kernel, weighted, rng):
    X, Y = rows_and_outputs()
    X[7], X[11] = X[3], X[3]  # equal rows, where rough kernels have infinite slopes
    weights = rng.integers(1, 4, size=len(X)) * 0.7 if weighted else np.ones(len(X))
    evidence = Evidence(kernel, X, Y, weights)
    start = np.log([0.5, 1.0, 1.7, 0.05])

    def loss(parameters):
        return evidence.loss_and_gradient(parameters[:-1], parameters[-1])[0]

    _, by_factors, by_alpha = evidence.loss_and_gradient(start[:-1], start[-1])
    expected = [
        (loss(start + step) - loss(start - step)) / 2e-5 for step in 1e-5 * np.eye(len(start))
    ]
    np.testing.assert_allclose([*by_factors, by_alpha], expected, rtol=1e-5, atol=1e-5)


def test_weights_and_copies_have_the_same_evidence(rng):
    X, Y = rows_and_outputs()
    weights = rng.integers(1, 5, size=len(X))
    copies = [np.repeat(rows, weights, axis=0) for rows in (X, Y)]
    once = Evidence(Matern(), X, Y, weights.astype(float))
    often = Evidence(Matern(), *copies, np.ones(weights.sum()))
    at = np.log([0.5, 1.0, 1.7]), np.log(0.05)
    ours, theirs = once.loss_and_gradient(*at), often.loss_and_gradient(*at)
    assert once.constant - ours[0] == pytest.approx(often.constant - theirs[0], rel=1e-9)
    np.testing.assert_allclose([*ours[1], ours[2]], [*theirs[1], theirs[2]], rtol=1e-7)
    assert once.degrees == often.degrees


@pytest.mark.parametrize("each", [False, True])
def test_weights_and_copies_learn_the_same_scales(each, rng):
    X, Y = rows_and_outputs(m=60)
    weights = rng.integers(0, 3, size=len(X))
    weighted = learn(Gaussian(), X, Y, weights.astype(float), each=each)
    copied = learn(Gaussian(), *(np.repeat(rows, weights, axis=0) for rows in (X, Y)), each=each)
    np.testing.assert_allclose(weighted.kernel.gamma, copied.kernel.gamma, rtol=0.05)
    assert weighted.log_evidence == pytest.approx(copied.log_evidence, rel=1e-4)


@pytest.mark.parametrize("kernel", LEARNABLE, ids=repr)
def test_learned_scales_are_a_maximum(kernel):
    X, Y = rows_and_outputs(m=60)
    Y = Y + 3.0
    learned = learn(kernel, X, Y, each=True)
    assert type(learned.kernel) is type(kernel)
    assert getattr(learned.kernel, kernel.scale_parameter).shape == (3,)
    reached = log_evidence_of(learned.kernel, X, Y, learned.alpha)
    assert learned.log_evidence == pytest.approx(reached, abs=1e-4)  # scales are rounded afterwards
    factors = learned.kernel.input_factor(3)
    lowest = lengthscales.FACTOR_RANGE[0] * kernel.usual_factor(3) / X.std(axis=0)
    for i in range(3):
        for ratio in (0.8, 1.25):
            moved = np.maximum(factors * np.where(np.arange(3) == i, ratio, 1.0), lowest)
            aside = log_evidence_of(with_factor(kernel, moved), X, Y, learned.alpha)
            assert aside <= reached + 0.01
    for ratio in (0.8, 1.25):
        assert log_evidence_of(learned.kernel, X, Y, ratio * learned.alpha) <= reached + 0.01


@pytest.mark.parametrize("kernel", LEARNABLE[:7], ids=repr)
def test_one_lengthscale_is_a_number_and_fits_worse_than_one_per_input(kernel):
    X, Y = rows_and_outputs(m=60)
    one, several = (learn(kernel, X, Y, each=each) for each in (False, True))
    assert isinstance(getattr(one.kernel, kernel.scale_parameter), float)
    assert several.log_evidence >= one.log_evidence
    assert several.n_evaluations > one.n_evaluations


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(2.5), RationalQuadratic()], ids=repr)
def test_recovers_the_scales_of_the_generating_kernel(kernel, rng):
    X = rng.standard_normal((300, 5))
    truth = np.array([0.7, 1.4, 2.8])
    Y = drawn(with_factor(kernel, 1 / truth), X[:, :3], noise=0.1, k=3, rng=rng)
    learned = learn(kernel, X, Y, each=True)
    found = 1 / learned.kernel.input_factor(5)
    np.testing.assert_allclose(found[:3], truth, rtol=0.35)
    assert found[3:].min() > 5 * truth.max()
    assert learned.alpha == pytest.approx(0.01, rel=0.6)


def test_recovers_a_scale_far_from_that_of_the_data(rng):
    X = rng.uniform(size=(300, 1))
    for truth in (0.02, 1.0):
        Y = drawn(Matern(1.5, length_scale=truth), X, noise=0.05, k=5, rng=rng)
        assert learn(Matern(1.5), X, Y, each=False).kernel.length_scale == pytest.approx(
            truth, rel=0.5
        )


def test_the_initial_scale_does_not_matter():
    X, Y = rows_and_outputs()
    before = learn(Gaussian(), X, Y, each=True)
    after = learn(before.kernel, X, Y, each=True)
    np.testing.assert_array_equal(before.kernel.gamma, after.kernel.gamma)
    assert before[1:] == after[1:]


def test_the_given_kernel_is_not_changed():
    X, Y = rows_and_outputs()
    kernel = RationalQuadratic(0.7, length_scale="auto")
    learned = learn(kernel, X, Y, each=True).kernel
    assert kernel.length_scale == "auto"
    assert learned.alpha == 0.7


@pytest.mark.parametrize("each", [False, True])
def test_the_order_of_rows_does_not_matter(each, rng):
    X, Y = rows_and_outputs()
    order = rng.permutation(len(X))
    before, after = learn(Matern(), X, Y, each=each), learn(Matern(), X[order], Y[order], each=each)
    np.testing.assert_allclose(before.kernel.length_scale, after.kernel.length_scale, rtol=1e-4)
    assert before.log_evidence == pytest.approx(after.log_evidence, rel=1e-8)


@pytest.mark.parametrize("unit", [1e-100, 1e-3, 1e100])
@pytest.mark.parametrize("each", [False, True])
def test_units_do_not_matter(each, unit):
    X, Y = rows_and_outputs()
    before = learn(Matern(), X, Y, each=each)
    after = learn(Matern(), X * unit, Y / unit, each=each)
    np.testing.assert_allclose(
        after.kernel.length_scale, unit * before.kernel.length_scale, rtol=1e-4
    )
    in_units = before.log_evidence + 2 * (len(X) - 1) * np.log(unit)
    assert after.log_evidence == pytest.approx(in_units, rel=1e-8)


def test_inputs_in_their_own_units():
    X, Y = rows_and_outputs()
    units = np.array([1e-6, 1.0, 1e5])
    before, after = learn(Gaussian(), X, Y, each=True), learn(Gaussian(), X * units, Y, each=True)
    np.testing.assert_allclose(
        after.kernel.gamma * units**2, before.kernel.gamma, rtol=0.02, atol=1e-3
    )


def test_a_unit_beyond_the_range_of_numbers():
    X, Y = rows_and_outputs()
    with pytest.raises(ValueError, match=r"gamma of Gaussian cannot be learned, .* Rescale X"):
        learn(Gaussian(1.0), X * 1e-170, Y, each=False)


def test_an_invalid_scale_is_rejected():
    X, Y = rows_and_outputs()
    with pytest.raises(ValueError, match="Did you mean 'scale'"):
        learn(Gaussian("scales"), X, Y, each=False)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Matern(0.5)], ids=repr)
@pytest.mark.parametrize(
    ("m", "constant"), [(1, False), (2, False), (30, True)], ids=["1 row", "2 rows", "constant y"]
)
def test_nothing_to_learn_from(kernel, each, m, constant):
    X, Y = rows_and_outputs(m)
    Y = np.full_like(Y, 0.1) if constant else Y
    learned = learn(kernel, X, Y, each=each)
    assert np.isfinite(learned.kernel(X)).all()
    assert learned[1:] == (1.0, 0.0, 0)
    assert np.size(getattr(learned.kernel, kernel.scale_parameter)) == (3 if each else 1)


@pytest.mark.parametrize("each", [False, True])
def test_inputs_without_spread(each):
    X, Y = rows_and_outputs()
    same = np.full_like(X, 0.1)
    assert learn(Gaussian(), same, Y, each=each).n_evaluations == 0
    learned = learn(Gaussian(), np.column_stack([X, same]), Y, each=each)
    assert np.isfinite(learned.kernel.gamma).all()
    if each:
        assert np.ptp(learned.kernel.gamma[3:]) < 1e-9
        assert 1e-3 < learned.kernel.gamma[3] < 1e3


SIGNS = st.sampled_from([-1.0, 1.0])
OFFSETS = st.floats(-8, 12)  # decimal logarithms, as in UNITS and WEIGHT_DECADES
UNITS = st.floats(-100, 100)
WEIGHT_DECADES = st.floats(0, 6)


@given(
    seed=st.integers(0, 1000),
    sign=SIGNS,
    offset=OFFSETS,
    unit=UNITS,
    decades=WEIGHT_DECADES,
    each=st.booleans(),
)
@example(seed=0, sign=1.0, offset=1.0, unit=0.0, decades=0.5, each=True)
@settings(max_examples=40, deadline=None)
def test_constant_inputs_change_nothing(seed, sign, offset, unit, decades, each):
    X, Y = rows_and_outputs(m=30, d=2)
    X = X * 10.0**unit
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(-decades, 0, len(X))
    weights /= weights.mean()
    value = sign * rng.uniform(1, 2) * 10.0**offset
    same = np.full((len(X), 1), value)
    # Rounding leaves differences in the last bits.
    rounded = value * (1 + np.finfo(float).eps * rng.integers(-4, 5, (len(X), 1)))
    kernel = Matern(1.5)
    alone = learn(kernel, X, Y, weights, each=each)
    both = learn(kernel, np.hstack([same, X, rounded]), Y, weights, each=each)
    expected, found = alone.kernel.length_scale, both.kernel.length_scale
    np.testing.assert_allclose(found[1:-1] if each else found, expected, rtol=1e-12)
    assert both[1:] == pytest.approx(alone[1:], rel=1e-12)
    if each:
        # The scale is at least the default one and keeps phases small enough to be exact.
        usual = np.sqrt((1 + 3) / 2)
        for scale in found[[0, -1]]:
            assert scale >= usual * abs(value) * (1 - 1e-12)
            assert scale <= usual * max(2 * abs(value), np.abs(X).max())


@given(seed=st.integers(0, 1000), offset=OFFSETS, decades=WEIGHT_DECADES)
@settings(max_examples=30, deadline=None)
def test_offsets_of_inputs_and_targets_do_not_matter(seed, offset, decades):
    X, Y = rows_and_outputs(m=30, d=2)
    shift = 10.0**offset
    X, Y = ((rows + shift) - shift for rows in (X, Y))  # so that the sums below are exact
    weights = 10.0 ** np.random.default_rng(seed).uniform(-decades, 0, len(X))
    weights /= weights.mean()
    before = learn(Gaussian(), X, Y, weights, each=True)
    after = learn(Gaussian(), X + shift, Y + shift, weights, each=True)
    # Where a column has so small a lengthscale that all rows differ, its size is arbitrary.
    np.testing.assert_allclose(after.kernel(X), before.kernel(X), rtol=0, atol=1e-3)
    assert after.log_evidence == pytest.approx(before.log_evidence, rel=1e-6)


@pytest.mark.parametrize("decades", [0, 3, 100])
def test_constant_targets_are_recognized_under_any_weights(decades, rng):
    X, _ = rows_and_outputs(m=200)
    weights = 10.0 ** rng.uniform(-decades, 0, len(X))
    weights /= weights.mean()
    for value in (0.1, -7.7, 1e12, 1e-100, 1e100):
        Y = value * (1 + np.finfo(float).eps * rng.integers(0, 4, (len(X), 1)))
        for targets in (np.full((len(X), 1), value), Y):
            assert learn(Gaussian(), X, targets, weights, each=True)[1:] == (1.0, 0.0, 0)


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Matern(1.5)], ids=repr)
def test_a_column_that_varies_in_other_rows_only_is_measured_by_its_range(kernel):
    X, Y = rows_and_outputs(m=60, d=3)
    X[:, 2] = -0.3
    for unit in (1e-9, 1.0, 1e9):
        ranges = np.append(np.ptp(X[:, :2], axis=0), unit)
        learned = learn(kernel, X, Y, each=True, ranges=ranges).kernel
        factors = learned.input_factor(3)
        assert factors[2] * unit <= kernel.usual_factor(3) * (1 + 1e-12)
        # The kernel of two rows that differ by the whole range is still large.
        ends = np.zeros((2, 3))
        ends[1, 2] = unit
        assert learned(ends)[0, 1] > 0.4
        alone = learn(kernel, X[:, :2], Y, each=True).kernel.input_factor(2)
        np.testing.assert_allclose(factors[:2], alone, rtol=1e-9)
        # In units of the column's range, the factor is the smaller of the default and the
        # geometric mean of the other factors.
        typical = np.sqrt(np.prod(alone * X[:, :2].std(axis=0)))
        expected = min(typical, kernel.usual_factor(3))
        assert factors[2] * unit == pytest.approx(expected, rel=lengthscales.LOG_STEP)


def test_rows_of_next_to_no_weight_do_not_make_a_column_narrow():
    X, Y = rows_and_outputs(m=60, d=2)
    rare = np.zeros((60, 1))
    rare[7] = 1.0
    weights = np.ones(60)
    for light in (1e-4, 1e-14, 1e-200):
        weights[7] = light
        learned = learn(Gaussian(), np.hstack([X, rare]), Y, weights, each=True)
        assert np.isfinite(learned.log_evidence)
        # At most the upper limit of the search, relative to a unit of 1 / 2.
        assert learned.kernel.gamma[2] <= 1.1 * lengthscales.FACTOR_RANGE[1] ** 2 * 4 / 3


def test_a_range_beyond_that_of_the_sample_limits_the_scale_of_rare_values():
    X, Y = rows_and_outputs(m=60, d=2)
    noise = 1e-9 * np.random.default_rng(1).standard_normal((60, 1))
    rare = np.where(np.arange(60)[:, None] % 5 == 0, noise, 0.0)
    ranges = np.append(np.ptp(X, axis=0), 1.0)
    learned = learn(Gaussian(), np.hstack([X, rare]), Y, each=True, ranges=ranges)
    assert learned.kernel.gamma[2] < 1e4
    assert learn(Gaussian(), np.hstack([X, rare]), Y, each=True).kernel.gamma[2] > 1e6
    # In a column with many values, rows this far from all others are outliers.
    for known in (None, ranges):
        learned = learn(Gaussian(), np.hstack([X, noise]), Y, each=True, ranges=known)
        assert learned.kernel.gamma[2] > 1e6


def learn_from(n_rows, monkeypatch):
    """Let models learn lengthscales from only ``n_rows`` rows of their sample."""

    def learned(kernel, X, Y, weights, *, each, ranges, **options):
        X, Y, weights = X[:n_rows], Y[:n_rows], weights[:n_rows]
        return learn(kernel, X, Y, weights, each=each, ranges=ranges, **options)

    monkeypatch.setattr("quadfeat.learning.search.learn", learned)


class TestRareColumns:
    """Test columns that are constant, or nearly so, in the rows used to learn lengthscales."""

    n_train = 2000

    def table(self, seed, frequency, value, standardized):
        """Return a table with ten columns of rare values, and a smooth target."""
        rng = np.random.default_rng(seed)
        n_rows = 2 * self.n_train
        inputs = rng.standard_normal((n_rows, 2))
        rare = rng.random((n_rows, 10)) < frequency
        y = np.sin(2 * inputs[:, 0]) + inputs[:, 1] + rare @ np.linspace(-1, 1, 10)
        y += 0.05 * rng.standard_normal(n_rows)
        columns = value * rare - 0.3
        if standardized:
            columns = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-9)
        return np.hstack([inputs, columns]), y, rng.uniform(0.1, 3, n_rows)

    @pytest.mark.parametrize("dtype", repeats([np.float32, np.float64]))
    @pytest.mark.parametrize(
        "rare",
        [
            (1e-3, 1.0, True),
            slow((5e-3, 1.0, True)),
            slow((1e-3, 1.0, False)),
            (1e-3, 1e4, False),
        ],
        ids=["rare", "less rare", "one-hot", "large"],
    )
    def test_the_model_is_not_worse_than_without_lengthscales(self, rare, dtype, monkeypatch):
        learn_from(300, monkeypatch)
        seen, new = slice(self.n_train), slice(self.n_train, None)
        for seed in range(2):
            X, y, weights = self.table(seed, *rare)
            X = X.astype(dtype)
            scores = {}
            for name in (None, "ard"):
                model = QuadratureRidge(
                    "gaussian",
                    lengthscales=name,
                    n_components=200,
                    rule="orf",
                    random_state=0,
                )
                model.fit(X[seen], y[seen], weights[seen])
                scores[name] = model.score(X[new], y[new])
            assert scores["ard"] > scores[None] - 0.01
            assert scores["ard"] > 0.8
            # Rows that differ by a standard deviation in only one column have a large kernel.
            assert (model.features_.kernel_.gamma * X[seen].var(axis=0)).max() < 2

    @pytest.mark.skipif("QUADFEAT_DATA" not in os.environ, reason="needs adult")
    @pytest.mark.parametrize("weighted", repeats([True, False]))
    def test_one_hot_columns_of_real_data(self, weighted, monkeypatch):
        learn_from(500, monkeypatch)
        data = np.load(Path(os.environ["QUADFEAT_DATA"]) / "adult.npz")
        X, y, new = data["X"].astype(float), data["y"], data["test"]
        deviations = X[~new].std(axis=0)
        X = (X - X[~new].mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
        weights = np.random.default_rng(0).uniform(0.1, 3, (~new).sum()) if weighted else None
        losses = {}
        for name in (None, "ard"):
            model = QuadratureRidgeClassifier(
                "gaussian", alpha=1.0, lengthscales=name, n_components=256, random_state=0
            )
            model.fit(X[~new], y[~new], weights)
            losses[name] = log_loss(y[new], model.predict_proba(X[new]))
        assert losses["ard"] < losses[None]
        assert model.features_.kernel_.gamma.max() < 1e6


def test_outputs_without_spread_change_nothing():
    X, Y = rows_and_outputs()
    before = learn(Gaussian(), X, Y, each=True)
    after = learn(Gaussian(), X, np.column_stack([Y, np.full(len(X), 7.7)]), each=True)
    np.testing.assert_allclose(after.kernel.gamma, before.kernel.gamma, rtol=1e-6)


@pytest.mark.parametrize("kernel", LEARNABLE, ids=repr)
@pytest.mark.parametrize("each", [False, True])
def test_duplicated_rows(kernel, each, rng):
    X, Y = rows_and_outputs(m=20)
    X = np.vstack([X, X, X + 1e-13])
    Y = np.vstack([Y, Y + 0.1 * rng.standard_normal(Y.shape), Y])
    learned = learn(kernel, X, Y, each=each)
    assert np.isfinite(learned.log_evidence)
    assert np.isfinite(getattr(learned.kernel, kernel.scale_parameter)).all()


def test_huge_weights_that_make_the_matrix_singular():
    X, Y = rows_and_outputs(m=20)
    X[10:], Y[10:] = X[:10], Y[:10]
    weights = np.where(np.arange(20) % 2, 1e14, 1.0)
    learned = learn(Gaussian(), X, Y, weights, each=True)
    assert np.isfinite([learned.alpha, learned.log_evidence, *learned.kernel.gamma]).all()


def test_no_noise(rng):
    X = rng.standard_normal((60, 2))
    learned = learn(Gaussian(), X, np.sin(X), each=True)
    assert 0.999 * lengthscales.ALPHA_RANGE[0] <= learned.alpha < 1e-5
    assert np.isfinite(learned.log_evidence)


@pytest.mark.parametrize("each", [False, True])
def test_noise_is_not_mistaken_for_a_narrow_kernel(each, rng):
    # A narrow kernel would fit these rows as well, but would follow the noise between them.
    X, new = rng.standard_normal((2, 200, 2))
    Y = rng.standard_normal((200, 1))
    learned = learn(Gaussian(), X, Y, each=each)
    noisy = learned.kernel(X) + learned.alpha * np.eye(len(X))
    assert (learned.kernel(new, X) @ np.linalg.solve(noisy, Y - Y.mean())).std() < 0.5


@pytest.mark.parametrize("kernel", [ArcCosine(1), PointwiseNonlinear(np.tanh)], ids=repr)
def test_kernels_whose_scale_cannot_be_learned(kernel):
    X, Y = rows_and_outputs()
    message = rf"kernel={type(kernel).__name__}\(.*length_scale to .* a Gaussian, Laplacian"
    with pytest.raises(ValueError, match=message):
        learn(kernel, X, Y, each=True)


@pytest.mark.skipif("QUADFEAT_DATA" not in os.environ, reason="needs kin40k")
@pytest.mark.parametrize("kernel", repeats([Matern(2.5), Gaussian()]), ids=repr)
def test_learned_scales_predict_real_data_better(kernel):
    data = np.load(Path(os.environ["QUADFEAT_DATA"]) / "kin40k.npz")
    X, y = data["X"][:2500].astype(float), data["y"][:2500].astype(float)
    seen, new = slice(0, 1000), slice(1000, None)

    def score(kernel, alpha):
        ridge = KernelRidge(alpha=alpha, kernel="precomputed").fit(kernel(X[seen]), y[seen])
        return ridge.score(kernel(X[new], X[seen]), y[new])

    usual = max(score(kernel.resolve(X[seen]), alpha) for alpha in (1e-6, 1e-4, 1e-2))
    learned = learn(kernel, X[seen], y[seen, None], each=True)
    assert 1 - score(learned.kernel, learned.alpha) < 0.8 * (1 - usual)
