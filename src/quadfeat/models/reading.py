"""Validate the data that users pass to models."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import NotFiniteError, reject_targets_of_stream, validate_data
from quadfeat._utils.targets import check_targets_finite
from quadfeat.data.blocks import Block, is_dask
from quadfeat.data.rows import Rows, rows_of


@contextmanager
def naming_columns(estimator: Any, rows: Any) -> Iterator[None]:
    """Let errors about values that are not finite name the class, the columns and the file."""
    try:
        yield
    except NotFiniteError as error:
        names = getattr(estimator, "feature_names_in_", None)
        complete = error.within(estimator, names).within_source(rows, is_lazy=is_dask(rows))
        raise complete from None


class Reader:
    """Validate batches for a model. The first batch sets the columns of the model.

    Parameters
    ----------
    model : QuadratureModel
        The model to fit. Its attributes ``n_features_in_`` and ``feature_names_in_`` are set.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, X: Any, y: Any, sample_weight: Any = None, *, part: bool = False) -> Block:
        """Return a validated batch. With ``part=True``, all weights may be zero."""
        model = self.model
        X, y = to_numpy(X, "X"), to_numpy(y, "y")
        sample_weight = to_numpy(sample_weight, "sample_weight")
        if model._target_checks.get("y_numeric"):
            check.check_not_text(y)
        check_targets_finite(y)
        X, y = validate_data(
            model,
            X,
            y,
            reset=not hasattr(model, "n_features_in_"),
            accept_sparse="csr",
            dtype=check.FLOAT_DTYPES,
            ensure_all_finite=False,  # the map checks each block
            **model._target_checks,
        )
        y = model._checked_targets(y)
        weights = None
        if sample_weight is not None:
            # All weights may be zero in a later batch or in a part of a table.
            part = part or hasattr(model, "features_")
            weights = check.check_weights(sample_weight, X, part=part)
        return Block(check.without_duplicates(X), y, weights)


class CopyingReader(Reader):
    """Validate blocks in any thread or process, for a model whose columns are set."""

    def __call__(self, X: Any, y: Any, sample_weight: Any = None, *, part: bool = False) -> Block:
        return Reader(copy.copy(self.model))(X, y, sample_weight, part=part)


def rows_for(model: Any, X: Any, y: Any, sample_weight: Any) -> Rows:
    """Return the source of rows for a fit."""
    reject_targets_of_stream(X, y, type(model).__name__)
    if not is_dask(X):
        return rows_of(X, y, sample_weight, Reader(model))
    from quadfeat.data.dask import columns_of

    given = {"y": None} if y is None else {}  # lets scikit-learn raise its usual error
    validate_data(model, columns_of(X), skip_check_array=True, **given)
    if is_regressor(model):
        model._checked_targets(np.empty((1,) * np.ndim(y)))  # stores whether y is one-dimensional
    light = copy.copy(model)
    light.features = None  # workers do not need it, and it may be large
    return rows_of(X, y, sample_weight, CopyingReader(light))
