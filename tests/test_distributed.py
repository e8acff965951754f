"""Test Dask collections: maps and models equal those of a fit in this process."""

import functools
import os
import pickle
import signal
import threading
import time
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.frozen import FrozenEstimator

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier, grow
from quadfeat.data.blocks import is_dask
from quadfeat.data.dask import DaskRows
from quadfeat.data.parcels import Parcel
from quadfeat.kernels import Gaussian
from quadfeat.models.reading import CopyingReader
from quadfeat.solvers import Coefficients
from quadfeat.solvers.systems import System
from quadfeat.solvers.targets import Outputs
from slow import repeats

N_ROWS, N_COLUMNS = 1500, 3

# Uneven chunks, one of them empty. Columns are split too.
CHUNKS = ((500, 0, 37, 963), (2, 1))


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def table(n_rows=N_ROWS, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_COLUMNS)).astype(dtype)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n_rows) + 5.0
    return X, y.astype(np.float64)


def frame_of(X, **columns):
    return pd.DataFrame(X, columns=list("abc")[: X.shape[1]]).assign(**columns)


DEFAULTS = {"n_components": 100, "random_state": 0, "gram_dtype": "float64", "alpha": 0.1}


def ridge(kernel="gaussian", **options):
    return QuadratureRidge(kernel, **DEFAULTS | options)


def classifier(kernel="gaussian", **options):
    return QuadratureRidgeClassifier(kernel, **DEFAULTS | options)


def assert_close(found, expected, tolerance=1e-6):
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


class TestCollections:
    def test_are_recognized_without_importing_dask(self):
        X, y = table(20)
        frame = dd.from_pandas(frame_of(X, y=y), npartitions=2)
        for collection in (da.from_array(X), frame, frame["y"], frame.to_dask_array()):
            assert is_dask(collection)
        for other in (X, frame_of(X), [1.0], None):
            assert not is_dask(other)

    @pytest.mark.parametrize("bad", [dask.delayed(1), da.ones(3), da.ones((2, 2, 2))])
    def test_other_collections_are_rejected(self, bad):
        for fit in (QuadratureFeatures().fit, functools.partial(ridge().fit, y=np.ones(3))):
            with pytest.raises((TypeError, ValueError), match=r"X (is a Delayed|has shape)"):
                fit(bad)

    def test_a_column_of_a_frame_is_rejected(self):
        frame = dd.from_pandas(frame_of(table(20)[0]), npartitions=2)
        with pytest.raises(TypeError, match="pass a Dask array or a Dask data frame"):
            QuadratureFeatures().fit(frame["a"])


