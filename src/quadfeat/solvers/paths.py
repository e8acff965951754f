"""The choice of alpha: criteria along a path, guarded by the errors of rows left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.curves import LeftOutCurve
from quadfeat.solvers.factored import Factored
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.posterior import Posterior, posterior_of
from quadfeat.solvers.ridge import ALPHA_PER_ERROR, ROUNDING, AlphaPath, RidgeProblem
from quadfeat.solvers.spectral import Spectral

# A chosen alpha is rounded to this many values per decade, so that it does not depend on rounding
# errors, which change with the order of rows.
ALPHAS_PER_DECADE = 100

# An alpha within this factor of the smallest one lies at the edge: a smaller one might be better.
EDGE = 2.0

# If the errors of rows left out at the smallest alpha are smaller by less than this part than those
# at ten times that alpha, even smaller alphas are not worth another pass over the rows in float64.
FLAT = 0.005

# If the errors of rows left out at a criterion's own alpha exceed the least ones by more than this
# part of them, and by more than so many standard errors, the criterion is misled, and users should
# know.
MISLED = 0.1
MISLED_STANDARD_ERRORS = 4.0

# If more than this share of the rows has copies, only rows that are left out with all their copies
# choose alpha: a sample.
MANY_COPIES = 0.2

# From this number of columns on, the evidence is computed by a few Cholesky factors instead of an
# eigendecomposition. Seconds on two threads for 4096 columns: 7.7 for the decomposition, 0.3 for a
# factor.
FACTORED_FROM = 2048

# The largest step between alphas that are tried there, and the precision of the best one, in
# decades.
DECADE_PRECISION = 0.05


@dataclass(frozen=True)
class Sample:
    """Rows to leave out in turn.

    Attributes
    ----------
    Z : array of shape (n_rows, n_components)
    Y : array of shape (n_rows, n_outputs)
    weights : array of shape (n_rows,)
    amounts : array of shape (n_rows,)
        The weight that is left out of each row.
    """

    Z: Float64Array
    Y: Float64Array
    weights: Float64Array
    amounts: Float64Array

    @property
    def has_copies(self) -> bool:
        """Whether some row has copies that are left out with it."""
        return bool((self.amounts > 1.0).any())

    @property
    def has_many_copies(self) -> bool:
        """Whether so many rows have copies that errors of rows left out alone are misleading."""
        copied = float(self.weights[self.amounts > 1.0].sum())
        return copied > MANY_COPIES * float(self.weights.sum())


# Returns the errors of rows left out, for some alphas.
LeaveOut = Callable[[Spectral, Float64Array], LeftOutCurve]


def choose_alpha(
    problem: RidgeProblem,
    criterion: str,
    alphas: Float64Array | None,
    left_out: LeaveOut | None = None,
    sample: Sample | None = None,
) -> Posterior:
    """Return the posterior for the best alpha that is safe.

    Parameters
    ----------
    problem : RidgeProblem
    criterion : {"gcv", "evidence", "loo"}
    alphas : array or None
        Alphas to try; None for a default grid over all plausible values.
    left_out : callable
        Leaves out all rows in turn. ``"loo"`` needs it.
    sample : Sample or None
        Some of the rows. They guard the choice if ``left_out`` is None, and if rows have
        duplicates. All duplicates of a row are then left out together, because they would reveal
        its target.
    """
    system = problem.equations()
    if (
        criterion == "evidence"
        and alphas is None
        and left_out is None
        and len(system.matrix) >= FACTORED_FROM
        and bool((system.squares > 0).any())
    ):
        return _by_factors(problem, Factored(system), sample)
    spectral = Spectral.of(system)
    tried = spectral.default_alphas() if alphas is None else np.sort(alphas)
    path, allowed = spectral.path(tried), np.ones(len(tried), dtype=bool)
    guard = None
    if sample is not None and (left_out is None or sample.has_copies):
        guard = spectral.left_out(tried, sample.Z, sample.Y, sample.weights, sample.amounts)
        path, allowed = guard.onto(path), guard.allowed(tried)
    if left_out is not None:
        curve = left_out(spectral, tried)
        path = curve.onto(path)
        if guard is None:
            allowed = curve.allowed(tried)
        elif sample is not None and not sample.has_many_copies:
            # All rows tell alphas apart better than a sample, which only confirms the choice.
            confirmed = curve.allowed(tried) & guard.is_no_worse_than_one(tried)
            allowed = confirmed if confirmed.any() else allowed
    telling = bool((system.squares > 0).any())
    if not telling and (system.degrees > 0 or criterion == "evidence"):
        # Equal targets: every alpha predicts the same, and the largest needs no digits.
        return _chosen(spectral, problem, float(tried[-1]), path)
    if not np.isfinite(costs_of(path, criterion)).any():
        raise ValueError(
            f"alpha cannot be chosen: all rows together count as {system.weight:.3g} sample(s), "
            "which leaves none to judge by. Give a number as alpha, more rows, or weights that say "
            "how often each row counts."
        )
    best = best_allowed(path, criterion, allowed)
    alpha = float(tried[best])
    if alphas is None and criterion != "loo":
        alpha = _refined(spectral, path, criterion, best, allowed)
    return _chosen(spectral, problem, alpha, path)


def costs_of(path: AlphaPath, criterion: str) -> Float64Array:
    """Return what is to be as small as possible, for each alpha."""
    if criterion == "loo":
        assert path.loo is not None
        return path.loo
    return path.gcv if criterion == "gcv" else -path.log_evidence


def best_allowed(path: AlphaPath, criterion: str, allowed: NDArray[np.bool_]) -> int:
    """Return the index of the best alpha of those that are allowed."""
    if criterion == "loo" and path.loo is not None:
        return int(np.flatnonzero(allowed)[0])  # the safest one
    costs = np.where(allowed, costs_of(path, criterion), np.inf)
    if not np.isfinite(costs).any():
        costs = costs_of(path, criterion)
    return int(np.argmin(costs))


def _refined(
    spectral: Spectral, path: AlphaPath, criterion: str, best: int, allowed: NDArray[np.bool_]
) -> float:
    """Return the best alpha by a criterion, between the neighbors of an alpha of the path.

    Neighbors that are not allowed are out of bounds.
    """
    costs = costs_of(path, criterion)
    worst = costs[np.isfinite(costs)].max()

    def cost(log_alpha: float) -> float:
        return float(min(worst, costs_of(spectral.path(np.exp([log_alpha])), criterion)[0]))

    around = [best - 1, best + 1]
    around = [place if 0 <= place < len(costs) and allowed[place] else best for place in around]
    log_alpha = np.log(path.alphas[best])
    if around[0] < around[1]:
        bounds = tuple(np.log(path.alphas[around]))
        found = optimize.minimize_scalar(cost, bounds=bounds, method="bounded")
        log_alpha = found.x if found.fun < costs[best] else log_alpha
    return rounded(float(log_alpha))


def rounded(log_alpha: float) -> float:
    """Return the alpha of a logarithm, rounded to a few values per decade."""
    step = np.log(10.0) / ALPHAS_PER_DECADE
    return float(np.exp(step * np.round(log_alpha / step)))


def _chosen(spectral: Spectral, problem: RidgeProblem, alpha: float, path: AlphaPath) -> Posterior:
    return posterior_of(spectral.system, problem, alpha, *spectral.solved(alpha), path)


def _by_factors(problem: RidgeProblem, factored: Factored, sample: Sample | None) -> Posterior:
    """Return the posterior for the alpha with the largest evidence that is safe.

    Walk along powers of ten until the evidence decreases on both sides, refine, and then walk on to
    larger alphas while the errors of rows left out become smaller.
    """
    decades = factored.decades()
    place = int(np.argmin(np.abs(decades - np.log10(factored.typical))))
    place = _walk(lambda k: factored.cost(decades[k]), place, len(decades))
    low, high = (decades[min(max(k, 0), len(decades) - 1)] for k in (place - 1, place + 1))
    found = optimize.minimize_scalar(
        factored.cost, bounds=(low, high), method="bounded", options={"xatol": DECADE_PRECISION}
    )
    better = found.fun < factored.cost(decades[place])
    chosen = float(np.log10(rounded(np.log(10.0) * (found.x if better else decades[place]))))
    tried = np.array([chosen])
    curve = None
    if sample is not None:
        steps = decades[decades > chosen + 0.5]
        tried = np.concatenate([decades[decades < chosen - 0.5][-1:], tried, steps])
        tried, curve = factored.left_out(tried, sample, start=int(np.searchsorted(tried, chosen)))
        allowed = curve.allowed(10.0**tried)
        costs = np.array([factored.cost(one) for one in tried])
        chosen = float(tried[int(np.argmin(np.where(allowed, costs, np.inf)))])
    solved, path = factored.solved_at(chosen), factored.path(tried, curve)
    return posterior_of(factored.system, problem, float(10.0**chosen), *solved, path)


def _walk(cost: Callable[[int], float], place: int, n_places: int) -> int:
    """Return a place where a cost is not larger than at both neighbors."""
    for step in (1, -1):
        while 0 <= place + step < n_places and cost(place + step) < cost(place):
            place += step
    return place


def is_below_precision(moments: Moments, alpha: float, smallest: float = 0.0) -> bool:
    """Return whether an alpha is too small for a Gram matrix that was multiplied in float32.

    ``smallest`` is the smallest alpha that was tried because of the error of the matrix.
    """
    error = moments.gram_error()
    trace = float(np.diagonal(moments.products)[: moments.n_components].sum())
    return error > ROUNDING * trace and alpha < EDGE * max(ALPHA_PER_ERROR * error, smallest)


def is_flat_at_start(path: AlphaPath) -> bool:
    """Return whether errors of rows left out hardly change at the smallest alphas of a path."""
    if path.loo is None:
        return False
    decade = int(np.searchsorted(path.alphas, 10.0 * path.alphas[0]))
    start = path.loo[: decade + 1]
    return bool(len(start) > 1 and np.isfinite(start).all() and start[-1] < (1 + FLAT) * start[0])


def misleading(path: AlphaPath, criterion: str, taken: float) -> float | None:
    """Return the alpha that a criterion alone would take, if rows left out say it is much worse.

    Return None if it is larger than the alpha that was taken.
    """
    if path.loo is None or path.loo_error is None or criterion == "loo":
        return None
    costs = np.where(np.isnan(path.loo), np.inf, costs_of(path, criterion))
    own, least = int(np.argmin(costs)), float(np.nanmin(path.loo))
    excess = path.loo[own] - least
    misled = excess > max(MISLED * least, MISLED_STANDARD_ERRORS * path.loo_error[own])
    return float(path.alphas[own]) if misled and path.alphas[own] < taken else None
