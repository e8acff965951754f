"""More features later: a map that keeps the nodes of an earlier one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.random import restored
from quadfeat.kernels import Kernel
from quadfeat.maps.quadrature import Origin, QuadratureMap
from quadfeat.rules import MOST_REDRAWS, QuasiMonteCarlo, Rule
from quadfeat.rules.nodes import Layout, Nodes


def grown(features: QuadratureMap, n_components: int) -> QuadratureMap:
    """Return a map with more columns that begins with the nodes of another; see ``grow``."""
    nodes, kernel, origin = features.nodes, features.kernel, features.origin
    assert origin is not None
    rule = origin.rule
    layout = Layout.of(n_components, kernel, origin=nodes.has_origin_column, reflect=rule.reflect)
    obstacle = _obstacle(features, origin, layout)
    if obstacle is not None:
        raise ValueError(f"a map of {check.one_line(rule)} cannot grow: {obstacle}")
    if isinstance(rule, QuasiMonteCarlo):
        # A longer piece of the same sequence begins with the shorter one.
        rng = restored(origin.before)
        larger = rule.draw(nodes.directions.d, n_components, kernel, rng)
    else:
        rng = restored(origin.after)
        larger = _extended(nodes, rule, layout, n_components, kernel, rng)
    return QuadratureMap(kernel, larger, replace(origin, after=rng.bit_generator.state))


def _obstacle(features: QuadratureMap, origin: Origin, layout: Layout) -> str | None:
    """Return why nodes cannot be added, if they cannot."""
    nodes, rule = features.nodes, origin.rule
    if origin.reweighted:
        return "its weights were fitted to its nodes: fit a larger one, or use reweight=False."
    reason = rule.obstacle_to_growth()
    if reason is not None:
        return reason
    if rule.has_origin(features.kernel) and not nodes.has_origin_column:
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


def _extended(
    nodes: Nodes,
    rule: Rule,
    layout: Layout,
    n_components: int,
    kernel: Kernel,
    rng: np.random.Generator,
) -> Nodes:
    """Return nodes with others drawn by the same rule behind them."""
    d = nodes.directions.d
    old_columns = nodes.n_columns(kernel) - nodes.has_origin_column
    new_columns = n_components - old_columns - nodes.has_origin_column
    share = len(nodes.radii) / layout.n_nodes
    # What is left for the origin is known only when all nodes are there.
    further: dict[str, Any] = {"origin": "signed"} if nodes.has_origin_column else {}
    other_rule = clone(rule).set_params(**further)
    for _ in range(MOST_REDRAWS):
        others = other_rule.draw(d, new_columns, kernel, rng)
        origin_weight = nodes.origin_weight * share + others.origin_weight * (1.0 - share)
        if not nodes.has_origin_column or origin_weight >= 0:
            break
    else:
        raise RuntimeError(
            f"{check.one_line(rule)} found no radii with an origin weight >= 0 in {MOST_REDRAWS} "
            "draws: use origin='signed'."
        )
    return replace(
        others,
        directions=nodes.directions.followed_by(others.directions),
        radii=np.concatenate([nodes.radii, others.radii]),
        weights=np.concatenate([nodes.weights * share, others.weights * (1.0 - share)]),
        origin_weight=origin_weight,
        has_origin_column=nodes.has_origin_column,
    )
