"""Compare ridge models with scikit-learn on the same features and with exact Gaussian processes."""

import copy
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils.estimator_checks import (
    check_dict_unchanged,
    check_fit_idempotent,
    check_methods_subset_invariance,
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)
from sklearn.utils.fixes import parse_version

from quadfeat import ParquetBlocks, QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.kernels import ArcCosine, Gaussian, Matern, PointwiseNonlinear
from quadfeat.solvers import accumulator as summing
from quadfeat.solvers import calibration
from quadfeat.solvers.left_out import LeftOut

rng = np.random.default_rng(0)
X = rng.standard_normal((1500, 4))
Y = np.column_stack(
    [
        np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(1500) + 30.0,
        X[:, 2] ** 2 * 100,
        np.cos(X[:, 3]) - 1000,
    ]
)
y = Y[:, 0]
WEIGHTS = rng.uniform(0, 3, 1500) * (rng.random(1500) < 0.9)
LABELS = np.digitize(np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(1500), [-0.5, 0.5])
NAMES = np.array(["low", "medium", "high"])[LABELS]
FEATURES = QuadratureFeatures(Gaussian(0.15), rule="orf", n_components=80, random_state=0).fit(X)
Z = FEATURES.transform(X)
MODELS = [QuadratureRidge, QuadratureRidgeClassifier]


def ridge(**parameters):
    parameters = {"features": FEATURES, "gram_dtype": "float64", "alpha": 1.0} | parameters
    return QuadratureRidge(**parameters)


def classifier(**parameters):
    parameters = {"features": FEATURES, "gram_dtype": "float64", "alpha": 1.0} | parameters
    return QuadratureRidgeClassifier(**parameters)


def missing(model, method, reason):
    """Check that a model does not have a method, and that the error gives the reason."""
    assert not hasattr(model, method)
    with pytest.raises(AttributeError, match=f"has no attribute '{method}'") as raised:
        getattr(model, method)
    assert re.search(reason, str(raised.value.__cause__))


def uneven(n_rows, n_batches, seed=0):
    """Return row indices of batches of very different sizes, in random order."""
    rng = np.random.default_rng(seed)
    sizes = 1 + rng.multinomial(n_rows - n_batches, rng.dirichlet(np.full(n_batches, 0.3)))
    return np.split(rng.permutation(n_rows), np.cumsum(sizes)[:-1])


def blocks(*columns, size=400):
    """Return blocks of these tables as an iterable that can be read several times."""
    return [
        tuple(column[start : start + size] for column in columns)
        for start in range(0, columns[0].shape[0], size)
    ]


class TestCoefficients:
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
    @pytest.mark.parametrize("targets", [y, y[:, None], Y], ids=["1d", "column", "several"])
    def test_coefficients_agree_with_ridge(self, intercept, weights, targets):
        model = ridge(alpha=0.3, fit_intercept=intercept).fit(X, targets, sample_weight=weights)
        expected = Ridge(alpha=0.3, fit_intercept=intercept).fit(Z, targets, sample_weight=weights)
        # Versions of scikit-learn disagree about the shape for a single column.
        shape = (80,) if targets.ndim == 1 else (targets.shape[1], 80)
        assert model.coef_.shape == shape
        assert_allclose(model.coef_, expected.coef_.reshape(shape), rtol=1e-6, atol=1e-7)
        assert np.shape(model.intercept_) == shape[:-1]
        assert_allclose(model.intercept_, expected.intercept_, rtol=1e-7, atol=1e-9)
        prediction = model.predict(X[:50])
        assert prediction.shape == targets[:50].shape
        assert_allclose(prediction, expected.predict(Z[:50]).reshape(prediction.shape), rtol=1e-7)
        assert model.score(X, targets) == pytest.approx(expected.score(Z, targets))

    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
    @pytest.mark.parametrize(
        ("labels", "class_weight"),
        [
            (LABELS, None),
            (NAMES, None),
            (NAMES.astype(object), {"low": 3.0, "high": 0.5}),
            (LABELS, "balanced"),
            (LABELS > 0, None),
            (NAMES == "low", {True: 4.0}),
            (NAMES == "low", "balanced"),
            (LABELS * 2.0 - 7, {-7.0: 2.0}),
        ],
    )
    def test_coefficients_agree_with_ridge_classifier(
        self, intercept, weights, labels, class_weight
    ):
        model = classifier(alpha=0.3, fit_intercept=intercept, class_weight=class_weight)
        model.fit(X, labels, sample_weight=weights)
        expected = RidgeClassifier(alpha=0.3, fit_intercept=intercept)
        # scikit-learn balances by row counts and ignores weights, so pass it our class weights.
        if class_weight == "balanced":
            classes, which = np.unique(labels, return_inverse=True)
            amounts = np.bincount(which, weights)
            balanced = dict(zip(classes.tolist(), amounts.mean() / amounts, strict=True))
            if weights is None:
                expected.set_params(class_weight="balanced")
            else:
                expected.set_params(class_weight=balanced)
        else:
            expected.set_params(class_weight=class_weight)
        expected.fit(Z, labels, sample_weight=weights)
        assert model.coef_.shape == (1 if len(model.classes_) == 2 else 3, 80)
        assert_allclose(model.coef_, np.atleast_2d(expected.coef_), rtol=1e-6, atol=1e-8)
        assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-8)
        decisions = model.decision_function(X[:99])
        assert_allclose(decisions, expected.decision_function(Z[:99]), atol=1e-8)
        assert_array_equal(model.predict(X), expected.predict(Z))
        assert_array_equal(model.classes_, expected.classes_)
        assert model.predict(X).dtype == model.classes_.dtype

    def test_balanced_classes_are_balanced_by_weight(self):
        model = classifier(class_weight="balanced").fit(X, LABELS, sample_weight=WEIGHTS)
        amounts = np.bincount(LABELS, WEIGHTS)
        weights = WEIGHTS * (amounts.mean() / amounts)[LABELS]
        expected = classifier().fit(X, LABELS, sample_weight=weights)
        assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-9)

    @pytest.mark.parametrize("gram_dtype", ["float32", "float64"])
    def test_integer_weights_equal_copies(self, gram_dtype):
        counts = np.random.default_rng(1).integers(0, 3, 600)
        copies = np.repeat(np.arange(600), counts)
        parameters = {"n_components": 60, "random_state": 0, "gram_dtype": gram_dtype, "alpha": 1.0}
        model = QuadratureRidge("gaussian", **parameters)
        weighted = model.fit(X[:600], y[:600], sample_weight=counts).predict(X)
        copied = clone(model).fit(X[copies], y[copies]).predict(X)
        scale = 1e-9 if gram_dtype == "float64" else 1e-5
        assert_allclose(weighted, copied, atol=scale * 100)
        model = QuadratureRidgeClassifier("gaussian", class_weight="balanced", **parameters)
        weighted = model.fit(X[:600], LABELS[:600], sample_weight=counts).predict_proba(X)
        copied = clone(model).fit(X[copies], LABELS[copies]).predict_proba(X)
        assert_allclose(weighted, copied, atol=scale * 100)

    def test_targets_of_weight_0_are_ignored(self):
        weights = np.append(np.ones(1500), 0.0)
        strange = np.append(y, -1e16)
        rows = np.vstack([X, X[:1]])
        for solver in ("normal", "cg"):
            model = ridge(solver=solver, tol=1e-10)
            given = model.fit(rows, strange, sample_weight=weights).predict(X)
            assert_allclose(given, model.fit(X, y).predict(X), rtol=1e-7)

    @pytest.mark.parametrize("unit", [1e-100, 1e-40, 1e40, 1e100])
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_predictions_scale_with_the_targets(self, unit, solver):
        model = ridge(solver=solver, gram_dtype="float32", tol=1e-8)
        expected = model.fit(X, Y).predict(X)
        assert_allclose(model.fit(X, Y * unit).predict(X) / unit, expected, rtol=1e-3, atol=1e-3)

    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_targets_far_from_zero(self, solver):
        model = ridge(solver=solver, gram_dtype="float32", tol=1e-6)
        rows = X.astype(np.float32)
        expected = model.fit(rows, y - 30).predict(X)
        model.fit(rows, y + 1e7)
        assert_allclose(model.predict(X) - 1e7 - 30, expected, atol=1e-3)


