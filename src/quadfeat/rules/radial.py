r"""Radial rules: how long the nodes of a spherical-radial rule are, and what they weigh.

A node is a direction times a radius. With :math:`m_t = E[\rho^{2t}]` of the lengths of the kernel's
frequencies (for Gaussian frequencies :math:`\rho \sim \chi(d)`), ``M`` nodes have

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
:class:`quadfeat.rules.SphericalRadial` takes the short form, or the object.
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

# How many equally likely radii stand for a radial distribution in closed forms.
N_RADII = 64

# Fractional parts of multiples of their roots spread evenly, each by itself and together.
PRIMES = (2, 3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


@dataclass(frozen=True)
class RadialProblem:
    """What a radial rule has to know about the kernel.

    Attributes
    ----------
    spectrum : IsotropicSpectrum
        The distribution of frequencies.
    nonlinearity : Nonlinearity
        The function of a feature.
    d : int
        The dimension of the nodes. A rotation may have padded that of the data.
    """

    spectrum: IsotropicSpectrum
    nonlinearity: Nonlinearity
    d: int

    def moment(self, t: float) -> float:
        r"""Return :math:`m_t = E[\rho^{2t}]`, infinite where the integral diverges."""
        return self.spectrum.moment(self.d, t)


class RadialRule(BaseEstimator, ABC):
    r"""Base class of radial rules.

    A subclass defines :meth:`radii` and :meth:`weights`, and whichever of the following differ from
    their defaults. As in every scikit-learn object, ``__init__`` only assigns its parameters.

    Attributes
    ----------
    tilt : float
        By how much the distribution is tilted that radii are drawn from. Other tilts than 0 are
        rejected for a spectrum that cannot be tilted.
    draws_radii : bool
        Whether :meth:`radii` uses uniform numbers. Otherwise all radii are the same, and the
        parameter ``radii`` of the spherical-radial rule has to keep its default.
    has_origin_weight : bool
        Whether the weights sum to other numbers than 1, so that the origin has the rest.
    is_normalized : bool
        Whether the weights, with that of the origin, sum to 1. Weights that make up for radii are
        not: the parameter ``origin`` has no effect then.
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
        """Map uniform numbers to radii.

        Parameters
        ----------
        uniforms : array of shape (n_nodes, ``spectrum.n_radial``)
            Random or stratified; of shape (n_nodes, 0) unless ``draws_radii``.
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
            What the weights of these nodes and their part of the origin's sum to.
        problem : RadialProblem

        Returns
        -------
        array of shape (n_nodes,)
        """

    def constant_radii(self, uniforms: Float64Array, problem: RadialProblem) -> Float64Array:
        """Return root mean squares instead of draws of the chi distribution, as ROM has them.

        Parameters
        ----------
        uniforms : array of shape (n_nodes, ``spectrum.n_mixing``)
            For kernels that are scale mixtures, whose scale is still drawn.
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
        """Return why the rule cannot serve a kernel, if it cannot: ``"whose ..."``."""
        if self.tilt != 0 and not problem.spectrum.can_be_tilted:
            return "whose radii cannot be tilted"
        return None

    def has_finite_variance(self, problem: RadialProblem, *, constant: bool = False) -> bool:
        """Return whether the estimate has a finite variance.

        ``constant`` says that radii are those of :meth:`constant_radii`.
        """
        return True

    def equally_likely(self, problem: RadialProblem) -> tuple[Float64Array, Float64Array]:
        """Return radii that stand for the whole distribution, and weights whose mean is near 1.

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
    r"""Radii of the tilted distribution, and weights that make up for it.

    The density of the radius is multiplied by :math:`\rho^{2t}`, so that each node has the weight
    :math:`m_t / (M \rho^{2t})`. Unbiased.

    Parameters
    ----------
    tilt : float from 0 to 1, default=1.0
        0 is the rule of degree 1, with equal weights and nothing at the origin. 1 is the rule of
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
        # If phi falls to 0 like a power of at least t, the weights near the origin do not matter.
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
    """Radii of 1: for a homogeneous nonlinearity, whose radius integrates out. Unbiased.

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
        assert order is not None  # obstacle has seen to it
        return order

    def obstacle(self, problem: RadialProblem) -> str | None:
        if problem.nonlinearity.homogeneity is None:
            return "whose nonlinearity is not homogeneous"
        return None


@register
class Fixed(RadialRule):
    """One radius for all nodes that makes fourth moments right, too. Biased on narrow kernels.

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


# Strings that stand for a radial rule, as numbers do for tilts.
NAMED: dict[str, Callable[[], RadialRule]] = {"exact": Exact, "fixed": Fixed}


def as_radial_rule(tilt: Any) -> RadialRule:
    """Return the radial rule that a short form stands for, or the rule itself.

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
    return f"tilt={tilt!r} is not valid: give a number from 0 to 1, 'exact' or 'fixed'."


def spread_uniforms(n_coordinates: int) -> Float64Array:
    """Return points that are spread evenly over the unit cube, in the order of the first.

    The first coordinate has the midpoints of equally likely slices.
    """
    k = np.arange(1, N_RADII + 1)
    # The golden ratio spreads best with the first coordinate, so it makes the second one.
    steps = [(math.sqrt(5) - 1) / 2, *(math.sqrt(prime) for prime in PRIMES)]
    columns = [(k - 0.5) / N_RADII]
    columns += [np.modf(k * steps[i % len(steps)])[0] for i in range(n_coordinates - 1)]
    return np.stack(columns, axis=1)


def radial_slices(spectrum: IsotropicSpectrum, d: int, tilt: float) -> Float64Array:
    """Return radii that stand for equally likely slices of the tilted distribution."""
    return spectrum.radii(spread_uniforms(spectrum.n_radial), d, tilt)
