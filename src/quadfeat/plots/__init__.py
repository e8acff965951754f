"""Plots of maps and models with matplotlib.

Each function draws on the axes ``ax``, or on a new figure if ``ax`` is None, and returns the axes.
Install matplotlib with ``pip install 'quadfeat[plots]'``.
"""

from quadfeat.plots.alphas import alpha_path
from quadfeat.plots.candidates import leaderboard, relevance
from quadfeat.plots.columns import kernel_error
from quadfeat.plots.frequencies import calibration, coverage
from quadfeat.plots.scales import lengthscales

__all__ = [
    "alpha_path",
    "calibration",
    "coverage",
    "kernel_error",
    "leaderboard",
    "lengthscales",
    "relevance",
]