class TestAlpha:
    def test_the_best_alpha_agrees_with_scikit_learn(self):
        alphas = np.geomspace(1e-3, 1e3, 13)
        expected = RidgeCV(alphas).fit(Z, Y)
        model = ridge(alpha="loo", alphas=alphas).fit(X, Y)
        assert model.alpha_ == expected.alpha_
        assert model.path_.loo.min() == pytest.approx(-expected.best_score_, rel=1e-7)
        assert_allclose(model.coef_, expected.coef_, rtol=1e-5, atol=1e-6)

    def test_leave_one_out_of_a_classifier(self):
        alphas = np.geomspace(1e-3, 1e3, 7)
        model = classifier(alpha="loo", alphas=alphas).fit(X, LABELS)
        codes = np.where(np.equal.outer(LABELS, range(3)), 1.0, -1.0)
        expected = RidgeCV(alphas).fit(Z, codes)
        assert model.alpha_ == expected.alpha_
        assert model.path_.loo.min() == pytest.approx(-expected.best_score_, rel=1e-7)

    def test_an_array_has_a_path_and_a_number_has_none(self):
        assert ridge(alpha=[3.0, 0.1]).fit(X, y).path_.alphas.tolist() == [0.1, 3.0]
        assert ridge(alpha=3.0).fit(X, y).path_ is None
        assert ridge(alpha=3.0).fit(X, y).alpha_ == 3.0

    @pytest.mark.parametrize("alpha", ["gcv", "evidence", "loo"])
    def test_every_criterion_is_near_the_best_alpha_for_new_rows(self, alpha):
        rng = np.random.default_rng(1)
        test = rng.standard_normal((1000, 4))
        truth = np.sin(2 * test[:, 0]) + test[:, 1] + 30.0
        noisy = y + rng.standard_normal(1500)
        model = ridge(alpha=alpha).fit(X, noisy)
        found = np.square(model.predict(test) - truth).mean()
        best = min(
            np.square(ridge(alpha=a).fit(X, noisy).predict(test) - truth).mean()
            for a in np.geomspace(1e-3, 1e3, 19)
        )
        assert found < 1.3 * best

    @pytest.mark.parametrize("weights", [WEIGHTS, WEIGHTS / WEIGHTS.sum() * 3000])
    def test_leave_one_out_ignores_rows_of_weight_0(self, weights):
        present = weights > 0
        model = ridge(alpha="loo")
        alpha = model.fit(X[:100], y[:100], sample_weight=weights[:100]).alpha_
        present = np.flatnonzero(weights[:100])
        model.fit(X[present], y[present], sample_weight=weights[present])
        assert model.alpha_ == pytest.approx(alpha)


class TestBatches:
    n_rows = 12_000
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n_rows, 4))
    y = np.sin(2 * X[:, 0]) + 5 * X[:, 1] + 0.1 * rng.standard_normal(n_rows) + 200.0
    labels = np.digitize(X[:, 0] + X[:, 1] ** 2, [0, 1])
    weights = rng.uniform(0, 2, n_rows)

    def tolerance(self, gram_dtype, alpha):
        if gram_dtype == "float64":
            return 1e-6
        Z = FEATURES.transform(self.X)
        return 1e-6 * np.sqrt(np.linalg.cond(Z.T @ Z + alpha * np.eye(80)))

    @pytest.mark.parametrize("gram_dtype", ["float32", "float64"])
    @pytest.mark.parametrize("alpha", [1.0, 0.01])
    def test_uneven_batches_in_any_order_agree_with_one_fit(self, gram_dtype, alpha):
        model = ridge(gram_dtype=gram_dtype, alpha=alpha)
        for part in uneven(self.n_rows, 100):
            model.partial_fit(self.X[part], self.y[part], self.weights[part])
        whole = ridge(gram_dtype=gram_dtype, alpha=alpha).fit(self.X, self.y, self.weights)
        error = np.linalg.norm(model.predict(self.X) - whole.predict(self.X))
        scale = np.linalg.norm(whole.predict(self.X))
        assert error <= self.tolerance(gram_dtype, alpha) * scale
        assert model._solution.summary.moments.n_rows == self.n_rows

    @pytest.mark.parametrize("gram_dtype", ["float32", "float64"])
    def test_a_classifier_in_batches(self, gram_dtype):
        model = classifier(gram_dtype=gram_dtype, class_weight={0: 2.0})
        for part in uneven(self.n_rows, 100):
            model.partial_fit(self.X[part], self.labels[part])
        whole = clone(model).set_params(features=FEATURES).fit(self.X, self.labels)
        error = model.decision_function(self.X) - whole.decision_function(self.X)
        scale = np.linalg.norm(whole.decision_function(self.X))
        assert np.linalg.norm(error) <= self.tolerance(gram_dtype, 1.0) * scale
        assert model.temperature_ == pytest.approx(whole.temperature_, rel=1e-3)
        assert_array_equal(model.classes_, [0, 1, 2])

    @pytest.mark.filterwarnings("ignore:alpha=.* is close to the rounding error")
    @pytest.mark.parametrize("gram_dtype", ["float32", "float64"])
    def test_merged_models_agree_with_one_fit(self, gram_dtype):
        model = ridge(gram_dtype=gram_dtype, alpha="evidence")
        whole = clone(model).set_params(features=FEATURES).fit(self.X, self.y, self.weights)
        parts = [
            ridge(gram_dtype=gram_dtype, alpha="evidence").fit(
                self.X[part], self.y[part], self.weights[part]
            )
            for part in uneven(self.n_rows, 7)
        ]
        before = parts[1].predict(self.X[:5])
        for other in parts[1:]:
            parts[0].merge(other)
        error = np.linalg.norm(parts[0].predict(self.X) - whole.predict(self.X))
        scale = np.linalg.norm(whole.predict(self.X))
        assert error <= self.tolerance(gram_dtype, whole.alpha_) * scale
        assert parts[0].alpha_ == pytest.approx(whole.alpha_, rel=1e-2)
        assert_array_equal(parts[1].predict(self.X[:5]), before)

    def test_merging_classifiers_with_different_classes(self):
        parts = [self.labels < 2, self.labels > 0]
        first, second = (
            classifier().fit(self.X[part], NAMES_OF[self.labels[part]]) for part in parts
        )
        first.merge(second)
        both = np.concatenate([np.flatnonzero(part) for part in parts])
        whole = classifier().fit(self.X[both], NAMES_OF[self.labels[both]])
        assert_array_equal(first.classes_, whole.classes_)
        assert_allclose(first.decision_function(self.X), whole.decision_function(self.X), atol=1e-7)
        assert first.temperature_ == pytest.approx(whole.temperature_, rel=1e-4)

    def test_new_classes_may_appear_later(self):
        order = np.argsort(self.labels, kind="stable")
        model = classifier()
        for part in np.array_split(order, 9):
            model.partial_fit(self.X[part], self.labels[part])
        whole = classifier().fit(self.X, self.labels)
        assert_allclose(model.decision_function(self.X), whole.decision_function(self.X), atol=1e-7)
        # This also holds for a stream whose first block has a single class.
        stream = [(self.X[part], self.labels[part]) for part in np.array_split(order, 9)]
        for solver in ("normal", "cg"):
            model = classifier(solver=solver, tol=1e-10).fit(stream)
            assert_allclose(
                model.decision_function(self.X), whole.decision_function(self.X), atol=1e-6
            )

    def test_one_class_raises_until_there_is_another(self):
        model = classifier(alpha=1e-6).partial_fit(self.X[:9], np.zeros(9))
        with pytest.raises(ValueError, match=r"y has only one class, .*0\.0"):
            model.predict(self.X[:2])
        model.partial_fit(self.X[9:20], np.ones(11))
        assert model.predict(self.X[:20]).tolist() == [0.0] * 9 + [1.0] * 11
        with pytest.raises(ValueError, match="only one class"):
            classifier().fit(self.X[:9], np.zeros(9))

    @pytest.mark.parametrize("n_rows", [30, 12_000], ids=["small batch", "large batch"])
    def test_undeclared_classes_are_rejected(self, n_rows, monkeypatch):
        monkeypatch.setattr(summing, "ROWS_PER_BLOCK", (256, 1024))
        rows, labels = self.X[:n_rows], self.labels[:n_rows]
        with pytest.raises(ValueError, match=r"y has the classes \[2\].*classes=\[0, 1"):
            classifier().partial_fit(rows, labels, classes=[0, 1])
        model = classifier().partial_fit(self.X[:9], np.arange(9) % 2, classes=[0, 1])
        before = model.decision_function(self.X[:9])
        with pytest.raises(ValueError, match=r"y has the classes \[2\]"):
            model.partial_fit(rows, labels)
        assert_array_equal(model.decision_function(self.X[:9]), before)
        model = classifier().partial_fit(self.X[:9], np.zeros(9), classes=[0, 2])
        assert_array_equal(model.classes_, [0, 2])

    def test_labels_of_two_kinds(self):
        model = classifier().partial_fit(X, LABELS)
        with pytest.raises(ValueError, match=r"y has labels such as '[a-z]+', but earlier batches"):
            model.partial_fit(X, NAMES)
        with pytest.raises(ValueError, match="numbers or strings, not both"):
            model.merge(classifier().fit(X, NAMES))

    def test_a_failed_batch_does_not_change_the_model(self, monkeypatch):
        monkeypatch.setattr(summing, "ROWS_PER_BLOCK", (256, 1024))
        model = ridge().partial_fit(X, y)
        before = model.predict(X[:5])
        poisoned = self.X.copy()
        poisoned[-1, 0] = np.nan
        for n_rows in (9, 12_000):
            with pytest.raises(ValueError, match="NaN"):
                model.partial_fit(poisoned[-n_rows:], self.y[-n_rows:])
        assert_array_equal(model.predict(X[:5]), before)
        assert_array_equal(
            model.partial_fit(X, y).coef_,
            ridge().partial_fit(X, y).merge(ridge().partial_fit(X, y)).coef_,
        )

    def test_rows_can_be_added_to_a_fit(self):
        model = ridge().fit(X[:700], Y[:700])
        model.partial_fit(X[700:], Y[700:])
        assert_allclose(model.coef_, ridge().fit(X, Y).coef_, rtol=1e-6, atol=1e-8)

    def test_batches_without_weight_add_nothing(self):
        model = ridge().partial_fit(X, y)
        expected = model.predict(X)
        model.partial_fit(X[:9], y[:9] + 1e6, np.zeros(9))
        assert_allclose(model.predict(X), expected, rtol=1e-10)
        stream = [(X, y, np.ones(1500)), (X[:9], y[:9] + 1e6, np.zeros(9))]
        assert_allclose(ridge().fit(stream).predict(X), expected, rtol=1e-10)

    @given(st.lists(st.integers(1, 400), max_size=8), st.integers(0, 1000), st.booleans())
    @settings(max_examples=15, deadline=None)
    def test_any_split_gives_the_same_model(self, cuts, seed, intercept):
        order = np.random.default_rng(seed).permutation(400)
        model = ridge(fit_intercept=intercept)
        for part in np.split(order, np.unique(cuts)):
            if len(part):
                model.partial_fit(X[part], Y[part], WEIGHTS[part] + 0.1)
        whole = ridge(fit_intercept=intercept).fit(X[:400], Y[:400], WEIGHTS[:400] + 0.1)
        assert_allclose(model.predict(X), whole.predict(X), rtol=1e-6)

    def test_merging_needs_no_given_map_if_it_does_not_depend_on_the_data(self):
        def model():
            return QuadratureRidge(
                Gaussian(0.2),
                alpha=1.0,
                rule="rff",
                n_components=50,
                random_state=0,
                gram_dtype="float64",
            )

        batched = model()
        for part in np.array_split(np.arange(1500), 7):
            batched.partial_fit(X[part], y[part])
        assert_allclose(batched.predict(X), model().fit(X, y).predict(X), rtol=1e-6)

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            (
                {"features": None, "kernel": "gaussian", "n_components": 80},
                ValueError,
                "two models have different maps",
            ),
            ({"solver": "cg"}, ValueError, "the other model was fitted with solver='cg'"),
        ],
    )
    def test_incompatible_models_do_not_merge(self, change, error, message):
        with pytest.raises(error, match=message):
            ridge().fit(X, y).merge(ridge(**change).fit(X, y))

    def test_other_cases_that_do_not_merge(self):
        model = ridge().fit(X, y)
        with pytest.raises(TypeError, match="pass a fitted QuadratureRidge"):
            model.merge(classifier().fit(X, LABELS))
        with pytest.raises(TypeError, match="other=None is not valid"):
            model.merge(None)
        with pytest.raises(NotFittedError):
            model.merge(ridge())
        with pytest.raises(NotFittedError):
            ridge().merge(model)
        with pytest.raises(ValueError, match="1 targets cannot be merged with one that has 80"):
            model.merge(ridge().fit(X, Y))
        missing(ridge(alpha="loo").fit(X, y), "merge", "alpha='loo' .* Use alpha='auto'")
        missing(ridge(solver="cg").fit(X, y), "merge", "solver='cg' .* Use solver='normal'")
        with pytest.raises(ValueError, match=r"this model was fitted with solver='cg'"):
            ridge(solver="cg").fit(X, y).set_params(solver="auto").merge(model)
        balanced = classifier(class_weight="balanced").fit(X, LABELS)
        missing(balanced, "merge", "class_weight='balanced' needs")
        with pytest.raises(ValueError, match="class_weight='balanced' needs"):
            classifier().fit(X, LABELS).merge(balanced)

    def test_unsupported_batches(self):
        missing(ridge(alpha="loo"), "partial_fit", "alpha='loo' .* Use alpha='auto'")
        missing(ridge(solver="cg"), "partial_fit", "solver='cg' .* Use solver='normal'")
        missing(classifier(class_weight="balanced"), "partial_fit", "class_weight='balanced' needs")
        with pytest.raises(ValueError, match="was fitted with solver='cg'"):
            ridge(solver="cg").fit(X, y).set_params(solver="normal").partial_fit(X, y)
        with pytest.raises(ValueError, match=r"y has shape \(1500, 3\), unlike earlier"):
            ridge().fit(X, y).partial_fit(X, Y)
        with pytest.raises(ValueError, match="y has 2 columns, but earlier batches had 3"):
            ridge().fit(X, Y).partial_fit(X, Y[:, :2])
        with pytest.raises(ValueError, match="X has 3 features"):
            ridge().fit(X, Y).partial_fit(X[:, :3], Y)


