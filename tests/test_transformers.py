"""Test models on the output of any transformer: streams, weights, checkpoints and Dask."""

import pickle

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier, load, save
from quadfeat.data import checkpoints
from quadfeat.maps import FeatureMap, TransformerMap
from quadfeat.solvers import accumulator

rng = np.random.default_rng(0)
X = rng.standard_normal((1500, 4))
y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(1500) + 3.0
WEIGHTS = rng.integers(0, 3, 1500).astype(float)
LABELS = np.digitize(y, [2.8, 3.2])
COUNTS = sparse.csr_array(rng.poisson(0.4, (1500, 30)).astype(float))

TRANSFORMERS = {
    "Nystroem": Nystroem(n_components=40, random_state=0),
    "PolynomialFeatures": PolynomialFeatures(3),
    "Pipeline": make_pipeline(StandardScaler(), Nystroem(n_components=30, random_state=0)),
    "FeatureUnion": make_union(PolynomialFeatures(2), Nystroem(n_components=20, random_state=0)),
    "QuadratureFeatures in a Pipeline": make_pipeline(
        StandardScaler(), QuadratureFeatures(n_components=30, rule="orf", random_state=0)
    ),
}


def ridge(features, **options):
    return QuadratureRidge(features=features, **{"gram_dtype": "float64", "alpha": 1.0} | options)


@pytest.fixture(params=TRANSFORMERS)
def fitted(request):
    return TRANSFORMERS[request.param].fit(X)


def reference(transformer, rows, targets, weights=None, alpha=1.0):
    """Return scikit-learn's solution."""
    return Ridge(alpha=alpha).fit(transformer.transform(rows), targets, weights)


