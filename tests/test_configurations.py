"""Run scikit-learn's checks over many configurations.

Also test methods that exist only in some configurations, and changes of parameters between
batches.
"""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import Gaussian, Laplacian, RationalQuadratic
from slow import slow

rng = np.random.default_rng(0)
X = rng.standard_normal((300, 3))
y = np.sin(X[:, 0]) + X[:, 1]
LABELS = (y > 0).astype(int)

FIXED = {"kernel": "gaussian", "alpha": 1.0}  # skips all searches
MODEL_SETTINGS = [
    {"solver": "cg"},
    {"solver": "cg", "tol": 1e-6, "alpha": 0.1},
    {"alpha": "auto"},
    {"alpha": "auto", "solver": "cg"},
    {"alpha": "gcv"},
    {"alpha": "loo"},
    {"alpha": "evidence"},
    {"alpha": [0.1, 1.0]},
    {"gram_dtype": "float64"},
    {"fit_intercept": False},
    {"lengthscales": "isotropic"},
    {"lengthscales": "ard"},
    {"lengthscales": "ard", "alpha": "evidence", "gram_dtype": "float64"},
    {"kernel": "matern32"},
    {"kernel": "arccos1", "alpha": "gcv"},
    {"kernel": Laplacian(0.1), "rule": "rff"},
    {"kernel": RationalQuadratic(), "lengthscales": "isotropic", "alpha": "loo"},
    {"rule": "sr33"},
    {"rule": "fastfood", "solver": "cg"},
    {"rule": "sobol"},
    {"n_jobs": 2},
]
MODELS = [
    Model(**FIXED | {"n_components": 60, "rule": "orf", "random_state": 0} | parameters)
    for Model in (QuadratureRidge, QuadratureRidgeClassifier)
    for parameters in MODEL_SETTINGS
]
BALANCED = [
    QuadratureRidgeClassifier(
        "gaussian",
        alpha=1.0,
        n_components=60,
        rule="orf",
        random_state=0,
        class_weight="balanced",
        solver=solver,
    )
    for solver in ("normal", "cg")
]
MAPS = [
    QuadratureFeatures("arccos2", n_components=20, rule="orf"),
    QuadratureFeatures("matern12", n_components=20, rule="orf"),
    QuadratureFeatures(n_components=20, rule="orf", reweight=True),
]

# Checks that may fail, where, and why.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        lambda model: model.alpha in ("auto", "gcv", "loo", "evidence"),
        "the table has 15 rows and copies of them, so that the smallest alpha is chosen, for which "
        "solutions have 6 digits, and the check asks for 7",
    ),
    "check_class_weight_classifiers": (
        lambda model: model.alpha in ("auto", "gcv", "loo", "evidence"),
        "a row of weight 1000 stands for 1000 rows, of which 999 remain when one is left out, so "
        "that the smallest alpha is chosen, and rows next to others get their class",
    ),
    "check_regressors_train": (
        lambda model: model.lengthscales is not None and model.alpha == 1.0,
        "alpha=1 shrinks the features of a kernel as wide as this linear function asks for",
    ),
}
EXPECTED_FAILURES["check_sample_weight_equivalence_on_sparse_data"] = EXPECTED_FAILURES[
    "check_sample_weight_equivalence_on_dense_data"
]


def may_fail(estimator, name):
    if isinstance(estimator, QuadratureFeatures):
        # `reweight` treats all rows of positive weight alike, as its docstring says.
        return estimator.reweight and name.startswith("check_sample_weight_equivalence")
    return name in EXPECTED_FAILURES and EXPECTED_FAILURES[name][0](estimator)


# Each configuration runs with one of the two models, alternately. Slow tests run it with the other
# model. Configurations that learn lengthscales and alpha take longest, so they are all slow.
HALF = len(MODEL_SETTINGS)
LONG = [k for k in range(HALF) if {"lengthscales", "alpha"} <= MODEL_SETTINGS[k].keys()]
OFTEN = [MODELS[k + HALF * (k % 2)] for k in range(HALF) if k not in LONG] + BALANCED[:1] + MAPS
RARELY = [slow(MODELS[k + HALF * (1 - k % 2)]) for k in range(HALF)] + [slow(BALANCED[1])]
RARELY += [slow(MODELS[k + HALF * (k % 2)]) for k in LONG]
RARELY += [
    slow(QuadratureFeatures(**parameters, n_components=20))  # with rule="auto", which takes longer
    for parameters in ({"kernel": "arccos2"}, {"kernel": "matern12"}, {"reweight": True})
]