NAMES_OF = np.array(["a", "bb", "ccc"])


class OneShot:
    """Blocks that can be read only once."""

    def __init__(self, items):
        self.items = iter(items)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.items)


class TestInputs:
    def test_sparse(self):
        thin = np.where(np.abs(X) > 1, X, 0.0)
        dense = ridge().fit(thin, Y)
        for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
            for solver in ("normal", "cg"):
                model = ridge(solver=solver, tol=1e-10).fit(form(thin), Y)
                assert_allclose(model.predict(form(thin)), dense.predict(thin), atol=1e-6)
        labels = classifier().fit(sparse.csr_array(thin), LABELS)
        assert_allclose(
            labels.predict_proba(sparse.csr_array(thin)),
            classifier().fit(thin, LABELS).predict_proba(thin),
            atol=1e-9,
        )
        _, deviation = dense.predict(sparse.csr_array(thin), return_std=True)
        assert_allclose(deviation, dense.predict(thin, return_std=True)[1], rtol=1e-8)
        learning = QuadratureRidge(
            "gaussian", alpha=1.0, n_components=40, lengthscales="isotropic", random_state=0
        )
        assert_allclose(
            clone(learning).fit(sparse.csr_array(thin[:300]), y[:300]).predict(thin),
            learning.fit(thin[:300], y[:300]).predict(thin),
            rtol=1e-3,
        )

    @pytest.mark.parametrize("gram_dtype", ["float32", "float64"])
    def test_float32(self, gram_dtype):
        single = ridge(gram_dtype=gram_dtype).fit(X.astype(np.float32), Y)
        double = ridge().fit(X, Y)
        prediction, deviation = single.predict(X.astype(np.float32), return_std=True)
        # Targets have more digits than float32 rows.
        assert prediction.dtype == deviation.dtype == np.float64
        assert_allclose(prediction, double.predict(X), atol=1e-5 * np.abs(Y).max())
        assert_allclose(deviation, double.predict(X, return_std=True)[1], rtol=1e-3)
        assert single.coef_.dtype == np.float64
        probabilities = classifier(gram_dtype=gram_dtype).fit(X.astype(np.float32), LABELS)
        given = probabilities.predict_proba(X.astype(np.float32))
        assert given.dtype == np.float64
        assert_allclose(given, classifier().fit(X, LABELS).predict_proba(X), atol=1e-4)

    def test_names_of_columns(self):
        frame = pd.DataFrame(X, columns=list("abcd"))
        model = ridge().fit(frame, pd.Series(y))
        assert model.feature_names_in_.tolist() == list("abcd")
        assert_array_equal(model.predict(frame), ridge().fit(X, y).predict(X))
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[list("bacd")])
        with pytest.raises(ValueError, match="feature names should match"):
            model.partial_fit(frame[list("bacd")], y)
        stream = blocks(frame, y)
        assert ridge().fit(stream).feature_names_in_.tolist() == list("abcd")
        with pytest.raises(ValueError, match="feature names should match"):
            ridge().fit([*stream, (frame[list("bacd")], y)])

    def test_memory_maps(self, tmp_path):
        np.save(tmp_path / "rows.npy", X)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
        assert_array_equal(ridge().fit(rows, y).predict(rows), ridge().fit(X, y).predict(X))

    def test_streams_of_blocks(self):
        expected = ridge().fit(X, Y, sample_weight=WEIGHTS).predict(X)
        stream = blocks(X, Y, WEIGHTS)
        for form in (stream, tuple(stream), OneShot(stream), (item for item in stream)):
            assert_allclose(ridge().fit(form).predict(X), expected, rtol=1e-7)
        stream = [(X[:0], Y[:0], WEIGHTS[:0]), *stream]  # a file may be empty
        assert_allclose(ridge().fit(iter(stream)).predict(X), expected, rtol=1e-7)

    def test_second_passes_need_rows_that_can_be_read_again(self):
        model = ridge(alpha="loo")
        stream = blocks(X, y)
        alpha = model.fit(X, y).alpha_
        assert model.fit(stream).alpha_ == pytest.approx(alpha)
        with pytest.raises(ValueError, match=r"alpha='loo' .* only once. Use alpha='auto'"):
            model.fit(OneShot(stream))
        with pytest.raises(ValueError, match=r"solver='cg' .* only once. Use solver='normal'"):
            ridge(solver="cg").fit(OneShot(stream))
        with pytest.raises(ValueError, match="class_weight='balanced' needs"):
            classifier(class_weight="balanced").fit(blocks(X, LABELS))

    @pytest.mark.parametrize(
        ("stream", "error", "message"),
        [
            ([], ValueError, "X yields no rows"),
            ([(X[:0], y[:0])], ValueError, "X yields no rows"),
            ([X], TypeError, r"X yields ndarray of shape \(1500, 4\): an iterable"),
            ([(X,)], TypeError, "X yields"),
            ([(X, y), (X[:, :3], y)], ValueError, "X has 3 features"),
            ([(X, y), (X, Y)], ValueError, r"y has shape \(1500, 3\), unlike earlier"),
            ([(X, Y), (X, Y[:, :2])], ValueError, "y has 2 columns, but earlier batches had 3"),
            ([(X, y), (X, y[:9])], ValueError, "inconsistent numbers of samples"),
            ([(X, y), (np.full_like(X, np.nan), y)], ValueError, "NaN"),
            ([(X, y), (X, np.full_like(y, np.inf))], ValueError, "infinity"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_bad_streams(self, stream, error, message, solver):
        class Again:
            def __iter__(self):
                return iter(stream)

        model = ridge(solver=solver).fit(X, y)
        before = model.predict(X[:3])
        with pytest.raises(error, match=message):
            model.fit(Again())
        assert_array_equal(model.predict(X[:3]), before)
        with pytest.raises(ValueError, match="sample_weight cannot be passed with an iterable"):
            model.fit(Again(), sample_weight=WEIGHTS)

    def test_parquet(self, tmp_path):
        frame = pd.DataFrame(X.astype(np.float32), columns=list("abcd"))
        frame["label"], frame["weight"] = NAMES, WEIGHTS
        frame["u"], frame["v"] = Y[:, 0], Y[:, 1]
        for part, rows in enumerate(np.array_split(np.arange(1500), 3)):
            pq.write_table(pa.Table.from_pandas(frame.iloc[rows]), tmp_path / f"{part}.parquet")
        stream = ParquetBlocks(
            tmp_path,
            ["u", "v"],
            columns=list("abcd"),
            sample_weight="weight",
            rows_per_block=130,
        )
        rows = frame[list("abcd")]
        assert max(len(block[0]) for block in stream) == 130
        expected = ridge(alpha="loo").fit(rows, Y[:, :2], WEIGHTS)
        model = ridge(alpha="loo").fit(stream)
        assert_allclose(model.predict(rows), expected.predict(rows), rtol=1e-4, atol=1e-5)
        assert model.alpha_ == pytest.approx(expected.alpha_, rel=1e-6)
        assert model.feature_names_in_.tolist() == list("abcd")
        stream = ParquetBlocks(tmp_path / "0.parquet", "label", columns=list("abcd"))
        model = classifier().fit(stream)
        assert_array_equal(
            model.predict(rows), classifier().fit(rows[:500], NAMES[:500]).predict(rows)
        )
        with pytest.raises(
            ValueError, match=r"target='lable' is not a col.*Did you mean 'label'\?"
        ):
            classifier().fit(ParquetBlocks(tmp_path, "lable"))
        by_default = next(iter(ParquetBlocks(tmp_path, "label", sample_weight="weight")))
        assert by_default[0].columns.tolist() == [*"abcd", "u", "v"]

    def test_parquet_files_ignore_the_index_of_a_data_frame(self, tmp_path):
        frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "label": [0.0, 1.0, 2.0]}, index=[5, 3, 9])
        frame.to_parquet(tmp_path / "rows.parquet")
        (block,) = ParquetBlocks(tmp_path, "label")
        assert list(block[0].columns) == ["a"]

    # Older versions of scikit-learn store the names of these columns, and arrays have none.
    @pytest.mark.filterwarnings("ignore:X does not have valid feature names")
    def test_arrow_batches(self):
        batch = pa.RecordBatch.from_pydict({"a": X[:, 0], "b": X[:, 1]})
        features = QuadratureFeatures(n_components=30, random_state=0).fit(X[:, :2])
        model = ridge(features=features).fit([(batch, pa.array(y))])
        expected = ridge(features=features).fit(X[:, :2], y)
        assert_array_equal(model.predict(X[:, :2]), expected.predict(X[:, :2]))

    def test_progress_goes_to_standard_error(self, capfd):
        ridge(verbose=True).fit(X, y)
        out, err = capfd.readouterr()
        assert out == ""
        assert "100%, 1,500 of 1,500 rows" in err
        ridge(verbose=True, alpha="loo").fit(X, y)
        first, selecting, second = capfd.readouterr().err.splitlines()
        assert "fit: [" in first
        assert selecting == "fit: selecting alpha"
        assert "fit, leave-one-out errors: [########################] 100%, 1,500 of" in second
        ridge(verbose=True).fit(iter(blocks(X, y)))
        assert "1,500 rows" in capfd.readouterr().err
        model = ridge(verbose=True, solver="cg").fit(X, y)
        assert f"fit: step {model.n_iter_} of at most 500, relative error" in capfd.readouterr().err
        ridge().fit(X, y)
        assert capfd.readouterr() == ("", "")

    def test_memory_is_much_smaller_than_the_features(self, monkeypatch):
        monkeypatch.setattr(summing, "BYTES_PER_BLOCK", 2**19)
        features = QuadratureFeatures(Gaussian(0.2), rule="rff", n_components=200, random_state=0)
        rows = np.random.default_rng(0).standard_normal((30_000, 4)).astype(np.float32)
        targets = rows[:, 0] > 0
        features.fit(rows)
        for model in (
            ridge(features=features, gram_dtype="float32", alpha="loo"),
            ridge(features=features, solver="cg"),
            classifier(features=features, gram_dtype="float32"),
        ):
            tracemalloc.start()
            try:
                model.fit(rows, targets.astype(int)).predict(rows)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < 30_000 * 200 * 4 / 2  # half of the features in float32


class TestBehaviour:
    def test_pickles_and_copies_before_and_after_they_are_solved(self):
        for method in (lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy):
            for model, targets in ((ridge(alpha="gcv"), Y), (classifier(), NAMES)):
                model.partial_fit(X[:700], targets[:700])
                early = method(model)
                expected = model.predict(X)
                late = method(model)
                for restored in (early, late):
                    assert_array_equal(restored.predict(X), expected)
                    assert restored.alpha_ == model.alpha_
                model.partial_fit(X[700:], targets[700:])
                for restored in (early, late):
                    assert_array_equal(restored.predict(X), expected)  # the copy shares no data
                    restored.partial_fit(X[700:], targets[700:])
                    assert_array_equal(restored.predict(X), model.predict(X))
        restored = pickle.loads(pickle.dumps(model))
        assert_array_equal(restored.predict_proba(X), model.predict_proba(X))

    def test_pickles_of_conjugate_gradients(self):
        model = ridge(solver="cg").fit(X, Y)
        restored = pickle.loads(pickle.dumps(model))
        assert_array_equal(restored.predict(X), model.predict(X))
        assert restored.n_iter_ == model.n_iter_

    def test_clones_have_only_parameters(self):
        model = ridge(alpha=0.3, solver="normal").fit(X, y)
        other = clone(model)
        assert other.alpha == 0.3
        with pytest.raises(NotFittedError):
            other.predict(X)
        # The clone of a map is unfitted, unless the map is frozen.
        assert not other.features.__sklearn_is_fitted__()
        frozen = ridge(features=FrozenEstimator(FEATURES))
        fitted = clone(frozen).fit(X[:50], y[:50])
        assert fitted.features_.fingerprint() == FEATURES.fingerprint()

    def test_an_unfitted_map_is_fitted_first(self):
        features = QuadratureFeatures("matern52", n_components=33, random_state=0)
        model = ridge(features=features).fit(X, y)
        assert not features.__sklearn_is_fitted__()
        assert model.features_.fingerprint() == features.fit(X).fingerprint()
        assert model.coef_.shape == (33,)

    def test_fit_discards_the_previous_fit(self):
        model = ridge(alpha="gcv").fit(pd.DataFrame(X, columns=list("abcd")), Y)
        model.set_params(alpha=1.0).fit(X, y)
        assert model.path_ is None
        assert model.predict(X).shape == (1500,)
        assert not hasattr(model, "feature_names_in_")
        labels = classifier().partial_fit(X, LABELS, classes=[0, 1, 2, 3]).fit(X, LABELS)
        assert_array_equal(labels.classes_, [0, 1, 2])
        labels.partial_fit(X[:9], np.full(9, 5))
        assert_array_equal(labels.classes_, [0, 1, 2, 5])

    def test_changed_parameters_take_effect_at_the_next_fit(self):
        model = ridge(alpha=1.0).fit(X, y)
        model.set_params(alpha=100.0)
        assert model.alpha_ == 1.0

    def test_grid_search(self):
        model = QuadratureRidge(Gaussian(), alpha=1.0, rule="orf", n_components=60, random_state=0)
        grid = {"alpha": [1e-2, 1e4], "kernel__gamma": [1e-6, 0.2]}
        search = GridSearchCV(model, grid, cv=3).fit(X, y)
        assert search.best_params_ == {"alpha": 1e-2, "kernel__gamma": 0.2}
        labels = QuadratureRidgeClassifier(
            Gaussian(0.2), alpha=1.0, n_components=60, random_state=0
        )
        labels.set_params(rule="orf")
        grid = {"alpha": [1.0, "gcv"], "class_weight": [None, "balanced"]}
        search = GridSearchCV(labels, grid, cv=3, scoring="neg_log_loss").fit(X, NAMES)
        assert search.best_score_ > -1.0

    def test_threads_do_not_matter(self):
        expected = ridge().fit(X, Y).predict(X)
        assert_allclose(ridge(n_jobs=2).fit(X, Y).predict(X), expected, rtol=1e-10)

    def test_input_is_never_changed(self):
        rows, targets, weights = X.copy(), Y.copy(), WEIGHTS.copy()
        for model in (ridge(alpha="loo"), ridge(solver="cg"), ridge(lengthscales=None)):
            model.fit(rows, targets, weights).predict(rows)
        ridge().partial_fit(rows, targets, weights)
        assert_array_equal(rows, X)
        assert_array_equal(targets, Y)
        assert_array_equal(weights, WEIGHTS)

    def test_lengthscales(self):
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((600, 6))
        targets = np.sin(3 * rows[:, 0]) + 0.05 * rng.standard_normal(600)
        parameters = {"n_components": 100, "random_state": 0, "alpha": "evidence"}
        scores = {
            lengthscales: QuadratureRidge("gaussian", lengthscales=lengthscales, **parameters)
            .fit(rows[:400], targets[:400])
            .score(rows[400:], targets[400:])
            for lengthscales in (None, "ard")
        }
        assert scores["ard"] > 0.98 > scores[None] + 0.2
        # The content of rows matters, not their order.
        model = QuadratureRidge("gaussian", lengthscales="ard", **parameters)
        gamma = model.fit(rows[:200], targets[:200]).features_.kernel_.gamma
        order = rng.permutation(200)
        again = clone(model).fit(rows[order], targets[order]).features_.kernel_.gamma
        assert_allclose(again, gamma, rtol=1e-3)
        with pytest.raises(ValueError, match="has no scale that can be learned"):
            QuadratureRidge("arccos1", alpha=1.0, lengthscales="ard").fit(rows, targets)


class TestConjugateGradients:
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
    def test_predictions_agree_with_the_normal_equations(self, intercept, weights):
        exact = ridge(alpha=0.1, fit_intercept=intercept).fit(X, Y, sample_weight=weights)
        for tol in (1e-3, 1e-6, 1e-10):
            model = ridge(alpha=0.1, fit_intercept=intercept, solver="cg", tol=tol)
            model.fit(X, Y, sample_weight=weights)
            counts = np.ones(1500) if weights is None else weights
            wrong = np.sqrt(counts @ np.square(model.predict(X) - exact.predict(X)))
            means = np.average(Y, axis=0, weights=weights) * intercept
            scale = np.sqrt(counts @ np.square(Y - means))
            assert (wrong <= (tol + 1e-12) * scale).all()
            assert model.solver_error_ <= tol
        assert model.n_iter_ > 1
        assert_allclose(model.coef_, exact.coef_, atol=1e-4 * np.abs(exact.coef_).max())

    @pytest.mark.parametrize("labels", [LABELS, NAMES, LABELS > 0], ids=["3", "names", "2"])
    def test_classifiers(self, labels):
        for class_weight in (None, "balanced", {labels[0].item(): 5.0}):
            exact = classifier(class_weight=class_weight).fit(X, labels, WEIGHTS)
            model = classifier(class_weight=class_weight, solver="cg", tol=1e-9)
            model.fit(X, labels, WEIGHTS)
            assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-6)
            assert_array_equal(model.predict(X), exact.predict(X))

    def test_blocks_agree_with_a_table(self):
        table = ridge(solver="cg", tol=1e-10).fit(X, Y, WEIGHTS)
        stream = ridge(solver="cg", tol=1e-10).fit(blocks(X, Y, WEIGHTS))
        assert_allclose(stream.predict(X), table.predict(X), atol=1e-6)

    def test_too_few_steps_warn(self):
        with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 steps.*tol=1e-08"):
            model = ridge(solver="cg", alpha=1e-3, max_iter=2, tol=1e-8).fit(X, y)
        assert model.n_iter_ == 2
        exact = ridge(alpha=1e-3).fit(X, y)
        wrong = np.linalg.norm(model.predict(X) - exact.predict(X))
        assert 1e-8 < wrong / np.linalg.norm(y - y.mean()) <= model.solver_error_

    def test_auto_uses_it_for_many_features(self, monkeypatch):
        monkeypatch.setattr("quadfeat.models.parameters.NORMAL_UP_TO", 50)
        assert ridge().fit(X, y).solver_error_ > 0
        assert ridge(alpha="gcv").fit(X, y).solver_error_ == 0
        assert ridge().fit(OneShot(blocks(X, y))).solver_error_ == 0
        monkeypatch.setattr("quadfeat.models.parameters.NORMAL_UP_TO", 80)
        assert ridge().fit(X, y).solver_error_ == 0

    def test_unsupported_methods_and_options(self):
        model = ridge(solver="cg").fit(X, y)
        assert model.alpha_ == 1.0
        for name in ("path_", "log_marginal_likelihood_", "signal_variance_", "noise_variance_"):
            assert not hasattr(model, name)
        for attempt in (
            lambda: model.predict(X, return_std=True),
            lambda: model.sample_y(X),
        ):
            with pytest.raises(AttributeError, match=r"which solver='cg' does not compute. Use"):
                attempt()
        for model in (classifier(solver="cg"), classifier(solver="cg").fit(X, LABELS)):
            missing(model, "predict_proba", "which solver='cg' does not compute. Use")
        with pytest.raises(ValueError, match="solver='cg' does not support alpha='gcv'"):
            ridge(solver="cg", alpha="gcv").fit(X, y)

    @pytest.mark.parametrize("value", [0.0, 7.0])
    def test_constant_targets_and_single_rows(self, value):
        for rows in (X, X[:1]):
            model = ridge(solver="cg").fit(rows, np.full(len(rows), value))
            assert_allclose(model.predict(X), value, atol=1e-12)


