r"""Prediction intervals from leave-one-out errors: normalized conformal prediction.

The score of a training row is its absolute leave-one-out error, divided by the standard deviation
of this error under the Gaussian process. Let :math:`q` be the quantile of the scores at the
coverage :math:`c`, and :math:`\sigma^2` the noise variance. The interval for a row with leverage
:math:`h` is its prediction plus and minus :math:`q \sigma \sqrt{1 + h}`. To count the new row,
:math:`q` is the score of rank :math:`\lceil (n + 1) c \rceil` among :math:`n` training rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.left_out import LeftOut
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.targets import KeptRows, Targets

# Relative rounding error of sums of weights.
ROUNDING = 1e-12


@register
@dataclass(frozen=True)
class Scores:
    """Scores of training rows.

    Attributes
    ----------
    values : array of shape (n_rows, n_outputs)
        Scores of each output, in ascending order.
    weights : array of shape (n_rows, n_outputs)
        Weights of the rows that have these scores.
    """

    values: Float64Array
    weights: Float64Array

    def check_consistency(self) -> None:
        """Raise an error if the fields do not fit together; see ``quadfeat.io.register``."""
        shape = np.shape(self.values)
        checks.expect(len(shape) == 2 and min(shape) > 0, f"values of scores have shape {shape}")
        checks.check_array(self.values, shape, np.float64, "values of scores")
        checks.check_array(self.weights, shape, np.float64, "weights of scores")

    @classmethod
    def of(cls, posterior: Posterior, features: FeatureMap, rows: KeptRows) -> Scores:
        """Return the scores of the rows that a model keeps."""
        noise = posterior.checked_noise_variance()
        found = LeftOut.of_kept(posterior, features, rows)
        values = np.abs(found.errors) / np.sqrt(np.multiply.outer(found.variances, noise))
        order = np.argsort(values, axis=0, kind="stable")
        return cls(np.take_along_axis(values, order, axis=0), rows.weights[order])

    def quantiles(self, coverage: float) -> Float64Array:
        """Return the quantile of the scores of each output, shape (n_outputs,).

        A new row has the mean weight of the training rows.
        """
        totals = np.cumsum(self.weights, axis=0)
        n_rows, total = len(totals), totals[-1]
        wanted = coverage * total * (1.0 + 1.0 / n_rows) * (1.0 - ROUNDING)
        if (wanted > total).any():
            needed = math.ceil(coverage / (1.0 - coverage) * (1.0 - ROUNDING))
            raise ValueError(
                f"coverage={coverage:g} needs at least {needed} training rows, but the model keeps "
                f"{n_rows}. Fit more rows, or use a smaller coverage."
            )
        places = (totals < wanted).sum(axis=0)
        return self.values[np.minimum(places, n_rows - 1), np.arange(self.values.shape[1])]


def interval_scores(
    posterior: Posterior, features: FeatureMap, targets: Targets, solution: Any
) -> Scores:
    """Return the scores of the rows that a solution keeps. They are computed on first use."""
    if getattr(solution, "scores", None) is None:
        solution.scores = Scores.of(posterior, features, targets.kept(solution.summary))
    scores: Scores = solution.scores
    return scores


def bounds(
    mean: Float64Array, leverage: Float64Array, noise: Float64Array, quantiles: Float64Array
) -> Float64Array:
    """Return the lower and upper bounds of intervals, shape (n_rows, 2, n_outputs).

    Parameters
    ----------
    mean : array of shape (n_rows, n_outputs)
    leverage : array of shape (n_rows,)
    noise : array of shape (n_outputs,)
        The noise variance.
    quantiles : array of shape (n_outputs,)
        The result of :meth:`Scores.quantiles`.
    """
    steps = np.multiply.outer(np.sqrt(1.0 + leverage), np.sqrt(noise) * quantiles)
    return np.stack([mean - steps, mean + steps], axis=1)


def check_coverage(coverage: Any) -> float:
    """Return the coverage as a float if it is between 0 and 1; otherwise raise an error."""
    is_number = check.is_number(coverage)
    if not is_number or not 0 < coverage < 1:
        kind = ValueError if is_number else TypeError
        raise kind(
            f"coverage={check.one_line(coverage)} is not valid: pass a number between 0 and 1, "
            "such as 0.9."
        )
    return float(coverage)
