"""Gather the results of a comparison: the recommended model, its rivals, and their numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pandas as pd

from quadfeat import QuadratureFeatures
from quadfeat._utils.validation import one_line
from quadfeat.apps.compare import snippet, verdict
from quadfeat.apps.compare.contest import Problem
from quadfeat.apps.compare.contestants import (
    BOOSTERS,
    GUESS,
    MAPS,
    RBF_SAMPLER,
    Key,
    explanation,
)
from quadfeat.apps.compare.lines import WIDTH
from quadfeat.apps.compare.scoring import Metric, form_of, metrics_of
from quadfeat.apps.compare.table import Table
from quadfeat.apps.compare.verdict import Difference, Verdict
from quadfeat.kernels import Gaussian, Kernel


@dataclass(frozen=True)
class Findings:
    """The results of a comparison.

    Attributes
    ----------
    source : Table
        The table of the user.
    problem : Problem
        The data and settings of the comparison.
    kernel, gaussian : Kernel
        The chosen kernel, and the best Gaussian kernel, which RBFSampler uses.
    rule, fitted_rule : str
        The name of the chosen rule, and the representation of the fitted rule.
    rows : DataFrame
        One row per cell, for all stages.
    table : DataFrame
        Means over folds, one row per model and number of features.
    scores : DataFrame
        Oriented scores of the models, one row per fold: larger is better.
    verdict : Verdict
    entries : list of tuple
        One entry per model, the best score first.
    equal_time : DataFrame
        The score of each model in the time that quadrature features take.
    """

    source: Table
    problem: Problem
    kernel: Kernel
    gaussian: Gaussian
    rule: str
    fitted_rule: str
    rows: pd.DataFrame
    table: pd.DataFrame
    scores: pd.DataFrame
    verdict: Verdict
    entries: list[Key]
    equal_time: pd.DataFrame

    @classmethod
    def of(
        cls,
        source: Table,
        problem: Problem,
        kernel: Kernel,
        gaussian: Gaussian,
        rule: str,
        rows: pd.DataFrame,
    ) -> Findings:
        """Evaluate the rows of all cells."""
        played = rows[rows["stage"] == "contest"]
        metric = problem.metric
        names = [one.column for one in metrics_of(metric.task)]
        table = verdict.summarize(played, names)
        scores = verdict.scores_by_fold(played, metric.sign)
        peaks = table.set_index(["contestant", "D"])["peak_memory_mb"].to_dict()
        decided = verdict.decide(scores, peaks)
        features = QuadratureFeatures(
            kernel, n_components=decided.ours[1], rule=rule, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # training the model warns again
            fitted = one_line(features.fit(problem.fold(0).X_train).rule_)
        return cls(
            source,
            problem,
            kernel,
            gaussian,
            rule,
            fitted,
            rows,
            table,
            scores,
            decided,
            verdict.representatives(scores, decided),
            verdict.equal_time(table, decided.ours),
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
        """The cells that failed. A rule that does not support the kernel is no failure."""
        return self.rows[(self.rows["failed"] != "") & (self.rows["stage"] != "rule")]

    @property
    def memory_measured(self) -> bool:
        """Whether this system can measure peak memory."""
        return bool(self.table["peak_memory_mb"].notna().any())

    @property
    def rival(self) -> Key | None:
        """The model to compare the recommended one with: the best of another kind.

        The two kinds of boosted trees are not compared with each other. If no model beats the
        constant prediction, that is the rival.
        """
        if self.verdict.hopeless:
            return GUESS, 0
        if self.verdict.key[0] in BOOSTERS:
            return self.verdict.alone
        if self.verdict.rival is None:
            return None
        return next(key for key in self.entries if key[0] == self.verdict.rival[0])

    def entry(self, key: Key) -> pd.Series:
        """Return the means of a model."""
        table = self.table
        return table[(table["contestant"] == key[0]) & (table["D"] == key[1])].iloc[0]

    def interval(self, key: Key) -> tuple[float, float]:
        """Return the 95% interval of the score of a model."""
        entry = self.entry(key)
        low, high = verdict.interval(entry["score"], entry["score_error"], self.problem.folds)
        return max(low, self.metric.least), min(high, self.metric.most)

    def difference(self, one: Key, other: Key) -> Difference:
        """Return by how much ``one`` is better than ``other``, whatever the metric."""
        return verdict.difference(self.scores, one, other)

    def kernel_of(self, key: Key) -> Kernel | None:
        """Return the kernel of a feature map, or None for other models."""
        if key[0] not in MAPS:
            return None
        return self.gaussian if key[0] == RBF_SAMPLER else self.kernel

    def explanation(self, key: Key) -> str:
        """Return one sentence about a model."""
        return explanation(key[0], self.metric.task, self.problem.exact_rows)

    def script(self, key: Key) -> str:
        """Return the script that trains a model."""
        return snippet.build(
            self.source,
            key[0],
            self.kernel_of(key),
            key[1],
            alpha=float(self.entry(key)["alpha"]),
            rule=self.rule,
            scoring=self.problem.scoring,
            seed=self.problem.seed,
        )

    def definition(self, key: Key, width: int = WIDTH) -> list[str]:
        """Return the lines of that script that define the model alone."""
        return snippet.definition(
            self.source,
            key[0],
            self.kernel_of(key),
            key[1],
            alpha=float(self.entry(key)["alpha"]),
            rule=self.rule,
            balanced=self.problem.scoring == "balanced-accuracy",
            seed=self.problem.seed,
            width=width,
        )

    def scored(self, key: Key) -> str:
        """Return the score of a model as text."""
        return format(self.entry(key)["score"], self.form)

    def bounds(self, key: Key) -> str:
        """Return the interval of the score of a model as text."""
        low, high = self.interval(key)
        return f"{low:{self.form}} to {high:{self.form}}"

    def gap(self, one: Key, other: Key) -> str:
        """Return the score of ``one`` minus that of ``other``, with its standard error."""
        found = self.difference(one, other)
        return f"{self.metric.sign * found.mean:+{self.form}} ± {found.error:{self.form}}"
