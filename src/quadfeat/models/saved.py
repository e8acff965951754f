"""Check and convert models from files and pickles, and the state in checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from quadfeat.data.checkpoints import described
from quadfeat.io import checks
from quadfeat.learning.candidates import Choice
from quadfeat.maps.base import FeatureMap
from quadfeat.models.fitted import own_map
from quadfeat.solvers.base import Solution
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.normal import NormalSolution
from quadfeat.solvers.ridge import RidgeProblem
from quadfeat.solvers.summaries import with_indices


def check_model(model: Any) -> None:
    """Raise an error if the parts of a fitted model are inconsistent."""
    solution, held = model._solution, _map_of(model.features_)
    checks.check_kind(solution, Solution, "_solution")
    d, expected = model.n_features_in_, held.n_features_in
    checks.expect(d == expected, f"the model is for {d} columns, but its map is for {expected}")
    checks.check_column_names(model)
    classes = getattr(model, "classes_", None)
    n_outputs = solution.check_fits(held.n_columns, d, classes)
    expected = model._n_outputs(n_outputs)
    checks.expect(n_outputs == expected, f"there are {n_outputs} outputs instead of {expected}")
    checks.check_flag(getattr(model, "_declared", False), "_declared")
    checks.check_kind(getattr(model, "_balanced", {}), dict, "_balanced")
    checks.check_strings(getattr(model, "_fitted_with", {}), "_fitted_with")
    checks.check_kind(getattr(model, "_choice", Choice("")), Choice, "_choice")


def check_state(state: Any) -> None:
    """Raise an error if the state in a checkpoint is not valid."""
    checks.check_kind(state, dict, "state")
    checks.check_kind(state["map"], str, "map")
    checks.check_kind(state["choice"], Choice, "choice")
    if state["features"] is not None:
        held, summary = _map_of(state["features"]), state.get("summary")
        checks.expect(
            summary is None or summary.moments.n_components == held.n_columns,
            "moments belong to a different map",
        )


def _map_of(features: Any) -> FeatureMap:
    """Return the map of a fitted transformer; raise an error if it has none."""
    held = own_map(features) if hasattr(features, "transform") else None
    if held is None:
        raise ValueError(f"features_ is a {type(features).__name__} without a map")
    return held


def migrated(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
    """Convert the attributes of a model from formats before 5."""
    if found_format < 5:
        attributes = _with_gamma(attributes)
    if found_format < 4:
        attributes = _with_new_parameters(attributes)
    parts = vars(attributes["_solution"]) if "_solution" in attributes else {}
    if found_format < 2 and "summary" in parts:
        summary, problem = parts["summary"], parts["problem"]
        if not hasattr(summary.moments, "control"):  # a pickle, in which parts are old as well
            old = vars(summary.moments)
            moments = Moments(**Moments.migrate(old, found_format))
            problem = RidgeProblem(moments, problem.intercept, problem.transform)
            summary = replace(summary, moments=moments)
            if "posterior" in parts:
                parts["posterior"] = replace(parts["posterior"], problem=problem)
        if summary.rows is not None and summary.classes is not None:
            weights = attributes.get("class_weight")
            weights = attributes.get("_balanced") if isinstance(weights, str) else weights
            summary = with_indices(summary, weights or {})
        parts.update(summary=summary, problem=problem)
    if found_format < 4 and "temperature" in parts:  # a pickle, in which parts are old as well
        new = NormalSolution.migrate(parts, found_format)
        parts.clear()
        parts.update(new)
    return attributes


def _with_gamma(attributes: dict[str, Any]) -> dict[str, Any]:
    """Add the parameter of format 5, also to the description of ``features``."""
    attributes = {"gamma": None} | attributes
    if "_fitted_with" in attributes:
        fitted_with = {"gamma": described(None)} | attributes["_fitted_with"]
        if "QuadratureFeatures{" in fitted_with.get("features", ""):
            fitted_with["features"] = described(attributes["features"])
        attributes["_fitted_with"] = fitted_with
    return attributes


def _with_new_parameters(attributes: dict[str, Any]) -> dict[str, Any]:
    """Add the parameters of format 4.

    If ``features`` is given, ``kernel`` must have its default value, which was another one.
    """
    attributes = {"time_limit": None} | attributes
    if attributes["features"] is not None:
        attributes["kernel"] = "auto"
        if "_fitted_with" in attributes:
            attributes["_fitted_with"] = attributes["_fitted_with"] | {"kernel": described("auto")}
    return attributes
