"""Test how ``quadfeat compare`` words its results, and how it keeps finished fits."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("typer", reason="needs quadfeat[study]")

from scipy import stats

from quadfeat.apps.compare import conclusions, contest, fitting, journal, verdict
from quadfeat.apps.compare.boosting import HIST, LIGHTGBM
from quadfeat.apps.compare.contest import Problem
from quadfeat.apps.compare.contestants import (
    CONTESTANTS,
    GUESS,
    LINEAR,
    MODEL,
    NYSTROEM,
    ORDER,
    class_name,
    explanation,
    in_sentence,
    title,
)
from quadfeat.apps.compare.scoring import METRICS, form_of
from quadfeat.apps.compare.verdict import Difference
from quadfeat.apps.reporting.colors import PAGE, contrast
from quadfeat.front_door import Leaderboard, LeaderboardRow


class TestNames:
    def test_every_model_has_names_an_explanation_and_readable_colors(self):
        assert set(CONTESTANTS) == set(ORDER)
        for name, contestant in CONTESTANTS.items():
            for page in ("light", "dark"):
                assert contrast(contestant.color.on(page), PAGE.on(page)) >= 4.5
            for task in ("classification", "regression"):
                sentence = explanation(name, task, 1024, 2000)
                assert sentence.endswith(".")
                assert name == GUESS or class_name(name, task) in sentence
            # A line of the summary on 80 columns has room for 33 characters.
            assert len(title(name)) <= 33

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (NYSTROEM, "Nyström features"),
            (LINEAR, "the linear model"),
            (MODEL, "the kernel model (quadfeat)"),
            (HIST, "boosted trees (scikit-learn)"),
        ],
    )
    def test_in_a_sentence(self, name, expected):
        assert in_sentence(name) == expected


class TestSureness:
    def test_the_probability_is_that_of_the_correlated_t_test(self):
        rng = np.random.default_rng(0)
        values = rng.normal(0.01, 0.02, 10)
        scores = pd.DataFrame({MODEL: 0.8 + values, LINEAR: np.full(10, 0.8)})
        found = verdict.difference(scores, MODEL, LINEAR)
        scale = np.sqrt((1 / 10 + 1 / 9) * values.var(ddof=1))
        assert_allclose(found.probability, stats.t.cdf(values.mean() / scale, 9))
        other = verdict.difference(scores, LINEAR, MODEL)
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


def test_models_are_ranked_by_their_means():
    wave = 0.02 * np.array([-1, -1, 1, 1])
    means = {LINEAR: 0.6, NYSTROEM: 0.78, MODEL: 0.75, LIGHTGBM: 0.5}
    scores = pd.DataFrame({key: mean + wave for key, mean in means.items()})
    assert verdict.ranking(scores) == [NYSTROEM, MODEL, LINEAR, LIGHTGBM]


def place(candidate, share=0.0, loss=np.nan, seconds=np.nan, note=""):
    return {
        "candidate": candidate,
        "share": share,
        "loss_name": "1 - R2",
        "loss": loss,
        "standard_error": loss / 10,
        "fit_seconds": seconds,
        "predict_seconds": seconds,
        "note": note,
    }


class TestLeaderboard:
    def test_means_over_folds(self):
        boards = [
            [place("neighbors", 1.0, 0.1, 2.0, "a"), place("features", 0.0, 0.3, 4.0, "b")],
            [place("features", 0.7, 0.1, 2.0, "b"), place("neighbors", 0.3, 0.2, 3.0, "c")],
            [place("neighbors", 1.0, 0.3, 1.0, "c"), place("features", note="too slow")],
        ]
        found = verdict.leaderboard(pd.DataFrame({"leaderboard": [*boards, []]}))
        assert found["candidate"].tolist() == ["neighbors", "features"]
        assert_allclose(found["share"], [2.3 / 3, 0.7 / 3])
        assert_allclose(found["loss"], [0.2, 0.2])
        assert_allclose(found["standard_error"], [0.02, 0.02])
        assert_allclose(found["fit_seconds"], [2.0, 3.0])
        assert found["folds"].tolist() == [3, 2]
        assert found["note"].tolist() == [verdict.DIFFERS] * 2

    def test_candidates_that_were_left_out_come_last(self):
        late = place("more features", note="no time was left")
        boards = [[late, place("features", 1.0, 0.1, 1.0, "a")]] * 2
        found = verdict.leaderboard(pd.DataFrame({"leaderboard": boards}))
        assert found["candidate"].tolist() == ["features", "more features"]
        assert found["note"].tolist() == ["a", "no time was left"]
        assert found["folds"].tolist() == [2, 0]

    def test_it_is_that_of_the_model_without_the_blend(self):
        rows = (
            LeaderboardRow("0.6 features + 0.4 neighbors", 1.0, 0.1, 0.01, 0.9, 50),
            LeaderboardRow("features", 0.6, 0.12, 0.01, 0.88, 50, 1.0, 0.1, "", "estimator"),
            LeaderboardRow("neighbors", 0.4, 0.13, 0.01, 0.87, 50, 1.0, 0.1, "", "estimator"),
            LeaderboardRow("more features", note="no time was left"),
        )
        found = fitting.places_of(Leaderboard(rows, "1 - R2", "R2"))
        assert [one["candidate"] for one in found] == ["features", "neighbors", "more features"]
        assert [one["share"] for one in found] == [0.6, 0.4, 0.0]
        assert {one["loss_name"] for one in found} == {"1 - R2"}

    def test_without_the_kernel_model(self):
        assert len(verdict.leaderboard(pd.DataFrame({"leaderboard": [[], []]}))) == 0


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
    return Problem(frame, y, "r2", **{"folds": 2, **settings})


class TestJournal:
    def test_rows_survive(self, tmp_path):
        cell = contest.Cell(LINEAR, 1)
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
        "other", [problem(seed=1), problem(folds=3), problem(n=42), problem(components=8)]
    )
    def test_rows_of_another_comparison_are_not_used(self, tmp_path, other):
        first = journal.Journal(tmp_path, problem())
        first.add(contest.run_cell(problem(), contest.Cell(LINEAR, 0)))
        first.close(remove=False)
        second = journal.Journal(tmp_path, other)
        assert second.kept == 0
        second.close(remove=True)

    @pytest.mark.parametrize("end", ["", '{"contestant": "gu', "\x00"])
    def test_an_incomplete_line_is_ignored(self, tmp_path, end):
        first = journal.Journal(tmp_path, problem())
        for fold in range(2):
            first.add(contest.run_cell(problem(), contest.Cell(GUESS, fold)))
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