class TestMap:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("chunks", [CHUNKS, -1, (100, 1)])
    def test_agrees_with_a_local_fit(self, dtype, chunks):
        X, _ = table(dtype=dtype)
        local = QuadratureFeatures(n_components=64, random_state=3).fit(X)
        lazy = da.from_array(X, chunks=chunks)
        features = QuadratureFeatures(n_components=64, random_state=3).fit(lazy)
        assert features.fingerprint() == local.fingerprint()
        assert features.why_ == local.why_
        assert features.n_features_in_ == N_COLUMNS
        assert not hasattr(features, "feature_names_in_")
        Z = features.transform(lazy)
        assert isinstance(Z, da.Array)
        assert Z.dtype == dtype
        assert Z.chunks[1] == (64,)
        np.testing.assert_array_equal(Z.compute(), local.transform(X))

    def test_large_tables_are_sampled_alike(self):
        X, _ = table(20_000)
        local = QuadratureFeatures(n_components=64, random_state=3).fit(X)
        lazy = da.from_array(X, chunks=(3000, 3))
        features = QuadratureFeatures(n_components=64, random_state=3).fit(lazy)
        assert features.fingerprint() == local.fingerprint()
        error, expected = features.approximation_error_, local.approximation_error_
        assert error.low < expected.high
        assert expected.low < error.high

    def test_integer_weights_equal_copies(self):
        X, _ = table()
        counts = np.random.default_rng(1).integers(0, 4, len(X))
        counts[:500] = 0  # the whole first block
        local = QuadratureFeatures(n_components=64, random_state=3).fit(np.repeat(X, counts, 0))
        for weights in (counts, da.from_array(counts, chunks=400)):
            lazy = da.from_array(X, chunks=CHUNKS)
            features = QuadratureFeatures(n_components=64, random_state=3)
            features.fit(lazy, sample_weight=weights)
            assert features.fingerprint() == local.fingerprint()

    def test_of_a_frame_has_its_names(self):
        frame = frame_of(table()[0])
        lazy = dd.from_pandas(frame, npartitions=3)
        local = QuadratureFeatures(n_components=64, random_state=3).fit(frame)
        features = QuadratureFeatures(n_components=64, random_state=3).fit(lazy)
        assert features.fingerprint() == local.fingerprint()
        assert features.feature_names_in_.tolist() == ["a", "b", "c"]
        Z = features.transform(lazy)
        assert Z.shape[1] == 64
        np.testing.assert_array_equal(Z.compute(), local.transform(frame))
        # Some partitions have no rows left.
        few = features.transform(lazy[lazy["a"] > 2.5]).compute()
        np.testing.assert_array_equal(few, local.transform(frame[frame["a"] > 2.5]))
        with pytest.raises(ValueError, match="feature names should match"):
            features.transform(lazy.rename(columns={"a": "z"}))

    def test_meets_a_tolerance(self):
        X, _ = table(300)
        features = QuadratureFeatures(n_components="auto", tol=0.2, random_state=0)
        features.fit(da.from_array(X, chunks=(100, 3)))
        assert features.kernel_error(X, random_state=0).value < 0.2

    def test_errors(self):
        X, _ = table(20)
        lazy = da.from_array(X, chunks=(8, 3))
        features = QuadratureFeatures(n_components=16, random_state=0).fit(X)
        with pytest.raises(ValueError, match="X has 2 features, but QuadratureFeatures is expect"):
            features.transform(lazy[:, :2])
        with pytest.raises(ValueError, match="sample_weight is zero for every row"):
            QuadratureFeatures().fit(lazy, sample_weight=np.zeros(20))
        with pytest.raises(ValueError, match="X has no rows"):
            QuadratureFeatures().fit(lazy[:0])
        X[12, 1] = np.nan
        with pytest.raises(ValueError, match="contains NaN") as expected:
            QuadratureFeatures().fit(X)
        with pytest.raises(ValueError, match="contains NaN") as found:
            QuadratureFeatures().fit(da.from_array(X, chunks=(8, 3)))
        assert str(found.value) == str(expected.value)


