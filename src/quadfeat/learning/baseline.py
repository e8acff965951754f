"""Compare a model with the simplest baseline, a constant prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.targets import KeptRows
from quadfeat.solvers.validation import ROUNDING, Losses, Validation

# Smallest gain over a constant, in standard errors of the gain. On pure noise, the best of many
# kernels beats a constant by chance: by up to 2.7 standard errors on 16 tables of 200 or 600 rows.
# A single kernel gains at most 0.3 on 27 tables of 100 to 1000 rows. For classification, it gains
# at most 1.1 on 72 tables of 60 to 400 rows, because probabilities are calibrated on these rows.
BEST_OF_MANY = 3.0
ONE_ALONE = 0.4
ONE_ALONE_FOR_CLASSES = 1.2

# A gain of at least this fraction of the loss, on at least this many rows, needs only ONE_ALONE
# standard errors. Targets with heavy tails have large standard errors: on radarImage in
# benchmarks/unseen.py, an R2 of .45 has a standard error of .25. On 18 tables of pure noise, the
# largest gain was 18% on 50 rows, and 3% on 150 or more rows.
LARGE_GAIN = 0.25
ROWS_FOR_LARGE = 100


@dataclass(frozen=True)
class Gain:
    """The reduction of a loss relative to a constant prediction.

    Attributes
    ----------
    mean, standard_error : float
        The mean gain and its standard error.
    loss : float
        The loss of the model.
    n_rows : int
        Number of rows whose losses were compared.
    """

    mean: float
    standard_error: float
    loss: float
    n_rows: int

    def is_clear(self, least: float) -> bool:
        """Return whether the gain is large, or exceeds ``least`` standard errors."""
        if self.n_rows >= ROWS_FOR_LARGE and self.mean >= LARGE_GAIN * (self.mean + self.loss):
            least = min(least, ONE_ALONE)
        return self.mean > 0 and not self.mean < least * self.standard_error  # NaN for a single row


def squares_about_mean(validation: Validation, rows: KeptRows) -> Float64Array:
    """Return the squared deviations of targets from their mean, in the units of the losses."""
    mean = np.average(rows.targets, axis=0, weights=rows.weights)
    units = validation.solution.posterior.relative_units
    return np.asarray(np.mean((rows.targets - mean) ** 2 / units, axis=1))


def gain_over_constant(validation: Validation, rows: KeptRows) -> Gain:
    """Return the gain of a model over a constant.

    The constant is the mean of the targets or, for classification, the class frequencies. The mean
    gain is computed on all rows of the validation. Its standard error comes from paired differences
    on single rows.
    """
    losses, moments = validation.losses, validation.solution.summary.moments
    n_rows = moments.n_rows
    left_out = (n_rows / max(n_rows - 1, 1)) ** 2  # deviations from the mean of the others
    if rows.labels is None:
        constant = left_out * squares_about_mean(validation, rows)
    else:
        frequencies = np.bincount(rows.labels, weights=rows.weights)
        # Index before taking logarithms, since a class may have no rows here.
        constant = -np.log(frequencies[rows.labels] / rows.weights.sum())
    gains = (constant - losses.values[:, validation.which])[:, None]
    single = Losses.of(gains, rows.weights, single=False)
    score, share = single.score(0), min(1.0, single.weight / losses.weight)
    mean = score.mean
    if share < 1.0 - ROUNDING:  # single rows are a sample of all rows
        if rows.labels is None:
            of_constant = left_out * float(moments.target_variances.mean())
        else:
            shares = moments.target_totals / moments.weight
            of_constant = -float(np.sum(xlogy(shares, shares)))
        mean = of_constant - validation.loss.mean
    error = score.standard_error * math.sqrt(share)
    return Gain(mean, error, validation.loss.mean, len(rows.weights))
