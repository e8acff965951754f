"""Blend the forecasts of several candidates, if held-out rows say that this gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.front_door.forecasts import Forecast

# Shares are multiples of one tenth: finer ones gain less than the standard error of the loss.
STEPS = 10

# A blend takes longer to predict and is harder to explain. So it has to lower the loss by this
# fraction, and by this many standard errors of the difference. Near ties are better blended than
# chosen from, but without any condition, a blend may be worse.
LEAST_GAIN = 0.01
LEAST_ERRORS = 1.0

Losses = Callable[[Forecast], Float64Array]
Mixed = Callable[[Sequence[Forecast], Sequence[float]], Forecast]


def best_shares(
    forecasts: Sequence[Forecast], losses: Losses, mixed: Mixed, weights: Float64Array
) -> tuple[float, ...]:
    """Return the share of each candidate: 1 for the best one, unless a blend is clearly better.

    Parameters
    ----------
    forecasts : sequence of Forecast
        The forecasts of the candidates for the same rows, the best candidate first.
    losses : callable
        Returns the loss of each row for a forecast.
    mixed : callable
        Returns the blend of forecasts, given their shares.
    weights : array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> forecasts = [Forecast(rng.standard_normal((500, 1))) for _ in range(2)]
    >>> best_shares(
    ...     forecasts,
    ...     lambda one: one.values[:, 0] ** 2,
    ...     lambda some, shares: Forecast(sum(w * one.values for w, one in zip(shares, some))),
    ...     np.ones(500),
    ... )
    (0.5, 0.5)
    """
    alone = (1.0, *[0.0] * (len(forecasts) - 1))
    if len(forecasts) == 1:
        return alone
    of_best = losses(forecasts[0])
    least = float(np.average(of_best, weights=weights))
    found, shares = least, alone
    for steps in product(range(STEPS + 1), repeat=len(forecasts) - 1):
        if sum(steps) > STEPS:
            continue
        tried = tuple(step / STEPS for step in (STEPS - sum(steps), *steps))
        loss = float(np.average(losses(mixed(forecasts, tried)), weights=weights))
        if loss < found:
            found, shares = loss, tried
    if shares == alone:
        return alone
    gain, error = mean_and_error(of_best - losses(mixed(forecasts, shares)), weights)
    is_clear = gain >= max(LEAST_GAIN * least, LEAST_ERRORS * error)
    return shares if is_clear else alone


def mean_and_error(values: Float64Array, weights: Float64Array) -> tuple[float, float]:
    """Return the weighted mean of values and its standard error.

    Examples
    --------
    >>> mean_and_error(np.array([0.0, 2.0]), np.ones(2))
    (1.0, 1.0)
    """
    weights = weights / weights.max()  # squares of tiny weights would be zero
    total = float(weights.sum())
    mean = float(np.sum(weights * values) / total)
    # The effective number of rows.
    size = total**2 / float(np.sum(weights**2))
    spread = float(np.sum(weights * (values - mean) ** 2) / total)
    return mean, float(np.sqrt(spread / max(size - 1.0, 1.0)))
