"""Test bad and borderline input: it gives the correct result or an error that names the problem."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from quadfeat import (
    KernelRegressor,
    LocalGaussianProcess,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    TableEncoder,
)
from quadfeat._utils.array_api import without_mask
from quadfeat.kernels import ArcCosine, Gaussian, Matern, PointwiseNonlinear
from quadfeat.rules import MonteCarlo, QuasiMonteCarlo
from quadfeat.solvers import ConjugateGradients, Normal
from test_features import RULES

rng = np.random.default_rng(0)
X = rng.standard_normal((20, 4))
quiet_in_low_dimension = pytest.mark.filterwarnings("ignore:the weights of.*infinite variance")


@pytest.fixture
def features():
    return QuadratureFeatures(n_components=30, random_state=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.array, sparse.csr_array], ids=["dense", "sparse"])
def test_values_that_are_not_finite(features, bad, make):
    poisoned = X.copy()
    poisoned[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        features.fit(make(poisoned))
    features.fit(X)
    for method in (features.transform, features.approximate_kernel):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            method(make(poisoned))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        Gaussian(1.0)(make(poisoned))


def test_masked_values_are_missing(features):
    """NumPy would use the values below the mask."""
    is_masked = np.zeros(X.shape, dtype=bool)
    is_masked[3, 2] = True
    masked, y = np.ma.array(X, mask=is_masked), np.arange(20.0)
    labels = np.arange(20) % 2
    for model in (features, QuadratureRidge(), LocalGaussianProcess()):
        with pytest.raises(ValueError, match="column 2 holds missing values"):
            clone(model).fit(masked, y)
        fitted = clone(model).fit(X, y)
        method = getattr(fitted, "predict", getattr(fitted, "transform", None))
        with pytest.raises(ValueError, match="column 2 holds missing values"):
            method(masked)
    few = np.ma.array(y, mask=is_masked[:, 2])
    for model in (QuadratureRidge(), LocalGaussianProcess(), KernelRegressor()):
        with pytest.raises(ValueError, match="y contains NaN"):
            clone(model).fit(X, few)
    with pytest.raises(ValueError, match="y contains NaN"):
        QuadratureRidgeClassifier().fit(X, np.ma.array(labels, mask=is_masked[:, 2]))
    with pytest.raises(ValueError, match="sample_weight contains NaN"):
        QuadratureRidge().fit(X, y, few)
    with pytest.raises(ValueError, match="column 2 holds missing values"):
        Gaussian(1.0)(masked)


def test_masks_without_masked_values_change_nothing(features):
    masked = np.ma.array(X, mask=np.zeros(X.shape, dtype=bool))
    found = features.fit(masked).transform(masked)
    np.testing.assert_array_equal(found, clone(features).fit(X).transform(X))
    assert type(found) is np.ndarray


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool, object, "U9"])
def test_an_encoder_reads_masked_values_as_missing(dtype):
    values = np.array([[1, 0], [0, 1], [1, 1], [0, 0]]).astype(dtype)
    masked = np.ma.array(values, mask=[[True, False], [False, False], [False, True], [False] * 2])
    missing = values.astype(dtype if dtype is np.float32 else object)
    missing[0, 0] = missing[2, 1] = np.nan if dtype is np.float32 else None
    encoder = TableEncoder(min_frequency=1)
    expected = encoder.fit_transform(missing)
    np.testing.assert_array_equal(clone(encoder).fit_transform(masked), expected)
    assert np.isnan(without_mask(np.ma.array(values[0] == "1", mask=[True, False]))[0])


@pytest.mark.parametrize("empty", [np.empty((0, 4)), np.empty((4, 0)), []], ids=str)
def test_empty_tables(features, empty):
    with pytest.raises(ValueError, match=r"0 sample|0 feature|Expected 2D|minimum of 1"):
        features.fit(empty)
    with pytest.raises(ValueError, match=r"0 sample|0 feature|Expected 2D|minimum of 1"):
        features.fit(X).transform(empty)


def test_one_row(features):
    assert features.fit(X[:1]).transform(X[:1]).shape == (1, 30)
    np.testing.assert_allclose(features.transform(X)[:1], features.transform(X[:1]), atol=1e-14)


@quiet_in_low_dimension
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", [Gaussian(0.5), Matern(2.5, length_scale=1.0), ArcCosine(1)])
def test_one_column(rule, kernel):
    line = np.linspace(-1, 1, 9)[:, None]
    features = QuadratureFeatures(kernel, rule=rule, n_components=4001, random_state=0).fit(line)
    estimate = features.approximate_kernel(line)
    if rule in ("rom", "sorf"):  # with one Hadamard entry, nothing is random: k_hat = cos(x - y)
        assert np.isfinite(estimate).all()
    else:
        assert np.abs(estimate - kernel(line)).max() < 0.1


def test_one_and_two_columns_warn_of_infinite_variance(features):
    features = clone(features).set_params(rule="sr33")
    with pytest.warns(UserWarning, match=r"infinite variance for .* on 1 column\(s\).*rule='orf'"):
        features.fit(X[:, :1])
    with pytest.warns(UserWarning, match=r"on 2 column\(s\)"):
        features.fit(X[:, :2])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_zero_rows(rule, order):
    kernel = ArcCosine(order)
    rows = np.vstack([np.zeros((2, 4)), X[:3]])
    features = QuadratureFeatures(kernel, rule=rule, n_components=2 * 5 * 40 + 1, random_state=0)
    estimate = features.fit(rows).approximate_kernel(rows)
    # A zero row has phi(0) in every feature, so its entries are exact up to the sum of weights.
    assert np.abs(estimate[:2, :2] - kernel(rows)[:2, :2]).max() < 0.05
    assert np.abs(estimate[:2, 2:] - kernel(rows)[:2, 2:]).max() < 0.1


@pytest.mark.parametrize("width", [3, 5])
def test_wrong_number_of_columns_in_transform(features, width):
    features.fit(X)
    with pytest.raises(ValueError, match=rf"X has {width} features.*expecting 4 features"):
        features.transform(np.ones((2, width)))
    with pytest.raises(ValueError, match=rf"X has {width} features"):
        features.approximate_kernel(X, np.ones((2, width)))


def test_one_dimensional_input(features):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        features.fit(X[0])


@pytest.mark.parametrize("rule", RULES)
def test_memory_layouts(rule):
    features = QuadratureFeatures(rule=rule, n_components=30, random_state=0).fit(X)
    expected = features.transform(X)
    wide = np.zeros((40, 9))
    wide[::2, 1::2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    for layout in (
        np.asfortranarray(X),
        wide[::2, 1::2],
        X[::-1].copy()[::-1],
        read_only,
        unaligned.reshape(X.shape),
        X.astype(">f8"),
    ):
        np.testing.assert_allclose(features.transform(layout), expected, atol=1e-13)


def test_input_is_never_changed(features):
    before = X.copy()
    features.fit(X).approximate_kernel(X)
    features.kernel_(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, bool, object, np.float16])
def test_other_dtypes_become_float64(features, dtype):
    counts = np.random.default_rng(0).integers(0, 2, size=(20, 4))
    expected = features.fit(counts.astype(np.float64)).transform(counts.astype(np.float64))
    given = features.transform(counts.astype(dtype))
    assert given.dtype == np.float64
    np.testing.assert_allclose(given, expected, atol=1e-14)


def test_text_and_complex_numbers(features):
    with pytest.raises(ValueError, match="columns 0, 1 hold text, such as 'a'"):
        features.fit([["a", "b"], ["c", "d"]])
    with pytest.raises(ValueError, match="Complex data not supported"):
        features.fit(X.astype(complex))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("unit", [1e30, 1e-30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_tiny_values_give_the_same_features_in_their_own_scale(rule, unit, dtype):
    features = QuadratureFeatures(rule=rule, n_components=30, random_state=0)
    expected = features.fit_transform(X)
    given = features.fit_transform((X * unit).astype(dtype))
    np.testing.assert_allclose(given, expected, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("unit", [1e30, 1e-30])
def test_homogeneous_kernels_scale(order, unit):
    features = QuadratureFeatures(ArcCosine(order), n_components=30, random_state=0).fit(X)
    expected = features.transform(X) * unit**order
    np.testing.assert_allclose(features.transform(X * unit), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "table", "message"),
    [
        (ArcCosine(2), (X * 1e30).astype(np.float32), "range of float32: rescale X or pass it as"),
        (ArcCosine(2), X * 1e200, "range of float64: rescale X"),
        (Gaussian(1.0), (X * 1e37).astype(np.float32), "range of float32"),
        (Gaussian(1e10), X * 1e304, "range of float64"),
        # The square is out of range, although the feature, of small amplitude, is not.
        (ArcCosine(2), (X * 5e18).astype(np.float32), "range of float32"),
    ],
)
def test_features_out_of_range_are_rejected(kernel, table, message):
    features = QuadratureFeatures(kernel, n_components=30, random_state=0).fit(X)
    with pytest.raises(ValueError, match=message):
        features.transform(table)


def test_estimates_out_of_range_are_rejected():
    features = QuadratureFeatures(ArcCosine(1), n_components=30, random_state=0).fit(X)
    with pytest.raises(ValueError, match="beyond the range of float32"):
        features.approximate_kernel((X * 1e25).astype(np.float32))
    assert np.isfinite(features.approximate_kernel(X * 1e25)).all()


def test_rejection_does_not_depend_on_memory_layout():
    tiny = np.full((4, 4), 1e-24, dtype=np.float32)  # their squares underflow to zero
    features = QuadratureFeatures(Gaussian(1e134), n_components=30, random_state=0).fit(X)
    for table in (tiny, np.asfortranarray(tiny), np.repeat(tiny, 2, axis=1)[:, ::2]):
        with pytest.raises(ValueError, match="range of float32"):
            features.transform(table)


def test_huge_arguments_of_a_cosine_stay_bounded():
    features = QuadratureFeatures(Gaussian(1.0), n_components=31, random_state=0).fit(X)
    for dtype in (np.float32, np.float64):
        Z = features.transform((X * 1e25).astype(dtype))
        assert np.isfinite(Z).all()
        assert (np.abs(Z) <= 1).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "gausian"}, r"kernel='gausian' is not known. Did you mean 'gaussian'\?"),
        ({"kernel": "matern"}, r"kernel='matern' is not known. Did you mean 'matern\d\d'\?"),
        ({"kernel": "???"}, r"kernel='\?\?\?' is not known. Choose one of 'gaussian', 'rbf'"),
        ({"rule": "sr3"}, r"rule='sr3' is not known. Did you mean 'sr33'\?"),
        ({"rule": "gauss_hermite"}, r"Did you mean 'gauss-hermite'\?"),
        ({"rule": "best"}, r"rule='best' is not known\..* Choose one of 'auto', 'sr33'"),
        (
            {"n_components": "many"},
            r"n_components='many' is not known. Pass a positive integer or 'auto'",
        ),
        ({"n_components": "400"}, "n_components='400' is not known. Pass a positive integer or"),
        ({"gamma": "0.1"}, "gamma='0.1' .* Pass a positive number, .*, 'scale' or 'auto'"),
        ({"n_jobs": "2"}, "n_jobs='2' is not valid: pass None, a number of threads"),
        ({"n_jobs": 0}, "n_jobs=0 is not valid: pass None, a number of threads"),
        ({"n_components": "auto"}, "n_components='auto' needs a tolerance. Set tol"),
        ({"n_components": "auto", "tol": 0.0}, "tol=0.0 is not valid"),
        ({"tol": 0.1}, "tol=0.1 has no effect, because n_components=1024"),
        ({"n_components": 0}, "n_components=0 is not valid: pass an integer >= 1"),
        ({"n_components": -5}, "n_components=-5 is not valid"),
        ({"n_components": 2.5}, "n_components=2.5 is not valid"),
        ({"n_components": True}, "n_components=True is not valid"),
        ({"kernel": Gaussian(-0.1)}, "gamma=-0.1 is not valid: pass finite numbers >= 0"),
        ({"kernel": Gaussian(np.ones(3))}, r"gamma has shape \(3,\) and X has 4 columns"),
        ({"kernel": Gaussian(np.ones((4, 1)))}, r"gamma has shape \(4, 1\)"),
        ({"kernel": "laplacian", "rule": "sr33"}, r"does not support Laplacian.*use MonteCarlo"),
        ({"kernel": "matern12", "rule": "sr33"}, r"does not support Matern.*rule='orf'"),
        ({"rule": MonteCarlo(remainder=2.0)}, "remainder=2.0 is not valid"),
        ({"rule": QuasiMonteCarlo(matched=True), "n_components": 6}, "3 complete nodes are"),
        ({"kernel": "matern12", "rule": QuasiMonteCarlo(matched=True)}, "infinite second moments"),
        ({"kernel": PointwiseNonlinear(np.sqrt)}, "not finite real numbers"),
        ({"random_state": "seven"}, "random_state='seven' is not valid"),
        ({"random_state": -1}, "random_state=-1 is not valid|between 0 and"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # raised by the square root
def test_errors_name_bad_parameters_and_a_fix(parameters, message):
    with pytest.raises(ValueError, match=message):
        QuadratureFeatures(**parameters).fit(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": 3}, "kernel=3 is not valid: pass an object such as"),
        ({"kernel": Gaussian}, "kernel=.* is not valid: pass an object such as"),
        ({"rule": None}, "rule=None is not valid: pass an object such as"),
        ({"tol": "small", "n_components": "auto"}, "tol='small' is not valid"),
        ({"reweight": 1}, "reweight=1 is not valid: pass True or False"),
        ({"rule": QuasiMonteCarlo(matched="yes")}, "matched='yes' is not valid"),
        ({"kernel": PointwiseNonlinear(7)}, "phi=7 is not valid: pass a function"),
    ],
)
def test_parameters_of_the_wrong_type(parameters, message):
    with pytest.raises(TypeError, match=message):
        QuadratureFeatures(**parameters).fit(X)


def test_transform_before_fit(features):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        features.transform(X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        features.approximate_kernel(X)


def test_a_failed_fit_leaves_an_earlier_one_usable(features):
    expected = features.fit(X).transform(X)
    for parameters, table in [
        ({"rule": "nonsense"}, X),
        ({"rule": "nonsense"}, X[:, :3]),
        ({"rule": "sr33", "kernel": "laplacian"}, X[:, :3]),
    ]:
        with pytest.raises(ValueError, match=r"rule="):
            features.set_params(**parameters).fit(table)
        np.testing.assert_array_equal(features.transform(X), expected)


def test_a_failed_first_fit_leaves_the_map_unfitted(features):
    with pytest.raises(ValueError, match="rule="):
        features.set_params(rule="nonsense").fit(X)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        features.transform(X)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_bad_n_jobs(features, n_jobs):
    message = r"n_jobs=.* is not valid: pass None, a number of threads"
    with pytest.raises(ValueError, match=message):
        features.set_params(n_jobs=n_jobs).fit(X)
    features.set_params(n_jobs=None).fit(X)
    with pytest.raises(ValueError, match=message):
        features.set_params(n_jobs=n_jobs).transform(X)


def test_too_little_memory_names_n_components(monkeypatch):
    def no_memory(*_, **__):
        raise MemoryError("Unable to allocate")

    features = QuadratureFeatures("gaussian", n_components=1000, rule="rff").fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(type(features.map_), "columns", no_memory)
        message = f"n_components=1,000 is too large .* features of {len(X)} rows need .* fewer rows"
        with pytest.raises(MemoryError, match=message):
            features.transform(X)
    monkeypatch.setattr(MonteCarlo, "draw", no_memory)
    with pytest.raises(
        MemoryError, match=r"n_components=1,000 .* its nodes alone need 16 kB .* Use fewer"
    ):
        features.fit(X)


def test_a_function_that_fails_on_the_data_is_named():
    features = QuadratureFeatures(PointwiseNonlinear(np.exp), n_components=30, random_state=0)
    features.fit(X)
    with (
        pytest.warns(RuntimeWarning, match="overflow"),
        pytest.raises(ValueError, match=r"phi=<ufunc 'exp'> returned values that are not finite"),
    ):
        features.transform(X * 1e5)


@pytest.mark.parametrize(
    "model", [QuadratureFeatures(), QuadratureRidge("gaussian", alpha=1.0)], ids=repr
)
def test_lazy_frames_raise_an_error_with_a_fix(model):
    polars = pytest.importorskip("polars")
    table = polars.LazyFrame({"a": [0.0, 1.0], "b": [1.0, 3.0]})
    with pytest.raises(TypeError, match=r"X is a LazyFrame: pass X\.collect\(\)"):
        model.fit(table, [0.0, 1.0])


def test_a_class_or_a_foreign_object_is_rejected_by_name():
    y = X[:, 0]
    stranger = type("Stranger", (), {"solve": lambda self: None})()
    for solver in (Normal, stranger):
        with pytest.raises(ValueError, match=r"^solver=.*subclass of quadfeat\.solvers\.Solver"):
            QuadratureRidge("gaussian", alpha=1.0, solver=solver).fit(X, y)
    with pytest.raises(TypeError, match=r"^features=.*pass a QuadratureFeatures"):
        QuadratureRidge(alpha=1.0, features=QuadratureFeatures).fit(X, y)
    with pytest.raises(TypeError, match=r"such as Gaussian\(\) from quadfeat\.kernels, or"):
        QuadratureRidge(alpha=1.0, kernel=3).fit(X, y)


@pytest.mark.parametrize("max_iter", [0, "many"])
def test_steps_of_a_solver_object_are_checked(max_iter):
    with pytest.raises((TypeError, ValueError), match=rf"^max_iter={max_iter!r} is not valid"):
        QuadratureRidge("gaussian", alpha=1.0, solver=ConjugateGradients(max_iter=max_iter)).fit(
            X, X[:, 0]
        )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lengthscales", [None, "isotropic"])
def test_classes_of_zero_weight(lengthscales):
    labels = X[:, 0] > 0
    model = QuadratureRidgeClassifier(
        "gaussian",
        alpha=1.0,
        n_components=30,
        class_weight={False: 0.0, True: 0.0},
        lengthscales=lengthscales,
    )
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        model.fit(X, labels)


def test_rows_are_added_in_the_dtype_of_a_solver_object():
    y = X[:, 0]
    model = QuadratureRidge(
        "gaussian", alpha=1.0, n_components=30, solver=Normal("float64"), random_state=0
    )
    assert model.fit(X, y).partial_fit(X, y).gram_dtype_ == "float64"
    with pytest.raises(ValueError, match=r"^gram_dtype='half' is not known"):
        QuadratureRidge("gaussian", alpha=1.0, n_components=30, solver=Normal("half")).partial_fit(
            X, y
        )


def test_a_solver_without_classes_is_rejected_by_classifiers():
    class Forgetful(Normal):
        def solve(self, problem, rows, work):
            return super().solve(problem, rows, work).predicting()

    model = QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=30, solver=Forgetful())
    with pytest.raises(ValueError, match="solution without classes"):
        model.fit(X, X[:, 0] > 0)


@pytest.mark.parametrize("model", [QuadratureRidge("gaussian"), LocalGaussianProcess("gaussian")])
@pytest.mark.parametrize("dtype", [str, object])
def test_targets_of_text_belong_to_a_classifier(model, dtype):
    labels = np.where(X[:, 0] > 0, "yes", "no").astype(dtype)
    with pytest.raises(ValueError, match=r"y holds text, .*Use QuadratureRidgeClassifier"):
        model.fit(X, labels)


@pytest.mark.parametrize("kind", [QuadratureRidge, LocalGaussianProcess])
def test_levels_of_progress(kind, capsys):
    """Other libraries have integers for ``verbose``."""
    model = kind("gaussian", verbose=1).fit(X, X[:, 0])
    assert model.verbose == 1
    assert capsys.readouterr().err != ""
    for bad in (-1, "yes", None):
        with pytest.raises(
            ValueError, match=rf"^verbose={bad!r} is not valid: pass True, False or"
        ):
            model.set_params(verbose=bad).fit(X, X[:, 0])
