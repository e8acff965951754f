"""More nodes behind those that a rule has drawn."""

from __future__ import annotations

from typing import Any

from quadfeat._utils import validation as check
from quadfeat._utils.random import restored
from quadfeat.kernels import Kernel
from quadfeat.rules import Layout, Nodes, Rule


def grown_nodes(
    nodes: Nodes, n_components: int, kernel: Kernel, rule: Rule, *, before: Any, after: Any
) -> tuple[Nodes, Any]:
    """Return nodes for more columns that begin with the given ones, and the generator's new state.

    Parameters
    ----------
    nodes : Nodes
        As the rule has drawn them.
    n_components : int
        Number of columns of the larger map.
    kernel : Kernel
        What is approximated.
    rule : Rule
        What has drawn the nodes.
    before, after : dict
        The states of the generator before and after the nodes were drawn.

    Returns
    -------
    nodes : Nodes
    state : dict
    """
    layout = Layout.of(n_components, kernel, origin=nodes.has_origin_column, reflect=rule.reflect)
    obstacle = _obstacle(nodes, layout, kernel, rule)
    if obstacle is not None:
        raise cannot_grow(rule, obstacle)
    rng = restored(before if rule.grows_from_start else after)
    grown = rule.grown(nodes, n_components, kernel, rng)
    return grown, rng.bit_generator.state


def cannot_grow(rule: Rule, reason: str) -> ValueError:
    """Return the error that says why a map of a rule cannot grow."""
    return ValueError(f"a map of {check.one_line(rule)} cannot grow: {reason}")


def _obstacle(nodes: Nodes, layout: Layout, kernel: Kernel, rule: Rule) -> str | None:
    """Return why nodes cannot be added, if they cannot."""
    reason = rule.obstacle_to_growth()
    if reason is not None:
        return reason
    if rule.has_origin(kernel) and not nodes.has_origin_column:
        return "a single column has left no room for the origin's: fit one with more columns."
    per_block = rule.nodes_per_block(nodes.directions.d)
    n_nodes = len(nodes.radii)
    if nodes.last_is_single or n_nodes % per_block:
        return (
            f"its {n_nodes} nodes are not whole blocks of {per_block}"
            f"{' with two columns each' if nodes.last_is_single else ''}: fit one that is."
        )
    if rule.remainder != 1 and rule.whole_and_rest(layout, per_block)[1]:
        return (
            f"with {layout.n_nodes} nodes there would be a remainder, whose weight depends on "
            f"their number: give whole blocks of {per_block}, or use remainder=1.0."
        )
    return None
