"""Lazy predictions for Dask collections."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils.fitted import snapshot


def lazily(
    model: Any,
    method: str,
    X: Any,
    shape: tuple[int, ...],
    dtype: Any = np.float64,
    *,
    calibration: Any = None,
    whole: bool = False,
    arguments: tuple[Any, ...] = (),
) -> Any:
    """Return the results of a model's method as a lazy Dask array.

    Parameters
    ----------
    model : QuadratureModel
    method : str
    X : Dask array or data frame
    shape : tuple of int
        Of the result for a row.
    dtype : dtype
    calibration : Calibration, default=None
        Of a classifier.
    whole : bool, default=False
        Send the whole solution to workers, not only the part that predictions need.
    arguments : tuple, default=()
        Arguments of the method after the rows.
    """
    from quadfeat.data.dask import columns_of, map_blocks

    check_is_fitted(model)
    validate_data(model, columns_of(X), reset=False, skip_check_array=True)
    light = copy.copy(snapshot(model))
    light._solved()  # workers would compute it again
    light.features = None  # one map is enough
    if not whole:
        light._solution = light._solution.predicting(calibration)
    return map_blocks(partial(_called, method, arguments), light, X, shape, dtype)


def _called(method: str, arguments: tuple[Any, ...], model: Any, X: Any) -> Any:
    return getattr(model, method)(X, *arguments)
