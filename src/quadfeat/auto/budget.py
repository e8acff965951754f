"""``n_components="auto"``: find the fewest columns with an error below a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist

from quadfeat import bounds
from quadfeat._utils import validation as check
from quadfeat.auto.sample import Sample
from quadfeat.auto.selection import Selection
from quadfeat.auto.trials import Trial
from quadfeat.rules import Rule

# The search fails if it needs more than MOST_COMPONENTS columns: features are then the wrong tool.
# Expected errors are computed for up to TRUSTED columns, since more columns are slow to evaluate.
MOST_COMPONENTS = 2**16
TRUSTED = 2**13

# The search starts with FIRST columns, and finds their number up to a factor of PRECISION.
FIRST = 64
PRECISION = 1.03

# Every so many steps, the search halves the range instead of guessing.
BISECT_EVERY = 3

# Four times as many columns should halve the error. If the error is still above this fraction, the
# rule is biased, and more columns will not help.
STILL = 0.8

N_TRIALS = 4
GIVEN_ROWS = 128

Select = Callable[[int], Selection]


def smallest(select: Select, tol: float, start: int = FIRST) -> int:
    """Return the smallest number of columns whose expected error is at most ``tol``.

    Parameters
    ----------
    select : callable
        Returns the selected rule for a number of columns.
    tol : float
        Relative error in the Frobenius norm.
    start : int
        The number of columns to try first.
    """
    low, high = 0, start
    while (error := expected_error(selection := select(high))) > tol:
        if high >= TRUSTED:
            fewer = expected_error(select(high // 4))
            if error > STILL * fewer:
                raise ValueError(
                    f"tol={tol!r} cannot be reached: {check.one_line(selection.rule)} is biased on "
                    f"this data, with a relative error of about {fewer:.2g} for {high // 4} "
                    f"columns and {error:.2g} for {high}. Use rule='auto' or a larger tol."
                )
            # For more columns, assume errors proportional to 1 / sqrt(number of columns).
            return _checked(high * (error / tol) ** 2, high, error, tol)
        low, high = high, min(math.ceil(high * _factor(error, tol, 1.2, 8.0)), TRUSTED)
    # Errors are roughly proportional to 1 / sqrt(number of columns), which gives a guess from the
    # last error. Steps around the guess by half of PRECISION close the range from both sides. The
    # search also ends if the error of `high` leaves no room for fewer columns.
    margin = math.sqrt(PRECISION)
    least = error
    guess = high * (error / tol) ** 2 / margin
    step = 0
    while high > low + 1 and high > PRECISION * low and least < tol / margin:
        step += 1
        middle = round(guess)
        if not low < middle < high or step % BISECT_EVERY == 0:
            middle = math.isqrt(low * high) if low else high // 2
        middle = min(max(middle, low + 1), high - 1)
        error = _error_of(select, middle)
        if error <= tol:
            high, least, guess = middle, error, middle * (error / tol) ** 2 / margin
        else:
            low, guess = middle, middle * (error / tol) ** 2 * margin if error < math.inf else 0.0
    return high


def _error_of(select: Select, n_components: int) -> float:
    """Return the expected error of ``n_components`` columns; infinity if they are too few."""
    try:
        return expected_error(select(n_components))
    except ValueError:  # too few columns for the rule, such as one that matches moments
        return math.inf


def more(n_components: int, error: float, tol: float) -> int:
    """Return how many columns to try next, if ``n_components`` have an error above ``tol``."""
    following = n_components * _factor(error, tol, 1.02, 1.1)
    return _checked(following, n_components, error, tol)


def _factor(error: float, tol: float, least: float, most: float) -> float:
    """Return the factor by which to increase the number of columns, within bounds."""
    return min(max((error / tol) ** 2, least), most)


def _checked(needed: float, n_components: int, error: float, tol: float) -> int:
    """Return a number of columns as an integer; raise an error if it is too large."""
    if needed <= MOST_COMPONENTS:
        return math.ceil(needed)
    raise ValueError(
        f"tol={tol!r} needs about {needed:.2g} columns on this data; {n_components} columns have a "
        f"relative error of about {error:.2g}. Pass a larger tol, a wider kernel (a smaller gamma "
        "or a larger length_scale), or n_components as an integer."
    )


def expected_error(selection: Selection) -> float:
    """Return the expected error of the selected rule."""
    return next(c.error for c in selection.candidates if c.rule is selection.rule)


def given(rule: Rule, sample: Sample, n_components: int, rng: np.random.Generator) -> Selection:
    """Return the selection of a user's rule, with its error from trials."""
    trial = Trial.of_whole(rule, sample.first(GIVEN_ROWS), n_components)
    trial.run(N_TRIALS, rng)
    return Selection.given(rule, trial.candidate())


def paper_bound(sample: Sample, tol: float) -> int | None:
    """Return the number of columns that the paper's bound requires; None if it does not apply.

    With so many columns, the largest absolute error over all pairs is below ``tol`` with
    probability 0.95. The diameter of the sample is used as that of the data.
    """
    kernel = sample.kernel
    diameter = float(pdist(sample.scaled).max(initial=0.0))
    if not (kernel.is_stationary and kernel.spectrum.is_normal) or diameter == 0:
        return None
    return bounds.n_components_for_sup_error(tol, 0.05, sample.d, diameter=diameter)
