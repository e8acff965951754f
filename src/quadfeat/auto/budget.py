"""``n_components="auto"``: the fewest columns whose error is below a tolerance."""

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

# More columns than this are taken for a sign that features are the wrong tool. Expected errors are
# computed for so many at most; to compute them for more takes long.
MOST_COMPONENTS = 2**16
TRUSTED = 2**13

# The search begins here and ends when it knows the number to this factor.
FIRST = 64
PRECISION = 1.03

# The error with four times the columns should be half of what it was. If it is still this part, the
# rest is a bias, which does not go away.
STILL = 0.8

N_TRIALS = 4
GIVEN_ROWS = 128

Select = Callable[[int], Selection]


def smallest(select: Select, tol: float) -> int:
    """Return the smallest number of columns whose expected error is at most ``tol``.

    Parameters
    ----------
    select : callable
        Returns what would be drawn for a number of columns.
    tol : float
        Relative error in the Frobenius norm.
    """
    low, high = 0, FIRST
    while (error := expected_error(selection := select(high))) > tol:
        if high == TRUSTED:
            fewer = expected_error(select(high // 4))
            if error > STILL * fewer:
                raise ValueError(
                    f"tol={tol!r} cannot be met by {check.one_line(selection.rule)} on this data, "
                    f"where it is biased: {high // 4} columns have a relative error of about "
                    f"{fewer:.2g}, and {high} of {error:.2g}. Use rule='auto' or a larger tol."
                )
            # From here on errors are taken to fall like the root of the number of columns.
            return _checked(high * (error / tol) ** 2, high, error, tol)
        low, high = high, min(math.ceil(high * _factor(error, tol, 1.2, 8.0)), TRUSTED)
    while high > low + 1 and high > PRECISION * low:
        middle = math.isqrt(low * high) if low else high // 2
        middle = min(max(middle, low + 1), high - 1)
        if _suffices(select, middle, tol):
            high = middle
        else:
            low = middle
    return high


def _suffices(select: Select, n_components: int, tol: float) -> bool:
    """Return whether so many columns do, fewer than some that did."""
    try:
        return expected_error(select(n_components)) <= tol
    except ValueError:  # too few for the rule, such as one that matches moments
        return False


def more(n_components: int, error: float, tol: float) -> int:
    """Return how many columns to try after so many had an error above ``tol``."""
    following = n_components * _factor(error, tol, 1.02, 1.1)
    return _checked(following, n_components, error, tol)


def _factor(error: float, tol: float, least: float, most: float) -> float:
    """Return how many times the columns it takes, within bounds."""
    return min(max((error / tol) ** 2, least), most)


def _checked(needed: float, n_components: int, error: float, tol: float) -> int:
    """Return a number of columns if it is not absurd, or say what so many others would give."""
    if needed <= MOST_COMPONENTS:
        return math.ceil(needed)
    raise ValueError(
        f"tol={tol!r} would take about {needed:.2g} columns on this data, while {n_components} "
        f"have a relative error of about {error:.2g}: give a larger tol, a wider kernel (a smaller "
        "gamma, a longer length_scale), or n_components as a number."
    )


def expected_error(selection: Selection) -> float:
    """Return the expected error of what was selected."""
    return next(c.error for c in selection.candidates if c.rule is selection.rule)


def given(rule: Rule, sample: Sample, n_components: int, rng: np.random.Generator) -> Selection:
    """Return the selection of a rule that the user has chosen, its error found by trials."""
    trial = Trial.of_whole(rule, sample.first(GIVEN_ROWS), n_components)
    trial.run(N_TRIALS, rng)
    return Selection.given(rule, trial.candidate())


def paper_bound(sample: Sample, tol: float) -> int | None:
    """Return how many columns the paper's bound asks for, if it speaks of such a kernel.

    It bounds the probability, here 0.05, that the largest absolute error over all pairs exceeds
    ``tol``. The diameter of the data is that of the sample.
    """
    kernel = sample.kernel
    diameter = float(pdist(sample.scaled).max(initial=0.0))
    if not (kernel.is_stationary and kernel.spectrum.is_normal) or diameter == 0:
        return None
    return bounds.n_components_for_sup_error(tol, 0.05, sample.d, diameter=diameter)
