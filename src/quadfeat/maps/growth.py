"""More features later: a map that keeps the nodes of an earlier one."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.random import restored
from quadfeat.kernels import Kernel
from quadfeat.models.features import QuadratureFeatures
from quadfeat.rules import MOST_REDRAWS, QuasiMonteCarlo, Rule
from quadfeat.rules.nodes import Layout, Nodes

__all__ = ["grow"]


def grow(features: QuadratureFeatures, n_components: int) -> QuadratureFeatures:
    r"""Return a map with more columns that keeps the nodes of an earlier one.

    Earlier nodes are kept to the bit. The columns of the earlier ``M`` nodes are the old ones times
    :math:`\sqrt{M/M'}` for ``M'`` nodes now, so that what was computed with them need not be
    computed again. New nodes come from where the generator of the earlier fit stopped: growing
    twice by the same steps gives the same map.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map. Its rule has to be one whose nodes do not depend on their number: independent
        radii or unmatched low-discrepancy points, in whole nodes and blocks.
    n_components : int
        Number of columns of the larger map.

    Returns
    -------
    QuadratureFeatures
        A new fitted map; the earlier one is left as it is. It has no ``approximation_error_``,
        since it has seen no data: ask its ``kernel_error``.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures, grow
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> small = QuadratureFeatures(rule="rff", n_components=64, random_state=0).fit(X)
    >>> large = grow(small, 256)
    >>> bool(np.allclose(large.transform(X)[:, :64], small.transform(X) / 2))
    True
    """
    if not isinstance(features, QuadratureFeatures):
        raise TypeError(f"features={features!r} is not valid: give a fitted QuadratureFeatures.")
    check_is_fitted(features)
    n_components = check.check_count(n_components, "n_components")
    before = features.n_components_
    if n_components <= before:
        raise ValueError(
            f"n_components={n_components} is not valid: the map has {before} columns, give more."
        )
    nodes, kernel, rule = features.nodes_, features.kernel_, features.rule_
    layout = Layout.of(n_components, kernel, origin=nodes.has_origin_column, reflect=rule.reflect)
    obstacle = _obstacle(features, layout)
    if obstacle is not None:
        raise ValueError(f"a map of {check.one_line(rule)} cannot grow: {obstacle}")
    if isinstance(rule, QuasiMonteCarlo):
        # A longer piece of the same sequence begins with the shorter one.
        rng = restored(features._states.before)
        grown = rule.draw(nodes.directions.d, n_components, kernel, rng)
    else:
        rng = restored(features._states.after)
        grown = _extended(nodes, rule, layout, n_components, kernel, rng)

    larger = copy.copy(features)
    larger.n_components, larger.tol, larger.n_components_bound_ = n_components, None, None
    larger._replace_nodes(
        grown, n_components, features._states._replace(after=rng.bit_generator.state)
    )
    larger.candidates_ = ()
    larger.why_ = f"grown from {before} columns; {features.why_}"
    larger.__dict__.pop("approximation_error_", None)
    return larger


def _obstacle(features: QuadratureFeatures, layout: Layout) -> str | None:
    """Return why nodes cannot be added, if they cannot."""
    nodes, rule = features.nodes_, features.rule_
    if features._reweighted:
        return "its weights were fitted to its nodes: fit a larger one, or use reweight=False."
    reason = rule.obstacle_to_growth()
    if reason is not None:
        return reason
    if rule.has_origin(features.kernel_) and not nodes.has_origin_column:
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
