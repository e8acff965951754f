"""All that a comparison found, and what to say about it in a few sentences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from quadfeat import QuadratureFeatures
from quadfeat._utils.validation import one_line
from quadfeat.apps.compare import contest, snippet, verdict
from quadfeat.apps.compare.contest import (
    BOOSTERS,
    DEFAULT_RULE,
    EXACT,
    GUESS,
    LINEAR,
    MAPS,
    MODEL,
    OURS,
    Problem,
)
from quadfeat.apps.compare.machines import MODEL_SETTINGS, PENALTIES
from quadfeat.apps.compare.scoring import METRICS, Metric, metrics_of
from quadfeat.apps.compare.table import Table
from quadfeat.apps.compare.verdict import Key, Verdict
from quadfeat.kernels import Gaussian, Kernel

NONE = "-"  # in place of a score that a contestant does not have


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
        Of the contest, a row per fold; larger is better, whatever the metric.
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
        metric = problem.metric
        names = [one.column for one in metrics_of(metric.task)]
        table = verdict.summarise(played, names)
        scores = verdict.scores_by_fold(played, metric.sign)
        peaks = table.set_index(["contestant", "D"])["peak_memory_mb"].to_dict()
        decided = verdict.decide(scores, peaks)
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
    def metric(self) -> Metric:
        """The score by which contestants are ranked."""
        return self.problem.metric

    @property
    def score_name(self) -> str:
        """The name of that score."""
        return self.metric.label

    @property
    def formats(self) -> dict[str, str]:
        """The formats of scores in tables."""
        forms = {metric.label: metric.form for metric in METRICS.values()}
        return {**forms, "±": self.error_form, "memory, MB": ".0f"}

    @property
    def error_form(self) -> str:
        """The format of standard errors."""
        return ".2g" if self.metric.form.endswith("g") else self.metric.form

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
            self.kernel_of(key),
            key[1],
            alpha=float(self.entry(key)["alpha"]),
            rule=self.rule,
            scoring=self.problem.scoring,
            seed=self.problem.seed,
        )

    def kernel_of(self, key: Key) -> Kernel | None:
        """Return the kernel of a map; None for other contestants."""
        if key[0] not in MAPS:
            return None
        return self.gaussian if key[0] == contest.RBF_SAMPLER else self.kernel

    def named(self, key: Key) -> str:
        """Return a contestant in words."""
        if key[0] == LINEAR:
            return "a plain linear model"
        if key[0] == MODEL:
            settings = ", ".join(f"{name}={value!r}" for name, value in MODEL_SETTINGS.items())
            classifier = "Classifier" if self.metric.task == "classification" else ""
            return f"quadfeat's {MODEL}{classifier}({settings})"
        if key[0] not in MAPS:
            return f"{key[0]} with its default settings"
        kernel = one_line(self.kernel_of(key))
        rule = f", rule {self._rule_in_words()}" if key[0] == OURS else ""
        return f"{key[0]} with {kernel}{rule}, D = {key[1]}"

    def _rule_in_words(self) -> str:
        return self.rule_in_full if self.rule == DEFAULT_RULE else f"'{self.rule}'"

    def scored(self, key: Key) -> str:
        """Return the score of a contestant, with its standard error."""
        entry = self.entry(key)
        return f"{entry['score']:{self.metric.form}} ± {entry['score_error']:{self.error_form}}"

    def gap(self, one: Key, other: Key) -> str:
        """Return by how much the score of one is above that of another, fold by fold."""
        found = verdict.difference(self.scores, one, other)
        mean = self.metric.sign * found.mean
        return f"({mean:+{self.metric.form}} ± {found.error:{self.error_form}})"

    @property
    def memory_measured(self) -> bool:
        """Whether this system can measure the peak memory of a fit."""
        return bool(self.table["peak_memory_mb"].notna().any())

    def summary(self) -> dict[str, Any]:
        """Return the result for a file that programs read."""
        table = self.table.astype(object).where(self.table.notna(), None)
        return {
            "task": self.metric.task,
            "scoring": self.metric.option,
            "use": list(self.verdict.key),
            "best": list(self.verdict.best),
            "conclusions": [*recommendation(self), *comparisons(self)],
            "warnings": cautions(self),
            "contestants": table.to_dict(orient="records"),
        }


def _short(key: Key) -> str:
    """Return the name of a contestant, and its number of features if it has one."""
    return f"{key[0]} with D = {key[1]}" if key[1] else key[0]


def recommendation(found: Findings) -> list[str]:
    """Return what to use, why, and by how much it wins."""
    chosen, best = found.verdict.key, found.verdict.best
    lines = [f"Use {found.named(chosen)}: {found.score_name} {found.scored(chosen)}."]
    if best == chosen:
        lines[0] += " It has the best score of all."
    elif chosen[0] in MAPS:
        lines[0] += (
            " That is the fewest features within one standard error of the best score, "
            f"{found.scored(best)} by {_short(best)}."
        )
    else:
        lines[0] += (
            f" That is within one standard error of the best score, {found.scored(best)} by "
            f"{_short(best)}."
        )
    lines += _margin(found)
    if chosen[0] == LINEAR:
        lines.append("Your table does not need a kernel: features only cost time here.")
    if found.verdict.saves_memory:
        lines.append(_saved_memory(found))
    if chosen[0] not in (OURS, MODEL):
        alone = found.verdict.alone
        lines.append(f"Of quadfeat alone, it would be {found.named(alone)}: {found.scored(alone)}.")
    return lines


def _margin(found: Findings) -> list[str]:
    """Return by how much the chosen contestant wins over the best of the others."""
    chosen, rival = found.verdict.key, found.verdict.rival
    if chosen[0] in BOOSTERS:
        rival = found.verdict.alone
    if rival is None:
        return []
    gap = verdict.difference(found.scores, chosen, rival)
    subject = "A plain linear model" if chosen[0] == LINEAR else _short(chosen)
    if gap.words == "as good as":
        return [f"{subject} is as good as {_short(rival)} {found.gap(chosen, rival)}."]
    amount = f"{abs(gap.mean):{found.metric.form}} ± {gap.error:{found.error_form}}"
    word = gap.words.split()[0]
    line = f"{subject} is {word} than {_short(rival)} by {amount} {found.score_name}"
    if chosen[0] in BOOSTERS:
        need = "intervals or streaming" if found.metric.task == "regression" else "streaming"
        line += f": use it unless you need {need}"
    return [line + "."]


def _saved_memory(found: Findings) -> str:
    simple = [key for key in found.scores.columns if key[0] in MAPS]
    peaks = found.table.set_index(["contestant", "D"])["peak_memory_mb"]
    key = max(simple, key=lambda one: float(found.scores[one].mean()))
    return (
        f"It needs {peaks[found.verdict.key]:.0f} MB of memory to train; {_short(key)}, the best "
        f"pipeline with a map, needs {peaks[key]:.0f} MB."
    )


def cautions(found: Findings) -> list[str]:
    """Return warnings: models no better than guessing, and choices at the edge of a grid."""
    lines = []
    chosen = found.verdict.key
    if found.verdict.hopeless:
        if found.metric.task == "regression":
            guess = "the mean of the target"
        else:
            guess = "the shares of the classes"
        lines.append(
            f"No model is better than guessing by {guess} beyond two standard errors: "
            f"{_short(chosen)} has {found.score_name} {found.scored(chosen)}, guessing has "
            f"{found.scored((GUESS, 0))} {found.gap(chosen, (GUESS, 0))}. The columns may say "
            "nothing about the target."
        )
    shown = [chosen, *([found.verdict.alone] if found.verdict.alone != chosen else [])]
    for key in shown:
        lines += _edges(found, key)
    return list(dict.fromkeys(lines))


def _edges(found: Findings, key: Key) -> list[str]:
    """Return warnings about hyperparameters of a contestant at the edge of their grids."""
    lines = []
    kernel = found.kernel_of(key)
    for parameter, grid in contest.kernel_grids(found.problem).items():
        values = [one.get_params()[parameter] for one in grid]
        if kernel is not None and repr(kernel) in map(repr, grid):
            value = kernel.get_params()[parameter]
            lines += _edge(f"{parameter} of {key[0]}", value, values, "Try values beyond it")
    if key[0] in (LINEAR, *MAPS):
        alpha = float(found.entry(key)["alpha"])
        lines += _edge(f"alpha of {_short(key)}", alpha, PENALTIES, "Try values beyond it")
    sizes = contest.ladder(found.problem)
    if key[1] == sizes[-1] and 2 * sizes[-1] <= found.problem.n_train:
        lines.append(
            f"D = {key[1]} of {key[0]} is the largest that was tried: more may be better still "
            f"(--max-components {2 * key[1]})."
        )
    return lines


def _edge(name: str, value: float, grid: Sequence[float], advice: str) -> list[str]:
    """Return a warning if a value is the first or the last of its grid.

    Examples
    --------
    >>> _edge("alpha of linear", 100.0, (0.1, 1.0, 100.0), "Try values beyond it")[0]
    'alpha of linear is 100, the largest that was tried (0.1 to 100). Try values beyond it in ...'
    """
    if value not in (grid[0], grid[-1]):
        return []
    which = "smallest" if value == grid[0] else "largest"
    return [
        f"{name} is {value:g}, the {which} that was tried ({grid[0]:g} to {grid[-1]:g}). {advice} "
        "in the script."
    ]


def comparisons(found: Findings) -> list[str]:
    """Return how quadfeat compares with each of the others, good or bad."""
    ours = found.verdict.ours
    lines = []
    for name in MAPS[1:]:
        rival = (name, ours[1])
        if rival in found.scores.columns:
            gap = verdict.difference(found.scores, rival, ours)
            line = (
                f"At equal D = {ours[1]}, {name} is {gap.words} quadfeat {found.gap(rival, ours)}"
            )
            kernels = {found.entry(key)["kernel"] for key in (rival, ours)}
            if len(kernels) > 1:
                line += f"; it has the kernel {found.entry(rival)['kernel']}"
            lines.append(line + ".")
    lines += _in_equal_time(found)
    model = (MODEL, 0)
    if model in found.scores.columns:
        gap = verdict.difference(found.scores, model, ours)
        lines.append(
            f"{MODEL} with no settings is {gap.words} quadfeat with the kernel and D chosen here "
            f"{found.gap(model, ours)}."
        )
    alone = found.verdict.alone
    for name in BOOSTERS:
        if (name, 0) in found.scores.columns:
            gap = verdict.difference(found.scores, (name, 0), alone)
            lines.append(f"{name} is {gap.words} {_short(alone)} {found.gap((name, 0), alone)}.")
    guessing = (
        f"guessing scores {found.entry((GUESS, 0))['score']:{found.metric.form}}"
        if (GUESS, 0) in found.scores.columns
        else "guessing has no such score"
    )
    linear = (LINEAR, 0)
    if linear in found.scores.columns:
        gap = verdict.difference(found.scores, linear, ours)
        lines.append(
            f"A plain linear model is {gap.words} quadfeat {found.gap(linear, ours)}; {guessing}."
        )
    else:
        lines.append(f"For comparison: {guessing}.")
    exact = (EXACT, 0)
    if exact in found.scores.columns:
        gap = verdict.difference(found.scores, exact, ours)
        seen = int(found.entry(exact)["train_rows"])
        part = "all" if seen >= found.entry(ours)["train_rows"] else "only"
        line = (
            f"The exact kernel machine, trained on {part} {seen} rows, is {gap.words} quadfeat "
            f"{found.gap(exact, ours)}"
        )
        if part == "all" and gap.words == "better than" and not found.source.sampled:
            line += ": with so few rows you can afford it"
        lines.append(line + ".")
    failed = found.failed
    if len(failed):
        first = failed.iloc[0]
        lines.append(
            f"{len(failed)} cells failed, such as {_short((first['contestant'], first['D']))}: "
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
                score = format(row["score"], found.metric.form)
                parts.append(f"{name} reaches {score} with D = {row['D']}")
    if not parts:
        return []
    ours = found.verdict.ours
    seconds, score = timed.loc[OURS, "seconds"], found.entry(ours)["score"]
    reached = format(score, found.metric.form)
    what = f"In the {seconds:.2g} CPU seconds in which quadfeat reaches {reached}"
    return [f"{what}, {' and '.join(parts)}."]


def equal_size_table(found: Findings) -> pd.DataFrame:
    """Return the contest for readers, a row for each contestant and number of features."""
    table = found.table
    others = [one for one in metrics_of(found.metric.task) if one is not found.metric]
    return pd.DataFrame(
        {
            "contestant": table["contestant"],
            "D": table["D"].astype(object).where(table["D"] > 0, ""),
            found.score_name: _dashed(table["score"]),
            "±": _dashed(table["score_error"]),
            **{one.label: _dashed(table[one.column]) for one in others},
            "kernel error": table["kernel_error"],
            "train, CPU s": table["fit_cpu_seconds"],
            "predict, CPU ms / 1000 rows": 1e6 * table["predict_cpu_seconds"] / table["test_rows"],
            **({"memory, MB": table["peak_memory_mb"]} if found.memory_measured else {}),
        }
    )


def _dashed(scores: pd.Series) -> pd.Series:
    return scores.astype(object).where(scores.notna(), NONE)


def equal_time_table(found: Findings) -> pd.DataFrame:
    """Return what each reaches in equal time, for readers."""
    columns = {"score": found.score_name, "seconds": "CPU s"}
    table = found.equal_time[["contestant", "D", "score", "seconds", "remark"]]
    return table.rename(columns=columns)


def kernel_table(found: Findings) -> pd.DataFrame:
    """Return the kernels that were tried, the best first."""
    rows = found.rows[found.rows["stage"] == "kernel"]
    grouped = rows.groupby("kernel", sort=False)[["score", "kernel_error"]].mean().reset_index()
    columns = {"score": found.score_name, "kernel_error": "kernel error"}
    worst_first = found.metric.sign < 0
    return grouped.sort_values("score", ascending=worst_first).rename(columns=columns)


def rule_table(found: Findings) -> pd.DataFrame:
    """Return the rules that were tried, the most exact first."""
    rows = found.rows[found.rows["stage"] == "rule"]
    grouped = rows.groupby("rule", sort=False)["kernel_error"]
    table = pd.DataFrame({"kernel error": grouped.mean(), "±": grouped.sem()}).reset_index()
    failed = rows[rows["failed"] != ""].groupby("rule")["failed"].first()
    table["remark"] = [failed.get(rule, "") for rule in table["rule"]]
    return table.sort_values("kernel error")
