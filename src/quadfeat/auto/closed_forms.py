r"""Expected errors of rules on a sample in closed form, without drawing nodes.

The formula is in :mod:`quadfeat.auto.variance`. It holds for stationary kernels and randomly
rotated blocks.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from quadfeat.auto.candidates import Candidate, best_remainder, relative_error
from quadfeat.auto.sample import Sample
from quadfeat.auto.variance import BlockMoments
from quadfeat.rules import BlockDescription, Layout, Rule

# Below three dimensions the neglected terms dominate.
CLOSED_FORMS_FROM = 3


class ClosedForms:
    """Evaluates rules on a sample for any number of columns.

    Rules with the same radii share the moments of their blocks, whose computation takes most of the
    time.

    Parameters
    ----------
    sample : Sample
        Rows of the data, and the kernel.
    """

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._moments: dict[bytes, BlockMoments] = {}

    def candidate(self, rule: Rule, n_components: int) -> Candidate | None:
        """Return a rule with the best weight of its remainder, and its error.

        Return None if there is no formula for the rule.
        """
        block = None
        if self.sample.d >= CLOSED_FORMS_FROM:
            block = rule.describe_block(self.sample.d, self.sample.kernel)
        return None if block is None else self._evaluated(rule, block, n_components)

    def _evaluated(self, rule: Rule, block: BlockDescription, n_components: int) -> Candidate:
        d, kernel = self.sample.d, self.sample.kernel
        per_block = rule.nodes_per_block(d)
        distances, frequency = self.sample.distances
        moments = self._moments_of(block)
        layout = Layout.of(n_components, kernel, origin=rule.has_origin(kernel), reflect=True)

        def mean_variance(n_nodes: int, has_single: bool) -> float:
            # The random phase of a single cosine adds 1/2 to the variance of its node, also on the
            # diagonal.
            phase = 0.5 / n_nodes**2 if has_single else 0.0
            variance = moments.variance(
                n_nodes, per_block, block.cosine, stratified=block.is_stratified
            )
            return float(frequency @ variance) + phase

        single = layout.last_is_single
        remainder, error = 1.0, mean_variance(layout.n_nodes, single)
        whole, rest = rule.whole_and_rest(layout, per_block)
        if whole and rest:
            split = best_remainder(
                mean_variance(whole, False), mean_variance(rest, single), whole, rest
            )
            if split[1] < error:
                remainder, error = split
        if not block.is_unbiased:
            stationary: Any = kernel  # so it has at_distance
            bias = 1.0 + moments.mean - stationary.at_distance(distances)
            error += float(frequency @ bias**2)
        return Candidate(
            clone(rule).set_params(remainder=remainder),
            relative_error(error, self.sample),
            0.0,
            "closed form",
        )

    def _moments_of(self, block: BlockDescription) -> BlockMoments:
        key = block.radii.tobytes() + block.weights.tobytes()
        if key not in self._moments:
            distances, _ = self.sample.distances
            self._moments[key] = BlockMoments.of(
                distances, block.radii, block.weights, self.sample.d
            )
        return self._moments[key]
