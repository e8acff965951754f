"""Test pickles: those of older versions load, and newer or broken ones raise with the reason."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.frozen import FrozenEstimator

import quadfeat
from fixtures.make import examples, outcome
from quadfeat.io.pickles import FORMAT, FORMAT_KEY, VERSION_KEY
from quadfeat.rules import SphericalRadial

FIXTURES = Path(__file__).parent / "fixtures"
X, *OBJECTS = examples()
IDS = [type(one).__name__ for one in OBJECTS]


def restored(model, without=(), **changes):
    """Return the model restored from a changed pickled state."""
    state = {name: v for name, v in model.__getstate__().items() if name not in without}
    made = type(model).__new__(type(model))
    made.__setstate__(state | changes)
    return made


@pytest.mark.parametrize("number", range(FORMAT + 1))
def test_pickles_of_each_format_load_and_give_the_same_results(number):
    kept = pickle.loads((FIXTURES / f"format_{number}.pickle").read_bytes())
    for found, expected in zip(outcome(*kept["objects"]), kept["outcome"], strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    _, features, ridge, classifier = kept["objects"]
    ridge.partial_fit(X, np.arange(5.0)).predict(X)
    classifier.partial_fit(X[:2], ["above", "below"]).predict(X)
    assert quadfeat.grow(features, 17).transform(X).shape == (5, 17)


@pytest.mark.parametrize("from_file", [False, True], ids=["pickle", "file"])
def test_butterflies_of_format_5_keep_their_three_rounds(from_file):
    # Format 5 has rotation=None for three rounds, which are two today since d = 8.
    kept = pickle.loads((FIXTURES / "butterfly_format_5.pickle").read_bytes())
    features, rows = kept["features"], kept["X"]
    if from_file:
        features = quadfeat.load(FIXTURES / "butterfly_format_5.quadfeat")
    assert features.rule_.rotation.rounds == features.rule.rotation.rounds == 3
    assert features.map_.nodes.directions.matrices.permutations.shape[1] == 3
    np.testing.assert_allclose(features.transform(rows), kept["outcome"], rtol=1e-9, atol=1e-12)
    grown = quadfeat.grow(features, 54).transform(rows)
    np.testing.assert_allclose(grown, kept["grown"], rtol=1e-9, atol=1e-12)
    again = pickle.loads(pickle.dumps(features))
    assert repr(again.rule_) == repr(features.rule_)


def test_a_new_rule_keeps_its_default_rotation():
    assert pickle.loads(pickle.dumps(SphericalRadial())).rotation is None


@pytest.mark.parametrize("model", OBJECTS, ids=IDS)
class TestState:
    def test_has_its_format_and_version(self, model):
        state = model.__getstate__()
        assert state[FORMAT_KEY] == FORMAT
        assert state[VERSION_KEY] == quadfeat.__version__

    def test_is_not_in_the_loaded_object(self, model):
        loaded = pickle.loads(pickle.dumps(model))
        assert set(vars(loaded)) == set(vars(model))

    def test_of_a_newer_format_names_the_version_to_install(self, model):
        newer = {FORMAT_KEY: FORMAT + 1, VERSION_KEY: "17.4"}
        with pytest.raises(ValueError, match=rf"version 17\.4 .*format {FORMAT + 1}.*>=17\.4"):
            restored(model, **newer)

    @pytest.mark.parametrize("number", [-1, "one", 1.5])
    def test_of_an_unknown_format_is_rejected(self, model, number):
        with pytest.raises(ValueError, match=f"another version of quadfeat in format {number!r}"):
            restored(model, [VERSION_KEY], **{FORMAT_KEY: number})

    def test_without_a_format_loads_if_complete(self, model):
        assert vars(restored(model, [FORMAT_KEY, VERSION_KEY])).keys() == vars(model).keys()

    def test_without_a_format_names_what_is_missing(self, model):
        missing = model.needed_attributes[-1]
        with pytest.raises(ValueError, match=f"lacks {missing}: fit it again"):
            restored(model, [FORMAT_KEY, VERSION_KEY, missing])

    def test_of_an_unfitted_object_needs_no_attributes(self, model):
        loaded = restored(clone(model), [FORMAT_KEY, VERSION_KEY])
        assert repr(loaded) == repr(clone(model))

    def test_is_not_changed_by_loading(self, model):
        state = model.__getstate__()
        clone(model).__setstate__(state)
        assert state[FORMAT_KEY] == FORMAT


def test_scikit_learn_still_warns_about_its_version(monkeypatch):
    frozen = pickle.dumps(FrozenEstimator(OBJECTS[0]))
    monkeypatch.setattr("sklearn.base.__version__", "0.1")
    with pytest.warns(InconsistentVersionWarning, match="FrozenEstimator"):
        pickle.loads(frozen)
