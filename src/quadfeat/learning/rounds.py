"""Learn a full metric in rounds: the gradients of each model give the metric of the next one.

See :mod:`quadfeat.learning.metric` for the metric of a fitted model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat.kernels import Metric
from quadfeat.learning.candidates import Proposal, short_score
from quadfeat.learning.columns import scalar, with_factors
from quadfeat.learning.metric import square_root
from quadfeat.learning.race import Entry, Race

# Number of rounds, and multiples of the scale to try in the first round and in later rounds. A full
# metric is kept if its loss is at most WORTH_A_METRIC times that of the best other kernel. Rounds
# stop if the loss exceeds GAIN_PER_ROUND times that of the previous round, or HOPELESS times that
# of the best other kernel.
ROUNDS = 4
FIRST_SCALES = (0.7, 1.0, 1.4)
LATER_SCALES = (0.84, 1.0, 1.19)
WORTH_A_METRIC = {"regression": 0.95, "classification": 0.975}
GAIN_PER_ROUND = 0.995
HOPELESS = 1.2


class Rounds:
    """Enters kernels with a full metric into a race.

    Metrics are learned in the first heat, which is fast, and refined in the second heat.

    Parameters
    ----------
    first, second : Race
        The two heats.
    families : dict of str to SeparationKernel
        Kernels by the name of their family.
    """

    def __init__(self, first: Race, second: Race, families: dict[str, Any]) -> None:
        self.first = first
        self.second = second
        self.families = families
        self.notes: list[str] = []

    def run(self) -> list[str]:
        """Run all rounds within the time limit; return notes on rejected metrics."""
        first, second, clock = self.first, self.second, self.second.clock
        before = second.best("default", "compressed", "isotropic", "ard", "early")
        compared = first.enter(before.proposal)
        entry, scale = compared, 1.0
        for turn in range(1, ROUNDS + 1):
            scales = FIRST_SCALES if turn == 1 else LATER_SCALES
            last = self._enter_round(first, entry, turn, scale, scales)
            stalled = turn > 1 and last.loss > GAIN_PER_ROUND * entry.loss
            entry, scale = last, last.proposal.multiple
            if stalled or entry.loss > HOPELESS * compared.loss or clock.is_over():
                break
        if not self._rejects(first.best("full"), compared, first) and not clock.is_over():
            best = second.enter(first.best("full").proposal)
            self._enter_round(second, best, turn + 1, best.proposal.multiple, LATER_SCALES)
            self._rejects(second.best("full"), before, second)
        return self.notes

    def _enter_round(
        self, race: Race, entry: Entry, turn: int, scale: float, multiples: tuple[float, ...]
    ) -> Entry:
        """Enter kernels with the metric from the gradients of an entry; return the best one."""
        family = entry.proposal.family or next(iter(self.families))
        kernel, d = self.families[family], race.sample.d
        matrix = square_root(race.average_outer_product(entry))
        name = f"{family}, full metric after {turn} round{'s' if turn > 1 else ''}"
        found = []
        for multiple in multiples:
            factor = scale * multiple
            inner = scalar(with_factors(kernel, np.full(1, factor * kernel.usual_factor(d))))
            columns = entry.proposal.columns
            proposal = Proposal(name, Metric(inner, matrix), columns, family, "full", factor)
            found.append(race.enter(proposal))
            if race.clock.is_over():
                break
        return min(found, key=lambda one: one.loss)

    def _rejects(self, full: Entry, other: Entry, race: Race) -> bool:
        """Withdraw full metrics that gain too little; return whether they were withdrawn."""
        kind = "regression" if race.sample.classes is None else "classification"
        if full.loss <= WORTH_A_METRIC[kind] * other.loss:
            return False
        self.notes.append(
            f"A full metric was rejected: it has {short_score(full.loss, kind == 'regression')} "
            f"on {full.candidate.n_rows} rows, compared with "
            f"{short_score(other.loss, kind == 'regression')} for the best other kernel."
        )
        race.withdraw("full")
        return True