def at_temperature(decisions, temperature):
    """Return probabilities without biases."""
    n_classes = max(2, decisions.shape[1])
    return calibration.Calibration(temperature, np.zeros(n_classes)).probabilities(decisions)


class TestProbabilities:
    X, labels = make_classification(
        6000, 8, n_informative=4, n_classes=3, flip_y=0.1, random_state=0
    )

    def model(self, **parameters):
        return QuadratureRidgeClassifier(
            "gaussian", **{"n_components": 150, "random_state": 0, "alpha": 0.1} | parameters
        )

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_probabilities_are_calibrated_on_the_training_rows(self, n_classes):
        labels = np.minimum(self.labels, n_classes - 1)
        train, test = slice(0, 3000), slice(3000, None)
        model = self.model().fit(self.X[train], labels[train])
        given = model.predict_proba(self.X[test])
        assert given.shape == (3000, n_classes)
        assert_allclose(given.sum(axis=1), 1.0, rtol=1e-12)
        assert (given >= 0).all()
        assert_array_equal(model.classes_[given.argmax(axis=1)], model.predict(self.X[test]))
        decisions = model.decision_function(self.X[test]).reshape(3000, -1)
        losses = {
            T: log_loss(labels[test], at_temperature(decisions, T))
            for T in np.geomspace(0.01, 10, 301)
        }
        found = log_loss(labels[test], given)
        plain = log_loss(labels[test], at_temperature(decisions, 1.0))
        assert found < plain - 0.01
        assert found < min(losses.values()) + 0.01

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_leave_one_out_decisions_agree_with_refitting(self, n_classes):
        labels = np.minimum(LABELS[:60], n_classes - 1)
        model = classifier(class_weight={0: 3.0, 1: 0.4}).fit(X[:60], labels)
        found = model._solution.posterior
        targets = model._targets().final(labels, model._solution.summary)
        amounts = np.where(labels == 0, 3.0, np.where(labels == 1, 0.4, 1.0))
        left_out = targets - LeftOut.of(found, Z[:60], targets, amounts).errors
        for row in range(60):
            others = np.delete(np.arange(60), row)
            refitted = clone(model).set_params(features=FEATURES).fit(X[others], labels[others])
            expected = refitted.decision_function(X[row : row + 1]).ravel()
            assert_allclose(left_out[row], expected, atol=1e-7)

    def test_two_classes_are_the_logistic_function_of_twice_the_decision(self):
        model = self.model().fit(self.X, self.labels > 0)
        decision = model.decision_function(self.X) / model.temperature_
        expected = 1 / (1 + np.exp(-2 * decision))
        assert_allclose(model.predict_proba(self.X)[:, 1], expected, rtol=1e-10)

    def test_the_temperature_minimizes_the_loss(self):
        rng = np.random.default_rng(0)
        decisions = rng.standard_normal((500, 4))
        weights = rng.uniform(0, 2, 500)
        truth = np.array([rng.choice(4, p=p) for p in at_temperature(decisions, 0.5)])
        found = calibration.best_temperature(decisions, truth, weights)
        # Platt's targets: a row belongs to another class with probability 1 / (n_rows + 2).
        doubt = 1.0 / (weights.sum() + 2.0)
        targets = np.full((500, 4), doubt / 3.0)
        targets[np.arange(500), truth] = 1.0 - doubt

        def cost(T):
            return -weights @ (targets * np.log(at_temperature(decisions, T))).sum(axis=1)

        assert cost(found) <= min(cost(T) for T in np.geomspace(0.1, 10, 400)) + 1e-6
        assert found == pytest.approx(0.5, rel=0.2)

    @pytest.mark.parametrize("n_classes", [2, 3])
    @pytest.mark.parametrize("n_rows", [30, 3000])
    @pytest.mark.parametrize("size", [1e-2, 1.0, 30.0])
    def test_decisions_without_errors(self, n_rows, n_classes, size):
        """Platt's smoothed targets act like one more, uncertain row."""
        labels = np.arange(n_rows) % n_classes
        decisions = size * np.where(np.eye(n_classes)[labels] > 0, 1.0, -1.0)
        decisions = decisions[:, 1:] if n_classes == 2 else decisions
        weights = np.ones(n_rows)
        temperature = calibration.best_temperature(decisions, labels, weights)
        # All decisions are equally far apart, so the probabilities equal the targets.
        odds = (n_rows + 1.0) * (n_classes - 1)
        assert temperature == pytest.approx(2.0 * size / np.log(odds), rel=1e-3)
        amounts = np.bincount(labels).astype(float)
        found = calibration.best_calibration(decisions, labels, weights, amounts)
        p = found.probabilities(decisions)
        assert_allclose(p[np.arange(n_rows), labels], 1.0 - 1.0 / (n_rows + 2.0), rtol=1e-4)
        assert (p > 1e-2 / n_rows).all()

    def test_classes_that_are_far_apart(self):
        rng = np.random.default_rng(0)
        labels = np.arange(60) % 2
        rows = rng.standard_normal((60, 2)) + 20.0 * labels[:, None]
        model = self.model(alpha="auto").fit(rows, labels)
        p = model.predict_proba(rows)
        assert model.score(rows, labels) == 1.0
        assert np.isfinite(model.temperature_)
        assert p.max() < 0.9999
        assert p.max(axis=1).min() > 0.9

    def test_the_order_of_rows_does_not_matter(self, monkeypatch):
        monkeypatch.setattr("quadfeat.solvers.summaries.KEPT_ROWS", (200, 200))
        order = np.random.default_rng(0).permutation(6000)
        model = self.model(features=None).fit(self.X, self.labels)
        again = clone(model).fit(self.X[order], self.labels[order])
        assert len(again._solution.summary.rows.keys) == 200
        assert again.temperature_ == pytest.approx(model.temperature_, rel=1e-3)
        stream = blocks(self.X, self.labels, size=900)
        batched = self.model(features=model.features_)
        batched.set_params(kernel="auto", n_components=1024).fit(stream)
        assert batched.temperature_ == pytest.approx(model.temperature_, rel=1e-3)

    @pytest.mark.parametrize("make", [NAMES_OF.__getitem__, np.int8, np.float64, np.bool_])
    def test_labels_of_any_kind(self, make):
        labels = make(np.minimum(LABELS, 1) if make is np.bool_ else LABELS)
        codes = np.unique(labels, return_inverse=True)[1]
        model, expected = classifier().fit(X, labels), classifier().fit(X, codes)
        assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-3, atol=1e-6)
        assert_array_equal(model.predict(X), np.unique(labels)[expected.predict(X)])

    def test_digits(self):
        X, y = load_digits(return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
        model = QuadratureRidgeClassifier("gaussian", n_components=600, alpha="gcv", random_state=0)
        model.fit(X_train, y_train)
        assert model.score(X_test, y_test) > 0.97
        assert log_loss(y_test, model.predict_proba(X_test)) < 0.15


class TestGaussianProcess:
    @pytest.mark.parametrize("intercept", [True, False])
    def test_deviation_draws_and_evidence_agree_with_the_linear_kernel(self, intercept):
        model = ridge(alpha=0.5, fit_intercept=intercept).fit(X[:90], Y[:90])
        mean, deviation = model.predict(X[90:130], return_std=True)
        assert deviation.shape == (40, 3)
        # The intercept is a feature with a prior so wide that it is practically flat.
        width = 1e4 * intercept
        gram = Z[:130] @ Z[:130].T + width
        noisy = gram[:90, :90] + 0.5 * np.eye(90)
        gain = np.linalg.solve(noisy, gram[:90, 90:])
        assert_allclose(mean, gain.T @ Y[:90], rtol=1e-3)
        variance = np.diagonal(gram[90:, 90:] - gram[90:, :90] @ gain)
        expected = np.sqrt(np.multiply.outer(variance, model.signal_variance_))
        assert_allclose(deviation, expected, rtol=1e-3)
        assert_allclose(model.noise_variance_, 0.5 * model.signal_variance_)
        draws = model.sample_y(X[90:130], n_samples=4000, random_state=1)
        assert draws.shape == (40, 3, 4000)
        assert np.abs((draws.mean(axis=2) - mean) / deviation).max() < 4.5 / np.sqrt(4000)
        assert_allclose(draws.std(axis=2), deviation, rtol=4.5 / np.sqrt(2 * 4000))
        correlation = np.corrcoef(draws[:, 0])
        covariance = gram[90:, 90:] - gram[90:, :90] @ gain
        scale = np.sqrt(np.diagonal(covariance))
        exact = covariance / np.multiply.outer(scale, scale)
        assert_allclose(correlation, exact, atol=4.5 / np.sqrt(4000))

    def test_draws_are_reproducible_and_have_the_shape_of_the_targets(self):
        model = ridge().fit(X, y)
        assert model.sample_y(X[:7]).shape == (7, 1)
        assert_array_equal(model.sample_y(X[:7], 3), model.sample_y(X[:7], 3))
        assert not np.allclose(model.sample_y(X[:7]), model.sample_y(X[:7], random_state=1))
        with pytest.raises(ValueError, match="n_samples=0 is not valid"):
            model.sample_y(X, n_samples=0)

    @pytest.mark.parametrize(("d", "gamma"), [(2, 2.0), (3, 0.5)])
    def test_variance_of_an_exact_process_on_rows_drawn_from_the_prior(self, d, gamma):
        rng = np.random.default_rng(d)
        rows = rng.uniform(-2, 2, (3000, d))
        gram = Gaussian(gamma)(rows) + 1e-9 * np.eye(3000)
        truth = np.linalg.cholesky(gram) @ rng.standard_normal(3000)
        noise = 0.2
        targets = truth + noise * rng.standard_normal(3000)
        train, test = slice(0, 2000), slice(2000, None)
        exact = GaussianProcessRegressor(
            ConstantKernel(1.0) * RBF(1 / np.sqrt(2 * gamma)), alpha=noise**2, optimizer=None
        ).fit(rows[train], targets[train])
        mean, deviation = exact.predict(rows[test], return_std=True)
        model = QuadratureRidge(
            Gaussian(gamma), n_components=1000, alpha="evidence", random_state=0
        ).fit(rows[train], targets[train])
        found, spread = model.predict(rows[test], return_std=True)
        assert np.corrcoef(spread, deviation)[0, 1] > 0.98

        def coverage(mean, deviation):
            return (np.abs(targets[test] - mean) < 1.96 * deviation).mean()

        covered = coverage(found, np.sqrt(spread**2 + model.noise_variance_))
        expected = coverage(mean, np.sqrt(deviation**2 + noise**2))
        assert abs(covered - expected) < 0.02
        assert 0.92 < covered < 0.98
        assert model.noise_variance_ == pytest.approx(noise**2, rel=0.15)

    def test_the_evidence_is_highest_for_the_true_kernel(self):
        rng = np.random.default_rng(0)
        rows = rng.uniform(-2, 2, (400, 2))
        gram = Gaussian(1.0)(rows) + 1e-9 * np.eye(400)
        targets = np.linalg.cholesky(gram) @ rng.standard_normal(400)
        targets += 0.1 * rng.standard_normal(400)
        evidences = [
            QuadratureRidge(Gaussian(gamma), n_components=300, alpha="evidence", random_state=0)
            .fit(rows, targets)
            .log_marginal_likelihood_
            for gamma in (0.1, 1.0, 10.0)
        ]
        assert max(evidences) == evidences[1]


class TestBadInput:
    @pytest.mark.parametrize("Model", MODELS)
    @pytest.mark.parametrize(
        ("parameters", "error", "message"),
        [
            ({"kernel": "gausian"}, ValueError, "kernel='gausian' is not known. Did you mean"),
            ({"kernel": 3}, TypeError, "kernel=3 is not valid"),
            ({"n_components": 0}, ValueError, "n_components=0 is not valid"),
            ({"n_components": 2.5}, ValueError, "n_components=2.5 is not valid"),
            ({"n_components": "auto"}, ValueError, "n_components='auto' .* features=Quadrature"),
            ({"rule": "best"}, ValueError, "rule='best' is not known"),
            ({"features": "orf"}, TypeError, "features='orf' is not valid: pass a Quadrature"),
            ({"alpha": 0.0}, ValueError, "alpha=0.0 is not valid: pass a finite number > 0"),
            ({"alpha": -1}, ValueError, "alpha=-1 is not valid"),
            ({"alpha": np.inf}, ValueError, "alpha=inf is not valid"),
            ({"alpha": np.nan}, ValueError, "alpha=nan is not valid"),
            ({"alpha": None}, TypeError, "alpha=None is not valid"),
            ({"alpha": True}, TypeError, "alpha=True is not valid"),
            ({"alpha": "evidense"}, ValueError, "alpha='evidense' .* Did you mean 'evidence'"),
            ({"alpha": []}, ValueError, r"alpha=\[\] is not valid: pass one or more"),
            ({"alpha": [1.0, 0.0]}, ValueError, r"alpha=\[1.0, 0.0\] is not valid"),
            ({"alpha": [1, [2]]}, TypeError, r"alpha=\[1, \[2\]\] is not valid"),
            ({"alpha": ["a"]}, TypeError, r"alpha=\['a'\] is not valid"),
            ({"alpha": [[1.0]]}, ValueError, r"alpha=\[\[1.0\]\] is not valid"),
            (
                {"alpha": 1.0, "alphas": [1.0]},
                ValueError,
                r"alphas=\[1.0\] has no effect, .*alpha=1.0",
            ),
            ({"alpha": "gcv", "alphas": [-1.0]}, ValueError, r"alphas=\[-1.0\] is not valid"),
            ({"alpha": "gcv", "alphas": 3}, ValueError, "alphas=3 is not valid"),
            ({"lengthscales": "all"}, ValueError, "lengthscales='all' is not known"),
            ({"fit_intercept": "yes"}, TypeError, "fit_intercept='yes' is not valid"),
            ({"solver": "svd"}, ValueError, "solver='svd' is not known.* 'auto', 'normal', 'cg'"),
            ({"tol": 0}, ValueError, "tol=0 is not valid"),
            ({"tol": None}, TypeError, "tol=None is not valid"),
            ({"max_iter": 0}, ValueError, "max_iter=0 is not valid"),
            ({"gram_dtype": "float16"}, ValueError, "gram_dtype='float16' is not known"),
            ({"gram_dtype": np.float32}, ValueError, "gram_dtype=.*float32.* is not known"),
            ({"random_state": "seven"}, ValueError, "random_state='seven' is not valid"),
            ({"n_jobs": 0}, ValueError, "n_jobs=0 is not valid"),
            ({"checkpoint": 5}, TypeError, "checkpoint=5 is not valid: pass the path"),
            ({"features": FEATURES, "rule": "orf"}, ValueError, "rule='orf' has no effect"),
            ({"features": FEATURES, "n_components": 7}, ValueError, "n_components=7 has no eff"),
            ({"features": FEATURES, "kernel": "arccos0"}, ValueError, "kernel='arccos0' has no"),
            ({"features": FEATURES, "kernel": Matern()}, ValueError, r"kernel=Matern\(.* has no"),
            ({"features": FEATURES, "lengthscales": "ard"}, ValueError, "lengthscales='ard' has"),
        ],
        ids=str,
    )
    def test_errors_name_parameters_and_their_values(
        self, Model, parameters, error, message, monkeypatch
    ):
        # The error must come before the search for a kernel, whose result would be lost.
        monkeypatch.setattr("quadfeat.models.mapping.choose", None)
        model = Model(**{"n_components": 20} | parameters)
        if "features" in parameters and "n_components" not in parameters:
            model.set_params(n_components=1024)
        with pytest.raises(error, match=message):
            model.fit(X, LABELS)
        with pytest.raises(error, match=message):
            model.partial_fit(X, LABELS)
        assert not hasattr(model, "features_")

    @pytest.mark.parametrize(
        ("class_weight", "message"),
        [
            ("even", "class_weight='even' is not valid"),
            (np.ones(3), r"class_weight=array\(.* is not valid"),
            ({0: -1.0}, "the weight of .*0.* must be a number >= 0"),
            ({1: np.nan}, "the weight of .*1.* must be a number"),
            ({2: "heavy"}, "the weight of .*2.* must be a number"),
            ({0: 0, 1: 0, 2: 0}, "all rows have weight 0"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_class_weights(self, class_weight, message, solver):
        with pytest.raises(ValueError, match=message):
            classifier(class_weight=class_weight, solver=solver).fit(X, LABELS)

    @pytest.mark.parametrize("Model", MODELS)
    def test_unfitted(self, Model):
        model = Model()
        for name in ("coef_", "intercept_", "alpha_", "path_", "n_iter_", "solver_error_"):
            assert not hasattr(model, name)
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_a_map_for_other_columns(self):
        with pytest.raises(ValueError, match="fitted to 4 columns, but X has 3"):
            ridge().fit(X[:, :3], y)

    @pytest.mark.parametrize("Model", MODELS)
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_tables(self, Model, solver):
        model = Model("gaussian", alpha=1.0, n_components=20, random_state=0, solver=solver)
        for bad in (np.nan, np.inf):
            poisoned = X.copy()
            poisoned[1234, 2] = bad
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                model.fit(poisoned, LABELS)
            model.fit(X, LABELS)
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                model.predict(poisoned)
        with pytest.raises(ValueError, match="X has 3 features"):
            model.predict(X[:, :3])
        with pytest.raises(ValueError, match="Expected 2D array"):
            model.fit(X[0], LABELS[:1])
        with pytest.raises(ValueError, match=r"0 sample|minimum of 1"):
            model.fit(X[:0], LABELS[:0])
        with pytest.raises(ValueError, match=r"0 sample|minimum of 1"):
            model.predict(X[:0])
        with pytest.raises(ValueError, match="0 feature"):
            model.fit(X[:, :0], LABELS)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit(X, LABELS[:-1])
        with pytest.raises(ValueError, match="requires y to be passed"):
            model.fit(X, None)
        for weights in (-np.ones(1500), np.full(1500, np.nan), np.zeros(1500), np.ones(3)):
            with pytest.raises(ValueError, match=r"[Ss]ample.?[Ww]eight|inconsistent"):
                model.fit(X, LABELS, sample_weight=weights)

    def test_targets(self):
        for bad in (np.nan, np.inf):
            poisoned = y.copy()
            poisoned[7] = bad
            with pytest.raises(ValueError, match=r"NaN|infinity"):
                ridge().fit(X, poisoned)
        with pytest.raises(ValueError, match=r"y holds text, such as .*QuadratureRidgeClassifier"):
            ridge().fit(X, NAMES)
        with pytest.raises(ValueError, match="Unknown label type"):
            classifier().fit(X, y)
        with pytest.raises(ValueError, match=r"1d array|1-dimensional|multi"):
            classifier().fit(X, np.column_stack([LABELS, LABELS]))

    def test_objects_and_other_dtypes(self):
        counts = np.random.default_rng(0).integers(0, 2, (200, 4))
        model = QuadratureRidge("gaussian", alpha=1.0, n_components=20, random_state=0)
        expected = model.fit(counts.astype(float), y[:200]).predict(counts.astype(float))
        for dtype in (object, np.int8, bool, np.float16):
            given = model.fit(counts.astype(dtype), y[:200].astype(object)).predict(counts)
            assert_allclose(given, expected, rtol=1e-10)

    def test_one_row_and_one_column(self):
        for alpha in (1.0, "evidence"):
            model = QuadratureRidge("gaussian", n_components=20, alpha=alpha).fit(X[:1], y[:1])
            assert_allclose(model.predict(X[:3]), y[0], rtol=1e-12)
            with pytest.raises(ValueError, match=r"all targets in y are equal.*Add rows with"):
                model.predict(X[:3], return_std=True)
        for alpha in ("gcv", "loo"):
            with pytest.raises(ValueError, match=r"alpha cannot be chosen.* count as 1 sample"):
                QuadratureRidge("gaussian", n_components=20, alpha=alpha).fit(X[:1], y[:1])
        model = QuadratureRidge("gaussian", n_components=40, rule="orf", alpha=0.01, random_state=0)
        assert model.fit(X[:, :1], np.sin(2 * X[:, 0])).score(X[:, :1], np.sin(2 * X[:, 0])) > 0.99

    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_zero_rows(self, solver):
        for kernel in ("gaussian", ArcCosine(1)):
            model = QuadratureRidge(
                kernel, alpha=1.0, n_components=20, solver=solver, random_state=0
            )
            model.fit(np.zeros((30, 4)), y[:30])
            assert_allclose(model.predict(np.zeros((2, 4))), y[:30].mean(), rtol=1e-6)

    @pytest.mark.parametrize("unit", [1e-30, 1e30, 1e150])
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_huge_and_tiny_rows(self, unit, solver):
        model = QuadratureRidge(
            "gaussian", alpha=1.0, rule="orf", n_components=60, random_state=0, solver=solver
        )
        expected = model.fit(X, y).predict(X)
        assert_allclose(model.fit(X * unit, y).predict(X * unit), expected, rtol=1e-3)

    @pytest.mark.parametrize("unit", [1e-160, 1e-200, 1e-300])
    def test_targets_whose_squares_underflow(self, unit):
        X = np.random.default_rng(0).standard_normal((60, 3))
        with pytest.raises(ValueError, match=r"targets underflow\. Multiply y"):
            QuadratureRidge(gamma=0.5, n_components=30).fit(X, unit * X[:, 0])
        model = QuadratureRidge(gamma=0.5, n_components=30)
        assert_allclose(model.fit(X, np.full(60, 1e-200)).predict(X), 1e-200)

    def test_features_whose_squares_overflow(self):
        with pytest.raises(ValueError, match=r"squares of the features.*gram_dtype='float64'"):
            QuadratureRidge(ArcCosine(2), alpha=1.0, n_components=20, random_state=0).fit(
                X * 1e12, y
            )
        model = QuadratureRidge(
            ArcCosine(2), n_components=20, random_state=0, gram_dtype="float64", alpha=1e40
        )
        assert np.isfinite(model.fit(X * 1e12, y).predict(X * 1e12)).all()


@parametrize_with_checks(
    [
        QuadratureRidge("gaussian", alpha=1.0, n_components=200, rule="orf"),
        QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=200, rule="orf"),
    ]
)
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.7"),
    reason="this version of scikit-learn does not have the check",
)
def test_the_check_that_needs_its_own_process():
    # The check needs SCIPY_ARRAY_API to be set before SciPy is imported, so it is skipped above.
    script = """
from sklearn.utils.estimator_checks import estimator_checks_generator
from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
parameters = dict(kernel="gaussian", alpha=1.0, n_components=200)
for model in (QuadratureRidge(**parameters), QuadratureRidgeClassifier(**parameters)):
    for estimator, check in estimator_checks_generator(model):
        if "array_api" in check.func.__name__:
            check(estimator)
            print(type(model).__name__, check.func.__name__)
"""
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[::2] == ["QuadratureRidge", "QuadratureRidgeClassifier"]


@pytest.mark.parametrize("Model", MODELS)
def test_important_checks_with_default_parameters(Model):
    for check in (check_fit_idempotent, check_methods_subset_invariance, check_dict_unchanged):
        check(Model.__name__, Model())
    check_sample_weight_equivalence_on_dense_data(Model.__name__, Model())


def test_parquet_without_pyarrow_names_the_package_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r"pip install 'quadfeat\[parquet\]'"):
        next(iter(ParquetBlocks(tmp_path, "label")))


class TestConsistency:
    def frames(self):
        columns = ["a", "b", "c"]
        table = pd.DataFrame(X[:, :3], columns=columns)
        return table, table[columns[::-1]]

    def test_models_with_other_columns_do_not_merge(self):
        table, other = self.frames()
        features = QuadratureFeatures(n_components=20, random_state=0).fit(X[:, :3])
        model = ridge(features=features).fit(table, y)
        with pytest.raises(ValueError, match=r"fitted to the columns .*'c', 'b', 'a'"):
            model.merge(ridge(features=features).fit(other, y))

    def test_a_map_with_other_columns_is_rejected(self):
        table, other = self.frames()
        features = QuadratureFeatures(n_components=20, random_state=0).fit(other)
        with pytest.raises(ValueError, match="features was fitted to the columns"):
            ridge(features=features).fit(table, y)

    def test_functions_with_the_same_name_have_different_fingerprints(self):
        def curve(t, a):
            return np.tanh(a * t)

        maps = [
            QuadratureFeatures(
                PointwiseNonlinear(partial(curve, a=a)), n_components=8, rule="rff", random_state=0
            ).fit(X)
            for a in (1.0, 1.0, 2.0)
        ]
        first, second, third = (one.fingerprint() for one in maps)
        assert first == second != third

    def test_the_model_fills_in_unset_parameters_of_the_map(self):
        given = QuadratureFeatures(n_components=8, rule="rff")
        models = [ridge(features=given, random_state=3, n_jobs=2).fit(X, y) for _ in range(2)]
        assert models[0].features_.n_jobs == 2
        assert models[0].features_.fingerprint() == models[1].features_.fingerprint()
        assert given.random_state is None

    def test_class_weights_of_unknown_classes_are_rejected(self):
        labels = (X[:, 0] > 0).astype(int)
        with pytest.raises(ValueError, match=r"has keys that are not in y: \['1'\]"):
            classifier(class_weight={"1": 5.0}).fit(X, labels)
        # Extra keys are allowed if all classes of y have a weight.
        classifier(class_weight={0: 1.0, 1: 5.0, 2: 3.0}).fit(X, labels)

    def test_other_classes_in_a_later_batch_are_rejected(self):
        labels = (y > 0).astype(int)
        model = QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=8, random_state=0)
        model.partial_fit(X, labels, classes=[0, 1])
        model.partial_fit(X, labels, classes=[1, 0])
        with pytest.raises(ValueError, match=r"classes=\[0, 1, 2\] differs from"):
            model.partial_fit(X, labels, classes=[0, 1, 2])

    def test_labels_too_large_for_floats_are_calibrated_alike(self):
        labels = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
        plain, large = (
            QuadratureRidgeClassifier("gaussian", alpha=1.0, n_components=50, random_state=0).fit(
                X, labels + offset
            )
            for offset in (0, 2**53)
        )
        assert large.classes_.tolist() == [2**53, 2**53 + 1]
        assert large.temperature_ == pytest.approx(plain.temperature_, rel=0.5)


