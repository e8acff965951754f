"""Test that the kernel models take tables with columns of all kinds as they are."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    TableEncoder,
    load,
    save,
)
from quadfeat.kernels import Matern

N = 300


def table(n=N, seed=0):
    """Return a table with columns of all kinds, and two targets."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.gamma(2.0, 50.0, n),
            "rooms": rng.integers(1, 6, n),
            "city": rng.choice(["Basel", "Bern", "Genf"], n),
            "street": rng.choice([f"street {k}" for k in range(40)], n),
            "built": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "quality": pd.Categorical(
                rng.choice(["low", "fair", "high"], n), ["low", "fair", "high"], ordered=True
            ),
            "garden": rng.random(n) < 0.5,
            "empty": np.nan,
        }
    )
    price = (
        frame["size"] / 50
        + frame["city"].map({"Basel": 2.0, "Bern": 0.0, "Genf": -2.0})
        + frame["quality"].cat.codes
        + frame["garden"]
        + 0.1 * rng.standard_normal(n)
    )
    frame.loc[rng.random(n) < 0.1, "size"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    frame.loc[rng.random(n) < 0.1, "built"] = pd.NaT
    return frame, price.to_numpy()


FRAME, PRICE = table()
NEW, NEW_PRICE = table(200, seed=1)
LABELS = np.where(np.median(PRICE) < PRICE, "dear", "cheap")

RIDGE = QuadratureRidge(
    "gaussian", lengthscales="isotropic", rule="orf", n_components=60, alpha="loo", random_state=0
)
LINE = make_pipeline(StandardScaler(), Ridge())


def regressor(**settings):
    given = {"time_limit": None, "candidates": [("ridge", RIDGE), ("line", LINE)]}
    return KernelRegressor(**{**given, **settings})


def as_polars(frame):
    return pl.from_pandas(frame.assign(quality=frame["quality"].astype(str)))


@pytest.fixture(scope="module")
def model():
    return regressor().fit(FRAME, PRICE)


@pytest.fixture(scope="module")
def kernel_model():
    candidates = [
        ("ridge", RIDGE),
        ("process", LocalGaussianProcess("matern32", lengthscales="isotropic")),
    ]
    return regressor(candidates=candidates).fit(FRAME, PRICE)


class TestColumns:
    def test_predictions(self, model):
        assert model.score(NEW, NEW_PRICE) > 0.6
        best = model.leaderboard_[0]
        assert abs(model.score(NEW, NEW_PRICE) - best.score) < 0.15
        lower, upper = model.predict_interval(NEW, 0.9)
        assert 0.83 < np.mean((lower <= NEW_PRICE) & (upper >= NEW_PRICE)) < 0.97

    def test_names(self, model):
        assert model.feature_names_in_.tolist() == list(FRAME.columns)
        assert model.n_features_in_ == 8
        assert model.encoder_.kinds_ == [
            "number",
            "number",
            "category",
            "mean target",
            "date",
            "rank",
            "number",
            "no values",
        ]

    def test_relevance_is_that_of_input_columns(self, kernel_model):
        relevance = dict(zip(FRAME.columns, kernel_model.relevance_, strict=True))
        assert sum(relevance.values()) == pytest.approx(1.0)
        assert relevance["empty"] == 0.0
        assert min(relevance[name] for name in ("size", "city", "quality")) > 0

    def test_relevance_table_has_the_names_of_input_columns(self, kernel_model):
        table = kernel_model.relevance_table_
        named = dict(zip(FRAME.columns, kernel_model.relevance_, strict=True))
        assert dict(table) == named
        shares = [row.relevance for row in table]
        assert shares == sorted(shares, reverse=True)
        assert table[0].column == max(named, key=named.get)
        frame = pd.DataFrame(table)
        assert frame.columns.tolist() == ["column", "relevance"]
        assert str(table).splitlines()[1].split() == [table[0].column, f"{shares[0]:.3f}"]
        assert table._repr_html_().count("<tr>") == 1 + len(FRAME.columns)

    def test_relevance_table_of_an_array_has_positions(self):
        X = np.random.default_rng(0).standard_normal((60, 30))
        kernel = Matern(length_scale=np.where(np.arange(30) == 3, 0.5, 10.0))
        ridge = QuadratureRidge(kernel, alpha=1.0, n_components=20)
        model = KernelRegressor(candidates=[("ridge", ridge)]).fit(X, X[:, 3])
        table = model.relevance_table_
        assert table[0] == (3, model.relevance_[3])
        assert len(table) == 30
        *_, last = str(table).splitlines()
        assert last.startswith("10 more")
        assert len(str(table).splitlines()) == 22
        with pytest.raises(AttributeError):
            _ = KernelRegressor().relevance_table_

    def test_the_order_of_columns_does_not_matter(self, model):
        assert_array_equal(model.predict(NEW[NEW.columns[::-1]]), model.predict(NEW))
        assert_array_equal(
            model.score(NEW[NEW.columns[::-1]], NEW_PRICE), model.score(NEW, NEW_PRICE)
        )

    def test_unseen_categories_and_missing_values(self, model):
        odd = NEW[:3].assign(
            city=["Chur", None, "Bern"], street=["unknown", None, "street 1"], size=np.nan
        )
        odd["quality"] = ["unseen", None, "low"]
        assert np.isfinite(model.predict(odd)).all()
        everything = NEW[:1].assign(**dict.fromkeys(NEW.columns))
        assert np.isfinite(model.predict(everything)).all()

    def test_polars_and_pandas_agree(self):
        frame = FRAME.assign(quality=FRAME["quality"].astype(str))
        ours, theirs = regressor().fit(frame, PRICE), regressor().fit(as_polars(FRAME), PRICE)
        new = NEW.assign(quality=NEW["quality"].astype(str))
        expected = ours.predict(new)
        assert_allclose(theirs.predict(as_polars(NEW)), expected, rtol=1e-10)
        assert_allclose(theirs.predict(new), expected, rtol=1e-10)
        assert_allclose(
            theirs.predict(as_polars(NEW)[list(NEW.columns)[::-1]]), expected, rtol=1e-10
        )
        assert_allclose(ours.predict(as_polars(NEW)), expected, rtol=1e-10)

    def test_text_is_enough(self):
        # As read from a CSV file without types.
        frame = FRAME.assign(built=FRAME["built"].dt.strftime("%Y-%m-%d"))
        model = regressor().fit(frame, PRICE)
        assert model.encoder_.kinds_[4] == "date"
        new = NEW.assign(built=NEW["built"].dt.strftime("%Y-%m-%d"))
        assert_allclose(model.predict(new), regressor().fit(FRAME, PRICE).predict(NEW), rtol=1e-6)

    def test_arrays_of_objects_and_lists(self):
        columns = ["size", "city", "garden"]
        array = FRAME[columns].to_numpy(dtype=object)
        model = regressor().fit(array, PRICE)
        assert model.encoder_.kinds_ == ["number", "category", "number"]
        assert not hasattr(model, "feature_names_in_")
        expected = regressor().fit(FRAME[columns], PRICE).predict(FRAME[columns])
        assert_allclose(model.predict(array), expected, rtol=1e-10)
        rows = array.tolist()
        assert_allclose(regressor().fit(rows, PRICE).predict(rows[:5]), expected[:5], rtol=1e-10)

    def test_missing_values_in_arrays(self):
        array = FRAME[["size", "rooms"]].to_numpy(dtype=float)
        model = regressor().fit(array, PRICE)
        assert isinstance(model.encoder_, TableEncoder)
        assert np.isfinite(model.predict(array)).all()

    def test_numbers_are_not_encoded(self):
        array = FRAME[["rooms", "garden"]].to_numpy(dtype=float)
        for rows in (array, array.astype(np.float32), array.tolist(), sparse.csr_array(array)):
            model = regressor(candidates=[("ridge", RIDGE), ("near", KNeighborsRegressor())])
            model.fit(rows, PRICE)
            assert model.encoder_ is None
            assert model.predict(rows).shape == (N,)

    def test_classes(self):
        given = {"n_components": 60, "alpha": 1.0, "random_state": 0, "kernel": "gaussian"}
        candidates = [
            ("ridge", QuadratureRidgeClassifier(**given)),
            ("process", LocalGaussianProcessClassifier("gaussian", n_neighbors=20, alpha=0.1)),
            ("line", make_pipeline(StandardScaler(), LogisticRegression())),
            ("frequencies", DummyClassifier()),
        ]
        model = KernelClassifier(None, candidates=candidates).fit(FRAME, LABELS)
        truth = np.where(np.median(PRICE) < NEW_PRICE, "dear", "cheap")
        assert model.score(NEW, truth) > 0.8
        assert model.classes_.tolist() == ["cheap", "dear"]
        labels = pd.Series(LABELS, dtype="category")
        again = clone(model).fit(FRAME, labels)
        assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))


