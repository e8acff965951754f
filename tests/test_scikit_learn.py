"""Run scikit-learn's estimator checks for every preset, and its tests of ``RBFSampler``."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from quadfeat import QuadratureFeatures
from quadfeat.kernels import Gaussian
from slow import slow
from test_features import RULES

# The checks use tables of one and two columns, for which degree 3 warns of infinite variance.
pytestmark = pytest.mark.filterwarnings("ignore:the weights of .* have infinite variance")


@parametrize_with_checks(
    [QuadratureFeatures(rule=rule, n_components=20) for rule in RULES]
    + [QuadratureFeatures("arccos1", n_components=20)]
    + [QuadratureFeatures("laplacian", rule="rff", n_components=20, n_jobs=2)]
)
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [QuadratureFeatures(kernel, n_components=20) for kernel in ("arccos0", "matern52")]
)
def test_every_check_with_other_kernels(estimator, check):
    check(estimator)


@pytest.mark.parametrize("rules", [RULES[:1], slow(RULES[1:])], ids=["one rule", "the others"])
def test_no_check_is_skipped_or_expected_to_fail(rules):
    # The array API check needs SCIPY_ARRAY_API before SciPy is imported, so start a new process.
    script = (
        f"RULES = {rules}"
        + """
import warnings
from sklearn.utils.estimator_checks import check_estimator
from quadfeat import QuadratureFeatures
warnings.filterwarnings("ignore", "the weights of .* have infinite variance")
for rule in RULES:
    for r in check_estimator(QuadratureFeatures(rule=rule, n_components=20), on_skip=None):
        print(rule, r["check_name"], r["status"])
"""
    )
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    results = done.stdout.splitlines()
    assert len(results) > 40 * len(rules)
    assert [result for result in results if not result.endswith(" passed")] == []


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    X, Y = rng.random_sample((300, 50)), rng.random_sample((300, 50))
    return X / X.sum(axis=1)[:, None], Y / Y.sum(axis=1)[:, None]


@pytest.mark.parametrize("rule", RULES)
class TestLikeRBFSampler:
    gamma = 10.0

    def features(self, rule, **parameters):
        parameters = {"n_components": 1000, "random_state": 42} | parameters
        return QuadratureFeatures(Gaussian(self.gamma), rule=rule, **parameters)

    def test_bias_maximum_and_mean_error(self, rule, data):
        X, Y = data
        features = self.features(rule).fit(X)
        error = rbf_kernel(X, Y, gamma=self.gamma) - features.transform(X) @ features.transform(Y).T
        assert abs(error.mean()) <= 0.01
        assert np.abs(error).max() <= 0.1
        assert np.abs(error).mean() <= 0.05

    def test_dtype_equivalence(self, rule, data):
        X, _ = data
        single = self.features(rule).fit(X.astype(np.float32))
        double = self.features(rule).fit(X)
        np.testing.assert_allclose(
            single.transform(X.astype(np.float32)), double.transform(X), atol=1e-4
        )

    def test_fitted_attributes_do_not_depend_on_the_dtype_of_the_data(self, rule, data):
        X, _ = data
        single = self.features(rule).fit(X.astype(np.float32)).nodes_
        double = self.features(rule).fit(X).nodes_
        np.testing.assert_array_equal(single.frequencies(), double.frequencies())
        np.testing.assert_array_equal(single.weights, double.weights)

    def test_lists_and_sparse_matrices_are_input(self, rule):
        rows = [[1, 2], [3, 4], [5, 6]]
        features = self.features(rule, n_components=10)
        from_lists = features.fit(rows).transform(rows)
        from_sparse = features.fit(sparse.csr_matrix(rows)).transform(sparse.csr_matrix(rows))
        np.testing.assert_allclose(from_lists, from_sparse, atol=1e-12)

    def test_feature_names(self, rule, data):
        X, _ = data
        features = self.features(rule, n_components=15).fit(X)
        expected = [f"quadraturefeatures{i}" for i in range(15)]
        np.testing.assert_array_equal(features.get_feature_names_out(), expected)


@pytest.mark.parametrize("rule", RULES)
def test_gamma_scale(rule):
    X = np.array([[0.1, 0.5], [-1.2, 3.3], [2.0, 2.0]])
    features = QuadratureFeatures(Gaussian("scale"), rule=rule, n_components=10).fit(X)
    assert features.kernel_.gamma == pytest.approx(1 / (2 * X.var()))


def test_importing_the_package_imports_little_besides_scikit_learn():
    program = """
import sys, sklearn
before = set(sys.modules)
from quadfeat import QuadratureFeatures
print(*(name for name in set(sys.modules) - before))
"""
    run = [sys.executable, "-c", program]
    found = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split()
    assert "quadfeat.models.features" in found
    heavy = {"dask", "matplotlib", "pandas", "pyarrow", "rich", "typer", "sklearn.metrics"}
    assert not heavy & set(found)
