"""Rounds of feature learning: each model's gradients give the metric of the next one.

The average outer product of the gradients (:mod:`quadfeat.learning.metric`) says along which
directions predictions change. A kernel with this metric gives a model with new gradients, and so
on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat.kernels import Metric
from quadfeat.learning.candidates import Proposal
from quadfeat.learning.columns import scalar, with_factors
from quadfeat.learning.metric import square_root
from quadfeat.learning.race import Entry, Race

# A full metric: rounds, multiples of the usual scale in the first round and in later ones, and the
# largest loss, relative to that of other kernels, with which it is kept. It is given up early if
# its loss is HOPELESS times as large.
ROUNDS = 4
FIRST_SCALES = (0.7, 1.0, 1.4)
LATER_SCALES = (0.84, 1.0, 1.19)
WORTH_A_METRIC = {"regression": 0.95, "classification": 0.975}
GAIN_PER_ROUND = 0.995
HOPELESS = 1.2


class Rounds:
    """Enters kernels with a full metric into a race.

    Metrics are found in the first heat, which is fast, and refined in the second one.

    Parameters
    ----------
    first, second : Race
        The two heats.
    families : dict of str to SeparationKernel
        Kernels by the names of their families.
    """

    def __init__(self, first: Race, second: Race, families: dict[str, Any]) -> None:
        self.first = first
        self.second = second
        self.families = families
        self.notes: list[str] = []

    def run(self) -> list[str]:
        """Run all rounds, or those for which there is time; return what was declined, and why."""
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
        if not self._declines(first.best("full"), compared, first):
            best = second.enter(first.best("full").proposal)
            self._enter_round(second, best, turn + 1, best.proposal.multiple, LATER_SCALES)
            self._declines(second.best("full"), before, second)
        return self.notes

    def _enter_round(
        self, race: Race, entry: Entry, turn: int, scale: float, multiples: tuple[float, ...]
    ) -> Entry:
        """Enter kernels with the metric of a model's gradients; return the best one."""
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
        return min(found, key=lambda one: one.loss)

    def _declines(self, full: Entry, other: Entry, race: Race) -> bool:
        """Return whether a full metric gains too little; then take it out of the race."""
        kind = "regression" if race.sample.classes is None else "classification"
        if full.loss <= WORTH_A_METRIC[kind] * other.loss:
            return False
        self.notes.append(
            f"A full metric was declined: its loss on {full.candidate.n_rows} rows is "
            f"{full.loss:.4g}, and that of the best other kernel {other.loss:.4g}."
        )
        race.withdraw("full")
        return True
