"""Test the transformer: its columns, and its behavior as a scikit-learn estimator."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import erf
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from quadfeat import QuadratureFeatures, transform_into
from quadfeat.engine import core as _core
from quadfeat.engine import threads as _threads
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
)
from quadfeat.rotations import Haar, Householder
from quadfeat.rules import MonteCarlo, SphericalRadial, as_rule

RULES = ["sr33", "rff", "orf", "rom", "sorf", "halton", "sobol", "gauss-hermite", "fastfood"]
KERNELS = [
    Gaussian(0.2),
    Matern(2.5, length_scale=2.0),
    RationalQuadratic(3.0, length_scale=2.0),
    ArcCosine(0),
    ArcCosine(1),
    ArcCosine(2),
    PointwiseNonlinear(erf),
]
rng = np.random.default_rng(0)
X = rng.standard_normal((50, 5))
Y = rng.standard_normal((30, 5))


def fitted(kernel="gaussian", **parameters):
    parameters = {"n_components": 200, "random_state": 0} | parameters
    return QuadratureFeatures(kernel, **parameters).fit(X)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_exactly_n_components_columns_for_every_kernel_and_rule(kernel, rule):
    for n in (1, 2, 3, 10, 11, 12, 13, 47, 48):
        Z = fitted(kernel, rule=rule, n_components=n).transform(X)
        assert Z.shape == (50, n)
        assert np.isfinite(Z).all()
        assert n == 1 or np.ptp(Z, axis=0).max() > 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_inner_products_approximate_the_kernel(kernel, rule):
    # ROM is biased in low dimensions. Here it has 32.
    d = 32 if rule in ("rom", "sorf") else 5
    left, right = np.random.default_rng(0).standard_normal((2, 40, d)) * np.sqrt(5 / d)
    features = QuadratureFeatures(kernel, rule=rule, n_components=6000, random_state=0).fit(left)
    exact = kernel(left, right)
    estimate = features.approximate_kernel(left, right)
    error = np.linalg.norm(estimate - exact) / np.linalg.norm(exact)
    assert error < 0.12  # the worst case is order 2 with Monte Carlo


@pytest.mark.parametrize("rule", ["rff", "halton", "sobol"])
def test_laplacian(rule):
    kernel = Laplacian(0.2)
    features = fitted(kernel, rule=rule, n_components=6000)
    assert np.abs(features.approximate_kernel(X, Y) - kernel(X, Y)).max() < 0.1


@pytest.mark.parametrize("rule", [*RULES, SphericalRadial(origin="renormalise")], ids=str)
def test_columns_are_as_documented(rule):
    features = fitted(Gaussian(0.3), rule=rule, n_components=24)
    nodes = features.nodes_
    angles = X * np.sqrt(2 * 0.3) @ nodes.frequencies().T
    whole = 11 if nodes.last_is_single else 12
    Z = features.transform(X)
    amplitudes = np.sqrt(nodes.weights)
    np.testing.assert_allclose(
        Z[:, 0 : 2 * whole : 2], (amplitudes * np.cos(angles))[:, :whole], atol=1e-12
    )
    np.testing.assert_allclose(
        Z[:, 1 : 2 * whole : 2], (amplitudes * np.sin(angles))[:, :whole], atol=1e-12
    )
    if nodes.has_origin_column:  # 24 = 2 x 11 + 1 + 1
        shifted = np.sqrt(2) * amplitudes[-1] * np.cos(angles[:, -1] + nodes.phase)
        np.testing.assert_allclose(Z[:, -2], shifted, atol=1e-12)
        np.testing.assert_allclose(Z[:, -1], np.sqrt(nodes.origin_weight))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_reflected_columns_of_arc_cosine(order):
    features = fitted(ArcCosine(order), rule="orf", n_components=11)
    nodes = features.nodes_
    phi, t = features.kernel_.nonlinearity, X @ nodes.frequencies().T
    Z = features.transform(X)
    np.testing.assert_allclose(Z[:, 0:10:2], np.sqrt(nodes.weights[:5]) * phi(t)[:, :5], atol=1e-12)
    np.testing.assert_allclose(
        Z[:, 1:10:2], np.sqrt(nodes.weights[:5]) * phi(-t)[:, :5], atol=1e-12
    )
    np.testing.assert_allclose(Z[:, 10], np.sqrt(2 * nodes.weights[5]) * phi(t[:, 5]), atol=1e-12)


@pytest.mark.parametrize("kernel", [Gaussian(0.2), ArcCosine(0), PointwiseNonlinear(np.cos)])
def test_approximate_kernel_adds_the_origin_if_no_column_has_it(kernel):
    signed = fitted(kernel, rule=SphericalRadial(origin="signed"))
    Z = signed.transform(X)
    constant = kernel.constant * signed.nodes_.origin_weight * kernel.nonlinearity.at_zero**2
    assert constant != 0
    np.testing.assert_allclose(signed.approximate_kernel(X), Z @ Z.T + constant)
    resampled = fitted(kernel, rule="sr33")
    Z = resampled.transform(X)
    np.testing.assert_allclose(resampled.approximate_kernel(X), Z @ Z.T)


@pytest.mark.parametrize("rule", ["sr33", "rff"])
def test_the_diagonal_is_exact_for_whole_nodes_of_a_stationary_kernel(rule):
    features = fitted(Gaussian(0.2), rule=rule, n_components=2 * 3 * 6 + (rule == "sr33"))
    np.testing.assert_allclose(np.diag(features.approximate_kernel(X)), 1.0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_float32_input_gives_float32_output_with_the_same_nodes(kernel, rule):
    features = fitted(kernel, rule=rule)
    single = features.transform(X.astype(np.float32))
    double = features.transform(X.astype(np.float32).astype(np.float64))
    assert single.dtype == np.float32
    assert double.dtype == np.float64
    # A step function may take either value where its argument is zero up to rounding.
    arguments = X * kernel.input_factor(5) @ features.nodes_.frequencies().T
    clear = (np.abs(arguments) > 1e-4).all(axis=0)
    assert clear.mean() > 0.7
    columns = np.repeat(clear, 2)[: 200 - features.nodes_.has_origin_column]
    if isinstance(kernel, PointwiseNonlinear):  # an odd function has one column per node
        columns = clear
    np.testing.assert_allclose(
        single[:, : len(columns)][:, columns],
        double[:, : len(columns)][:, columns],
        atol=1e-4 * np.abs(double).max(),
    )
    refitted = clone(features).fit(X.astype(np.float32))
    np.testing.assert_array_equal(refitted.nodes_.radii, features.nodes_.radii)


@pytest.mark.parametrize("rule", RULES)
def test_sparse_equals_dense(rule):
    thin = np.where(np.abs(X) > 1, X, 0.0)
    features = QuadratureFeatures(rule=rule, n_components=100, random_state=0)
    dense = features.fit_transform(thin)
    for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        np.testing.assert_allclose(features.fit_transform(form(thin)), dense, atol=1e-12)
    empty = sparse.csr_array((4, 5))
    np.testing.assert_allclose(features.transform(empty), features.transform(np.zeros((4, 5))))


def test_features_depend_on_the_seed():
    def features(seed):
        return QuadratureFeatures(n_components=64, random_state=seed).fit_transform(X)

    np.testing.assert_array_equal(features(7), features(7))
    assert not np.allclose(features(7), features(8))
    for kind in (np.random.RandomState, np.random.default_rng):
        np.testing.assert_array_equal(features(kind(7)), features(kind(7)))
        generator = kind(7)
        assert not np.allclose(features(generator), features(generator))
    np.random.seed(3)  # noqa: NPY002 - scikit-learn's users may
    first = features(None)
    np.random.seed(3)  # noqa: NPY002
    np.testing.assert_array_equal(features(None), first)
    assert not np.allclose(features(None), first)


@pytest.mark.parametrize("rule", RULES)
def test_threads_batches_and_splits_do_not_matter(rule, monkeypatch):
    features = fitted(rule=rule)
    expected = features.transform(X)
    monkeypatch.setattr(_core, "ENTRIES_PER_BATCH", 1500)  # seven rows at a time
    monkeypatch.setattr(_threads, "ENTRIES_PER_THREAD", 1)
    for n_jobs in (None, 1, 2, 5, -1):
        np.testing.assert_allclose(
            features.set_params(n_jobs=n_jobs).transform(X), expected, atol=1e-14
        )
    pieces = [features.transform(piece) for piece in np.array_split(X, 13)]
    np.testing.assert_allclose(np.vstack(pieces), expected, atol=1e-14)


def test_a_wide_map_gives_the_same_bits_for_any_split_and_thread_count():
    wide = np.random.default_rng(0).standard_normal((23, 1500))
    features = QuadratureFeatures(n_components=3003, random_state=0).fit(wide)
    expected = features.transform(wide)
    np.testing.assert_array_equal(
        np.vstack([features.transform(piece) for piece in np.array_split(wide, 5)]), expected
    )
    np.testing.assert_array_equal(features.set_params(n_jobs=2).transform(wide), expected)


@pytest.mark.parametrize("rule", [*RULES, SphericalRadial(rotation=Householder())], ids=str)
def test_pickle_and_clone(rule):
    features = fitted(ArcCosine(1), rule=rule)
    expected = features.transform(X)
    restored = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(restored.transform(X), expected)
    np.testing.assert_array_equal(clone(features).fit(X).transform(X), expected)


def test_a_wide_map_is_small_when_pickled_even_after_use():
    wide = np.random.default_rng(0).standard_normal((2, 1000))
    features = QuadratureFeatures(n_components=2 * 1001 + 1, random_state=0).fit(wide)
    features.transform(wide)
    assert len(pickle.dumps(features)) < 120_000  # dense nodes would be 8 MB


def test_fit_leaves_parameters_alone():
    kernel, rule = Gaussian(), SphericalRadial(tilt=0.5)
    features = QuadratureFeatures(kernel, rule=rule, n_components=20).fit(X)
    assert features.kernel is kernel
    assert features.rule is rule
    assert kernel.gamma == "scale"
    assert features.kernel_.gamma == pytest.approx(1 / (5 * X.var()))
    assert repr(features.rule_) == repr(rule)


def test_defaults_are_the_auto_rule_and_the_gaussian_kernel():
    features = QuadratureFeatures(random_state=0).fit(X)
    assert features.rule_ is features.candidates_[0].rule
    assert features.transform(X).shape == (50, 1024)
    assert repr(clone(features).set_params(kernel="rbf").fit(X).kernel_).startswith("Gaussian")


def test_a_second_fit_replaces_the_first():
    features = QuadratureFeatures(n_components=8, random_state=0)
    features.fit(pd.DataFrame(X, columns=list("abcde"))).fit(X)
    assert not hasattr(features, "feature_names_in_")
    features.transform(X)  # does not warn about names


def test_warnings_point_at_the_line_that_called_fit():
    with pytest.warns(UserWarning, match="infinite variance") as found:
        fitted(rule="sr33").fit(X[:, :2])
    assert {warning.filename for warning in found} == {__file__}


def test_set_output_and_feature_names():
    features = fitted(n_components=3)
    names = ["quadraturefeatures0", "quadraturefeatures1", "quadraturefeatures2"]
    assert features.get_feature_names_out().tolist() == names
    frame = pd.DataFrame(X, columns=list("abcde"))
    table = features.set_output(transform="pandas").fit(frame).transform(frame)
    assert isinstance(table, pd.DataFrame)
    assert table.columns.tolist() == names
    assert isinstance(features.approximate_kernel(frame), np.ndarray)
    assert features.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names should match"):
        features.transform(frame.rename(columns={"a": "z"}))


def test_polars_in_and_out():
    frame = pl.DataFrame(X, schema=list("abcde"))
    features = QuadratureFeatures(n_components=8, random_state=0).set_output(transform="polars")
    table = features.fit_transform(frame)
    assert isinstance(table, pl.DataFrame)
    np.testing.assert_array_equal(table.to_numpy(), fitted(n_components=8).transform(X))


def test_grid_search_over_a_kernel_parameter():
    digits, labels = load_digits(n_class=3, return_X_y=True)
    pipeline = make_pipeline(
        QuadratureFeatures(Gaussian(), n_components=300, random_state=0), RidgeClassifier()
    )
    grid = {
        "quadraturefeatures__kernel__gamma": [1e-6, "scale", 10.0],
        "quadraturefeatures__rule": ["sr33", MonteCarlo()],
    }
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(digits, labels)
    assert search.best_score_ > 0.98
    assert search.best_params_["quadraturefeatures__kernel__gamma"] == "scale"


def test_rotation_parameters_are_reachable():
    features = QuadratureFeatures(rule=SphericalRadial(rotation=Haar()))
    assert "rule__rotation" in features.get_params()
    features.set_params(rule__tilt=0.25, rule__rotation=Householder())
    assert features.fit(X).rule_.tilt == 0.25


def test_a_function_that_works_in_place_gets_a_copy():
    def relu(t):
        t[t < 0] = 0
        return t

    expected = fitted(PointwiseNonlinear(lambda t: np.maximum(t, 0))).transform(X)
    np.testing.assert_array_equal(fitted(PointwiseNonlinear(relu)).transform(X), expected)


def test_functions_of_numpy_vectorize_are_supported():
    for n_components in (1, 2, 7):
        slow = fitted(PointwiseNonlinear(np.vectorize(np.exp)), n_components=n_components)
        fast = fitted(PointwiseNonlinear(np.exp), n_components=n_components)
        np.testing.assert_allclose(slow.transform(X), fast.transform(X))


def test_changing_the_users_gamma_array_after_fit_has_no_effect():
    widths = np.ones(5)
    features = fitted(Gaussian(widths))
    expected = features.transform(X)
    widths[:] = 50.0
    np.testing.assert_array_equal(features.transform(X), expected)


class TestTransformInto:
    def test_writes_into_the_given_buffer_and_returns_it(self):
        features = fitted()
        for out in (np.empty((50, 200)), np.empty((200, 50)).T, np.empty((100, 400))[::2, ::2]):
            assert transform_into(features, X, out) is out
            np.testing.assert_array_equal(out, features.transform(X))

    def test_accepts_sparse_and_float32(self):
        features = fitted()
        out = np.empty((50, 200), dtype=np.float32)
        transform_into(features, sparse.csr_array(X.astype(np.float32)), out)
        np.testing.assert_allclose(out, features.transform(X), atol=1e-5)

    @pytest.mark.parametrize(
        ("out", "message"),
        [
            (np.empty((50, 199)), r"out has shape \(50, 199\).*pass an array of shape \(50, 200\)"),
            (np.empty((50, 200), dtype=np.float32), "dtype float32: pass an array"),
            (np.broadcast_to(np.empty(200), (50, 200)), "out is read-only"),
        ],
    )
    def test_rejects_buffers_that_do_not_fit(self, out, message):
        with pytest.raises(ValueError, match=message):
            transform_into(fitted(), X, out)

    def test_rejects_overlap_lists_and_other_estimators(self):
        square = np.random.default_rng(0).standard_normal((6, 6))
        features = QuadratureFeatures(n_components=6).fit(square)
        with pytest.raises(ValueError, match="out overlaps X"):
            transform_into(features, square, square)
        side_by_side = np.hstack([square, square])  # shares memory but no entries
        transform_into(features, side_by_side[:, :6], side_by_side[:, 6:])
        np.testing.assert_array_equal(side_by_side[:, 6:], features.transform(square))
        with pytest.raises(TypeError, match="out is a list"):
            transform_into(features, square, square.tolist())
        with pytest.raises(TypeError, match="pass a fitted QuadratureFeatures"):
            transform_into(RidgeClassifier(), square, np.empty((6, 6)))


def test_presets_are_those_of_the_paper():
    """SR(1,1) is RFF and SR(1,3) is ORF. For wide kernels, each step reduces the error."""
    digits = load_digits().data / 16.0
    exact = Gaussian(1 / 64)(digits[:300], digits[300:600])

    def error(rule):
        n_components = 4 * 65 + (
            rule == "sr33"
        )  # the same number of nodes for all, plus the origin
        features = QuadratureFeatures(Gaussian(1 / 64), rule=rule, n_components=n_components)
        errors = [
            np.linalg.norm(
                features.set_params(random_state=seed)
                .fit(digits)
                .approximate_kernel(digits[:300], digits[300:600])
                - exact
            )
            for seed in range(10)
        ]
        return np.mean(errors) / np.linalg.norm(exact)

    assert 2 * error("sr33") < error("orf")
    assert 1.5 * error("orf") < error("rff")


def test_rff_nodes_are_gaussian_and_equally_weighted():
    nodes = as_rule("rff").draw(7, 20000, Gaussian(1.0), np.random.default_rng(0))
    W = nodes.frequencies()
    assert abs(W.mean()) < 4 / np.sqrt(W.size)
    np.testing.assert_allclose(np.cov(W.T), np.eye(7), atol=0.06)
    np.testing.assert_allclose(nodes.weights, 1 / 10000)
