"""Turned vertices of a simplex or orthoplex: the rules of the paper."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import qmc
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.random import child
from quadfeat._utils.validation import Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.rotations import (
    Butterfly,
    Rotation,
)
from quadfeat.rules.base import MOST_REDRAWS, BlockDescription, Draw, Group, Rule
from quadfeat.rules.nodes import Layout, TurnedVertices
from quadfeat.rules.radial import RadialProblem, RadialRule, as_radial_rule


@register
class SphericalRadial(Rule):
    r"""Randomly turned vertices of a simplex or orthoplex, with radii and weights that fit.

    In ``d`` dimensions and with :math:`m_t = E[\rho^{2t}]` of the lengths of the kernel's
    frequencies (for Gaussian ones :math:`\rho \sim \chi(d)`), ``M`` nodes have

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
    tilt : float from 0 to 1, "exact", "fixed" or RadialRule, default=1.0
        The radial rule. 0 suits narrow kernels, 1 wide ones. From ``d / 2`` on the weights have
        infinite variance, which draws a warning. Numbers and strings are short forms of the
        objects in :mod:`quadfeat.rules.radial`.
    radii : {"independent", "stratified", "shared", "constant"}, default="independent"
        A radius of its own for each node; one from each of ``M`` equally likely slices, in random
        order, which makes the origin weight tiny; one for each block; or, as in ROM, the root mean
        square :math:`\sqrt{d+2t}` of the chi distribution for all nodes (biased; kernels that are
        scale mixtures, such as Matern, still draw the scale).
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
        tilt: float | str | RadialRule = 1.0,
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
        wanted = self.origin == "resample" and self.radial_rule.has_origin_weight
        return wanted and kernel.nonlinearity.at_zero != 0

    def draw_nodes(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        self._check_parameters()
        radial = self.radial_rule
        spectrum = self.isotropic_spectrum(kernel)
        rotation = self._chosen_rotation
        n_nodes = layout.n_nodes
        problem = RadialProblem(spectrum, kernel.nonlinearity, rotation.size(d))
        self._check_moments(problem, kernel)

        simplex = self.directions == "simplex"
        per_block = self.nodes_per_block(d)
        n_blocks = math.ceil(n_nodes / per_block)
        matrices = rotation.draw(d, rng, n_blocks)
        directions = TurnedVertices(matrices, simplex=simplex, d=d, count=n_nodes)

        groups = self.groups(layout, per_block)
        has_origin_weight = radial.has_origin_weight and not self._matches
        for _ in range(MOST_REDRAWS):
            drawn = [self._draw_group(problem, group, per_block, rng) for group in groups]
            radii, weights = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
            origin_weight = 1.0 - float(weights.sum()) if has_origin_weight else 0.0
            if not layout.has_origin_column or origin_weight >= 0:
                break
        else:
            raise RuntimeError(
                f"{check.one_line(self)} found no radii with an origin weight >= 0 in "
                f"{MOST_REDRAWS} draws: use origin='signed' or radii='stratified'."
            )
        # A single column leaves no room for the origin's.
        crowded_out = self.has_origin(kernel) and not layout.has_origin_column
        renormalizes = self.origin == "renormalise" and radial.is_normalized
        if crowded_out or (renormalizes and kernel.nonlinearity.at_zero != 0):
            weights, origin_weight = weights / weights.sum(), 0.0
        return Draw(directions, radii, weights, origin_weight)

    def obstacle_to_growth(self) -> str | None:
        radial = self.radial_rule
        if not radial.is_normalized:
            return None
        if self.radii == "stratified":
            return "stratified radii all change with their number; use radii='independent'."
        if self.origin == "match" or (self.origin == "renormalise" and radial.has_origin_weight):
            return f"origin={self.origin!r} changes all weights; use 'resample' or 'signed'."
        return None

    def nodes_per_block(self, d: int) -> int:
        size = self._chosen_rotation.size(d)
        return size + 1 if self.directions == "simplex" else size

    def is_fast(self, d: int) -> bool:
        return super().is_fast(d) or self._chosen_rotation.is_fast

    def with_signed_origin(self) -> SphericalRadial:
        return clone(self).set_params(origin="signed")

    def describe_block(self, d: int, kernel: Kernel) -> BlockDescription | None:
        radial, rotation = self.radial_rule, self._chosen_rotation
        has_form = kernel.is_stationary and kernel.spectrum.is_isotropic and radial.is_normalized
        is_drawn = self.radii in ("independent", "stratified")
        if not (has_form and is_drawn and rotation.is_uniform and rotation.size(d) == d):
            return None
        spectrum = self.isotropic_spectrum(kernel)
        problem = RadialProblem(spectrum, kernel.nonlinearity, d)
        radii, weights = radial.equally_likely(problem)
        return BlockDescription(
            cosine=-1.0 / d if self.directions == "simplex" else 0.0,
            radii=radii,
            weights=weights,
            # Radii of several numbers are stratified in each of them, which is less than in all.
            is_stratified=self.radii == "stratified" and spectrum.n_radial == 1,
            is_unbiased=radial.is_unbiased,
        )

    @property
    def radial_rule(self) -> RadialRule:
        """The radial rule that ``tilt`` stands for."""
        return as_radial_rule(self.tilt)

    @property
    def _chosen_rotation(self) -> Rotation:
        return Butterfly() if self.rotation is None else self.rotation

    @property
    def _matches(self) -> bool:
        """Whether radii are stretched to the right second moment."""
        return self.origin == "match" and self.radial_rule.is_normalized

    def _draw_group(
        self, problem: RadialProblem, group: Group, per_block: int, rng: np.random.Generator
    ) -> tuple[Float64Array, Float64Array]:
        """Draw the radii and weights of a group of nodes."""
        radial = self.radial_rule
        radii = self._draw_radii(problem, group.size, per_block, rng)
        if not self._matches:
            return radii, radial.weights(radii, group.share, problem)
        weights = radial.weights(radii, 1.0, problem)
        weights /= weights.sum()
        radii *= math.sqrt(problem.moment(1.0) / float(weights @ radii**2))
        return radii, weights * group.share

    def _draw_radii(
        self, problem: RadialProblem, n_nodes: int, per_block: int, rng: np.random.Generator
    ) -> Float64Array:
        radial, spectrum = self.radial_rule, problem.spectrum
        if not radial.draws_radii:
            return radial.radii(np.empty((n_nodes, 0)), problem)
        if self.radii == "constant":
            return radial.constant_radii(rng.random((n_nodes, spectrum.n_mixing)), problem)
        if self.radii == "stratified":
            # A generator made from rng: SciPy would not look at the state of rng itself.
            hypercube = qmc.LatinHypercube(spectrum.n_radial, rng=child(rng))
            return radial.radii(hypercube.random(n_nodes), problem)
        if self.radii == "shared":
            n_blocks = math.ceil(n_nodes / per_block)
            shared = radial.radii(rng.random((n_blocks, spectrum.n_radial)), problem)
            return np.repeat(shared, per_block)[:n_nodes]
        return radial.radii(rng.random((n_nodes, spectrum.n_radial)), problem)

    def _check_parameters(self) -> None:
        check.check_choice(self.directions, "directions", ("simplex", "orthoplex"))
        check.check_choice(self.radii, "radii", ("independent", "stratified", "shared", "constant"))
        check.check_choice(self.origin, "origin", ("resample", "signed", "renormalise", "match"))
        if not self.radial_rule.draws_radii and self.radii != "independent":
            raise ValueError(
                f"radii={self.radii!r} has nothing to act on, since tilt={self.tilt!r} draws "
                "no radii: leave radii at its default, or give tilt a number from 0 to 1."
            )
        check.check_kind(
            self._chosen_rotation,
            Rotation,  # type: ignore[type-abstract]
            f"rotation={self.rotation!r} is not valid: give an object from quadfeat.rotations, "
            "such as Butterfly().",
        )

    def _check_moments(self, problem: RadialProblem, kernel: Kernel) -> None:
        """Raise an error if the kernel lacks what the radial rule needs; warn if it is noisy."""
        radial = self.radial_rule
        reason = radial.obstacle(problem)
        if reason is None:
            needed = max(radial.highest_moment(problem), 1.0 if self._matches else 0.0)
            if not np.isfinite(problem.moment(needed)):
                reason = f"whose radial distribution has no moment of order {2 * needed:g}"
        if reason is not None:
            raise self.refusal(
                kernel,
                f"{reason}: use SphericalRadial(directions='orthoplex', tilt=0.0) (rule='orf').",
            )
        if not radial.has_finite_variance(problem, constant=self.radii == "constant"):
            check.warn_user(
                f"the weights of {check.one_line(self)} have infinite variance for "
                f"{check.one_line(kernel)} on {problem.d} column(s), so its error may vary wildly "
                "where the kernel is narrow: use tilt=0.0 (rule='orf') or rule='halton' there.",
            )
