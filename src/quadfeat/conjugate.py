r"""Ridge regression by conjugate gradients, for more features than a matrix of products can have.

The matrix :math:`A = Z^\top W Z` is known only through products with it. A randomised Nystrom
approximation :math:`\hat A = U \Lambda U^\top` of some hundred columns (Frangella, Tropp, Udell,
"Randomized Nystrom preconditioning", 2023) serves twice:

- as preconditioner, it leaves a matrix whose condition is that of the eigenvalues it has missed;
- since :math:`\hat A \preceq A`, it bounds the error. The fitted values of coefficients with the
  residual :math:`r` differ from the exact ones by at most

  .. math:: \|Z (\beta - \beta^*)\|_W \le \sqrt{r^\top (A + \alpha I)^{-1} r}
            \le \sqrt{r^\top (\hat A + \alpha I)^{-1} r}.

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

from quadfeat._validation import Float64Array

# Columns of the approximation: so many, or this part of all.
RANK = 256
RANK_PART = 0.25

# Directions that others have made superfluous: so much smaller are they than the largest.
DEPENDENT = 1e-10

Product = Callable[[Float64Array], Float64Array]


@dataclass(frozen=True)
class Nystrom:
    """A low-rank approximation from below, ``vectors @ diag(values) @ vectors.T``."""

    values: Float64Array  # descending
    vectors: Float64Array
    alpha: float

    @classmethod
    def of(
        cls, multiply: Product, n: int, alpha: float, precision: float, rng: np.random.Generator
    ) -> Nystrom:
        """Approximate a matrix of size ``n`` by its product with random vectors.

        ``precision`` is that of the product.
        """
        rank = max(1, min(RANK, int(RANK_PART * n)))
        test = linalg.qr(rng.standard_normal((n, rank)), mode="economic")[0]
        image = multiply(test)
        # A small multiple of the identity is added for the time being: it makes rounding harmless.
        shift = precision * float(np.linalg.norm(image))
        image += shift * test
        core = test.T @ image
        values, turns = linalg.eigh((core + core.T) / 2.0)
        kept = values > precision * max(values[-1], np.finfo(np.float64).tiny)
        halves = image @ (turns[:, kept] / np.sqrt(values[kept]))
        vectors, roots, _ = linalg.svd(halves, full_matrices=False)
        return cls(np.maximum(roots**2 - shift, 0.0), vectors, alpha)

    def precondition(self, right: Float64Array) -> Float64Array:
        """Return the right-hand side with the approximated part solved for."""
        inside = self.vectors.T @ right
        missed = self.values[-1] if len(self.values) else 0.0
        factors = (missed + self.alpha) / (self.values + self.alpha) - 1.0
        return np.asarray(right + self.vectors @ (factors[:, None] * inside))

    def bound(self, residual: Float64Array) -> Float64Array:
        """Return how far fitted values may be off, for each output."""
        inside = self.vectors.T @ residual
        known = (inside**2 / (self.values + self.alpha)[:, None]).sum(axis=0)
        outside = np.maximum((residual**2).sum(axis=0) - (inside**2).sum(axis=0), 0.0)
        return np.asarray(np.sqrt(known + outside / self.alpha))


@dataclass
class State:
    """Where conjugate gradients are: what it takes to go on from here."""

    approximation: Nystrom
    coefficients: Float64Array  # (n, n_outputs)
    residual: Float64Array  # (n, n_outputs)
    directions: Float64Array  # (n, at most n_outputs), orthonormal
    errors: list[float] = field(default_factory=list)  # the largest relative bound after each step

    @property
    def n_iter(self) -> int:
        """How many products with the matrix it took."""
        return len(self.errors)


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
    return State(approximation, np.zeros_like(right), right.copy(), directions)


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
    safe = np.where(scales > 0, scales, 1.0)
    if state.errors and state.errors[-1] <= tol:
        return True
    while state.directions.shape[1] and state.n_iter < max_iter:
        images = multiply(state.directions) + alpha * state.directions
        energy = state.directions.T @ images
        energy = (energy + energy.T) / 2.0
        steps = linalg.lstsq(energy, state.directions.T @ state.residual)[0]
        state.coefficients += state.directions @ steps
        state.residual -= images @ steps
        error = float((state.approximation.bound(state.residual) / safe).max())
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
