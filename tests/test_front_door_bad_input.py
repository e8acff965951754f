"""Test that the kernel models of the front door reject bad input, or give the right answer."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    QuadratureRidge,
)
from quadfeat.front_door import FeaturesCandidate
from slow import repeats

rng = np.random.default_rng(0)
N = 120
X = rng.standard_normal((N, 3))
y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(N)
LABELS = np.where(y > 0, "yes", "no")
NEW = rng.standard_normal((30, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])

RIDGE = QuadratureRidge("gaussian", rule="orf", n_components=60, alpha=0.1, random_state=0)
PROCESS = LocalGaussianProcess("gaussian", n_neighbors=20, alpha=0.05)
LEARNED = LocalGaussianProcess("matern32", lengthscales="isotropic")


def regressor(**settings):
    given = {"time_limit": None, "candidates": [("ridge", RIDGE), ("process", PROCESS)]}
    return KernelRegressor(**{**given, **settings})


def classifier(**settings):
    given = {"time_limit": None, "candidates": [FeaturesCandidate(64)]}
    return KernelClassifier(**{**given, **settings})


def contest_of_searches():
    return KernelRegressor(None, candidates=["neighbors", FeaturesCandidate(64)])


class TestRows:
    def test_a_column_without_values(self):
        rows = np.column_stack([X, np.full(N, np.nan)])
        model = regressor().fit(rows, y)
        assert model.encoder_.kinds_[-1] == "no values"
        assert model.relevance_[-1] == 0.0
        expected = regressor().fit(FRAME.to_numpy(), y).predict(NEW)
        assert_allclose(model.predict(np.column_stack([NEW, np.full(30, np.nan)])), expected)
        with pytest.raises(ValueError, match="X has no column to learn from"):
            regressor().fit(rows[:, 3:], y)

    @pytest.mark.parametrize("bad", [np.inf, -np.inf])
    def test_infinite_values(self, bad):
        rows = X.copy()
        rows[3, 1] = bad
        for make, name in (
            (np.array, "column 1"),
            (sparse.csr_array, "column 1"),
            (lambda rows: pd.DataFrame(rows, columns=["a", "b", "c"]), "column 'b'"),
            (lambda rows: pl.DataFrame(rows, schema=["a", "b", "c"]), "column 'b'"),
        ):
            message = f"infinity .*{name} holds such values.*KernelRegressor needs finite"
            with pytest.raises(ValueError, match=message):
                regressor().fit(make(rows), y)
            with pytest.raises(ValueError, match=message):
                regressor().fit(make(X), y).predict(make(rows))

    def test_integers_that_are_too_large(self):
        rows = X.astype(object)
        rows[3, 1] = 10**400
        with pytest.raises(ValueError, match=r"value too large .*column 1 holds such"):
            regressor().fit(rows, y)

    def test_missing_values_at_predict(self):
        # Arrays without them at fit are not encoded.
        with pytest.raises(
            ValueError, match=r"NaN: column 1 holds missing values.*KernelRegressor"
        ):
            regressor().fit(X, y).predict([[0.0, np.nan, 0.0]])
        # Data frames always are.
        model = regressor().fit(FRAME, y)
        missing = FRAME[:2].assign(b=np.nan)
        median = FRAME[:2].assign(b=FRAME["b"].median())
        assert_array_equal(model.predict(missing), model.predict(median))

    @pytest.mark.parametrize("n_rows", [2, 3, 5, 9])
    def test_few_rows(self, n_rows):
        model = KernelRegressor().fit(X[:n_rows], y[:n_rows])
        assert f"{n_rows} rows are too few to compare candidates" in model.why_
        assert np.isfinite(model.predict(NEW)).all()
        assert np.abs(model.predict(NEW)).max() <= 10 * np.abs(y[:n_rows]).max()
        with pytest.raises(ValueError, match=r"coverage=0.95 needs at least 19 training rows"):
            model.predict_interval(NEW, 0.95)
        labels = np.array(["a", "b"])[np.arange(n_rows) % 2]
        proba = KernelClassifier().fit(X[:n_rows], labels).predict_proba(NEW)
        assert_allclose(proba.sum(axis=1), 1.0)

    def test_ten_rows_are_compared(self):
        model = regressor().fit(X[:10], y[:10])
        assert model.leaderboard_[0].n_rows == 10

    def test_one_row(self):
        for rows, targets, weights in (
            (X[:1], y[:1], None),
            (FRAME[:1], y[:1], None),
            (X, y, np.arange(N) == 4),
        ):
            with pytest.raises(
                ValueError, match=r"1 sample\(s\).*a minimum of 2 is required by KernelRegressor"
            ):
                regressor().fit(rows, targets, sample_weight=weights)

    @pytest.mark.parametrize(
        "empty", [X[:0], X[:, :0], FRAME[:0], FRAME[[]], pl.DataFrame(FRAME)[:0], []], ids=str
    )
    def test_empty_tables(self, empty):
        with pytest.raises(ValueError, match=r"0 sample|0 feature|Expected 2D"):
            regressor().fit(empty, y[: len(empty)])
        with pytest.raises(ValueError, match=r"0 sample|0 feature|Expected 2D|lacks the column"):
            regressor().fit(FRAME, y).predict(empty)

    def test_many_columns(self):
        wide = rng.standard_normal((60, 3000))
        wide[:, 0] *= 30
        # Orthogonal features of 3,000 columns would take seconds.
        given = [("ridge", clone(RIDGE).set_params(rule="rff")), ("process", PROCESS)]
        model = regressor(candidates=given, cv=2).fit(wide, wide[:, 0])
        assert model.predict(wide).shape == (60,)
        assert model.relevance_.shape == (3000,)
        frame = pd.DataFrame(wide).rename(columns=str)
        assert_allclose(clone(model).fit(frame, wide[:, 0]).predict(frame), model.predict(wide))

    def test_one_column(self):
        model = regressor().fit(X[:, :1], np.sin(X[:, 0]))
        assert model.score(NEW[:, :1], np.sin(NEW[:, 0])) > 0.9
        assert_array_equal(model.relevance_, [1.0])

    def test_constant_columns_change_nothing(self):
        padded = np.insert(X, [0, 2], 7.0, axis=1)
        ours = contest_of_searches().set_params(cv=2).fit(padded, y)
        assert ours.relevance_[[0, 3]].tolist() == [0.0, 0.0]
        assert ours.score(padded, y) > 0.9
        moved = np.insert(NEW, [0, 2], 7.0, axis=1)
        assert np.isfinite(ours.predict(moved)).all()

    def test_equal_rows(self):
        ones = np.ones((40, 2))
        with pytest.warns(UserWarning, match="all rows in X are equal"):
            model = KernelRegressor(None).fit(ones, y[:40])
        assert_allclose(model.predict(ones[:1]), y[:40].mean())
        same = KernelRegressor(None).fit(ones, ones[:, 0])
        assert same.predict(ones[:1]) == 1.0
        labels = LABELS[:40]
        proba = KernelClassifier(None).fit(ones, labels).predict_proba(ones[:1])
        assert_allclose(proba, [[np.mean(labels == "no"), np.mean(labels == "yes")]], atol=0.02)

    @pytest.mark.parametrize(
        ("table", "match"),
        [
            (X[:, :, None], "dim 3"),
            (X[:, 0], "1D array"),
            (FRAME["a"], "Series"),
            (X + 1j, "[Cc]omplex"),
            (None, "Expected 2D|None"),
        ],
        ids=["3d", "1d", "series", "complex", "none"],
    )
    def test_other_tables(self, table, match):
        with pytest.raises(ValueError, match=match):
            regressor().fit(table, y)

    def test_lengths(self):
        for table in (X, FRAME, sparse.csr_array(X)):
            with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[120, 5\]"):
                regressor().fit(table, y[:5])
        with pytest.raises(ValueError, match=r"sample_weight.shape == \(5,\)"):
            regressor().fit(X, y, sample_weight=y[:5])
        with pytest.raises(ValueError, match="inconsistent"):
            regressor().fit(X, y, groups=y[:5])

    @pytest.mark.parametrize(
        ("groups", "match"),
        [
            (np.zeros(N), "groups has one value"),
            (np.zeros((N, 2)), r"groups has shape \(120, 2\)"),
            (np.where(np.arange(N) == 3, np.nan, 1.0), "groups has missing values, first in row 3"),
            (np.array(["a", None] * (N // 2)), "groups has missing values, first in row 1"),
        ],
        ids=["one", "2d", "nan", "none"],
    )
    def test_groups(self, groups, match):
        with pytest.raises(ValueError, match=match):
            regressor().fit(X, y, groups=groups)

    def test_groups_without_held_out_rows(self):
        groups = np.arange(N) % 4
        alone = regressor(candidates=[("a", Ridge())])
        with pytest.warns(UserWarning, match="groups has no effect: a is the only candidate"):
            alone.fit(X, y, groups=groups)
        alone.set_params(cv=3).fit(X, y, groups=groups)  # without a warning

    @pytest.mark.parametrize(
        ("cv", "match"),
        [
            ([], "gives no rows to fit or no held-out rows"),
            ([(np.arange(N), [])], "gives no rows to fit or no held-out rows"),
            ([(np.arange(10), np.arange(200, 210))], "but X has 120 rows"),
            ([(np.arange(10.0), np.arange(10.0))], "but X has 120 rows"),
            ("five", "Expected `cv`"),
        ],
        ids=["empty", "nothing held out", "out of range", "floats", "text"],
    )
    def test_splitters(self, cv, match):
        with pytest.raises(ValueError, match=match):
            regressor(cv=cv).fit(X, y)

    def test_training_rows_of_one_class(self):
        cv = [(np.flatnonzero(LABELS == "no"), np.flatnonzero(LABELS == "yes"))]
        with pytest.raises(ValueError, match=r"training rows of fold 1 of cv=.* have one class"):
            classifier(cv=cv).fit(X, LABELS)


class TestTargets:
    def test_equal_targets(self):
        for value in (0.0, 3.0, 1e9 + 0.1):
            model = KernelRegressor().fit(X, np.full(N, value))
            assert_allclose(model.predict(NEW), value, rtol=1e-15)
            lower, upper = model.predict_interval(NEW)
            assert_allclose(lower, value, rtol=1e-15)
            assert_allclose(upper, value, rtol=1e-15)
            assert "All targets in y are equal" in model.why_

    def test_one_class(self):
        for weights in (None, (LABELS == "no").astype(float)):
            labels = np.full(N, "no") if weights is None else LABELS
            with pytest.raises(ValueError, match="y has only one class, 'no'"):
                classifier().fit(X, labels, sample_weight=weights)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_targets_that_are_not_finite(self, bad):
        targets = np.where(np.arange(N) == 3, bad, y)
        for model in (regressor(), classifier()):
            for table in (X, FRAME):
                with pytest.raises(ValueError, match=r"Input y contains (NaN|infinity)"):
                    model.fit(table, targets)

    def test_kinds_of_targets(self):
        with pytest.raises(ValueError, match=r"y holds text, such as '.*Use KernelClassifier"):
            regressor().fit(X, LABELS)
        with pytest.raises(ValueError, match="y holds dates or durations"):
            regressor().fit(X, pd.Series(pd.date_range("2024-01-01", periods=N)))
        with pytest.raises(ValueError, match=r"label type: continuous.*Use KernelRegressor"):
            classifier().fit(X, y)
        missing = np.where(np.arange(N) == 3, None, LABELS.astype(object))
        with pytest.raises(ValueError, match=r"1 of 120 rows has no target. KernelClassifier"):
            classifier().fit(X, missing)
        for model in (regressor(), classifier()):
            for table in (X, FRAME):
                with pytest.raises(ValueError, match="requires y to be passed"):
                    model.fit(table)
            for path in ("rows.csv", Path("folder")):
                with pytest.raises(TypeError, match=r"X is the .* '(rows.csv|folder)'.*Read the"):
                    model.fit(path)
        with pytest.raises(ValueError, match=r"[Cc]omplex"):
            regressor().fit(X, y + 1j)

    @pytest.mark.parametrize("kind", [bool, int, np.int8, str])
    def test_types_of_labels(self, kind):
        labels = (y > 0).astype(kind)
        model = classifier().fit(X, labels)
        assert model.classes_.dtype == np.unique(labels).dtype
        assert np.mean(model.predict(X) == labels) > 0.9

    def test_shapes_of_targets(self):
        for candidates in (
            regressor().candidates,
            [("near", KNeighborsRegressor()), ("line", Ridge())],
        ):
            model = regressor(candidates=candidates)
            for targets in (y[:, None], pd.DataFrame({"y": y}), np.column_stack([y, -y])):
                width = np.shape(targets)[1]
                assert model.fit(X, targets).predict(NEW).shape == (30, width)
                assert model.predict_interval(NEW)[0].shape == (30, width)
            flat = model.fit(X, y).predict(NEW)
            assert flat.shape == (30,)
            assert_allclose(model.fit(X, y[:, None]).predict(NEW)[:, 0], flat, rtol=1e-8)

    @pytest.mark.parametrize("factor", repeats([1e-6, 1e6, 1e-100, 1e100]))
    def test_units_of_targets(self, factor):
        model = regressor(candidates=[("process", LEARNED), ("line", Ridge())])
        ours = clone(model).fit(X, y)
        theirs = clone(model).fit(X, y * factor)
        assert_allclose(theirs.predict(NEW) / factor, ours.predict(NEW), rtol=1e-5, atol=1e-6)
        for one, other in zip(ours.leaderboard_, theirs.leaderboard_, strict=True):
            assert other.loss == pytest.approx(one.loss, rel=1e-3)
            assert other.score == pytest.approx(one.score, rel=1e-3)

    def test_origin_of_targets(self):
        ours, theirs = (regressor().fit(X, y + shift) for shift in (0.0, 1e9))
        assert_allclose(theirs.predict(NEW) - 1e9, ours.predict(NEW), atol=1e-5)
        assert theirs.leaderboard_[0].loss == pytest.approx(ours.leaderboard_[0].loss, rel=1e-4)


@pytest.fixture(scope="module")
def plain():
    return contest_of_searches().set_params(cv=2).fit(X, y)


class TestUnitsOfColumns:
    UNITS = np.array([1e-6, 1.0, 1e6])

    @pytest.mark.parametrize(
        ("factor", "shift", "tolerance"),
        repeats([(UNITS, 0.0, 1e-5), (1.0, 1e6, 1e-4), (UNITS, 1e3, 1e-4)]),
        ids=str,
    )
    def test_predictions_are_the_same(self, plain, factor, shift, tolerance):
        moved = clone(plain).fit(X * factor + shift, y)
        assert [row.name for row in moved.leaderboard_] == [row.name for row in plain.leaderboard_]
        assert_allclose(
            moved.predict(NEW * factor + shift), plain.predict(NEW), rtol=0, atol=tolerance
        )
        assert_allclose(moved.relevance_, plain.relevance_, atol=1e-3)

    def test_far_from_the_origin(self):
        moved = regressor(candidates=[("process", LEARNED), ("line", Ridge())]).fit(X + 1e9, y)
        assert moved.score(X + 1e9, y) > 0.9


class TestWeights:
    def test_bad_weights(self):
        for bad, match in (
            (-np.ones(N), "Negative values"),
            (np.full(N, np.nan), "NaN"),
            (np.full(N, np.inf), "infinity"),
            (np.zeros(N), "sample_weight is zero for every row"),
        ):
            with pytest.raises(ValueError, match=match):
                regressor().fit(X, y, sample_weight=bad)

    @pytest.mark.parametrize("unit", [1e-12, 1e12])
    def test_units_of_weights(self, unit):
        weights = rng.uniform(0.5, 2.0, N)
        model = regressor(candidates=[("process", LEARNED), ("line", Ridge(1e-30))])
        ours = clone(model).fit(X, y, sample_weight=weights)
        theirs = clone(model).fit(X, y, sample_weight=weights * unit)
        assert_allclose(theirs.predict(NEW), ours.predict(NEW), rtol=1e-4, atol=1e-5)
        assert theirs.leaderboard_[0].loss == pytest.approx(ours.leaderboard_[0].loss, rel=1e-4)

    def test_weights_of_different_sizes(self):
        weights = np.where(np.arange(N) % 2, 1e-12, 1e12)
        model = regressor(candidates=[("process", LEARNED), ("line", Ridge())])
        model.fit(X, y, sample_weight=weights)
        assert 0.5 < model.score(X[::2], y[::2]) <= 1


class TestColumns:
    def test_duplicate_names(self):
        frame = pd.DataFrame(X, columns=["a", "b", "a"])
        with pytest.raises(ValueError, match="X has several columns with the name 'a'"):
            regressor().fit(frame, y)
        with pytest.raises(ValueError, match="X has several columns with the name 'a'"):
            regressor().fit(FRAME, y).predict(frame)

    def test_a_frame_at_fit_and_an_array_at_predict(self):
        model = regressor().fit(FRAME, y)
        with pytest.warns(UserWarning, match="valid feature names, but KernelRegressor was fitted"):
            found = model.predict(X)
        assert_array_equal(found, model.predict(FRAME))

    def test_an_array_at_fit_and_a_frame_at_predict(self):
        model = regressor().fit(X, y)
        with pytest.warns(UserWarning, match="KernelRegressor was fitted without feature names"):
            found = model.predict(FRAME)
        assert_array_equal(found, model.predict(X))
        with (
            pytest.warns(UserWarning, match="fitted without feature names"),
            pytest.raises(ValueError, match=r"column 'b' holds text, such as 'x'.*KernelRegressor"),
        ):
            model.predict(FRAME.assign(b="x"))

    def test_other_columns_at_predict(self):
        model = regressor().fit(FRAME, y)
        for table, match in (
            (FRAME[["a", "c"]], "X lacks the column 'b', which KernelRegressor was fitted with"),
            (FRAME.assign(d=1), "X has the column 'd', which KernelRegressor was not fitted with"),
            (
                FRAME.assign(b="x"),
                "column 'b' of X contains 'x', but it contained numbers when Ker",
            ),
        ):
            with pytest.raises(ValueError, match=match):
                model.predict(table)
        with pytest.raises(
            ValueError, match="X has 2 features, but KernelRegressor is expecting 3"
        ):
            regressor().fit(X, y).predict(X[:, :2])

    def test_names_that_are_no_text(self):
        numbered = pd.DataFrame(X)
        model = regressor().fit(numbered, y)
        assert_array_equal(model.predict(numbered), regressor().fit(FRAME, y).predict(FRAME))
        mixed = pd.DataFrame(X, columns=["a", 1, 2.0])
        with pytest.raises(TypeError, match="Feature names are only supported"):
            regressor().fit(mixed, y)

    def test_lazy_tables(self):
        with pytest.raises(TypeError, match=re.escape("pass X.collect()")):
            regressor().fit(pl.LazyFrame(X), y)


class TestParameters:
    @pytest.mark.parametrize(
        ("settings", "error", "match"),
        [
            ({"time_limit": 0}, ValueError, "time_limit=0 is not valid"),
            ({"time_limit": "1h"}, TypeError, "time_limit='1h' is not valid"),
            ({"time_limit": np.inf}, ValueError, "time_limit=inf is not valid"),
            ({"candidates": "features"}, TypeError, "pass 'auto' or a list"),
            ({"candidates": []}, ValueError, "it is empty"),
            ({"candidates": ["features"] * 2}, ValueError, "'features' occurs twice"),
            ({"candidates": ["feature"]}, ValueError, "Did you mean 'features'"),
            ({"candidates": ["more features", "features"]}, ValueError, "has to come before it"),
            ({"candidates": [3]}, TypeError, "3 is neither a name"),
            ({"candidates": [("a", 3)]}, TypeError, "3 is not an estimator"),
            ({"candidates": [("a", Ridge)]}, TypeError, "is not an estimator"),
            ({"blend": 1}, TypeError, "blend=1 is not valid"),
            ({"refit": "no"}, TypeError, "refit='no' is not valid"),
            (
                {"verbose": -1},
                ValueError,
                "verbose=-1 is not valid: pass True, False or an integer",
            ),
            ({"n_jobs": 0}, ValueError, "n_jobs=0 is not valid"),
        ],
        ids=str,
    )
    def test_bad_values(self, settings, error, match):
        for model in (KernelRegressor(**settings), KernelClassifier(**settings)):
            with pytest.raises(error, match=match):
                model.fit(X, LABELS if isinstance(model, KernelClassifier) else y)
            assert not hasattr(model, "_answer")

    def test_class_weight(self):
        with pytest.raises((ValueError, TypeError), match="class_weight='all' is not valid"):
            classifier(class_weight="all").fit(X, LABELS)

    @pytest.mark.parametrize("coverage", [0, 1, 1.5, "most"])
    def test_coverage(self, coverage):
        with pytest.raises((ValueError, TypeError), match="coverage="):
            regressor().fit(X, y).predict_interval(X, coverage)

    def test_what_needs_a_fit(self):
        model = KernelRegressor()
        for use in (
            lambda: model.predict(X),
            lambda: model.predict_interval(X),
            lambda: model.why_,
            lambda: model.leaderboard_,
            lambda: model.relevance_,
            lambda: model.model_,
            model.plot,
        ):
            with pytest.raises(NotFittedError):
                use()
        with pytest.raises(NotFittedError):
            KernelClassifier().predict_proba(X)

    def test_a_failed_fit_leaves_the_model_unchanged(self):
        model = regressor().fit(X, y)
        before = model.predict(NEW)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X[:, :2], np.full(N, np.nan))
        assert_array_equal(model.predict(NEW), before)
        assert model.n_features_in_ == 3

    def test_candidates_without_deviations(self):
        model = regressor(candidates=[("line", Ridge()), ("near", KNeighborsRegressor())])
        model.fit(X, y)
        assert not hasattr(model, "noise_variance_")
        with pytest.raises(AttributeError, match="return_std=True needs standard deviations"):
            model.predict(X, return_std=True)
        assert model.relevance_.tolist() == [0.0, 0.0, 0.0]
