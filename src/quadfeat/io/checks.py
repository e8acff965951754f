"""Check that the parts of an object fit together, since a file may come from anywhere.

Native code and LAPACK use the arrays of maps and models, and wrong shapes or values could crash
them. Classes check such arrays in their method ``check_consistency``, with the helpers below.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils.validation import is_number
from quadfeat.io.registry import registration_of

Shape = tuple[int, ...]


def check_parts(value: Any) -> None:
    """Call ``check_consistency`` of all registered objects in a value, parts first.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from quadfeat import QuadratureFeatures
    >>> features = QuadratureFeatures(n_components=4, rule="rff").fit([[0.0], [1.0]])
    >>> check_parts(features)
    >>> nodes = replace(features.nodes_, radii=features.nodes_.radii[:1])
    >>> features.map_ = replace(features.map_, nodes=nodes)
    >>> check_parts(features)
    Traceback (most recent call last):
    ...
    ValueError: radii of nodes_ has shape (1,), not (2,)
    """
    _check_parts(value, {})


def _check_parts(value: Any, seen: dict[int, Any]) -> None:
    entry = registration_of(type(value))
    if entry is not None:
        parts = entry.attributes(value).values()
    elif isinstance(value, dict):
        parts = [*value.keys(), *value.values()]  # type: ignore[assignment]
    elif isinstance(value, (list, tuple)):
        parts = value  # type: ignore[assignment]
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        parts = value.ravel().tolist()
    else:
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # a reference keeps the object alive, so its id stays unique
    for part in parts:
        _check_parts(part, seen)
    # Look up the method in the class: FrozenEstimator forwards attributes to its estimator.
    check = getattr(type(value), "check_consistency", None)
    if entry is not None and check is not None:
        check(value)


def expect(condition: bool, message: str) -> None:
    """Raise a ValueError unless a condition holds."""
    if not condition:
        raise ValueError(message)


def check_kind(value: Any, kinds: type[Any] | tuple[type[Any], ...], name: str) -> None:
    """Expect an instance of a class, or of one of several classes."""
    expect(isinstance(value, kinds), f"{name} is a {type(value).__name__}")


def check_flag(value: Any, name: str) -> None:
    """Expect True or False."""
    expect(isinstance(value, (bool, np.bool_)), f"{name} is {value!r}, not True or False")


def check_finite(value: Any, name: str) -> None:
    """Expect a finite number."""
    expect(is_number(value) and bool(np.isfinite(value)), f"{name} is {value!r}")


def check_number(value: Any, name: str) -> None:
    """Expect a number, which may be infinite or NaN."""
    expect(is_number(value), f"{name} is not a number")


def check_array(value: Any, shape: Shape, dtype: Any, name: str) -> None:
    """Expect an array of finite numbers."""
    check_kind(value, np.ndarray, name)
    expect(value.dtype == dtype, f"{name} has dtype {value.dtype}, not {np.dtype(dtype)}")
    expect(value.shape == shape, f"{name} has shape {value.shape}, not {shape}")
    expect(bool(np.isfinite(value).all()), f"{name} is not finite")


def check_permutations(value: Any, shape: Shape, name: str) -> None:
    """Expect an array with permutations along its last axis."""
    check_array(value, shape, np.int32, name)
    in_order = np.arange(shape[-1], dtype=np.int32)
    expect(bool((np.sort(value, axis=-1) == in_order).all()), f"{name} are not permutations")


def check_signs(value: Any, shape: Shape, dtype: Any, name: str) -> None:
    """Expect an array of 1 and -1."""
    check_array(value, shape, dtype, name)
    expect(bool((np.abs(value) == 1).all()), f"{name} are not signs")


def check_strings(value: Any, name: str) -> None:
    """Expect a dict from strings to strings."""
    check_kind(value, dict, name)
    for item in (*value, *value.values()):
        check_kind(item, str, f"an item of {name}")


def check_column_names(estimator: Any) -> None:
    """Expect a name for each column that an estimator was fitted to, if it has any."""
    if hasattr(estimator, "feature_names_in_"):
        names, shape = estimator.feature_names_in_, (estimator.n_features_in_,)
        check_kind(names, np.ndarray, "feature_names_in_")
        expect(names.shape == shape, f"feature_names_in_ has shape {names.shape}, not {shape}")
        for name in names:
            check_kind(name, str, "an item of feature_names_in_")


def n_columns_of(value: Any, name: str) -> int:
    """Return the number of columns of a matrix; expect at least one."""
    n_columns = (*np.shape(value), 0, 0)[1]
    expect(n_columns >= 1, f"{name} has no columns")
    return n_columns
