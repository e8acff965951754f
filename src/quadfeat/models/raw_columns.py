"""Warn about a column with such large values that the kernel ignores the others."""

from __future__ import annotations

from typing import Any

from quadfeat._utils import validation as check
from quadfeat.kernels import Kernel
from quadfeat.maps.survey import View

# A larger share would be printed as 100.0%.
LARGEST_SHARE = 0.9995


def warn_of_raw_columns(kernel: Kernel, view: View, names: Any) -> None:
    """Warn if one column dominates the distances of a kernel with one scale for all columns.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a numeric scale.
    view : View
        The rows.
    names : array of str or None
        Names of the columns, if known.
    """
    if kernel.projection is not None or kernel.input_factor(view.table.shape[1]).ndim > 0:
        return
    found = view.dominance()
    if found is None:
        return
    name = found.column if names is None else repr(str(names[found.column]))
    share = f"{found.share:.1%}" if found.share < LARGEST_SHARE else f"over {LARGEST_SHARE:.2%}"
    check.warn_user(
        f"column {name} makes up {share} of the squared distances between rows, and "
        f"{found.n_negligible} of the {found.n_others} other columns have almost no effect, "
        f"because {type(kernel).__name__} has one {kernel.scale_parameter} for all columns. "
        f"Standardize the columns (StandardScaler), pass one {kernel.scale_parameter} per column, "
        "or use a model with kernel='auto'."
    )
