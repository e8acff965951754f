r"""Convert the decision values of a classifier to probabilities.

The probability of a class is :math:`p_c \propto e^{f_c / T + b_c}`, where :math:`f_c` is its
decision value (:math:`\pm f` for two classes). The temperature :math:`T` maximizes the likelihood
of the training labels given their leave-one-out decision values.

Without biases, uninformative decision values give equal probabilities. Class frequencies are a
better estimate if they differ, so :math:`b_c` may be a fraction :math:`0 \le s \le 1` of the log
frequency of a class. The fraction is zero unless it increases the likelihood by more than chance.
With zero biases, the class with the largest decision value is always the most likely one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from quadfeat._utils.validation import Array, Float64Array, check_positive
from quadfeat.io import checks, register

# Range of inverse temperatures. Outside this range, probabilities are either almost equal, or 0 and
# 1 up to rounding.
INVERSE_TEMPERATURES = (1e-3, 1e3)

# At this temperature, decision values have no influence.
HOT = 1e12

# Biases have to increase the log likelihood by this much. One irrelevant parameter increases it by
# more than that in one of seventy samples.
LEAST_GAIN = 3.0


@register
@dataclass(frozen=True)
class Calibration:
    """A map from decision values to probabilities.

    Attributes
    ----------
    temperature : float
        The number that decision values are divided by.
    bias : array of shape (n_classes,)
        Numbers that are added to the scaled decision values.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.solvers.calibration import Calibration
    >>> calibration = Calibration(0.5, np.log([0.9, 0.1]))
    >>> calibration.probabilities(np.array([[0.0]])).round(3)
    array([[0.9, 0.1]])
    """

    temperature: float
    bias: Float64Array

    def check_consistency(self) -> None:
        check_positive(self.temperature, "temperature of _solution")
        name = "bias of _solution"
        checks.check_array(self.bias, (np.size(self.bias),), np.float64, name)

    def probabilities(self, decisions: Float64Array) -> Float64Array:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        scores = class_scores(decisions) / self.temperature + self.bias
        return np.asarray(special.softmax(scores, axis=1))

    def log_losses(self, decisions: Float64Array, classes: Array) -> Float64Array:
        """Return the negative log probability of the true class of each row."""
        scores = class_scores(decisions) / self.temperature + self.bias
        own = scores[np.arange(len(scores)), classes]
        return np.asarray(special.logsumexp(scores, axis=1) - own)


def class_scores(decisions: Float64Array) -> Float64Array:
    """Return one decision value per class; two classes share one value with opposite signs."""
    return np.hstack([-decisions, decisions]) if decisions.shape[1] == 1 else decisions


def _smoothed(scores: Float64Array, classes: Array, weights: Float64Array) -> Float64Array:
    """Return the score of the true class of each row, with smoothed labels.

    Each label is wrong with probability 1 / (n_rows + 2), as in [1]_. Without smoothing,
    probabilities would be 0 and 1 whenever all rows are classified correctly.

    References
    ----------
    .. [1] Platt, "Probabilistic outputs for support vector machines and comparisons to regularized
       likelihood methods", 1999.
    """
    n_classes = scores.shape[1]
    share = 1.0 / (weights.sum() + 2.0) * n_classes / (n_classes - 1)
    own = scores[np.arange(len(scores)), classes]
    return np.asarray((1.0 - share) * own + share * scores.mean(axis=1))


def best_temperature(decisions: Float64Array, classes: Array, weights: Float64Array) -> float:
    """Return the temperature that maximizes the likelihood of the labels.

    Parameters
    ----------
    decisions : array of shape (n_rows, n_outputs)
    classes : int array of shape (n_rows,)
    weights : array of shape (n_rows,)
    """
    scores = class_scores(decisions)
    own = _smoothed(scores, classes, weights)

    def cost(log_inverse: float) -> float:
        inverse = np.exp(log_inverse)
        return float(weights @ (special.logsumexp(inverse * scores, axis=1) - inverse * own))

    bounds = tuple(np.log(INVERSE_TEMPERATURES))
    return float(np.exp(-optimize.minimize_scalar(cost, bounds=bounds, method="bounded").x))


def best_calibration(
    decisions: Float64Array, classes: Array, weights: Float64Array, amounts: Float64Array
) -> Calibration:
    """Return the calibration that maximizes the likelihood of the labels.

    Its log loss on these rows is never larger than that of the class frequencies.

    Parameters
    ----------
    decisions : array of shape (n_rows, n_outputs)
        Leave-one-out decision values.
    classes : int array of shape (n_rows,)
    weights : array of shape (n_rows,)
    amounts : array of shape (n_classes,)
        The number of rows of each class, or their total weight, in the whole dataset.
    """
    weights = weights / (weights.mean() or 1.0)  # each row counts once on average
    plain = Calibration(best_temperature(decisions, classes, weights), np.zeros(len(amounts)))
    # A declared class without rows counts half as much as the rarest class with rows.
    seen = amounts[amounts > 0]
    log_prior = np.log(np.where(amounts > 0, amounts, seen.min() / 2.0) / seen.sum())

    def total(calibration: Calibration) -> float:
        return float(weights @ calibration.log_losses(decisions, classes))

    if np.ptp(log_prior) == 0:  # equal biases change nothing
        return min(plain, Calibration(HOT, np.zeros(len(amounts))), key=total)
    prior = Calibration(HOT, log_prior)
    scores = class_scores(decisions)
    parts = np.stack([scores, np.broadcast_to(log_prior, scores.shape)])
    own = np.stack([_smoothed(part, classes, weights) for part in parts])

    def cost(factors: Float64Array) -> tuple[float, Float64Array]:
        combined = np.tensordot(factors, parts, axes=1)
        totals = special.logsumexp(combined, axis=1)
        shares = np.exp(combined - totals[:, None])
        expected = np.einsum("kij,ij->ki", parts, shares)
        return float(weights @ (totals - factors @ own)), (expected - own) @ weights

    bounds = [INVERSE_TEMPERATURES, (0.0, 1.0)]
    found = optimize.minimize(
        cost, (1.0 / plain.temperature, 0.0), jac=True, bounds=bounds, method="L-BFGS-B"
    ).x
    biased = Calibration(float(1.0 / found[0]), found[1] * log_prior)
    costs = [total(one) for one in (plain, biased, prior)]
    if costs[2] < min(costs[:2]):
        return prior
    gains = costs[0] > costs[1] + LEAST_GAIN or costs[2] < costs[0]
    return biased if gains else plain
