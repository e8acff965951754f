"""The nodes that a rule has drawn: directions, radii, weights, and how they become columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import CopiedState, cached_property
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.rotations import DrawnMatrices, pad


class Directions(ABC):
    """Where the nodes point. Immutable."""

    d: int
    count: int

    @abstractmethod
    def project(self, X: Array) -> Array:
        """Return the inner products of rows and directions, shape (n_rows, count)."""

    @abstractmethod
    def dense(self) -> Float64Array:
        """Return the directions as the rows of a matrix, shape (count, d)."""

    @abstractmethod
    def followed_by(self, others: Any) -> Directions:
        """Return these directions and, behind them, others of the same kind."""

    def structure(self) -> dict[str, Any] | None:
        """Return what the native core has to know to compute ``project``, if it can."""
        return None

    def longest(self) -> float:
        """Return the length of the longest direction."""
        return 1.0


@register
@dataclass(frozen=True, eq=False)
class DenseDirections(Directions):
    """Directions held as the rows of a matrix (of any length: they may be whole frequencies)."""

    matrix: Float64Array

    def __post_init__(self) -> None:
        self.matrix.flags.writeable = False

    def check_consistency(self) -> None:
        checks.check_array(self.matrix, (self.count, self.d), np.float64, "matrix of nodes_")

    @property
    def d(self) -> int:  # type: ignore[override]
        return self.matrix.shape[1]

    @property
    def count(self) -> int:  # type: ignore[override]
        return self.matrix.shape[0]

    def followed_by(self, others: DenseDirections) -> DenseDirections:
        return DenseDirections(np.concatenate([self.matrix, others.matrix]))

    def longest(self) -> float:
        return float(np.linalg.norm(self.matrix, axis=1).max())

    def dense(self) -> Float64Array:
        return self.matrix

    def project(self, X: Array) -> Array:
        return np.asarray(X @ self.matrix.T.astype(X.dtype, copy=False))


@register
@dataclass(frozen=True, eq=False)
class TurnedVertices(Directions):
    """The vertices of a simplex or orthoplex, turned by a matrix of its own in each block.

    The orthoplex' vertices are the axes, so its directions are the columns of the matrices. The
    last block is cut to make ``count`` directions in all.
    """

    matrices: DrawnMatrices
    simplex: bool
    d: int
    count: int

    def check_consistency(self) -> None:
        checks.check_flag(self.simplex, "simplex of nodes_")
        count = check.check_count(self.count, "count of nodes_")
        d = check.check_count(self.d, "d of nodes_")
        checks.check_kind(self.matrices, DrawnMatrices, "matrices of nodes_")
        n_blocks, size = self.matrices.count, self.matrices.size
        checks.expect(
            size >= d and self.matrices.fits(d),
            f"matrices of nodes_ have the size {size}, which does not fit {d} columns",
        )
        needed = -(-count // (size + bool(self.simplex)))
        checks.expect(n_blocks == needed, f"nodes_ have {n_blocks} blocks and need {needed}")

    def structure(self) -> dict[str, Any] | None:
        matrices = self.matrices.structure()
        if matrices is None:
            return None
        matrices |= {
            "simplex": self.simplex,
            "size": self.matrices.size,
            "n_blocks": self.matrices.count,
        }
        if self.simplex:
            below, on = reference.simplex_coefficients(self.matrices.size)
            matrices |= {"below": below, "on": on}
        return matrices

    def followed_by(self, others: TurnedVertices) -> TurnedVertices:
        # Whole blocks only: the others begin with a block of their own.
        matrices = self.matrices.followed_by(others.matrices)
        return replace(self, matrices=matrices, count=self.count + others.count)

    def dense(self) -> Float64Array:
        return np.ascontiguousarray(self.project(np.eye(self.d)).T)

    def project(self, X: Array) -> Array:
        turned = self.matrices.turn(pad(X.T, self.matrices.size))
        if self.simplex:
            turned = reference.simplex(turned)
        return turned.reshape(-1, len(X))[: self.count].T


@register
@dataclass(frozen=True, eq=False)
class Nodes(CopiedState):
    r"""A drawn quadrature rule, :math:`k \approx c\,[\omega_0 f(0) + \sum_j \omega_j f(w_j)]`.

    Attributes
    ----------
    directions : Directions
        The directions ``z_j``.
    radii : array of shape (n_nodes,)
        The lengths ``rho_j``; node ``j`` is ``w_j = rho_j z_j``.
    weights : array of shape (n_nodes,)
        The weights ``omega_j`` >= 0.
    origin_weight : float
        The weight ``omega_0`` of the value at the origin.
    has_origin_column : bool
        Whether the origin is a column of the map. Otherwise only
        ``QuadratureFeatures.approximate_kernel`` adds it.
    reflected : bool
        Whether a node stands for the pair ``w_j, -w_j`` with half the weight each.
    last_is_single : bool
        Whether the last node has one column where the others have two.
    phase : float
        Shift of a last cosine that stands alone.
    """

    directions: Directions
    radii: Float64Array
    weights: Float64Array
    origin_weight: float = 0.0
    has_origin_column: bool = False
    reflected: bool = False
    last_is_single: bool = False
    phase: float = 0.0

    def __post_init__(self) -> None:
        self.radii.flags.writeable = False
        self.weights.flags.writeable = False

    def check_consistency(self) -> None:
        checks.check_kind(self.directions, Directions, "directions of nodes_")
        n_nodes = check.check_count(self.directions.count, "the number of nodes_")
        for name in ("radii", "weights"):
            values = getattr(self, name)
            checks.check_array(values, (n_nodes,), np.float64, f"{name} of nodes_")
            checks.expect(bool((values >= 0).all()), f"{name} of nodes_ are negative")
        for name in ("origin_weight", "phase"):
            checks.check_finite(getattr(self, name), f"{name} of nodes_")
        for name in ("has_origin_column", "reflected", "last_is_single"):
            checks.check_flag(getattr(self, name), f"{name} of nodes_")
        checks.expect(
            self.origin_weight >= 0 or not self.has_origin_column,
            f"the origin of nodes_ has a column, and the weight {self.origin_weight!r}",
        )

    def check_fits(self, kernel: Kernel, d: int) -> None:
        """Raise a ValueError unless these are nodes for a kernel of inputs of width ``d``."""
        checks.expect(
            self.directions.d == d, f"nodes_ are for {self.directions.d} columns, not {d}"
        )
        checks.expect(
            not self.reflected or not kernel.nonlinearity.is_even,
            "nodes_ have reflections, which the kernel has no use for",
        )
        checks.expect(
            not self.last_is_single or columns_per_node(kernel, self.reflected) == 2,
            "the last of nodes_ has one column of one",
        )

    def n_columns(self, kernel: Kernel) -> int:
        """Return how many columns the features have."""
        columns = len(self.radii) * columns_per_node(kernel, self.reflected)
        return columns - self.last_is_single + self.has_origin_column

    def column_starts(self, kernel: Kernel) -> Array:
        """Return the first column of each node, and the origin's if it has one."""
        starts = np.arange(len(self.radii)) * columns_per_node(kernel, self.reflected)
        return np.append(starts, self.n_columns(kernel) - 1) if self.has_origin_column else starts

    def frequencies(self) -> Float64Array:
        """Return the nodes ``w_j`` themselves, shape (n_nodes, d)."""
        return self.directions.dense() * self.radii[:, None]

    def arguments(self, X: Array) -> Array:
        """Return the inner products ``w_j . x`` of nodes and scaled rows, (n_rows, n_nodes)."""
        arguments = self.directions.project(X)
        arguments *= self.radii.astype(X.dtype)
        return arguments

    @cached_property
    def longest(self) -> float:
        """A bound of the length of the longest node."""
        return self.directions.longest() * float(self.radii.max())

    def amplitudes(self, kernel: Kernel) -> Float64Array:
        """Return the factor of each node's columns: ``sqrt(c omega_j)``, shared by a pair."""
        squares = kernel.constant * self.weights
        if self.reflected:
            squares = squares / 2
        if self.last_is_single:
            # Alone, a cosine at a random phase or one of two reflections counts for both.
            squares = np.append(squares[:-1], 2 * squares[-1])
        return np.asarray(np.sqrt(squares))

    def write_features(self, X: Array, kernel: Kernel, out: Array) -> None:
        """Write the features of scaled rows ``X`` into ``out``; its dtype is that of ``X``.

        The columns of the nodes come first, in the order that
        :func:`quadfeat.engine.reference.write_features` describes; the origin's column is the last.
        """
        self.write_columns(self.arguments(X), kernel, out)

    def write_columns(self, arguments: Array, kernel: Kernel, out: Array) -> None:
        """Write the features of rows whose inner products with the nodes are ``arguments``."""
        reference.write_features(
            arguments,
            kernel.nonlinearity,
            self.amplitudes(kernel).astype(arguments.dtype),
            reflected=self.reflected,
            last_is_single=self.last_is_single,
            phase=self.phase,
            out=out[:, :-1] if self.has_origin_column else out,
        )
        if self.has_origin_column:
            out[:, -1] = self.origin_feature(kernel)

    def origin_feature(self, kernel: Kernel) -> float:
        """Return the value of the origin's column, or 0 if there is none."""
        if not self.has_origin_column:
            return 0.0
        return float(np.sqrt(kernel.constant * self.origin_weight)) * kernel.nonlinearity.at_zero

    def origin_correction(self, kernel: Kernel) -> float:
        """Return what the columns lack of the estimate: ``c omega_0 phi(0)^2`` if not a column."""
        if self.has_origin_column:
            return 0.0
        return kernel.constant * self.origin_weight * kernel.nonlinearity.at_zero**2


