"""The scores of a contest: what each measures, and which direction is better."""

from __future__ import annotations

from collections.abc import Sequence
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
        Its name on the command line.
    label : str
        Its name in tables and sentences.
    task : {"classification", "regression"}
    sign : {1, -1}
        1 if larger values are better, -1 if smaller ones are.
    form : str
        The format of its values.
    """

    option: Scoring
    label: str
    task: Task
    sign: int = 1
    form: str = ".4f"

    @property
    def column(self) -> str:
        """The name of its column in files."""
        return self.option.replace("-", "_")

    @property
    def direction(self) -> str:
        """Which values are better, in words."""
        return "higher is better" if self.sign > 0 else "lower is better"


METRICS: dict[str, Metric] = {
    metric.option: metric
    for metric in (
        Metric("accuracy", "accuracy", "classification"),
        Metric("balanced-accuracy", "balanced accuracy", "classification"),
        Metric("auc", "AUC", "classification"),
        Metric("log-loss", "log loss", "classification", sign=-1),
        Metric("r2", "R2", "regression"),
        Metric("rmse", "RMSE", "regression", sign=-1, form=".4g"),
    )
}


def metrics_of(task: Task) -> list[Metric]:
    """Return the metrics of a task, its default first.

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
        Numbers for regression. For classes, one decision per class, or one for two classes that is
        positive for the second one. Probabilities may serve as decisions.
    probabilities : ndarray of shape (n_rows, n_classes) or None
        None for a model without probabilities.
    """

    values: Float64Array
    probabilities: Float64Array | None = None


class Coding:
    """Targets as numbers to regress on, and the scores of predictions.

    Classes are coded as in scikit-learn's ``RidgeClassifier``. For balanced accuracy, rows have the
    weights of its ``class_weight="balanced"``.

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
        self.weights: Float64Array | None = None  # all equal
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
        """Return the prediction without inputs: the mean, or the shares of the classes."""
        if self.task == "regression":
            return Prediction(np.repeat(self.Y.mean(axis=0)[None], n_rows, axis=0))
        prior = np.repeat(self._shares[None], n_rows, axis=0)
        values = np.average(self.Y, axis=0, weights=self.weights)
        return Prediction(np.repeat(values[None], n_rows, axis=0), prior)

    def scores(self, predicted: Prediction, y: Array) -> dict[str, float]:
        """Return all metrics of the task by column; NaN where a metric is not defined."""
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

        Only ranks matter, so decisions serve as well as probabilities. A class that the training
        rows do not have counts 0.5; a class that the test rows do not have does not count.
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
        """Return the mean of -log p of the true classes; NaN without probabilities."""
        if probabilities is None:
            return np.nan
        position = np.searchsorted(self.classes, y).clip(max=len(self.classes) - 1)
        known = self.classes[position] == y
        own = np.where(known, probabilities[np.arange(len(y)), position], 0.0)
        return float(-np.log(np.clip(own, LEAST_PROBABILITY, 1.0)).mean())


def options(metrics: Sequence[Metric]) -> str:
    """Return the options of metrics as a list in a sentence.

    Examples
    --------
    >>> options(metrics_of("regression"))
    'r2 or rmse'
    """
    *first, last = [metric.option for metric in metrics]
    return f"{', '.join(first)} or {last}" if first else last
