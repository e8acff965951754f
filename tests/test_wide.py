"""Test neighbors of wide tables, which are found among principal columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from quadfeat import (
    KernelRegressor,
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureRidge,
    load,
    save,
)
from quadfeat.front_door import FeaturesCandidate, MoreFeaturesCandidate
from quadfeat.front_door.candidates import Found, Setting
from quadfeat.kernels import Metric
from quadfeat.learning.candidates import FAMILIES
from quadfeat.neighbors import wide
from quadfeat.neighbors.learning import LocalSearch
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.wide import PRINCIPAL, WIDE, principal_projections

D = WIDE + 2


def images(n_rows, seed=0):
    """Return rows near a surface of three dimensions, in columns that share a unit, and targets."""
    rng = np.random.default_rng(seed)
    hidden = rng.uniform(-1.5, 1.5, (n_rows, 3))
    mixing = np.random.default_rng(7).standard_normal((3, D))
    X = hidden @ mixing + 0.3 * rng.standard_normal((n_rows, D))
    return X, np.sin(2.0 * hidden[:, 0]) + hidden[:, 1], (hidden[:, 2] > 0).astype(int)


X, Y, LABELS = images(200)
NEW, TRUTH, NEW_LABELS = images(100, seed=1)


@pytest.fixture(scope="module", autouse=True)
def few_families():
    """Try two families, which takes less time than all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quadfeat.models.local_fitting.FAMILIES", dict(list(FAMILIES.items())[:2]))
        yield


@pytest.fixture(scope="module")
def model():
    return LocalGaussianProcess(n_neighbors=32).fit(X, Y)


def rows_of(X):
    return DistinctRows.of(X, np.zeros((len(X), 1)), np.ones(len(X)))


class TestProjections:
    @pytest.mark.parametrize("n_rows", [100, 600])
    def test_span_the_first_principal_directions(self, n_rows):
        rng = np.random.default_rng(0)
        scales = np.geomspace(100.0, 0.01, D)
        turned = np.linalg.qr(rng.standard_normal((D, D)))[0]
        rows = rows_of(rng.uniform(-1.0, 1.0, (n_rows, D)) * scales @ turned)
        plain, _ = principal_projections(rows)
        number = min(PRINCIPAL, n_rows)
        assert plain.matrix.shape == (number, D)
        expected = np.linalg.svd(rows.X - rows.X.mean(axis=0))[2][:number]
        found = plain.matrix / np.linalg.norm(plain.matrix, axis=1, keepdims=True)
        # Equal up to signs, for directions that are clearly different.
        assert_allclose(np.abs(np.sum(found * expected, axis=1))[:10], 1.0, atol=1e-6)
        assert_allclose(plain.center, rows.X.mean(axis=0), atol=1e-9)

    def test_standardized_columns_have_no_units(self):
        factors = 2.0 ** np.random.default_rng(0).integers(-20, 20, D)
        plain, standard = (
            [one.rows(rows.X) for one in principal_projections(rows)]
            for rows in (rows_of(X), rows_of(X * factors))
        )
        spread = [np.sort(np.var(one, axis=0)) for one in (plain[1], standard[1])]
        assert_allclose(*spread, rtol=1e-6)
        assert not np.allclose(np.var(plain[0], axis=0), np.var(standard[0], axis=0), rtol=0.1)

    def test_constant_columns(self):
        some = X.copy()
        some[:, ::2] = 3.0
        for one in principal_projections(rows_of(some)):
            assert not one.matrix[:, ::2].any()
            assert np.isfinite(one.matrix).all()


