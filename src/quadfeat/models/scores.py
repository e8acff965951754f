"""Scores of models on Dask collections and streams, computed block by block."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import to_numpy
from quadfeat._utils.columns import is_stream
from quadfeat._utils.fitted import snapshot
from quadfeat._utils.validation import Float64Array
from quadfeat.data.blocks import Block, is_dask
from quadfeat.data.rows import rows_of
from quadfeat.models.reading import naming_columns


class BlockScoreMixin:
    """Let ``score`` accept the same data as ``fit``.

    It precedes ``RegressorMixin`` or ``ClassifierMixin`` among the bases of a model.
    """

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the predictions: R2 for regression, accuracy for classification.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or iterable of blocks
            The test rows. An iterable, such as :class:`~quadfeat.ParquetBlocks`, yields tuples
            ``(X, y)`` or ``(X, y, sample_weight)``. Dask workers process the blocks of Dask arrays
            and data frames.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            The true targets. None for an iterable of blocks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            The score, as in scikit-learn. R2 is the mean over outputs.
        """
        if is_dask(X) or (y is None and is_stream(X)):
            return score_of_blocks(self, X, y, sample_weight)
        score: float = super().score(X, y, sample_weight)  # type: ignore[misc]
        return score


def score_of_blocks(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the score of a fitted model on a Dask collection or a stream.

    Each block is reduced to a few numbers, so the predictions of all rows need no memory.
    """
    check_is_fitted(model)
    light = copy.copy(snapshot(model))
    light._solved()  # workers would compute it again
    light.features = None  # predictions use features_
    light._solution = light._solution.predicting(None)
    return reduced_score(light, X, y, sample_weight)


def reduced_score(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the score of a fitted model that workers can hold, block by block."""
    check_is_fitted(model)
    if y is None and is_dask(X):
        raise ValueError("y=None is not valid: pass the targets of the rows in X.")
    kind = Hits if is_classifier(model) else Squares
    rows = rows_of(X, y, sample_weight, _read)
    with naming_columns(model, X):
        return float(rows.each(partial(kind.of, model), kind.merged).score())


def _read(X: Any, y: Any, sample_weight: Any = None, *, part: bool = False) -> Block:
    """Return rows with targets and weights as arrays; ``predict`` validates the rows."""
    X = to_numpy(X, "X")
    X = X if hasattr(X, "shape") else np.asarray(X)
    weights = None
    if sample_weight is not None:
        # All weights of a single block may be zero.
        weights = check.check_weights(to_numpy(sample_weight, "sample_weight"), X, part=True)
    return Block(X, np.asarray(to_numpy(y, "y")), weights)


@dataclass(frozen=True)
class Hits:
    """The total weight of rows, and of rows with the right class."""

    total: float
    right: float

    @classmethod
    def of(cls, model: Any, block: Block) -> Hits:
        """Return the weights for a block."""
        from sklearn.metrics import accuracy_score  # slow to import

        right = accuracy_score(
            block.y, model.predict(block.X), normalize=False, sample_weight=block.weights
        )
        total = block.n_rows if block.weights is None else block.weights.sum()
        return cls(float(total), float(right))

    def merged(self, other: Hits) -> Hits:
        """Return the weights for the rows of both."""
        return Hits(self.total + other.total, self.right + other.right)

    def score(self) -> float:
        """Return the accuracy."""
        check.check_any_weight(self.total)
        return self.right / self.total


@dataclass(frozen=True)
class Squares:
    """Weighted sums of squares of targets and residuals, for each output.

    Attributes
    ----------
    n_rows : int
    weight : float
        Total weight of the rows.
    mean : array of shape (n_outputs,)
        Mean of the targets.
    about_mean, residual : array of shape (n_outputs,)
        Sums of squares of the targets about their mean, and of the residuals.
    """

    n_rows: int
    weight: float
    mean: Float64Array
    about_mean: Float64Array
    residual: Float64Array

    @classmethod
    def of(cls, model: Any, block: Block) -> Squares:
        """Return the sums for a block."""
        predicted = np.asarray(model.predict(block.X)).reshape(block.n_rows, -1)
        y = check_array(block.y, ensure_2d=False, dtype=np.float64, input_name="y")
        y = y.reshape(len(y), -1)
        if y.shape != predicted.shape:
            raise ValueError(
                f"y has shape {y.shape}, but the predictions have shape {predicted.shape}: pass "
                "targets of the same shape as in fit."
            )
        weights = np.ones(len(y)) if block.weights is None else block.weights
        weight = float(weights.sum())
        mean = weights @ y / weight if weight > 0 else np.zeros(y.shape[1])
        about_mean, residual = weights @ (y - mean) ** 2, weights @ (y - predicted) ** 2
        return cls(len(y), weight, mean, about_mean, residual)

    def merged(self, other: Squares) -> Squares:
        """Return the sums for the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        step = other.mean - self.mean
        return Squares(
            self.n_rows + other.n_rows,
            weight,
            self.mean + share * step,
            self.about_mean + other.about_mean + self.weight * share * step**2,
            self.residual + other.residual,
        )

    def score(self) -> float:
        """Return R2, the mean over outputs, as scikit-learn defines it."""
        check.check_any_weight(self.weight)
        if self.n_rows < 2:
            warnings.warn(
                "R2 is not defined for fewer than two rows: pass more rows.",
                UndefinedMetricWarning,
                stacklevel=2,
            )
            return float("nan")
        varies = self.about_mean > 0
        ratios = self.residual / np.where(varies, self.about_mean, 1.0)
        # For constant targets, scikit-learn returns 1 for exact predictions and 0 otherwise.
        scores = np.where(varies, 1.0 - ratios, np.where(self.residual > 0, 0.0, 1.0))
        return float(scores.mean())
