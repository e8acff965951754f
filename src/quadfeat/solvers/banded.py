r"""The normal equations in a basis in which their matrix is banded.

Orthogonal transformations by blocks of Householder reflections turn the Gram matrix into
:math:`A = Q B Q^\top` with a banded matrix :math:`B`, which consists of diagonal blocks and blocks
beside them. Almost all of this work is products of large matrices, so it takes about a third of the
time of an eigendecomposition (``benchmarks/solvers.py decompositions``). A Cholesky factor of
:math:`B + \alpha I` then takes almost no time, so each alpha is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import blas, lapack
from scipy.sparse.linalg import LinearOperator, eigsh

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.solvers.curves import LeftOutCurve, left_out_curve
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.ridge import AlphaPath, default_alphas, path_of

# Size of a block. Larger blocks make the reduction faster and each alpha slower.
BLOCK = 64

# Number of rows whose features are transformed, and whose leverages are computed, at once.
ROWS_AT_ONCE = 1024

# Number of rows whose leverages are computed at once, few enough for the cache.
ROWS_IN_CACHE = 512

# Relative precision of the largest eigenvalue, which only limits the default alphas.
EIGENVALUE_PRECISION = 1e-9


@dataclass(frozen=True)
class Reflection:
    """A product of Householder reflections ``I - V T V'`` of the features from ``start`` on."""

    start: int
    V: Array
    T: Array

    def apply(self, rows: Array) -> None:
        """Multiply rows of features by the reflection; the rows are overwritten.

        ``rows`` has shape (n_features, n_rows) and is in C order.
        """
        multiply = blas.sgemm if rows.dtype == np.float32 else blas.dgemm
        part = rows[self.start :].T  # in Fortran order, so BLAS needs no copy
        V, T = self.V.astype(rows.dtype, copy=False), self.T.astype(rows.dtype, copy=False)
        found = multiply(-1.0, (part @ V) @ T, V, beta=1.0, c=part, trans_b=1, overwrite_c=1)
        assert np.shares_memory(found, part)

    def cast(self, dtype: Any) -> Reflection:
        """Return the same reflection in a dtype."""
        return Reflection(
            self.start, self.V.astype(dtype, copy=False), self.T.astype(dtype, copy=False)
        )

    def undo(self, columns: Float64Array) -> None:
        """Multiply columns of shape (n_features, n_columns) by ``I - V T V'``, in place."""
        columns[self.start :] -= self.V @ (self.T @ (self.V.T @ columns[self.start :]))


