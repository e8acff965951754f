"""What older formats of pickles and files lack, made from what they have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.solvers.moments import Moments, probe, symmetric_product
from quadfeat.solvers.posterior import RidgeProblem
from quadfeat.solvers.summaries import Summary, label_codes


def with_control(products: Float64Array, shift: Float64Array) -> Float64Array:
    """Return ``Moments.control`` of products whose rounding error is not known, as if exact."""
    d = len(products) - len(shift) - 1
    return symmetric_product(products[:d, :d], probe(d))


def with_indices(attributes: dict[str, Any]) -> None:
    """Give the rows that a classifier keeps the indices of their classes, and their weights.

    Format 1 kept codes of labels, and weights without those of the classes.
    """
    solution = attributes.get("_solution")
    summary = getattr(solution, "summary", None)
    if summary is None or summary.rows is None:
        return
    vars(solution)["summary"] = _upgraded(summary, attributes)


def _upgraded(summary: Summary, attributes: dict[str, Any]) -> Summary:
    assert summary.classes is not None
    assert summary.rows is not None
    rows, codes = summary.rows, label_codes(summary.classes)
    order = np.argsort(codes)
    found = np.minimum(np.searchsorted(codes[order], rows.rows[:, -1]), len(codes) - 1)
    which = order[found]
    known = codes[which] == rows.rows[:, -1]
    weights = rows.weights * _class_weights(summary.classes, attributes)[which]
    table = np.column_stack([rows.rows[:, :-1], which])
    kept = replace(rows, keys=rows.keys[known], rows=table[known], weights=weights[known])
    return replace(summary, rows=kept)


def _class_weights(classes: Array, attributes: dict[str, Any]) -> Float64Array:
    weights = attributes.get("class_weight")
    if isinstance(weights, str):
        weights = attributes.get("_balanced")
    return np.array([(weights or {}).get(label, 1.0) for label in classes.tolist()])


def upgrade_pickle(state: dict[str, Any]) -> None:
    """Bring the attributes of a model that was pickled in an older format up to date."""
    solution = state.get("_solution")
    summary = getattr(solution, "summary", None)
    if summary is None:
        return
    old = summary.moments
    control = with_control(old.products, old.shift)
    moments = Moments(old.products, old.shift, old.n_rows, control)
    summary = replace(summary, moments=moments)
    parts = vars(solution)
    parts["summary"] = summary
    problem = parts["problem"]
    parts["problem"] = RidgeProblem(moments, problem.intercept, problem.transform)
    if "posterior" in parts:
        parts["posterior"] = replace(parts["posterior"], problem=parts["problem"])
    if summary.rows is not None:
        with_indices(state)
