"""Test that the columns of a table have the same outputs in all folds and in the final fit."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, TimeSeriesSplit

from quadfeat import KernelClassifier, KernelRegressor, TableEncoder


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "number": rng.uniform(size=n),
            "shop": rng.choice([f"shop {k}" for k in range(40)], n),
            "color": rng.choice(["blue", "red"], n),
        }
    )
    # Rare in the table, but not in its first rows.
    frame.loc[:3, "color"] = "green"
    frame.loc[:3, "number"] = None
    target = np.sin(6 * frame["number"].fillna(0.5)) + (frame["color"] == "red")
    return frame, target.to_numpy() + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("refit", [True, False])
def test_levels_that_are_rare_in_the_table_but_not_in_a_fold(table, refit):
    X, y = table
    cv = [(np.arange(200), np.arange(200, 400))]
    model = KernelRegressor(candidates=["neighbors"], cv=cv, refit=refit).fit(X, y)
    assert model.encoder_.get_feature_names_out().tolist() == (
        TableEncoder().fit(X, y).get_feature_names_out().tolist()
    )
    assert model.score(X, y) > 0.9


def test_classes_that_a_fold_lacks(table):
    X, y = table
    labels = np.digitize(y, [0.0, 1.0])
    order = np.argsort(labels == 2, kind="stable")  # the last class comes last
    model = KernelClassifier(candidates=["neighbors"], cv=TimeSeriesSplit(2))
    model.fit(X.iloc[order], labels[order])
    assert model.score(X, labels) > 0.7


def test_a_part_sees_its_own_targets_only(table):
    X, y = table
    encoder = TableEncoder().fit(X, y)
    rows, others = next(KFold(2).split(X))
    part, numbers = encoder.fit_transform_part(X.iloc[rows], y, rows)
    changed = y.copy()
    changed[others] += 100.0
    same, same_numbers = encoder.fit_transform_part(X.iloc[rows], changed, rows)
    assert_array_equal(same_numbers, numbers)
    assert_array_equal(same.transform(X), part.transform(X))
    assert not np.array_equal(part.transform(X), encoder.transform(X))


def test_the_part_of_all_rows_is_the_whole(table):
    X, y = table
    encoder = TableEncoder()
    whole = encoder.fit_transform(X, y)
    part, numbers = encoder.fit_transform_part(X, y, np.arange(len(y)))
    assert_array_equal(numbers, whole)
    assert_allclose(part.transform(X), encoder.transform(X))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_a_model_of_a_stream_of_frames_takes_frames(kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 2)), columns=["a", "b"])
    y = np.sign(X["a"].to_numpy())
    model = kind(time_limit=None).fit([(X[:30], y[:30]), (X[30:], y[30:])])
    assert model.predict(X).shape == (60,)
    assert model.feature_names_in_.tolist() == ["a", "b"]
