"""The contract of a quadrature rule."""

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

MOST_REDRAWS = 1000

Self = TypeVar("Self", bound="Rule")


@dataclass(frozen=True)
class Draw:
    """Directions, radii and weights as a rule has drawn them.

    Attributes
    ----------
    directions : Directions
        Of ``n_nodes`` nodes. ``DenseDirections(matrix)`` holds any; they may have lengths of their
        own, with radii of 1.
    radii : array of shape (n_nodes,)
        The lengths of the nodes along their directions.
    weights : array of shape (n_nodes,)
        At least 0.
    origin_weight : float
        The weight of the value at the origin.
    """

    directions: Directions
    radii: Float64Array
    weights: Float64Array
    origin_weight: float = 0.0


@dataclass(frozen=True)
class Group:
    """Nodes that share a part of the weight."""

    nodes: slice
    share: float

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.nodes.stop - self.nodes.start


@dataclass(frozen=True)
class BlockDescription:
    """What closed forms of the error have to know about the nodes of a rule.

    Attributes
    ----------
    cosine : float
        The inner product of any two directions of a block, which is turned at random.
    radii, weights : arrays of shape (n_radii,)
        Equally likely radii in their order, and the weights of nodes relative to equal ones.
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

    A subclass defines :meth:`draw_nodes`; the other methods have defaults, which fit independent
    nodes. As in every scikit-learn object, ``__init__`` only assigns its parameters. With a
    parameter ``remainder``, take weights from :meth:`groups`.

    Attributes
    ----------
    reflect : bool
        Whether each node is used with its reflection where ``f(w) != f(-w)``.
    remainder : float from 0 to 1
        Weight of what remains behind whole blocks, relative to the others.
    grows_from_start : bool
        Whether a longer draw from the same state of the generator begins with the shorter one, as
        low-discrepancy sequences do. :meth:`grown` then gets the state before the first draw.
    """

    reflect: bool = True
    remainder: float = 1.0
    grows_from_start: bool = False

    def draw(self, d: int, n: int, kernel: Kernel, rng: np.random.Generator) -> Nodes:
        """Draw the nodes of a map with ``n`` columns.

        Parameters
        ----------
        d : int
            Width of the inputs.
        n : int
            Number of columns of the map, the origin's included.
        kernel : Kernel
            What is approximated.
        rng : numpy.random.Generator
            Where the randomness comes from.

        Returns
        -------
        Nodes
            Immutable.
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
        """Whether a map of this rule has a column for the origin, known before the draw."""
        return False

    @abstractmethod
    def draw_nodes(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        """Draw ``layout.n_nodes`` nodes in ``d`` dimensions.

        All randomness has to come from ``rng``. For a kernel that the rule cannot serve, raise
        :meth:`refusal`.
        """

    def is_fast(self, d: int) -> bool:
        """Return whether features of ``d`` columns cost less than a product with a dense matrix.

        Up to some width of the data nothing does, so that all rules are as fast.
        """
        return d <= core.DENSE_UP_TO

    def for_remainder(self: Self) -> Self:
        """Return the rule for the few nodes that remain behind whole blocks, drawn by themselves.

        ``rule="auto"`` uses it to find the best ``remainder``.
        """
        return self

    def describe_block(self, d: int, kernel: Kernel) -> BlockDescription | None:
        """Return what closed forms of the error need, if the rule has one for this kernel.

        ``rule="auto"`` tries out rules without a closed form.
        """
        return None

    def grown(self, nodes: Nodes, n: int, kernel: Kernel, rng: np.random.Generator) -> Nodes:
        """Return nodes for ``n`` columns that begin with the given ones, their weights scaled down.

        Parameters
        ----------
        nodes : Nodes
            Whole blocks that this rule has drawn for the kernel.
        n : int
            Number of columns of the larger map.
        kernel : Kernel
            What is approximated.
        rng : numpy.random.Generator
            In the state after the earlier draw, or before it if ``grows_from_start``.
        """
        if self.grows_from_start:
            return self.draw(nodes.directions.d, n, kernel, rng)
        layout = Layout.of(n, kernel, origin=nodes.has_origin_column, reflect=self.reflect)
        new_columns = n - nodes.n_columns(kernel)
        share = len(nodes.radii) / layout.n_nodes
        # The weight that is left for the origin is known only when all nodes are there.
        rule = self.with_signed_origin() if nodes.has_origin_column else self
        for _ in range(MOST_REDRAWS):
            others = rule.draw(nodes.directions.d, new_columns, kernel, rng)
            origin_weight = nodes.origin_weight * share + others.origin_weight * (1.0 - share)
            if not nodes.has_origin_column or origin_weight >= 0:
                break
        else:
            raise RuntimeError(
                f"{check.one_line(self)} found no radii with an origin weight >= 0 in "
                f"{MOST_REDRAWS} draws: use origin='signed'."
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
        """Return the rule without a column for the origin, whose weight may be negative."""
        return self

    def isotropic_spectrum(self, kernel: Kernel) -> IsotropicSpectrum:
        """Return the kernel's spectrum, or raise an error if it has no rotations."""
        spectrum = kernel.spectrum
        if not spectrum.is_isotropic:
            raise self.refusal(
                kernel,
                "whose spectrum is not the same in all directions: use MonteCarlo() (rule='rff') "
                "or QuasiMonteCarlo() (rule='halton').",
            )
        return cast(IsotropicSpectrum, spectrum)

    def groups(self, layout: Layout, per_block: int = 1) -> list[Group]:
        """Return the nodes of whole blocks and what remains, each with its share of the weight.

        All nodes are one group where nothing remains, or where what remains counts like the rest.
        """
        n_nodes = layout.n_nodes
        whole, rest = self.whole_and_rest(layout, per_block)
        if self.remainder == 1 or not whole or not rest:
            return [Group(slice(0, n_nodes), 1.0)]
        share = self.remainder * rest / (whole + self.remainder * rest)
        return [Group(slice(0, whole), 1.0 - share), Group(slice(whole, n_nodes), share)]

    def obstacle_to_growth(self) -> str | None:
        """Return why nodes cannot be added to those of this rule, if they cannot.

        Nodes that depend on how many there are cannot stay as they are.
        """
        return None

    def nodes_per_block(self, d: int) -> int:
        """Return how many nodes belong together in ``d`` dimensions."""
        return 1

    def whole_and_rest(self, layout: Layout, per_block: int) -> tuple[int, int]:
        """Return how many nodes are in whole blocks and how many remain.

        Where there is no whole block, whole nodes take its place.
        """
        nodes = layout.n_nodes - layout.last_is_single
        whole = nodes // per_block * per_block or nodes
        return whole, layout.n_nodes - whole

    def refusal(self, kernel: Kernel, reason: str) -> ValueError:
        """Return the error that names rule and kernel, why they do not fit, and a way out."""
        return ValueError(f"{check.one_line(self)} cannot serve {check.one_line(kernel)}, {reason}")


def equal_weights(groups: list[Group]) -> Float64Array:
    """Return the weights of nodes that are equal in each group."""
    return np.concatenate([np.full(group.size, group.share / group.size) for group in groups])


def equally_weighted(frequencies: Float64Array, groups: list[Group]) -> Draw:
    """Return nodes given by their frequencies, with weights that are equal in each group."""
    radii = np.ones(len(frequencies))
    return Draw(DenseDirections(frequencies), radii, equal_weights(groups))
