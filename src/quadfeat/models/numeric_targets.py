"""Targets of regression: validation, shapes and draws, the same for all regressors."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils.array_api import follows_input
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array


class NumericTargetsMixin:
    """Let a model have one or several numbers per row as targets.

    It precedes the base class of a model. A subclass defines ``_sampled``.
    """

    # Options for scikit-learn's validation of the targets.
    _target_checks = {"multi_output": True, "y_numeric": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = True
        return tags

    def _checked_targets(self, y: Any) -> Any:
        """Return the targets as float64; reject a shape that differs from earlier batches."""
        if getattr(self, "_one_output", y.ndim == 1) != (y.ndim == 1):
            raise ValueError(
                f"y has shape {y.shape}, unlike earlier batches. Pass targets with the same number "
                "of dimensions."
            )
        self._one_output: bool = y.ndim == 1
        return np.asarray(y, dtype=np.float64)

    def _per_output(self, values: Float64Array) -> Any:
        return float(values[0]) if self._one_output else values

    def _sampled(self, X: Any, n_samples: int, random_state: Any) -> Array:
        raise NotImplementedError

    @follows_input
    @on_snapshot
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw functions from the posterior Gaussian process and evaluate them at rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_samples : int, default=1
            Number of functions.
        random_state : int, numpy.random.Generator, RandomState or None, default=0
            Seed or generator of the draws.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            The values of the functions, without noise.
        """
        return self._sampled(X, n_samples, random_state)
