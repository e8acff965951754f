"""Compare Gram matrices with scikit-learn and closed forms; test parameters and edge cases."""

from functools import reduce

import numpy as np
import pytest
from scipy import integrate, sparse, special
from scipy.special import erf
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.svm import SVC

from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
    Spread,
    as_kernel,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((12, 3))
Y = rng.standard_normal((9, 3))
SCALES = [0.7, np.array([0.5, 1.0, 2.0])]


def step(t):
    return np.heaviside(t, 0.5)


def ramp(t):
    return np.maximum(t, 0.0)


def squared_ramp(t):
    return np.maximum(t, 0.0) ** 2


EVERY = [
    Gaussian(0.3),
    Laplacian(0.3),
    Matern(0.5, length_scale=1.5),
    Matern(1.2, length_scale=1.5),
    RationalQuadratic(0.8, length_scale=1.5),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2),
    PointwiseNonlinear(np.tanh),
]


STATIONARY = [
    Gaussian(0.3),
    Laplacian(0.3),
    *(Matern(nu, length_scale=1.5) for nu in (0.3, 0.5, 1.0, 1.2, 1.5, 2.5, 7.3, 50.5, 80.0)),
    Matern(np.inf, length_scale=1.5),
    RationalQuadratic(0.8, length_scale=1.5),
]


def test_gaussian_agrees_with_scikit_learn():
    np.testing.assert_allclose(Gaussian(0.7)(X, Y), rbf_kernel(X, Y, gamma=0.7), atol=1e-14)
    ard = np.array([0.5, 1.0, 2.0])
    expected = rbf_kernel(X * np.sqrt(ard), Y * np.sqrt(ard), gamma=1.0)
    np.testing.assert_allclose(Gaussian(ard)(X, Y), expected, atol=1e-14)


def test_laplacian_agrees_with_scikit_learn():
    np.testing.assert_allclose(Laplacian(0.7)(X, Y), laplacian_kernel(X, Y, gamma=0.7), atol=1e-14)
    ard = np.array([0.5, 1.0, 2.0])
    expected = laplacian_kernel(X * ard, Y * ard, gamma=1.0)
    np.testing.assert_allclose(Laplacian(ard)(X, Y), expected, atol=1e-14)


@pytest.mark.parametrize("scale", SCALES, ids=["one", "ard"])
@pytest.mark.parametrize("nu", [0.5, 0.8, 1.5, 2.0, 2.5, 7.3, np.inf])
def test_matern_agrees_with_scikit_learn(nu, scale):
    expected = gp.Matern(length_scale=scale, nu=nu)(X, Y)
    np.testing.assert_allclose(Matern(nu, length_scale=scale)(X, Y), expected, atol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 7.3, 49.9, 50.0, 120.0, 300.0, 1000.0, 1e6, 1e12])
def test_matern_of_any_nu_is_a_mixture_of_gaussians(nu):
    # k(r) = E exp(-r^2 nu / (2 G)) with G ~ Gamma(nu), integrated over the quantiles.
    r = np.array([0.01, 0.2, 0.5, 1.0, 2.0, 4.0])
    expected = [
        integrate.quad(
            lambda u, r=r: np.exp(-(r**2) * nu / (2 * special.gammaincinv(nu, u))),
            *(0, 1),
            limit=400,
            epsabs=1e-12,
        )[0]
        for r in r
    ]
    gram = Matern(nu, length_scale=1.0)(np.zeros((1, 1)), r[:, None])[0]
    np.testing.assert_allclose(gram, expected, atol=1e-7)


