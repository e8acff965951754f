"""Lazy predictions for Dask collections."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from quadfeat._utils.fitted import snapshot


def lazily(
    model: Any,
    method: str | Callable[..., Any],
    X: Any,
    shape: tuple[int, ...],
    dtype: Any = np.float64,
    *,
    calibration: Any = None,
    whole: bool = False,
    arguments: tuple[Any, ...] = (),
) -> Any:
    """Return the results of a model for a Dask collection as a lazy Dask array.

    Parameters
    ----------
    model : QuadratureModel
    method : str or callable
        The name of a method, or a function of the model and the rows.
    X : Dask array or data frame
    shape : tuple of int
        Shape of the result for one row.
    dtype : dtype
        Dtype of the result.
    calibration : Calibration, default=None
        The calibration of a classifier, if its probabilities are computed.
    whole : bool, default=False
        Whether to send the whole solution to workers, not only the part for predictions.
    arguments : tuple, default=()
        Further arguments of the method.
    """
    from quadfeat.data.dask import columns_of, map_blocks

    check_is_fitted(model)
    validate_data(model, columns_of(X), reset=False, skip_check_array=True)
    light = copy.copy(snapshot(model))
    light._solved()  # compute the solution here, once for all workers
    light.features = None  # workers need only features_
    if not whole:
        light._solution = light._solution.predicting(calibration)
    return map_blocks(partial(_called, method, arguments), light, X, shape, dtype)


def _called(
    method: str | Callable[..., Any], arguments: tuple[Any, ...], model: Any, X: Any
) -> Any:
    if isinstance(method, str):
        return getattr(model, method)(X, *arguments)
    return method(model, X, *arguments)
