"""Test array API dispatch: outputs are arrays of the same library as the inputs."""

import importlib.util
import inspect

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from quadfeat import (
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    transform_into,
)
from quadfeat.maps import QuadratureMap

rng = np.random.default_rng(0)
X = rng.standard_normal((90, 4))
NEW = rng.standard_normal((30, 4))
y = np.sin(X[:, 0]) + X[:, 1]
LABELS = np.digitize(y, [-0.5, 0.5])
FEATURES = QuadratureFeatures(rule="sr33", n_components=21, random_state=0).fit(X)


@pytest.fixture
def enabled(monkeypatch):
    # scikit-learn requires this variable. SciPy is already imported, but the tests do not need it.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    if importlib.util.find_spec("sklearn.externals.array_api_compat") is None:
        pytest.importorskip("array_api_compat")  # older versions of scikit-learn do not include it


@pytest.fixture
def dispatch(enabled):
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(params=["array_api_strict", "torch"])
def xp(request):
    return pytest.importorskip(request.param)


def numpy_of(array):
    return np.from_dlpack(array)


@pytest.mark.usefixtures("dispatch")
class TestWithDispatch:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_features_have_the_type_of_their_input(self, xp, dtype):
        rows = xp.asarray(NEW, dtype=getattr(xp, dtype))
        Z = FEATURES.transform(rows)
        assert type(Z) is type(rows)
        assert Z.dtype == rows.dtype
        assert Z.device == rows.device
        assert_array_equal(numpy_of(Z), FEATURES.transform(NEW.astype(dtype)))

    def test_fits_agree_with_those_to_numpy_arrays(self, xp):
        rows, weights = xp.asarray(X), xp.asarray(np.linspace(0.0, 2.0, len(X)))
        options = {"rule": "orf", "n_components": 21, "random_state": 0}
        found = QuadratureFeatures(**options).fit(rows, sample_weight=weights)
        expected = QuadratureFeatures(**options).fit(X, sample_weight=numpy_of(weights))
        assert found.fingerprint() == expected.fingerprint()
        Z = QuadratureFeatures(**options).fit_transform(rows)
        assert type(Z) is type(rows)
        assert_array_equal(numpy_of(Z), QuadratureFeatures(**options).fit_transform(X))

    def test_arrays_are_not_copied(self, monkeypatch):
        torch = pytest.importorskip("torch")
        written = []
        write = QuadratureMap.write

        def remember(self, rows, out):
            written.append((rows, out))
            write(self, rows, out)

        monkeypatch.setattr(QuadratureMap, "write", remember)
        rows = torch.asarray(NEW)
        Z = FEATURES.transform(rows)
        ((seen, out),) = written
        assert np.shares_memory(seen, rows.numpy())
        assert np.shares_memory(out, Z.numpy())

    def test_the_kernel_and_its_error(self, xp):
        rows, others = xp.asarray(NEW), xp.asarray(X)
        gram = FEATURES.approximate_kernel(rows, others)
        assert type(gram) is type(rows)
        assert_array_equal(numpy_of(gram), FEATURES.approximate_kernel(NEW, X))
        found = FEATURES.kernel_error(rows, random_state=0)
        assert found == FEATURES.kernel_error(NEW, random_state=0)

    def test_transform_into_a_numpy_array(self, xp):
        out = np.empty((30, 21))
        transform_into(FEATURES, xp.asarray(NEW), out)
        assert_array_equal(out, FEATURES.transform(NEW))

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_regression(self, xp, outputs):
        targets = y if outputs == 1 else np.column_stack([y, -y])
        rows, weights = xp.asarray(NEW), np.linspace(0.1, 2.0, len(X))
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=21, rule="orf", random_state=0)
        model.fit(xp.asarray(X), xp.asarray(targets), sample_weight=xp.asarray(weights))
        plain = sklearn.clone(model).fit(X, targets, sample_weight=weights)
        for found, expected in [
            (model.predict(rows), plain.predict(NEW)),
            *zip(
                model.predict(rows, return_std=True),
                plain.predict(NEW, return_std=True),
                strict=True,
            ),
            (model.sample_y(rows, 2), plain.sample_y(NEW, 2)),
        ]:
            assert type(found) is type(rows)
            assert_array_equal(numpy_of(found), expected)
        score = model.score(xp.asarray(X), xp.asarray(targets))
        assert score == pytest.approx(plain.score(X, targets))

    def test_classification(self, xp):
        rows = xp.asarray(NEW)
        model = QuadratureRidgeClassifier(
            "gaussian", alpha=1.0, n_components=21, rule="orf", random_state=0
        )
        model.partial_fit(
            xp.asarray(X), xp.asarray(LABELS), classes=xp.asarray(np.arange(3)), sample_weight=None
        )
        plain = sklearn.clone(model).partial_fit(X, LABELS)
        for method in ("predict", "decision_function", "predict_proba"):
            found = getattr(model, method)(rows)
            assert type(found) is type(rows)
            assert_array_equal(numpy_of(found), getattr(plain, method)(NEW))
        score = model.score(xp.asarray(X), xp.asarray(LABELS))
        assert score == pytest.approx(plain.score(X, LABELS))

    def test_string_labels_stay_in_numpy_arrays(self, xp):
        names = np.array(["low", "medium", "high"])[LABELS]
        model = QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=21, random_state=0)
        found = model.fit(xp.asarray(X), names).predict(xp.asarray(NEW))
        assert_array_equal(found, model.predict(NEW))
        assert found.dtype == names.dtype

    def test_libraries_may_be_mixed(self, xp):
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=21, rule="orf", random_state=0)
        expected = model.fit(X, y).predict(NEW)
        rows = xp.asarray(NEW)
        assert_array_equal(numpy_of(model.predict(rows)), expected)
        model.fit(X, xp.asarray(y))
        assert isinstance(model.predict(NEW), np.ndarray)
        model.fit(xp.asarray(X), array_api_strict.asarray(y))
        assert_array_equal(model.predict(NEW), expected)

    def test_blocks_of_rows(self, xp):
        blocks = [(xp.asarray(X[rows]), xp.asarray(y[rows])) for rows in (slice(50), slice(50, 90))]
        plain = [(X[:50], y[:50]), (X[50:], y[50:])]
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=21, rule="orf", random_state=0)
        expected = model.fit(plain).predict(NEW)
        assert_array_equal(model.fit(blocks).predict(NEW), expected)

    def test_in_a_pipeline(self, xp):
        pipeline = make_pipeline(MinMaxScaler(), FEATURES, Ridge(solver="svd"))
        rows = xp.asarray(X)
        found = pipeline.fit(rows, xp.asarray(y)).predict(rows)
        assert type(found) is type(rows)

    def test_data_frames_out(self, xp):
        features = sklearn.clone(FEATURES).set_output(transform="pandas").fit(X)
        found = features.transform(xp.asarray(NEW))
        pd.testing.assert_frame_equal(found, features.transform(NEW))

    def test_other_input_is_unaffected(self):
        expected = FEATURES.transform(NEW)
        for rows in (NEW, sparse.csr_matrix(NEW), pd.DataFrame(NEW)):
            found = FEATURES.transform(rows)
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_integers_and_columns_in_any_order(self, xp):
        rows = xp.asarray(np.arange(12).reshape(3, 4))
        assert FEATURES.transform(rows).dtype == xp.float64
        turned = xp.asarray(np.asfortranarray(NEW))
        assert_array_equal(numpy_of(FEATURES.transform(turned)), FEATURES.transform(NEW))

    def test_arrays_that_require_gradients_are_rejected(self):
        torch = pytest.importorskip("torch")
        rows = torch.asarray(NEW).requires_grad_()
        with pytest.raises(ValueError, match=r"X requires a gradient.*pass X\.detach\(\)"):
            FEATURES.transform(rows)
        with pytest.raises(ValueError, match=r"y requires a gradient"):
            QuadratureRidge("gaussian", alpha=1.0).fit(X, torch.asarray(y).requires_grad_())

    @pytest.mark.parametrize(("device", "dtype"), [("meta", "float64"), ("cpu", "bfloat16")])
    def test_arrays_that_numpy_cannot_read_are_rejected(self, device, dtype):
        torch = pytest.importorskip("torch")
        rows = torch.asarray(NEW).to(device=device, dtype=getattr(torch, dtype))
        with pytest.raises(
            ValueError,
            match=f"X is a Tensor with dtype torch.{dtype} on the device {device}.*on the CPU",
        ):
            FEATURES.transform(rows)


