"""Test warnings about kernels that are too narrow for the number of columns."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_friedman1
from sklearn.preprocessing import StandardScaler

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1200, 6))
y = np.sin(6 * X).sum(axis=1)
NARROW, WIDE = 30.0, 0.3
MESSAGE = (
    r"n_components=100 is too few for Gaussian\(gamma=30\.0\) on these rows: the expected relative "
    r"error of the kernel is \d\.\d+, larger than that of zeros\. .*LocalGaussianProcess suits"
)


@pytest.mark.parametrize(
    "fit",
    [
        lambda: QuadratureFeatures(gamma=NARROW, n_components=100, random_state=0).fit(X),
        lambda: QuadratureRidge("gaussian", gamma=NARROW, n_components=100, random_state=0).fit(
            X, y
        ),
        lambda: QuadratureRidgeClassifier(Gaussian(NARROW), n_components=100, random_state=0).fit(
            X, y > 0
        ),
        lambda: QuadratureRidge(
            features=QuadratureFeatures(gamma=NARROW, n_components=100, random_state=0)
        ).fit(X, y),
    ],
)
def test_too_few_columns_for_a_narrow_kernel(fit):
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        model = fit()
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the warning points to the user's line
    features = getattr(model, "features_", model)
    assert "larger than the error of zeros, so they do not approximate" in features.why_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        QuadratureRidge(features=features, alpha=1.0).fit(X, y)  # the fit of the map has warned
        pickle.loads(pickle.dumps(features)).transform(X)


@pytest.mark.parametrize("n_components", [100, 500])
def test_the_error_is_that_of_the_map(n_components):
    features = QuadratureFeatures(gamma=NARROW, n_components=n_components, random_state=0)
    with pytest.warns(UserWarning, match=rf"n_components={n_components} is too few"):
        features.fit(X)
    assert float(features.approximation_error_) > 0.8


@pytest.mark.filterwarnings("error")
def test_no_warning_if_columns_are_enough():
    QuadratureFeatures(gamma=NARROW, n_components=2400, random_state=0).fit(X)
    features = QuadratureFeatures(gamma=WIDE, n_components=100, random_state=0).fit(X)
    assert "zeros" not in features.why_
    QuadratureFeatures(n_components=2, random_state=0).fit(X)  # nobody expects precision
    # A given rule has no estimate, and a learned kernel was validated.
    QuadratureFeatures(gamma=NARROW, n_components=100, rule="orf", random_state=0).fit(X)
    QuadratureRidge(n_components=100, random_state=0).fit(X[:200], y[:200])


def tables():
    yield load_digits().data
    yield load_breast_cancer().data
    yield load_diabetes().data
    yield make_friedman1(2000, random_state=0)[0]
    yield np.column_stack([rng.lognormal(1, 0.5, (3000, 6)), rng.uniform(32, 42, (3000, 2))])
    for d in (1, 2, 5, 20, 100):
        yield rng.standard_normal((3000, d))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", ["gaussian", "matern12", "laplacian"])
def test_no_warning_for_default_scales(kernel):
    for table in tables():
        table = StandardScaler().fit_transform(table)
        for n_components in (128, 1024):
            QuadratureFeatures(kernel, n_components=n_components, random_state=0).fit(table)
