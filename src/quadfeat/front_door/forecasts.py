"""Forecasts of fitted models: how they are computed, scored and mixed, for numbers and classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.front_door.quiet import quiet

# Probabilities are at least this large in a log loss, as in scikit-learn.
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


class Forecast(NamedTuple):
    """Forecasts for some rows.

    Attributes
    ----------
    values : array of shape (n_rows, n_outputs)
        The means of the targets, or the probabilities of the classes.
    deviations : array of shape (n_rows, n_outputs) or None
        The standard deviations of new targets, up to a factor; None if a model has none.
    """

    values: Float64Array
    deviations: Float64Array | None = None

    @property
    def widths(self) -> Float64Array:
        """The deviations; ones if there are none."""
        return np.ones_like(self.values) if self.deviations is None else self.deviations


class Judge(ABC):
    """Computes the forecasts of a task and compares them with the truth.

    Attributes
    ----------
    loss_name, score_name : str
        The name of the loss, and of a score that users know.
    """

    loss_name: str
    score_name: str

    @abstractmethod
    def forecast(self, model: Any, X: Any) -> Forecast:
        """Return the forecasts of a fitted model."""

    @abstractmethod
    def losses(self, forecast: Forecast, y: Array) -> Float64Array:
        """Return the loss of each row."""

    @abstractmethod
    def score(self, forecast: Forecast, y: Array, weights: Float64Array) -> float:
        """Return the score of forecasts."""

    @abstractmethod
    def perfect(self, y: Array) -> Forecast:
        """Return the forecast that is always right."""

    @abstractmethod
    def stored(self, forecast: Forecast) -> Any:
        """Return an estimator that predicts this forecast, for scorers of scikit-learn."""

    def mixed(self, forecasts: Sequence[Forecast], shares: Sequence[float]) -> Forecast:
        """Return the weighted mean of forecasts.

        The deviations are added as if the errors were equal, which is on the safe side.
        """
        if len(forecasts) == 1:
            return forecasts[0]
        values = _weighted_sum([one.values for one in forecasts], shares)
        widths = [one.deviations for one in forecasts if one.deviations is not None]
        if len(widths) < len(forecasts):
            return Forecast(values)
        return Forecast(values, _weighted_sum(widths, shares))


class NumbersJudge(Judge):
    """Judges regression by squared errors.

    Parameters
    ----------
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        The targets of all held-out rows. Their variance is the unit of the loss.
    weights : array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0.0, 2.0])
    >>> judge = NumbersJudge(y, np.ones(2))
    >>> judge.losses(Forecast(np.array([[1.0], [2.0]])), y)
    array([1., 0.])
    """

    loss_name = "1 - R2"
    score_name = "R2"

    def __init__(self, y: Array, weights: Float64Array) -> None:
        Y, weights = y.reshape(len(y), -1), weights / weights.max()
        centered = Y - np.average(Y, axis=0, weights=weights)
        largest = np.abs(centered).max(axis=0)
        scale = np.where(largest > 0, largest, 1.0)  # squares of tiny targets would be zero
        variances = np.average((centered / scale) ** 2, axis=0, weights=weights)
        # The standard deviation of each output; 1 if all targets are equal.
        self.units = scale * np.sqrt(np.where(variances > 0, variances, 1.0))

    def forecast(self, model: Any, X: Any) -> Forecast:
        if not hasattr(model, "noise_variance_"):
            return Forecast(as_columns(model.predict(X)))
        with quiet():  # all targets are equal
            mean, deviations = model.predict(X, return_std=True)
            variances = as_columns(deviations) ** 2 + np.asarray(model.noise_variance_)
        return Forecast(as_columns(mean), np.sqrt(np.nan_to_num(variances)))

    def perfect(self, y: Array) -> Forecast:
        return Forecast(as_columns(y))

    def losses(self, forecast: Forecast, y: Array) -> Float64Array:
        errors = ((forecast.values - as_columns(y)) / self.units) ** 2
        return np.asarray(errors.mean(axis=1))

    def score(self, forecast: Forecast, y: Array, weights: Float64Array) -> float:
        return 1.0 - float(np.average(self.losses(forecast, y), weights=weights))

    def stored(self, forecast: Forecast) -> Any:
        values = forecast.values
        return _StoredNumbers(values[:, 0] if values.shape[1] == 1 else values)


class ClassesJudge(Judge):
    """Judges probabilities by the log loss.

    Parameters
    ----------
    classes : array of shape (n_classes,)
        All classes, in ascending order.
    """

    loss_name = "log loss"
    score_name = "accuracy"

    def __init__(self, classes: Array) -> None:
        self.classes = classes

    def forecast(self, model: Any, X: Any) -> Forecast:
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"{type(model).__name__} has no predict_proba, which candidates for classes need. "
                "Wrap it in CalibratedClassifierCV, or leave it out of candidates."
            )
        found = model.predict_proba(X)
        if len(model.classes_) == len(self.classes):
            return Forecast(np.asarray(found, dtype=np.float64))
        # The training rows of this part do not have all classes.
        values = np.zeros((len(found), len(self.classes)))
        values[:, np.searchsorted(self.classes, model.classes_)] = found
        return Forecast(values)

    def perfect(self, y: Array) -> Forecast:
        return Forecast((y[:, None] == self.classes).astype(np.float64))

    def losses(self, forecast: Forecast, y: Array) -> Float64Array:
        places = np.searchsorted(self.classes, y)
        found = forecast.values[np.arange(len(y)), places]
        return np.asarray(-np.log(np.clip(found, LEAST_PROBABILITY, 1.0)))

    def score(self, forecast: Forecast, y: Array, weights: Float64Array) -> float:
        return float(accuracy_score(y, self.labels(forecast), sample_weight=weights))

    def labels(self, forecast: Forecast) -> Array:
        """Return the most likely class of each row."""
        return np.asarray(self.classes[np.argmax(forecast.values, axis=1)])

    def stored(self, forecast: Forecast) -> Any:
        return _StoredClasses(self.classes, forecast.values, self.labels(forecast))


def _weighted_sum(parts: Sequence[Float64Array], shares: Sequence[float]) -> Float64Array:
    return np.asarray(sum(share * part for share, part in zip(shares, parts, strict=True)))


def as_columns(values: Any) -> Float64Array:
    """Return values as a matrix with a column for each output."""
    found = np.asarray(values, dtype=np.float64)
    return found.reshape(len(found), -1)


class _StoredNumbers(RegressorMixin, BaseEstimator):
    """A regressor whose predictions are known."""

    def __init__(self, values: Float64Array) -> None:
        self.values = values

    def fit(self, X: Any, y: Any) -> _StoredNumbers:
        return self

    def predict(self, X: Any) -> Float64Array:
        return self.values

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _StoredClasses(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions are known."""

    def __init__(self, classes_: Array, probabilities: Float64Array, labels: Array) -> None:
        self.classes_ = classes_
        self.probabilities = probabilities
        self.labels = labels

    def fit(self, X: Any, y: Any) -> _StoredClasses:
        return self

    def predict(self, X: Any) -> Array:
        return self.labels

    def predict_proba(self, X: Any) -> Float64Array:
        return self.probabilities

    def __sklearn_is_fitted__(self) -> bool:
        return True
