"""Test how ``quadfeat compare`` words its results, and how it keeps finished fits."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("typer", reason="needs quadfeat[study]")

from scipy import stats

from quadfeat.apps.compare import columns, conclusions, contest, journal, verdict
from quadfeat.apps.compare.boosting import HIST, LIGHTGBM
from quadfeat.apps.compare.contest import Problem
from quadfeat.apps.compare.contestants import (
    CONTESTANTS,
    GUESS,
    LINEAR,
    MODEL,
    NYSTROEM,
    ORDER,
    OURS,
    class_name,
    explanation,
    in_sentence,
    title,
)
from quadfeat.apps.compare.scoring import METRICS, form_of
from quadfeat.apps.compare.verdict import Difference
from quadfeat.apps.reporting.colors import PAGE, contrast


class TestNames:
    def test_every_model_has_names_an_explanation_and_readable_colors(self):
        assert set(CONTESTANTS) == set(ORDER)
        for name, contestant in CONTESTANTS.items():
            for page in ("light", "dark"):
                assert contrast(contestant.color.on(page), PAGE.on(page)) >= 4.5
            for task in ("classification", "regression"):
                sentence = explanation(name, task, 2000)
                assert sentence.endswith(".")
                assert name == GUESS or class_name(name, task) in sentence
            # A line of the summary on 80 columns has room for 33 characters.
            assert len(title((name, 2048 if name in contest.MAPS else 0))) <= 33

    @pytest.mark.parametrize(
        ("key", "expected"),
        [
            ((OURS, 64), "quadrature features with D = 64"),
            ((NYSTROEM, 64), "Nyström features with D = 64"),
            ((LINEAR, 0), "the linear model"),
            ((HIST, 0), "boosted trees (scikit-learn)"),
        ],
    )
    def test_in_a_sentence(self, key, expected):
        assert in_sentence(key) == expected


class TestSureness:
    def test_the_probability_is_that_of_the_correlated_t_test(self):
        rng = np.random.default_rng(0)
        values = rng.normal(0.01, 0.02, 10)
        scores = pd.DataFrame({"a": 0.8 + values, "b": np.full(10, 0.8)})
        scores.columns = pd.MultiIndex.from_tuples([(OURS, 64), (LINEAR, 0)])
        found = verdict.difference(scores, (OURS, 64), (LINEAR, 0))
        scale = np.sqrt((1 / 10 + 1 / 9) * values.var(ddof=1))
        assert_allclose(found.probability, stats.t.cdf(values.mean() / scale, 9))
        other = verdict.difference(scores, (LINEAR, 0), (OURS, 64))
        assert_allclose(found.probability + other.probability, 1.0)

    def test_equal_predictions_are_a_tie(self):
        assert Difference(1e-9, 1e-12, folds=5, same=True).probability == 0.5
        assert Difference(0.0, 0.0, folds=5).probability == 0.5
        assert Difference(0.1, 0.0, folds=5).probability == 1.0

    def test_the_interval_covers_the_mean_of_correlated_folds(self):
        # If folds share a part of the variance, 1 / k, their correlation is that of the correction.
        rng = np.random.default_rng(0)
        folds, runs = 5, 4000
        common = rng.standard_normal((runs, 1)) * np.sqrt(1 / folds)
        scores = common + rng.standard_normal((runs, folds)) * np.sqrt(1 - 1 / folds)
        covered = 0
        for run in scores:
            low, high = verdict.interval(run.mean(), run.std(ddof=1) / np.sqrt(folds), folds)
            covered += low <= 0.0 <= high
        assert abs(covered / runs - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs)

    @pytest.mark.parametrize(
        ("probability", "text"),
        [(0.5, "50%"), (0.994, "over 99%"), (1.0, "over 99%"), (0.004, "below 1%")],
    )
    def test_percentages_are_not_overstated(self, probability, text):
        assert conclusions.percent(probability) == text


def test_each_model_is_ranked_once():
    wave = 0.02 * np.array([-1, -1, 1, 1])
    means = {
        (LINEAR, 0): 0.6,
        (OURS, 32): 0.795,
        (OURS, 64): 0.80,
        (NYSTROEM, 32): 0.70,
        (NYSTROEM, 64): 0.78,
        (MODEL, 0): 0.75,
        (LIGHTGBM, 0): 0.5,
    }
    scores = pd.DataFrame({key: mean + wave for key, mean in means.items()})
    scores.columns = pd.MultiIndex.from_tuples(list(means))
    found = verdict.representatives(scores, verdict.decide(scores))
    expected = [(OURS, 32), (NYSTROEM, 64), (MODEL, 0), (LINEAR, 0), (LIGHTGBM, 0)]
    assert found == expected


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([52.79, 181.2], ".2f"),
        ([0.0123], ".5f"),
        ([123456.0], ".0f"),
        ([1e-9], ".3e"),
        ([0], ".3f"),
    ],
)
def test_all_scores_have_the_same_decimals(values, form):
    assert form_of(METRICS["rmse"], values) == form


def problem(n=40, **settings):
    frame = pd.DataFrame({"x": np.linspace(0, 1, n), "kind": ["a", "b"] * (n // 2)})
    y = frame["x"].to_numpy() ** 2
    return Problem(frame, y, columns.describe(frame), "r2", **{"folds": 2, **settings})


class TestJournal:
    def test_rows_survive(self, tmp_path):
        cell = contest.Cell("contest", LINEAR, 1)
        row = contest.run_cell(problem(), cell)
        first = journal.Journal(tmp_path, problem())
        assert first.get(cell) is None
        first.add(row)
        first.close(remove=False)
        second = journal.Journal(tmp_path, problem())
        assert (second.kept, len(second)) == (1, 1)
        pd.testing.assert_frame_equal(pd.DataFrame([second.get(cell)]), pd.DataFrame([row]))
        second.close(remove=True)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "other", [problem(seed=1), problem(folds=3), problem(n=42), problem(max_components=8)]
    )
    def test_rows_of_another_comparison_are_not_used(self, tmp_path, other):
        first = journal.Journal(tmp_path, problem())
        first.add(contest.run_cell(problem(), contest.Cell("contest", LINEAR, 0)))
        first.close(remove=False)
        second = journal.Journal(tmp_path, other)
        assert second.kept == 0
        second.close(remove=True)

    @pytest.mark.parametrize("end", ["", '{"stage": "cont', "\x00"])
    def test_an_incomplete_line_is_ignored(self, tmp_path, end):
        first = journal.Journal(tmp_path, problem())
        for fold in range(2):
            first.add(contest.run_cell(problem(), contest.Cell("contest", GUESS, fold)))
        first.close(remove=False)
        path = tmp_path / journal.FILE
        path.write_text(path.read_text() + end)
        second = journal.Journal(tmp_path, problem())
        assert second.kept == 2
        second.close(remove=True)

    def test_a_file_that_is_no_journal_is_replaced(self, tmp_path):
        (tmp_path / journal.FILE).write_bytes(b"\xff\xfe")
        found = journal.Journal(tmp_path, problem())
        assert found.kept == 0
        found.close(remove=True)