class TestRidge:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"fit_intercept": False},
            {"kernel": "matern32", "rule": "rff"},
            {"alpha": "gcv"},
            {"alpha": "evidence"},
            {"alpha": "loo"},
            {"alpha": [0.01, 0.1, 1.0]},
            {"solver": "cg", "tol": 1e-8},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("weighted", [False, True])
    # Leave-one-out leaves out both copies of a row of weight 2, unlike GCV.
    @pytest.mark.filterwarnings("ignore:alpha='gcv' alone would choose")
    def test_agrees_with_a_local_fit(self, options, weighted):
        X, y = table()
        weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
        weights[:500] = 0.0
        weights = weights if weighted else None
        local = ridge(**options).fit(X, y, weights)
        lazy_weights = da.from_array(weights, chunks=100) if weighted else None
        lazy = da.from_array(X, chunks=CHUNKS)
        model = ridge(**options).fit(lazy, da.from_array(y, chunks=600), lazy_weights)
        assert model.features_.fingerprint() == local.features_.fingerprint()
        assert model.alpha_ == pytest.approx(local.alpha_, rel=1e-3)  # the optimum is flat
        predicted = model.predict(lazy)
        assert predicted.shape == y.shape
        assert predicted.chunks[0] == CHUNKS[0]
        assert_close(predicted.compute(), local.predict(X))
        assert_close(model.predict(X), local.predict(X))
        if options.get("solver") != "cg":
            for found, expected in zip(
                model.predict(lazy, return_std=True), local.predict(X, return_std=True), strict=True
            ):
                assert found.dtype == expected.dtype
                assert_close(found.compute(), expected)

    def test_lengthscales_are_learned_from_the_same_rows(self):
        X, y = table(300)
        lazy = da.from_array(X, chunks=((100, 0, 37, 163), (2, 1)))
        local, model = (ridge(lengthscales="ard").fit(rows, y) for rows in (X, lazy))
        gammas = [one.features_.kernel_.gamma for one in (local, model)]
        assert gammas[0].shape == (N_COLUMNS,)
        np.testing.assert_allclose(*gammas, rtol=1e-9)
        assert_close(model.predict(X), local.predict(X))
        labels = np.digitize(y, [3.0, 4.0, 6.0])
        labels[:120] = 1  # the other classes are in later blocks
        local, model = (
            classifier(lengthscales="isotropic").fit(rows, labels) for rows in (X, lazy)
        )
        assert model.features_.kernel_.gamma == pytest.approx(local.features_.kernel_.gamma)
        assert_close(model.decision_function(X), local.decision_function(X))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_products_in_float32(self, dtype):
        X, y = table(dtype=dtype)
        options = {"gram_dtype": "float32", "alpha": 0.01}
        local = ridge(**options).fit(X, y)
        lazy = da.from_array(X, chunks=(600, 3))
        model = ridge(**options).fit(lazy, y)
        Z = local.features_.transform(X).astype(np.float64)
        condition = np.linalg.cond(Z.T @ Z + 0.01 * np.eye(Z.shape[1]))
        predicted = model.predict(lazy)
        assert predicted.dtype == np.float64
        assert_close(predicted.compute(), local.predict(X), 1e-6 * np.sqrt(condition))

    def test_several_outputs(self):
        X, y = table()
        Y = np.column_stack([y, X[:, 0], X[:, 1] ** 2])
        local = ridge().fit(X, Y)
        lazy = da.from_array(X, chunks=CHUNKS)
        model = ridge().fit(lazy, da.from_array(Y, chunks=(450, 2)))
        predicted = model.predict(lazy)
        assert predicted.chunks == (CHUNKS[0], (3,))
        assert_close(predicted.compute(), local.predict(X))
        _, deviation = model.predict(lazy, return_std=True)
        assert deviation.shape == Y.shape
        assert_close(deviation.compute(), local.predict(X, return_std=True)[1])
        iterative = ridge(solver="cg", tol=1e-8).fit(lazy, Y)
        assert_close(iterative.predict(X), local.predict(X))

    def test_frames(self):
        X, y = table()
        frame = frame_of(X, y=y, w=np.arange(len(y)) % 3)
        lazy = dd.from_pandas(frame, npartitions=4)
        kept = lazy[lazy["a"] > -1.0]  # of unknown sizes
        local_rows = frame[frame["a"] > -1.0]
        names = ["a", "b", "c"]
        local = ridge().fit(local_rows[names], local_rows["y"], local_rows["w"])
        predicted = local.predict(local_rows[names])
        for targets, weights in (
            (kept["y"], kept["w"]),
            (kept["y"].to_dask_array(), kept["w"].to_dask_array()),
            (local_rows["y"].to_numpy(), local_rows["w"].tolist()),
        ):
            model = ridge().fit(kept[names], targets, weights)
            assert model.feature_names_in_.tolist() == names
            assert_close(model.predict(kept[names]).compute(), predicted)
        unnamed = ridge().fit(kept[names].to_dask_array(), kept["y"], kept["w"])
        assert_close(unnamed.predict(kept[names].to_dask_array()).compute(), predicted)
        both = ridge().fit(kept[names], kept[["y", "a"]])
        mean, deviation = both.predict(kept[names], return_std=True)
        expected = ridge().fit(local_rows[names], local_rows[["y", "a"]])
        for found, wanted in zip(
            (mean, deviation), expected.predict(local_rows[names], return_std=True), strict=True
        ):
            assert_close(found.compute(), wanted)

    @pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
    def test_schedulers(self, scheduler):
        X, y = table()
        with dask.config.set(scheduler=scheduler):
            model = ridge().fit(da.from_array(X, chunks=(100, 3)), y)
            predicted = model.predict(da.from_array(X, chunks=(100, 3))).compute()
        assert_close(predicted, ridge().fit(X, y).predict(X))

    def test_one_block_and_many(self):
        X, y = table(300)
        local = ridge().fit(X, y).predict(X)
        for rows in (300, 4):  # a reduction tree of three levels
            model = ridge().fit(da.from_array(X, chunks=(rows, 3)), y)
            assert_close(model.predict(X), local)

    def test_a_fitted_map_is_used_as_it_is(self):
        X, y = table()
        features = QuadratureFeatures(n_components=80, random_state=5).fit(X[:100])
        lazy = da.from_array(X, chunks=CHUNKS)
        for given in (features, FrozenEstimator(features)):
            model = QuadratureRidge(alpha=1.0, features=given, gram_dtype="float64").fit(lazy, y)
            assert model.features_.fingerprint() == features.fingerprint()
            local = QuadratureRidge(alpha=1.0, features=given, gram_dtype="float64").fit(X, y)
            assert_close(model.predict(X), local.predict(X))
        unfitted = QuadratureFeatures(Gaussian(0.3), n_components=80, random_state=5)
        model = QuadratureRidge(alpha=1.0, features=unfitted, gram_dtype="float64").fit(lazy, y)
        local = QuadratureRidge(alpha=1.0, features=unfitted, gram_dtype="float64").fit(X, y)
        assert_close(model.predict(X), local.predict(X))
        with pytest.raises(ValueError, match="features was fitted to 3 columns, but X has 2"):
            QuadratureRidge(alpha=1.0, features=features).fit(lazy[:, :2], y)

    def test_rows_can_be_added_later(self):
        X, y = table()
        model = ridge(kernel=Gaussian(0.3), rule="rff")
        model.fit(da.from_array(X[:900], chunks=(200, 3)), y[:900]).partial_fit(X[900:], y[900:])
        local = ridge(kernel=Gaussian(0.3), rule="rff").fit(X, y)
        assert_close(model.predict(X), local.predict(X))

    def test_reports_the_number_of_rows(self, capsys):
        X, y = table(200)
        ridge(verbose=True).fit(da.from_array(X, chunks=(50, 3)), y)
        assert "200 rows" in capsys.readouterr().err

    def test_errors(self, tmp_path):
        X, y = table(100)
        lazy = da.from_array(X, chunks=(30, 3))
        with pytest.raises(ValueError, match="requires y to be passed"):
            ridge().fit(lazy)
        with pytest.raises(ValueError, match="X has 100 rows, but y has 99"):
            ridge().fit(lazy, y[:99])
        with pytest.raises(ValueError, match="X has 100 rows, but y has 99"):
            ridge().fit(lazy, da.from_array(y[:99]))
        with pytest.raises(ValueError, match="X has 100 rows, but sample_weight has 3"):
            ridge().fit(lazy, y, np.ones(3))
        series = dd.from_pandas(pd.Series(y), npartitions=3)
        with pytest.raises(ValueError, match="X has 4 blocks, y has 3, and their sizes are not"):
            ridge().fit(lazy, series)
        series = dd.from_pandas(pd.Series(y), npartitions=4)
        with pytest.raises(
            ValueError, match=r"of X has \d+ rows, but the matching block of y has 25"
        ):
            ridge().fit(lazy, series)
        with pytest.raises(ValueError, match=r"checkpoint=.* has no effect"):
            ridge(checkpoint=tmp_path / "state").fit(lazy, y)
        with pytest.raises(ValueError, match="X has no rows"):
            ridge().fit(lazy[:0], y[:0])
        features = QuadratureFeatures(n_components=16, random_state=0).fit(X)
        for solver in ("normal", "cg"):
            with pytest.raises(ValueError, match="sample_weight is zero for every row"):
                QuadratureRidge(alpha=1.0, features=features, solver=solver).fit(
                    lazy, y, np.zeros(100)
                )
        with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
            ridge().fit(lazy, y, -np.ones(100))
        model = ridge().fit(lazy, y)
        with pytest.raises(ValueError, match="X has 2 features, but QuadratureRidge is expecting"):
            model.predict(lazy[:, :2])
        with pytest.raises(AttributeError, match="return_std needs the Gram matrix"):
            ridge(solver="cg").fit(lazy, y).predict(lazy, return_std=True)

    @pytest.mark.parametrize("of_targets", [False, True])
    @pytest.mark.parametrize("options", [{}, {"kernel": Gaussian(0.3), "rule": "rff"}], ids=str)
    def test_missing_values_are_rejected_as_in_a_local_fit(self, of_targets, options):
        X, y = table(100)
        (y if of_targets else X[:, 1])[70] = np.nan
        with pytest.raises(ValueError, match="contains NaN") as expected:
            ridge(**options).fit(X, y)
        model = ridge(**options)
        with pytest.raises(ValueError, match="contains NaN") as found:
            model.fit(da.from_array(X, chunks=(30, 3)), y)
        if of_targets:
            assert "1 of 100 rows has no target" in str(expected.value)
            assert "1 of 30 rows of a block has no target" in str(found.value)
        else:
            first = str(expected.value).partition(", for example")[0]
            assert str(found.value) == f"{first}, for example with fillna of a Dask data frame."
        assert not hasattr(model, "n_features_in_")

    def test_a_failed_fit_keeps_the_previous_fit(self):
        X, y = table(100)
        model = ridge().fit(X, y)
        before = model.predict(X)
        with pytest.raises(ValueError, match="Input X contains NaN"):
            model.fit(da.from_array(np.full((10, 2), np.nan), chunks=(5, 2)), np.ones(10))
        np.testing.assert_array_equal(model.predict(X), before)


