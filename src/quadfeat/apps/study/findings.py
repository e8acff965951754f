"""The findings of a study in words and numbers: for the page, the terminal and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from quadfeat.apps.study import summary
from quadfeat.apps.study.methods import (
    AUTO,
    CONTESTANTS,
    KERNEL_SVM,
    KERNELS,
    METHODS,
    PAPER_MAP,
    PAPER_RULE,
    PLAIN,
    RBF_SAMPLER,
)
from quadfeat.apps.study.runner import Outcome

# Ratios of errors that are closer to 1 than this factor are reported in percent.
CLOSE = 1.5


def title(method: str) -> str:
    """Return the full name of a method. An unknown name stays as it is."""
    return CONTESTANTS[method].title if method in CONTESTANTS else method


class Step(NamedTuple):
    """Something to do next: a sentence, and code or a command."""

    text: str
    code: str


@dataclass(frozen=True)
class Findings:
    """The main results of a study.

    Attributes
    ----------
    outcomes : sequence of Outcome
    errors, scores, times : pandas.DataFrame or None
        The summaries of the three experiments; None for an experiment without rows.
    """

    outcomes: Sequence[Outcome]
    errors: pd.DataFrame | None = None
    scores: pd.DataFrame | None = None
    times: pd.DataFrame | None = None

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], tables: dict[str, pd.DataFrame]) -> Findings:
        """Summarize the rows of each experiment."""
        errors, scores = tables.get("kernel-error"), tables.get("accuracy")
        return cls(
            outcomes,
            errors=None if errors is None else summary.kernel_errors(errors),
            scores=None if scores is None else summary.accuracies(scores),
            times=tables.get("walltime"),
        )

    @cached_property
    def baseline(self) -> str | None:
        """The method that errors are divided by: random Fourier features, or the last that ran."""
        if self.errors is None:
            return None
        ran = list(dict.fromkeys(self.errors["method"]))
        return PLAIN if PLAIN in ran else ran[-1]

    @cached_property
    def relative(self) -> pd.DataFrame | None:
        """Errors relative to the baseline, if another method ran."""
        if self.errors is None or self.baseline is None:
            return None
        if self.errors["method"].nunique() < 2:
            return None
        return summary.relative_errors(self.errors, self.baseline)

    @cached_property
    def winners(self) -> pd.DataFrame:
        """The best method for each dataset and kernel."""
        return pd.DataFrame() if self.errors is None else summary.winners(self.errors)

    @cached_property
    def agreement(self) -> pd.DataFrame:
        """How many errors of each method agree with the published ones."""
        if self.errors is None:
            return pd.DataFrame(columns=["method", "agree", "of"])
        return summary.agreement(self.errors)

    @cached_property
    def selected(self) -> pd.DataFrame:
        """The map that validation selects for each dataset and kernel."""
        if self.scores is None:
            return pd.DataFrame(columns=["score", KERNEL_SVM])
        return summary.selected_scores(self.scores)

    @property
    def failed(self) -> list[Outcome]:
        """Cells that raised an error."""
        return [outcome for outcome in self.outcomes if outcome.failed]

    @property
    def skipped(self) -> list[Outcome]:
        """Cells that were not run for a stated reason."""
        return [outcome for outcome in self.outcomes if outcome.skipped]

    def headline(self) -> str:
        """Return the main finding in one sentence."""
        candidates = (self._errors_sentence(), self._accuracy_sentence(), self._speed_sentence())
        found = [sentence for sentence in candidates if sentence]
        if found:
            return found[0]
        if any(outcome.rows for outcome in self.outcomes):
            return "One method alone was run, so there is nothing to compare it with."
        return "No measurement could be made: the last sections give the reasons."

    def bullets(self, *, winners: bool = True) -> list[str]:
        """Return the other main findings, with or without the winners for each kernel."""
        found = [self._agreement_sentence()]
        found += self._winner_sentences() if winners else []
        found += [self._accuracy_sentence(), self._speed_sentence(), self._failure_sentence()]
        headline = self.headline()
        return [sentence for sentence in found if sentence and sentence != headline]

    def _errors_sentence(self) -> str:
        if self.relative is None or self.relative.empty:
            return ""
        parts: list[str] = []
        for method in (AUTO, PAPER_RULE, PAPER_MAP):
            if method == self.baseline or (method == PAPER_MAP and len(parts) == 2):
                continue
            ratio = summary.overall_ratio(self.relative, method)
            if np.isfinite(ratio):
                parts.append(f"{_times(ratio)} with {_in_sentence(method)}")
        if not parts:
            return self._best_sentence()
        return (
            f"At the same number of features, the kernel error is {' and '.join(parts)} than with "
            f"{_in_sentence(str(self.baseline))}."
        )

    def _best_sentence(self) -> str:
        if self.winners.empty:
            return ""
        counts = self.winners["best"].value_counts()
        return (
            f"The smallest kernel error in {counts.iloc[0]} of {_count(len(self.winners), 'pair')} "
            f"of dataset and kernel is that of {_in_sentence(counts.index[0])}."
        )

    def _agreement_sentence(self) -> str:
        ours = self.agreement[self.agreement["method"] == PAPER_RULE]
        if ours.empty:
            return ""
        agree, of = int(ours["agree"].iloc[0]), int(ours["of"].iloc[0])
        share = f"all {of}" if agree == of else f"{agree} of {of}"
        return (
            f"The study reproduces {share} errors that the authors published for their rule and "
            "that were measured here, within three standard errors."
        )

    def _winner_sentences(self) -> list[str]:
        """Count for each kernel how often the main methods are best, or tied with the best."""
        found = []
        if self.winners.empty:
            return []
        ran = set(self.winners["best"]) | {
            name for name in (AUTO, PAPER_RULE) if self.winners[f"{name} / best"].notna().any()
        }
        for kernel, part in self.winners.groupby("kernel", sort=False):
            best = [{row.best, *row.tied} for row in part.itertuples()]
            counts = {name: sum(name in names for names in best) for name in METHODS}
            most = max(counts, key=lambda name: counts[name])
            shown = [name for name in dict.fromkeys((AUTO, PAPER_RULE, most)) if name in ran]
            first, *others = (f"{_in_sentence(name)} on {counts[name]}" for name in shown)
            first = first.replace(" on ", " is best or tied on ")
            of = f"of {_count(len(part), 'dataset')}"
            found.append(f"{KERNELS[str(kernel)]} kernel: {', '.join([f'{first} {of}', *others])}.")
        return [sentence[0].upper() + sentence[1:] for sentence in found]

    def _accuracy_sentence(self) -> str:
        both = self.selected.dropna(subset=["score", KERNEL_SVM])
        if both.empty:
            return ""
        gap = float((both["score"] - both[KERNEL_SVM]).median())
        return (
            "A linear model on the features that validation selects scores "
            f"{_signed(gap)} the kernel SVM on test rows (median over "
            f"{_count(len(both), 'pair')} of dataset and kernel)."
        )

    def _speed_sentence(self) -> str:
        if self.times is None:
            return ""
        d = self.times["d"].max()
        widest = self.times[self.times["d"] == d].set_index("method")["seconds"]
        if not {PAPER_MAP, RBF_SAMPLER} <= set(widest.index):
            return ""
        ratio = widest[RBF_SAMPLER] / widest[PAPER_MAP]
        return (
            f"For rows of {d} columns, RBFSampler of scikit-learn takes {ratio:.3g} times as long "
            "as the paper's rule on one thread."
        )

    def _failure_sentence(self) -> str:
        if not self.failed:
            return ""
        return f"{_count(len(self.failed), 'measurement')} failed: see “Not run”."

    def next_steps(self, about: dict[str, Any]) -> list[Step]:
        """Return what the reader can do now."""
        steps = []
        command = str(about.get("command", ""))
        if self.failed:
            steps.append(Step("Repeat the measurements that failed:", command))
        maps = self._winning_maps()
        if not maps.empty and maps[f"{AUTO} / best"].notna().any():
            lost = [row for row in maps.itertuples() if AUTO not in {row.best, *row.tied}]
            for row in lost:
                where = f"For data like {row.dataset} and the {KERNELS[row.kernel]} kernel, try:"
                steps.append(Step(where, f"QuadratureFeatures({METHODS[row.best].code})"))
            if not lost:
                steps.append(
                    Step("Keep the default. No method clearly beats it here:", 'rule="auto"')
                )
        steps.append(
            Step("Compare models on your own table:", "quadfeat compare TABLE --target COLUMN")
        )
        if "--full" not in command:
            steps.append(
                Step(
                    "Repeat the study with narrower intervals on the paper's datasets:",
                    "quadfeat data fetch all && quadfeat study all --full",
                )
            )
        return steps

    def _winning_maps(self) -> pd.DataFrame:
        """Return the best method for each dataset and kernel, of those that are feature maps."""
        if self.errors is None:
            return pd.DataFrame()
        maps = [name for name, method in METHODS.items() if method.estimate == "map"]
        return summary.winners(self.errors[self.errors["method"].isin(maps)])

    def as_json(self) -> dict[str, Any]:
        """Return the findings for programs."""
        growth = pd.DataFrame() if self.times is None else summary.exponents(self.times)
        relative = pd.DataFrame() if self.relative is None else self.relative
        return {
            "headline": self.headline(),
            "findings": self.bullets(),
            "measurements": sum(bool(outcome.rows) for outcome in self.outcomes),
            "kept": sum(outcome.kept for outcome in self.outcomes),
            "skipped": len(self.skipped),
            "failed": [
                {"cell": str(outcome.cell), "reason": outcome.failed} for outcome in self.failed
            ],
            "baseline": self.baseline,
            "relative_errors": _records(relative),
            "winners": _records(self.winners),
            "agreement": _records(self.agreement),
            "accuracy": _records(self.selected),
            "growth": _records(growth),
        }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows for JSON, with None in place of NaN."""
    return [
        {
            key: None if np.ndim(value) == 0 and pd.isna(value) else value
            for key, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


def _in_sentence(method: str) -> str:
    """Return the full name of a method as part of a sentence."""
    name = title(method)
    lower = name if name.startswith("RBF") else name[0].lower() + name[1:]
    return f"the {lower}" if "rule" in name or "grid" in name or "radius" in name else lower


def _times(ratio: float) -> str:
    if 1 / CLOSE <= ratio <= CLOSE:
        return f"{abs(ratio - 1):.0%} {'smaller' if ratio < 1 else 'larger'}"
    return f"{1 / ratio:.1f} times smaller" if ratio <= 1 else f"{ratio:.1f} times larger"


def _signed(gap: float) -> str:
    if abs(gap) < 0.0005:
        return "the same as"
    return f"{abs(gap):.3f} {'above' if gap > 0 else 'below'}"


def _count(n: int, noun: str) -> str:
    """Return a number and its noun, in the singular for one."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
