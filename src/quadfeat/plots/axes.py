"""Axes and error bars for plots."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array

# Below this ratio of its limits, a logarithmic axis has labels between the powers of ten.
FEW_DECADES = 1e2


def axes_for(ax: Any, function: str) -> Any:
    """Return the axes to draw on, those of a new figure if ``ax`` is None.

    Parameters
    ----------
    ax : matplotlib Axes or None
    function : str
        The name of the plot, for the error message if matplotlib is missing.
    """
    plt = _pyplot(function)
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def two_axes(function: str) -> Any:
    """Return two axes side by side in a new figure."""
    return _pyplot(function).subplots(1, 2, figsize=(10, 4), layout="constrained")[1]


def _pyplot(function: str) -> Any:
    """Import matplotlib, with an error message for the function that needs it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"quadfeat.plots.{function} needs matplotlib: pip install 'quadfeat[plots]'."
        ) from error
    return plt


def wilson_interval(shares: Float64Array, counts: Float64Array) -> Float64Array:
    """Return the 95% Wilson intervals of observed shares, shape (2, n).

    Examples
    --------
    >>> wilson_interval(np.array([0.5]), np.array([100])).round(3)
    array([[0.404],
           [0.596]])
    """
    from scipy.stats import binomtest  # slow to import

    tests = [
        binomtest(round(share * count), int(count))
        for share, count in zip(shares, counts, strict=True)
    ]
    return np.transpose([test.proportion_ci(method="wilson") for test in tests])


def draw_with_interval(
    ax: Any, x: Any, values: Float64Array, interval: Float64Array, **options: Any
) -> None:
    """Draw points with error bars from the lower to the upper row of ``interval``."""
    lengths = np.maximum(0.0, np.stack([values - interval[0], interval[1] - values]))
    ax.errorbar(
        np.asarray(x, dtype=float),
        values,
        yerr=lengths,
        **({"marker": "o", "capsize": 2} | options),
    )


def log_scale(ax: Any) -> None:
    """Make the y-axis logarithmic, with enough labels if it spans less than two decades."""
    from matplotlib.ticker import LogLocator

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high < FEW_DECADES * low:
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(LogLocator(subs=()))


def draw_diagonal(ax: Any, label: str) -> None:
    """Draw the line on which observed and stated frequencies agree, once for each axes."""
    if label not in ax.get_legend_handles_labels()[1]:
        ax.plot([0, 1], [0, 1], linestyle=":", color="gray", label=label)
