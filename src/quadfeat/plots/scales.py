"""The lengthscales of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat.plots.axes import axes_for


def lengthscales(model: Any, X: Any = None, *, n_columns: int = 20, ax: Any = None) -> Any:
    """Plot the inverse lengthscale of each column.

    A long bar means that the kernel changes quickly along the column. A column with almost no bar
    has little effect on predictions. For a kernel with a full metric ``M``, the lengthscale of
    column ``i`` is ``1 / sqrt(M[i, i])``.

    Parameters
    ----------
    model : QuadratureRidge, QuadratureRidgeClassifier or QuadratureFeatures
        A fitted model or map with a kernel.
    X : array-like or sparse matrix of shape (n_samples, n_features), default=None
        Rows whose standard deviations become the units of the columns, so that columns with
        different units can be compared. By default columns have their own units.
    n_columns : int, default=20
        Largest number of columns to show. If there are more, those with the longest bars are shown.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from quadfeat import QuadratureRidge, plots
    >>> X, y = make_friedman1(300, random_state=0)
    >>> model = QuadratureRidge("gaussian", lengthscales="ard", n_components=64, random_state=0)
    >>> ax = plots.lengthscales(model.fit(X, y), X)
    >>> ax.get_xlabel()
    '1 / lengthscale, per standard deviation'
    """
    check_is_fitted(model)
    check.check_count(n_columns, "n_columns")
    ax = axes_for(ax, "lengthscales")
    d = model.n_features_in_
    rates = np.sqrt(np.diagonal(model.kernel_.metric_for(d)))
    unit = ""
    if X is not None:
        rows = check.to_dense_float64(check.check_matrix(X, "X"))
        if rows.shape[1] != d:
            raise ValueError(f"X has {rows.shape[1]} columns, but the model has {d}.")
        rates, unit = rates * rows.std(axis=0), ", per standard deviation"
    names = getattr(model, "feature_names_in_", [f"column {i}" for i in range(d)])
    shown = np.sort(np.argsort(-rates, kind="stable")[:n_columns])
    ax.barh([str(names[i]) for i in shown], rates[shown])
    ax.invert_yaxis()
    ax.set(xlabel=f"1 / lengthscale{unit}")
    return ax
