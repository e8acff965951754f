"""Test the classifier on nearest rows."""

import pickle

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from quadfeat import (
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureRidgeClassifier,
    kernels,
    load,
    save,
)
from quadfeat.learning.candidates import FAMILIES
from quadfeat.neighbors.learning import LocalSearch

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, (400, 2))
CHECKERS = (np.floor(X).sum(axis=1) % 2).astype(int)
LABELS = np.array(["blue", "green", "red"])[np.floor(X[:, 0] / 2.0).astype(int)]
QUERIES = rng.uniform(0.0, 6.0, (200, 2))
TRUTH = np.array(["blue", "green", "red"])[np.floor(QUERIES[:, 0] / 2.0).astype(int)]
GIVEN = LocalGaussianProcessClassifier(
    kernels.Matern(1.5, length_scale=[1.5, 6.0]), alpha=0.05, n_neighbors=20
)


@parametrize_with_checks(
    [
        LocalGaussianProcessClassifier("matern32", n_neighbors=12),
        LocalGaussianProcessClassifier(
            "gaussian", n_neighbors=12, alpha=0.1, class_weight="balanced"
        ),
    ]
)
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("good_rounds", [0, 2])
def test_rounds_of_the_search_that_increase_the_loss_are_undone(good_rounds, monkeypatch):
    rounds, before = [], LocalSearch._refined

    def refined(search, settings, number):
        rounds.append(settings)
        if len(rounds) <= good_rounds:
            return before(search, settings, number)
        return settings.changed(np.array([-2.0, 6.0, 0.0]))  # the other column matters

    monkeypatch.setattr(LocalSearch, "_refined", refined)
    families = dict(list(FAMILIES.items())[:1])
    monkeypatch.setattr("quadfeat.models.local_fitting.FAMILIES", families)
    model = LocalGaussianProcessClassifier(n_neighbors=20).fit(X, LABELS)
    first, second = model.kernel_.length_scale
    good = [one.factors for one in rounds[: good_rounds + 1]]  # before the first bad round
    assert np.isclose(second / first, [one[0] / one[1] for one in good]).any()
    assert model.score(QUERIES, TRUTH) > 0.9


@pytest.fixture(scope="module")
def given():
    return clone(GIVEN).fit(X, LABELS)


@pytest.fixture(scope="module")
def two():
    return LocalGaussianProcessClassifier("matern32", lengthscales="ard").fit(X, CHECKERS)


class TestLearning:
    def test_finds_the_function(self, two):
        truth = np.floor(QUERIES).sum(axis=1) % 2
        assert two.score(QUERIES, truth) > 0.8
        assert "log loss" in two.why_
        assert two.candidates_[0].n_columns == two.n_neighbors_
        assert len({one.n_columns for one in two.candidates_}) > 2

    def test_leaves_out_columns_without_information(self):
        random = np.random.default_rng(1)
        wide = np.column_stack([X, random.uniform(0.0, 6.0, (len(X), 3))])
        model = LocalGaussianProcessClassifier("matern32", lengthscales="ard").fit(wide, LABELS)
        scales = model.kernel_.length_scale
        assert scales[1:].min() > 3.0 * scales[0]

    def test_units_and_order_of_rows_do_not_matter(self, two):
        factors = np.array([1e-5, 3e4])
        order = rng.permutation(len(X))
        other = clone(two).fit(X[order] * factors, CHECKERS[order])
        # Rounding errors change where the search stops, by steps of 0.1%.
        expected = two.decision_function(QUERIES)
        assert_allclose(other.decision_function(QUERIES * factors), expected, atol=0.02)

    def test_labels_of_noise_have_similar_probabilities(self):
        noise = np.random.default_rng(2).integers(0, 2, len(X))
        model = LocalGaussianProcessClassifier("gaussian", lengthscales="ard").fit(X, noise)
        new = np.random.default_rng(3).integers(0, 2, len(QUERIES))
        assert log_loss(new, model.predict_proba(QUERIES)) < 0.75


