"""Scores of models: what each one measures, and whether higher or lower is better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.preprocessing import LabelBinarizer

from quadfeat._utils.validation import Array, Float64Array

Task = Literal["classification", "regression"]
Scoring = Literal["accuracy", "balanced-accuracy", "auc", "log-loss", "r2", "rmse"]

LEAST_PROBABILITY = float(np.finfo(np.float64).eps)  # as in scikit-learn's log_loss


@dataclass(frozen=True)
class Metric:
    """A score.

    Attributes
    ----------
    option : str
        Name on the command line.
    label : str
        Name in tables and sentences.
    task : {"classification", "regression"}
    sign : {1, -1}
        1 if higher is better, -1 if lower is better.
    form : str
        Format of its values.
    least, most : float
        The smallest and the largest possible value.
    """

    option: Scoring
    label: str
    task: Task
    sign: int = 1
    form: str = ".4f"
    least: float = 0.0
    most: float = 1.0

    @property
    def column(self) -> str:
        """Name of its column in files."""
        return self.option.replace("-", "_")

    @property
    def direction(self) -> str:
        """Which values are better, as a phrase."""
        return "higher is better" if self.sign > 0 else "lower is better"


METRICS: dict[str, Metric] = {
    metric.option: metric
    for metric in (
        Metric("accuracy", "accuracy", "classification"),
        Metric("balanced-accuracy", "balanced accuracy", "classification"),
        Metric("auc", "AUC", "classification"),
        Metric("log-loss", "log loss", "classification", sign=-1, most=np.inf),
        Metric("r2", "R²", "regression", least=-np.inf),
        Metric("rmse", "RMSE", "regression", sign=-1, form=".4g", most=np.inf),
    )
}


def metrics_of(task: Task) -> list[Metric]:
    """Return the metrics of a task, the default first.

    Examples
    --------
    >>> [metric.option for metric in metrics_of("regression")]
    ['r2', 'rmse']
    """
    return [metric for metric in METRICS.values() if metric.task == task]


@dataclass(frozen=True)
class Prediction:
    """The predictions of a model for test rows.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_outputs)
        Numbers for regression. For classification, decision values: one per class, or for two
        classes a single one, which is positive for the second class. They may be probabilities.
    probabilities : ndarray of shape (n_rows, n_classes) or None
        None if the model has no ``predict_proba``.
    """

    values: Float64Array
    probabilities: Float64Array | None = None


class Coding:
    """Code targets as numbers for a regression, and score predictions.

    Classes are coded as in scikit-learn's ``RidgeClassifier``. For balanced accuracy, rows are
    weighted as by its ``class_weight="balanced"``.

    Parameters
    ----------
    scoring : str
        A key of ``METRICS``.
    y : ndarray of shape (n_rows,)
        The targets of the training rows.
    """

    def __init__(self, scoring: Scoring, y: Array) -> None:
        self.task: Task = METRICS[scoring].task
        self.balanced = scoring == "balanced-accuracy"
        self.weights: Float64Array | None = None  # equal weights
        if self.task == "regression":
            self.Y: Float64Array = y[:, None].astype(np.float64)
        else:
            binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
            self.Y = binarizer.fit_transform(y).astype(np.float64)
            self.classes: Array = binarizer.classes_
            counts = np.array([(y == one).sum() for one in self.classes])
            self._shares: Float64Array = counts / len(y)
            if self.balanced:
                inverse = np.searchsorted(self.classes, y)
                self.weights = (len(y) / (len(counts) * counts))[inverse]

    def guess(self, n_rows: int) -> Prediction:
        """Predict a constant: the mean of the target, or the class frequencies."""
        if self.task == "regression":
            return Prediction(np.repeat(self.Y.mean(axis=0)[None], n_rows, axis=0))
        prior = np.repeat(self._shares[None], n_rows, axis=0)
        values = np.average(self.Y, axis=0, weights=self.weights)
        return Prediction(np.repeat(values[None], n_rows, axis=0), prior)

    def scores(self, predicted: Prediction, y: Array) -> dict[str, float]:
        """Return all metrics of the task by column name; NaN if a metric is undefined."""
        if self.task == "regression":
            values = predicted.values[:, 0]
            rmse = float(np.sqrt(np.mean((y - values) ** 2)))
            return {"r2": float(r2_score(y, values)), "rmse": rmse}
        right = self._chosen(predicted.values) == y
        return {
            "accuracy": float(right.mean()),
            "balanced_accuracy": float(np.mean([right[y == one].mean() for one in np.unique(y)])),
            "auc": self._auc(predicted.values, y),
            "log_loss": self._log_loss(predicted.probabilities, y),
        }

    def _chosen(self, values: Float64Array) -> Array:
        if values.shape[1] == 1:
            return self.classes[(values[:, 0] > 0).astype(int)]
        return self.classes[values.argmax(axis=1)]

    def _auc(self, values: Float64Array, y: Array) -> float:
        """Return the area under the ROC curve: for several classes, the mean of one-vs-rest.

        Only ranks matter, so decision values are as good as probabilities. A class without
        training rows counts 0.5. A class without test rows does not count.
        """
        if len(self.classes) == 2 and set(np.unique(y)) <= set(self.classes):
            rest = [self.classes[1]]
        else:
            rest = list(np.unique(y))
        column = {one: k for k, one in enumerate(self.classes.tolist())}
        areas = []
        for one in rest:
            positive = y == one
            if positive.all() or not positive.any():
                continue
            k = column.get(one.item())
            if k is None:
                areas.append(0.5)
            elif values.shape[1] == 1:
                areas.append(float(roc_auc_score(positive, values[:, 0] * (1 if k else -1))))
            else:
                areas.append(float(roc_auc_score(positive, values[:, k])))
        return float(np.mean(areas)) if areas else np.nan

    def _log_loss(self, probabilities: Float64Array | None, y: Array) -> float:
        """Return the mean of -log p of the true classes, or NaN without probabilities."""
        if probabilities is None:
            return np.nan
        position = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)
        known = self.classes[position] == y
        own = np.where(known, probabilities[np.arange(len(y)), position], 0.0)
        return float(-np.log(np.clip(own, LEAST_PROBABILITY, 1.0)).mean())


def form_of(metric: Metric, values: Iterable[float]) -> str:
    """Return the format of a column of scores, with the same number of decimals for all.

    Scores without a natural unit, such as RMSE, show four digits of the smallest one.

    Examples
    --------
    >>> form_of(METRICS["rmse"], [52.79, 181.2]), form_of(METRICS["r2"], [0.9])
    ('.2f', '.4f')
    """
    if metric.form.endswith("f"):
        return metric.form
    positive = [value for value in values if 0 < value < np.inf]
    magnitude = int(np.floor(np.log10(min(positive)))) if positive else 0
    return f".{max(3 - magnitude, 0)}f" if -4 <= magnitude <= 6 else ".3e"


def options(metrics: Sequence[Metric]) -> str:
    """Return the options of metrics as a phrase: ``"a, b or c"``.

    Examples
    --------
    >>> options(metrics_of("regression"))
    'r2 or rmse'
    """
    *first, last = [metric.option for metric in metrics]
    return f"{', '.join(first)} or {last}" if first else last
