"""What files and checkpoints have to be to become a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quadfeat.io import checks
from quadfeat.models.features import QuadratureFeatures
from quadfeat.solvers.base import Solution
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.ridge import RidgeProblem
from quadfeat.solvers.summaries import with_indices


def check_model(model: Any) -> None:
    """Raise an error if the parts of a fitted model do not fit together."""
    features, solution = model.features_, model._solution
    checks.check_kind(features, QuadratureFeatures, "features_")
    checks.expect(features.__sklearn_is_fitted__(), "features_ is not fitted")
    checks.check_kind(solution, Solution, "_solution")
    d, expected = model.n_features_in_, features.n_features_in_
    checks.expect(d == expected, f"the model is for {d} columns, and its map for {expected}")
    checks.check_column_names(model)
    classes = getattr(model, "classes_", None)
    n_outputs = solution.check_fits(features.n_components_, d, classes)
    expected = model.n_outputs(n_outputs)
    checks.expect(n_outputs == expected, f"there are {n_outputs} outputs and not {expected}")
    checks.check_flag(getattr(model, "_declared", False), "_declared")
    checks.check_kind(getattr(model, "_balanced", {}), dict, "_balanced")
    checks.check_texts(getattr(model, "_fitted_with", {}), "_fitted_with")


def check_state(state: Any) -> None:
    """Raise an error if what was read from a checkpoint is no state of a fit with a map."""
    checks.check_kind(state, dict, "state")
    checks.check_kind(state["map"], str, "map")
    features = state["features"]
    if features is not None:
        checks.check_kind(features, QuadratureFeatures, "features")
        checks.expect(features.__sklearn_is_fitted__(), "features are not fitted")
        summary = state.get("summary")
        checks.expect(
            summary is None or summary.moments.n_components == features.n_components_,
            "moments are those of another map",
        )


def migrated(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
    """Bring the attributes of a model of formats before 2 up to date."""
    parts = vars(attributes["_solution"]) if "_solution" in attributes else {}
    if found_format < 2 and "summary" in parts:
        summary, problem = parts["summary"], parts["problem"]
        if not hasattr(summary.moments, "control"):  # of a pickle, which has old parts
            old = vars(summary.moments)
            moments = Moments(**Moments.migrate(old, found_format))
            problem = RidgeProblem(moments, problem.intercept, problem.transform)
            summary = replace(summary, moments=moments)
            if "posterior" in parts:
                parts["posterior"] = replace(parts["posterior"], problem=problem)
        if summary.rows is not None:
            weights = attributes.get("class_weight")
            weights = attributes.get("_balanced") if isinstance(weights, str) else weights
            summary = with_indices(summary, weights or {})
        parts.update(summary=summary, problem=problem)
    return attributes
