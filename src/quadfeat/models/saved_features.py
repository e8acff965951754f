"""Check and convert fitted transformers from files and pickles."""

from __future__ import annotations

from typing import Any, NamedTuple

from quadfeat._utils import validation
from quadfeat.auto import Candidate
from quadfeat.io import checks, register
from quadfeat.maps.kernel_error import KernelError
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.maps.quadrature import Origin, QuadratureMap


def check(features: Any) -> None:
    """Raise an error if the attributes of a fitted transformer are inconsistent."""
    d = validation.check_count(features.n_features_in_, "n_features_in_")
    checks.check_kind(features.map_, KernelMap, "map_")
    expected = features.map_.n_features_in
    checks.expect(d == expected, f"n_features_in_ is {d}, but map_ is for {expected} columns")
    checks.check_kind(features.map_.origin, Origin, "origin of map_")
    checks.check_kind(features.why_, str, "why_")
    checks.check_kind(features.candidates_, tuple, "candidates_")
    for candidate in features.candidates_:
        checks.check_kind(candidate, Candidate, "an item of candidates_")
    if hasattr(features, "approximation_error_"):  # missing after grow()
        checks.check_kind(features.approximation_error_, KernelError, "approximation_error_")
    if features.n_components_bound_ is not None:
        validation.check_count(features.n_components_bound_, "n_components_bound_")
    checks.check_column_names(features)


def migrated(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
    """Convert the attributes of a transformer from formats before 5.

    Formats before 5 have no ``gamma``. Formats before 3 have a kernel and nodes instead of a map.
    """
    if found_format < 5:
        attributes = {"gamma": None} | attributes
    if found_format >= 3 or "nodes_" not in attributes:
        return attributes
    older = dict(attributes)
    missing = [name for name in ("kernel_", "rule_", "_states") if name not in older]
    if missing:
        raise ValueError(
            "this QuadratureFeatures was written by an early version of quadfeat and lacks "
            f"{', '.join(missing)}. Fit it again."
        )
    before, after = older.pop("_states")
    origin = Origin(older.pop("rule_"), before, after, older.pop("_reweighted", False))
    older["map_"] = QuadratureMap(older.pop("kernel_"), older.pop("nodes_"), origin)
    for name in ("n_components_", "_n_features_out", "_compiled"):
        older.pop(name, None)
    return older


@register
class States(NamedTuple):
    """The states of a generator before and after drawing nodes, in formats before 3."""

    before: Any
    after: Any
