"""Warn about kernels that are too narrow for the number of columns."""

from __future__ import annotations

from typing import Any

from quadfeat._utils import validation as check
from quadfeat.auto.candidates import ERROR_OF_ZEROS

# Fewer columns are too few for any kernel, and those who ask for them do not expect precision.
FEWEST_COLUMNS = 64


def warn_of_narrow_kernel(features: Any) -> None:
    """Warn if the choice of a rule has found that no rule can approximate the kernel.

    Parameters
    ----------
    features : QuadratureFeatures or another transformer
        Fitted. The error is that of ``candidates_``, so there is none for a given rule.
    """
    error = min((one.error for one in getattr(features, "candidates_", ())), default=0.0)
    if not error > ERROR_OF_ZEROS or features.map_.n_columns < FEWEST_COLUMNS:
        return
    kernel, n_columns = check.one_line(features.map_.kernel), features.map_.n_columns
    check.warn_user(
        f"n_components={n_columns} is too few for {kernel} on these rows: the expected relative "
        f"error of the kernel is {error:.2g}, larger than that of zeros. Use more n_components or "
        "a wider kernel. LocalGaussianProcess suits narrow kernels, and KernelRegressor chooses "
        "between both."
    )
