r"""What is approximated: kernels ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``.

A kernel is a small scikit-learn object. Called on two matrices it returns the exact Gram matrix;
asked by a rule it tells its nonlinearity ``phi``, its constant ``c``, the law of ``w`` and the
factor by which inputs are scaled. Parameters that depend on the data (``"scale"``, ``"auto"``)
become numbers in :meth:`Kernel.resolve`, which ``fit`` of a feature map calls.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy import sparse, special
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels.nonlinearities import Fourier, Nonlinearity, Pointwise, Ramp
from quadfeat.kernels.quadrature import gaussian_product_moments
from quadfeat.kernels.spectra import (
    CauchyProduct,
    GammaMixtureSpectrum,
    NormalSpectrum,
    Spectrum,
    StudentSpectrum,
)

__all__ = [
    "ArcCosine",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "PointwiseNonlinear",
    "RationalQuadratic",
]

Self = TypeVar("Self", bound="Kernel")

# What a user may give for a scale: a number, one per input, or a rule that looks at the data.
Scale = float | Array | str
DATA_RULES = ("scale", "auto")

# Entries of the data that are looked at at once.
ENTRIES_PER_BATCH = 2**18

# To which the standard deviation of the data is rounded.
DEVIATION_BITS = 42


class Kernel(BaseEstimator, ABC):
    """Base of all kernels.

    Attributes
    ----------
    constant : float
        The factor ``c`` in front of the expectation.
    scale_parameter : str
        The name of the parameter that scales the inputs.
    scale_range : str
        What it may be. A ``gamma`` of 0 leaves an input out.
    """

    constant: float = 1.0
    scale_parameter: str
    scale_range: str = ">= 0"

    @property
    @abstractmethod
    def nonlinearity(self) -> Nonlinearity:
        """The function ``phi``."""

    @property
    @abstractmethod
    def spectrum(self) -> Spectrum:
        """The law of ``w`` for scaled inputs."""

    @abstractmethod
    def _scale_to_factor(self, value: Float64Array) -> Float64Array:
        """Turn the scale parameter into the factor that multiplies the inputs."""

    @abstractmethod
    def _default_scale(self, d: int, deviation: float) -> float:
        """Return the scale parameter for ``d`` inputs of this standard deviation."""

    @abstractmethod
    def _gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        """Return the Gram matrix of scaled inputs; ``same`` says that Y is X."""

    @abstractmethod
    def _pairs(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        """Return the kernel of scaled inputs row by row."""

    @property
    def evaluations_per_pair(self) -> int:
        """How many evaluations of a function the exact kernel of two rows takes."""
        return 1

    def resolve(self: Self, X: Any, sample_weight: Any = None) -> Self:
        """Return a copy whose scale is a number, or one number per input.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data that ``"scale"`` and ``"auto"`` look at. As in scikit-learn's SVC, the first
            means ``gamma = 1 / (n_features * X.var())`` and the second ``1 / n_features``; a
            kernel with a ``length_scale`` takes the one of the Gaussian kernel of that gamma.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts in the variance.

        Returns
        -------
        Kernel
            A new object; this one is left as it is.
        """
        X = check.check_matrix(X, "X")
        weights = None if sample_weight is None else check.check_weights(sample_weight, X)
        return self.resolve_on(X, weights)

    def resolve_on(self: Self, X: Any, weights: Float64Array | None) -> Self:
        """Return what ``resolve`` does, for rows and weights that are validated."""
        deviation = Spread.of(X, weights).deviation if self.depends_on_deviation() else 1.0
        return self.resolve_for(X.shape[1], deviation)

    def depends_on_deviation(self) -> bool:
        """Return whether the scale is to be computed from the standard deviation of the data."""
        scale = getattr(self, self.scale_parameter)
        if isinstance(scale, str):
            return check.check_choice(scale, self.scale_parameter, DATA_RULES) == "scale"
        return False

    def resolve_for(self: Self, d: int, deviation: float) -> Self:
        """Return a copy whose scale is a number, for inputs of this width and deviation."""
        resolved = clone(self)  # which copies an array of scales, too
        scale = getattr(self, self.scale_parameter)
        if isinstance(scale, str):
            check.check_choice(scale, self.scale_parameter, DATA_RULES)
            if scale == "auto":
                deviation = 1.0
            if deviation == 0:  # scikit-learn takes gamma = 1 for data without any spread
                deviation = 1.0 / np.sqrt(d)
            value = self._default_scale(d, deviation)
            if not 0 < value < np.inf:
                raise ValueError(
                    f"{self.scale_parameter}={scale!r} of {type(self).__name__} cannot be computed "
                    f"for data with standard deviation {deviation:.3g}: rescale X."
                )
            resolved.set_params(**{self.scale_parameter: float(value)})
        resolved.input_factor(d)  # complains now rather than at the first transform
        return resolved

    def input_factor(self, d: int) -> Float64Array:
        """Return what inputs of width ``d`` are multiplied by: shape () or (d,)."""
        name = self.scale_parameter
        value = getattr(self, name)
        if isinstance(value, str):
            check.check_choice(value, name, DATA_RULES)
            raise ValueError(
                f"{name}={value!r} of {type(self).__name__} depends on the data: use "
                "kernel.resolve(X), or the attribute kernel_ of a fitted QuadratureFeatures."
            )
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError("a truth value is no number")
            scale = np.asarray(value, dtype=np.float64)
        except OverflowError as error:  # a whole number beyond the range
            raise ValueError(
                f"{name}={check.one_line(value)} is not valid: give finite numbers "
                f"{self.scale_range}."
            ) from error
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name}={value!r} is not valid: give a number, one per input, "
                f"{' or '.join(map(repr, DATA_RULES))}."
            ) from error
        if scale.ndim > 1 or (scale.ndim == 1 and len(scale) != d):
            raise ValueError(
                f"{name} has shape {scale.shape} and X has {d} columns: give one number, or "
                f"one per column."
            )
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            factor = self._scale_to_factor(scale)
        if not np.isfinite(scale).all() or not np.isfinite(factor).all() or (scale < 0).any():
            raise ValueError(
                f"{name}={value!r} is not valid: give finite numbers {self.scale_range}."
            )
        return factor

    def __call__(self, X: Any, Y: Any | None = None) -> Array:
        """Return the exact Gram matrix.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples_X, n_features)
        Y : array-like or sparse matrix of shape (n_samples_Y, n_features), default=None
            ``None`` means ``X``.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
            Computed in float64; float32 if both inputs are.
        """
        same = Y is None or Y is X
        X, Y, dtype = check.check_pair(X, None if same else Y)
        factor = self.input_factor(X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = check.to_dense_float64(X) * factor
            other = scaled if same else check.to_dense_float64(Y) * factor
            gram = self._gram(scaled, other, same).astype(dtype, copy=False)
        return check.check_range(gram, self)

    def pairs(self, X: Any, Y: Any) -> Array:
        """Return the kernel of each row of ``X`` with the same row of ``Y``.

        Parameters
        ----------
        X, Y : array-like or sparse matrices of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Computed in float64; float32 if both inputs are.

        Examples
        --------
        >>> from quadfeat.kernels import Gaussian
        >>> Gaussian(gamma=0.5).pairs([[0.0], [0.0]], [[0.0], [1.0]]).round(4)
        array([1.    , 0.6065])
        """
        X, Y, dtype = check.check_pair(X, Y)
        if X.shape != Y.shape:
            raise ValueError(
                f"X has {X.shape[0]} rows and Y has {Y.shape[0]}: pairs need one of each."
            )
        factor = self.input_factor(X.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            left, right = (check.to_dense_float64(rows) * factor for rows in (X, Y))
            values = self._pairs(left, right).astype(dtype, copy=False)
        return check.check_range(values, self)


@dataclass(frozen=True)
class Spread:
    """Mean and squared deviations of all entries of tables, which add up from table to table.

    Deviations are computed from differences to an entry of the table. So equal entries have none,
    whatever their weights, and a small spread about a large mean is not lost.

    Attributes
    ----------
    size : float
        How many entries there are, or the sum of their weights.
    unit : float
        The power of two next to the largest magnitude, in which the others are measured so that
        squares stay in range; 0 for a table of zeros.
    origin : float
        An entry.
    squares : float
        The sum of squared deviations from the mean.
    offset : float
        The mean less the origin.
    """

    size: float
    unit: float
    origin: float
    squares: float
    offset: float = 0.0

    @classmethod
    def of(cls, X: Any, weights: Float64Array | None = None) -> Spread:
        """Return that of a dense or sparse matrix, whose rows may have weights."""
        spread = cls(0.0, 0.0, 0.0, 0.0)
        size = max(1, ENTRIES_PER_BATCH // X.shape[1])
        for start in range(0, X.shape[0], size):  # a partition may have no rows
            rows = slice(start, start + size)
            spread = spread.merged(
                cls._of_batch(X[rows], None if weights is None else weights[rows])
            )
        return spread

    @classmethod
    def _of_batch(cls, X: Any, weights: Float64Array | None) -> Spread:
        if weights is not None and not weights.all():  # such rows must not set the unit
            X, weights = X[weights > 0], weights[weights > 0]
        counts = np.ones(X.shape[0]) if weights is None else weights
        size, largest = float(counts.sum()) * X.shape[1], check.largest_magnitude(X)
        if largest == 0 or size == 0:
            return cls(size, 0.0, 0.0, 0.0)
        unit = math.ldexp(1.0, math.frexp(largest)[1] - 1)
        if sparse.issparse(X):
            values, counts = X.data, np.repeat(counts, np.diff(X.indptr))
        else:
            values, counts = np.asarray(X), np.broadcast_to(counts[:, None], X.shape)
        shrunk = np.asarray(values, dtype=np.float64) / unit
        # Entries that a sparse matrix does not store are zeros.
        origin = float(shrunk.flat[0]) if shrunk.size == X.shape[0] * X.shape[1] else 0.0
        shrunk -= origin
        offset = float((counts * shrunk).sum() / size)
        squares = (counts * (shrunk - offset) ** 2).sum()
        if shrunk.size < X.shape[0] * X.shape[1]:
            squares += (size - counts.sum()) * offset**2
        return cls(size, unit, origin, float(squares), offset)

    def merged(self, other: Spread) -> Spread:
        """Return that of both tables together."""
        if self.size == 0 or other.size == 0:
            return other if self.size == 0 else self
        unit, size = max(self.unit, other.unit), self.size + other.size
        if unit == 0:
            return Spread(size, 0.0, 0.0, 0.0)
        left, right = self.unit / unit, other.unit / unit
        step = other.origin * right - self.origin * left
        step += other.offset * right - self.offset * left
        offset = self.offset * left + step * (other.size / size)
        squares = self.squares * left**2 + other.squares * right**2
        squares += step**2 * self.size * (other.size / size)
        return Spread(size, unit, self.origin * left, squares, offset)

    @property
    def mean(self) -> float:
        """The mean, in units of ``unit``."""
        return self.origin + self.offset

    @property
    def deviation(self) -> float:
        """The standard deviation to twelve digits; 0 up to rounding."""
        if self.size == 0:
            return 0.0
        deviation = float(np.sqrt(self.squares / self.size))
        if deviation <= 8 * np.finfo(np.float64).eps:
            return 0.0
        # The last bits depend on the order of the rows, and maps are not to.
        fraction, exponent = math.frexp(deviation * self.unit)
        return math.ldexp(round(fraction * 2**DEVIATION_BITS), exponent - DEVIATION_BITS)


class _Stationary(Kernel):
    """A kernel of the scaled difference ``x - y``: cosine and sine features."""

    @property
    def nonlinearity(self) -> Nonlinearity:
        return Fourier()

    def _pairs(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return self._gram(X - Y, np.zeros((1, X.shape[1])), same=False)[:, 0]

    def at_distance(self, distances: Float64Array) -> Float64Array:
        """Return the kernel of rows whose scaled difference has these lengths, along an axis."""
        return self._gram(distances[:, None], np.zeros((1, 1)), same=False)[:, 0]


class SeparationKernel(_Stationary):
    """A stationary kernel of one number a pair of rows, their separation.

    That is the square of the Euclidean distance of scaled rows, unless the kernel says otherwise.
    With slopes by it the scale can be learnt (:mod:`quadfeat.solvers.lengthscales`).
    """

    @abstractmethod
    def value_at(self, separations: Float64Array) -> Float64Array:
        """Return the kernel at these separations, in the same shape."""

    @abstractmethod
    def slope_at(self, separations: Float64Array) -> Float64Array:
        """Return the derivative of :meth:`value_at`; 0 at no separation if it is infinite there."""

    @abstractmethod
    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        """Return the scale parameter for which inputs are multiplied by ``factor``."""

    def usual_factor(self, d: int) -> float:
        """Return what ``"scale"`` multiplies ``d`` inputs of standard deviation 1 by."""
        return float(self._scale_to_factor(np.asarray(self._default_scale(d, 1.0))))

    def separations(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        """Return the separations of the rows of scaled inputs; ``same`` says that Y is X."""
        return _squared_distances(X, Y, same)

    def factor_gradient(self, X: Float64Array, sensitivities: Float64Array) -> Float64Array:
        r"""Differentiate a function of the separations by the logarithms of the input factors.

        Parameters
        ----------
        X : ndarray of shape (m, d)
            Scaled inputs.
        sensitivities : ndarray of shape (m, m)
            The derivative :math:`S_{ab}` by the separation of each two rows.

        Returns
        -------
        ndarray of shape (d,)
            :math:`2 \sum_{ab} S_{ab} (x_{ai} - x_{bi})^2` for each input :math:`i`.
        """
        # The square multiplied out: a matrix product instead of an array of m x m x d.
        totals = sensitivities.sum(axis=0) + sensitivities.sum(axis=1)
        products = np.einsum("ai,ai->i", X, sensitivities @ X)
        return np.asarray(2.0 * (totals @ X**2 - 2.0 * products))

    def _gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        return self.value_at(self.separations(X, Y, same))


class _WithLengthScale(Kernel):
    """A kernel whose inputs are divided by ``length_scale``."""

    scale_parameter = "length_scale"
    scale_range = "> 0"

    def _scale_to_factor(self, value: Float64Array) -> Float64Array:
        return 1.0 / value

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        return 1.0 / factor

    def _default_scale(self, d: int, deviation: float) -> float:
        return float(np.sqrt(d / 2.0) * deviation)


class Gaussian(SeparationKernel):
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

    scale_parameter = "gamma"

    def __init__(self, gamma: Scale = "scale") -> None:
        self.gamma = gamma

    @property
    def spectrum(self) -> Spectrum:
        return NormalSpectrum()

    def _scale_to_factor(self, value: Float64Array) -> Float64Array:
        return np.asarray(np.sqrt(2.0 * value))

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        return factor**2 / 2.0

    def _default_scale(self, d: int, deviation: float) -> float:
        return 1.0 / d / deviation / deviation

    def value_at(self, separations: Float64Array) -> Float64Array:
        return np.asarray(np.exp(-0.5 * separations))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        return -0.5 * self.value_at(separations)


class Laplacian(SeparationKernel):
    r"""The Laplacian kernel in the L1 norm, ``exp(-gamma |x - y|_1)``.

    Its frequencies have independent Cauchy coordinates. That law is not the same in all
    directions, so rules that rotate cannot serve it; ``MonteCarlo`` and ``QuasiMonteCarlo`` can.

    Parameters
    ----------
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Inverse width. ``"auto"`` is ``1 / n_features``; ``"scale"`` is
        ``1 / (n_features * X.std())``, which like its namesake for the Gaussian kernel makes the
        kernel the same in any unit of measurement.

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

    def _scale_to_factor(self, value: Float64Array) -> Float64Array:
        return value

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        return factor

    def _default_scale(self, d: int, deviation: float) -> float:
        return 1.0 / d / deviation

    def separations(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        return np.asarray(cdist(X, Y, "cityblock"))

    def value_at(self, separations: Float64Array) -> Float64Array:
        return np.asarray(np.exp(-separations))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        return -self.value_at(separations)

    def factor_gradient(self, X: Float64Array, sensitivities: Float64Array) -> Float64Array:
        # An absolute value cannot be multiplied out: column by column, to hold m x m numbers.
        return np.array([np.vdot(sensitivities, np.abs(x[:, None] - x)) for x in X.T])


# Beyond these, powers of a parameter of shape, or the frequencies it stands for, are out of range.
SHAPES = (1e-6, 1e15)


def _check_shape(value: Any, name: str) -> float:
    """Return a parameter of shape as a float if it is in range."""
    shape = check.check_positive(value, name)
    least, most = SHAPES
    if not least <= shape <= most:
        raise ValueError(f"{name}={value!r} is not valid: give a number from {least} to {most}.")
    return shape


class Matern(_WithLengthScale, SeparationKernel):
    r"""The Matern kernel with scikit-learn's ``length_scale`` and ``nu``.

    .. math::

        k(x, y) = \frac{2^{1-\nu}}{\Gamma(\nu)} (\sqrt{2\nu}\, r)^\nu K_\nu(\sqrt{2\nu}\, r),
        \qquad r = |x - y| / \ell

    Its frequencies follow a Student law with ``2 nu`` degrees of freedom, which has second
    moments only for ``nu > 1``: below that, degree-3 rules cannot serve it.

    Parameters
    ----------
    nu : float, default=2.5
        Smoothness, from 1e-6 to 1e15; ``inf`` is the Gaussian kernel.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Width. The words mean the width of the Gaussian kernel with that ``gamma``.

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

    def separations(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        if self.nu == np.inf:
            return _squared_distances(X, Y, same)
        # Distance by distance, since rough kernels feel the rounding of a matrix product at zero.
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


# Slopes of rough kernels are infinite at zero. Rows nearer to each other than this hardly move with
# the scale, and an enormous slope would only multiply rounding.
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
    # In logarithms, with the exponentially scaled Bessel function, so that a large distance
    # does not overflow. Where a tiny one does, the kernel is 1 to rounding.
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


# From here on the expansion of Bessel functions for large order is good to 1e-11.
SMOOTH_NU = 50.0


def _smooth_matern(nu: float, distance: Float64Array) -> Float64Array:
    r"""Return the Matern kernel of large order at ``distance`` :math:`= \sqrt{2\nu}\, r`.

    By Debye's uniform expansion of :math:`K_\nu(\nu z)` (DLMF 10.41.4) and Stirling's of
    :math:`\Gamma(\nu)`, whose large terms cancel by hand: with :math:`w = \sqrt{1 + z^2}`,

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


class RationalQuadratic(_WithLengthScale, SeparationKernel):
    r"""The rational quadratic kernel with scikit-learn's ``length_scale`` and ``alpha``.

    .. math:: k(x, y) = \left(1 + \frac{|x - y|^2}{2 \alpha \ell^2}\right)^{-\alpha}

    A mixture of Gaussian kernels over a Gamma law of inverse squared widths.

    Parameters
    ----------
    alpha : float, default=1.0
        Scale mixture, from 1e-6 to 1e15; large values give the Gaussian kernel.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Width. The words mean the width of the Gaussian kernel with that ``gamma``.

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

    def value_at(self, separations: Float64Array) -> Float64Array:
        alpha = _check_shape(self.alpha, "alpha")
        return np.asarray(np.exp(-alpha * np.log1p(separations / (2.0 * alpha))))

    def slope_at(self, separations: Float64Array) -> Float64Array:
        alpha = _check_shape(self.alpha, "alpha")
        return np.asarray(-0.5 * np.exp(-(alpha + 1.0) * np.log1p(separations / (2.0 * alpha))))


class ArcCosine(_WithLengthScale):
    r"""The arc-cosine kernels of Cho and Saul: infinitely wide one-layer networks.

    .. math::

        k_b(x, y) = 2 E[\phi_b(w^\top x) \phi_b(w^\top y)], \qquad \phi_b(t) = \max(t, 0)^b,
        \qquad w \sim N(0, I)

    With the angle :math:`a` between the rows, :math:`k_0 = 1 - a/\pi`,
    :math:`k_1 = |x||y| (\sin a + (\pi - a) \cos a) / \pi` and
    :math:`k_2 = (|x||y|)^2 (3 \sin a \cos a + (\pi - a)(1 + 2 \cos^2 a)) / \pi`. The step takes the
    value 1/2 at zero, so a zero row has :math:`k_0 = 1/2` with every row, itself included.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        Step, ramp or squared ramp.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default=1.0
        Inputs are divided by it. One number only multiplies the kernel by a power of it (not at
        all for order 0); one per input weighs the inputs.

    Examples
    --------
    >>> from quadfeat.kernels import ArcCosine
    >>> ArcCosine(order=0)([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]).round(4)
    array([[1.  , 0.75, 0.5 ],
           [0.75, 1.  , 0.5 ],
           [0.5 , 0.5 , 0.5 ]])
    """

    constant = 2.0

    def __init__(self, order: int = 1, *, length_scale: Scale = 1.0) -> None:
        self.order = order
        self.length_scale = length_scale

    @property
    def nonlinearity(self) -> Nonlinearity:
        if isinstance(self.order, (bool, np.bool_)) or self.order not in (0, 1, 2):
            raise ValueError(
                f"order={self.order!r} is not valid: give 0, 1 or 2, or the kernel "
                "PointwiseNonlinear with a function of your own."
            )
        return Ramp(int(self.order))

    @property
    def spectrum(self) -> Spectrum:
        return NormalSpectrum()

    def _gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        x_norms, y_norms, cosine = _norms_and_cosines(X, Y, same)
        return self._value(x_norms[:, None], y_norms, cosine)

    def _pairs(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return self._value(*_pairwise_norms_and_cosines(X, Y))

    def _value(
        self, x_norms: Float64Array, y_norms: Float64Array, cosine: Float64Array
    ) -> Float64Array:
        order = self.nonlinearity.homogeneity
        angle, sine = np.arccos(cosine), np.sqrt((1.0 - cosine) * (1.0 + cosine))
        lengths = x_norms * y_norms
        if order == 0:
            return np.where((x_norms == 0) | (y_norms == 0), 0.5, 1.0 - angle / np.pi)
        if order == 1:
            return lengths * ((sine + (np.pi - angle) * cosine) / np.pi)
        shape = 3.0 * sine * cosine + (np.pi - angle) * (1.0 + 2.0 * cosine**2)
        return lengths**2 * (shape / np.pi)


class PointwiseNonlinear(_WithLengthScale):
    r"""The kernel ``E[phi(w.x) phi(w.y)]`` of any function ``phi``, ``w`` standard normal.

    The exact Gram matrix comes from a two-dimensional quadrature per pair of rows, in polar
    coordinates and cut along the lines ``w.x = 0`` and ``w.y = 0``: a function with a jump or a
    kink at zero is integrated as well as a smooth one. That costs about ``8 n_nodes^2``
    evaluations of ``phi`` per pair, so it is for checking; features cost one evaluation per entry.
    A kink or jump elsewhere is integrated to a few digits only, and a function that is steep in
    the scale of the data needs more nodes: compare the results of two numbers of nodes.

    Parameters
    ----------
    phi : callable
        A function of an array that works element by element, such as ``numpy.tanh`` or
        ``scipy.special.erf``. To pickle the fitted map, define it with ``def`` in a module.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default=1.0
        Inputs are divided by it.
    n_nodes : int, default=32
        Quadrature points of the exact kernel, per half-line and per piece of the circle; at most
        256.

    Examples
    --------
    >>> from scipy.special import erf
    >>> from quadfeat.kernels import PointwiseNonlinear
    >>> kernel = PointwiseNonlinear(erf)
    >>> kernel([[1.0, 0.0], [1.0, 1.0]]).round(4)
    array([[0.4646, 0.3455],
           [0.3455, 0.5903]])
    """

    def __init__(
        self, phi: Callable[[Any], Any], *, length_scale: Scale = 1.0, n_nodes: int = 32
    ) -> None:
        self.phi = phi
        self.length_scale = length_scale
        self.n_nodes = n_nodes

    @property
    def nonlinearity(self) -> Nonlinearity:
        if not callable(self.phi):
            raise TypeError(
                f"phi={self.phi!r} is not valid: give a function of an array, such as numpy.tanh."
            )
        return Pointwise(self.phi)

    @property
    def spectrum(self) -> Spectrum:
        return NormalSpectrum()

    @property
    def evaluations_per_pair(self) -> int:
        return 8 * self._checked_nodes() ** 2

    def _checked_nodes(self) -> int:
        n_nodes = check.check_count(self.n_nodes, "n_nodes", minimum=2)
        if n_nodes > 256:
            raise ValueError(f"n_nodes={n_nodes} is not valid: give at most 256.")
        return n_nodes

    def _pairs(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return gaussian_product_moments(
            self.nonlinearity, *_pairwise_norms_and_cosines(X, Y), self._checked_nodes()
        )

    def _gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        n_nodes = self._checked_nodes()
        phi = self.nonlinearity
        x_norms, y_norms, cosine = _norms_and_cosines(X, Y, same)
        if same:
            gram = np.empty_like(cosine)
            i, j = np.tril_indices_from(gram)
            gram[i, j] = gram[j, i] = gaussian_product_moments(
                phi, x_norms[i], x_norms[j], cosine[i, j], n_nodes
            )
            return gram
        left, right = np.broadcast_arrays(x_norms[:, None], y_norms)
        moments = gaussian_product_moments(
            phi, left.ravel(), right.ravel(), cosine.ravel(), n_nodes
        )
        return moments.reshape(cosine.shape)


def _squared_distances(X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
    """Return squared distances, by a matrix product of rows near the origin: others cancel."""
    from sklearn.metrics.pairwise import euclidean_distances  # imports half of scikit-learn

    centre = X.mean(axis=0)
    near = X - centre
    distances: Float64Array = euclidean_distances(near, None if same else Y - centre, squared=True)
    return distances


def _norms_and_cosines(
    X: Float64Array, Y: Float64Array, same: bool
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the norms of the rows and the cosines between them, in [-1, 1]; 0 for zero rows."""
    x_norms, x_units = _norms_and_units(X)
    y_norms, y_units = (x_norms, x_units) if same else _norms_and_units(Y)
    cosine = np.clip(x_units @ y_units.T, -1.0, 1.0)
    if same:
        np.fill_diagonal(cosine, np.where(x_norms > 0, 1.0, 0.0))
    return x_norms, y_norms, cosine


def _pairwise_norms_and_cosines(
    X: Float64Array, Y: Float64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return norms of the rows and the cosine of each row of one with the same of the other."""
    x_norms, x_units = _norms_and_units(X)
    y_norms, y_units = _norms_and_units(Y)
    cosine = np.clip(np.einsum("ij,ij->i", x_units, y_units), -1.0, 1.0)
    # The same row twice has the cosine 1, not 1 to rounding: the angle feels the root of it.
    cosine[(X == Y).all(axis=1) & (x_norms > 0)] = 1.0
    return x_norms, y_norms, cosine


def _norms_and_units(X: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the norms of the rows and the rows divided by them, at any scale."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    units = X / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt((units**2).sum(axis=1, keepdims=True))
    units /= np.where(lengths > 0, lengths, 1.0)
    return (largest * lengths)[:, 0], units


# The names that stand for a kernel with its default parameters.
_NAMED: dict[str, Callable[[], Kernel]] = {
    "gaussian": Gaussian,
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "matern12": lambda: Matern(0.5),
    "matern32": lambda: Matern(1.5),
    "matern52": lambda: Matern(2.5),
    "rational-quadratic": RationalQuadratic,
    "arccos0": lambda: ArcCosine(0),
    "arccos1": lambda: ArcCosine(1),
    "arccos2": lambda: ArcCosine(2),
}


def as_kernel(kernel: Kernel | str) -> Kernel:
    """Return the kernel that a name stands for, or the kernel itself.

    Examples
    --------
    >>> as_kernel("matern52")
    Matern()
    """
    return check.object_or_name(kernel, "kernel", Kernel, _NAMED)  # type: ignore[type-abstract]
