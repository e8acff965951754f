"""Hold the nodes that a rule has drawn: directions, radii, weights and the layout of columns."""

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
    """Base class of immutable directions of nodes."""

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
        """Return these directions followed by others of the same class."""

    def structure(self) -> dict[str, Any] | None:
        """Return what the native core needs to compute :meth:`project`, or ``None``."""
        return None

    def longest(self) -> float:
        """Return the length of the longest direction."""
        return 1.0


@register
@dataclass(frozen=True, eq=False)
class DenseDirections(Directions):
    """Directions stored as the rows of a matrix. They may have any length."""

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
    """The vertices of a simplex or orthoplex, rotated by a different matrix in each block.

    The vertices of an orthoplex are the axes, so its directions are the columns of the matrices.
    The last block is cut to give ``count`` directions in total.
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
            f"matrices of nodes_ have size {size}, which does not fit {d} columns",
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
        # These directions end with a complete block, so the others start a new one.
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
        Whether the map has a column for the origin. Otherwise only
        ``QuadratureFeatures.approximate_kernel`` adds the origin's term.
    reflected : bool
        Whether a node represents the pair ``w_j, -w_j``, each with half the weight.
    last_is_single : bool
        Whether the last node has one column although the others have two.
    phase : float
        Phase shift of the last cosine if its node has a single column.
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
            checks.expect(bool((values >= 0).all()), f"{name} of nodes_ has negative values")
        for name in ("origin_weight", "phase"):
            checks.check_finite(getattr(self, name), f"{name} of nodes_")
        for name in ("has_origin_column", "reflected", "last_is_single"):
            checks.check_flag(getattr(self, name), f"{name} of nodes_")
        checks.expect(
            self.origin_weight >= 0 or not self.has_origin_column,
            f"nodes_ has an origin column with the negative weight {self.origin_weight!r}",
        )

    def check_fits(self, kernel: Kernel, d: int) -> None:
        """Raise a ValueError unless the nodes fit a kernel of inputs with ``d`` columns."""
        checks.expect(self.directions.d == d, f"nodes_ is for {self.directions.d} columns, not {d}")
        checks.expect(
            not self.reflected or not kernel.nonlinearity.is_even,
            "nodes_ has reflected nodes, but the nonlinearity of the kernel is even",
        )
        checks.expect(
            not self.last_is_single or columns_per_node(kernel, self.reflected) == 2,
            "the last node of nodes_ is single, but all nodes have one column",
        )

    def n_columns(self, kernel: Kernel) -> int:
        """Return the number of columns of the features."""
        columns = len(self.radii) * columns_per_node(kernel, self.reflected)
        return columns - self.last_is_single + self.has_origin_column

    def column_starts(self, kernel: Kernel) -> Array:
        """Return the first column of each node, and that of the origin if it has one."""
        starts = np.arange(len(self.radii)) * columns_per_node(kernel, self.reflected)
        return np.append(starts, self.n_columns(kernel) - 1) if self.has_origin_column else starts

    def frequencies(self) -> Float64Array:
        """Return the nodes ``w_j``, shape (n_nodes, d)."""
        return self.directions.dense() * self.radii[:, None]

    def arguments(self, X: Array) -> Array:
        """Return the inner products ``w_j . x`` of nodes and scaled rows, (n_rows, n_nodes)."""
        arguments = self.directions.project(X)
        arguments *= self.radii.astype(X.dtype)
        return arguments

    @cached_property
    def longest(self) -> float:
        """An upper bound of the lengths of the nodes."""
        return self.directions.longest() * float(self.radii.max())

    def amplitudes(self, kernel: Kernel) -> Float64Array:
        """Return the factor ``sqrt(c omega_j)`` of the columns of each node."""
        squares = kernel.constant * self.weights
        if self.reflected:
            squares = squares / 2
        if self.last_is_single:
            # A single cosine with a random phase, or one of two reflections, represents both.
            squares = np.append(squares[:-1], 2 * squares[-1])
        return np.asarray(np.sqrt(squares))

    def write_features(self, X: Array, kernel: Kernel, out: Array) -> None:
        """Write the features of scaled rows ``X`` into ``out``, which has the dtype of ``X``.

        The columns of the nodes come first, in the order that
        :func:`quadfeat.engine.reference.write_features` describes. The column of the origin comes
        last.
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
        """Return the value of the origin's column, or 0 without such a column."""
        if not self.has_origin_column:
            return 0.0
        return float(np.sqrt(kernel.constant * self.origin_weight)) * kernel.nonlinearity.at_zero

    def origin_correction(self, kernel: Kernel) -> float:
        """Return the origin's term ``c omega_0 phi(0)^2``, or 0 if the origin has a column."""
        if self.has_origin_column:
            return 0.0
        return kernel.constant * self.origin_weight * kernel.nonlinearity.at_zero**2


def columns_per_node(kernel: Kernel, reflected: bool) -> int:
    """Return the number of columns of a complete node.

    It is 2 for a cosine and a sine, or for a node and its reflection.

    Examples
    --------
    >>> from quadfeat.kernels import ArcCosine, Gaussian
    >>> columns_per_node(Gaussian(1.0), False), columns_per_node(ArcCosine(1), False)
    (2, 1)
    """
    return 2 if reflected else kernel.nonlinearity.columns_per_node


@dataclass(frozen=True)
class Layout:
    """The assignment of columns to the origin, to complete nodes and to a last single column."""

    n_nodes: int
    has_origin_column: bool
    reflected: bool
    last_is_single: bool

    @classmethod
    def of(cls, n_columns: int, kernel: Kernel, *, origin: bool, reflect: bool) -> Layout:
        """Return the layout of ``n_columns``. A single column goes to a node, not to the origin.

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
