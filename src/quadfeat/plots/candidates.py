"""The candidates of a front door, and the relevance of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat.plots.axes import axes_for


def leaderboard(model: Any, *, ax: Any = None) -> Any:
    """Plot the validated losses of the candidates, with their standard errors.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        A fitted model.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from quadfeat import KernelRegressor, plots
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = KernelRegressor(candidates=["features"]).fit(X, y)
    >>> ax = plots.leaderboard(model)
    >>> ax.get_xlabel()
    '1 - R2 on held-out rows'
    """
    check_is_fitted(model)
    ax = axes_for(ax, "leaderboard")
    board = model.leaderboard_
    rows = [row for row in board if np.isfinite(row.loss)]
    errors = np.nan_to_num([row.standard_error for row in rows])
    places = np.arange(len(rows))
    ax.barh(places, [row.loss for row in rows], xerr=errors, capsize=2)
    ax.set_yticks(places, [row.name for row in rows])
    ax.invert_yaxis()
    ax.set(xlabel=f"{board.loss_name} on held-out rows")
    return ax


def relevance(model: Any, *, n_columns: int = 20, ax: Any = None) -> Any:
    """Plot how fast the predictions of a model bend along each column, ``relevance_``.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        A fitted model.
    n_columns : int, default=20
        Largest number of columns to show. If there are more, the most relevant ones are shown.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from quadfeat import KernelRegressor, plots
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = KernelRegressor(candidates=["features"]).fit(X, y)
    >>> ax = plots.relevance(model, n_columns=5)
    >>> len(ax.patches)
    5
    """
    check_is_fitted(model)
    check.check_count(n_columns, "n_columns")
    ax = axes_for(ax, "relevance")
    shares = model.relevance_
    names = getattr(model, "feature_names_in_", [f"column {i}" for i in range(len(shares))])
    shown = np.argsort(-shares, kind="stable")[:n_columns]
    places = np.arange(len(shown))
    ax.barh(places, shares[shown])
    ax.set_yticks(places, [str(names[i]) for i in shown])
    ax.invert_yaxis()
    ax.set(xlabel="relevance")
    return ax