class TestNumbersOfUnusualSize:
    @pytest.mark.parametrize("unit", [1e-100, 1e-42, 1e42, 1e100])
    def test_float32_rows_with_predictions_out_of_the_range_of_float32(self, unit):
        rows = X.astype(np.float32)
        found = ridge().fit(rows, unit * y).predict(rows)
        assert_allclose(found / unit, ridge().fit(rows, y).predict(rows), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("unit", [1e-60, 1e-20, 1e20, 1e60])
    def test_weights_of_any_size_with_conjugate_gradients(self, unit):
        rows, weights = X.astype(np.float32), np.linspace(0.5, 1.5, len(X))
        expected = ridge(solver="cg", tol=1e-6).fit(rows, y, weights).predict(X)
        scaled = ridge(solver="cg", tol=1e-6, alpha=unit).fit(rows, y, unit * weights)
        assert_allclose(scaled.predict(X), expected, rtol=1e-3, atol=1e-3)

    def test_targets_of_any_size_with_conjugate_gradients(self):
        rows = X.astype(np.float32)
        expected = ridge(solver="cg", tol=1e-6).fit(rows, y).predict(X)
        for unit in (1e-30, 1e37):
            found = ridge(solver="cg", tol=1e-6).fit(rows, unit * y).predict(X)
            assert_allclose(found / unit, expected, rtol=1e-3, atol=1e-3)

    def test_weights_whose_sum_is_too_large(self):
        with pytest.raises(ValueError, match="sample_weight has values up to 1e\\+308"):
            QuadratureFeatures().fit(X, sample_weight=np.full(len(X), 1e308))
