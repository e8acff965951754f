"""Base classes of random rotations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils.validation import Array, Float64Array

# A few rounds mix all coordinates. More than this many would only take memory.
MOST_ROUNDS = 128


class DrawnMatrices(ABC):
    """Base class of immutable batches of ``count`` drawn matrices of shape ``size x size``.

    Declare a subclass with ``@dataclass(frozen=True, eq=False)``. Its fields are arrays with one
    entry per matrix along the first axis. It defines ``count``, ``size`` and :meth:`turn`.
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            getattr(self, field.name).flags.writeable = False

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of matrices."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of rows, and of columns, of each matrix."""

    def fits(self, d: int) -> bool:
        """Return whether these matrices rotate inputs with ``d`` columns."""
        return self.size == d

    def apply(self, X: Array) -> Array:
        """Return ``X @ Q`` for each matrix ``Q``.

        Parameters
        ----------
        X : array of shape (n_rows, d)
            Rows with at most ``size`` columns. They are padded with zeros.

        Returns
        -------
        array of shape (n_rows, count, size)
            In the dtype of ``X``.
        """
        return np.moveaxis(self.turn(pad(X.T, self.size)), 2, 0)

    def followed_by(self, others: Any) -> Any:
        """Return these matrices followed by others of the same class and size."""
        parts = (
            np.concatenate([getattr(self, field.name), getattr(others, field.name)])
            for field in fields(self)  # type: ignore[arg-type]
        )
        return type(self)(*parts)

    @abstractmethod
    def turn(self, columns: Array) -> Array:
        """Return ``Q.T @ columns`` for each matrix: (size, n_rows) -> (count, size, n_rows)."""

    def structure(self) -> dict[str, Any] | None:
        """Return what the native core needs to compute :meth:`turn`, or ``None`` if it cannot."""
        return None

    def dense(self) -> Float64Array:
        """Return the dense matrices, shape (count, size, size)."""
        return np.ascontiguousarray(np.swapaxes(self.turn(np.eye(self.size)), 1, 2))


class Rotation(BaseEstimator, ABC):
    """Base class of random rotations.

    A subclass defines :meth:`draw`, which returns a :class:`DrawnMatrices` object, and
    :meth:`size` if it pads its inputs. As in every scikit-learn object, ``__init__`` only assigns
    its parameters.

    Attributes
    ----------
    is_fast : bool
        Whether the rotation costs less than a product with a dense matrix. ``rule="auto"`` prefers
        fast rotations.
    is_uniform : bool
        Whether each column of a matrix is (nearly) uniform on the sphere. Closed forms of the error
        require it.
    """

    is_fast: bool = False
    is_uniform: bool = False

    def size(self, d: int) -> int:
        """Return the size of the matrices that rotate inputs with ``d`` columns."""
        return d

    @abstractmethod
    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        """Draw ``count`` independent rotations.

        Parameters
        ----------
        d : int
            Number of columns of the inputs.
        rng : numpy.random.Generator
            The source of random numbers.
        count : int, default=1
            The number of matrices.

        Returns
        -------
        DrawnMatrices
            It has the methods ``apply(X)`` and ``dense()``.
        """


def power_of_two(d: int) -> int:
    """Return the smallest power of two that is at least ``d``.

    Examples
    --------
    >>> [power_of_two(d) for d in (1, 2, 3, 784)]
    [1, 2, 4, 1024]
    """
    return 1 << (d - 1).bit_length()


def random_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return random signs with equal probability, as int8. Products keep the other dtype."""
    return 2 * rng.integers(0, 2, size=shape, dtype=np.int8) - 1


def pad(columns: Array, size: int) -> Array:
    """Pad ``columns``, shape (d, n_rows), with zeros to the shape (size, n_rows)."""
    missing = size - columns.shape[0]
    return np.pad(columns, ((0, missing), (0, 0))) if missing else columns
