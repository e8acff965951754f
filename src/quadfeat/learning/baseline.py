"""The simplest prediction, a constant, as the least that a model has to beat."""

from __future__ import annotations

import math

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.targets import KeptRows
from quadfeat.solvers.validation import LOG_LOSSES, SQUARES, Losses, Score, Validation

# Without any signal, the best of many kernels beats a constant by chance: by up to 2.7 standard
# errors of the gain in 16 tables of 200 or 600 rows. One kernel alone did by 0.3 at most in 27
# tables of 100 to 1000 rows.
BEST_OF_MANY = 3.0
ONE_ALONE = 0.4

# A gain of this part of the loss is not chance either, if it has the standard errors of one kernel
# alone and there are so many rows. The errors of targets with heavy tails hide even large gains: on
# radarImage of benchmarks/unseen.py, an R2 of .45 has a standard error of .25. The largest gain on
# 18 tables of noise was 18 % on 50 rows, and 3 % on 150 or more.
LARGE_GAIN = 0.25
ROWS_FOR_LARGE = 100


def squares_about_mean(validation: Validation, rows: KeptRows) -> Float64Array:
    """Return the squared distances of targets from their mean, in the units of the losses."""
    mean = np.average(rows.targets, axis=0, weights=rows.weights)
    units = validation.solution.posterior.relative_units
    return np.asarray(np.mean((rows.targets - mean) ** 2 / units, axis=1))


def gain_over_constant(validation: Validation, rows: KeptRows) -> Score:
    """Return how much smaller the loss is than that of a constant, and the standard error.

    The constant is the mean of the targets or, for classes, their frequencies. Losses are compared
    row by row, for the single rows of the validation.
    """
    if rows.labels is None:
        n_rows = validation.solution.summary.moments.n_rows
        left_out = n_rows / max(n_rows - 1, 1)  # a row is farther from the mean of the others
        constant = left_out**2 * squares_about_mean(validation, rows)
        which = SQUARES
    else:
        frequencies = np.bincount(rows.labels, weights=rows.weights)
        # A class may have no rows here.
        constant = -np.log(frequencies[rows.labels] / rows.weights.sum())
        which = LOG_LOSSES
    losses = validation.losses
    gain = Losses.of((constant - losses.values[:, which])[:, None], rows.weights, single=False)
    score = gain.score(0)
    # All rows tell the gain more precisely than single ones.
    share = math.sqrt(min(1.0, gain.weight / losses.weight))
    return Score(score.mean, score.standard_error * share)


def is_better_than_constant(validation: Validation, rows: KeptRows, least: float) -> bool:
    """Return whether a model beats a constant by at least so many standard errors, or by much."""
    gain = gain_over_constant(validation, rows)
    loss = validation.loss.mean
    if len(rows.weights) >= ROWS_FOR_LARGE and gain.mean >= LARGE_GAIN * (gain.mean + loss):
        least = min(least, ONE_ALONE)
    return gain.mean > 0 and not gain.mean < least * gain.standard_error  # one row has no error
