"""Append nodes to those that a rule has drawn."""

from __future__ import annotations

from dataclasses import replace

from quadfeat._utils import validation as check
from quadfeat._utils.random import restored
from quadfeat.kernels import Kernel
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.rules import Layout, Nodes, Rule


def grown(features: KernelMap, n_components: int) -> KernelMap:
    """Return a map with more columns whose first nodes are those of another; see ``grow``."""
    nodes, kernel, origin = features.nodes, features.kernel.inner, features.origin
    assert origin is not None
    rule = origin.rule
    layout = Layout.of(n_components, kernel, origin=nodes.has_origin_column, reflect=rule.reflect)
    if origin.reweighted:
        obstacle = "its weights were fitted to its nodes. Fit a larger map, or use reweight=False."
    else:
        obstacle = _obstacle(nodes, layout, kernel, rule)
    if obstacle:
        raise ValueError(f"a map of {check.one_line(rule)} cannot grow: {obstacle}")
    rng = restored(origin.before if rule.grows_from_start else origin.after)
    larger = rule.grown(nodes, n_components, kernel, rng)
    return features.with_nodes(larger, replace(origin, after=rng.bit_generator.state))


def _obstacle(nodes: Nodes, layout: Layout, kernel: Kernel, rule: Rule) -> str:
    """Return why nodes cannot be appended; an empty string if they can."""
    reason = rule.obstacle_to_growth()
    if reason is not None:
        return reason
    if rule.has_origin(kernel) and not nodes.has_origin_column:
        return "its single column leaves no room for the origin. Fit a map with more columns."
    per_block = rule.nodes_per_block(nodes.directions.d)
    n_nodes = len(nodes.radii)
    if nodes.last_is_single or n_nodes % per_block:
        columns = " with two columns each" if nodes.last_is_single else ""
        return (
            f"its {n_nodes} nodes are not whole blocks of {per_block}{columns}. Fit a map of whole "
            "blocks."
        )
    if rule.remainder != 1 and rule.whole_and_rest(layout, per_block)[1]:
        return (
            f"{layout.n_nodes} nodes are not whole blocks of {per_block}, and the weight of the "
            "remaining nodes depends on their number. Choose a number of columns for whole blocks, "
            "or use remainder=1.0."
        )
    return ""