@dataclass(frozen=True)
class Banded:
    """The normal equations in a basis in which their matrix is banded.

    Attributes
    ----------
    system : NormalEquations
        The equations. Their matrix is empty.
    diagonal : array of shape (n_blocks, BLOCK, BLOCK)
        The diagonal blocks, padded with zeros.
    beside : array of shape (n_blocks - 1, BLOCK, BLOCK)
        The blocks to the right of the diagonal ones.
    reflections : tuple of Reflection
        Their product is the basis.
    right : array of shape (n_components, n_outputs)
        The right-hand side in the new basis.
    """

    system: NormalEquations
    diagonal: Float64Array
    beside: Float64Array
    reflections: tuple[Reflection, ...]
    right: Float64Array

    @classmethod
    def of(cls, system: NormalEquations) -> Banded:
        """Transform a system; this overwrites its matrix."""
        n = len(system.matrix)
        n_blocks = -(-n // BLOCK)
        diagonal = np.zeros((n_blocks, BLOCK, BLOCK))
        beside = np.zeros((n_blocks - 1, BLOCK, BLOCK))
        reflections: list[Reflection] = []
        rest: Float64Array = system.matrix
        for index in range(n_blocks):
            corner = np.triu(rest[:BLOCK, :BLOCK])
            size = len(corner)
            diagonal[index, :size, :size] = corner + np.triu(corner, 1).T
            if index == n_blocks - 1:
                break
            panel = np.array(rest[:BLOCK, BLOCK:].T, order="F")
            # A contiguous copy, which BLAS can update in place.
            rest = np.array(rest[BLOCK:, BLOCK:], order="F")
            triangle, V, T = _reflected(panel)
            beside[index, :, : len(triangle)] = triangle.T
            rest = _both_sides(rest, V, T)
            reflections.append(Reflection((index + 1) * BLOCK, V, T))
        right = np.array(system.right, order="C")
        for reflection in reflections:
            reflection.apply(right)
        system = replace(system, matrix=np.empty((n, 0)))
        return cls(system, diagonal, beside, tuple(reflections), right)

    def factor(self, alpha: float) -> BandFactor:
        """Return the Cholesky factor for an alpha."""
        return BandFactor.of(self, alpha)

    def is_definite(self, alpha: float) -> bool:
        """Return whether the matrix plus ``alpha I`` is positive definite despite rounding."""
        try:
            self.factor(alpha)
        except linalg.LinAlgError:
            return False
        return True

    @property
    def trace(self) -> float:
        """The trace of the Gram matrix."""
        return float(np.einsum("kii->", self.diagonal))

    def default_alphas(self) -> Float64Array:
        """Return the default grid of alphas; see ``ridge.default_alphas``."""
        return default_alphas(self.system, self._largest_eigenvalue())

    def _largest_eigenvalue(self) -> float:
        if not self.diagonal.any() and not self.beside.any():
            return 0.0
        size = len(self.diagonal) * BLOCK
        # Always start from the same vector, so that the result is always the same.
        found = eigsh(
            LinearOperator((size, size), matvec=self._multiply, dtype=np.float64),
            k=1,
            v0=np.ones(size),
            tol=EIGENVALUE_PRECISION,
            return_eigenvectors=False,
        )
        return max(float(found[0]), 0.0)

    def _multiply(self, vector: Float64Array) -> Float64Array:
        """Multiply the padded banded matrix by a vector."""
        blocks = vector.reshape(len(self.diagonal), BLOCK, 1)
        result = self.diagonal @ blocks
        result[:-1] += self.beside @ blocks[1:]
        result[1:] += np.swapaxes(self.beside, 1, 2) @ blocks[:-1]
        return np.asarray(result.reshape(vector.shape))

    def path(self, alphas: Float64Array) -> AlphaPath:
        """Return GCV and evidence for each alpha."""
        n, shape = len(self.right), (len(alphas), self.right.shape[1])
        explained, dual = np.empty(shape), np.empty(shape)
        effective, log_determinants = np.empty(len(alphas)), np.empty(len(alphas))
        for index, alpha in enumerate(alphas):
            factor = self.factor(alpha)
            solved = factor.solve(self.right)
            explained[index] = np.einsum("ij,ij->j", self.right, solved)
            dual[index] = np.einsum("ij,ij->j", solved, solved)
            effective[index] = n - alpha * factor.inverse_trace()
            log_determinants[index] = factor.log_determinant
        return path_of(self.system, alphas, explained, dual, effective, log_determinants)

    def cast(self, dtype: Any) -> Banded:
        """Return the same with reflections of rows in a dtype."""
        return replace(self, reflections=tuple(one.cast(dtype) for one in self.reflections))

    def left_out(
        self,
        alphas: Float64Array,
        Z: Array,
        Y: Float64Array,
        weights: Any = None,
        amounts: Any = None,
    ) -> LeftOutCurve:
        """Return the leave-one-out errors of rows, for each alpha; see ``Spectral.left_out``."""
        means, n = self.system.feature_means.astype(Z.dtype), len(self.right)
        leverage = np.empty((len(Z), len(alphas)))
        factors = [self.factor(alpha) for alpha in alphas]
        solved = np.stack([one.solve(self.right) for one in factors], axis=1)
        fitted = np.empty((len(Z), *solved.shape[1:]))
        for start in range(0, len(Z), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            projected = np.ascontiguousarray((Z[rows] - means).T)
            for reflection in self.reflections:
                reflection.apply(projected)
            fitted[rows] = (projected.T @ solved.reshape(n, -1)).reshape(-1, *solved.shape[1:])
            for index, factor in enumerate(factors):
                leverage[rows, index] = factor.leverage(projected)
        return left_out_curve(
            self.system,
            leverage,
            lambda output, scale: fitted[:, :, output] / scale,
            Y,
            weights,
            amounts,
        )

    def solved(self, alpha: float) -> tuple[Float64Array, Float64Array, float]:
        """Return the coefficients, the explained sums of squares and the log determinant."""
        factor = self.factor(alpha)
        coefficients = factor.solve(self.right)
        explained = np.einsum("ij,ij->j", self.right, coefficients)
        for reflection in reversed(self.reflections):
            reflection.undo(coefficients)
        return coefficients, explained, factor.log_determinant


@dataclass(frozen=True)
class BandFactor:
    """The Cholesky factor ``L L'`` of a banded matrix plus ``alpha I``.

    Attributes
    ----------
    n : int
        The size of the matrix without padding.
    alpha : float
    inverses : array of shape (n_blocks, BLOCK, BLOCK)
        The inverses of the diagonal blocks of ``L``.
    links : array of shape (n_blocks - 1, BLOCK, BLOCK)
        The transposes of the blocks of ``L`` below the diagonal ones.
    log_determinant : float
    """

    n: int
    alpha: float
    inverses: Float64Array
    links: Float64Array
    log_determinant: float

    @classmethod
    def of(cls, banded: Banded, alpha: float) -> BandFactor:
        """Factor a matrix; raise ``LinAlgError`` if it is not positive definite."""
        ridge, n = alpha * np.eye(BLOCK), len(banded.right)
        inverses, links = np.empty_like(banded.diagonal), np.empty_like(banded.beside)
        log_determinant = 0.0
        for k, block in enumerate(banded.diagonal):
            left = block + ridge
            if k > 0:
                links[k - 1] = inverses[k - 1] @ banded.beside[k - 1]
                left -= links[k - 1].T @ links[k - 1]
            lower = linalg.cholesky(left, lower=True, check_finite=False)
            log_determinant += 2.0 * float(np.log(np.diagonal(lower)).sum())
            inverses[k] = lapack.dtrtri(lower, lower=1)[0]
        padding = len(inverses) * BLOCK - n
        log_determinant -= padding * np.log(alpha)
        return cls(n, alpha, inverses, links, log_determinant)

    def parts(self, right: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the blocks of ``L^-1 right`` and their places; ``right`` is in C order."""
        inverses = self.inverses.astype(right.dtype, copy=False)
        links = self.links.astype(right.dtype, copy=False)
        before: Any = None
        for k, inverse in enumerate(inverses):
            place = slice(k * BLOCK, min((k + 1) * BLOCK, self.n))
            size = place.stop - place.start
            rest = right[place]
            if before is not None:
                rest = rest - links[k - 1].T[:size] @ before
            before = inverse[:size, :size] @ rest
            yield place, before

    def solve(self, right: Float64Array) -> Float64Array:
        """Return ``(L L')^-1 right``."""
        result = np.empty_like(right)
        for place, half in self.parts(right):
            result[place] = half
        for k in reversed(range(len(self.inverses))):
            place = slice(k * BLOCK, min((k + 1) * BLOCK, self.n))
            size = place.stop - place.start
            if place.stop < self.n:
                after = result[place.stop : place.stop + BLOCK]
                result[place] -= self.links[k][:, : len(after)] @ after
            result[place] = self.inverses[k].T[:size, :size] @ result[place]
        return result

    def leverage(self, rows: Array) -> Float64Array:
        """Return the squared lengths of ``L^-1 rows``, for each column."""
        result = np.zeros(rows.shape[1])
        for start in range(0, rows.shape[1], ROWS_IN_CACHE):
            some = slice(start, start + ROWS_IN_CACHE)
            for _, half in self.parts(rows[:, some]):
                result[some] += np.einsum("ij,ij->j", half, half)
        return result

    def inverse_trace(self) -> float:
        """Return the trace of the inverse."""
        trace, below = 0.0, np.zeros((BLOCK, BLOCK))
        for k in reversed(range(len(self.inverses))):
            middle = np.eye(BLOCK)
            if k < len(self.links):
                middle += self.links[k] @ below @ self.links[k].T
            below = self.inverses[k].T @ middle @ self.inverses[k]
            trace += float(np.trace(below))
        padding = len(self.inverses) * BLOCK - self.n
        return trace - padding / self.alpha


def _reflected(panel: Float64Array) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Decompose a panel by Householder reflections; return its triangle, ``V`` and ``T``.

    The reflections are ``I - V T V'``.
    """
    packed, scales, _, _ = lapack.dgeqrf(panel, overwrite_a=1)
    size = len(scales)
    V = np.asfortranarray(np.tril(packed, -1)[:, :size])
    np.fill_diagonal(V, 1.0)
    products, T = V.T @ V, np.zeros((size, size))
    for j, scale in enumerate(scales):
        T[:j, j] = -scale * (T[:j, :j] @ products[:j, j])
        T[j, j] = scale
    return np.triu(packed)[:BLOCK], V, T


def _both_sides(matrix: Float64Array, V: Float64Array, T: Float64Array) -> Float64Array:
    """Return ``(I - V T V')' matrix (I - V T V')``; this overwrites the matrix.

    The matrix is symmetric, and only its upper triangle is used.
    """
    image = blas.dsymm(1.0, matrix, np.asfortranarray(V @ T), lower=0)
    image -= V @ (0.5 * (T.T @ (V.T @ image)))
    found = blas.dsyr2k(-1.0, V, image, beta=1.0, c=matrix, overwrite_c=1, lower=0)
    assert np.shares_memory(found, matrix)  # BLAS must not allocate a copy
    return np.asarray(found)