def test_matern_is_continuous_where_its_formula_changes():
    line = np.linspace(0, 5, 30)[:, None]
    below, above = (Matern(nu, length_scale=1.0)(line) for nu in (50 * (1 - 1e-13), 50.0))
    np.testing.assert_allclose(below, above, atol=1e-11)


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(0.5),
        Laplacian(0.5),
        RationalQuadratic(length_scale=1.0),
        Matern(0.5, length_scale=1.0),
    ]
    + [Matern(nu, length_scale=1.0) for nu in (1.2, 2.5, 80.0)],
    ids=repr,
)
def test_an_offset_of_the_data_does_not_matter(kernel):
    # Steps of 2^-10 added to 2^24 are exact, so the kernel must equal that without the offset.
    rows = np.round(X * 2**10) / 2**10
    offset = rows + 2.0**24
    np.testing.assert_allclose(kernel(offset, offset[:5].copy()), kernel(rows, rows[:5]), atol=1e-9)


def test_matern_of_equal_rows_is_1():
    rows = np.random.default_rng(0).standard_normal((9, 20))
    gram = Matern(0.5, length_scale=1.0)(rows, rows.copy())
    np.testing.assert_array_equal(np.diag(gram), 1.0)


def test_matern_of_any_nu_and_distance_is_between_0_and_1():
    line = np.array([[0.0], [1e-200], [1e-12], [1.0], [50.0], [1e4]])
    for nu in (0.1, 0.7, 3.3, 40.0, 300.0):
        gram = Matern(nu, length_scale=1.0)(line)
        assert ((gram >= 0) & (gram <= 1)).all()
        np.testing.assert_allclose(np.diag(gram), 1.0)
        assert (np.diff(gram[0]) <= 1e-12).all()


@pytest.mark.parametrize("alpha", [0.3, 1.0, 20.0])
def test_rational_quadratic_agrees_with_scikit_learn(alpha):
    expected = gp.RationalQuadratic(length_scale=0.7, alpha=alpha)(X, Y)
    kernel = RationalQuadratic(alpha, length_scale=0.7)
    np.testing.assert_allclose(kernel(X, Y), expected, atol=1e-14)
    ard = np.array([0.5, 1.0, 2.0])
    kernel = RationalQuadratic(alpha, length_scale=ard)
    expected = gp.RationalQuadratic(length_scale=1.0, alpha=alpha)(X / ard, Y / ard)
    np.testing.assert_allclose(kernel(X, Y), expected, atol=1e-14)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_equals_its_expectation(order):
    w = np.random.default_rng(1).standard_normal((400_000, 3))
    phi = ArcCosine(order).nonlinearity
    products = 2 * phi(w @ X[:3].T)[:, :, None] * phi(w @ Y[:3].T)[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(w))
    assert (np.abs(products.mean(axis=0) - ArcCosine(order)(X[:3], Y[:3])) < 4 * error).all()


@pytest.mark.parametrize(
    ("order", "at_same", "with_zero"), [(0, 1.0, 0.5), (1, 25.0, 0.0), (2, 3 * 625.0, 0.0)]
)
def test_arc_cosine_of_equal_opposite_and_zero_rows(order, at_same, with_zero):
    rows = np.array([[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0]])
    gram = ArcCosine(order)(rows)
    expected = np.full((3, 3), with_zero)
    expected[:2, :2] = [[at_same, 0.0], [0.0, at_same]]
    np.testing.assert_allclose(gram, expected, atol=1e-12)
    np.testing.assert_allclose(ArcCosine(order)(rows, rows.copy()), expected, atol=1e-7)


