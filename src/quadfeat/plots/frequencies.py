"""Stated probabilities against observed frequencies: calibration and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat.plots.axes import axes_for, draw_diagonal, draw_with_interval, wilson_interval


def calibration(
    model: Any, X: Any, y: Any, *, n_bins: int = 10, label: str | None = None, ax: Any = None
) -> Any:
    """Plot observed frequencies against predicted probabilities.

    Rows are sorted by probability and split into bins of equal size. For two classes, the plot
    shows the probability of the second class. For more classes, it shows the largest probability
    of each row, and the share of rows for which that class is right.

    Parameters
    ----------
    model : classifier
        A fitted classifier with ``predict_proba``.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows that the model was not fitted to.
    y : array-like of shape (n_samples,)
        Their classes.
    n_bins : int, default=10
        Number of bins.
    label : str, default=None
        Label in the legend. By default the class of the model.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes
        Error bars are 95% confidence intervals.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from quadfeat import QuadratureRidgeClassifier, plots
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = QuadratureRidgeClassifier(n_components=64, random_state=0).fit(X[:300], y[:300])
    >>> ax = plots.calibration(model, X[300:], y[300:], n_bins=5)
    >>> ax.get_xlabel()
    'predicted probability'
    """
    check.check_count(n_bins, "n_bins")
    ax = axes_for(ax, "calibration")
    probabilities, y = np.asarray(model.predict_proba(X)), np.asarray(y)
    if len(model.classes_) == 2:
        stated, happened = probabilities[:, 1], y == model.classes_[1]
    else:
        stated = probabilities.max(axis=1)
        happened = y == model.classes_[probabilities.argmax(axis=1)]
    bins = np.array_split(np.argsort(stated, kind="stable"), min(n_bins, len(stated)))
    means, shares, counts = (
        np.array([function(rows) for rows in bins])
        for function in (lambda rows: stated[rows].mean(), lambda rows: happened[rows].mean(), len)
    )
    draw_diagonal(ax, "perfect calibration")
    label = type(model).__name__ if label is None else label
    draw_with_interval(ax, means, shares, wilson_interval(shares, counts), label=label)
    ax.set(xlabel="predicted probability", ylabel="observed frequency")
    ax.legend()
    return ax


def coverage(
    model: Any,
    X: Any,
    y: Any,
    *,
    coverages: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95),
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Plot the observed coverage of prediction intervals against the requested coverage.

    Parameters
    ----------
    model : QuadratureRidge
        A fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows that the model was not fitted to.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Their targets.
    coverages : sequence of float, default=(0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
        Coverages to request from ``predict_interval``.
    label : str, default=None
        Label in the legend. By default the class of the model.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes
        Error bars are 95% confidence intervals. Each output has a line.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureRidge, plots
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (1000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    >>> model = QuadratureRidge("gaussian", n_components=64, random_state=0).fit(X[:500], y[:500])
    >>> ax = plots.coverage(model, X[500:], y[500:])
    >>> ax.get_xlabel()
    'requested coverage'
    """
    ax = axes_for(ax, "coverage")
    y = np.asarray(y, dtype=np.float64)
    bounds = [model.predict_interval(X, coverage=value) for value in coverages]
    shares = np.array([((lower <= y) & (y <= upper)).mean(axis=0) for lower, upper in bounds])
    draw_diagonal(ax, "exact coverage")
    label = type(model).__name__ if label is None else label
    for output, values in enumerate(shares.reshape(len(bounds), -1).T):
        name = label if y.ndim == 1 else f"{label}, output {output}"
        interval = wilson_interval(values, np.full(len(values), len(y)))
        draw_with_interval(ax, coverages, values, interval, label=name)
    ax.set(xlabel="requested coverage", ylabel="observed coverage")
    ax.legend()
    return ax
