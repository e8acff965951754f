"""Test how KernelRegressor and KernelClassifier compare candidates and choose one."""

import contextlib
import signal
import threading
import time
import warnings
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_absolute_error, r2_score
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from quadfeat import KernelClassifier, KernelRegressor, LocalGaussianProcess, QuadratureRidge
from quadfeat.front_door import Candidate, FeaturesCandidate, MoreFeaturesCandidate
from quadfeat.front_door.splits import copies, usual_folds
from slow import repeats

rng = np.random.default_rng(0)
N = 400
X = rng.uniform(-3, 3, (N, 3))
y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(N)
LABELS = np.array(["high", "low", "middle"])[np.digitize(y, [-0.7, 0.7])]
NEW = rng.uniform(-3, 3, (300, 3))
NEW_Y = np.sin(2 * NEW[:, 0]) + 0.5 * NEW[:, 1] + 0.1 * rng.standard_normal(300)

# Candidates that take milliseconds.
LINE = ("line", Ridge())
MEAN = ("mean", DummyRegressor())
NEAREST = ("nearest", KNeighborsRegressor(5))
PROCESS = ("process", LocalGaussianProcess("gaussian", n_neighbors=20, alpha=0.05))
RIDGE = (
    "ridge",
    QuadratureRidge("gaussian", rule="orf", n_components=60, alpha=1.0, random_state=0),
)
SOME = [MEAN, LINE, NEAREST]


def regressor(candidates=SOME, **settings):
    return KernelRegressor(**{"time_limit": None, "candidates": candidates, **settings})


def classifier(**settings):
    candidates = [
        ("frequencies", DummyClassifier()),
        ("line", LogisticRegression()),
        ("nearest", KNeighborsClassifier(20)),
    ]
    return KernelClassifier(**{"time_limit": None, "candidates": candidates, **settings})


def names(model):
    return [row.name for row in model.leaderboard_]