def test_tiny_rows_are_not_zero_rows():
    rows = np.array([[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(ArcCosine(0)(rows * 1e-170), ArcCosine(0)(rows))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_nearly_equal_rows_stay_in_the_domain_of_arccos(order):
    rows = np.random.default_rng(0).standard_normal((300, 7))
    rows[1::2] = rows[::2] * (1 + 1e-16 * np.arange(150)[:, None])
    for dtype in (np.float32, np.float64):
        gram = ArcCosine(order)(rows.astype(dtype), rows.astype(dtype).copy())
        assert np.isfinite(gram).all()


@pytest.mark.parametrize(
    ("phi", "order"), [(step, 0), (ramp, 1), (squared_ramp, 2)], ids=["step", "ramp", "squared"]
)
def test_pointwise_nonlinear_matches_arc_cosine(phi, order):
    rows = np.vstack([X * np.geomspace(0.01, 20, 12)[:, None], X[:1], -X[:1], np.zeros((1, 3))])
    expected = ArcCosine(order)(rows)
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    error = np.abs(2 * PointwiseNonlinear(phi)(rows) - expected)
    assert (error <= 1e-12 * size).all()


def test_pointwise_nonlinear_matches_the_closed_form_of_erf():
    norms = (X**2).sum(axis=1)
    expected = 2 / np.pi * np.arcsin(2 * X @ X.T / np.sqrt(np.outer(1 + 2 * norms, 1 + 2 * norms)))
    np.testing.assert_allclose(PointwiseNonlinear(erf)(X), expected, atol=1e-8)
    np.testing.assert_allclose(PointwiseNonlinear(erf)(X, X[:5].copy()), expected[:, :5], atol=1e-8)


def test_pointwise_nonlinear_needs_more_nodes_for_steeper_functions():
    rows = X[:4] * 20
    norms = (rows**2).sum(axis=1)
    cross = np.outer(1 + 2 * norms, 1 + 2 * norms)
    expected = 2 / np.pi * np.arcsin(2 * rows @ rows.T / np.sqrt(cross))
    errors = [
        np.abs(PointwiseNonlinear(erf, n_nodes=n)(rows) - expected).max() for n in (8, 32, 96)
    ]
    assert errors[0] > 100 * errors[2]
    assert errors[2] < 1e-6


def test_pointwise_nonlinear_supports_many_nodes():
    expected = PointwiseNonlinear(erf)(X[:3])
    for n_nodes in (150, 256):
        given = PointwiseNonlinear(erf, n_nodes=n_nodes)(X[:3])
        np.testing.assert_allclose(given, expected, atol=1e-12)


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
class TestEveryKernel:
    def test_symmetric_and_positive_semidefinite(self, kernel):
        gram = kernel(X)
        np.testing.assert_allclose(gram, gram.T, rtol=1e-13)
        np.testing.assert_allclose(gram, kernel(X, X.copy()), atol=1e-7)
        assert np.linalg.eigvalsh(gram).min() > -1e-10 * gram.max()

    def test_float32_in_float32_out(self, kernel):
        gram = kernel(X.astype(np.float32), Y.astype(np.float32))
        assert gram.dtype == np.float32
        np.testing.assert_allclose(gram, kernel(X, Y), rtol=1e-5, atol=1e-5)
        assert kernel(X.astype(np.float32), Y).dtype == np.float64

    def test_sparse_matrices_and_lists_give_the_same_values_as_dense_arrays(self, kernel):
        np.testing.assert_array_equal(
            kernel(sparse.csr_array(X), sparse.csc_array(Y)), kernel(X, Y)
        )
        np.testing.assert_array_equal(kernel(X.tolist(), Y.tolist()), kernel(X, Y))

    def test_clone_and_repr(self, kernel):
        again = clone(kernel)
        assert again is not kernel
        assert repr(again) == repr(kernel)
        np.testing.assert_array_equal(again(X), kernel(X))

    def test_different_widths(self, kernel):
        with pytest.raises(ValueError, match="X has 3 columns and Y has 2"):
            kernel(X, Y[:, :2])

    def test_works_in_a_support_vector_machine(self, kernel):
        labels = X[:, 0] > 0
        assert SVC(kernel=kernel, C=100.0).fit(X, labels).score(X, labels) > 0.7


@pytest.mark.parametrize("scale", ["scale", "auto"])
def test_gamma_has_the_meaning_of_svc(scale):
    svc = SVC(gamma=scale).fit(X, X[:, 0] > 0)
    assert Gaussian(scale).resolve(X).gamma == pytest.approx(svc._gamma, rel=1e-12)
    assert Gaussian(scale).resolve(sparse.csr_array(X)).gamma == pytest.approx(svc._gamma)
    for kernel in (Matern(2.5, length_scale=scale), RationalQuadratic(length_scale=scale)):
        assert 0.5 / kernel.resolve(X).length_scale ** 2 == pytest.approx(svc._gamma)


def test_sparse_zeros_count_in_scale():
    thin = np.zeros((20, 5))
    thin[::3, 1] = 2.5
    assert Gaussian().resolve(sparse.csr_array(thin)).gamma == pytest.approx(1 / (5 * thin.var()))


@pytest.mark.parametrize(
    "kernel", [Gaussian(), Laplacian(), Matern(), RationalQuadratic()], ids=repr
)
@pytest.mark.parametrize("unit", [1e30, 1e-30, 1e-3])
def test_scale_does_not_depend_on_the_unit_of_measurement(kernel, unit):
    np.testing.assert_allclose(
        kernel.resolve(X * unit)(X * unit, Y * unit), kernel.resolve(X)(X, Y), atol=1e-12
    )


def test_duplicate_entries_of_a_sparse_matrix_are_summed():
    values, row, column = [1.0, 2.0, 5.0], [0, 0, 1], [1, 1, 0]
    thin = sparse.coo_array((values, (row, column)), shape=(4, 3))
    doubled = sparse.csr_array((values, column, [0, 2, 3, 3, 3]), shape=(4, 3))
    expected = Gaussian().resolve(thin.toarray()).gamma
    assert Gaussian().resolve(doubled).gamma == pytest.approx(expected)


def test_resolve_accepts_lists_and_copies_arrays():
    widths = np.ones(2)
    resolved = Gaussian(widths).resolve([[1.0, 2.0]])
    widths[:] = 50.0
    np.testing.assert_array_equal(resolved.gamma, 1.0)


def test_a_gamma_of_zero_ignores_an_input():
    gram = Gaussian(np.array([0.5, 0.0, 0.5]))(X)
    np.testing.assert_allclose(gram, Gaussian(0.5)(X[:, [0, 2]]))


def test_data_without_spread_has_gamma_1_as_in_svc():
    for value in (0.0, 3.1):
        assert Gaussian().resolve(np.full((4, 3), value)).gamma == pytest.approx(1.0)


def test_data_whose_squares_overflow_are_rejected():
    with pytest.raises(ValueError, match=r"gamma='scale' of Gaussian .* rescale X"):
        Gaussian().resolve(X * 1e200)


def test_resolve_does_not_change_the_kernel():
    kernel = Gaussian()
    assert kernel.resolve(X) is not kernel
    assert kernel.gamma == "scale"


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Gaussian(), r"gamma='scale' of Gaussian depends on the data: .*resolve"),
        (Matern(length_scale="auto"), r"length_scale='auto' of Matern depends on the data"),
        (Gaussian(-1.0), r"gamma=-1.0 is not valid"),
        (Gaussian(np.nan), r"gamma=nan is not valid"),
        (Gaussian(np.array([1.0, -2.0, 1.0])), r"gamma=.* is not valid"),
        (Gaussian(np.ones(2)), r"gamma has shape \(2,\) and X has 3 columns"),
        (Gaussian("scael"), r"gamma='scael' is not known. Did you mean 'scale'\?"),
        (Matern(length_scale=0.0), r"length_scale=0.0 is not valid: pass finite numbers > 0"),
        (Matern(length_scale=1e-320), r"length_scale=1e-320 is not valid"),
        (Matern(length_scale=-1.0), r"length_scale=-1.0 is not valid"),
        (Matern(length_scale=np.ones(4)), r"length_scale has shape \(4,\) and X has 3 columns"),
        (Matern(-0.5, length_scale=1.0), r"nu=-0.5 is not valid"),
        (RationalQuadratic(0.0, length_scale=1.0), r"alpha=0.0 is not valid"),
        (ArcCosine(3), r"order=3 is not valid: pass 0, 1 or 2"),
        (PointwiseNonlinear(np.tanh, n_nodes=1), r"n_nodes=1 is not valid"),
        (PointwiseNonlinear(np.tanh, n_nodes=300), r"n_nodes=300 is not valid: pass at most 256"),
        (PointwiseNonlinear(np.sum), r"returned shape \(\) .* elementwise"),
        (PointwiseNonlinear(np.log), r"not finite real numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # raised by the logarithm
def test_bad_parameters_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(X)


@pytest.mark.parametrize(
    "kernel", [Gaussian(None), Gaussian(True), Gaussian(gamma=object()), PointwiseNonlinear("tanh")]
)
def test_parameters_of_the_wrong_type(kernel):
    with pytest.raises((TypeError, ValueError), match="is not valid"):
        kernel(X)


def test_values_out_of_the_range_of_float32_are_rejected():
    with pytest.raises(ValueError, match="beyond the range of float32"):
        ArcCosine(2)((X * 1e15).astype(np.float32))
    assert np.isfinite(ArcCosine(2)(X * 1e15)).all()


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("gaussian", Gaussian()),
        ("rbf", Gaussian()),
        ("laplacian", Laplacian()),
        ("matern12", Matern(0.5)),
        ("matern32", Matern(1.5)),
        ("matern52", Matern(2.5)),
        ("rational-quadratic", RationalQuadratic()),
        ("arccos0", ArcCosine(0)),
        ("arccos1", ArcCosine(1)),
        ("arccos2", ArcCosine(2)),
    ],
)
def test_names(name, kernel):
    assert repr(as_kernel(name)) == repr(kernel)


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_slopes_agree_with_finite_differences(kernel):
    at = np.array([[1e-3, 0.1, 1.0], [2.0, 7.0, 30.0]])
    step = 1e-5 * at
    difference = (kernel.value_at(at + step) - kernel.value_at(at - step)) / (2 * step)
    np.testing.assert_allclose(kernel.slope_at(at), difference, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_slopes_at_no_separation_are_finite(kernel):
    slopes = kernel.slope_at(np.array([0.0, 1e-300, 1e-30, 1e-12]))
    assert np.isfinite(slopes).all()
    assert (slopes <= 0).all()


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_factor_gradient_agrees_with_finite_differences(kernel):
    sensitivities = np.random.default_rng(1).standard_normal((len(X), len(X)))

    def total(log_factors):
        scaled = X * np.exp(log_factors)
        return np.vdot(sensitivities, kernel.separations(scaled, scaled, same=True))

    steps = 1e-5 * np.eye(3)
    expected = [(total(step) - total(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(kernel.factor_gradient(X, sensitivities), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_factors_and_scales_are_inverse(kernel):
    factors = np.array([0.5, 1.0, 2.0])
    scaled = clone(kernel).set_params(**{kernel.scale_parameter: kernel.factor_to_scale(factors)})
    np.testing.assert_allclose(scaled.input_factor(3), factors)
    usual = clone(kernel).set_params(**{kernel.scale_parameter: "scale"})
    signs = np.array([[1.0] * 3, [-1.0] * 3])  # with standard deviation 1
    assert usual.resolve(signs).input_factor(3) == pytest.approx(kernel.usual_factor(3))


def test_scale_does_not_depend_on_the_order_of_sums():
    table = np.random.default_rng(0).standard_normal((3000, 5)) + 1.0
    whole = Spread.of(table)
    for n_parts in (2, 3, 7, 50):
        merged = reduce(Spread.merged, map(Spread.of, np.array_split(table[::-1], n_parts)))
        assert merged.deviation == whole.deviation
    assert whole.deviation == pytest.approx(table.std(), rel=1e-12)
