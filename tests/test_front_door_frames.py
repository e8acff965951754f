"""Test that all parts of a contest see the same encoded columns of a frame."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from quadfeat import KernelClassifier, KernelRegressor, TableEncoder


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts the mean, and records what it was fitted to."""

    seen: ClassVar = []

    def fit(self, X, y):
        Recorder.seen.append(X)
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.fixture
def seen():
    Recorder.seen = []
    return Recorder.seen


def frame(n_rows, n_rare):
    """Return a frame with a level and missing values that only some folds would have."""
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Basel"], n_rows).astype(object)
    city[:n_rare] = "Genf"
    size = rng.standard_normal(n_rows)
    size[-n_rare:] = np.nan
    return pd.DataFrame({"city": city, "size": size}), rng.standard_normal(n_rows)


def test_folds_and_all_rows_have_the_same_outputs(seen):
    X, y = frame(1100, 10)  # without the held-out rows, fewer than the 10 that a level needs
    candidates = [("recorder", Recorder()), ("ridge", Ridge(alpha=1e9))]
    model = KernelRegressor(time_limit=None, candidates=candidates, blend=False).fit(X, y)
    outputs = TableEncoder().fit(X).get_feature_names_out()
    assert {part.shape[1] for part in seen} == {len(outputs)}
    assert_array_equal(model.encoder_.get_feature_names_out(), outputs)


def test_the_final_kernel_suits_the_columns_of_all_rows():
    X, y = frame(1100, 10)
    y += 3.0 * (X["city"] == "Genf") + X["size"].fillna(1.0)
    model = KernelRegressor(time_limit=None, candidates=["neighbors", ("ridge", Ridge())])
    assert np.isfinite(model.fit(X, y).predict(X)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_a_model_of_a_stream_of_frames_takes_frames(kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 2)), columns=["a", "b"])
    y = np.sign(X["a"].to_numpy())
    model = kind(time_limit=None).fit([(X[:30], y[:30]), (X[30:], y[30:])])
    assert model.predict(X).shape == (60,)
    assert model.feature_names_in_.tolist() == ["a", "b"]
