"""Test that shortcuts for a few rows give the results and errors of the general path."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian, Metric

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
Y = X[:, 0] - X[:, 1] ** 2
KERNELS = {"plain": Gaussian(0.2), "metric": Metric(Gaussian(0.2), np.diag([1.0, 2, 3, 1, 1]))}


@pytest.fixture(params=KERNELS)
def model(request):
    return QuadratureRidge(KERNELS[request.param], n_components=65, random_state=0).fit(X, Y)


def test_other_forms_of_the_same_rows_have_the_same_predictions(model):
    expected = model.predict(X[:3])
    for rows in (X[:3].tolist(), np.asfortranarray(X[:3]), X[:6:2][:2], X[:3].astype(">f8")):
        np.testing.assert_allclose(model.predict(rows), model.predict(np.array(rows)), rtol=1e-12)
    np.testing.assert_allclose(model.predict(sparse.csr_matrix(X[:3])), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict(X[:3].astype(np.float32)), expected, rtol=1e-3)


def test_coefficients_changed_in_place_are_used(model):
    before = model.predict(X[:2])
    model.coef_[:] *= 2.0
    intercept = model.intercept_
    np.testing.assert_allclose(model.predict(X[:2]) - intercept, 2.0 * (before - intercept))


def test_another_alpha_on_the_same_map_has_its_own_coefficients():
    features = QuadratureFeatures(Gaussian(0.2), n_components=65, random_state=0).fit(X)
    first, second = (
        QuadratureRidge(features=features, alpha=alpha).fit(X, Y) for alpha in (1e-3, 10.0)
    )
    alone = first.predict(X[:2]), second.predict(X[:2])
    for _ in range(2):
        np.testing.assert_array_equal(first.predict(X[:2]), alone[0])
        np.testing.assert_array_equal(second.predict(X[:2]), alone[1])
    assert not np.allclose(*alone)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("estimator", [QuadratureRidge, QuadratureRidgeClassifier])
def test_rows_are_still_checked(estimator, bad):
    model = estimator(Gaussian(0.2), n_components=33, random_state=0).fit(X, (Y > 0).astype(int))
    rows = X[:1].copy()
    rows[0, 2] = bad
    for method in (model.predict, model.features_.transform):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            method(rows)
        with pytest.raises(ValueError, match="5 features as input"):
            method(X[:1, :4])
        with pytest.raises(ValueError, match="2D array"):
            method(X[0])
        with pytest.raises(ValueError, match="0 sample"):
            method(X[:0])


def test_n_jobs_is_checked_for_a_few_rows():
    features = QuadratureFeatures(Gaussian(0.2), n_components=33, random_state=0).fit(X)
    with pytest.raises(ValueError, match="n_jobs=0"):
        features.set_params(n_jobs=0).transform(X[:1])


def test_the_package_imports_its_parts_on_first_use():
    code = (
        "import sys, quadfeat; assert 'sklearn' not in sys.modules; "
        "assert 'QuadratureRidge' in dir(quadfeat); quadfeat.QuadratureRidge; "
        "quadfeat.engine.core; "
        "assert not hasattr(quadfeat, 'missing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_loads_in_a_process_that_has_imported_nothing_else(tmp_path):
    path = tmp_path / "model.quadfeat"
    from quadfeat import save

    save(QuadratureFeatures(Gaussian(0.2), n_components=9, random_state=0).fit(X), path)
    code = f"from quadfeat.io import load; print(load({str(path)!r}).n_components_)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "9\n"


def test_the_version_needs_no_other_package():
    code = (
        "import sys; sys.argv = ['quadfeat', '--version']; from quadfeat.__main__ import main; "
        "main(); assert 'typer' not in sys.modules and 'numpy' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.startswith("quadfeat ")