class Spy(RegressorMixin, BaseEstimator):
    """Keeps the columns that it was fitted to."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y):
        Spy.seen.append((X, y))
        return self

    def predict(self, X):
        Spy.seen.append((X, None))
        return np.zeros(len(X))


class TestLeakage:
    def test_the_encoder_does_not_see_held_out_targets(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(
            {"x": rng.standard_normal(60), "code": rng.choice([f"c{k}" for k in range(35)], 60)}
        )
        targets, cv = rng.standard_normal(60), [(np.arange(40), np.arange(40, 60))]
        model = regressor(candidates=[("spy", Spy())], cv=cv)
        seen = []
        for y in (targets, np.where(np.arange(60) < 40, targets, 1e3)):
            Spy.seen.clear()
            model.fit(frame, y)
            assert model.encoder_.kinds_[1].endswith("mean target")
            seen.append([table for table, _ in Spy.seen])
        (train, test, whole), (same_train, same_test, other) = seen
        assert_array_equal(train, same_train)
        assert_array_equal(test, same_test)
        assert not np.array_equal(whole, other)
        # All have the same outputs, so that a kernel suits all of them.
        assert train.shape[1] == test.shape[1] == whole.shape[1]

    def test_many_levels_of_chance_do_not_help(self):
        # Each level has few rows. Mean targets of the rows themselves would give targets away.
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"code": rng.choice([f"c{k}" for k in range(100)], 400)})
        noise = rng.standard_normal(400)
        near = ("near", KNeighborsRegressor(3))
        model = regressor(candidates=[near, ("ridge", RIDGE)]).fit(frame, noise)
        assert all(row.score < 0.1 for row in model.leaderboard_)
        assert model.score(frame, noise) < 0.4


class TestFiles:
    @pytest.fixture(params=["pickle", "file"])
    def again(self, request, kernel_model, tmp_path):
        if request.param == "pickle":
            return pickle.loads(pickle.dumps(kernel_model))
        save(kernel_model, tmp_path / "model")
        return load(tmp_path / "model")

    def test_they_hold_the_encoder_too(self, again, kernel_model):
        model = kernel_model
        assert_array_equal(again.predict(NEW), model.predict(NEW))
        assert_array_equal(again.predict(NEW[NEW.columns[::-1]]), model.predict(NEW))
        for ours, theirs in zip(
            again.predict_interval(NEW), model.predict_interval(NEW), strict=True
        ):
            assert_array_equal(ours, theirs)
        assert again.why_ == model.why_
        assert str(again.leaderboard_) == str(model.leaderboard_)
        assert_array_equal(again.relevance_, model.relevance_)
        assert_array_equal(again.feature_names_in_, model.feature_names_in_)
        assert repr(again.leaderboard_[0].estimator) == repr(model.leaderboard_[0].estimator)
        assert again.get_params().keys() == model.get_params().keys()