@pytest.mark.parametrize("solver", ["normal", "cg"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_solutions_agree_with_scikit_learn(fitted, solver, weights):
    model = ridge(fitted, solver=solver, tol=1e-9, max_iter=2000).fit(X, y, weights)
    expected = reference(fitted, X, y, weights)
    assert_allclose(model.predict(X), expected.predict(fitted.transform(X)), atol=1e-6)
    assert model.features_ is fitted
    assert model.map_.n_columns == fitted.transform(X[:1]).shape[1]


def test_unfitted_transformers_are_cloned_and_fitted():
    for transformer in TRANSFORMERS.values():
        given = clone(transformer)
        model = ridge(given).fit(X, y)
        assert model.features is given
        expected = reference(clone(transformer).fit(X), X, y)
        Z = clone(transformer).fit(X).transform(X)
        assert_allclose(model.predict(X), expected.predict(Z), atol=1e-8)


def test_float32_rows_and_sparse_output():
    transformer = TfidfTransformer().fit(COUNTS)
    targets = COUNTS @ rng.standard_normal(30)
    for rows in (COUNTS, COUNTS.astype(np.float32)):
        for solver in ("normal", "cg"):
            model = ridge(transformer, solver=solver, tol=1e-4).fit(rows, targets)
            expected = reference(transformer, COUNTS, targets)
            found = model.predict(rows)
            assert_allclose(found, expected.predict(transformer.transform(COUNTS)), atol=5e-3)


def blocks(size=400):
    return [
        (X[k : k + size], y[k : k + size], WEIGHTS[k : k + size]) for k in range(0, len(X), size)
    ]


def test_streams_batches_and_merged_parts_agree(fitted):
    whole = ridge(fitted).fit(X, y, WEIGHTS).predict(X)
    assert_allclose(ridge(fitted).fit(iter(blocks())).predict(X), whole, atol=1e-9)
    batches = ridge(fitted)
    for rows, targets, weights in blocks():
        batches.partial_fit(rows, targets, weights)
    assert_allclose(batches.predict(X), whole, atol=1e-9)
    left, right = (ridge(fitted).fit(iter(part)) for part in (blocks()[:2], blocks()[2:]))
    assert_allclose(left.merge(right).predict(X), whole, atol=1e-9)


def test_maps_of_different_transformers_do_not_merge():
    left = ridge(PolynomialFeatures(2).fit(X)).fit(X, y)
    right = ridge(PolynomialFeatures(2, interaction_only=True).fit(X)).fit(X, y)
    with pytest.raises(ValueError, match="two models have different maps"):
        left.merge(right)


@pytest.mark.parametrize("solver", ["normal", "cg"])
def test_dask(fitted, solver):
    lazy = [da.from_array(a, chunks=(400, *a.shape[1:])) for a in (X, y, WEIGHTS)]
    with dask.config.set(scheduler="synchronous"):
        model = ridge(fitted, solver=solver, tol=1e-9, max_iter=2000).fit(*lazy)
        found = model.predict(lazy[0]).compute()
        mean, deviation = (
            model.predict(lazy[0], return_std=True) if solver == "normal" else (found, None)
        )
    local = ridge(fitted, solver=solver, tol=1e-9, max_iter=2000).fit(X, y, WEIGHTS)
    assert_allclose(found, local.predict(X), atol=1e-6)
    if deviation is not None:
        assert_allclose(mean.compute(scheduler="synchronous"), found, atol=1e-9)
        expected = local.predict(X, return_std=True)[1]
        assert_allclose(deviation.compute(scheduler="synchronous"), expected, rtol=1e-5)


def test_an_unfitted_transformer_is_fitted_to_a_sample_of_dask_rows():
    with dask.config.set(scheduler="synchronous"):
        lazy = da.from_array(X, chunks=(400, 4))
        model = ridge(StandardScaler(), alpha=1e-6).fit(lazy, y)
    assert_allclose(model.features_.mean_, X.mean(axis=0), atol=0.1)


def test_classifiers():
    transformer = Nystroem(n_components=40, random_state=0).fit(X)
    model = QuadratureRidgeClassifier(alpha=1.0, features=transformer, gram_dtype="float64").fit(
        X, LABELS
    )
    expected = RidgeClassifier().fit(transformer.transform(X), LABELS)
    decisions = expected.decision_function(transformer.transform(X))
    assert_allclose(model.decision_function(X), decisions, atol=1e-8)
    assert model.predict_proba(X).shape == (1500, 3)


@pytest.mark.parametrize("kind", ["fitted", "not fitted"])
@pytest.mark.parametrize("solver", ["normal", "cg"])
def test_checkpoints(kind, solver, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "TIMES_AS_LONG", 0.0)
    monkeypatch.setattr(accumulator, "ROWS_PER_BLOCK", (100, 100))
    transformer = Nystroem(n_components=30, random_state=0)
    if kind == "fitted":
        transformer.fit(X)
    options = {"solver": solver, "tol": 1e-8, "checkpoint": tmp_path / "state"}
    expected = ridge(transformer, solver=solver, tol=1e-8).fit(X, y).predict(X)
    offer, written = checkpoints.Checkpoint.offer, []

    def interrupted(self, state):
        offer(self, state)
        written.append(state)
        if len(written) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(checkpoints.Checkpoint, "offer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ridge(transformer, **options).fit(X, y)
    assert (tmp_path / "state").exists()
    model = ridge(transformer, **options).fit(X, y)
    assert_array_equal(model.predict(X), expected)
    assert not (tmp_path / "state").exists()


def test_a_checkpoint_without_a_seed_is_rejected(tmp_path):
    transformer = make_pipeline(StandardScaler(), Nystroem(n_components=30))
    with pytest.raises(ValueError, match=r"cannot store this map.*random_state to an integer"):
        ridge(transformer, checkpoint=tmp_path / "state").fit(X, y)


def test_grid_searches_reach_its_parameters():
    model = ridge(Nystroem(n_components=20, random_state=0))
    search = GridSearchCV(model, {"features__gamma": [1e-6, 0.3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"features__gamma": 0.3}
    frozen = ridge(FrozenEstimator(Nystroem(n_components=20, random_state=0).fit(X)))
    assert_array_equal(clone(frozen).fit(X, y).predict(X), frozen.fit(X, y).predict(X))


def test_pickles_and_files(tmp_path):
    transformer = Nystroem(n_components=20, random_state=0).fit(X)
    model = ridge(transformer, alpha="gcv").fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"features=Nystroem.* cannot be saved"):
        save(model, tmp_path / "model")
    ours = ridge(QuadratureFeatures(n_components=20, random_state=0).fit(X)).fit(X, y)
    save(ours, tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").predict(X), ours.predict(X))


class TestMap:
    made = TransformerMap.of(PolynomialFeatures(2).fit(X), 4)

    def test_products_agree_with_columns(self):
        assert isinstance(self.made, FeatureMap)
        Z = self.made.columns(X)
        V, U = rng.standard_normal((15, 3)), rng.standard_normal((1500, 2))
        assert_allclose(self.made.multiply(X, V), Z @ V)
        assert_allclose(self.made.transpose_multiply(X, U), Z.T @ U)
        expected = Z.T @ (WEIGHTS[:, None] * (Z @ V))
        assert_allclose(self.made.normal_multiply(X, V, WEIGHTS), expected)

    def test_fingerprints_tell_maps_apart(self):
        same = TransformerMap.of(PolynomialFeatures(2).fit(X), 4)
        other = TransformerMap.of(PolynomialFeatures(2, include_bias=False).fit(X), 4)
        assert self.made.fingerprint() == same.fingerprint() != other.fingerprint()
        copied = pickle.loads(pickle.dumps(self.made))
        assert copied.fingerprint() == self.made.fingerprint()


class Lengths(TransformerMixin, BaseEstimator):
    """Return as many columns as rows, so that the output is not a function of single rows."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.ones((X.shape[0], X.shape[0]))


class TestBadInput:
    def test_objects_that_are_not_transformers(self):
        with pytest.raises(TypeError, match="pass a QuadratureFeatures or another transformer"):
            ridge("nystroem").fit(X, y)
        with pytest.raises(TypeError, match="pass a QuadratureFeatures or another transformer"):
            ridge(Nystroem).fit(X, y)

    def test_other_columns(self):
        with pytest.raises(ValueError, match="fitted to 4 columns, but X has 3"):
            ridge(PolynomialFeatures().fit(X)).fit(X[:, :3], y)

    def test_rows_that_are_not_finite(self):
        rows = X.copy()
        rows[700, 2] = np.nan
        with pytest.raises(ValueError, match="Input X contains NaN"):
            ridge(PolynomialFeatures().fit(X)).fit(rows, y)

    def test_columns_that_are_not_finite_or_depend_on_other_rows(self):
        with pytest.raises(ValueError, match="returned values that are NaN, infinite"):
            ridge(FunctionTransformer(lambda rows: np.full_like(rows, np.inf))).fit(X, y)
        with pytest.raises(ValueError, match="transforms each row independently"):
            ridge(Lengths().fit(X)).fit(X, y)


@pytest.mark.filterwarnings("error")
def test_a_transformer_fitted_to_a_data_frame_gets_column_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    by_name = ColumnTransformer([("some", PolynomialFeatures(2), ["a", "c"])]).fit(frame)
    for transformer in (by_name, by_name.set_output(transform="pandas")):
        model = QuadratureRidge(alpha=1.0, features=transformer).fit(frame, y)
        expected = Ridge(1.0).fit(by_name.transform(frame), y)
        predicted = expected.predict(by_name.transform(frame))
        assert_allclose(model.predict(frame), predicted, rtol=1e-5)
