"""Stationary kernels, which depend on the difference of two rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import register
from quadfeat.kernels.base import GammaKernel, Kernel, LengthScaleKernel, Scale
from quadfeat.kernels.geometry import squared_distances
from quadfeat.kernels.nonlinearities import Fourier, Nonlinearity
from quadfeat.kernels.spectra import (
    CauchyProduct,
    GammaMixtureSpectrum,
    NormalSpectrum,
    Spectrum,
    StudentSpectrum,
)


class Stationary(Kernel):
    """Base class of kernels that depend on the scaled difference ``x - y``.

    Their features are cosines and sines. A subclass defines ``spectrum``, :meth:`gram` and its
    scale parameter (see :class:`Kernel`).
    """

    is_stationary = True

    @property
    def nonlinearity(self) -> Nonlinearity:
        return Fourier()

    def pair_values(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return self.gram(X - Y, np.zeros((1, X.shape[1])), same=False)[:, 0]

    def at_distance(self, distances: Float64Array) -> Float64Array:
        """Return the kernel of rows that differ by these scaled distances along one axis."""
        return self.gram(distances[:, None], np.zeros((1, 1)), same=False)[:, 0]


class SeparationKernel(Stationary):
    """Base class of stationary kernels that depend on one number, the separation of two rows.

    The separation is the squared Euclidean distance of the scaled rows, unless the subclass
    overrides :meth:`separations`. A subclass defines ``spectrum`` and :meth:`value_at`, and takes
    its scale parameter from :class:`LengthScaleKernel` or :class:`GammaKernel`::

        class Own(LengthScaleKernel, SeparationKernel): ...

    If it also defines :meth:`slope_at`, models can learn its scale from data (``lengthscales=``).
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # A subclass with other values is not in the native core, even if its base class is.
        if "value_at" in vars(cls) and "native_profile" not in vars(cls):
            cls.native_profile = None  # type: ignore[assignment, method-assign]

    @property
    def native_profile(self) -> tuple[str, float] | None:
        """The name of :meth:`value_at` in the native core, and its shape parameter.

        None means that the native core lacks it.
        """
        return None

    @abstractmethod
    def value_at(self, separations: Float64Array) -> Float64Array:
        """Return the kernel at these separations, in the same shape."""

    def slope_at(self, separations: Float64Array) -> Float64Array:
        """Return the derivative of :meth:`value_at`.

        Return 0 at separation 0 if the derivative is infinite there. Only learned scales need this
        method.
        """
        raise NotImplementedError(
            f"the scale of {check.one_line(self)} cannot be learned: define "
            f"slope_at(separations), the derivative of value_at, in {type(self).__name__}."
        )

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        """Return the scale parameter for which inputs are multiplied by ``factor``.

        Only learned scales need this method.
        """
        raise NotImplementedError(
            f"the scale of {check.one_line(self)} cannot be learned: define "
            f"factor_to_scale(factor), the inverse of scale_to_factor, in {type(self).__name__}."
        )

    def usual_factor(self, d: int) -> float:
        """Return the factor of ``"scale"`` for ``d`` inputs with standard deviation 1."""
        return float(self.scale_to_factor(np.asarray(self.default_scale(d, 1.0))))

    # Separations are homogeneous functions of the inputs, of this degree.
    separation_degree = 2

    def separations(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        """Return the separations of scaled rows; ``same`` is true if ``Y`` is ``X``."""
        return squared_distances(X, Y, same)

    def factor_gradient(self, X: Float64Array, sensitivities: Float64Array) -> Float64Array:
        r"""Differentiate a function of the separations by the logarithms of the input factors.

        Parameters
        ----------
        X : ndarray of shape (m, d)
            Scaled inputs.
        sensitivities : ndarray of shape (m, m)
            The derivative :math:`S_{ab}` with respect to the separation of rows ``a`` and ``b``.

        Returns
        -------
        ndarray of shape (d,)
            :math:`2 \sum_{ab} S_{ab} (x_{ai} - x_{bi})^2` for each input :math:`i`.
        """
        # Expand the square to use a matrix product instead of an m x m x d array.
        totals = sensitivities.sum(axis=0) + sensitivities.sum(axis=1)
        products = np.einsum("ai,ai->i", X, sensitivities @ X)
        return np.asarray(2.0 * (totals @ X**2 - 2.0 * products))

    def gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        return self.value_at(self.separations(X, Y, same))


@register
class Gaussian(GammaKernel, SeparationKernel):
    r"""The Gaussian (RBF) kernel ``exp(-gamma |x - y|^2)``.

    .. math:: k(x, y) = E \cos(\sqrt{2\gamma}\, w^\top (x - y)), \qquad w \sim N(0, I)

    Parameters
    ----------
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Inverse squared width, as in scikit-learn's SVC: ``"scale"`` is
        ``1 / (n_features * X.var())`` and ``"auto"`` is ``1 / n_features``. One number per input
        gives each its own width (ARD): ``exp(-sum_i gamma_i (x_i - y_i)^2)``.

    Examples
    --------
    >>> from quadfeat.kernels import Gaussian
    >>> Gaussian(gamma=0.5)([[0.0, 0.0], [1.0, 1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def __init__(self, gamma: Scale = "scale") -> None:
        self.gamma = gamma

    @property
    def spectrum(self) -> Spectrum:
        return NormalSpectrum()

    @property
    def native_profile(self) -> tuple[str, float] | None:
        return "gaussian", 0.0

    def value_at(self, separations: Float64Array) -> Float64Array:
        return np.asarray(np.exp(-0.5 * separations))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        return -0.5 * self.value_at(separations)


@register
class Laplacian(SeparationKernel):
    r"""The Laplacian kernel in the L1 norm, ``exp(-gamma |x - y|_1)``.

    Its frequencies have independent Cauchy coordinates. This distribution is not isotropic, so
    rules that rotate nodes do not support it. Use ``MonteCarlo`` or ``QuasiMonteCarlo``.

    Parameters
    ----------
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Inverse width. ``"auto"`` is ``1 / n_features``; ``"scale"`` is
        ``1 / (n_features * X.std())``, which makes the kernel independent of the unit of
        measurement.

    Examples
    --------
    >>> from quadfeat.kernels import Laplacian
    >>> Laplacian(gamma=0.5)([[0.0, 0.0], [1.0, 1.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    scale_parameter = "gamma"

    def __init__(self, gamma: Scale = "scale") -> None:
        self.gamma = gamma

    @property
    def spectrum(self) -> Spectrum:
        return CauchyProduct()

    def scale_to_factor(self, value: Float64Array) -> Float64Array:
        return value

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        return factor

    def default_scale(self, d: int, deviation: float) -> float:
        return 1.0 / d / deviation

    separation_degree = 1

    def separations(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        return np.asarray(cdist(X, Y, "cityblock"))

    def value_at(self, separations: Float64Array) -> Float64Array:
        return np.asarray(np.exp(-separations))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        return -self.value_at(separations)

    def factor_gradient(self, X: Float64Array, sensitivities: Float64Array) -> Float64Array:
        # Absolute values cannot be expanded. Go column by column, to need only m x m numbers.
        return np.array([np.vdot(sensitivities, np.abs(x[:, None] - x)) for x in X.T])


# Outside of this range of a shape parameter, its powers or the frequencies may overflow.
SHAPE_RANGE = (1e-6, 1e15)


def _check_shape(value: Any, name: str) -> float:
    """Return a shape parameter as a float if it is in range."""
    shape = check.check_positive(value, name)
    least, most = SHAPE_RANGE
    if not least <= shape <= most:
        raise ValueError(f"{name}={value!r} is not valid: pass a number from {least} to {most}.")
    return shape


@register
class Matern(LengthScaleKernel, SeparationKernel):
    r"""The Matern kernel with scikit-learn's ``length_scale`` and ``nu``.

    .. math::

        k(x, y) = \frac{2^{1-\nu}}{\Gamma(\nu)} (\sqrt{2\nu}\, r)^\nu K_\nu(\sqrt{2\nu}\, r),
        \qquad r = |x - y| / \ell

    Its frequencies follow a Student distribution with ``2 nu`` degrees of freedom. This has finite
    second moments only for ``nu > 1``, so degree-3 rules do not support smaller ``nu``.

    Parameters
    ----------
    nu : float, default=2.5
        Smoothness, from 1e-6 to 1e15. ``inf`` means the Gaussian kernel.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Width. ``"scale"`` and ``"auto"`` mean the width of the Gaussian kernel with that ``gamma``.

    Examples
    --------
    >>> from quadfeat.kernels import Matern
    >>> Matern(nu=0.5, length_scale=2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def __init__(self, nu: float = 2.5, *, length_scale: Scale = "scale") -> None:
        self.nu = nu
        self.length_scale = length_scale

    @property
    def spectrum(self) -> Spectrum:
        if self.nu == np.inf:
            return NormalSpectrum()
        return StudentSpectrum(_check_shape(self.nu, "nu"))

    @property
    def native_profile(self) -> tuple[str, float] | None:
        names = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52", np.inf: "gaussian"}
        name = names.get(self.nu)
        return None if name is None else (name, 0.0)

    def separations(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        if self.nu == np.inf:
            return squared_distances(X, Y, same)
        # Compute each distance directly: rough kernels are sensitive to the rounding errors of a
        # matrix product near zero.
        return np.asarray(cdist(X, Y, "sqeuclidean"))

    def value_at(self, separations: Float64Array) -> Float64Array:
        if self.nu == np.inf:
            return np.asarray(np.exp(-0.5 * separations))
        nu = _check_shape(self.nu, "nu")
        return _matern(nu, np.sqrt(2.0 * nu) * np.sqrt(separations))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        if self.nu == np.inf:
            return -0.5 * self.value_at(separations)
        nu = _check_shape(self.nu, "nu")
        distance = np.sqrt(2.0 * nu) * np.sqrt(separations)
        if nu > 1:
            return nu / (2.0 - 2.0 * nu) * _matern(nu - 1.0, distance)
        apart = distance > NO_DISTANCE
        distance = np.where(apart, distance, 1.0)
        if nu == 0.5:
            slope = -0.5 * np.exp(-distance) / distance
        else:
            bessel = special.kve(1.0 - nu, distance) * np.exp(-distance)
            slope = -nu * (2.0 / distance) ** (1.0 - nu) * bessel / special.gamma(nu)
        return np.where(apart, slope, 0.0)


# The slope of a rough kernel is infinite at distance zero. The scale hardly affects rows that are
# closer than this, and a huge slope would only amplify rounding errors.
NO_DISTANCE = 1e-8


def _matern(nu: float, distance: Float64Array) -> Float64Array:
    r"""Return the Matern kernel at ``distance`` :math:`= \sqrt{2\nu}\, r`."""
    if nu == 0.5:
        return np.asarray(np.exp(-distance))
    if nu == 1.5:
        return np.asarray((1.0 + distance) * np.exp(-distance))
    if nu == 2.5:
        return np.asarray((1.0 + distance + distance**2 / 3.0) * np.exp(-distance))
    if nu >= SMOOTH_NU:
        return _smooth_matern(nu, distance)
    # Use logarithms and the exponentially scaled Bessel function, so that large distances do not
    # overflow. Tiny distances may still overflow, but the kernel is 1 there up to rounding.
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = (
            (1.0 - nu) * np.log(2.0)
            - special.gammaln(nu)
            + nu * np.log(distance)
            + np.log(special.kve(nu, distance))
            - distance
        )
    gram = np.exp(np.minimum(logarithm, 0.0))
    gram[distance == 0] = 1.0
    gram[distance == np.inf] = 0.0
    return gram


# From this order on, the large-order expansion of Bessel functions is accurate to 1e-11.
SMOOTH_NU = 50.0


def _smooth_matern(nu: float, distance: Float64Array) -> Float64Array:
    r"""Return the Matern kernel of large order at ``distance`` :math:`= \sqrt{2\nu}\, r`.

    Use Debye's uniform expansion of :math:`K_\nu(\nu z)` (DLMF 10.41.4) and Stirling's expansion of
    :math:`\Gamma(\nu)`. Their large terms cancel analytically. With :math:`w = \sqrt{1 + z^2}`,

    .. math::

        \log k = \nu \left(1 - w + \log\frac{1 + w}{2}\right) - \frac{\log w}{2}
        + \log \sum_k \frac{(-1)^k u_k(1/w)}{\nu^k}
        - \left(\frac{1}{12 \nu} - \frac{1}{360 \nu^3} + \frac{1}{1260 \nu^5}\right).
    """
    z_squared = (distance / nu) ** 2
    w = np.sqrt(1.0 + z_squared)
    excess = z_squared / (1.0 + w)  # w - 1 without cancellation
    p = 1.0 / w
    q = p**2
    series = (
        1.0
        - p * (3 - 5 * q) / (24 * nu)
        + q * (81 - 462 * q + 385 * q**2) / (1152 * nu**2)
        - p**3 * (30375 - 369603 * q + 765765 * q**2 - 425425 * q**3) / (414720 * nu**3)
        + q**2
        * (4465125 - 94121676 * q + 349922430 * q**2 - 446185740 * q**3 + 185910725 * q**4)
        / (39813120 * nu**4)
    )
    stirling = 1 / (12 * nu) - 1 / (360 * nu**3) + 1 / (1260 * nu**5)
    logarithm = nu * (np.log1p(excess / 2) - excess) - np.log(w) / 2 + np.log(series) - stirling
    return np.where(distance == np.inf, 0.0, np.exp(np.minimum(logarithm, 0.0)))


@register
class RationalQuadratic(LengthScaleKernel, SeparationKernel):
    r"""The rational quadratic kernel with scikit-learn's ``length_scale`` and ``alpha``.

    .. math:: k(x, y) = \left(1 + \frac{|x - y|^2}{2 \alpha \ell^2}\right)^{-\alpha}

    It is a mixture of Gaussian kernels whose inverse squared widths follow a Gamma distribution.

    Parameters
    ----------
    alpha : float, default=1.0
        Scale mixture, from 1e-6 to 1e15. Large values approach the Gaussian kernel.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Width. ``"scale"`` and ``"auto"`` mean the width of the Gaussian kernel with that ``gamma``.

    Examples
    --------
    >>> from quadfeat.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5, length_scale=1.0)([[0.0], [1.0]]).round(4)
    array([[1.    , 0.7071],
           [0.7071, 1.    ]])
    """

    def __init__(self, alpha: float = 1.0, *, length_scale: Scale = "scale") -> None:
        self.alpha = alpha
        self.length_scale = length_scale

    @property
    def spectrum(self) -> Spectrum:
        return GammaMixtureSpectrum(_check_shape(self.alpha, "alpha"))

    @property
    def native_profile(self) -> tuple[str, float] | None:
        return "rational_quadratic", _check_shape(self.alpha, "alpha")

    def value_at(self, separations: Float64Array) -> Float64Array:
        alpha = _check_shape(self.alpha, "alpha")
        return np.asarray(np.exp(-alpha * np.log1p(separations / (2.0 * alpha))))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        alpha = _check_shape(self.alpha, "alpha")
        return np.asarray(-0.5 * np.exp(-(alpha + 1.0) * np.log1p(separations / (2.0 * alpha))))