class TestPredictions:
    def test_decisions_are_those_of_a_regression(self, given):
        targets = 2.0 * (LABELS[:, None] == given.classes_) - 1.0
        regression = LocalGaussianProcess(GIVEN.kernel, alpha=0.05, n_neighbors=20).fit(X, targets)
        decisions = given.decision_function(QUERIES)
        assert_allclose(decisions, regression.predict(QUERIES), atol=1e-10)
        assert_allclose(given.loo_decisions_, regression.loo_predictions_, atol=1e-10)
        assert_array_equal(given.predict(QUERIES), given.classes_[decisions.argmax(axis=1)])
        assert given.score(QUERIES, TRUTH) > 0.9

    def test_two_classes_share_one_target(self, two):
        decisions = two.decision_function(QUERIES)
        assert decisions.shape == (len(QUERIES),)
        assert_array_equal(two.predict(QUERIES), decisions > 0)
        assert two.loo_decisions_.shape == (len(X),)
        shares = two.predict_proba(QUERIES)
        assert_allclose(shares[:, 1], 1.0 / (1.0 + np.exp(-2.0 * decisions / two.temperature_)))

    def test_left_out_decisions_equal_those_of_a_fit_without_the_row(self, given):
        others = np.arange(len(X)) != 17
        model = clone(GIVEN).fit(X[others], LABELS[others])
        expected = model.decision_function(X[[17]])[0]
        assert_allclose(given.loo_decisions_[17], expected, atol=1e-10)

    def test_probabilities_are_calibrated(self, given):
        shares = given.predict_proba(QUERIES)
        assert_allclose(shares.sum(axis=1), 1.0)
        prior = np.full_like(shares, 1.0 / 3.0)
        assert log_loss(TRUTH, shares) < 0.4 * log_loss(TRUTH, prior)

    def test_calibration_uses_left_out_rows(self):
        """Labels of noise are predicted well on their own rows, but not on other rows."""
        noise = np.random.default_rng(2).integers(0, 3, len(X))
        model = clone(GIVEN).set_params(alpha=1e-4).fit(X, noise)
        assert model.score(X, noise) > 0.9
        new = np.random.default_rng(3).integers(0, 3, len(QUERIES))
        assert log_loss(new, model.predict_proba(QUERIES)) < 1.2

    def test_class_weights(self):
        heavy = clone(GIVEN).set_params(class_weight={"red": 100.0}).fit(X, LABELS)
        weights = np.where(LABELS == "red", 100.0, 1.0)
        weighted = clone(GIVEN).fit(X, LABELS, weights)
        assert_array_equal(heavy.decision_function(QUERIES), weighted.decision_function(QUERIES))
        assert_array_equal(heavy.predict_proba(QUERIES), weighted.predict_proba(QUERIES))
        assert np.sum(heavy.predict(QUERIES) == "red") >= np.sum(TRUTH == "red")


