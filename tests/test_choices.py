"""Test that choices of ``rule="auto"`` are kept, and that kept choices change no result."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from quadfeat import QuadratureFeatures, QuadratureRidge, grow, load, save
from quadfeat.auto import choices, selection
from quadfeat.auto.choices import described
from quadfeat.kernels import Gaussian, Matern

X = load_iris().data


@pytest.fixture
def made(monkeypatch):
    """Return a list of the choices that are made, with an empty store."""
    counted, choose = [], selection._choose
    selection.CHOICES.clear()
    monkeypatch.setattr(
        selection, "_choose", lambda *args: counted.append(args[1]) or choose(*args)
    )
    yield counted
    selection.CHOICES.clear()


def fitted(rows=X, seed=0, **options):
    return QuadratureFeatures(n_components=33, random_state=seed, **options).fit(rows)


def test_the_same_choice_is_made_once(made):
    first, second = fitted(), fitted()
    assert len(made) == 1
    assert repr(first.candidates_) == repr(second.candidates_)
    assert first.why_ == second.why_
    assert second.rule_ is not first.rule_
    assert any(candidate.rule is second.rule_ for candidate in second.candidates_)
    np.testing.assert_array_equal(first.transform(X), second.transform(X))


def test_kept_choices_do_not_change_a_search_for_columns(made):
    options = {"n_components": "auto", "tol": 0.2, "random_state": 0}
    first = QuadratureFeatures(**options).fit(X)
    n_made = len(made)
    second = QuadratureFeatures(**options).fit(X)
    assert len(made) == n_made > 0
    np.testing.assert_array_equal(first.transform(X), second.transform(X))


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"gamma": 0.3},
        {"kernel": Matern(1.5)},
        {"rows": X + 1e-9 * np.arange(4)},
        {"rows": X[:-1]},
    ],
    ids=["seed", "gamma", "kernel", "rows", "fewer rows"],
)
def test_another_question_is_another_choice(made, other):
    fitted(gamma=None if "kernel" in other else 0.2)
    fitted(**({} if "kernel" in other else {"gamma": 0.2}) | other)
    assert len(made) == 2


def test_weights_are_part_of_the_question(made):
    fitted()
    weights = np.where(np.arange(len(X)) < 50, 2.0, 1.0)
    QuadratureFeatures(n_components=33, random_state=0).fit(X, sample_weight=weights)
    assert len(made) == 2


def test_changing_a_chosen_rule_does_not_change_later_fits(made):
    before = fitted()
    expected = repr(before.rule_)
    before.rule_.set_params(remainder=0.123)
    assert repr(fitted().rule_) == expected
    assert len(made) == 1


def test_kernels_of_users_are_not_kept(made):
    class Own(Gaussian):
        pass

    assert described(Own(0.5)) is None
    fitted(kernel=Own(0.5))
    fitted(kernel=Own(0.5))
    assert len(made) == 2


def test_the_number_of_kept_choices_is_bounded(made, monkeypatch):
    monkeypatch.setattr(choices, "MOST_CHOICES", 2)
    for seed in (0, 1, 2, 2, 1, 0):
        fitted(seed=seed)
    assert len(made) == 4  # the choice of seed 0 was dropped, and is made again
    assert len(selection.CHOICES._kept) == 2


class TestTheErrorOfAMap:
    """``approximation_error_`` is estimated when it is first asked for."""

    def test_it_is_the_same_before_and_after_saving(self, tmp_path):
        expected = fitted().approximation_error_
        assert pickle.loads(pickle.dumps(fitted())).approximation_error_ == expected
        model = QuadratureRidge(Gaussian(0.1), random_state=0).fit(X, X[:, 0])
        save(model, tmp_path / "model.quadfeat")
        loaded = load(tmp_path / "model.quadfeat")
        assert loaded.features_.approximation_error_ == model.features_.approximation_error_

    def test_it_does_not_follow_later_changes_of_the_rows(self):
        rows = X.copy()
        features = fitted(rows)
        rows *= 3.0
        assert features.approximation_error_ == fitted().approximation_error_

    def test_rows_are_released_and_never_pickled(self):
        marked = X + 0.123456789
        features = fitted(marked)
        assert marked[0].tobytes() not in pickle.dumps(features)
        assert "_pending_error" not in vars(features)

    def test_rows_of_many_columns_are_not_held(self):
        rows = np.random.default_rng(0).standard_normal((300, 6000))
        features = QuadratureFeatures(rule="sr33", n_components=8, random_state=0).fit(rows)
        assert "_pending_error" not in vars(features)
        assert features.approximation_error_.n_pairs > 0

    def test_a_refit_and_growth_forget_it(self):
        features = QuadratureFeatures(rule="rff", n_components=32, random_state=0).fit(X)
        assert not hasattr(grow(features, 64), "approximation_error_")
        before = features.approximation_error_
        assert features.fit(X * 2.0 + 1.0).approximation_error_ != before
