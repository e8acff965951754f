"""A warning about columns in such different units that a kernel sees only the largest."""

from __future__ import annotations

from typing import Any

from quadfeat._utils import validation as check
from quadfeat.kernels import Kernel
from quadfeat.maps.survey import View

# Shares above this would be rounded to 100 %.
LARGEST_SHARE = 0.9995


def warn_of_raw_columns(kernel: Kernel, view: View, names: Any) -> None:
    """Warn if a kernel has one scale for all columns, and one column dominates.

    Parameters
    ----------
    kernel : Kernel
        Its scale is numeric.
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
        f"{found.n_drowned} of the {found.n_others} other columns hardly count, because "
        f"{type(kernel).__name__} has one {kernel.scale_parameter} for all of them: standardize "
        f"the columns (StandardScaler), give a {kernel.scale_parameter} for each column, or use a "
        "model with kernel='auto'."
    )
