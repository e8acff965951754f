"""Choose alpha by a criterion along a path, among the alphas that leave-one-out errors allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from quadfeat._utils.validation import Float64Array
from quadfeat.solvers.banded import Banded
from quadfeat.solvers.curves import LeftOutCurve
from quadfeat.solvers.moments import Moments
from quadfeat.solvers.posterior import Posterior, posterior_of
from quadfeat.solvers.ridge import ALPHA_PER_ERROR, ROUNDING, AlphaPath, RidgeProblem
from quadfeat.solvers.spectral import Spectral

# Round a chosen alpha to this many values per decade. It then does not depend on rounding errors,
# which change with the order of rows.
ALPHAS_PER_DECADE = 100

# An alpha within this factor of the smallest one is at the edge: a smaller one might be better.
EDGE = 2.0

# If the leave-one-out error at ten times the smallest alpha is larger by less than this fraction,
# even smaller alphas are not worth another pass over the rows in float64.
FLAT = 0.005

# A criterion is misled if the leave-one-out error at its own best alpha exceeds the smallest error
# by more than this fraction and by more than this many standard errors. The user is warned.
MISLED = 0.1
MISLED_STANDARD_ERRORS = 4.0

# If more than this fraction of the rows has copies, choose alpha only on a sample of rows that are
# left out with all their copies.
MANY_COPIES = 0.2

# From this number of features on, use a banded matrix instead of eigenvectors. It takes about a
# third of the time, but each alpha then takes longer. So it does not pay for fewer features, or
# if more than this many rows per feature are left out. ``benchmarks/solvers.py paths`` times fits.
BANDED_FROM = 3072
BANDED_ROWS = 4


@dataclass(frozen=True)
class Sample:
    """Rows for leave-one-out errors.

    Attributes
    ----------
    Z : array of shape (n_rows, n_components)
    Y : array of shape (n_rows, n_outputs)
    weights : array of shape (n_rows,)
    amounts : array of shape (n_rows,)
        The weight to leave out of each row.
    """

    Z: Float64Array
    Y: Float64Array
    weights: Float64Array
    amounts: Float64Array

    @property
    def has_copies(self) -> bool:
        """Whether any row has copies that are left out with it."""
        return bool((self.amounts > 1.0).any())

    @property
    def has_many_copies(self) -> bool:
        """Whether so many rows have copies that leaving out single copies is misleading."""
        copied = float(self.weights[self.amounts > 1.0].sum())
        return copied > MANY_COPIES * float(self.weights.sum())


# Normal equations in a basis in which each alpha is cheap.
Decomposed = Banded | Spectral

# Returns leave-one-out errors for several alphas.
LeaveOut = Callable[[Decomposed, Float64Array], LeftOutCurve]


def choose_alpha(
    problem: RidgeProblem,
    criterion: str,
    alphas: Float64Array | None,
    left_out: LeaveOut | None = None,
    sample: Sample | None = None,
) -> Posterior:
    """Return the posterior for the best alpha that leave-one-out errors allow.

    Parameters
    ----------
    problem : RidgeProblem
    criterion : {"gcv", "evidence", "loo"}
    alphas : array or None
        Alphas to try; None for the default grid.
    left_out : callable
        Computes the leave-one-out errors of all rows. ``"loo"`` requires it.
    sample : Sample or None
        Some of the rows. Their leave-one-out errors limit the choice if ``left_out`` is None or if
        rows have copies. All copies of a row are left out together, because a copy would reveal its
        target.
    """
    n_left_out = 0 if left_out is None else problem.moments.n_rows
    decomposed, tried = _decomposed(problem, alphas, n_left_out)
    system = decomposed.system
    path, allowed = decomposed.path(tried), np.ones(len(tried), dtype=bool)
    guard = None
    if sample is not None and (left_out is None or sample.has_copies):
        guard = decomposed.left_out(tried, sample.Z, sample.Y, sample.weights, sample.amounts)
        path, allowed = guard.onto(path), guard.allowed(tried)
    if left_out is not None:
        curve = left_out(decomposed, tried)
        path = curve.onto(path)
        if guard is None:
            allowed = curve.allowed(tried)
        elif sample is not None and not sample.has_many_copies:
            # All rows distinguish alphas better than a sample, which only confirms the choice.
            confirmed = curve.allowed(tried) & guard.is_no_worse_than_one(tried)
            allowed = confirmed if confirmed.any() else allowed
    varies = bool((system.squares > 0).any())
    if not varies and (system.degrees > 0 or criterion == "evidence"):
        # All targets are equal, so alpha does not matter. The largest one is the most stable.
        return _chosen(decomposed, problem, float(tried[-1]), path)
    if not np.isfinite(costs_of(path, criterion)).any():
        raise ValueError(
            # scikit-learn's checks look for "1 sample" in this message.
            f"alpha cannot be chosen: the rows count as {system.weight:.3g} sample(s). Set alpha "
            "to a number, add rows, or use a sample_weight that counts copies of rows."
        )
    best = best_allowed(path, criterion, allowed)
    alpha = float(tried[best])
    if alphas is None and criterion != "loo":
        alpha = _refined(decomposed, path, criterion, best, allowed)
    return _chosen(decomposed, problem, alpha, path)


def _decomposed(
    problem: RidgeProblem, alphas: Float64Array | None, n_left_out: int
) -> tuple[Decomposed, Float64Array]:
    """Return the decomposed normal equations, and the alphas to try in ascending order."""
    system = problem.equations()
    n = len(system.matrix)
    if n >= BANDED_FROM and n_left_out <= BANDED_ROWS * n:
        banded = Banded.of(system)
        tried = banded.default_alphas() if alphas is None else np.sort(alphas)
        if banded.is_definite(float(tried[0])):
            return banded, tried
        # Eigenvalues that are negative because of rounding errors can be clipped.
        system = problem.equations()
    decomposed = Spectral.of(system)
    return decomposed, decomposed.default_alphas() if alphas is None else np.sort(alphas)


def costs_of(path: AlphaPath, criterion: str) -> Float64Array:
    """Return the cost to minimize, for each alpha."""
    if criterion == "loo":
        assert path.loo is not None
        return path.loo
    return path.gcv if criterion == "gcv" else -path.log_evidence


def best_allowed(path: AlphaPath, criterion: str, allowed: NDArray[np.bool_]) -> int:
    """Return the index of the best allowed alpha."""
    if criterion == "loo" and path.loo is not None:
        return int(np.flatnonzero(allowed)[0])  # the lower limit
    costs = np.where(allowed, costs_of(path, criterion), np.inf)
    if not np.isfinite(costs).any():
        costs = costs_of(path, criterion)
    return int(np.argmin(costs))


def _refined(
    decomposed: Decomposed, path: AlphaPath, criterion: str, best: int, allowed: NDArray[np.bool_]
) -> float:
    """Minimize a criterion between the two neighbors of the best alpha of a path.

    The search does not extend to neighbors that are not allowed.
    """
    costs = costs_of(path, criterion)
    worst = costs[np.isfinite(costs)].max()

    def cost(log_alpha: float) -> float:
        return float(min(worst, costs_of(decomposed.path(np.exp([log_alpha])), criterion)[0]))

    around = [best - 1, best + 1]
    around = [index if 0 <= index < len(costs) and allowed[index] else best for index in around]
    log_alpha = np.log(path.alphas[best])
    if around[0] < around[1]:
        bounds = tuple(np.log(path.alphas[around]))
        found = optimize.minimize_scalar(cost, bounds=bounds, method="bounded")
        log_alpha = found.x if found.fun < costs[best] else log_alpha
    return rounded(float(log_alpha))


def rounded(log_alpha: float) -> float:
    """Return the alpha for a natural logarithm, rounded to a fixed grid per decade."""
    step = np.log(10.0) / ALPHAS_PER_DECADE
    return float(np.exp(step * np.round(log_alpha / step)))


def _chosen(
    decomposed: Decomposed, problem: RidgeProblem, alpha: float, path: AlphaPath
) -> Posterior:
    return posterior_of(decomposed.system, problem, alpha, *decomposed.solved(alpha), path)


def is_below_precision(moments: Moments, alpha: float, smallest: float = 0.0) -> bool:
    """Return whether an alpha is too small for a Gram matrix in float32.

    ``smallest`` is the smallest alpha of a grid that the error of the matrix limits.
    """
    error = moments.gram_error()
    trace = float(np.diagonal(moments.products)[: moments.n_components].sum())
    return error > ROUNDING * trace and alpha < EDGE * max(ALPHA_PER_ERROR * error, smallest)


def is_flat_at_start(path: AlphaPath) -> bool:
    """Return whether leave-one-out errors are almost constant at the smallest alphas."""
    if path.loo is None:
        return False
    decade = int(np.searchsorted(path.alphas, 10.0 * path.alphas[0]))
    start = path.loo[: decade + 1]
    return bool(len(start) > 1 and np.isfinite(start).all() and start[-1] < (1 + FLAT) * start[0])


def misleading(path: AlphaPath, criterion: str, chosen: float) -> float | None:
    """Return the alpha that a criterion alone would choose, if leave-one-out errors reject it.

    Return None if its error is not much larger, or if it is not below the chosen alpha.
    """
    if path.loo is None or path.loo_error is None or criterion == "loo":
        return None
    costs = np.where(np.isnan(path.loo), np.inf, costs_of(path, criterion))
    own, least = int(np.argmin(costs)), float(np.nanmin(path.loo))
    excess = path.loo[own] - least
    misled = excess > max(MISLED * least, MISLED_STANDARD_ERRORS * path.loo_error[own])
    return float(path.alphas[own]) if misled and path.alphas[own] < chosen else None
