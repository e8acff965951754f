r"""Ridge regression by conjugate gradients, for a Gram matrix that is too large to store.

The matrix :math:`A = Z^\top W Z` is known only through products with it. A randomized Nystrom
approximation :math:`\hat A = U \Lambda U^\top` of a few hundred columns (Frangella, Tropp, Udell,
"Randomized Nystrom preconditioning", 2023) has two uses:

- It is the preconditioner. The condition number of the preconditioned matrix depends only on the
  eigenvalues that the approximation misses.
- Since :math:`\hat A \preceq A`, it bounds the error. The fitted values for coefficients with
  residual :math:`r` differ from the exact ones by at most

  .. math:: \|Z (\beta - \beta^*)\|_W \le \sqrt{r^\top (A + \alpha I)^{-1} r}
            \le \sqrt{r^\top (\hat A + \alpha I)^{-1} r}.

Products have rounding errors, especially with float32 features, so the updated residual drifts away
from the true one. When the updated residual is small enough, :func:`solve` computes the true
residual and restarts from it as long as that helps (iterative refinement). The final error bound
uses only true residuals and the rounding errors of predictions.

All outputs are solved together in one block Krylov space. A product with several vectors costs
little more than a product with one, and each output benefits from the directions of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils.validation import Float64Array, check_positive
from quadfeat.io import checks, register

# The rank of the approximation starts at FIRST_RANK and is doubled as long as that is expected to
# save time, up to MOST_RANK or this fraction of the number of features, but at least LEAST_RANK, to
# estimate rounding errors. A higher rank takes fewer steps but a longer start, and smaller alphas
# need a higher one; ``benchmarks/solvers.py ranks`` compares them.
FIRST_RANK = 64
MOST_RANK = 512
RANK_FRACTION = 0.25
LEAST_RANK = 8

# For the default tolerance, the number of steps is about STEPS times the root of the condition
# number, and a step takes as long as VECTORS_PER_STEP more vectors in a product.
STEPS = 8.0
VECTORS_PER_STEP = 8.0

# Refinement stops if a true residual is larger than this fraction of the previous one.
LEAST_REDUCTION = 0.5

# An updated residual drifts away from the true one when it becomes smaller than this power of the
# precision, relative to the last true one. In float32 that is 7e-5. If the true residual is DRIFT
# times as large as the updated one, the updated one has drifted.
TRUST_POWER = 0.6
DRIFT = 2.0

# Directions this much smaller than the largest are linear combinations of others up to rounding.
DEPENDENT = 1e-10

Product = Callable[[Float64Array], Float64Array]

# Returns the true residual of coefficients and, for each output, the norm of the rounding errors of
# its predictions.
Check = Callable[[Float64Array], tuple[Float64Array, Float64Array]]


@register
@dataclass(frozen=True)
class Nystrom:
    """A low-rank approximation ``vectors @ diag(values) @ vectors.T``.

    It is a lower bound (in the Loewner order) of the matrix plus ``excess`` times the identity. The
    excess accounts for the rounding errors of products.
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

        Let :math:`\Omega` be orthonormal random vectors and :math:`Y = A \Omega + E` their product
        with the matrix, with rounding errors :math:`\|E\| \le e`. The approximation is

        .. math:: \hat A = Y (\Omega^\top Y + 2 e I)^{-1} Y^\top \preceq A + e I.

        The inequality follows from the Schur complement of

        .. math::

            \begin{pmatrix} A + e I & Y \\ Y^\top & \Omega^\top Y + 2 e I \end{pmatrix}
            = \begin{pmatrix} I \\ \Omega^\top \end{pmatrix} A
            \begin{pmatrix} I & \Omega \end{pmatrix}
            + \begin{pmatrix} e I & E \\ E^\top & \Omega^\top E + 2 e I \end{pmatrix} \succeq 0.

        ``precision`` is the relative rounding error of products.
        """
        most = min(n, max(LEAST_RANK, min(MOST_RANK, int(RANK_FRACTION * n))))
        test, image = np.empty((n, 0)), np.empty((n, 0))
        while True:
            width = test.shape[1]
            rank = min(most, 2 * width or FIRST_RANK)
            more = _orthonormal_to(test, rng.standard_normal((n, rank - width)))
            test = np.hstack([test, more])
            image = np.hstack([image, multiply(more)])
            halves, excess = _halves(test, image, precision)
            values = np.maximum(linalg.eigvalsh(halves.T @ halves)[::-1], 0.0)
            extra = min(most, 2 * rank) - rank
            if extra == 0 or len(values) < rank or not _pays(values, alpha, extra):
                break
        vectors, roots, _ = linalg.svd(halves, full_matrices=False)
        return cls(roots**2, vectors, alpha, excess)

    def precondition(self, right: Float64Array) -> Float64Array:
        """Apply the preconditioner to a right-hand side."""
        inside = self.vectors.T @ right
        missed = self.values[-1] if len(self.values) else 0.0
        factors = (missed + self.alpha) / (self.values + self.alpha) - 1.0
        return np.asarray(right + self.vectors @ (factors[:, None] * inside))

    def bound(self, residual: Float64Array) -> Float64Array:
        """Return an upper bound on the error of fitted values, for each output."""
        # Two lower bounds of the matrix are zero and the approximation minus the excess. Any
        # weighted mean of them is a lower bound too. Choose one that keeps at least alpha / 2.
        share = min(1.0, self.alpha / (2.0 * self.excess)) if self.excess > 0 else 1.0
        least = self.alpha - share * self.excess
        inside = self.vectors.T @ residual
        known = (inside**2 / (share * self.values + least)[:, None]).sum(axis=0)
        outside = np.maximum((residual**2).sum(axis=0) - (inside**2).sum(axis=0), 0.0)
        return np.asarray(np.sqrt(known + outside / least))


def _orthonormal_to(test: Float64Array, more: Float64Array) -> Float64Array:
    """Return an orthonormal basis, representable in float32, of vectors minus their part in a span.

    ``test`` has orthonormal columns, which span it.
    """
    for _ in range(2):  # the second time removes rounding errors
        more = more - test @ (test.T @ more)
    basis = linalg.qr(more, mode="economic")[0]
    return np.asarray(basis.astype(np.float32).astype(np.float64))


def _halves(
    test: Float64Array, image: Float64Array, precision: float
) -> tuple[Float64Array, float]:
    """Return ``H`` of the approximation ``H @ H.T``, and its excess; see ``Nystrom.of``."""
    n, rank = test.shape
    core = test.T @ image
    # The core is asymmetric only because of rounding errors. core - core.T has twice the sum of
    # squares of the errors in the core, which is the fraction rank / n of that of all errors.
    rounding = float(np.linalg.norm(core - core.T)) * np.sqrt(n / (2.0 * rank))
    excess = max(rounding, precision * float(np.linalg.norm(image)))
    values, rotation = linalg.eigh((core + core.T) / 2.0)
    values += 2.0 * excess
    kept = values > max(excess, np.finfo(np.float64).tiny)
    return image @ (rotation[:, kept] / np.sqrt(values[kept])), excess


def _pays(values: Float64Array, alpha: float, extra: int) -> bool:
    """Return whether ``extra`` more vectors are expected to save more time in steps than they take.

    ``values`` are the eigenvalues of the approximation so far, descending. The next ones are
    extrapolated. The last one is less precise than those in the middle, whose decay is used.
    """
    rank = len(values)
    if rank < 4 or values[-1] <= 0.0:
        return False
    decay = values[rank // 2 - 1] / values[rank // 4 - 1]
    now, then = values[-1], values[-1] * decay
    saved = STEPS * (np.sqrt(1.0 + now / alpha) - np.sqrt(1.0 + then / alpha))
    return bool(VECTORS_PER_STEP * (saved - 1.0) > extra)  # the product itself takes one step


@register
@dataclass
class State:
    """The state of conjugate gradients between two steps, sufficient to resume."""

    approximation: Nystrom
    coefficients: Float64Array  # (n, n_outputs)
    residual: Float64Array  # (n, n_outputs)
    directions: Float64Array  # (n, at most n_outputs), orthonormal
    trust: float  # smallest ratio of an updated residual to the last true one
    errors: list[float] = field(default_factory=list)  # the largest relative bound after each step
    # For each true residual: the number of steps before it, and the largest relative bounds of its
    # error, of rounding errors, and of their sum.
    checked_at: list[int] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    roundings: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    def check_consistency(self) -> None:
        checks.check_kind(self.approximation, Nystrom, "approximation")
        shape = np.shape(self.coefficients)
        n, _ = shape
        checks.expect(len(self.approximation.vectors) == n, "approximation has a different size")
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
        """The number of steps so far."""
        return len(self.errors)

    @property
    def is_checked(self) -> bool:
        """Whether the current residual is a true residual."""
        return bool(self.checked_at) and self.checked_at[-1] == self.n_iter

    def goal(self, tol: float) -> float:
        """Return the error bound, without rounding errors, at which predictions meet ``tol``.

        If the rounding errors of predictions alone exceed ``tol``, return ``tol``: the coefficients
        then meet it for predictions in float64.
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
    """Iterate until predictions have errors of at most ``tol * scales``; return whether they do.

    This calls :func:`advance` and also accounts for rounding errors. At the end,
    ``state.totals[-1]`` bounds the error of predictions.

    Parameters
    ----------
    multiply, right, scales, state, tol, max_iter, after_step
        See :func:`advance`.
    check : callable
        Returns the true residual of coefficients and, for each output, the norm of the rounding
        errors of its predictions.
    """
    initial = _largest_relative(state.approximation.bound(right), scales)
    while not (state.is_checked and _is_over(state, tol, max_iter)):
        last = state.bounds[-1] if state.bounds else initial
        advance(
            multiply,
            right,
            scales,
            state,
            tol=max(state.goal(tol), state.trust * last),
            max_iter=max_iter,
            after_step=after_step,
        )
        updated = state.errors[-1] if state.errors else initial
        _restart(state, *check(state.coefficients), scales)
        if state.bounds[-1] > DRIFT * updated:
            state.trust = max(state.trust, DRIFT * state.bounds[-1] / last)
    return state.totals[-1] <= tol


