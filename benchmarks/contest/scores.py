"""Scores of predictions, predictive distributions and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from quadfeat._utils.validation import Array

COVERAGE = 0.9

Scores = dict[str, float]


def of_values(y: Array, predicted: Array) -> Scores:
    """Return R2 and the root mean squared error, in the units of the target."""
    return {
        "r2": float(r2_score(y, predicted)),
        "rmse": float(root_mean_squared_error(y, predicted)),
    }


def of_distribution(y: Array, mean: Array, deviation: Array, unit: float) -> Scores:
    """Return the mean negative log likelihood of a row under Gaussian distributions.

    Targets are divided by ``unit``, the standard deviation of the training targets.
    """
    error, deviation = (y - mean) / unit, deviation / unit
    rows = 0.5 * (error / deviation) ** 2 + np.log(deviation) + 0.5 * np.log(2 * np.pi)
    return {"nll": float(rows.mean())}


def of_interval(y: Array, lower: Array, upper: Array, unit: float) -> Scores:
    """Return the share of targets within their intervals, and the mean width in ``unit``."""
    return {
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower) / unit),
    }


def of_labels(y: Array, predicted: Array) -> Scores:
    """Return the accuracy."""
    return {"accuracy": float(accuracy_score(y, predicted))}


def of_probabilities(y: Array, probabilities: Array, classes: Array) -> Scores:
    """Return the log loss. Probabilities are normalized again in float64."""
    exact = np.asarray(probabilities, dtype=np.float64)
    exact = exact / exact.sum(axis=1, keepdims=True)
    return {"log_loss": float(log_loss(y, exact, labels=classes))}


def of_decisions(y: Array, decisions: Array, classes: Array) -> Scores:
    """Return the area under the ROC curve, for two classes only."""
    if len(classes) != 2:
        return {}
    return {"auc": float(roc_auc_score(y == classes[1], decisions))}


def of_prior(y_train: Array, y: Array) -> Scores:
    """Return the log loss of the frequencies of classes in the training rows."""
    classes, counts = np.unique(y_train, return_counts=True)
    prior = np.broadcast_to(counts / counts.sum(), (len(y), len(classes)))
    return {"prior_log_loss": float(log_loss(y, prior, labels=classes))}


def of_classifier(model: Any, X: Array, y: Array) -> Scores:
    """Return all scores that a fitted classifier can have."""
    found = of_labels(y, model.predict(X))
    classes = model.classes_
    probabilities = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    if probabilities is not None:
        found |= of_probabilities(y, probabilities, classes)
    if len(classes) == 2:
        # Rank by decision values if available, since probabilities may saturate.
        if hasattr(model, "decision_function"):
            found |= of_decisions(y, model.decision_function(X), classes)
        elif probabilities is not None:
            found |= of_decisions(y, probabilities[:, 1], classes)
    return found