class TestModels:
    def test_principal_columns_are_used(self, model):
        assert isinstance(model.kernel_, Metric)
        assert model.kernel_.matrix.shape == (PRINCIPAL, D)
        assert "64 principal columns" in model.why_
        assert model.score(NEW, TRUTH) > 0.8

    def test_given_lengthscales_are_those_of_columns(self, monkeypatch):
        monkeypatch.setattr(wide, "principal_projections", None)
        plain = LocalGaussianProcess(lengthscales="ard", time_limit=1e-9).fit(X, Y)
        assert not isinstance(plain.kernel_, Metric)

    def test_the_process_is_that_of_projected_rows(self, model):
        projection = model.kernel_.projection
        inner = LocalGaussianProcess(
            model.kernel_.inner, alpha=model.alpha_, n_neighbors=model.n_neighbors_
        ).fit(projection.rows(X), Y)
        assert_allclose(model.predict(NEW), inner.predict(projection.rows(NEW)), rtol=1e-8)

    def test_the_losses_are_those_of_the_model(self, model):
        errors = model.loo_predictions_ - Y
        assert model.candidates_[0].loss == pytest.approx(np.mean(errors**2) / np.var(Y), rel=0.02)

    def test_threads_and_the_order_of_rows_do_not_matter(self, model):
        order = np.random.default_rng(0).permutation(len(X))
        other = LocalGaussianProcess(n_neighbors=32, n_jobs=2).fit(X[order], Y[order])
        assert_allclose(other.predict(NEW), model.predict(NEW), rtol=1e-9)

    def test_classes(self):
        model = LocalGaussianProcessClassifier(n_neighbors=16).fit(X, LABELS)
        assert isinstance(model.kernel_, Metric)
        assert model.score(NEW, NEW_LABELS) > 0.8

    def test_one_column_that_matters(self):
        rng = np.random.default_rng(0)
        wide_rows = rng.uniform(-1.0, 1.0, (300, D))
        model = LocalGaussianProcess(n_neighbors=20).fit(wide_rows, np.sin(4.0 * wide_rows[:, 5]))
        assert not isinstance(model.kernel_, Metric)
        new = rng.uniform(-1.0, 1.0, (100, D))
        assert model.score(new, np.sin(4.0 * new[:, 5])) > 0.95

    @pytest.mark.parametrize("worth", [0.0, np.inf])
    def test_all_columns_are_learned_only_if_they_may_be_better(self, worth, monkeypatch):
        runs, run = [], LocalSearch.run
        monkeypatch.setattr(wide, "WORTH_LEARNING", worth)
        monkeypatch.setattr(
            LocalSearch, "run", lambda self: runs.append(self.rows.X.shape[1]) or run(self)
        )
        LocalGaussianProcess(n_neighbors=20, time_limit=1e6).fit(X[:80], Y[:80])
        assert runs == ([PRINCIPAL] if worth == 0.0 else [PRINCIPAL, D])

    def test_columns_that_are_constant_in_a_sample(self, monkeypatch):
        """Pixels at the edge of images differ only in a few of many rows."""
        monkeypatch.setattr(wide, "PRINCIPAL_ROWS", 100)
        rows = np.column_stack([X, np.zeros((len(X), 2))])
        rows[-1, -2:] = 1.0
        model = LocalGaussianProcessClassifier(n_neighbors=16).fit(rows, LABELS)
        new = np.column_stack([NEW, np.zeros((len(NEW), 2))])
        assert model.score(new, NEW_LABELS) > 0.8

    def test_without_time_and_without_information(self):
        hurried = LocalGaussianProcess(time_limit=1e-9).fit(X, Y)
        assert np.isfinite(hurried.predict(NEW)).all()
        assert_array_equal(LocalGaussianProcess().fit(X, np.ones(len(X))).predict(NEW), 1.0)
        assert np.isfinite(LocalGaussianProcess().fit(X[:2], Y[:2]).predict(NEW)).all()

    def test_files(self, model, tmp_path):
        save(model, tmp_path / "model")
        assert_array_equal(load(tmp_path / "model").predict(NEW), model.predict(NEW))


class TestFrontDoor:
    def test_features_have_the_kernel_of_the_neighbors(self):
        door = KernelRegressor(
            None, candidates=["neighbors", FeaturesCandidate(64), MoreFeaturesCandidate(128)]
        )
        door.set_params(cv=2).fit(X[:150], Y[:150])
        row = {one.name: one for one in door.leaderboard_}
        assert row["features"].note == "64 features, the kernel of neighbors, wider"
        near, far = row["neighbors"].estimator.kernel, row["features"].estimator.kernel
        assert_array_equal(near.matrix, far.matrix)
        assert_allclose(near.metric_for(D), 4.0 * far.metric_for(D))
        assert door.score(NEW, TRUTH) > 0.7
        assert door.relevance_.shape == (D,)

    def test_features_search_if_neighbors_use_all_columns(self, model):
        plain = clone(model).set_params(lengthscales="ard", time_limit=1e-9).fit(X, Y)
        setting = Setting(True, 0, None)
        estimator = FeaturesCandidate(64).estimator(
            setting, X.shape, {"neighbors": Found(plain, 1.0)}, 5.0
        )
        assert estimator.kernel == "auto"
        assert estimator.time_limit == 5.0


class TestMoreFeatures:
    """Their number depends on the time."""

    @pytest.mark.parametrize(
        ("seconds", "number"), [(None, 256), (200.0, 256), (10.0, 128), (0.5, None)]
    )
    def test_number(self, seconds, number):
        fewer = QuadratureRidge("gaussian", n_components=32).fit(X, Y)
        found, candidate = {"features": Found(fewer, 1.0)}, MoreFeaturesCandidate(256)
        left = np.inf if seconds is None else seconds
        reason = candidate.reason_against(X.shape, found, left)
        if number is None:
            assert reason == "128 features need about 18 s, and 0 s are left"
            return
        if seconds == 10.0:
            assert reason == "128 features need about 18 s, and 10 s are left"
            assert candidate.reason_against(X.shape, found, 20.0) is None
        estimator = candidate.estimator(Setting(True, 0, None), X.shape, found, seconds)
        assert estimator.n_components == number
