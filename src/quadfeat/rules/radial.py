r"""Radial rules: the lengths and weights of the nodes of a spherical-radial rule.

A node is a direction times a radius. Let :math:`m_t = E[\rho^{2t}]`, where :math:`\rho` is the
length of the kernel's random frequency (:math:`\rho \sim \chi(d)` for Gaussian frequencies). Then
``M`` nodes have

=================== ========== ============================== ============================
rule                short form radius                         weight
=================== ========== ============================== ============================
``Tilted(0)``       ``0.0``    :math:`\chi(d)`                :math:`1/M`
``Tilted(1)``       ``1.0``    :math:`\chi(d+2)`              :math:`d / (M \rho^2)`
``Tilted(t)``       ``t``      :math:`\chi(d+2t)`             :math:`m_t / (M \rho^{2t})`
``Exact()``         "exact"    1                              :math:`m_b / M`
``Fixed()``         "fixed"    :math:`\sqrt{d+2}`             :math:`d / ((d+2) M)`
=================== ========== ============================== ============================

``Tilted(0)`` is the rule of degree 1 and ``Tilted(1)`` that of degree 3. The parameter ``tilt`` of
:class:`quadfeat.rules.SphericalRadial` accepts the short form or the object.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import register
from quadfeat.kernels import IsotropicSpectrum, Nonlinearity

# Number of equally likely radii that represent a radial distribution in closed forms.
N_RADII = 64

# The fractional parts of multiples of their square roots fill the unit cube evenly.
PRIMES = (2, 3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


@dataclass(frozen=True)
class RadialProblem:
    """The properties of the kernel that a radial rule needs.

    Attributes
    ----------
    spectrum : IsotropicSpectrum
        The distribution of frequencies.
    nonlinearity : Nonlinearity
        The function ``phi`` of the features.
    d : int
        The dimension of the nodes, which is larger than that of the data if a rotation pads it.
    """

    spectrum: IsotropicSpectrum
    nonlinearity: Nonlinearity
    d: int

    def moment(self, t: float) -> float:
        r"""Return :math:`m_t = E[\rho^{2t}]`, or infinity if the integral diverges."""
        return self.spectrum.moment(self.d, t)


class RadialRule(BaseEstimator, ABC):
    r"""Base class of radial rules.

    A subclass defines :meth:`radii` and :meth:`weights`, and the attributes below that differ from
    their defaults. As in every scikit-learn object, ``__init__`` only assigns its parameters.

    Attributes
    ----------
    tilt : float
        The tilt of the distribution of radii. A spectrum that cannot be tilted allows only 0.
    draws_radii : bool
        Whether :meth:`radii` uses uniforms. Otherwise all radii are the same, and the parameter
        ``radii`` of the spherical-radial rule must keep its default.
    has_origin_weight : bool
        Whether the weights may not sum to 1, so that the origin gets the difference.
    is_normalized : bool
        Whether the weights, including that of the origin, sum to 1. If not, the parameter
        ``origin`` has no effect.
    is_unbiased : bool
        Whether the expectation over radii is exact for every kernel.
    """

    tilt: float = 0.0
    draws_radii: bool = True
    has_origin_weight: bool = True
    is_normalized: bool = True
    is_unbiased: bool = True

    @abstractmethod
    def radii(self, uniforms: Float64Array, problem: RadialProblem) -> Float64Array:
        """Map uniforms to radii.

        Parameters
        ----------
        uniforms : array of shape (n_nodes, ``spectrum.n_radial``)
            Random or stratified numbers. The shape is (n_nodes, 0) if ``draws_radii`` is false.
        problem : RadialProblem

        Returns
        -------
        array of shape (n_nodes,)
        """

    @abstractmethod
    def weights(self, radii: Float64Array, share: float, problem: RadialProblem) -> Float64Array:
        """Return the weights of nodes with these radii.

        Parameters
        ----------
        radii : array of shape (n_nodes,)
        share : float
            The sum of the weights of these nodes, including their part of the origin weight.
        problem : RadialProblem

        Returns
        -------
        array of shape (n_nodes,)
        """

    def constant_radii(self, uniforms: Float64Array, problem: RadialProblem) -> Float64Array:
        """Return root mean squares instead of draws from the chi distribution, as in ROM.

        Parameters
        ----------
        uniforms : array of shape (n_nodes, ``spectrum.n_mixing``)
            Numbers to draw the scale of kernels that are scale mixtures.
        problem : RadialProblem

        Returns
        -------
        array of shape (n_nodes,)
        """
        t = float(self.tilt)
        return np.sqrt((problem.d + 2 * t) * problem.spectrum.mixing(uniforms, t))

    def highest_moment(self, problem: RadialProblem) -> float:
        """Return the largest ``t`` for which the rule needs a finite ``problem.moment(t)``."""
        return float(self.tilt)

    def obstacle(self, problem: RadialProblem) -> str | None:
        """Return why the rule does not support a kernel (``"whose ..."``), or ``None``."""
        if self.tilt != 0 and not problem.spectrum.can_be_tilted:
            return "whose radii cannot be tilted"
        return None

    def has_finite_variance(self, problem: RadialProblem, *, constant: bool = False) -> bool:
        """Return whether the estimate has a finite variance.

        Set ``constant`` if the radii are those of :meth:`constant_radii`.
        """
        return True

    def equally_likely(self, problem: RadialProblem) -> tuple[Float64Array, Float64Array]:
        """Return equally likely radii and their weights, whose mean is close to 1.

        Closed forms of the error compute expectations with them.
        """
        if self.draws_radii:
            uniforms = spread_uniforms(problem.spectrum.n_radial)
        else:
            uniforms = np.empty((1, 0))
        radii = self.radii(uniforms, problem)
        return radii, len(radii) * self.weights(radii, 1.0, problem)

    def check_parameters(self) -> None:
        """Raise an error if a parameter is not valid."""


@register
class Tilted(RadialRule):
    r"""Radii from the tilted distribution, with weights that correct for the tilt.

    The density of the radius is multiplied by :math:`\rho^{2t}`, so each node gets the weight
    :math:`m_t / (M \rho^{2t})`. The rule is unbiased.

    Parameters
    ----------
    tilt : float from 0 to 1, default=1.0
        0 is the rule of degree 1, with equal weights and no weight at the origin. 1 is the rule of
        degree 3.

    Examples
    --------
    >>> from quadfeat.rules import SphericalRadial, Tilted
    >>> SphericalRadial(tilt=Tilted(0.5)).radial_rule
    Tilted(tilt=0.5)
    """

    def __init__(self, tilt: float = 1.0) -> None:
        self.tilt = tilt

    def check_parameters(self) -> None:
        if not check.is_number(self.tilt) or not 0 <= self.tilt <= 1:
            raise ValueError(_not_valid(self.tilt))

    @property
    def has_origin_weight(self) -> bool:  # type: ignore[override]
        return self.tilt != 0

    def radii(self, uniforms: Float64Array, problem: RadialProblem) -> Float64Array:
        return problem.spectrum.radii(uniforms, problem.d, float(self.tilt))

    def weights(self, radii: Float64Array, share: float, problem: RadialProblem) -> Float64Array:
        t = float(self.tilt)
        return problem.moment(t) / (len(radii) * radii ** (2 * t)) * share

    def has_finite_variance(self, problem: RadialProblem, *, constant: bool = False) -> bool:
        t, order = float(self.tilt), problem.nonlinearity.homogeneity
        # If phi vanishes at 0 like a power of at least t, large weights near the origin do no harm.
        if order is not None and order >= t:
            return True
        inverse = problem.spectrum.mixing_moment(-t) if constant else problem.moment(-t)
        return bool(np.isfinite(inverse))

    def equally_likely(self, problem: RadialProblem) -> tuple[Float64Array, Float64Array]:
        radii = radial_slices(problem.spectrum, problem.d, float(self.tilt))
        weights = radii ** (-2 * float(self.tilt))
        return radii, weights / weights.mean()


@register
class Exact(RadialRule):
    """Radii of 1 for a homogeneous nonlinearity, whose radial integral is known exactly.

    The rule is unbiased.

    Examples
    --------
    >>> from quadfeat.rules import SphericalRadial
    >>> SphericalRadial(tilt="exact").radial_rule
    Exact()
    """

    draws_radii = False
    has_origin_weight = False
    is_normalized = False

    def radii(self, uniforms: Float64Array, problem: RadialProblem) -> Float64Array:
        return np.ones(len(uniforms))

    def weights(self, radii: Float64Array, share: float, problem: RadialProblem) -> Float64Array:
        return problem.moment(self.highest_moment(problem)) * np.full(
            len(radii), share / len(radii)
        )

    def highest_moment(self, problem: RadialProblem) -> float:
        order = problem.nonlinearity.homogeneity
        assert order is not None  # obstacle() has checked it
        return order

    def obstacle(self, problem: RadialProblem) -> str | None:
        if problem.nonlinearity.homogeneity is None:
            return "whose nonlinearity is not homogeneous"
        return None


@register
class Fixed(RadialRule):
    """The same radius for all nodes, chosen to match the second and fourth radial moments.

    The rule is biased for narrow kernels.

    Examples
    --------
    >>> from quadfeat.rules import SphericalRadial
    >>> SphericalRadial(tilt="fixed").radial_rule
    Fixed()
    """

    draws_radii = False
    is_unbiased = False

    def radii(self, uniforms: Float64Array, problem: RadialProblem) -> Float64Array:
        return np.full(len(uniforms), math.sqrt(problem.moment(2.0) / problem.moment(1.0)))

    def weights(self, radii: Float64Array, share: float, problem: RadialProblem) -> Float64Array:
        return problem.moment(1.0) / (len(radii) * radii**2.0) * share

    def highest_moment(self, problem: RadialProblem) -> float:
        return 2.0

    def equally_likely(self, problem: RadialProblem) -> tuple[Float64Array, Float64Array]:
        second, fourth = problem.moment(1.0), problem.moment(2.0)
        return np.array([math.sqrt(fourth / second)]), np.array([second**2 / fourth])


# Radial rules by name. A number means Tilted(number).
NAMED: dict[str, Callable[[], RadialRule]] = {"exact": Exact, "fixed": Fixed}


def as_radial_rule(tilt: Any) -> RadialRule:
    """Return the radial rule for a short form; return a rule object unchanged.

    Examples
    --------
    >>> as_radial_rule(1.0), as_radial_rule("fixed")
    (Tilted(), Fixed())
    """
    if isinstance(tilt, str):
        return NAMED[check.check_choice(tilt, "tilt", NAMED)]()
    rule = tilt
    if check.is_number(tilt):
        rule = Tilted(tilt)
    check.check_kind(rule, RadialRule, _not_valid(tilt), ValueError)  # type: ignore[type-abstract]
    rule.check_parameters()
    return rule


def _not_valid(tilt: Any) -> str:
    return f"tilt={tilt!r} is not valid: pass a number from 0 to 1, 'exact' or 'fixed'."


def spread_uniforms(n_coordinates: int) -> Float64Array:
    """Return points that fill the unit cube evenly, sorted by their first coordinate.

    The first coordinates are the midpoints of equally likely slices.
    """
    k = np.arange(1, N_RADII + 1)
    # Multiples of the golden ratio fill the square with the first coordinate best.
    steps = [(math.sqrt(5) - 1) / 2, *(math.sqrt(prime) for prime in PRIMES)]
    columns = [(k - 0.5) / N_RADII]
    columns += [np.modf(k * steps[i % len(steps)])[0] for i in range(n_coordinates - 1)]
    return np.stack(columns, axis=1)


def radial_slices(spectrum: IsotropicSpectrum, d: int, tilt: float) -> Float64Array:
    """Return one radius for each of many equally likely slices of the tilted distribution."""
    return spectrum.radii(spread_uniforms(spectrum.n_radial), d, tilt)
