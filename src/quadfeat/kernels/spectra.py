r"""Distributions of the random frequency ``w`` in ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``.

They refer to inputs that the kernel has already scaled. Each distribution maps points of the unit
cube to frequencies, mostly by inverse distribution functions. Random, stratified and
low-discrepancy points therefore share the same code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import special

from quadfeat._utils.validation import Float64Array

# Frequencies are cut off here: a float64 argument of this size carries no phase, and larger ones
# may overflow.
LONGEST_FREQUENCY = 1e15

# Inverse distribution functions are finite between these limits.
SMALLEST_UNIFORM = 2.0**-54
LARGEST_UNIFORM = 1.0 - 2.0**-53


def open_interval(uniforms: Float64Array) -> Float64Array:
    """Clip ``uniforms`` to the open interval (0, 1)."""
    return np.clip(uniforms, SMALLEST_UNIFORM, LARGEST_UNIFORM)


class Spectrum(ABC):
    """Base class of spectra: distributions of frequencies, in any dimension.

    A subclass defines :meth:`n_uniforms` and :meth:`frequencies`. If all directions are equally
    likely, derive it from :class:`IsotropicSpectrum` instead, which more rules support.

    Attributes
    ----------
    is_isotropic : bool
        Whether all directions are equally likely. If so, the spectrum has the methods of
        :class:`IsotropicSpectrum`, which rules that rotate nodes need.
    is_normal : bool
        Whether it is the standard normal distribution, for which more closed forms are known.
    """

    is_isotropic: bool = False
    is_normal: bool = False

    @abstractmethod
    def n_uniforms(self, d: int) -> int:
        """Return the number of uniform coordinates that one frequency needs."""

    @abstractmethod
    def frequencies(self, uniforms: Float64Array, d: int) -> Float64Array:
        """Map points of the unit cube, shape (n, ``n_uniforms(d)``), to n frequencies."""


@dataclass(frozen=True)
class CauchyProduct(Spectrum):
    """Independent standard Cauchy coordinates: the spectrum of ``exp(-|x - y|_1)``."""

    def n_uniforms(self, d: int) -> int:
        return d

    def frequencies(self, uniforms: Float64Array, d: int) -> Float64Array:
        # The inverse distribution function is -cot(pi u). This form is accurate near u = 0.
        heights = -1.0 / np.tan(np.pi * open_interval(uniforms))
        return np.clip(heights, -LONGEST_FREQUENCY, LONGEST_FREQUENCY)


class IsotropicSpectrum(Spectrum):
    r"""Base class of isotropic spectra: scale mixtures of Gaussians, ``w = sqrt(s) g``.

    The length ``rho = |w|`` is distributed as ``sqrt(s) chi(d)``. Tilting it by ``t`` multiplies
    its density by ``rho^2t`` and normalizes it again. This tilts ``s`` by ``s^t`` and turns
    ``chi(d)`` into ``chi(d + 2t)``.

    A subclass defines ``n_mixing``, :meth:`mixing` and :meth:`mixing_moment`. Make it a frozen
    dataclass whose fields are the parameters of the distribution.

    Attributes
    ----------
    n_mixing : int
        The number of uniforms that the mixing variable ``s`` needs.
    n_radial : int
        The number of uniforms that a radius needs: one for ``chi`` plus those of ``s``, unless
        the subclass overrides :meth:`radii`.
    can_be_tilted : bool
        Whether :meth:`mixing` supports tilts other than 0. If not, rules that tilt radii reject the
        kernel and ``rule="auto"`` does not consider them.
    """

    is_isotropic = True
    n_mixing: int = 0
    can_be_tilted: bool = True

    @property
    def n_radial(self) -> int:
        """The number of uniforms that a radius needs."""
        return 1 + self.n_mixing

    @abstractmethod
    def mixing(self, uniforms: Float64Array, tilt: float = 0.0) -> Float64Array:
        """Map uniforms of shape (n, ``n_mixing``) to draws of ``s``, shape (n,).

        If ``can_be_tilted`` is false, ``tilt`` is always 0.
        """

    @abstractmethod
    def mixing_moment(self, t: float) -> float:
        """Return ``E[s^t]``, or infinity if the integral diverges."""

    def moment(self, d: int, t: float) -> float:
        r"""Return :math:`m_t = E[\rho^{2t}]`, or infinity if the integral diverges.

        Examples
        --------
        >>> round(NormalSpectrum().moment(5, 1.0), 12)
        5.0
        """
        if d / 2 + t <= 0:
            return float("inf")
        return float(2.0**t * special.poch(d / 2, t) * self.mixing_moment(t))

    def has_tilt(self, d: int, tilt: float) -> bool:
        """Return whether the weights of a rule with this tilt exist and have finite variance.

        Examples
        --------
        >>> [NormalSpectrum().has_tilt(2, tilt) for tilt in (0.5, 1.0)]
        [True, False]
        """
        if tilt != 0 and not self.can_be_tilted:
            return False
        return bool(np.isfinite(self.moment(d, tilt)) and np.isfinite(self.moment(d, -tilt)))

    def radii(self, uniforms: Float64Array, d: int, tilt: float = 0.0) -> Float64Array:
        """Map uniforms of shape (n, ``n_radial``) to tilted radii, shape (n,)."""
        chi_squared = 2.0 * special.gammaincinv(d / 2 + tilt, open_interval(uniforms[:, 0]))
        radii = np.sqrt(chi_squared * self.mixing(uniforms[:, 1:], tilt))
        return np.minimum(radii, LONGEST_FREQUENCY)

    def n_uniforms(self, d: int) -> int:
        return d + self.n_mixing

    def frequencies(self, uniforms: Float64Array, d: int) -> Float64Array:
        return self.spread(special.ndtri(open_interval(uniforms[:, :d])), uniforms[:, d:])

    def spread(self, normals: Float64Array, mixing_uniforms: Float64Array) -> Float64Array:
        """Multiply standard normal points, shape (n, d), by drawn values of ``sqrt(s)``."""
        # Keep the scales finite, so that their product with 0 is 0.
        scales = np.sqrt(np.minimum(self.mixing(mixing_uniforms), np.finfo(np.float64).max))
        frequencies = normals * scales[:, None]
        return np.clip(frequencies, -LONGEST_FREQUENCY, LONGEST_FREQUENCY)


@dataclass(frozen=True)
class NormalSpectrum(IsotropicSpectrum):
    """The standard normal distribution, ``s = 1``, of Gaussian and pointwise nonlinear kernels."""

    is_normal = True

    def mixing(self, uniforms: Float64Array, tilt: float = 0.0) -> Float64Array:
        return np.ones(len(uniforms))

    def mixing_moment(self, t: float) -> float:
        return 1.0


@dataclass(frozen=True)
class StudentSpectrum(IsotropicSpectrum):
    """The multivariate Student distribution with ``2 nu`` degrees of freedom, of Matern kernels.

    Here ``s = nu / G`` with ``G ~ Gamma(nu)``, so ``rho^2 / (2 nu)`` is a ratio of two Gamma
    variables. It has a beta prime distribution, whose inverse needs a single uniform.
    """

    nu: float
    n_mixing = 1
    n_radial = 1

    def mixing(self, uniforms: Float64Array, tilt: float = 0.0) -> Float64Array:
        gamma = special.gammaincinv(self.nu - tilt, open_interval(uniforms[:, 0]))
        return self.nu / np.maximum(gamma, self.nu / LONGEST_FREQUENCY**2)

    def mixing_moment(self, t: float) -> float:
        if t >= self.nu:
            return float("inf")
        return float(self.nu**t / special.poch(self.nu - t, t))

    def radii(self, uniforms: Float64Array, d: int, tilt: float = 0.0) -> Float64Array:
        # share = G(nu - t) / (G(nu - t) + G(d/2 + t)) is small for large radii.
        share = special.betaincinv(self.nu - tilt, d / 2 + tilt, open_interval(uniforms[:, 0]))
        share = np.maximum(share, 2.0 * self.nu / LONGEST_FREQUENCY**2)
        return np.minimum(np.sqrt(2.0 * self.nu * (1.0 - share) / share), LONGEST_FREQUENCY)


@dataclass(frozen=True)
class GammaMixtureSpectrum(IsotropicSpectrum):
    """Gaussians with variance ``s ~ Gamma(alpha) / alpha``, of the rational quadratic kernel."""

    alpha: float
    n_mixing = 1

    def mixing(self, uniforms: Float64Array, tilt: float = 0.0) -> Float64Array:
        quantile = special.gammaincinv(self.alpha + tilt, open_interval(uniforms[:, 0]))
        return np.maximum(quantile, np.finfo(np.float64).tiny) / self.alpha

    def mixing_moment(self, t: float) -> float:
        if self.alpha + t <= 0:
            return float("inf")
        return float(special.poch(self.alpha, t) / self.alpha**t)