def test_without_dispatch_results_are_numpy_arrays():
    torch = pytest.importorskip("torch")
    rows, targets = torch.asarray(X), torch.asarray(y)
    model = QuadratureRidge("gaussian", alpha=1.0, n_components=21, random_state=0).fit(
        rows, targets
    )
    classifier = QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=21).fit(
        rows, torch.asarray(LABELS)
    )
    for found in (FEATURES.transform(rows), model.predict(rows), classifier.predict(rows)):
        assert isinstance(found, np.ndarray)
    assert_array_equal(FEATURES.transform(rows), FEATURES.transform(X))


def test_wrapped_methods_keep_their_signatures():
    assert list(inspect.signature(QuadratureRidge.predict).parameters) == [
        "self",
        "X",
        "return_std",
        "return_cov",
    ]
    assert "float32 for float32" in QuadratureFeatures.transform.__doc__


@pytest.mark.parametrize("namespace", ["array_api_strict", "torch"])
@pytest.mark.parametrize(
    "estimator",
    [
        QuadratureFeatures(n_components=20, random_state=0),
        QuadratureRidge("gaussian", alpha=1.0, n_components=20, random_state=0),
        QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=20, random_state=0),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("enabled")
def test_the_checks_of_scikit_learn(namespace, estimator, dtype):
    from sklearn.utils import estimator_checks  # some of its checks read the environment

    pytest.importorskip(namespace)
    source = inspect.getsource(estimator_checks)
    if isinstance(estimator, QuadratureRidgeClassifier) and 'key != "classes_"' not in source:
        pytest.skip("this version of scikit-learn expects classes_ to have the array type of y")
    estimator_checks.check_array_api_input_and_values(
        type(estimator).__name__, estimator, namespace, dtype_name=dtype
    )