class TestRows:
    def test_added_rows_equal_rows_of_one_fit(self, given):
        model = clone(GIVEN).partial_fit(X[:150], LABELS[:150])
        model.predict_proba(QUERIES)
        model.partial_fit(X[150:], LABELS[150:])
        assert_allclose(
            model.decision_function(QUERIES), given.decision_function(QUERIES), atol=1e-12
        )
        assert_allclose(model.predict_proba(QUERIES), given.predict_proba(QUERIES), atol=1e-9)

    def test_new_classes_in_later_batches(self, given):
        """The number of targets grows from one, for two classes, to three."""
        model = clone(GIVEN)
        for label in ("red", "blue", "green"):
            part = label == LABELS
            model.partial_fit(X[part], LABELS[part])
            if label == "red":
                with pytest.raises(ValueError, match="only one class, 'red'"):
                    model.predict(QUERIES)
        assert_array_equal(model.classes_, given.classes_)
        assert_allclose(
            model.decision_function(QUERIES), given.decision_function(QUERIES), atol=1e-12
        )

    def test_declared_classes(self):
        classes = ["red", "blue", "green", "white"]
        model = clone(GIVEN).partial_fit(X[:100], LABELS[:100], classes)
        assert_array_equal(model.classes_, sorted(classes))
        assert model.predict_proba(QUERIES)[:, 3].max() < 0.1
        with pytest.raises(ValueError, match="differs from the classes of earlier"):
            model.partial_fit(X, LABELS, ["red"])
        with pytest.raises(ValueError, match=r"y has the classes \['pink'\]"):
            model.partial_fit(X[:2], ["pink", "red"])

    def test_a_first_batch_of_few_rows(self):
        """Nothing can be learned from one row, so later calls learn again."""
        model = LocalGaussianProcessClassifier("matern32", lengthscales="ard")
        for start, stop in ((0, 1), (1, 30), (30, 200), (200, 400)):
            model.partial_fit(X[start:stop], LABELS[start:stop])
        expected = clone(model).fit(X[:200], LABELS[:200])
        assert_array_equal(model.kernel_.length_scale, expected.kernel_.length_scale)
        assert model.score(QUERIES, TRUTH) > 0.9

    def test_streams_and_their_score(self, given):
        blocks = [(X[part], LABELS[part]) for part in (slice(0, 90), slice(90, None))]
        model = clone(GIVEN).fit(blocks)
        assert_allclose(model.decision_function(QUERIES), given.decision_function(QUERIES))
        score = model.score([(QUERIES[:50], TRUTH[:50]), (QUERIES[50:], TRUTH[50:])])
        assert_allclose(score, given.score(QUERIES, TRUTH))

    def test_dask(self, given):
        with dask.config.set(scheduler="synchronous"):
            rows, labels = da.from_array(X, chunks=(150, 2)), da.from_array(LABELS, chunks=150)
            lazy = clone(GIVEN).set_params(class_weight="balanced").fit(rows, labels)
            eager = clone(GIVEN).set_params(class_weight="balanced").fit(X, LABELS)
            queries = da.from_array(QUERIES, chunks=(70, 2))
            for method in ("predict", "predict_proba", "decision_function"):
                found = getattr(lazy, method)(queries)
                assert isinstance(found, da.Array)
                expected = getattr(eager, method)(QUERIES)
                if method == "predict":
                    assert_array_equal(found.compute(), expected)
                else:
                    assert_allclose(found.compute(), expected, atol=1e-12)
            truth = da.from_array(TRUTH, chunks=70)
            assert_allclose(lazy.score(queries, truth), eager.score(QUERIES, TRUTH))

    def test_saved_and_pickled_models_predict_the_same(self, given, tmp_path):
        expected = given.predict_proba(QUERIES)
        save(given, tmp_path / "model")
        for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(given))):
            assert_array_equal(again.predict_proba(QUERIES), expected)
            assert_array_equal(again.classes_, given.classes_)
            again.partial_fit(X[:5], LABELS[:5])

    def test_copies_of_a_row_in_several_classes(self):
        doubled = np.repeat(X[:100], 2, axis=0)
        labels = np.tile(["no", "yes"], 100)
        model = LocalGaussianProcessClassifier("gaussian", n_neighbors=10).fit(doubled, labels)
        assert_allclose(model.predict_proba(QUERIES), 0.5, atol=1e-6)

    def test_equal_rows(self):
        labels = np.repeat(["a", "b"], [6, 3])
        model = LocalGaussianProcessClassifier().fit(np.ones((9, 2)), labels)
        assert_array_equal(model.predict([[1.0, 1.0], [3.0, 0.0]]), "a")
        assert_allclose(model.predict_proba([[1.0, 1.0]]), [[2 / 3, 1 / 3]], atol=0.05)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("n_rows", [2, 3, 5, 9])
    def test_few_rows(self, n_rows):
        """The temperature stays finite if the training rows are easy to tell apart."""
        rows = np.exp(5.0 * np.random.default_rng(0).standard_normal((n_rows, 3)))
        model = LocalGaussianProcessClassifier().fit(rows, np.arange(n_rows) % 2)
        assert np.isfinite(model.predict_proba(rows)).all()

    def test_frames_have_column_names(self):
        frame = pd.DataFrame(X, columns=["size", "age"])
        model = clone(GIVEN).fit(frame, LABELS)
        with pytest.raises(ValueError, match="column 'age' holds missing"):
            model.predict_proba(frame.assign(age=np.nan))


class TestErrors:
    def test_one_class(self):
        with pytest.raises(ValueError, match="y has only one class, 'red'"):
            clone(GIVEN).fit(X, np.full(len(X), "red"))

    def test_balanced_classes_need_all_rows(self):
        model = clone(GIVEN).set_params(class_weight="balanced")
        with pytest.raises(AttributeError) as caught:
            model.partial_fit(X, LABELS)
        assert "needs the classes of all rows at once" in str(caught.value.__cause__)
        with pytest.raises(ValueError, match="iterable of blocks"):
            model.fit([(X, LABELS)])

    @pytest.mark.parametrize("kind", [LocalGaussianProcessClassifier, QuadratureRidgeClassifier])
    def test_class_weights(self, kind):
        with pytest.raises(ValueError, match="pass a dict of weights, 'balanced' or None"):
            kind("gaussian", class_weight="even").fit(X, LABELS)
        with pytest.raises(ValueError, match=r"keys that are not in y: \['pink'\]"):
            kind("gaussian", class_weight={"pink": 2.0}).fit(X, LABELS)

    def test_continuous_targets(self):
        with pytest.raises(ValueError, match="continuous"):
            clone(GIVEN).fit(X, X[:, 0])
