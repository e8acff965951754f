r"""The variance of a spherical-radial rule for a stationary kernel, in closed form.

Let a spherical-radial rule have ``M`` nodes, whose weights sum to 1. For two rows at the scaled
distance ``r``, it estimates :math:`k(r) - 1` by the mean of

.. math:: h(\rho, s) = \frac{m_t}{\rho^{2t}} (\cos(\rho r s) - 1), \qquad s = z^\top \delta / r,

over its nodes. In a block, the directions ``z`` are a randomly rotated simplex or orthoplex, so any
two of them have the same inner product ``c`` (``-1/d`` or 0). Let :math:`p_l` be the Gegenbauer
polynomials, orthonormal for the distribution of ``s`` on the sphere, and
:math:`a_l(\rho) = E_s[h(\rho, s) p_l(s)]`. Then the addition theorem gives for nodes ``i``, ``j``

.. math::

    E[h_i h_j] = \sum_l E[a_l(\rho_i) a_l(\rho_j)]\, P_l(c), \qquad P_l(c) = p_l(c) / p_l(1),

where :math:`E[a_l(\rho_i) a_l(\rho_j)]` is :math:`E[a_l]^2` for independent radii. Stratified radii
are in ``M`` different slices. With the means :math:`\mu_k` of :math:`a_l` over the slices, the
expectation is :math:`(M\, E[a_l]^2 - \overline{\mu_k^2}) / (M - 1)`. Integrals over ``s`` and the
radius are sums over a few nodes. Since ``h`` is even in ``s``, only even degrees and positive nodes
are used. The formula neglects the stretching of radii
(``origin="match"``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import eigh_tridiagonal

from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Float64Array

N_ANGLES = 40  # number of nodes of the Gauss rule for s, and of polynomials


@dataclass(frozen=True, eq=False)
class AngularRule:
    """The Gauss rule for a coordinate ``s`` of a random direction, and its polynomials.

    Attributes
    ----------
    nodes : array of shape (n,)
        The nodes of the rule.
    projections : array of shape (n, n)
        ``projections[l] @ values`` is the coefficient of ``p_l``, given the values of a function at
        the nodes.
    recurrence : array of shape (n - 1,)
        The coefficients of ``s p_l = b_l p_(l-1) + b_(l+1) p_(l+1)``.
    """

    nodes: Float64Array
    projections: Float64Array
    recurrence: Float64Array

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, d: int, n: int = N_ANGLES) -> AngularRule:
        """Return the rule in ``d`` dimensions by the method of Golub and Welsch.

        Examples
        --------
        >>> rule = AngularRule.of(3, 4)  # s is uniform on [-1, 1]
        >>> round(float(rule.projections[0] @ rule.nodes**2), 12)
        0.333333333333
        """
        n = 2 if d == 1 else n  # on a line there are two directions
        degree = np.arange(1, n)
        half = d / 2
        # The first coefficient is 1 / d. The general formula would be 0 / 0 for d = 2.
        squares = np.full(n - 1, 1.0 / d)
        rest = degree[1:]
        squares[1:] = rest * (rest + d - 3) / (4 * (rest + half - 1) * (rest + half - 2))
        recurrence = np.sqrt(squares)
        nodes, vectors = eigh_tridiagonal(np.zeros(n), recurrence)
        # Row l of the vectors is p_l at the nodes, times the square roots of the weights. Row 0 has
        # these roots, up to their signs.
        vectors = vectors * np.where(vectors[0] < 0, -1.0, 1.0)
        return cls(nodes, vectors * vectors[0], recurrence)

    def ratios(self, c: float) -> Float64Array:
        """Return ``P_l(c) = p_l(c) / p_l(1)`` for all degrees."""
        at_c, at_one = self._polynomials(c), self._polynomials(1.0)
        return at_c / at_one

    def _polynomials(self, s: float) -> Float64Array:
        values = [0.0, 1.0]
        before = 0.0
        for b in self.recurrence:
            values.append((s * values[-1] - before * values[-2]) / b)
            before = b
        return np.array(values[1:])


@dataclass(frozen=True)
class BlockMoments:
    """The terms of the variance of a spherical-radial rule, for several distances.

    Attributes
    ----------
    coefficients : array of shape (n_distances, n_radii, n_degrees)
        The coefficients ``a_l`` of even degrees at equally likely radii, in increasing order.
    angles : AngularRule
    """

    coefficients: Float64Array
    angles: AngularRule

    @classmethod
    def of(
        cls, distances: Float64Array, radii: Float64Array, weights: Float64Array, d: int
    ) -> BlockMoments:
        """Return the moments for equally likely ``radii`` of nodes with ``weights / M``."""
        angles = AngularRule.of(d)
        positive = angles.nodes > 0.0
        sines = np.sin(np.multiply.outer(np.outer(distances, radii), angles.nodes[positive] / 2.0))
        values = -2.0 * sines**2 * weights[:, None]  # cos - 1 without cancellation
        return cls(values @ (2.0 * angles.projections[::2, positive].T), angles)

    @cached_property
    def mean(self) -> Float64Array:
        """``E[h]`` for each distance, which equals ``k - 1`` for an unbiased rule."""
        return np.asarray(self.coefficients[:, :, 0].mean(axis=1))

    @cached_property
    def _mean_squares(self) -> Float64Array:
        """The mean of the squared coefficients over radii, shape (n_distances, n_degrees)."""
        return np.asarray((self.coefficients**2).mean(axis=1))

    @cached_property
    def _squared_means(self) -> Float64Array:
        """The squares of the mean coefficients, shape (n_distances, n_degrees)."""
        return np.asarray(self.coefficients.mean(axis=1) ** 2)

    @cached_property
    def _integrals(self) -> Float64Array:
        """The integrals of the coefficients up to each radius, with 0 at the start."""
        integrals = np.cumsum(self.coefficients, axis=1) / self.coefficients.shape[1]
        return np.concatenate([np.zeros_like(integrals[:, :1]), integrals], axis=1)

    @cached_property
    def _mean_steps(self) -> Float64Array:
        """The sum of squared differences between radii, shape (n_distances, n_degrees)."""
        return np.asarray((np.diff(self.coefficients, axis=1) ** 2).sum(axis=1))

    def variance(
        self, n_nodes: int, per_block: int, cosine: float, *, stratified: bool
    ) -> Float64Array:
        """Return the variance of the mean over nodes, for each distance.

        Parameters
        ----------
        n_nodes : int
            Number of nodes. The last block may be incomplete.
        per_block : int
            Number of nodes in a whole block.
        cosine : float
            The inner product of two directions of a block.
        stratified : bool
            Whether the radii are stratified.
        """
        n_blocks, rest = divmod(n_nodes, per_block)
        pairs = n_nodes * (n_nodes - 1)
        same_block = n_blocks * per_block * (per_block - 1) + rest * (rest - 1)
        squares = self._mean_squares.sum(axis=1)
        products = self._squared_means  # for two nodes, one for each degree
        if stratified and n_nodes > 1:
            products = (n_nodes * products - self._slice_squares(n_nodes)) / (n_nodes - 1)
        within, between = products @ self.angles.ratios(cosine)[::2], products[:, 0]
        total = n_nodes * squares + same_block * within + (pairs - same_block) * between
        return np.maximum(total / n_nodes**2 - self.mean**2, 0.0)

    def _slice_squares(self, n_slices: int) -> Float64Array:
        """Return the mean over slices of the squared mean in a slice.

        The result has shape (n_distances, n_degrees).
        """
        n_radii = self.coefficients.shape[1]
        if n_slices >= n_radii:
            # Slices are narrower than the steps between radii: estimate the variance within a slice
            # from differences.
            scale = (n_radii / n_slices) ** 2 / 12.0 / max(1, n_radii - 1)
            return self._mean_squares - self._mean_steps * scale
        # Integrate up to the ends of the slices, with coefficients constant between radii.
        integrals = self._integrals
        ends = np.arange(n_slices + 1) * (n_radii / n_slices)
        below = np.minimum(ends.astype(int), n_radii - 1)
        part = (ends - below)[:, None]
        at_ends = integrals[:, below] * (1.0 - part) + integrals[:, below + 1] * part
        means = np.diff(at_ends, axis=1) * n_slices
        return np.asarray((means**2).mean(axis=1))