def _is_over(state: State, tol: float, max_iter: int) -> bool:
    """Return whether to stop after a check: on convergence, or if more steps would not help."""
    bounds = state.bounds
    return (
        state.totals[-1] <= tol
        or bounds[-1] <= state.goal(tol)
        or (len(bounds) > 1 and bounds[-1] > LEAST_REDUCTION * bounds[-2])
        or state.n_iter >= max_iter
        or not state.directions.shape[1]
    )


def _restart(
    state: State, residual: Float64Array, rounding: Float64Array, scales: Float64Array
) -> None:
    """Replace the residual by the true one, and restart the directions from it."""
    bounds = state.approximation.bound(residual)
    state.checked_at.append(state.n_iter)
    state.bounds.append(_largest_relative(bounds, scales))
    state.roundings.append(_largest_relative(rounding, scales))
    state.totals.append(_largest_relative(bounds + rounding, scales))
    state.residual = residual
    state.directions = _orthonormal(state.approximation.precondition(residual))
    if state.errors:
        state.errors[-1] = state.bounds[-1]


def _largest_relative(errors: Float64Array, scales: Float64Array) -> float:
    """Return the largest error relative to its scale, or absolute if the scale is zero."""
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
    """Iterate until fitted values have errors of at most ``tol * scales``; return whether they do.

    Parameters
    ----------
    multiply : callable
        Multiplies the matrix, without alpha, by a few vectors.
    right : array of shape (n, n_outputs)
    scales : array of shape (n_outputs,)
        The norms of the targets.
    state : State
        A state from ``begin`` or from a checkpoint. It is modified in place.
    tol : float
    max_iter : int
        The maximum total number of steps.
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
        error = _largest_relative(state.approximation.bound(state.residual), scales)
        state.errors.append(error)
        if error <= tol:
            after_step(state)
            return True
        conditioned = state.approximation.precondition(state.residual)
        # Make the next directions conjugate to these.
        overlap = linalg.lstsq(energy, images.T @ conditioned)[0]
        state.directions = _orthonormal(conditioned - state.directions @ overlap)
        after_step(state)
    return not state.directions.shape[1] or not right.any()


def _orthonormal(vectors: Float64Array) -> Float64Array:
    """Return an orthonormal basis of the span of vectors; drop dependent ones."""
    lengths = np.linalg.norm(vectors, axis=0)
    # Normalize first: residuals of different outputs differ by orders of magnitude.
    vectors = vectors[:, lengths > 0] / lengths[lengths > 0]
    if vectors.shape[1] == 0:
        return vectors
    basis, triangle, _ = linalg.qr(vectors, mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    return np.asarray(basis[:, sizes > DEPENDENT * sizes[0]])
