"""All that a comparison found, and what to say about it in a few sentences."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from quadfeat import QuadratureFeatures
from quadfeat._utils.validation import one_line
from quadfeat.apps.compare import contest, snippet, verdict
from quadfeat.apps.compare.contest import (
    DEFAULT_RULE,
    EXACT,
    GUESS,
    LINEAR,
    MAPS,
    OURS,
    Problem,
)
from quadfeat.apps.compare.table import Table
from quadfeat.apps.compare.verdict import Key, Verdict
from quadfeat.kernels import Gaussian, Kernel

SCORES = {"accuracy": "accuracy", "balanced-accuracy": "balanced accuracy", "r2": "R2"}


@dataclass(frozen=True)
class Findings:
    """What was found.

    Attributes
    ----------
    kernel, gaussian : Kernel
        The chosen kernel, and the best Gaussian one, which RBFSampler has.
    rule, rule_in_full : str
        The chosen rule's name, and the rule itself in words.
    rows : DataFrame
        A row for each cell of all stages.
    table : DataFrame
        Means over folds of the contest.
    scores : DataFrame
        Of the contest, a row a fold.
    equal_time : DataFrame
        What each reaches in the time that quadfeat takes.
    """

    source: Table
    problem: Problem
    kernel: Kernel
    gaussian: Gaussian
    rule: str
    rule_in_full: str
    rows: pd.DataFrame
    table: pd.DataFrame
    scores: pd.DataFrame
    verdict: Verdict
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
        """Return what the rows tell."""
        played = rows[rows["stage"] == "contest"]
        table, scores = verdict.summarise(played), verdict.scores_by_fold(played)
        decided = verdict.decide(scores)
        features = QuadratureFeatures(
            kernel, n_components=decided.ours[1], rule=rule, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said again when the model is trained
            fitted = one_line(features.fit(problem.fold(0).X_train).rule_)
        timed = verdict.equal_time(table, decided.ours)
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
            timed,
        )

    @property
    def score_name(self) -> str:
        """What a score is."""
        return SCORES[self.problem.scoring]

    @property
    def formats(self) -> dict[str, str]:
        """How scores are written in tables."""
        return {self.score_name: ".4f", "±": ".4f"}

    @property
    def failed(self) -> pd.DataFrame:
        """The cells that failed; a rule that cannot serve a kernel has not."""
        return self.rows[(self.rows["failed"] != "") & (self.rows["stage"] != "rule")]

    def entry(self, key: Key) -> pd.Series:
        """Return the means of a contestant."""
        table = self.table
        return table[(table["contestant"] == key[0]) & (table["D"] == key[1])].iloc[0]

    def snippet(self, key: Key) -> str:
        """Return the lines of Python for a contestant."""
        return snippet.build(
            self.source,
            key[0],
            self._kernel_of(key),
            key[1],
            alpha=float(self.entry(key)["alpha"]),
            rule=self.rule,
            scoring=self.problem.scoring,
            seed=self.problem.seed,
        )

    def _kernel_of(self, key: Key) -> Kernel | None:
        if key[0] == LINEAR:
            return None
        return self.gaussian if key[0] == contest.RBF_SAMPLER else self.kernel

    def named(self, key: Key) -> str:
        """Return a contestant in words."""
        if key[0] == LINEAR:
            return "a plain linear model"
        if key[0] not in MAPS:
            return key[0]
        kernel = one_line(self._kernel_of(key))
        rule = f", rule {self._rule_in_words()}" if key[0] == OURS else ""
        return f"{key[0]} with {kernel}{rule}, D = {key[1]}"

    def _rule_in_words(self) -> str:
        return self.rule_in_full if self.rule == DEFAULT_RULE else f"'{self.rule}'"

    def scored(self, key: Key) -> str:
        """Return the score of a contestant, with its standard error."""
        entry = self.entry(key)
        return f"{entry['score']:.4f} ± {entry['score_error']:.4f}"


def recommendation(found: Findings) -> list[str]:
    """Return what to use, and why."""
    chosen, best, ours = found.verdict.key, found.verdict.best, found.verdict.ours
    lines = [f"Use {found.named(chosen)}: {found.score_name} {found.scored(chosen)}."]
    linear = chosen[0] == LINEAR
    if best == chosen:
        lines[0] += " It has the highest score of all."
    else:
        near = "within" if linear else "the fewest features that come within"
        lines[0] += (
            f" That is {near} one standard error of the highest score, {found.scored(best)} by "
            f"{best[0]} with D = {best[1]}."
        )
    if linear:
        lines.append("Your table does not need a kernel: features only cost time here.")
    top = max(key[1] for key in found.scores.columns)
    if chosen[1] == top and top * 2 <= found.problem.n_train:
        lines.append(
            f"D = {top} is the largest that was tried: more may be better still "
            f"(--max-components {2 * top})."
        )
    if chosen[0] != OURS:
        lines.append(f"Of quadfeat alone, it would be {found.named(ours)}: {found.scored(ours)}.")
    return lines


def _gap(found: Findings, one: Key, other: Key) -> str:
    gap = verdict.difference(found.scores, one, other)
    return f"({gap.mean:+.4f} ± {gap.error:.4f})"


def comparisons(found: Findings) -> list[str]:
    """Return how quadfeat compares with each of the others, good or bad."""
    ours = found.verdict.ours
    lines = []
    for name in MAPS[1:]:
        rival = (name, ours[1])
        if rival in found.scores.columns:
            gap = verdict.difference(found.scores, rival, ours)
            line = (
                f"At equal D = {ours[1]}, {name} is {gap.words} quadfeat {_gap(found, rival, ours)}"
            )
            kernels = {found.entry(key)["kernel"] for key in (rival, ours)}
            if len(kernels) > 1:
                line += f"; it has the kernel {found.entry(rival)['kernel']}"
            lines.append(line + ".")
    lines += _in_equal_time(found)
    linear = (LINEAR, 0)
    if linear in found.scores.columns:
        gap = verdict.difference(found.scores, linear, ours)
        lines.append(
            f"A plain linear model is {gap.words} quadfeat {_gap(found, linear, ours)}; guessing "
            f"scores {found.entry((GUESS, 0))['score']:.4f}."
        )
    exact = (EXACT, 0)
    if exact in found.scores.columns:
        gap = verdict.difference(found.scores, exact, ours)
        seen = int(found.entry(exact)["train_rows"])
        part = "all" if seen >= found.entry(ours)["train_rows"] else "only"
        line = (
            f"The exact kernel machine, trained on {part} {seen} rows, is {gap.words} quadfeat "
            f"{_gap(found, exact, ours)}"
        )
        if part == "all" and gap.words == "better than" and not found.source.sampled:
            line += ": with so few rows you can afford it"
        lines.append(line + ".")
    failed = found.failed
    if len(failed):
        first = failed.iloc[0]
        lines.append(
            f"{len(failed)} cells failed, such as {first['contestant']} with D = {first['D']}: "
            f"{first['failed']}"
        )
    return lines


def _in_equal_time(found: Findings) -> list[str]:
    """Return what the other maps reach in the time that quadfeat takes, as one sentence."""
    timed = found.equal_time.set_index("contestant")
    parts = []
    for name in MAPS[1:]:
        if name in timed.index:
            row = timed.loc[name]
            if np.isnan(row["score"]):
                parts.append(f"{name} cannot finish with any D that was tried")
            else:
                parts.append(f"{name} reaches {row['score']:.4f} with D = {row['D']}")
    if not parts:
        return []
    ours = found.verdict.ours
    seconds, score = timed.loc[OURS, "seconds"], found.entry(ours)["score"]
    what = f"In the {seconds:.2g} s in which quadfeat reaches {score:.4f}"
    return [f"{what}, {' and '.join(parts)}."]


def equal_size_table(found: Findings) -> pd.DataFrame:
    """Return the contest for readers, a row for each contestant and number of features."""
    table = found.table
    return pd.DataFrame(
        {
            "contestant": table["contestant"],
            "D": table["D"].astype(object).where(table["D"] > 0, ""),
            found.score_name: table["score"],
            "±": table["score_error"],
            "kernel error": table["kernel_error"],
            "train, s": table["fit_seconds"],
            "predict, ms / 1000 rows": 1e6 * table["predict_seconds"] / table["test_rows"],
        }
    )


def equal_time_table(found: Findings) -> pd.DataFrame:
    """Return what each reaches in equal time, for readers."""
    columns = {"score": found.score_name, "seconds": "s"}
    table = found.equal_time[["contestant", "D", "score", "seconds", "remark"]]
    return table.rename(columns=columns)


def kernel_table(found: Findings) -> pd.DataFrame:
    """Return the kernels that were tried, the best first."""
    rows = found.rows[found.rows["stage"] == "kernel"]
    grouped = rows.groupby("kernel", sort=False)[["score", "kernel_error"]].mean().reset_index()
    columns = {"score": found.score_name, "kernel_error": "kernel error"}
    return grouped.sort_values("score", ascending=False).rename(columns=columns)


def rule_table(found: Findings) -> pd.DataFrame:
    """Return the rules that were tried, the most exact first."""
    rows = found.rows[found.rows["stage"] == "rule"]
    grouped = rows.groupby("rule", sort=False)["kernel_error"]
    table = pd.DataFrame({"kernel error": grouped.mean(), "±": grouped.sem()}).reset_index()
    failed = rows[rows["failed"] != ""].groupby("rule")["failed"].first()
    table["remark"] = [failed.get(rule, "") for rule in table["rule"]]
    return table.sort_values("kernel error")
