r"""Where the nodes go: quadrature rules for ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``.

A rule is a small scikit-learn object. ``rule.draw(d, n, kernel, rng)`` draws the nodes of a map
with ``n`` columns. The names of the literature are presets of these few classes:

=================== ============================================================================
name                rule
=================== ============================================================================
``sr33``            ``SphericalRadial()``
``rff``             ``MonteCarlo()``
``orf``             ``SphericalRadial(directions="orthoplex", tilt=0.0, rotation=Haar())``
``rom``, ``sorf``   ``SphericalRadial(directions="orthoplex", tilt=0.0, radii="constant",
                    rotation=Hadamard())``
``halton``          ``QuasiMonteCarlo(sequence="halton")``
``sobol``           ``QuasiMonteCarlo(sequence="sobol")``
``gauss-hermite``   ``GaussHermite()``
``fastfood``        ``Fastfood()``
=================== ============================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat._utils.random import child
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference
from quadfeat.kernels import Kernel
from quadfeat.kernels.spectra import IsotropicSpectrum
from quadfeat.rotations import (
    Butterfly,
    DrawnMatrices,
    Rotation,
    power_of_two,
    random_signs,
)
from quadfeat.rules.nodes import DenseDirections, Directions, Layout, Nodes, TurnedVertices

__all__ = [
    "Fastfood",
    "GaussHermite",
    "MonteCarlo",
    "QuasiMonteCarlo",
    "Rule",
    "SphericalRadial",
]

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


def _equal_weights(groups: list[Group]) -> Float64Array:
    """Return the weights of nodes that are equal in each group."""
    return np.concatenate([np.full(group.size, group.share / group.size) for group in groups])


def _equally_weighted(frequencies: Float64Array, groups: list[Group]) -> Draw:
    radii = np.ones(len(frequencies))
    return Draw(DenseDirections(frequencies), radii, _equal_weights(groups))


class MonteCarlo(Rule):
    """Independent random nodes: random Fourier features (RFF), the rule SR(1,1).

    Unbiased, for every kernel.

    Parameters
    ----------
    reflect : bool, default=True
        Use each node with its reflection where ``f(w) != f(-w)``, as SR(1,1) does: two columns a
        node. For arc-cosine kernels this is never worse at equal columns, since the two are never
        both nonzero. The published baselines do without. Makes no difference to stationary kernels.
    remainder : float from 0 to 1, default=1.0
        Weight of a column that stands alone, relative to the others; see
        :class:`SphericalRadial`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import MonteCarlo
    >>> X = [[0.0, 1.0], [1.0, 0.0]]
    >>> QuadratureFeatures(rule=MonteCarlo(), n_components=64).fit_transform(X).shape
    (2, 64)
    """

    def __init__(self, *, reflect: bool = True, remainder: float = 1.0) -> None:
        self.reflect = reflect
        self.remainder = remainder

    def _draw(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        spectrum = kernel.spectrum
        uniforms = rng.random((layout.n_nodes, spectrum.n_uniforms(d)))
        return _equally_weighted(spectrum.frequencies(uniforms, d), self._groups(layout))


class QuasiMonteCarlo(Rule):
    """Scrambled low-discrepancy points through the inverse distribution function.

    Unbiased, for every kernel, because each scrambled point is uniform. Best in low dimension with
    many nodes. Kernels that are scale mixtures (Matern, rational quadratic) take one coordinate
    more than the input has.

    With ``matched=True`` the nodes are stretched by a symmetric matrix until their second moments
    are those of the kernel's frequencies. The rule is then exact on polynomials of degree 3, as
    SR(3,3) is, and keeps the low discrepancy; its bias vanishes as nodes become many.

    Parameters
    ----------
    sequence : {"halton", "sobol"}, default="halton"
        Sobol points are at their best when the number of nodes is a power of two, and exist for up
        to 21201 coordinates. Halton points need memory that grows faster than ``d^2`` (gigabytes
        for some thousands of columns).
    matched : bool, default=False
        Make the second moments exact. Needs at least as many whole nodes as the input has columns,
        and a kernel whose frequencies have second moments (not Laplacian, nor Matern up to
        ``nu = 1``).
    reflect : bool, default=True
        Use each node with its reflection where ``f(w) != f(-w)``; see :class:`MonteCarlo`.
    remainder : float from 0 to 1, default=1.0
        Weight of a column that stands alone, relative to the others; see
        :class:`SphericalRadial`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import QuasiMonteCarlo
    >>> rule = QuasiMonteCarlo(sequence="sobol")
    >>> X = [[0.0, 1.0], [1.0, 0.0]]
    >>> QuadratureFeatures(rule=rule, n_components=64).fit_transform(X).shape
    (2, 64)
    """

    def __init__(
        self,
        *,
        sequence: str = "halton",
        matched: bool = False,
        reflect: bool = True,
        remainder: float = 1.0,
    ) -> None:
        self.sequence = sequence
        self.matched = matched
        self.reflect = reflect
        self.remainder = remainder

    def _draw(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        check.check_choice(self.sequence, "sequence", ("halton", "sobol"))
        matched = check.check_flag(self.matched, "matched")
        spectrum = kernel.spectrum
        coordinates = spectrum.n_uniforms(d)
        # SciPy would spawn a generator from rng whatever its state, on which nodes have to depend.
        scrambling = child(rng)
        if self.sequence == "halton":
            points = qmc.Halton(coordinates, scramble=True, rng=scrambling).random(layout.n_nodes)
        else:
            if coordinates > qmc.Sobol.MAXDIM:
                raise self._refusal(
                    kernel,
                    f"which takes {coordinates} coordinates on this data, since there are Sobol "
                    f"points of {qmc.Sobol.MAXDIM} at most: use MonteCarlo() (rule='rff').",
                )
            # Drawn to the next power of two and cut: SciPy warns about any other number.
            sobol = qmc.Sobol(coordinates, scramble=True, rng=scrambling)
            points = sobol.random_base2((layout.n_nodes - 1).bit_length())[: layout.n_nodes]
        frequencies = spectrum.frequencies(points, d)
        groups = self._groups(layout)
        if matched:
            frequencies = frequencies @ self._stretch(frequencies[groups[0].nodes], kernel)
        return _equally_weighted(frequencies, groups)

    def obstacle_to_growth(self) -> str | None:
        if self.matched:
            return "matched nodes all change with their number; use matched=False."
        return None

    def _stretch(self, frequencies: Float64Array, kernel: Kernel) -> Float64Array:
        """Return the matrix after which nodes have the second moments of the spectrum."""
        n_nodes, d = frequencies.shape
        wanted = self._isotropic_spectrum(kernel).moment(d, 1.0) / d
        if not np.isfinite(wanted):
            raise self._refusal(
                kernel, "whose frequencies have no second moments: use matched=False."
            )
        if n_nodes < d:
            raise self._refusal(
                kernel,
                f"since {n_nodes} whole nodes cannot have the second moments of {d} columns: use "
                "matched=False or more components.",
            )
        moments, vectors = np.linalg.eigh(frequencies.T @ frequencies / n_nodes)
        if moments[0] <= d * np.finfo(np.float64).eps * moments[-1]:
            raise self._refusal(
                kernel,
                f"since its {n_nodes} nodes lie in fewer than {d} dimensions: use matched=False or "
                "more components.",
            )
        return np.asarray((vectors * np.sqrt(wanted / moments)) @ vectors.T)


class GaussHermite(Rule):
    r"""Points of a product Gauss-Hermite grid, drawn by their weights and then weighted equally.

    The subsampled dense grid of Dao, De Sa and Re. Each coordinate of a node is one of ``degree``
    Gauss-Hermite nodes, so the law of a coordinate has the moments of a Gaussian up to order
    ``2 degree - 1`` only: biased where the kernel is narrow. Far out, where the Gaussian kernel is
    0.0111, ``make bias`` found a bias of -1.0011 for degree 2, -0.4966 for degree 4 and -0.0097
    for degree 8 (d = 4, difference along an axis).

    Parameters
    ----------
    degree : int, default=8
        Grid points per coordinate, from 2 to 128.
    reflect : bool, default=True
        Use each node with its reflection where ``f(w) != f(-w)``; see :class:`MonteCarlo`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import GaussHermite
    >>> X = [[0.0, 1.0], [1.0, 0.0]]
    >>> QuadratureFeatures(rule=GaussHermite(4), n_components=64).fit_transform(X).shape
    (2, 64)
    """

    def __init__(self, degree: int = 8, *, reflect: bool = True) -> None:
        self.degree = degree
        self.reflect = reflect

    def _draw(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        degree = check.check_count(self.degree, "degree", minimum=2)
        if degree > 128:
            raise ValueError(f"degree={degree} is not valid: give at most 128, which is plenty.")
        spectrum = self._isotropic_spectrum(kernel)
        grid, weights = np.polynomial.hermite_e.hermegauss(degree)
        normals = rng.choice(grid, size=(layout.n_nodes, d), p=weights / weights.sum())
        mixing = rng.random((layout.n_nodes, spectrum.n_mixing))
        return _equally_weighted(spectrum.spread(normals, mixing), self._groups(layout))


class Fastfood(Rule):
    r"""Gaussian nodes by products of diagonal, permutation and Hadamard matrices.

    In each block, :math:`H G \Pi H B` with random signs ``B``, a permutation and Gaussian diagonal
    ``G`` on input padded to a power of two; rows are brought to independent radii. Each single node
    has exactly the right law, so the estimate is unbiased; the nodes of a block are
    dependent but not orthogonal, so its error is about that of ``MonteCarlo``.
    ``O(d)`` state and ``O(d log d)`` time for ``d`` nodes.

    Parameters
    ----------
    reflect : bool, default=True
        Use each node with its reflection where ``f(w) != f(-w)``; see :class:`MonteCarlo`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import Fastfood
    >>> X = [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]]
    >>> QuadratureFeatures(rule=Fastfood(), n_components=64).fit_transform(X).shape
    (2, 64)
    """

    def __init__(self, *, reflect: bool = True) -> None:
        self.reflect = reflect

    def nodes_per_block(self, d: int) -> int:
        return power_of_two(d)

    def _draw(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        spectrum = self._isotropic_spectrum(kernel)
        p, n_nodes = power_of_two(d), layout.n_nodes
        shape = (math.ceil(n_nodes / p), p)
        gaussian = rng.standard_normal(shape)
        gaussian *= math.sqrt(p) / np.linalg.norm(gaussian, axis=1, keepdims=True)
        order = np.broadcast_to(np.arange(p, dtype=np.int32), shape)
        matrices = FastfoodMatrices(
            random_signs(rng, shape), rng.permuted(order, axis=-1), gaussian
        )
        radii = spectrum.radii(rng.random((n_nodes, spectrum.n_radial)), p)
        directions = TurnedVertices(matrices, simplex=False, d=d, count=n_nodes)
        return Draw(directions, radii, np.full(n_nodes, 1.0 / n_nodes))


@dataclass(frozen=True, eq=False)
class FastfoodMatrices(DrawnMatrices):
    """Matrices with unit columns ``B H P G H``, held as three diagonals or permutations."""

    signs: Array  # (count, p)
    permutations: Array  # (count, p)
    gaussian: Float64Array  # (count, p), of norm sqrt(p)

    @property
    def count(self) -> int:
        return self.signs.shape[0]

    @property
    def size(self) -> int:
        return self.signs.shape[1]

    def turn(self, columns: Array) -> Array:
        mixed = reference.walsh_hadamard(columns * self.signs[:, :, None])
        shuffled = mixed[np.arange(self.count)[:, None], self.permutations]
        gaussian = self.gaussian.astype(columns.dtype, copy=False)
        return reference.walsh_hadamard(shuffled * gaussian[:, :, None])

    def structure(self) -> dict[str, Any] | None:
        in_order = np.broadcast_to(np.arange(self.size, dtype=np.int32), self.signs.shape)
        return {
            "structure": "hadamard",
            "rounds": 2,
            "diagonals": np.stack([self.signs, self.gaussian], axis=1) / math.sqrt(self.size),
            "permutations": np.stack([in_order, self.permutations], axis=1),
        }


class SphericalRadial(Rule):
    r"""Randomly turned vertices of a simplex or orthoplex, with radii and weights that fit.

    In ``d`` dimensions and with :math:`m_t = E[\rho^{2t}]` of the kernel's radial law (for Gaussian
    weight :math:`\rho \sim \chi(d)`), ``M`` nodes have

    ============ ============================== ============================ =======================
    tilt         radius                         weight                       origin
    ============ ============================== ============================ =======================
    0            :math:`\chi(d)`                :math:`1/M`                  none: degree 1 (ORF)
    1            :math:`\chi(d+2)`              :math:`d / (M \rho^2)`       degree 3, SR(3,3)
    ``0 < t<1``  :math:`\chi(d+2t)`             :math:`m_t / (M \rho^{2t})`  between the two
    ``"exact"``  1                              :math:`m_b / M`              none
    ``"fixed"``  :math:`\sqrt{d+2}`             :math:`d / ((d+2) M)`        biased
    ============ ============================== ============================ =======================

    and the origin weight :math:`\omega_0 = 1 - \sum_j \omega_j` where there is one. With ``tilt=1``
    and whole blocks, each single draw integrates all polynomials of degree 3 exactly. ``"exact"``
    is for nonlinearities that are homogeneous of some order ``b`` (arc-cosine), where the radius
    integrates out.

    Unbiased with ``origin="signed"``, any number as ``tilt`` (or ``"exact"``), radii that are
    drawn, and a rotation whose columns are uniform: Haar, Householder, or Butterfly (for ``d`` not
    a power of two up to some 0.0005, see there).

    What is not unbiased, as ``make bias`` found it for maps of one block, where the Gaussian kernel
    is 0.1353 (difference along an axis, standard errors below 0.003):

    ==================================== ======= ======= =======
    bias                                 d = 4   d = 16  d = 64
    ==================================== ======= ======= =======
    ``rotation=Hadamard()``, ``tilt=0``  -0.1431 -0.0034 -0.0005
    ``radii="constant"``, ``tilt=0``     -0.1689 -0.0356 -0.0097
    both (ROM)                           -0.3032 -0.0404 -0.0092
    ``tilt="fixed"``                     +0.1118 +0.0374 +0.0088
    ``origin="resample"``                +0.0958 +0.0369 +0.0093
    ``origin="renormalise"``             -0.0542 -0.0023 +0.0000
    ==================================== ======= ======= =======

    Nearer, where the kernel is 0.9048, ``"fixed"`` has no bias that shows in four digits, and
    ``"resample"`` one of +0.0006, +0.0003 and +0.0001; that of ``"renormalise"`` is -0.0108,
    -0.0007 and below 0.0001.

    Whole blocks are ``d + 1`` nodes (``d`` for the orthoplex). The nodes of an incomplete last
    block are not spread evenly over all directions, and a column that stands alone has the noise of
    its phase: on wide kernels either may spoil what whole blocks integrate exactly. ``remainder``
    weighs them down; ``rule="auto"`` finds by how much.

    Parameters
    ----------
    directions : {"simplex", "orthoplex"}, default="simplex"
        ``d + 1`` or ``d`` directions a block.
    tilt : float from 0 to 1, "exact" or "fixed", default=1.0
        The radial rule. 0 suits narrow kernels, 1 wide ones. From ``d / 2`` on the weights have
        infinite variance, which draws a warning.
    radii : {"independent", "stratified", "shared", "constant"}, default="independent"
        A radius of its own for each node; one from each of ``M`` equally likely slices, in random
        order, which makes the origin weight tiny; one for each block; or, as in ROM, the root mean
        square :math:`\sqrt{d+2t}` of the chi law for all nodes (biased; kernels that are scale
        mixtures, such as Matern, still draw the scale).
    origin : {"resample", "signed", "renormalise", "match"}, default="resample"
        What to do with ``omega_0``, which may be negative. ``"resample"`` draws all radii again
        until it is not, and gives it a column (none where ``phi(0) = 0``). ``"signed"`` leaves
        radii as drawn: ``approximate_kernel`` adds the constant, ``transform`` has no column for it
        (a model with an intercept does not miss it). ``"renormalise"`` makes the other weights sum
        to 1. ``"match"`` does so too and stretches all radii by a common factor so that their
        second moment is right: then whole blocks with ``tilt=1`` stay exact to degree 3 without an
        origin. All come to the same where there is nothing at the origin: ``tilt=0`` (but
        ``"match"`` stretches), ``"exact"``, or ``phi(0) = 0``.
    rotation : Rotation, default=None
        How blocks are turned; ``None`` is ``Butterfly()``.
    reflect : bool, default=True
        Use each node with its reflection where ``f(w) != f(-w)``; see :class:`MonteCarlo`. Without
        it no rule here is exact on polynomials of odd degree.
    remainder : float from 0 to 1, default=1.0
        Weight of what remains behind whole blocks (the nodes of an incomplete block, a column that
        stands alone), relative to the others: 1 is the same weight and 0 none. Radii are stratified
        among whole blocks and among what remains. Where there is no whole block, only a column that
        stands alone remains.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.kernels import ArcCosine
    >>> from quadfeat.rules import SphericalRadial
    >>> X = load_digits().data[:200]
    >>> rule = SphericalRadial(tilt="exact")
    >>> features = QuadratureFeatures(ArcCosine(order=0), rule=rule, random_state=0).fit(X)
    >>> error = features.approximate_kernel(X) - features.kernel_(X)
    >>> bool(abs(error).mean() < 0.02)
    True
    """

    def __init__(
        self,
        *,
        directions: str = "simplex",
        tilt: float | str = 1.0,
        radii: str = "independent",
        origin: str = "resample",
        rotation: Rotation | None = None,
        reflect: bool = True,
        remainder: float = 1.0,
    ) -> None:
        self.directions = directions
        self.tilt = tilt
        self.radii = radii
        self.origin = origin
        self.rotation = rotation
        self.reflect = reflect
        self.remainder = remainder

    def has_origin(self, kernel: Kernel) -> bool:
        wanted = self.origin == "resample" and self._has_weight_at_origin
        return wanted and kernel.nonlinearity.at_zero != 0

    def _draw(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        self._check_parameters()
        spectrum = self._isotropic_spectrum(kernel)
        rotation = self._chosen_rotation
        p, n_nodes = rotation.size(d), layout.n_nodes  # from here on, p is the dimension
        self._check_moments(spectrum, p, kernel)

        simplex = self.directions == "simplex"
        per_block = self.nodes_per_block(d)
        n_blocks = math.ceil(n_nodes / per_block)
        matrices = rotation.draw(d, rng, n_blocks)
        directions = TurnedVertices(matrices, simplex=simplex, d=d, count=n_nodes)

        groups = self._groups(layout, per_block)
        if self.tilt == "exact":
            order = kernel.nonlinearity.homogeneity
            assert order is not None  # _check_moments has seen to it
            moment = spectrum.moment(p, order)
            return Draw(directions, np.ones(n_nodes), moment * _equal_weights(groups))

        for _ in range(MOST_REDRAWS):
            drawn = [self._draw_group(spectrum, p, group, per_block, rng) for group in groups]
            radii, weights = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
            origin_weight = 1.0 - float(weights.sum()) if self._has_weight_at_origin else 0.0
            if not layout.has_origin_column or origin_weight >= 0:
                break
        else:
            raise RuntimeError(
                f"{check.one_line(self)} found no radii with an origin weight >= 0 in "
                f"{MOST_REDRAWS} draws: use origin='signed' or radii='stratified'."
            )
        # A single column leaves no room for the origin's.
        crowded_out = self.has_origin(kernel) and not layout.has_origin_column
        if crowded_out or (self.origin == "renormalise" and kernel.nonlinearity.at_zero != 0):
            weights, origin_weight = weights / weights.sum(), 0.0
        return Draw(directions, radii, weights, origin_weight)

    def obstacle_to_growth(self) -> str | None:
        if self.tilt == "exact":
            return None
        if self.radii == "stratified":
            return "stratified radii all change with their number; use radii='independent'."
        if self.origin == "match" or (self.origin == "renormalise" and self.tilt != 0):
            return f"origin={self.origin!r} changes all weights; use 'resample' or 'signed'."
        return None

    def nodes_per_block(self, d: int) -> int:
        size = self._chosen_rotation.size(d)
        return size + 1 if self.directions == "simplex" else size

    @property
    def _chosen_rotation(self) -> Rotation:
        return Butterfly() if self.rotation is None else self.rotation

    @property
    def _has_weight_at_origin(self) -> bool:
        """Whether there is something left of the weight for the origin."""
        return self.tilt != "exact" and self.tilt != 0 and self.origin != "match"

    def _draw_group(
        self,
        spectrum: IsotropicSpectrum,
        p: int,
        group: Group,
        per_block: int,
        rng: np.random.Generator,
    ) -> tuple[Float64Array, Float64Array]:
        """Draw the radii and weights of a group of nodes."""
        radii = self._draw_radii(spectrum, p, group.size, per_block, rng)
        exponent = self._exponent
        weights = spectrum.moment(p, exponent) / (group.size * radii ** (2 * exponent))
        if self.origin == "match":
            weights /= weights.sum()
            radii *= math.sqrt(spectrum.moment(p, 1.0) / float(weights @ radii**2))
        return radii, weights * group.share

    @property
    def _exponent(self) -> float:
        """The number ``t`` by which the radial law is tilted."""
        return 1.0 if isinstance(self.tilt, str) else float(self.tilt)

    def _draw_radii(
        self,
        spectrum: IsotropicSpectrum,
        p: int,
        n_nodes: int,
        per_block: int,
        rng: np.random.Generator,
    ) -> Float64Array:
        t = self._exponent
        if self.tilt == "fixed":
            return np.full(n_nodes, math.sqrt(spectrum.moment(p, 2.0) / spectrum.moment(p, 1.0)))
        if self.radii == "constant":
            return np.sqrt(
                (p + 2 * t) * spectrum.mixing(rng.random((n_nodes, spectrum.n_mixing)), t)
            )
        if self.radii == "stratified":
            # As above: SciPy would not look at the state of rng.
            hypercube = qmc.LatinHypercube(spectrum.n_radial, rng=child(rng))
            return spectrum.radii(hypercube.random(n_nodes), p, t)
        if self.radii == "shared":
            n_blocks = math.ceil(n_nodes / per_block)
            shared = spectrum.radii(rng.random((n_blocks, spectrum.n_radial)), p, t)
            return np.repeat(shared, per_block)[:n_nodes]
        return spectrum.radii(rng.random((n_nodes, spectrum.n_radial)), p, t)

    def _check_parameters(self) -> None:
        check.check_choice(self.directions, "directions", ("simplex", "orthoplex"))
        check.check_choice(self.radii, "radii", ("independent", "stratified", "shared", "constant"))
        check.check_choice(self.origin, "origin", ("resample", "signed", "renormalise", "match"))
        if isinstance(self.tilt, str):
            check.check_choice(self.tilt, "tilt", ("exact", "fixed"))
            if self.radii != "independent":
                raise ValueError(
                    f"radii={self.radii!r} has nothing to act on, since tilt={self.tilt!r} draws "
                    "no radii: leave radii at its default, or give tilt a number from 0 to 1."
                )
        elif not check.is_number(self.tilt) or not 0 <= self.tilt <= 1:
            raise ValueError(
                f"tilt={self.tilt!r} is not valid: give a number from 0 to 1, 'exact' or 'fixed'."
            )
        if self.rotation is not None and not isinstance(self.rotation, Rotation):
            raise TypeError(
                f"rotation={self.rotation!r} is not valid: give an object from "
                "quadfeat.rotations, such as Butterfly()."
            )

    def _check_moments(self, spectrum: IsotropicSpectrum, p: int, kernel: Kernel) -> None:
        """Say so where the kernel has not the property that this radial rule stands on."""
        if self.tilt == "exact":
            if kernel.nonlinearity.homogeneity is None:
                raise self._refusal(
                    kernel,
                    "whose nonlinearity is not homogeneous: use "
                    "SphericalRadial(directions='orthoplex', tilt=0.0) (rule='orf').",
                )
            return
        t = self._exponent
        needed = 2.0 if self.tilt == "fixed" else 1.0 if self.origin == "match" else t
        if not np.isfinite(spectrum.moment(p, needed)):
            raise self._refusal(
                kernel,
                f"whose radial law has no moment of order {2 * needed:g}: use "
                "SphericalRadial(directions='orthoplex', tilt=0.0) (rule='orf').",
            )
        # If phi falls to 0 like a power of at least t, the weights near the origin do not matter.
        order = kernel.nonlinearity.homogeneity
        if self.tilt == "fixed" or (order is not None and order >= t):
            return
        constant = self.radii == "constant"
        inverse = spectrum.mixing_moment(-t) if constant else spectrum.moment(p, -t)
        if not np.isfinite(inverse):
            check.warn_user(
                f"the weights of {check.one_line(self)} have infinite variance for "
                f"{check.one_line(kernel)} on {p} column(s), so its error may vary wildly where "
                "the kernel is narrow: use tilt=0.0 (rule='orf') or rule='halton' there.",
            )