class TestClassifier:
    def classes(self, X, names):
        """Return labels. Some classes are missing from the first blocks."""
        which = (X[:, 0] + X[:, 1] ** 2 > 1.0).astype(int)
        which[700:] += 2 * (X[700:, 2] > 1.0)
        return np.array(names)[which]

    @pytest.mark.parametrize("names", [["d", "long name", "b", "a"], [3, 7, 1, 5]], ids=str)
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"class_weight": "balanced"},
            {"alpha": "loo"},
            {"solver": "cg", "tol": 1e-8, "class_weight": "balanced"},
        ],
        ids=str,
    )
    def test_agrees_with_a_local_fit(self, names, options):
        X, _ = table()
        y = self.classes(X, names)
        weights = 0.5 + np.arange(len(y)) % 2
        local = classifier(**options).fit(X, y, weights)
        lazy = da.from_array(X, chunks=CHUNKS)
        model = classifier(**options).fit(lazy, da.from_array(y, chunks=600), weights)
        assert model.classes_.tolist() == sorted(names)
        decisions = model.decision_function(lazy)
        assert decisions.shape == (len(X), 4)
        assert_close(decisions.compute(), local.decision_function(X))
        predicted = model.predict(lazy)
        assert predicted.dtype == model.classes_.dtype
        np.testing.assert_array_equal(predicted.compute(), local.predict(X))
        if options.get("solver") == "cg":
            assert not hasattr(model, "predict_proba")
        else:
            probabilities = model.predict_proba(lazy)
            assert probabilities.shape == (len(X), 4)
            assert_close(probabilities.compute(), local.predict_proba(X), 1e-5)

    def test_two_classes_of_a_frame(self):
        X, _ = table(dtype=np.float32)
        frame = frame_of(X, label=np.where(X[:, 0] > 0, "yes", "no"))
        lazy = dd.from_pandas(frame, npartitions=3)
        names = ["a", "b", "c"]
        local = classifier().fit(frame[names], frame["label"])
        model = classifier().fit(lazy[names], lazy["label"])
        assert model.decision_function(lazy[names]).ndim == 1
        assert model.decision_function(lazy[names]).dtype == np.float64
        np.testing.assert_array_equal(
            model.predict(lazy[names]).compute(), local.predict(frame[names])
        )
        found = model.predict_proba(lazy[names])
        assert found.shape[1] == 2
        assert_close(found.compute(), local.predict_proba(frame[names]), 1e-4)

    def test_blocks_of_a_single_class(self):
        X, _ = table(400)
        y = np.repeat([0, 1], 200)
        lazy = da.from_array(X, chunks=(200, 3))
        model = classifier(class_weight={0: 1.0, 1: 3.0}).fit(lazy, y)
        local = classifier(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
        assert_close(model.decision_function(lazy).compute(), local.decision_function(X))

    def test_one_class_is_not_enough(self):
        X, _ = table(100)
        with pytest.raises(ValueError, match="y has only one class"):
            classifier().fit(da.from_array(X, chunks=(30, 3)), np.ones(100, int))


class TestScore:
    """Test that the score of a Dask collection equals that of the same rows in memory."""

    NAMES = ("a", "b", "c")

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("solver", ["normal", "cg"])
    def test_of_arrays(self, weighted, solver):
        X, y = table()
        weights = (np.arange(len(y)) % 3).astype(float) if weighted else None
        model = ridge(solver=solver).fit(X, y)
        expected = model.score(X, y, weights)
        lazy = da.from_array(X, chunks=CHUNKS)
        lazy_weights = None if weights is None else da.from_array(weights, chunks=200)
        for targets in (y, da.from_array(y, chunks=600)):
            for given in (weights, lazy_weights):
                found = model.score(lazy, targets, given)
                assert isinstance(found, float)
                assert found == pytest.approx(expected, rel=1e-10)

    def test_of_frames(self):
        X, y = table()
        frame = frame_of(X, y=y, w=np.arange(len(y)) % 3)
        names = list(self.NAMES)
        lazy = dd.from_pandas(frame, npartitions=4)
        kept, local = lazy[lazy["a"] > -1.0], frame[frame["a"] > -1.0]  # of unknown sizes
        model = ridge().fit(lazy[names], lazy["y"])
        expected = model.score(local[names], local["y"])
        for targets in (kept["y"], kept["y"].to_dask_array(), local["y"].to_numpy()):
            assert model.score(kept[names], targets) == pytest.approx(expected, rel=1e-10)
        expected = model.score(local[names], local["y"], local["w"])
        found = model.score(kept[names], kept["y"], sample_weight=kept["w"])
        assert found == pytest.approx(expected, rel=1e-10)

    def test_of_several_outputs(self):
        X, y = table()
        Y = np.column_stack([y, np.ones_like(y), X[:, 0]])  # one of them constant
        model = ridge().fit(X, Y)
        found = model.score(da.from_array(X, chunks=CHUNKS), da.from_array(Y, chunks=(450, 3)))
        assert found == pytest.approx(model.score(X, Y), rel=1e-9)
        with pytest.raises(ValueError, match=r"y has shape \(500, 1\), but the predictions have"):
            model.score(da.from_array(X, chunks=(500, 3)), y)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_of_classes(self, weighted):
        X, y = table()
        weights = 1.0 + np.arange(len(y)) % 2 if weighted else None
        frame = frame_of(X, label=np.array(["low", "mid", "high"])[np.digitize(y, [4.0, 6.0])])
        lazy = dd.from_pandas(frame, npartitions=3)
        names = list(self.NAMES)
        model = classifier().fit(lazy[names], lazy["label"])
        expected = model.score(frame[names], frame["label"], weights)
        assert 0.5 < expected < 1.0
        assert model.score(lazy[names], lazy["label"], weights) == pytest.approx(expected)

    def test_of_a_stream(self):
        X, y = table()
        model = ridge().fit(X, y)
        blocks = [(X[:400], y[:400]), (X[400:].tolist(), y[400:].tolist())]
        for stream in (blocks, iter(blocks)):
            assert model.score(stream) == pytest.approx(model.score(X, y), rel=1e-10)

    def test_of_one_row_is_not_defined(self):
        X, y = table()
        model = ridge().fit(X, y)
        with pytest.warns(UndefinedMetricWarning, match="fewer than two rows"):
            assert np.isnan(model.score(da.from_array(X[:1]), y[:1]))

    def test_sends_the_coefficients_only(self):
        X, y = table()
        model = ridge(n_components=1000).fit(X, y)
        lazy, sizes = da.from_array(X, chunks=CHUNKS), []

        def spied(content):
            sizes.append(len(pickle.dumps(Parcel(content))))
            return Parcel(content)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("quadfeat.data.dask.Parcel", spied)
            model.score(lazy, y)
        assert max(sizes) < 2**16 < 8 * 1000**2 < len(pickle.dumps(model))

    def test_errors(self):
        X, y = table(100)
        lazy = da.from_array(X, chunks=(30, 3))
        with pytest.raises(NotFittedError):
            ridge().score(lazy, y)
        model = ridge().fit(X, y)
        with pytest.raises(ValueError, match="y=None is not valid: pass the targets"):
            model.score(lazy)
        with pytest.raises(ValueError, match="X has 100 rows, but y has 99"):
            model.score(lazy, y[:99])
        with pytest.raises(ValueError, match="sample_weight is zero for every row"):
            model.score(lazy, y, np.zeros(100))
        with pytest.raises(ValueError, match="X has 2 features, but QuadratureRidge is expecting"):
            model.score(lazy[:, :2], y)
        y[3] = np.nan
        with pytest.raises(ValueError, match="Input y contains NaN"):
            model.score(lazy, y)


class TestTransfers:
    @pytest.mark.parametrize("rule", ["auto", "rff", "orf", "rom", "halton", "sr33"])
    def test_a_pickled_map_has_kilobytes(self, rule):
        X = np.random.default_rng(0).standard_normal((300, 200))
        features = QuadratureFeatures(rule=rule, n_components=2048, random_state=0).fit(X)
        sent = pickle.dumps(Parcel(features))
        assert len(sent) < 2**16
        arrived = pickle.loads(sent)
        assert len(pickle.dumps(arrived)) < 2**16  # a worker may forward the map before it uses it
        assert arrived.content.fingerprint() == features.fingerprint()
        assert len(pickle.dumps(arrived)) < 2**16

    def test_nodes_are_redrawn_once_for_all_parcels(self, monkeypatch):
        X = np.random.default_rng(0).standard_normal((300, 100))
        features = QuadratureFeatures(rule="rff", n_components=512, random_state=0).fit(X)
        draws, draw = [], type(features.rule_).draw
        monkeypatch.setattr(
            type(features.rule_), "draw", lambda *given: draws.append(1) or draw(*given)
        )
        for n_jobs in (None, 1, None):
            pickle.dumps(Parcel(features.map_.with_jobs(n_jobs)))
        assert len(draws) == 1

    def test_nodes_are_sent_if_the_seed_does_not_determine_them(self):
        X = np.random.default_rng(0).standard_normal((300, 100))
        small = QuadratureFeatures(rule="rff", n_components=512, random_state=0).fit(X)
        grown = grow(small, 1024)
        arrived = pickle.loads(pickle.dumps(Parcel(grown)))
        assert arrived.content.fingerprint() == grown.fingerprint()

    def test_nodes_that_differ_are_rejected(self):
        X = np.random.default_rng(0).standard_normal((300, 100))
        features = QuadratureFeatures(rule="rff", n_components=512, random_state=0).fit(X)
        light = features.map_.light()
        light.trace[5] *= 1.01
        with pytest.raises(RuntimeError, match="a worker has drawn nodes that differ"):
            light.unpacked()

    def test_models_send_only_coefficients(self):
        X, y = table()
        lazy = da.from_array(X, chunks=CHUNKS)
        model = ridge(n_components=1000).fit(lazy, y)
        labels = np.where(y > 5.0, "high", "low")
        classes = classifier(n_components=1000).fit(lazy, labels)
        whole = 8 * 1000**2
        assert len(pickle.dumps(model)) > whole
        for result in (model.predict(lazy), classes.predict(lazy), classes.predict_proba(lazy)):
            parcels = self.parcels(result)
            assert len(parcels) == 1
            assert len(pickle.dumps(parcels[0])) < 2**16
            assert isinstance(parcels[0].content._solution, Coefficients)
        mean, _ = model.predict(lazy, return_std=True)
        assert len(pickle.dumps(self.parcels(mean))) < 1.1 * whole

    def parcels(self, lazy):
        """Return the distinct parcels of a graph."""
        found = {}
        for task in dict(lazy.__dask_graph__()).values():
            value = getattr(task, "value", task)
            if isinstance(value, Parcel):
                found[id(value)] = value
        return list(found.values())

    def test_a_product_is_one_reduction(self, monkeypatch):
        X, y = table(400)
        lazy = da.from_array(X, chunks=(100, 3))
        model = ridge(solver="cg").fit(lazy, y)
        rows = DaskRows.of(lazy, y, None, CopyingReader(model))
        problem = model._problem()
        outputs = rows.each(partial(Outputs.of, problem.targets), Outputs.merged)
        system = System(rows, problem, outputs.summary)
        calls = []
        compute = dask.compute
        monkeypatch.setattr(dask, "compute", lambda *args: calls.append(1) or compute(*args))
        vectors = np.random.default_rng(0).standard_normal((100, 5))
        Z = model.features_.transform(X)
        assert_close(system.multiply(vectors), Z.T @ (Z @ vectors), 1e-10)
        assert len(calls) == 1
        borders, corner = system.borders()
        shifted = y - outputs.summary.moments.shift  # the common shift of the targets is subtracted
        assert_close(borders, Z.T @ np.column_stack([shifted, np.ones(400)]), 1e-10)
        assert corner[-1, -1] == 400
        assert len(calls) == 2


def slow(block, folder):
    """Return the block after a delay, and write a file that names the process."""
    time.sleep(0.1)
    for index in range(1000):
        try:
            (folder / f"{os.getpid()}-{index}").touch(exist_ok=False)
            break
        except FileExistsError:
            continue
    return block


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "processes": True, "threads_per_worker": 1}
    # Use any free port, since other tests may run a cluster too.
    with LocalCluster(**options, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


class TestProcesses:
    @pytest.fixture(autouse=True)
    def scheduler(self, synchronous, client):
        with dask.config.set(scheduler="dask.distributed"):
            yield

    @pytest.mark.parametrize("options", [{}, {"rule": "rff"}, {"solver": "cg", "tol": 1e-8}])
    def test_fit_agrees_with_a_local_one(self, options):
        X, y = table()
        lazy = da.from_array(X, chunks=(400, 3))
        model = ridge(**options).fit(lazy, da.from_array(y, chunks=400))
        local = ridge(**options).fit(X, y)
        assert model.features_.fingerprint() == local.features_.fingerprint()
        assert_close(model.predict(lazy).compute(), local.predict(X))

    def test_classes_of_a_frame(self):
        X, y = table()
        frame = frame_of(X, label=np.where(y > 5.0, "high", "low"))
        lazy = dd.from_pandas(frame, npartitions=3)
        names = ["a", "b", "c"]
        model = classifier(class_weight="balanced").fit(lazy[names], lazy["label"])
        local = classifier(class_weight="balanced").fit(frame[names], frame["label"])
        found = model.predict_proba(lazy[names]).compute()
        assert_close(found, local.predict_proba(frame[names]), 1e-5)

    def test_errors_reach_the_caller(self):
        X, y = table(100)
        X[70, 1] = np.nan
        with pytest.raises(ValueError, match="Input X contains NaN"):
            ridge().fit(da.from_array(X, chunks=(30, 3)), y)

    @pytest.mark.parametrize(("solver", "passes_before"), repeats([("normal", 0), ("cg", 2)]))
    def test_a_worker_is_killed_in_the_middle(self, solver, passes_before, tmp_path):
        X, y = table()
        n_blocks = 16
        lazy = da.from_array(X, chunks=(-(-len(X) // n_blocks), 3))
        lazy = lazy.map_blocks(slow, tmp_path, dtype=X.dtype, meta=np.empty((0, 3)))
        options = {"gram_dtype": "float64", "solver": solver, "tol": 0.5, "alpha": 1.0}
        features = QuadratureFeatures(n_components=100, random_state=0).fit(X)
        model = QuadratureRidge(features=features, **options)
        first = passes_before * n_blocks
        killed, finished = [], threading.Event()

        def kill():
            while not finished.is_set():
                made = [path.name for path in tmp_path.iterdir()]
                if len(made) >= first + n_blocks // 2:
                    pid = int(made[0].partition("-")[0])
                    os.kill(pid, signal.SIGKILL)
                    killed.append((pid, len(made)))
                    return
                time.sleep(0.01)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            model.fit(lazy, y)
        finally:
            finished.set()
            thread.join()
        [(pid, n_made)] = killed
        assert n_made < first + n_blocks
        others = {int(path.name.partition("-")[0]) for path in tmp_path.iterdir()} - {pid}
        assert others  # the workers that computed the rest
        local = QuadratureRidge(features=features, **options).fit(X, y)
        assert model.n_iter_ == local.n_iter_
        assert_close(model.predict(X), local.predict(X))
