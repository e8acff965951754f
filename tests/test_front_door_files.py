"""Test files of kernel models whose parameters are objects of scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import model_selection

from quadfeat import KernelRegressor, load, save
from quadfeat.io.registry import registration_of

SPLITTERS = [
    model_selection.TimeSeriesSplit(2, test_size=20, gap=3),
    model_selection.KFold(3, shuffle=True, random_state=1),
    model_selection.ShuffleSplit(2, test_size=0.3, random_state=np.random.RandomState(0)),
    model_selection.PredefinedSplit([0, 0, 1, 1, -1]),
    model_selection.LeaveOneGroupOut(),
    [(np.arange(3), np.arange(3, 5))],
]


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_splitters_are_saved(cv, tmp_path):
    path = tmp_path / "model.quadfeat"
    save(KernelRegressor(cv=cv), path)
    again = load(path).cv
    assert type(again) is type(cv)
    if hasattr(cv, "split"):
        X = np.zeros((5 if "Predefined" in type(cv).__name__ else 60, 1))
        groups = np.repeat(np.arange(6), 10) if "Group" in type(cv).__name__ else None
        folds = [list(one.split(X, X[:, 0], groups)) for one in (cv, again)]
        for expected, found in zip(*folds, strict=True):
            assert_array_equal(np.concatenate(found), np.concatenate(expected))


def test_other_splitters_are_named(tmp_path):
    assert registration_of(model_selection.RepeatedKFold) is None
    with pytest.raises(ValueError, match=r"KernelRegressor.cv=RepeatedKFold.* cannot be saved"):
        save(KernelRegressor(cv=model_selection.RepeatedKFold()), tmp_path / "model.quadfeat")


def test_forged_parameters_of_a_splitter_are_rejected():
    entry = registration_of(model_selection.TimeSeriesSplit)
    with pytest.raises(ValueError, match="fields"):
        entry.build({"n_splits": 2, "split": None})
    with pytest.raises((TypeError, ValueError)):
        entry.build(dict.fromkeys(entry.required, "all"))
