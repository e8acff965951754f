"""Errors of rules on a sample by drawing them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import clone

from quadfeat.auto.candidates import Candidate, best_remainder, relative_error
from quadfeat.auto.sample import Sample
from quadfeat.maps.quadrature import QuadratureMap
from quadfeat.rules import Layout, Rule
from quadfeat.rules.nodes import columns_per_node

# Entries of features and of nodes that all trials together may take; how many trials at least and
# at most.
ENTRIES_TO_TRY = 2**23
LEAST_TRIALS = 2
MOST_TRIALS = 32

# Dense nodes of more entries take so long to draw that they are tried once only.
ENTRIES_TO_DRAW = 2**19

# A rule whose first trials have an error of more than so many times the best is not tried again.
PROMISING = 1.4


def try_out(
    rules: list[Rule],
    sample: Sample,
    n_components: int,
    known: list[Candidate],
    rng: np.random.Generator,
) -> list[Candidate]:
    """Return rules with their errors. Each is tried a few times, promising ones more often.

    Parameters
    ----------
    rules : list of Rule
        What could be drawn.
    sample : Sample
        Rows of the data, and the kernel.
    n_components : int
        Number of columns of the map.
    known : list of Candidate
        Others, whose errors say what is promising.
    rng : numpy.random.Generator
        For the draws.
    """
    tried = [Trial.of(rule, sample, n_components) for rule in rules]
    entries = (len(sample.gram) + 4 * sample.d) * n_components  # drawing nodes takes longer
    entries *= sample.kernel.nonlinearity.cost
    most = int(np.clip(ENTRIES_TO_TRY // (4 * entries), LEAST_TRIALS, MOST_TRIALS))
    first = max(1, most // 4)
    for trial in tried:
        trial.run(first, rng)
    best = min(candidate.error for candidate in (*known, *(trial.candidate() for trial in tried)))
    for trial in tried:
        is_slow = not trial.rule.is_fast(sample.d) and n_components * sample.d > ENTRIES_TO_DRAW
        if trial.candidate().error <= PROMISING * best and not is_slow:
            trial.run(most - first, rng)
    return [trial.candidate() for trial in tried]


@dataclass
class Trial:
    """Draws of a rule on the sample: of its blocks, and of what remains behind them."""

    rule: Rule
    sample: Sample
    n_blocks: int  # nodes in whole blocks
    n_rest: int  # nodes that remain
    block_columns: int
    rest_columns: int
    block_errors: list[float] = field(default_factory=list)
    rest_errors: list[float] = field(default_factory=list)

    @classmethod
    def of_whole(cls, rule: Rule, sample: Sample, n_components: int) -> Trial:
        """Return a trial of a rule as it is, whatever remains."""
        return cls(rule, sample, n_components, 0, n_components, 0)

    @classmethod
    def of(cls, rule: Rule, sample: Sample, n_components: int) -> Trial:
        """Return a trial that has not been run."""
        kernel = sample.kernel
        layout = Layout.of(n_components, kernel, origin=rule.has_origin(kernel), reflect=True)
        whole, rest = rule.whole_and_rest(layout, rule.nodes_per_block(sample.d))
        if not whole:  # a single column is all there is
            return cls.of_whole(rule, sample, n_components)
        rest_columns = columns_per_node(kernel, layout.reflected) * rest - layout.last_is_single
        block_columns = n_components - rest_columns
        # Each part by itself has an origin, if the rule has one.
        rest_columns += layout.has_origin_column
        return cls(rule, sample, whole, rest, block_columns, rest_columns)

    def run(self, n_trials: int, rng: np.random.Generator) -> None:
        """Draw the rule some times more."""
        rest_rule = self.rule.for_remainder()
        for _ in range(n_trials):
            self.block_errors.append(trial_error(self.rule, self.sample, self.block_columns, rng))
            if self.n_rest:
                self.rest_errors.append(trial_error(rest_rule, self.sample, self.rest_columns, rng))

    def candidate(self) -> Candidate:
        """Return the rule with the best weight of what remains, and its error."""
        error = float(np.mean(self.block_errors))
        spread = float(np.std(self.block_errors)) / error if error > 0 else 0.0
        rule = self.rule
        if self.n_rest:
            rest_error = float(np.mean(self.rest_errors))
            remainder, error = best_remainder(error, rest_error, self.n_blocks, self.n_rest)
            rule = clone(rule).set_params(remainder=remainder)
        relative = relative_error(error, self.sample)
        uncertainty = relative * spread / 2 / math.sqrt(max(1, len(self.block_errors) - 1))
        return Candidate(rule, relative, uncertainty, "trials")


def trial_error(rule: Rule, sample: Sample, n_components: int, rng: np.random.Generator) -> float:
    """Return the mean squared error of a draw of a rule, in units of the kernel's largest value."""
    kernel, rows = sample.kernel, sample.rows
    nodes = rule.draw(sample.d, n_components, kernel, rng)
    Z = QuadratureMap(kernel, nodes).with_jobs(1).columns(rows)
    return sample.mean(((Z @ Z.T - sample.gram) / sample.unit) ** 2)
