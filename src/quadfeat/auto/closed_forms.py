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


def closed_form(rule: Rule, sample: Sample, n_components: int) -> Candidate | None:
    """Return a rule with the best weight of its remainder, and its error; None without a formula.

    Parameters
    ----------
    rule : Rule
        The rule to evaluate.
    sample : Sample
        Rows of the data, and the kernel.
    n_components : int
        Number of columns of the map.
    """
    block = None
    if sample.d >= CLOSED_FORMS_FROM:
        block = rule.describe_block(sample.d, sample.kernel)
    return None if block is None else _evaluate(rule, block, sample, n_components)


def _evaluate(rule: Rule, block: BlockDescription, sample: Sample, n_components: int) -> Candidate:
    """Return the rule as a candidate, with the best weight of the nodes after whole blocks."""
    d = sample.d
    kernel: Any = sample.kernel  # stationary, so it has at_distance
    per_block = rule.nodes_per_block(d)
    distances, frequency = sample.distances
    moments = BlockMoments.of(distances, block.radii, block.weights, d, block.cosine)
    layout = Layout.of(n_components, kernel, origin=rule.has_origin(kernel), reflect=True)

    def mean_variance(n_nodes: int, has_single: bool) -> float:
        # The random phase of a single cosine adds 1/2 to the variance of its node, also on the
        # diagonal.
        phase = 0.5 / n_nodes**2 if has_single else 0.0
        variance = moments.variance(n_nodes, per_block, stratified=block.is_stratified)
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
        bias = 1.0 + moments.mean - kernel.at_distance(distances)
        error += float(frequency @ bias**2)
    return Candidate(
        clone(rule).set_params(remainder=remainder),
        relative_error(error, sample),
        0.0,
        "closed form",
    )
