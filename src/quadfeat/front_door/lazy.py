"""Predictions and scores of the front door for Dask collections and streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils.columns import is_stream
from quadfeat._utils.fitted import snapshot
from quadfeat._utils.validation import Array
from quadfeat.data.blocks import is_dask
from quadfeat.models.scores import reduced_score


def lazily(
    model: Any,
    function: Callable[..., Any],
    X: Any,
    shape: tuple[int, ...],
    arguments: tuple[Any, ...] = (),
    dtype: Any = np.float64,
) -> Any:
    """Return the results of a function of a model and rows as a lazy Dask array.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
    function : callable
    X : Dask array or data frame
    shape : tuple of int
        Shape of the result for one row.
    arguments : tuple, default=()
        Further arguments of the function.
    dtype : dtype, default=float64
        Dtype of the result.
    """
    from quadfeat.data.dask import map_blocks

    check_is_fitted(model)
    return map_blocks(partial(_called, function, arguments), snapshot(model), X, shape, dtype)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...], model: Any, X: Any) -> Any:
    return function(model, X, *arguments)


def mean(model: Any, X: Any) -> Array:
    """Return predictions."""
    return np.asarray(model.predict(X))


def mean_and_deviation(model: Any, X: Any) -> Array:
    """Return predictions and standard deviations, shape (n_rows, 2) or (n_rows, 2, n_outputs)."""
    return np.stack(model.predict(X, return_std=True), axis=1)


def bounds(model: Any, X: Any, coverage: float) -> Array:
    """Return lower and upper bounds, shape (n_rows, 2) or (n_rows, 2, n_outputs)."""
    return np.stack(model.predict_interval(X, coverage), axis=1)


def probabilities(model: Any, X: Any) -> Array:
    """Return the probabilities of classes."""
    return np.asarray(model.predict_proba(X))


class BlockScoreMixin:
    """Let ``score`` accept the same data as ``fit``."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the predictions: R2 for regression, accuracy for classification.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix, Dask collection or stream of blocks
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            The true targets. None for a stream of blocks.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        if is_dask(X) or (y is None and is_stream(X)):
            return reduced_score(snapshot(self), X, y, sample_weight)
        score: float = super().score(X, y, sample_weight)  # type: ignore[misc]
        return score
