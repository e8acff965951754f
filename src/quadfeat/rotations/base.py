"""Random orthogonal matrices, each applied in its own complexity.

A rotation class holds parameters; ``draw(d, rng)`` draws matrices ``Q`` (a batch of them, to turn
several blocks of nodes at once) into an immutable object that multiplies rows, ``X @ Q``, and gives
its dense matrices for inspection.

=============== ============ ================ =====================================
class           state        cost per row     columns uniform on the sphere
=============== ============ ================ =====================================
``Haar``        ``d^2``      ``d^2``          yes, and jointly (Haar measure)
``Householder`` ``d^2``      ``2 d^2``        yes, and jointly (Haar measure)
``Butterfly``   ``d``        ``d log d``      yes for powers of two, else nearly
``Hadamard``    ``d``        ``d log d``      no (biased for small ``d``)
=============== ============ ================ =====================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference

__all__ = ["Butterfly", "Haar", "Hadamard", "Householder", "Rotation"]


class DrawnMatrices(ABC):
    """A batch of ``count`` drawn matrices of shape ``size x size``; immutable."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            getattr(self, field.name).flags.writeable = False

    @property
    @abstractmethod
    def count(self) -> int:
        """How many matrices there are."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many rows and columns each has."""

    def apply(self, X: Array) -> Array:
        """Return ``X @ Q`` for each matrix ``Q``.

        Parameters
        ----------
        X : array of shape (n_rows, d)
            With ``d`` at most ``size``: zeros are put behind the columns it has.

        Returns
        -------
        array of shape (n_rows, count, size)
            In the dtype of ``X``.
        """
        return np.moveaxis(self.turn(pad(X.T, self.size)), 2, 0)

    def followed_by(self, others: Any) -> Any:
        """Return these matrices and, behind them, others of the same kind and size."""
        parts = (
            np.concatenate([getattr(self, field.name), getattr(others, field.name)])
            for field in fields(self)  # type: ignore[arg-type]
        )
        return type(self)(*parts)

    @abstractmethod
    def turn(self, columns: Array) -> Array:
        """Return ``Q.T @ columns`` for each matrix: (size, n_rows) -> (count, size, n_rows)."""

    def structure(self) -> dict[str, Any] | None:
        """Return what the native core has to know to compute ``turn``, if it can."""
        return None

    def dense(self) -> Float64Array:
        """Return the matrices themselves, shape (count, size, size)."""
        return np.ascontiguousarray(np.swapaxes(self.turn(np.eye(self.size)), 1, 2))


class Rotation(BaseEstimator, ABC):
    """Base of the random rotations."""

    def size(self, d: int) -> int:
        """Return the size of the matrices that turn inputs of width ``d``."""
        return d

    @abstractmethod
    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        """Draw ``count`` independent rotations.

        Parameters
        ----------
        d : int
            Width of the inputs.
        rng : numpy.random.Generator
            Where the randomness comes from.
        count : int, default=1
            How many matrices.

        Returns
        -------
        DrawnMatrices
            With the methods ``apply(X)`` and ``dense()``.
        """


class Haar(Rotation):
    """The uniform law on all orthogonal matrices, by QR of a Gaussian matrix.

    The signs of the diagonal of ``R`` are put into ``Q``; without that the law is not uniform.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Haar
    >>> Q = Haar().draw(5, np.random.default_rng(0)).dense()[0]
    >>> bool(np.allclose(Q @ Q.T, np.eye(5)))
    True
    """

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        q, r = np.linalg.qr(rng.standard_normal((count, d, d)))
        return DenseMatrices(q * np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None])


@dataclass(frozen=True, eq=False)
class DenseMatrices(DrawnMatrices):
    """Matrices held as they are."""

    matrices: Float64Array

    @property
    def count(self) -> int:
        return self.matrices.shape[0]

    @property
    def size(self) -> int:
        return self.matrices.shape[1]

    def turn(self, columns: Array) -> Array:
        transposed = np.swapaxes(self.matrices, 1, 2).reshape(-1, self.size)
        product = transposed.astype(columns.dtype, copy=False) @ columns
        return product.reshape(self.count, self.size, -1)


