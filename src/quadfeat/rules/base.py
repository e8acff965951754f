"""The contract of a quadrature rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.engine import reference as reference
from quadfeat.kernels import Kernel
from quadfeat.kernels.spectra import IsotropicSpectrum
from quadfeat.rules.nodes import DenseDirections, Directions, Layout, Nodes

MOST_REDRAWS = 1000


@dataclass(frozen=True)
class Draw:
    """Directions, radii and weights as a rule has drawn them."""

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


class Rule(BaseEstimator, ABC):
    """Base of the quadrature rules.

    Subclasses have a parameter ``reflect``, may have a parameter ``remainder`` and implement
    :meth:`_draw`.
    """

    reflect: bool
    remainder: float = 1.0

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
        drawn = self._draw(check.check_count(d, "d"), layout, kernel, rng)
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
    def _draw(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        """Draw ``layout.n_nodes`` nodes in ``d`` dimensions."""

    def _isotropic_spectrum(self, kernel: Kernel) -> IsotropicSpectrum:
        """Return the kernel's spectrum, or say why this rule cannot use it."""
        spectrum = kernel.spectrum
        if not isinstance(spectrum, IsotropicSpectrum):
            raise self._refusal(
                kernel,
                "whose spectrum is not the same in all directions: use MonteCarlo() (rule='rff') "
                "or QuasiMonteCarlo() (rule='halton').",
            )
        return spectrum

    def _groups(self, layout: Layout, per_block: int = 1) -> list[Group]:
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
        """Return why nodes cannot be added to those of this rule, if they cannot."""
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

    def _refusal(self, kernel: Kernel, reason: str) -> ValueError:
        """Return the error that names rule and kernel, why they do not fit, and a way out."""
        return ValueError(f"{check.one_line(self)} cannot serve {check.one_line(kernel)}, {reason}")


def equal_weights(groups: list[Group]) -> Float64Array:
    """Return the weights of nodes that are equal in each group."""
    return np.concatenate([np.full(group.size, group.share / group.size) for group in groups])


def equally_weighted(frequencies: Float64Array, groups: list[Group]) -> Draw:
    """Return nodes given by their frequencies, with weights that are equal in each group."""
    radii = np.ones(len(frequencies))
    return Draw(DenseDirections(frequencies), radii, equal_weights(groups))
