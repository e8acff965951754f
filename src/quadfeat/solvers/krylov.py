r"""Ridge regression by conjugate gradients, for more features than a matrix of products can have.

The matrix :math:`A = Z^\top W Z` is known only through products with it. A randomised Nystrom
approximation :math:`\hat A = U \Lambda U^\top` of some hundred columns (Frangella, Tropp, Udell,
"Randomized Nystrom preconditioning", 2023) serves twice:

- as preconditioner, it leaves a matrix whose condition is that of the eigenvalues it has missed;
- since :math:`\hat A \preceq A`, it bounds the error. The fitted values of coefficients with the
  residual :math:`r` differ from the exact ones by at most

  .. math:: \|Z (\beta - \beta^*)\|_W \le \sqrt{r^\top (A + \alpha I)^{-1} r}
            \le \sqrt{r^\top (\hat A + \alpha I)^{-1} r}.

Products round, those of float32 features most of all, and the residual that conjugate gradients
update with them drifts away from the true one. So :func:`solve` computes the true residual where
the updated one says that it is done, and starts again from there as long as that helps (iterative
refinement). Only true residuals, and the rounding of predictions on top, count in the end.

All outputs are solved for together, in one block Krylov space: a product with several vectors costs
little more than one with a single vector, and each output profits from the directions of the
others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Float64Array, check_positive
from quadfeat.io import checks, register

# Columns of the approximation: so many, or this part of all, but enough to estimate their rounding.
RANK = 256
RANK_PART = 0.25
LEAST_RANK = 8

# Refinement ends where a true residual is not smaller than the one before by this factor.
WORTH_IT = 0.5

# An updated residual drifts away from the true one when it gets smaller than this power of the
# precision, relative to the last true one. In float32 that is 7e-5. An updated residual that turns
# out this many times too small has drifted.
TRUST_POWER = 0.6
DRIFT = 2.0

# Directions that others have made superfluous: so much smaller are they than the largest.
DEPENDENT = 1e-10

Product = Callable[[Float64Array], Float64Array]

# Returns the true residual of coefficients and, for each output, the length of what rounding adds
# to predictions.
Check = Callable[[Float64Array], tuple[Float64Array, Float64Array]]


@register
@dataclass(frozen=True)
class Nystrom:
    """A low-rank approximation from below, ``vectors @ diag(values) @ vectors.T``.

    Products round, and so the approximation is below the matrix plus ``excess`` times the identity.
    """

    values: Float64Array  # descending
    vectors: Float64Array
    alpha: float
    excess: float

    def check_consistency(self) -> None:
        n, rank = np.shape(self.vectors)
        checks.check_array(self.values, (rank,), np.float64, "values")
        checks.check_array(self.vectors, (n, rank), np.float64, "vectors")
        check_positive(self.alpha, "alpha")
        checks.check_finite(self.excess, "excess")

    @classmethod
    def of(
        cls, multiply: Product, n: int, alpha: float, precision: float, rng: np.random.Generator
    ) -> Nystrom:
        r"""Approximate a matrix of size ``n`` by its product with random vectors.

        With the vectors :math:`\Omega` and their product :math:`Y = A \Omega + E`, whose rounding
        is at most :math:`\|E\| \le e`, the approximation is

        .. math:: \hat A = Y (\Omega^\top Y + 2 e I)^{-1} Y^\top \preceq A + e I

        by the Schur complement of

        .. math::

            \begin{pmatrix} A + e I & Y \\ Y^\top & \Omega^\top Y + 2 e I \end{pmatrix}
            = \begin{pmatrix} I \\ \Omega^\top \end{pmatrix} A
            \begin{pmatrix} I & \Omega \end{pmatrix}
            + \begin{pmatrix} e I & E \\ E^\top & \Omega^\top E + 2 e I \end{pmatrix} \succeq 0.

        ``precision`` is that of the product.
        """
        rank = min(n, max(LEAST_RANK, min(RANK, int(RANK_PART * n))))
        test = linalg.qr(rng.standard_normal((n, rank)), mode="economic")[0]
        test = test.astype(np.float32).astype(np.float64)  # which products in float32 do not round
        image = multiply(test)
        core = test.T @ image
        # Only rounding makes the core asymmetric. Random vectors see their share of the squares of
        # the rounding, half of which are lost in the symmetric part.
        rounding = float(np.linalg.norm(core - core.T)) * np.sqrt(n / (2.0 * rank))
        excess = max(rounding, precision * float(np.linalg.norm(image)))
        values, turns = linalg.eigh((core + core.T) / 2.0)
        values += 2.0 * excess
        kept = values > max(excess, np.finfo(np.float64).tiny)
        halves = image @ (turns[:, kept] / np.sqrt(values[kept]))
        vectors, roots, _ = linalg.svd(halves, full_matrices=False)
        return cls(roots**2, vectors, alpha, excess)

    def precondition(self, right: Float64Array) -> Float64Array:
        """Return the right-hand side with the approximated part solved for."""
        inside = self.vectors.T @ right
        missed = self.values[-1] if len(self.values) else 0.0
        factors = (missed + self.alpha) / (self.values + self.alpha) - 1.0
        return np.asarray(right + self.vectors @ (factors[:, None] * inside))

    def bound(self, residual: Float64Array) -> Float64Array:
        """Return how far fitted values may be off, for each output."""
        # The matrix is above the approximation less the excess, and above zero. So it is above any
        # mean of both: one that leaves at least half of alpha.
        share = min(1.0, self.alpha / (2.0 * self.excess)) if self.excess > 0 else 1.0
        least = self.alpha - share * self.excess
        inside = self.vectors.T @ residual
        known = (inside**2 / (share * self.values + least)[:, None]).sum(axis=0)
        outside = np.maximum((residual**2).sum(axis=0) - (inside**2).sum(axis=0), 0.0)
        return np.asarray(np.sqrt(known + outside / least))


@register
@dataclass
class State:
    """Where conjugate gradients are: what it takes to go on from here."""

    approximation: Nystrom
    coefficients: Float64Array  # (n, n_outputs)
    residual: Float64Array  # (n, n_outputs)
    directions: Float64Array  # (n, at most n_outputs), orthonormal
    trust: float  # how much smaller than the last true residual an updated one may get
    errors: list[float] = field(default_factory=list)  # the largest relative bound after each step
    # For each true residual: the number of steps before it, its largest relative bound, that of
    # rounding alone, and that of both together.
    checked_at: list[int] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    roundings: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    def check_consistency(self) -> None:
        checks.check_kind(self.approximation, Nystrom, "approximation")
        shape = np.shape(self.coefficients)
        n, _ = shape
        checks.expect(len(self.approximation.vectors) == n, "approximation has another size")
        checks.check_array(self.coefficients, shape, np.float64, "coefficients")
        checks.check_array(self.residual, shape, np.float64, "residual")
        n_directions = (*np.shape(self.directions), 0, 0)[1]
        checks.check_array(self.directions, (n, n_directions), np.float64, "directions")
        checks.check_finite(self.trust, "trust")
        for name in ("errors", "checked_at", "bounds", "roundings", "totals"):
            checks.check_kind(getattr(self, name), list, name)
            for value in getattr(self, name):
                checks.check_number(value, f"an item of {name}")

    @property
    def n_iter(self) -> int:
        """How many products with the matrix it took."""
        return len(self.errors)

    @property
    def is_checked(self) -> bool:
        """Whether the residual is the true one."""
        return bool(self.checked_at) and self.checked_at[-1] == self.n_iter

    def goal(self, tol: float) -> float:
        """Return the bound, without rounding, that makes predictions right to ``tol``.

        If rounding of predictions alone exceeds ``tol``, the coefficients still have to be right to
        ``tol``: predictions of the same rows in float64 are.
        """
        if self.roundings and self.roundings[-1] < tol:
            return (tol - self.roundings[-1]) / 2.0
        return tol


def begin(
    multiply: Product,
    right: Float64Array,
    alpha: float,
    precision: float,
    rng: np.random.Generator,
) -> State:
    """Return the state before the first step."""
    approximation = Nystrom.of(multiply, len(right), alpha, precision, rng)
    directions = _orthonormal(approximation.precondition(right))
    trust = precision**TRUST_POWER
    return State(approximation, np.zeros_like(right), right.copy(), directions, trust)


def solve(
    multiply: Product,
    check: Check,
    right: Float64Array,
    scales: Float64Array,
    state: State,
    *,
    tol: float,
    max_iter: int,
    after_step: Callable[[State], Any] = lambda state: None,
) -> bool:
    """Go on until predictions are right to ``tol`` times ``scales``; return whether they are.

    Unlike :func:`advance`, on which it builds, this takes rounding into account. At the end,
    ``state.totals[-1]`` bounds the error of predictions.

    Parameters
    ----------
    multiply, right, scales, state, tol, max_iter, after_step
        Those of :func:`advance`.
    check : callable
        Returns the true residual of coefficients and, for each output, the length of what rounding
        adds to predictions.
    """
    begun_at = _largest_part(state.approximation.bound(right), scales)
    while not (state.is_checked and _is_over(state, tol, max_iter)):
        last = state.bounds[-1] if state.bounds else begun_at
        advance(
            multiply,
            right,
            scales,
            state,
            tol=max(state.goal(tol), state.trust * last),
            max_iter=max_iter,
            after_step=after_step,
        )
        updated = state.errors[-1] if state.errors else begun_at
        _start_again(state, *check(state.coefficients), scales)
        if state.bounds[-1] > DRIFT * updated:
            state.trust = max(state.trust, DRIFT * state.bounds[-1] / last)
    return state.totals[-1] <= tol


def _is_over(state: State, tol: float, max_iter: int) -> bool:
    """Return whether the last check ends a solution: with success, or since no more can be won."""
    bounds = state.bounds
    return (
        state.totals[-1] <= tol
        or bounds[-1] <= state.goal(tol)
        or (len(bounds) > 1 and bounds[-1] > WORTH_IT * bounds[-2])
        or state.n_iter >= max_iter
        or not state.directions.shape[1]
    )


def _start_again(
    state: State, residual: Float64Array, rounding: Float64Array, scales: Float64Array
) -> None:
    """Replace the residual by the true one, and directions by those that it asks for."""
    bounds = state.approximation.bound(residual)
    state.checked_at.append(state.n_iter)
    state.bounds.append(_largest_part(bounds, scales))
    state.roundings.append(_largest_part(rounding, scales))
    state.totals.append(_largest_part(bounds + rounding, scales))
    state.residual = residual
    state.directions = _orthonormal(state.approximation.precondition(residual))
    if state.errors:
        state.errors[-1] = state.bounds[-1]


def _largest_part(errors: Float64Array, scales: Float64Array) -> float:
    """Return the largest error, relative to its scale if that is not zero."""
    return float((errors / np.where(scales > 0, scales, 1.0)).max())


def advance(
    multiply: Product,
    right: Float64Array,
    scales: Float64Array,
    state: State,
    *,
    tol: float,
    max_iter: int,
    after_step: Callable[[State], Any] = lambda state: None,
) -> bool:
    """Go on until fitted values are right to ``tol`` times ``scales``; return whether they are.

    Parameters
    ----------
    multiply : callable
        Returns the product of the matrix, without alpha, with a few vectors.
    right : array of shape (n, n_outputs)
    scales : array of shape (n_outputs,)
        The lengths of the targets.
    state : State
        From ``begin``, or a later one. Changed in place.
    tol : float
    max_iter : int
        Steps in all.
    after_step : callable
        Called with the state after each step.
    """
    alpha = state.approximation.alpha
    if state.errors and state.errors[-1] <= tol:
        return True
    while state.directions.shape[1] and state.n_iter < max_iter:
        images = multiply(state.directions) + alpha * state.directions
        energy = state.directions.T @ images
        energy = (energy + energy.T) / 2.0
        steps = linalg.lstsq(energy, state.directions.T @ state.residual)[0]
        state.coefficients += state.directions @ steps
        state.residual -= images @ steps
        error = _largest_part(state.approximation.bound(state.residual), scales)
        state.errors.append(error)
        if error <= tol:
            after_step(state)
            return True
        conditioned = state.approximation.precondition(state.residual)
        # The next directions are conjugate to these.
        overlap = linalg.lstsq(energy, images.T @ conditioned)[0]
        state.directions = _orthonormal(conditioned - state.directions @ overlap)
        after_step(state)
    return not state.directions.shape[1] or not right.any()


def _orthonormal(vectors: Float64Array) -> Float64Array:
    """Return an orthonormal basis of what vectors span, without those that depend on others."""
    lengths = np.linalg.norm(vectors, axis=0)
    vectors = vectors[:, lengths > 0] / lengths[lengths > 0]  # an output may be nearly done
    if vectors.shape[1] == 0:
        return vectors
    basis, triangle, _ = linalg.qr(vectors, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return np.asarray(basis[:, sizes > DEPENDENT * sizes[0]])
