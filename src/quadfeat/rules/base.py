"""Base class of quadrature rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.engine import core
from quadfeat.kernels import IsotropicSpectrum, Kernel
from quadfeat.rules.nodes import DenseDirections, Directions, Layout, Nodes

# Give up if this many draws of the radii all have a negative origin weight.
MAX_REDRAWS = 1000

Self = TypeVar("Self", bound="Rule")


@dataclass(frozen=True)
class Draw:
    """The directions, radii and weights that a rule has drawn.

    Attributes
    ----------
    directions : Directions
        The directions of the nodes. ``DenseDirections(matrix)`` can hold any directions. Its rows
        may also be whole frequencies, with radii of 1.
    radii : array of shape (n_nodes,)
        The lengths of the nodes along their directions.
    weights : array of shape (n_nodes,)
        The weights of the nodes, at least 0.
    origin_weight : float
        The weight of the value at the origin.
    """

    directions: Directions
    radii: Float64Array
    weights: Float64Array
    origin_weight: float = 0.0


@dataclass(frozen=True)
class Group:
    """A slice of nodes and its share of the total weight."""

    nodes: slice
    share: float

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.nodes.stop - self.nodes.start


@dataclass(frozen=True)
class BlockDescription:
    """The properties of a block of nodes that closed forms of the error need.

    Attributes
    ----------
    cosine : float
        The inner product of any two directions of a block. Blocks are rotated at random.
    radii, weights : arrays of shape (n_radii,)
        Equally likely radii, in the order of their uniforms, and their weights relative to 1.
    is_stratified : bool
        Whether the radii are stratified over all nodes. Otherwise they are independent.
    is_unbiased : bool
        Whether the expectation of the estimate is the kernel.
    """

    cosine: float
    radii: Float64Array
    weights: Float64Array
    is_stratified: bool = False
    is_unbiased: bool = True


class Rule(BaseEstimator, ABC):
    """Base class of quadrature rules.

    A subclass defines :meth:`draw_nodes`. The defaults of the other methods fit independent nodes.
    As in every scikit-learn object, ``__init__`` only assigns its parameters. If the rule has a
    parameter ``remainder``, take the weights from :meth:`groups`.

    Attributes
    ----------
    reflect : bool
        Whether each node is used together with its reflection if ``f(w) != f(-w)``.
    remainder : float from 0 to 1
        The weight of nodes outside of complete blocks, relative to the other nodes.
    grows_from_start : bool
        Whether a longer draw from the same state of the generator begins with the shorter one, as
        in low-discrepancy sequences. If so, :meth:`grown` gets the state before the first draw.
    """

    reflect: bool = True
    remainder: float = 1.0
    grows_from_start: bool = False

    def draw(self, d: int, n: int, kernel: Kernel, rng: np.random.Generator) -> Nodes:
        """Draw the nodes of a map with ``n`` columns.

        Parameters
        ----------
        d : int
            Number of columns of the inputs.
        n : int
            Number of columns of the map, including that of the origin.
        kernel : Kernel
            The kernel to approximate.
        rng : numpy.random.Generator
            The source of random numbers.

        Returns
        -------
        Nodes
            An immutable object.
        """
        layout = Layout.of(
            check.check_count(n, "n"),
            kernel,
            origin=self.has_origin(kernel),
            reflect=check.check_flag(self.reflect, "reflect"),
        )
        check.check_fraction(self.remainder, "remainder")
        drawn = self.draw_nodes(check.check_count(d, "d"), layout, kernel, rng)
        return Nodes(
            drawn.directions,
            drawn.radii,
            drawn.weights,
            origin_weight=drawn.origin_weight,
            has_origin_column=layout.has_origin_column,
            reflected=layout.reflected,
            last_is_single=layout.last_is_single,
            phase=rng.uniform(0.0, 2.0 * np.pi) if layout.last_is_single else 0.0,
        )

    def has_origin(self, kernel: Kernel) -> bool:
        """Return whether maps of this rule have a column for the origin."""
        return False

    @abstractmethod
    def draw_nodes(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        """Draw ``layout.n_nodes`` nodes in ``d`` dimensions.

        Take all random numbers from ``rng``. If the rule does not support the kernel, raise
        :meth:`unsupported`.
        """

    def is_fast(self, d: int) -> bool:
        """Return whether features of inputs with ``d`` columns are fast to compute.

        With few columns, a dense product is the fastest method, so every rule is fast.
        """
        return d <= core.DENSE_UP_TO

    def for_remainder(self: Self) -> Self:
        """Return the rule that draws the nodes outside of complete blocks on their own.

        ``rule="auto"`` uses it to find the best ``remainder``.
        """
        return self

    def describe_block(self, d: int, kernel: Kernel) -> BlockDescription | None:
        """Return what closed forms of the error need, or ``None`` if none applies to this kernel.

        ``rule="auto"`` measures the error of rules without a closed form.
        """
        return None

    def grown(self, nodes: Nodes, n: int, kernel: Kernel, rng: np.random.Generator) -> Nodes:
        """Return nodes for ``n`` columns that begin with the given nodes, with smaller weights.

        Parameters
        ----------
        nodes : Nodes
            Complete blocks that this rule has drawn for the kernel.
        n : int
            Number of columns of the larger map.
        kernel : Kernel
            The kernel to approximate.
        rng : numpy.random.Generator
            A generator in the state after the earlier draw, or before it if ``grows_from_start``.
        """
        if self.grows_from_start:
            return self.draw(nodes.directions.d, n, kernel, rng)
        layout = Layout.of(n, kernel, origin=nodes.has_origin_column, reflect=self.reflect)
        new_columns = n - nodes.n_columns(kernel)
        share = len(nodes.radii) / layout.n_nodes
        # The origin weight is known only after all nodes are drawn.
        rule = self.with_signed_origin() if nodes.has_origin_column else self
        for _ in range(MAX_REDRAWS):
            others = rule.draw(nodes.directions.d, new_columns, kernel, rng)
            origin_weight = nodes.origin_weight * share + others.origin_weight * (1.0 - share)
            if not nodes.has_origin_column or origin_weight >= 0:
                break
        else:
            raise RuntimeError(
                f"{check.one_line(self)} drew radii {MAX_REDRAWS} times and the origin weight was "
                "always negative: use origin='signed'."
            )
        return replace(
            others,
            directions=nodes.directions.followed_by(others.directions),
            radii=np.concatenate([nodes.radii, others.radii]),
            weights=np.concatenate([nodes.weights * share, others.weights * (1.0 - share)]),
            origin_weight=origin_weight,
            has_origin_column=nodes.has_origin_column,
        )

    def with_signed_origin(self: Self) -> Self:
        """Return the rule with a possibly negative origin weight and no column for the origin."""
        return self

    def isotropic_spectrum(self, kernel: Kernel) -> IsotropicSpectrum:
        """Return the kernel's spectrum, or raise an error if it is not isotropic."""
        spectrum = kernel.spectrum
        if not spectrum.is_isotropic:
            raise self.unsupported(
                kernel,
                "whose spectrum is not isotropic: use MonteCarlo() (rule='rff') or "
                "QuasiMonteCarlo() (rule='halton').",
            )
        return cast(IsotropicSpectrum, spectrum)

    def groups(self, layout: Layout, per_block: int = 1) -> list[Group]:
        """Group the nodes into complete blocks and the rest, each with its share of the weight.

        All nodes form one group if all blocks are complete or ``remainder`` is 1.
        """
        n_nodes = layout.n_nodes
        whole, rest = self.whole_and_rest(layout, per_block)
        if self.remainder == 1 or not whole or not rest:
            return [Group(slice(0, n_nodes), 1.0)]
        share = self.remainder * rest / (whole + self.remainder * rest)
        return [Group(slice(0, whole), 1.0 - share), Group(slice(whole, n_nodes), share)]

    def obstacle_to_growth(self) -> str | None:
        """Return why nodes cannot be added to those of this rule, or ``None`` if they can.

        They cannot be added if the existing nodes depend on the number of nodes.
        """
        return None

    def nodes_per_block(self, d: int) -> int:
        """Return the number of nodes in a complete block in ``d`` dimensions."""
        return 1

    def whole_and_rest(self, layout: Layout, per_block: int) -> tuple[int, int]:
        """Return the number of nodes in complete blocks and the number of other nodes.

        If no block is complete, count all nodes except a last one with a single column.
        """
        nodes = layout.n_nodes - layout.last_is_single
        whole = nodes // per_block * per_block or nodes
        return whole, layout.n_nodes - whole

    def unsupported(self, kernel: Kernel, reason: str) -> ValueError:
        """Return an error that names the rule, the kernel, the reason and an alternative."""
        return ValueError(
            f"{check.one_line(self)} does not support {check.one_line(kernel)}, {reason}"
        )


def equal_weights(groups: list[Group]) -> Float64Array:
    """Return equal weights for the nodes within each group."""
    return np.concatenate([np.full(group.size, group.share / group.size) for group in groups])


def equally_weighted(frequencies: Float64Array, groups: list[Group]) -> Draw:
    """Return nodes at these frequencies, with equal weights within each group."""
    radii = np.ones(len(frequencies))
    return Draw(DenseDirections(frequencies), radii, equal_weights(groups))