# The checks use tables of one and two columns, for which degree 3 warns of infinite variance.
@pytest.mark.filterwarnings("ignore:the weights of .* have infinite variance")
@pytest.mark.parametrize("estimator", [*OFTEN, *RARELY], ids=repr)
def test_every_check_of_scikit_learn(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert len(results) > 40
    failed = {
        result["check_name"]: result["exception"]
        for result in results
        if result["status"] not in ("passed", "skipped")
        and not may_fail(estimator, result["check_name"])
    }
    assert failed == {}
    # One check needs its own process (tests/test_ridge.py).
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}


def test_there_are_enough_configurations():
    assert len({repr(one) for one in [*MODELS, *BALANCED, *MAPS]}) >= 40


@pytest.mark.parametrize(
    ("parameters", "missing"),
    [
        ({}, ()),
        ({"solver": "cg"}, ("partial_fit", "merge", "predict_proba")),
        ({"alpha": "loo"}, ("partial_fit", "merge")),
        ({"class_weight": "balanced"}, ("partial_fit", "merge")),
        ({"class_weight": {0: 2.0}}, ()),
    ],
)
def test_unsupported_methods_are_missing(parameters, missing):
    for model in (
        QuadratureRidgeClassifier(**FIXED | {"n_components": 9} | parameters),
        QuadratureRidgeClassifier(**FIXED | {"n_components": 9} | parameters).fit(X, LABELS),
    ):
        for method in ("partial_fit", "merge", "predict_proba"):
            assert hasattr(model, method) == (method not in missing)
    if "class_weight" not in parameters:
        regression = QuadratureRidge(**FIXED | {"n_components": 9} | parameters)
        for method in ("partial_fit", "merge"):
            assert hasattr(regression, method) == (method not in missing)


class TestChangesBetweenBatches:
    @pytest.mark.parametrize(
        "change",
        [
            {"n_components": 30},
            {"kernel": Gaussian(3.0)},
            {"rule": "rff"},
            {"lengthscales": "ard"},
            {"random_state": 1},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("first", ["partial_fit", "fit"])
    def test_changes_that_affect_earlier_rows_are_rejected(self, first, change):
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=20, rule="orf", random_state=0)
        getattr(model, first)(X, y)
        before = model.coef_
        model.set_params(**change)
        name = next(iter(change))
        with pytest.raises(
            ValueError, match=rf"{name}=.* has no effect on a model that already has rows"
        ):
            model.partial_fit(X, y)
        assert model.coef_ is before or np.array_equal(model.coef_, before)
        assert model._solution.summary.moments.n_rows == 300
        model.fit(X, y).partial_fit(X, y)

    def test_another_map_is_rejected(self):
        maps = [QuadratureFeatures(n_components=20, random_state=s).fit(X) for s in (0, 1)]
        model = QuadratureRidge(alpha=1.0, features=maps[0]).partial_fit(X, y)
        model.set_params(features=maps[1])
        with pytest.raises(ValueError, match=r"features=.* has no effect"):
            model.partial_fit(X, y)

    def test_other_class_weights_are_rejected(self):
        model = QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=20, random_state=0)
        model.partial_fit(X, LABELS).set_params(class_weight={0: 2.0})
        with pytest.raises(ValueError, match=r"class_weight=.* has no effect"):
            model.partial_fit(X, LABELS)

    def test_changes_that_affect_only_the_solution_take_effect(self):
        given = {"n_components": 20, "rule": "orf", "random_state": 0, "gram_dtype": "float64"}
        model = QuadratureRidge("gaussian", alpha=1.0, **given).partial_fit(X, y)
        model.set_params(alpha=3.0, fit_intercept=False, n_jobs=2).partial_fit(X, y)
        whole = QuadratureRidge("gaussian", **given, alpha=3.0, fit_intercept=False)
        whole.fit(np.vstack([X, X]), np.concatenate([y, y]))
        np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6)

    def test_models_with_different_class_weights_do_not_merge(self):
        features = QuadratureFeatures(n_components=9, random_state=0).fit(X)
        left, right = (
            QuadratureRidgeClassifier(alpha=1.0, features=features, class_weight=weights).fit(
                X, LABELS
            )
            for weights in ({0: 1.0, 1: 5.0}, {0: 5.0, 1: 1.0})
        )
        with pytest.raises(ValueError, match=r"class_weight is .* for this model"):
            left.merge(right)
        balanced = QuadratureRidgeClassifier(alpha=1.0, features=features, class_weight="balanced")
        balanced.fit(X, LABELS).set_params(class_weight=left.class_weight)
        with pytest.raises(ValueError, match="class_weight='balanced' needs"):
            left.merge(balanced)
        declared = QuadratureRidgeClassifier(alpha=1.0, features=features)
        declared.partial_fit(X, LABELS, classes=[0, 1])
        other = QuadratureRidgeClassifier(alpha=1.0, features=features).fit(X, LABELS + 1)
        with pytest.raises(ValueError, match=r"classes \[2\], which are not in"):
            declared.merge(other)
