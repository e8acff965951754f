"""Estimate the errors of rules by drawing them on a sample."""

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

# Limits for the trials of a rule: the entries of all features and nodes, and the number of trials.
ENTRIES_TO_TRY = 2**23
LEAST_TRIALS = 2
MOST_TRIALS = 32

# Dense nodes with more entries are slow to draw, so they get only one trial.
ENTRIES_TO_DRAW = 2**19

# A rule gets more trials as long as the choice may depend on them: its error may be larger or
# smaller than that of its best rival, within this many standard errors, and smaller by this factor.
CERTAIN = 1.5
WORTH_TRYING = 1.05

# The best rule gets more trials until the relative standard error of its error is below this.
ACCURATE = 0.05

# The relative standard deviation of the error of a draw, if there is only one draw of each rule.
USUAL_SPREAD = 0.1


def try_out(
    rules: list[Rule],
    sample: Sample,
    n_components: int,
    known: list[Candidate],
    rng: np.random.Generator,
) -> list[Candidate]:
    """Estimate the errors of rules from a few trials each, and more where the choice is open.

    Parameters
    ----------
    rules : list of Rule
        The rules to try.
    sample : Sample
        Rows of the data, and the kernel.
    n_components : int
        Number of columns of the map.
    known : list of Candidate
        Candidates with known errors, the other rivals of each rule.
    rng : numpy.random.Generator
        Generator for the draws.
    """
    tried = [Trial.of(rule, sample, n_components) for rule in rules]
    # An entry of the nodes takes about four times as long as one of the features.
    entries = (len(sample.gram) + 4 * sample.d) * n_components
    entries *= sample.kernel.nonlinearity.cost
    most = int(np.clip(ENTRIES_TO_TRY // (4 * entries), LEAST_TRIALS, MOST_TRIALS))
    for trial in tried:
        is_slow = not trial.rule.is_fast(sample.d) and n_components * sample.d > ENTRIES_TO_DRAW
        trial.most = 1 if is_slow else most
        trial.run(min(LEAST_TRIALS, trial.most), rng)
    while contenders := _contenders(tried, known):
        for trial in contenders:  # each round doubles the number of trials
            done = len(trial.block_errors)
            trial.run(min(done, trial.most - done), rng)
    return [trial.candidate() for trial in tried]


def _contenders(tried: list[Trial], known: list[Candidate]) -> list[Trial]:
    """Return the rules of which more trials may change the choice."""
    errors = [trial.candidate().error for trial in tried]
    least_known = min((candidate.error for candidate in known), default=math.inf)
    spreads = [trial.spread() for trial in tried if len(trial.block_errors) > 1]
    spread = math.sqrt(np.mean(np.square(spreads))) if spreads else USUAL_SPREAD
    found = []
    for index, (trial, error) in enumerate(zip(tried, errors, strict=True)):
        done = len(trial.block_errors)
        rival = min([least_known, *errors[:index], *errors[index + 1 :]])
        margin = CERTAIN * spread / math.sqrt(done)
        is_open = error * (1.0 - margin) * WORTH_TRYING < rival < error * (1.0 + margin)
        is_vague = error < rival and trial.spread() > ACCURATE * math.sqrt(done)
        if (is_open or is_vague) and done < trial.most:
            found.append(trial)
    return found


@dataclass
class Trial:
    """Draws of a rule on the sample: of its whole blocks, and of the remaining nodes."""

    rule: Rule
    sample: Sample
    n_blocks: int  # number of nodes in whole blocks
    n_rest: int  # number of remaining nodes
    block_columns: int
    rest_columns: int
    most: int = MOST_TRIALS  # largest number of draws
    block_errors: list[float] = field(default_factory=list)
    rest_errors: list[float] = field(default_factory=list)

    @classmethod
    def of_whole(cls, rule: Rule, sample: Sample, n_components: int) -> Trial:
        """Return a trial of a rule that does not separate the remaining nodes."""
        return cls(rule, sample, n_components, 0, n_components, 0)

    @classmethod
    def of(cls, rule: Rule, sample: Sample, n_components: int) -> Trial:
        """Return a trial without any draws."""
        kernel = sample.kernel
        layout = Layout.of(n_components, kernel, origin=rule.has_origin(kernel), reflect=True)
        whole, rest = rule.whole_and_rest(layout, rule.nodes_per_block(sample.d))
        if not whole:  # the map has a single column
            return cls.of_whole(rule, sample, n_components)
        rest_columns = columns_per_node(kernel, layout.reflected) * rest - layout.last_is_single
        block_columns = n_components - rest_columns
        # If the rule has an origin, each part has one.
        rest_columns += layout.has_origin_column
        return cls(rule, sample, whole, rest, block_columns, rest_columns)

    def run(self, n_trials: int, rng: np.random.Generator) -> None:
        """Draw the rule ``n_trials`` more times."""
        rest_rule = self.rule.for_remainder()
        for _ in range(n_trials):
            self.block_errors.append(trial_error(self.rule, self.sample, self.block_columns, rng))
            if self.n_rest:
                self.rest_errors.append(trial_error(rest_rule, self.sample, self.rest_columns, rng))

    def spread(self) -> float:
        """Return the relative standard deviation of the error of a draw, in the Frobenius norm."""
        mean = float(np.mean(self.block_errors))
        if len(self.block_errors) < 2 or mean == 0:
            return 0.0
        return float(np.std(self.block_errors, ddof=1)) / mean / 2

    def candidate(self) -> Candidate:
        """Return the rule with the best weight of the remaining nodes, and its error."""
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
    """Draw a rule and return its mean squared error, in units of the kernel's largest value."""
    kernel, rows = sample.kernel, sample.rows
    nodes = rule.draw(sample.d, n_components, kernel, rng)
    Z = QuadratureMap(kernel, nodes).with_jobs(1).columns(rows)
    return sample.mean(((Z @ Z.T - sample.gram) / sample.unit) ** 2)
