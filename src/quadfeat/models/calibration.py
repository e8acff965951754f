r"""Probabilities from the decisions of a classifier, by temperature scaling.

Probabilities are :math:`p_c \propto e^{f_c / T}` with the decisions :math:`f` of the classes (for
two classes :math:`\pm f`). The temperature maximizes the likelihood of the classes of training rows
under leave-one-out decisions. One temperature for all classes keeps the class with the largest
decision the most likely one.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.posterior import Posterior

# Range of inverse temperatures. Outside it, probabilities are 0 or 1 up to rounding, or all equal.
INVERSE_TEMPERATURES = (1e-3, 1e3)


def left_out_decisions(
    posterior: Posterior, Z: Float64Array, targets: Float64Array, amounts: Float64Array
) -> Float64Array:
    """Return the exact leave-one-out decisions of training rows.

    Parameters
    ----------
    posterior : Posterior
    Z : array of shape (n_rows, n_components)
        Features of the rows.
    targets : array of shape (n_rows, n_outputs)
    amounts : array of shape (n_rows,)
        The weight that is left out of each row.
    """
    fitted = Z @ posterior.coefficients + posterior.intercept
    left = 1.0 - (amounts * posterior.leverage(Z))[:, None]
    # The decision without a row that alone determines the fit is 0.
    return np.where(left > 1e-10, targets - (targets - fitted) / np.maximum(left, 1e-10), 0.0)


def probabilities(decisions: Float64Array, temperature: float) -> Float64Array:
    """Return the probability of each class, shape (n_rows, n_classes)."""
    scores = decisions / temperature
    if scores.shape[1] == 1:
        scores = np.hstack([-scores, scores])
    return np.asarray(special.softmax(scores, axis=1))


def best_temperature(decisions: Float64Array, classes: np.ndarray, weights: Float64Array) -> float:
    """Return the temperature that maximizes the likelihood of the classes of rows.

    Parameters
    ----------
    decisions : array of shape (n_rows, n_outputs)
    classes : int array of shape (n_rows,)
    weights : array of shape (n_rows,)
    """
    scores = np.hstack([-decisions, decisions]) if decisions.shape[1] == 1 else decisions
    own = scores[np.arange(len(scores)), classes]

    def cost(log_inverse: float) -> float:
        inverse = np.exp(log_inverse)
        return float(weights @ (special.logsumexp(inverse * scores, axis=1) - inverse * own))

    bounds = tuple(np.log(INVERSE_TEMPERATURES))
    return float(np.exp(-optimize.minimize_scalar(cost, bounds=bounds, method="bounded").x))
