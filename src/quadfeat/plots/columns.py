"""The approximation error of a map against its number of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat.plots.axes import axes_for, draw_with_interval, log_scale

# The default is this many numbers of columns, each half of the next.
DEFAULT_POINTS = 5


def kernel_error(
    features: Any,
    X: Any,
    n_components: Sequence[int] | None = None,
    *,
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Plot the approximation error of the kernel against the number of columns.

    For each number of columns, fit a copy of the map to ``X`` and show its
    ``approximation_error_`` with a 95% confidence interval. Call the function again with the same
    ``ax`` to compare rules or kernels.

    Parameters
    ----------
    features : QuadratureFeatures
        The map, fitted or not. It does not change.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows on which the error is measured.
    n_components : sequence of int, default=None
        Numbers of columns. By default five numbers, up to the number of columns of ``features``.
    label : str, default=None
        Label in the legend. By default the rule.
    ax : matplotlib Axes, default=None
        Axes to draw on. By default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The interval covers the choice of pairs of rows, but not the draw of the map. Another
    ``random_state`` gives another curve.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from quadfeat import QuadratureFeatures, plots
    >>> X = load_iris().data
    >>> for rule in ("rff", "sr33"):
    ...     features = QuadratureFeatures(rule=rule, n_components=256, random_state=0)
    ...     ax = plots.kernel_error(features, X, ax=None if rule == "rff" else ax)
    >>> ax.get_ylabel()
    'relative error of the kernel'
    """
    ax = axes_for(ax, "kernel_error")
    counts = _default_counts(features) if n_components is None else list(n_components)
    errors = [
        clone(features).set_params(n_components=count, tol=None).fit(X).approximation_error_
        for count in counts
    ]
    values = np.array([error.value for error in errors])
    interval = np.array([[error.low, error.high] for error in errors]).T
    draw_with_interval(ax, counts, values, interval, label=label or _rule_name(features.rule))
    ax.set(xscale="log", xlabel="columns", ylabel="relative error of the kernel")
    log_scale(ax)
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    ax.legend()
    return ax


def _default_counts(features: Any) -> list[int]:
    """Return numbers of columns up to that of a map."""
    largest = getattr(features, "n_components_", features.n_components)
    if isinstance(largest, str):
        raise ValueError(
            f"n_components={largest!r} of the map is not a number. Pass n_components to the plot, "
            "such as [64, 128, 256], or fit the map first."
        )
    largest = check.check_count(largest, "n_components")
    return sorted({max(2, largest // 2**step) for step in range(DEFAULT_POINTS)})


def _rule_name(rule: Any) -> str:
    return rule if isinstance(rule, str) else type(rule).__name__