class Householder(Rotation):
    r"""The uniform law on all orthogonal matrices, as a product of ``d - 1`` random reflections.

    .. math:: Q = H_1 H_2 \cdots H_{d-1} D, \qquad H_k = I - 2 u_k u_k^\top / |u_k|^2,

    where :math:`H_k` takes a Gaussian vector of the last ``d - k + 1`` coordinates to their first
    axis, and ``D`` holds signs. The same law as :class:`Haar`, without a factorisation.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Householder
    >>> Q = Householder().draw(5, np.random.default_rng(0)).dense()[0]
    >>> bool(np.allclose(Q @ Q.T, np.eye(5)))
    True
    """

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        # Row k holds a Gaussian vector in the coordinates from k on.
        vectors = np.triu(rng.standard_normal((count, d, d)))
        # H_k sends the axis e_k to -sign(v_kk) v / |v|. The last "reflection" is a mere sign.
        pivot = np.diagonal(vectors, axis1=1, axis2=2)
        signs = np.where(pivot < 0, -1.0, 1.0)
        norms = np.linalg.norm(vectors, axis=2)
        index = np.arange(d)
        vectors[:, index, index] += signs * norms
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        return Reflections(vectors[:, : d - 1], -signs)


@dataclass(frozen=True, eq=False)
class Reflections(DrawnMatrices):
    """Products of reflections in unit vectors, then signs."""

    vectors: Float64Array  # (count, d - 1, d)
    signs: Float64Array  # (count, d)

    @property
    def count(self) -> int:
        return self.signs.shape[0]

    @property
    def size(self) -> int:
        return self.signs.shape[1]

    def turn(self, columns: Array) -> Array:
        turned = np.repeat(columns[None], self.count, axis=0)
        vectors = self.vectors.astype(columns.dtype, copy=False)
        for k in range(self.size - 1):
            u = vectors[:, k, k:]  # zero before coordinate k
            along = u[:, None, :] @ turned[:, k:]
            turned[:, k:] -= 2 * u[:, :, None] * along
        return turned * self.signs.astype(columns.dtype, copy=False)[:, :, None]


class Butterfly(Rotation):
    r"""Products of Givens rotations in the pattern of a fast Fourier transform.

    One round is ``P B``: a random permutation, and a butterfly matrix of ``ceil(log2 d)`` sparse
    stages with ``d - 1`` angles. In a stage that joins runs of ``m`` coordinates,
    :math:`\cos^2\theta \sim \mathrm{Beta}(m/2, m/2)` with random signs: then each column of ``B``
    is uniform on the sphere for ``d`` a power of two. Otherwise pairs whose partner is past ``d``
    are left alone, and a single round is biased; fresh angles and permutations in three rounds are
    hardly so. ``make bias`` found, where the Gaussian kernel is 0.1353, with standard errors of
    0.0001 at most (degree 1, difference along an axis):

    ====== ========= ========== ============
    d      one round two rounds three rounds
    ====== ========= ========== ============
    3      +0.0433   +0.0038    +0.0005
    5      +0.0750   +0.0055    +0.0005
    7      +0.0540   +0.0022    +0.0002
    16     -0.0000   +0.0000    +0.0000
    ====== ========= ========== ============

    Parameters
    ----------
    rounds : int, default=3
        How many products ``P B``.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Butterfly
    >>> drawn = Butterfly().draw(6, np.random.default_rng(0))
    >>> x = np.ones((1, 6))
    >>> turned = drawn.apply(x)[0, 0]
    >>> bool(np.isclose(turned @ turned, 6.0)), bool(np.allclose(turned, x @ drawn.dense()[0]))
    (True, True)
    """

    def __init__(self, rounds: int = 3) -> None:
        self.rounds = rounds

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        shape = (count, check.check_count(self.rounds, "rounds"))
        if d == 1:  # no angles: all that can be random is the sign
            return Haar().draw(d, rng, count)
        squares = [
            rng.beta(half / 2, half / 2, size=(*shape, angles))
            for half, angles in reference.butterfly_stages(d)
        ]
        squared_cosine = np.concatenate(squares, axis=-1)
        cosines = np.sqrt(squared_cosine) * random_signs(rng, squared_cosine.shape)
        sines = np.sqrt(1.0 - squared_cosine) * random_signs(rng, squared_cosine.shape)
        order = np.broadcast_to(np.arange(d, dtype=np.int32), (*shape, d))
        return ButterflyMatrices(cosines, sines, rng.permuted(order, axis=-1))


