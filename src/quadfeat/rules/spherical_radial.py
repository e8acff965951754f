"""Draw rotated vertices of a simplex or orthoplex: the rules of the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import qmc
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.random import child
from quadfeat._utils.validation import Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import register
from quadfeat.io.pickles import VersionedState
from quadfeat.kernels import Kernel
from quadfeat.rotations import Butterfly, Rotation
from quadfeat.rules.base import MAX_REDRAWS, BlockDescription, Draw, Group, Rule
from quadfeat.rules.nodes import Layout, TurnedVertices
from quadfeat.rules.radial import RadialProblem, RadialRule, as_radial_rule


@register
class SphericalRadial(VersionedState, Rule):
    r"""Randomly rotated vertices of a simplex or orthoplex, with matching radii and weights.

    Let :math:`m_t = E[\rho^{2t}]`, where :math:`\rho` is the length of the kernel's random
    frequency in ``d`` dimensions (:math:`\rho \sim \chi(d)` for Gaussian frequencies). Then ``M``
    nodes have

    ============ ============================== ============================ =======================
    tilt         radius                         weight                       origin
    ============ ============================== ============================ =======================
    0            :math:`\chi(d)`                :math:`1/M`                  none: degree 1 (ORF)
    1            :math:`\chi(d+2)`              :math:`d / (M \rho^2)`       degree 3, SR(3,3)
    ``0 < t<1``  :math:`\chi(d+2t)`             :math:`m_t / (M \rho^{2t})`  between the two
    ``"exact"``  1                              :math:`m_b / M`              none
    ``"fixed"``  :math:`\sqrt{d+2}`             :math:`d / ((d+2) M)`        biased
    ============ ============================== ============================ =======================

    If there is an origin weight, it is :math:`\omega_0 = 1 - \sum_j \omega_j`. With ``tilt=1`` and
    complete blocks, every draw integrates all polynomials of degree 3 exactly. ``"exact"`` is for
    nonlinearities that are homogeneous of some order ``b`` (arc-cosine), whose radial integral is
    known.

    The rule is unbiased with ``origin="signed"``, any number or ``"exact"`` as ``tilt``, radii that
    are not ``"constant"``, and a rotation with uniform columns: Haar, Householder or Butterfly. If
    ``d`` is not a power of two, Butterfly has a small bias, which its docstring states.

    Other settings are biased. ``make bias`` measured the following for maps of one block and a
    Gaussian kernel of value 0.1353 (difference along an axis, standard errors below 0.003):

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

    For closer rows, where the kernel is 0.9048, ``"fixed"`` has no bias to four digits. The bias of
    ``"resample"`` is +0.0006, +0.0003 and +0.0001, and that of ``"renormalise"`` is -0.0108,
    -0.0007 and below 0.0001.

    A complete block has ``d + 1`` nodes (``d`` for the orthoplex). The nodes of an incomplete last
    block do not cover all directions evenly, and the random phase of a single last column adds
    noise. For wide kernels, both can dominate the small error of complete blocks. ``remainder``
    lowers their weight, and ``rule="auto"`` chooses its value.

    Parameters
    ----------
    directions : {"simplex", "orthoplex"}, default="simplex"
        A block has ``d + 1`` directions for the simplex and ``d`` for the orthoplex.
    tilt : float from 0 to 1, "exact", "fixed" or RadialRule, default=1.0
        The radial rule. 0 suits narrow kernels and 1 wide ones. If ``tilt >= d / 2``, the weights
        have infinite variance and a warning is issued. Numbers and strings are short forms of the
        objects in :mod:`quadfeat.rules.radial`.
    radii : {"independent", "stratified", "shared", "constant"}, default="independent"
        How radii are drawn.

        - ``"independent"``: one radius per node.
        - ``"stratified"``: one radius from each of ``M`` equally likely slices, in random order.
          This makes the origin weight tiny.
        - ``"shared"``: one radius per block.
        - ``"constant"``: the root mean square :math:`\sqrt{d+2t}` of the chi distribution for all
          nodes, as in ROM. This is biased. Kernels that are scale mixtures, such as Matern, still
          draw the scale.
    origin : {"resample", "signed", "renormalise", "match"}, default="resample"
        How to treat the origin weight ``omega_0``, which may be negative.

        - ``"resample"``: draw all radii again until it is not negative, and add a column for it
          (unless ``phi(0) = 0``).
        - ``"signed"``: keep the radii. ``approximate_kernel`` adds the constant, and ``transform``
          has no column for it. A model with an intercept does not need the column.
        - ``"renormalise"``: scale the other weights to sum to 1.
        - ``"match"``: scale the other weights to sum to 1, and all radii by a common factor to
          match their second moment. Complete blocks with ``tilt=1`` then stay exact to degree 3
          without an origin.

        All options except ``"match"`` are equivalent if the origin has no weight (``tilt=0`` or
        ``"exact"``) or ``phi(0) = 0``.
    rotation : Rotation, default=None
        The random rotation of blocks. ``None`` means ``Butterfly()``; ``rule="sr33"`` has the
        paper's ``Butterfly(rounds=3)``.
    reflect : bool, default=True
        Use each node together with its reflection if ``f(w) != f(-w)``; see :class:`MonteCarlo`.
        Without reflection, no rule here is exact for polynomials of odd degree.
    remainder : float from 0 to 1, default=1.0
        Weight of the nodes outside of complete blocks (those of an incomplete block and a last node
        with a single column), relative to the others: 1 is the same weight and 0 none. Radii are
        stratified separately for complete blocks and for these nodes. If no block is complete, it
        applies only to a last node with a single column.

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

    @staticmethod
    def migrate(attributes: dict[str, Any], found_format: int) -> dict[str, Any]:
        """Name the rotation that None meant in formats before 6."""
        if found_format < 6 and attributes["rotation"] is None:
            attributes = attributes | {"rotation": Butterfly(rounds=3)}
        return attributes

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
        for _ in range(MAX_REDRAWS):
            drawn = [self._draw_group(problem, group, per_block, rng) for group in groups]
            radii, weights = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
            origin_weight = 1.0 - float(weights.sum()) if has_origin_weight else 0.0
            if not layout.has_origin_column or origin_weight >= 0:
                break
        else:
            raise RuntimeError(
                f"{check.one_line(self)} drew radii {MAX_REDRAWS} times and the origin weight was "
                "always negative: use origin='signed' or radii='stratified'."
            )
        # With a single column there is no room for that of the origin.
        lacks_column = self.has_origin(kernel) and not layout.has_origin_column
        renormalizes = self.origin == "renormalise" and radial.is_normalized
        if lacks_column or (renormalizes and kernel.nonlinearity.at_zero != 0):
            weights, origin_weight = weights / weights.sum(), 0.0
        return Draw(directions, radii, weights, origin_weight)

    def obstacle_to_growth(self) -> str | None:
        radial = self.radial_rule
        if not radial.is_normalized:
            return None
        if self.radii == "stratified":
            return "stratified radii depend on the number of nodes; use radii='independent'."
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
            # Radii that need several uniforms are stratified in each one, but not jointly.
            is_stratified=self.radii == "stratified" and spectrum.n_radial == 1,
            is_unbiased=radial.is_unbiased,
        )

    @property
    def radial_rule(self) -> RadialRule:
        """The radial rule that ``tilt`` selects."""
        return as_radial_rule(self.tilt)

    @property
    def _chosen_rotation(self) -> Rotation:
        return Butterfly() if self.rotation is None else self.rotation

    @property
    def _matches(self) -> bool:
        """Whether radii are scaled to match their second moment."""
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
            # SciPy ignores the state of rng, so pass a generator that was seeded from it.
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
                f"radii={self.radii!r} has no effect, since tilt={self.tilt!r} draws no radii: "
                "leave radii at its default, or pass a number from 0 to 1 as tilt."
            )
        check.check_kind(
            self._chosen_rotation,
            Rotation,  # type: ignore[type-abstract]
            f"rotation={self.rotation!r} is not valid: pass an object from quadfeat.rotations, "
            "such as Butterfly().",
        )

    def _check_moments(self, problem: RadialProblem, kernel: Kernel) -> None:
        """Raise an error if the radial rule does not support the kernel; warn if it is noisy."""
        radial = self.radial_rule
        reason = radial.obstacle(problem)
        if reason is None:
            needed = max(radial.highest_moment(problem), 1.0 if self._matches else 0.0)
            if not np.isfinite(problem.moment(needed)):
                reason = f"whose radial distribution has no finite moment of order {2 * needed:g}"
        if reason is not None:
            raise self.unsupported(
                kernel,
                f"{reason}: use SphericalRadial(directions='orthoplex', tilt=0.0) (rule='orf').",
            )
        if not radial.has_finite_variance(problem, constant=self.radii == "constant"):
            check.warn_user(
                f"The weights of {check.one_line(self)} have infinite variance for "
                f"{check.one_line(kernel)} on {problem.d} column(s), so errors can be very large "
                "for narrow kernels: use tilt=0.0 (rule='orf') or rule='halton'.",
            )