def columns_per_node(kernel: Kernel, reflected: bool) -> int:
    """Return how many columns a whole node has: a cosine and a sine, or itself and its reflection.

    Examples
    --------
    >>> from quadfeat.kernels import ArcCosine, Gaussian
    >>> columns_per_node(Gaussian(1.0), False), columns_per_node(ArcCosine(1), False)
    (2, 1)
    """
    return 2 if reflected else kernel.nonlinearity.columns_per_node


@dataclass(frozen=True)
class Layout:
    """How a number of columns is spent: on the origin, on whole nodes, on half a node."""

    n_nodes: int
    has_origin_column: bool
    reflected: bool
    last_is_single: bool

    @classmethod
    def of(cls, n_columns: int, kernel: Kernel, *, origin: bool, reflect: bool) -> Layout:
        """Return the layout of ``n_columns``; the origin gets none where it would be the only one.

        Examples
        --------
        >>> from quadfeat.kernels import Gaussian
        >>> Layout.of(12, Gaussian(1.0), origin=True, reflect=True)
        Layout(n_nodes=6, has_origin_column=True, reflected=False, last_is_single=True)
        """
        phi = kernel.nonlinearity
        reflected = reflect and not phi.is_even and phi.columns_per_node == 1
        has_origin_column = origin and n_columns > 1
        whole, rest = divmod(n_columns - has_origin_column, columns_per_node(kernel, reflected))
        return cls(whole + rest, has_origin_column, reflected, rest == 1)