@dataclass(frozen=True, eq=False)
class ButterflyMatrices(DrawnMatrices):
    """Products of rounds ``P B``, held as angles and permutations."""

    cosines: Float64Array  # (count, rounds, d - 1)
    sines: Float64Array  # (count, rounds, d - 1)
    permutations: Array  # (count, rounds, d)

    @property
    def count(self) -> int:
        return self.permutations.shape[0]

    @property
    def size(self) -> int:
        return self.permutations.shape[2]

    def turn(self, columns: Array) -> Array:
        return reference.butterfly(
            columns,
            self.cosines.astype(columns.dtype, copy=False),
            self.sines.astype(columns.dtype, copy=False),
            self.permutations,
        )

    def structure(self) -> dict[str, Any] | None:
        return {
            "structure": "butterfly",
            "rounds": self.permutations.shape[1],
            "cosines": self.cosines,
            "sines": self.sines,
            "permutations": self.permutations,
        }


class Hadamard(Rotation):
    """Rounds of random signs and a Hadamard transform, on input padded to a power of two.

    The cheapest rotation, but its columns take finitely many values: expectations over it are
    biased in low dimension. Where the Gaussian kernel is 0.1353 ``make bias`` found -0.1431 for
    d = 4, -0.0034 for d = 16 and -0.0005 for d = 64 (orthoplex, degree 1, along an axis).

    Parameters
    ----------
    rounds : int, default=3
        How many products of signs and transform.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Hadamard
    >>> Hadamard().draw(5, np.random.default_rng(0)).dense().shape
    (1, 8, 8)
    """

    def __init__(self, rounds: int = 3) -> None:
        self.rounds = rounds

    def size(self, d: int) -> int:
        return power_of_two(d)

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        rounds = check.check_count(self.rounds, "rounds")
        return HadamardMatrices(random_signs(rng, (count, rounds, self.size(d))))


@dataclass(frozen=True, eq=False)
class HadamardMatrices(DrawnMatrices):
    """Products of diagonal signs and the orthonormal Hadamard matrix."""

    signs: Array  # (count, rounds, p)

    @property
    def count(self) -> int:
        return self.signs.shape[0]

    @property
    def size(self) -> int:
        return self.signs.shape[2]

    def turn(self, columns: Array) -> Array:
        turned = columns[None]
        for k in range(self.signs.shape[1]):
            turned = reference.walsh_hadamard(turned * self.signs[:, k, :, None])
        return turned

    def structure(self) -> dict[str, Any] | None:
        # The core's transform is not normalised.
        diagonals = self.signs / np.sqrt(self.size)
        return {"structure": "hadamard", "rounds": self.signs.shape[1], "diagonals": diagonals}


def power_of_two(d: int) -> int:
    """Return the smallest power of two that is at least ``d``.

    Examples
    --------
    >>> [power_of_two(d) for d in (1, 2, 3, 784)]
    [1, 2, 4, 1024]
    """
    return 1 << (d - 1).bit_length()


def random_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return fair random signs, one byte each; products with them keep the other dtype."""
    return 2 * rng.integers(0, 2, size=shape, dtype=np.int8) - 1


def pad(columns: Array, size: int) -> Array:
    """Return ``columns``, shape (d, n_rows), with zeros below up to ``size``."""
    missing = size - columns.shape[0]
    return np.pad(columns, ((0, missing), (0, 0))) if missing else columns
