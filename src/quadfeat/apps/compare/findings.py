"""Gather the results of a comparison: the recommended model, its rivals, and their numbers."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from quadfeat.apps.compare import snippet, verdict
from quadfeat.apps.compare.contest import Problem
from quadfeat.apps.compare.contestants import BOOSTERS, GUESS, MODEL, explanation
from quadfeat.apps.compare.lines import WIDTH
from quadfeat.apps.compare.scoring import Metric, form_of, metrics_of
from quadfeat.apps.compare.table import Table
from quadfeat.apps.compare.verdict import Difference, Verdict


@dataclass(frozen=True)
class Findings:
    """The results of a comparison.

    Attributes
    ----------
    source : Table
        The table of the user.
    problem : Problem
        The data and settings of the comparison.
    rows : DataFrame
        One row per cell.
    table : DataFrame
        Means over folds, one row per model.
    scores : DataFrame
        Oriented scores of the models, one row per fold: larger is better.
    verdict : Verdict
    entries : list of str
        The models, the best score first.
    leaderboard : DataFrame
        The candidates of the kernel model, the best first. Empty if that model failed.
    """

    source: Table
    problem: Problem
    rows: pd.DataFrame
    table: pd.DataFrame
    scores: pd.DataFrame
    verdict: Verdict
    entries: list[str]
    leaderboard: pd.DataFrame

    @classmethod
    def of(cls, source: Table, problem: Problem, rows: pd.DataFrame) -> Findings:
        """Evaluate the rows of all cells."""
        metric = problem.metric
        names = [one.column for one in metrics_of(metric.task)]
        scores = verdict.scores_by_fold(rows, metric.sign)
        return cls(
            source,
            problem,
            rows,
            verdict.summarize(rows, names),
            scores,
            verdict.decide(scores),
            verdict.ranking(scores),
            verdict.leaderboard(rows),
        )

    @property
    def metric(self) -> Metric:
        """The score that ranks models."""
        return self.problem.metric

    @property
    def score_name(self) -> str:
        """The name of that score."""
        return self.metric.label

    @property
    def form(self) -> str:
        """The format of that score: the same number of decimals everywhere."""
        return form_of(self.metric, self.table["score"])

    @property
    def failed(self) -> pd.DataFrame:
        """The cells that failed."""
        return self.rows[self.rows["failed"] != ""]

    @property
    def memory_measured(self) -> bool:
        """Whether this system can measure peak memory."""
        return bool(self.table["peak_memory_mb"].notna().any())

    @property
    def rival(self) -> str | None:
        """The model to compare the recommended one with.

        The two kinds of boosted trees are not compared with each other. If no model beats the
        constant prediction, that is the rival.
        """
        if self.verdict.hopeless:
            return GUESS
        if self.verdict.key in BOOSTERS and MODEL in self.entries:
            return MODEL
        return self.verdict.rival

    def entry(self, key: str) -> pd.Series:
        """Return the means of a model."""
        return self.table[self.table["contestant"] == key].iloc[0]

    def interval(self, key: str) -> tuple[float, float]:
        """Return the 95% interval of the score of a model."""
        entry = self.entry(key)
        low, high = verdict.interval(entry["score"], entry["score_error"], self.problem.folds)
        return max(low, self.metric.least), min(high, self.metric.most)

    def difference(self, one: str, other: str) -> Difference:
        """Return by how much ``one`` is better than ``other``, whatever the metric."""
        return verdict.difference(self.scores, one, other)

    def explanation(self, key: str) -> str:
        """Return one sentence about a model."""
        problem = self.problem
        return explanation(key, self.metric.task, problem.n_components, problem.exact_rows)

    def script(self, key: str) -> str:
        """Return the script that trains a model."""
        return snippet.build(self.source, self._recipe(key), self.problem.scoring)

    def definition(self, key: str, width: int = WIDTH) -> list[str]:
        """Return the lines of that script that define the model alone."""
        balanced = self.problem.scoring == "balanced-accuracy"
        return snippet.definition(self.source, self._recipe(key), balanced=balanced, width=width)

    def _recipe(self, key: str) -> snippet.Recipe:
        entry, problem = self.entry(key), self.problem
        return snippet.Recipe(
            key,
            float(entry["alpha"]),
            float(entry["gamma"]),
            problem.n_components,
            problem.seed,
            problem.settings,
        )

    def scored(self, key: str) -> str:
        """Return the score of a model as text."""
        return format(self.entry(key)["score"], self.form)

    def bounds(self, key: str) -> str:
        """Return the interval of the score of a model as text."""
        low, high = self.interval(key)
        return f"{low:{self.form}} to {high:{self.form}}"

    def gap(self, one: str, other: str) -> str:
        """Return the score of ``one`` minus that of ``other``, with its standard error."""
        found = self.difference(one, other)
        return f"{self.metric.sign * found.mean:+{self.form}} ± {found.error:{self.form}}"