def row_of(model, name):
    return next(row for row in model.leaderboard_ if row.name == name)


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts the mean, and keeps its training rows."""

    seen: ClassVar = []  # of all clones, in order

    def fit(self, X, y, sample_weight=None):
        self.mean_ = np.mean(y)
        Recorder.seen.append((X, y, sample_weight))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.fixture
def recorded():
    Recorder.seen.clear()
    return Recorder.seen


@pytest.fixture(scope="module")
def real():
    """A contest of all kinds of candidates, each with its own search."""
    candidates = ["neighbors", FeaturesCandidate(64), MoreFeaturesCandidate(160)]
    return KernelRegressor(600, candidates=candidates).fit(X, y)


class TestRealContest:
    def test_all_candidates_take_part(self, real):
        assert sorted(names(real)[-3:]) == ["features", "more features", "neighbors"]
        for row in real.leaderboard_:
            assert row.took_part
            assert row.n_rows == N
            assert 0 < row.loss < 1
            assert row.standard_error > 0
            assert row.score == pytest.approx(1 - row.loss)
        for row in real.leaderboard_[-3:]:
            assert row.fit_seconds > 0
            assert row.predict_seconds > 0
        assert "64 features" in row_of(real, "features").note
        assert "160 features" in row_of(real, "more features").note
        assert "neighbors" in row_of(real, "neighbors").note

    def test_the_winner_has_the_smallest_loss(self, real):
        losses = [row.loss for row in real.leaderboard_]
        assert losses == sorted(losses)
        assert real.why_.startswith(real.leaderboard_[0].name[:1].upper())
        assert f"{real.leaderboard_[0].score:.4f}" in real.why_

    def test_predictions(self, real):
        assert real.score(NEW, NEW_Y) > 0.95
        lower, upper = real.predict_interval(NEW, 0.9)
        assert 0.84 < np.mean((lower <= NEW_Y) & (upper >= NEW_Y)) < 0.96
        mean, deviation = real.predict(NEW, return_std=True)
        assert_array_equal(mean, real.predict(NEW))
        assert (deviation > 0).all()
        assert 0.05 < np.sqrt(real.noise_variance_) < 0.2

    def test_validated_losses_are_honest(self, real):
        best = real.leaderboard_[0]
        test = 1 - r2_score(NEW_Y, real.predict(NEW))
        assert test < best.loss + 4 * best.standard_error

    def test_relevance(self, real):
        relevance = real.relevance_
        assert relevance.sum() == pytest.approx(1.0)
        assert relevance[0] > relevance[1] > relevance[2] >= 0

    def test_estimators_of_the_leaderboard_give_the_same_model(self, real):
        models = {row.name: row.estimator for row in real.leaderboard_ if row.estimator}
        assert len(models) == 3
        shares = {row.name: row.share for row in real.leaderboard_ if row.estimator}
        assert sum(shares.values()) == pytest.approx(1.0)
        again = sum(
            share * clone(models[name]).fit(X, y).predict(NEW)
            for name, share in shares.items()
            if share
        )
        assert_allclose(real.predict(NEW), again, rtol=1e-12)
        assert [share for share, _ in real.models_] == sorted(
            (share for share in shares.values() if share), reverse=True
        )
        assert real.model_ is real.models_[0][1]

    def test_more_features_have_the_kernel_of_the_features(self, real):
        fewer, more = (row_of(real, name).estimator for name in ("features", "more features"))
        assert repr(fewer.kernel) == repr(more.kernel)
        assert (fewer.n_components, more.n_components) == (64, 160)


def test_two_fits_without_a_time_limit_agree_to_the_bit():
    both, cv = ["neighbors", FeaturesCandidate(64)], ShuffleSplit(1, random_state=0)
    models = [regressor(both, cv=cv).fit(X[:80], y[:80]) for _ in "12"]
    assert_array_equal(models[0].predict(NEW), models[1].predict(NEW))
    for ours, theirs in zip(*(model.leaderboard_ for model in models), strict=True):
        assert (ours.name, ours.share, ours.loss) == (theirs.name, theirs.share, theirs.loss)


class TestChoice:
    def test_the_best_candidate_wins(self):
        model = regressor(blend=False).fit(X, y)
        assert names(model) == ["nearest", "line", "mean"]
        assert [row.share for row in model.leaderboard_] == [1.0, 0.0, 0.0]
        assert isinstance(model.model_, KNeighborsRegressor)
        assert_array_equal(model.predict(NEW), KNeighborsRegressor(5).fit(X, y).predict(NEW))
        # Without columns, the loss is the variance.
        assert row_of(model, "mean").loss == pytest.approx(1.0, abs=0.02)

    def test_losses_are_those_of_the_folds(self):
        model = regressor(cv=KFold(4), blend=False).fit(X, y)
        expected = np.concatenate(
            [Ridge().fit(X[a], y[a]).predict(X[b]) for a, b in KFold(4).split(X)]
        )
        found = row_of(model, "line")
        assert found.score == pytest.approx(r2_score(y, expected))
        errors = (y - expected) ** 2 / np.var(y)
        assert found.standard_error == pytest.approx(errors.std() / np.sqrt(N - 1))

    def test_log_losses_are_those_of_the_folds(self):
        cv = StratifiedKFold(3)
        model = classifier(cv=cv, blend=False).fit(X, LABELS)
        expected = np.empty((N, 3))
        for train, test in cv.split(X, LABELS):
            expected[test] = (
                LogisticRegression().fit(X[train], LABELS[train]).predict_proba(X[test])
            )
        assert row_of(model, "line").loss == pytest.approx(log_loss(LABELS, expected))
        assert model.leaderboard_.loss_name == "log loss"

    def test_classes(self):
        model = classifier().fit(X, LABELS)
        assert model.classes_.tolist() == ["high", "low", "middle"]
        assert names(model)[-1] == "frequencies"
        found = model.predict_proba(NEW)
        assert_allclose(found.sum(axis=1), 1.0)
        assert_array_equal(model.predict(NEW), model.classes_[found.argmax(axis=1)])
        with np.errstate(divide="ignore"):
            assert_array_equal(model.predict_log_proba(NEW), np.log(found))
        assert "log loss" in model.why_

    def test_a_blend_wins_only_if_it_is_clearly_better(self):
        class Noisy(RegressorMixin, BaseEstimator):
            """Predicts the truth with errors of its own."""

            def __init__(self, seed=0):
                self.seed = seed

            def fit(self, X, y):
                return self

            def predict(self, X):
                errors = np.random.default_rng([self.seed, len(X)]).standard_normal(len(X))
                return X[:, 0] + errors

        X = np.random.default_rng(1).standard_normal((400, 1)) * 3
        y = X[:, 0]
        two = [("a", Noisy(1)), ("b", Noisy(2))]
        blended = regressor(two).fit(X, y)
        assert [share for share, _ in blended.models_] == pytest.approx([0.5, 0.5], abs=0.11)
        assert " + " in blended.leaderboard_[0].name
        assert blended.leaderboard_[0].loss < 0.7 * blended.leaderboard_[1].loss
        assert_allclose(
            blended.predict(X), sum(share * model.predict(X) for share, model in blended.models_)
        )
        assert len(regressor(two, blend=False).fit(X, y).models_) == 1
        # Blending a candidate with its copy gains nothing.
        same = [("a", Noisy(1)), ("b", Noisy(1))]
        assert len(regressor(same).fit(X, y).models_) == 1

    def test_one_candidate_is_fitted_without_a_comparison(self):
        model = regressor([LINE]).fit(X, y)
        (row,) = model.leaderboard_
        assert (row.name, row.share, row.note) == ("line", 1.0, "not validated")
        assert np.isnan(row.loss)
        assert_array_equal(model.predict(NEW), Ridge().fit(X, y).predict(NEW))
        with pytest.raises(AttributeError, match="predict_interval needs held-out rows"):
            model.predict_interval(NEW)
        validated = regressor([LINE], cv=3).fit(X, y)
        assert np.isfinite(validated.leaderboard_[0].loss)
        lower, upper = validated.predict_interval(NEW, 0.9)
        assert_allclose(upper - lower, upper[0] - lower[0])  # it has no standard deviations
        assert 0.84 < np.mean((lower <= NEW_Y) & (upper >= NEW_Y)) < 0.96

    def test_candidates_that_fail_are_left_out_with_a_warning(self):
        class Failing(Ridge):
            def fit(self, X, y):
                raise ValueError("it is Monday")

        with pytest.warns(UserWarning, match="monday was left out .* it is Monday"):
            model = regressor([("monday", Failing()), LINE]).fit(X, y)
        assert names(model) == ["line", "monday"]
        assert not model.leaderboard_[1].took_part
        assert "Monday left out: ValueError: it is Monday." in model.why_
        with pytest.raises(ValueError, match="it is Monday"):
            regressor([("monday", Failing()), ("again", Failing())]).fit(X, y)

    def test_predictions_that_are_not_finite_exclude_a_candidate(self):
        class Endless(Ridge):
            def predict(self, X):
                return np.full(len(X), np.nan)

        with pytest.warns(UserWarning, match="endless predicts numbers that are not finite"):
            assert names(regressor([("endless", Endless()), LINE]).fit(X, y))[0] == "line"

    def test_other_errors_are_raised(self):
        class Broken(Ridge):
            def fit(self, X, y):
                raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            regressor([LINE, ("broken", Broken())]).fit(X, y)

    def test_classifiers_without_probabilities(self):
        from sklearn.svm import LinearSVC

        model = classifier(candidates=[("svm", LinearSVC()), ("line", LogisticRegression())])
        with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
            model.fit(X, LABELS)

    def test_own_candidate(self):
        class Line(Candidate):
            key = "own"

            def estimator(self, setting, shape, found, time_limit):
                assert setting.is_regression
                assert time_limit is None
                assert "mean" in found
                return Ridge(alpha=shape[0])

            def note(self, model):
                return f"alpha {model.alpha}"

        model = regressor([MEAN, Line()]).fit(X, y)
        assert names(model) == ["own", "mean"]
        assert model.leaderboard_[0].note.startswith("alpha ")

    def test_several_targets(self):
        Y = np.column_stack([y, -1e6 * y, X[:, 2]])
        model = regressor([RIDGE, PROCESS]).fit(X, Y)
        assert model.predict(NEW).shape == (300, 3)
        mean, deviation = model.predict(NEW, return_std=True)
        assert mean.shape == deviation.shape == (300, 3)
        assert model.noise_variance_.shape == (3,)
        lower, upper = model.predict_interval(NEW)
        assert (lower < mean).all()
        assert (mean < upper).all()
        # The loss is the mean over targets, each in its own unit.
        one = regressor([RIDGE, PROCESS]).fit(X, np.column_stack([y, y, X[:, 2]]))
        assert_allclose(model.leaderboard_[0].loss, one.leaderboard_[0].loss, rtol=1e-5)


class TestScoring:
    def test_another_score_ranks_the_candidates(self):
        model = regressor(scoring="neg_mean_absolute_error", cv=KFold(4)).fit(X, y)
        expected = np.concatenate(
            [Ridge().fit(X[a], y[a]).predict(X[b]) for a, b in KFold(4).split(X)]
        )
        found = row_of(model, "line")
        assert found.score == pytest.approx(-mean_absolute_error(y, expected))
        assert found.loss == -found.score
        assert found.standard_error > 0
        assert model.leaderboard_.score_name == "neg_mean_absolute_error"
        assert "neg_mean_absolute_error" in model.why_

    def test_it_can_reverse_the_choice(self):
        def wrong_way(estimator, X, y):
            return -r2_score(y, estimator.predict(X))

        assert names(regressor(scoring=wrong_way).fit(X, y))[0] == "mean"
        assert names(regressor().fit(X, y))[-1] == "mean"

    @pytest.mark.parametrize("scoring", ["accuracy", "roc_auc_ovr", "neg_log_loss"])
    def test_scores_of_classes(self, scoring):
        model = classifier(scoring=scoring).fit(X, LABELS)
        assert names(model)[-1] == "frequencies"
        if scoring == "neg_log_loss":
            plain = classifier().fit(X, LABELS)
            assert row_of(model, "line").loss == pytest.approx(row_of(plain, "line").loss)

    @pytest.mark.parametrize(
        ("scoring", "error", "match"),
        [
            ("neg_mean_absolut_error", ValueError, "Did you mean 'neg_mean_absolute_error'"),
            (["r2"], TypeError, r"scoring=\['r2'\] is not valid"),
            (mean_absolute_error, ValueError, "scor"),
            ("accuracy", ValueError, "scoring='accuracy' fails on the held-out rows: .*Choose"),
        ],
        ids=["typo", "list", "metric", "classes"],
    )
    def test_errors_come_before_the_contest(self, recorded, scoring, error, match):
        with pytest.raises(error, match=match):
            regressor([("a", Recorder()), LINE], scoring=scoring).fit(X, y)
        assert recorded == []

    def test_scores_without_weights(self, recorded):
        def own(estimator, X, y):
            return -np.abs(estimator.predict(X) - y).mean()

        model = regressor([("a", Recorder()), LINE], scoring=own)
        model.fit(X, y)
        recorded.clear()
        with pytest.raises(ValueError, match="fails on the held-out rows with their weights"):
            model.fit(X, y, sample_weight=np.ones(N))
        assert recorded == []


class TestHeldOutRows:
    def test_rows_are_held_out_once_on_large_tables(self, recorded):
        model = regressor([("a", Recorder()), MEAN], blend=False)
        model.fit(np.arange(2000.0)[:, None], rng.standard_normal(2000))
        assert [len(y) for _, y, _ in recorded] == [1600, 2000]
        assert model.leaderboard_[0].n_rows == 400

    def test_each_row_is_held_out_on_small_tables(self, recorded):
        regressor([("a", Recorder()), ("b", Recorder())], blend=False).fit(X, y)
        sizes = [len(y) for _, y, _ in recorded]
        assert len(sizes) == 7
        assert sum(sizes[:6:2]) == 2 * N
        assert sizes[-1] == N

    def test_any_splitter(self, recorded):
        model = regressor([("a", Recorder())], cv=TimeSeriesSplit(3))
        model.fit(np.arange(40.0)[:, None], np.arange(40.0))
        assert [len(y) for _, y, _ in recorded] == [10, 20, 30, 40]
        for rows, _, _ in recorded:
            assert_array_equal(rows[:, 0], np.arange(len(rows)))
        assert model.leaderboard_[0].n_rows == 30

    def test_pairs_of_indices_and_masks(self, recorded):
        is_train = np.arange(40) < 30
        for pair in (
            (np.arange(30), np.arange(30, 40)),
            (is_train, ~is_train),
            (range(30), [-1, -2]),
        ):
            recorded.clear()
            model = regressor([("a", Recorder())], cv=[pair]).fit(X[:40], y[:40])
            assert_array_equal(recorded[0][1], y[:30])
            assert model.leaderboard_[0].n_rows == len(pair[1]) - 30 * (len(pair[1]) == 40)

    def test_splitters_see_the_columns(self):
        class BySign(KFold):
            def split(self, X, y=None, groups=None):
                yield np.flatnonzero(X[:, 0] > 0), np.flatnonzero(X[:, 0] <= 0)

        model = regressor([LINE, MEAN], cv=BySign(2)).fit(X, y)
        assert model.leaderboard_[0].n_rows == np.count_nonzero(X[:, 0] <= 0)

    def test_groups_stay_together(self, recorded):
        groups = np.repeat([f"patient {k}" for k in range(20)], 20)
        number = np.repeat(np.arange(20.0), 20)[:, None]
        for cv in (None, 4, GroupKFold(4)):
            recorded.clear()
            regressor([("a", Recorder()), MEAN], cv=cv).fit(number, y, groups=groups)
            for rows, _, _ in recorded[:-1]:
                seen, counts = np.unique(rows, return_counts=True)
                assert (counts == 20).all()
                assert len(seen) < 20

    def test_copies_of_rows_stay_together(self, recorded):
        rows = np.repeat(X[:100], 4, axis=0)
        regressor([("a", Recorder()), MEAN]).fit(rows, np.repeat(y[:100], 4))
        for part, _, _ in recorded[:-1]:
            assert (np.unique(part, axis=0, return_counts=True)[1] == 4).all()
        # Few categories: rows with different targets are not copies.
        few = rng.integers(0, 2, (100, 2)).astype(float)
        assert len(np.unique(copies(few, y[:100]))) == 100
        assert len(np.unique(copies(few, few.sum(axis=1)))) == 4

    def test_classes_are_held_out_in_proportion(self):
        labels = np.repeat(["a", "b", "c"], [900, 90, 10])
        (fold,) = usual_folds(np.arange(1000), np.repeat([0, 1, 2], [900, 90, 10]), seed=0)
        found, counts = np.unique(labels[fold.test], return_counts=True)
        assert found.tolist() == ["a", "b", "c"]
        assert counts.tolist() == [270, 27, 3]

    def test_folds_do_not_depend_on_copies(self):
        size = np.arange(1400)
        once = usual_folds(size, 0 * size, seed=3)[0]
        twice = usual_folds(np.repeat(size, 2), np.repeat(0 * size, 2), seed=3)[0]
        assert_array_equal(np.unique(twice.test // 2), once.test)

    def test_a_class_of_one_row_is_never_held_out(self):
        labels = np.where(np.arange(N) == 7, "rare", LABELS)
        model = classifier().fit(X, labels)
        assert model.classes_.tolist() == ["high", "low", "middle", "rare"]
        assert model.predict_proba(NEW).shape == (300, 4)
        assert model.leaderboard_[0].n_rows == N - 1

    def test_a_class_that_training_rows_lack(self):
        is_test = (LABELS == "middle") | (np.arange(N) % 3 == 0)
        cv = [(np.flatnonzero(~is_test), np.flatnonzero(is_test))]
        model = classifier(cv=cv).fit(X, LABELS)
        lacking = row_of(model, "frequencies")
        held_out = LABELS[is_test]
        # The probability of the class is zero, which a log loss clips.
        assert lacking.loss > 20 * np.mean(held_out == "middle")
        assert model.predict_proba(NEW).shape == (300, 3)

    def test_groups_that_are_classes(self):
        model = classifier(candidates=["neighbors", FeaturesCandidate(64)])
        model.fit(X[:60], LABELS[:60], groups=LABELS[:60])
        assert "No group can be held out without losing a class" in model.why_
        assert [row.took_part for row in model.leaderboard_] == [True, False]

    def test_the_held_out_rows_are_not_seen(self):
        # Random targets: a model that has seen the rows would predict them.
        noise = rng.standard_normal(N)
        model = regressor([("nearest", KNeighborsRegressor(1)), MEAN], blend=False).fit(X, noise)
        assert names(model)[0] == "mean"
        assert row_of(model, "nearest").score < -0.5


class TestWeights:
    WEIGHTS = rng.integers(0, 3, N).astype(float)
    MODELS = (LINE, RIDGE, PROCESS)

    def test_candidates_and_losses_are_weighted(self, recorded):
        model = regressor([("a", Recorder()), LINE], cv=KFold(4), blend=False)
        model.fit(X, y, sample_weight=self.WEIGHTS)
        present = self.WEIGHTS > 0
        assert all((weights > 0).all() for _, _, weights in recorded)
        expected = np.empty(N)
        for train, test in KFold(4).split(X):
            line = Ridge().fit(X[train], y[train], self.WEIGHTS[train])
            expected[test] = line.predict(X[test])
        found = row_of(model, "line")
        assert found.score == pytest.approx(r2_score(y, expected, sample_weight=self.WEIGHTS))
        assert found.n_rows == np.count_nonzero(present)

    def test_a_weight_of_zero_removes_a_row(self):
        poisoned = np.where(self.WEIGHTS > 0, y, 1e6)
        present = self.WEIGHTS > 0
        ours = regressor(self.MODELS).fit(X, poisoned, sample_weight=self.WEIGHTS)
        theirs = regressor(self.MODELS).fit(X[present], y[present], self.WEIGHTS[present])
        assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-10)
        assert ours.leaderboard_[0].loss == theirs.leaderboard_[0].loss

    def test_a_weight_of_two_is_a_copy(self):
        rows = np.repeat(np.arange(N), self.WEIGHTS.astype(int))
        ours = regressor(self.MODELS, blend=False).fit(X, y, sample_weight=self.WEIGHTS)
        theirs = regressor(self.MODELS, blend=False).fit(X[rows], y[rows])
        assert names(ours) == names(theirs)
        for one in ours.leaderboard_:
            assert row_of(theirs, one.name).loss == pytest.approx(one.loss, rel=1e-4)
        assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=1e-4, atol=1e-5)

    def test_candidates_without_weights(self):
        with pytest.warns(UserWarning, match="near was left out .*takes no sample_weight"):
            model = regressor([("near", NEAREST[1]), LINE]).fit(X, y, sample_weight=self.WEIGHTS)
        assert [row.took_part for row in model.leaderboard_] == [True, False]
        with pytest.raises(ValueError, match="KNeighborsRegressor takes no sample_weight"):
            regressor([NEAREST]).fit(X, y, sample_weight=self.WEIGHTS)

    @pytest.mark.parametrize("unit", repeats([1e-300, 1e12, 1e-12, 1e300]))
    def test_the_unit_of_weights_does_not_matter(self, unit):
        candidates = [LINE, MEAN]
        plain = regressor(candidates).fit(X, y, sample_weight=self.WEIGHTS + 1)
        other = regressor(candidates).fit(X, y, sample_weight=(self.WEIGHTS + 1) * unit)
        assert row_of(other, "mean").loss == pytest.approx(row_of(plain, "mean").loss)
        assert row_of(other, "mean").standard_error == pytest.approx(
            row_of(plain, "mean").standard_error
        )

    def test_class_weights_are_sample_weights(self):
        weights = {"high": 3.0, "low": 1.0, "middle": 2.0}
        model = classifier(
            class_weight=weights,
            candidates=[("line", LogisticRegression()), ("other", LogisticRegression(C=1e-3))],
        )
        of_rows = np.array([weights[label] for label in LABELS])
        ours = model.fit(X, LABELS)
        theirs = clone(model).set_params(class_weight=None).fit(X, LABELS, of_rows)
        assert_array_equal(ours.predict_proba(NEW), theirs.predict_proba(NEW))
        assert ours.leaderboard_[0].loss == theirs.leaderboard_[0].loss
        balanced = clone(model).set_params(class_weight="balanced").fit(X, LABELS)
        assert balanced.leaderboard_[0].loss != ours.leaderboard_[0].loss
        with pytest.raises(ValueError, match=r"class_weight=.*keys that are not in y"):
            clone(model).set_params(class_weight={"heigh": 1.0}).fit(X, LABELS)


class TestRefit:
    def test_without_refit_the_validated_model_is_kept(self, recorded):
        model = regressor([("a", Recorder()), MEAN], refit=False, blend=False).fit(X, y)
        assert len(recorded) == 1  # one fold, though the table is small
        (train, train_y, _) = recorded[0]
        assert len(train) + model.leaderboard_[0].n_rows == N
        assert_array_equal(model.predict(NEW), np.full(300, train_y.mean()))

    def test_one_split_is_needed(self):
        with pytest.raises(ValueError, match="refit=False needs one held-out part, but cv has 3"):
            regressor(refit=False, cv=3).fit(X, y)
        cv = ShuffleSplit(1, random_state=0)
        model = regressor([LINE, MEAN], refit=False, cv=cv).fit(X, y)
        train, _ = next(cv.split(X))
        assert_array_equal(model.predict(NEW), Ridge().fit(X[train], y[train]).predict(NEW))


class TestSeeds:
    def test_seeds_select_the_folds(self):
        losses = [
            row_of(regressor(random_state=seed).fit(X, y), "line").loss
            for seed in (0, np.int64(0), 1, None, np.random.RandomState(0))
        ]
        assert losses[0] == losses[1] != losses[2]
        assert len(set(losses)) == 4

    def test_a_generator_advances(self):
        for state in (np.random.default_rng(5), np.random.RandomState(5)):
            model = regressor(random_state=state)
            first, second = (row_of(model.fit(X, y), "line").loss for _ in "12")
            assert first != second
        model = regressor(random_state=np.random.default_rng(5))
        again = regressor(random_state=np.random.default_rng(5))
        assert row_of(model.fit(X, y), "line").loss == row_of(again.fit(X, y), "line").loss

    def test_the_seed_reaches_the_features(self):
        model = regressor([FeaturesCandidate(64)], random_state=7).fit(X[:30], y[:30])
        assert model.model_.random_state == 7

    @pytest.mark.parametrize("seed", [-1, 1.5, "zero"])
    def test_bad_seeds(self, seed):
        with pytest.raises((ValueError, TypeError), match=r"random_state=.* is not valid"):
            regressor(random_state=seed).fit(X, y)


class Slow(Ridge):
    """A candidate that takes as long as a test sets on a fake clock."""

    def __init__(self, seconds=1.0):
        super().__init__()
        self.seconds = seconds

    def fit(self, X, y):
        CLOCK.now += self.seconds * len(y) / N
        return super().fit(X, y)


class Clock:
    now = 0.0


CLOCK = Clock()


@pytest.fixture
def clock(monkeypatch):
    CLOCK.now = 0.0
    monkeypatch.setattr("quadfeat.front_door.timing.time.monotonic", lambda: CLOCK.now)
    return CLOCK


class TestTimeLimit:
    @pytest.mark.filterwarnings("ignore:There was no time for the fit")
    def test_candidates_without_time_are_left_out(self, clock):
        many = [("a", Slow(30)), ("b", Slow(40)), ("c", Slow(50))]
        model = KernelRegressor(60, candidates=many, cv=ShuffleSplit(1, random_state=0))
        model.fit(X, y)
        late = row_of(model, "c")
        assert not late.took_part
        assert late.note == "no time was left of 60 s"
        assert "C left out: no time was left of 60 s." in model.why_

    def test_time_is_reserved_for_the_fit_to_all_rows(self, clock):
        # Both fit into 100 seconds, but then none is left to fit the winner to all rows.
        many = [("a", Slow(40)), ("b", Slow(40))]
        cv = [(np.arange(200), np.arange(200, N))]
        model = KernelRegressor(100, candidates=many, cv=cv).fit(X, y)
        assert clock.now <= 100
        assert sum(row.took_part for row in model.leaderboard_) == 2
        # Here, only the fit of the first one to all rows is possible.
        clock.now = 0.0
        with pytest.warns(UserWarning, match="time_limit=60 was over after the first candidate, a"):
            model.set_params(time_limit=60).fit(X, y)
        assert [row.took_part for row in model.leaderboard_] == [True, False]
        assert clock.now == 60
        # Less time than the final fit needs is not reserved for it.
        clock.now = 0.0
        with pytest.warns(UserWarning, match="no time for the fit .* Increase time_limit=50"):
            model.set_params(time_limit=50).fit(X, y)
        assert [row.took_part for row in model.leaderboard_] == [True, True]
        assert clock.now == 40
        assert "no time for the fit to all 400 rows" in model.why_

    def test_a_short_final_fit_runs_even_if_it_is_late(self, clock):
        cv = [(np.arange(200), np.arange(200, N))]
        many = [("a", Slow(4)), ("b", Slow(200))]
        model = KernelRegressor(60, candidates=many, cv=cv, blend=False).fit(X, y)
        assert model.leaderboard_[0].name == "a"
        assert clock.now == 2 + 100 + 4
        assert "no time for the fit" not in model.why_

    @pytest.mark.filterwarnings("ignore:time_limit=")
    def test_without_time_for_it_the_validated_model_is_used(self, clock):
        cv = [(np.arange(300), np.arange(300, N))]
        model = KernelRegressor(60, candidates=[("a", Slow(40)), LINE], cv=cv)
        with pytest.warns(UserWarning, match="fitted to 300 of them. Increase time_limit=60"):
            model.fit(X, y)
        assert clock.now == 30
        assert "no time for the fit to all 400 rows" in model.why_
        assert "300 of them" in model.why_
        assert_array_equal(model.predict(NEW), Ridge().fit(X[:300], y[:300]).predict(NEW))
        # The first part of a time series is too small for that.
        clock.now = 0.0
        model.set_params(cv=TimeSeriesSplit(3)).fit(X, y)
        assert_array_equal(model.predict(NEW), Ridge().fit(X, y).predict(NEW))
        assert "The fit took" in model.why_

    def test_short_final_fits_run_at_any_rate(self, clock):
        model = KernelRegressor(0.01, candidates=[("a", Slow(0.9)), LINE])
        with pytest.warns(UserWarning, match="time_limit=0.01 was over after the first candidate"):
            model.fit(X, y)
        assert_array_equal(model.predict(NEW), Ridge().fit(X, y).predict(NEW))

    def test_the_contest_ends_after_a_fold(self, clock):
        cv = KFold(4)
        model = KernelRegressor(60, candidates=[("a", Slow(20)), ("b", Slow(0))], cv=cv).fit(X, y)
        # After a third fit of 15 seconds, less than the 20 seconds of the final fit are left.
        assert "The time limit ended the contest after 3 of 4 folds." in model.why_
        assert "compared on the first 2 of 3 folds" in model.why_
        assert model.leaderboard_[0].n_rows == N / 2
        # A tenth more than the limit is allowed.
        assert clock.now == 65
        assert "The fit took 65.0 s (time_limit=60)." in model.why_

    def test_a_search_that_is_hardly_begun_warns(self):
        model = KernelRegressor(1e-4, candidates=["neighbors", FeaturesCandidate(64)])
        with pytest.warns(UserWarning, match="time_limit=0.0001") as caught:
            model.fit(X[:150], y[:150])
        assert len(caught) == 1
        assert "search cut by its share of time_limit" in model.leaderboard_[0].note
        assert "The fit took" in model.why_
        assert np.isfinite(model.predict(NEW)).all()
        with pytest.warns(UserWarning, match="ended the search at its first kernel: features"):
            KernelRegressor(1e-4, candidates=[FeaturesCandidate(64)]).fit(X[:150], y[:150])

    @pytest.mark.parametrize("limit", [1e9, 1e300, None])
    def test_large_limits_change_nothing(self, limit):
        # All tests turn warnings into errors, so this also checks that there is none.
        model = KernelRegressor(limit, candidates=[FeaturesCandidate(64)]).fit(X[:60], y[:60])
        expected = regressor([FeaturesCandidate(64)]).fit(X[:60], y[:60])
        assert_array_equal(model.predict(NEW), expected.predict(NEW))

    def test_more_features_need_time(self):
        candidates = [FeaturesCandidate(64), MoreFeaturesCandidate(200_000)]
        model = KernelRegressor(600, candidates=candidates, cv=ShuffleSplit(1, random_state=0))
        model.fit(X[:120], y[:120])
        assert "100,000 features need about" in row_of(model, "more features").note
        few = regressor([FeaturesCandidate(256), MoreFeaturesCandidate(512)])
        few.set_params(cv=ShuffleSplit(1, random_state=0)).fit(X[:60], y[:60])
        assert "need no more than 256 features" in row_of(few, "more features").note

    def test_progress(self, capsys):
        regressor(verbose=True).fit(X, y)
        lines = capsys.readouterr().err.splitlines()
        assert sum("on fold 1 of 3" in line for line in lines) == 3
        assert "to all rows" in lines[-1]
        assert all(line.startswith("KernelRegressor: ") for line in lines)


class Interrupting(Ridge):
    """Behaves as if the user pressed Ctrl-C in one of its fits."""

    calls = 0

    def __init__(self, at=1):
        super().__init__()
        self.at = at

    def fit(self, X, y):
        Interrupting.calls += 1
        if Interrupting.calls == self.at:
            raise KeyboardInterrupt
        return super().fit(X, y)


@pytest.fixture
def calls():
    Interrupting.calls = 0


@pytest.mark.usefixtures("calls")
class TestInterrupts:
    def test_the_best_so_far_is_kept(self):
        model = regressor([MEAN, LINE, ("c", Interrupting()), NEAREST]).fit(X, y)
        assert names(model)[0] == "line"
        assert "interrupted" in model.why_
        assert "interrupted before its turn" in row_of(model, "nearest").note
        assert_array_equal(model.predict(NEW), Ridge().fit(X, y).predict(NEW))

    def test_before_the_first_candidate_it_is_raised(self):
        model = regressor([MEAN, LINE]).fit(X, y)
        before = model.predict(NEW)
        with pytest.raises(KeyboardInterrupt):
            model.set_params(candidates=[("c", Interrupting()), LINE]).fit(X, y)
        assert_array_equal(model.predict(NEW), before)

    def test_in_a_later_fold(self):
        model = regressor([("c", Interrupting(2)), MEAN], blend=False).fit(X, y)
        assert model.leaderboard_[0].name == "c"
        assert model.leaderboard_[0].n_rows < N
        assert "interrupted" in model.why_

    def test_in_the_final_fit(self):
        cv = [(np.arange(300), np.arange(300, N))]
        model = regressor([("c", Interrupting(2)), MEAN], cv=cv, blend=False).fit(X, y)
        assert "fit to all rows was interrupted" in model.why_
        assert_array_equal(model.predict(NEW), Ridge().fit(X[:300], y[:300]).predict(NEW))

    def test_a_search_that_swallows_it(self, capsys):
        class Swallowing(Ridge):
            def fit(self, X, y):
                # A kernel search then uses its best kernel.
                with contextlib.suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                return super().fit(X, y)

        before = signal.getsignal(signal.SIGINT)
        model = regressor([("c", Swallowing()), MEAN], cv=3).fit(X, y)
        assert signal.getsignal(signal.SIGINT) is before
        assert "interrupted" in model.why_
        assert not row_of(model, "mean").took_part
        assert "is fitted to all rows. Press Ctrl-C again to abort." in capsys.readouterr().err

    @pytest.mark.parametrize("at", [2, 3], ids=["in the contest", "in the fit to all rows"])
    def test_a_second_one_aborts(self, at):
        class Twice(Ridge):
            calls = 0

            def fit(self, X, y):
                Twice.calls += 1
                if Twice.calls == 2:  # handled, as by a kernel search
                    with contextlib.suppress(KeyboardInterrupt):
                        signal.raise_signal(signal.SIGINT)
                if Twice.calls == at:
                    signal.raise_signal(signal.SIGINT)
                return super().fit(X, y)

        cv = [(np.arange(300), np.arange(300, N))]
        model = regressor([("a", Twice()), ("b", Twice()), MEAN], cv=cv, blend=False)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert Twice.calls == at
        assert not hasattr(model, "_answer")


class TestThreads:
    def test_fits_at_once_leave_the_warning_filters_alone(self):
        before = list(warnings.filters)
        start = threading.Barrier(4)
        failed = []

        class Meeting(Ridge):
            def fit(self, X, y):
                time.sleep(0.002 * len(X) / N)
                return super().fit(X, y)

        def fit(seed):
            start.wait()
            try:
                for _ in range(3):
                    model = regressor([("a", Meeting()), MEAN], random_state=seed).fit(X, y)
                    assert_array_equal(model.predict(NEW), Ridge().fit(X, y).predict(NEW))
                    model.predict_interval(NEW)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=fit, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert warnings.filters == before

    def test_warnings_of_candidates_are_hidden_until_the_final_fit(self):
        class Talking(ClassifierMixin, BaseEstimator):
            def fit(self, X, y):
                warnings.warn(f"{len(X)} rows", UserWarning, stacklevel=2)
                self.classes_ = np.unique(y)
                return self

            def predict_proba(self, X):
                return np.full((len(X), 3), 1 / 3)

        with pytest.warns(UserWarning, match="rows") as caught:
            classifier(candidates=[("a", Talking())], cv=3).fit(X, LABELS)
        assert [str(one.message) for one in caught] == ["400 rows"]

    def test_one_model_is_fitted_in_turns(self):
        model = regressor([MEAN, LINE])
        tables = [(X, y), (X[:, :2], y)]
        threads = [threading.Thread(target=model.fit, args=table) for table in tables * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        width = model.n_features_in_
        expected = Ridge().fit(X[:, :width], y).predict(NEW[:, :width])
        assert_array_equal(model.predict(NEW[:, :width]), expected)
