"""Base classes of kernels ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels.nonlinearities import Nonlinearity
from quadfeat.kernels.projection import Projection
from quadfeat.kernels.spectra import (
    Spectrum,
)
from quadfeat.kernels.spread import Spread

Self = TypeVar("Self", bound="Kernel")


# Valid scales: a number, one number per input, or a rule from DATA_RULES.
Scale = float | Array | str

# Rules that compute the scale from the data.
DATA_RULES = ("scale", "auto")
NUMBERS = "a positive number, one for each column"

# Largest number of function evaluations for the exact kernel of a sample.
EVALUATIONS = 2**21


class Kernel(BaseEstimator, ABC):
    """Base class of kernels ``k(x, y) = c E_w[phi(w.x)' phi(w.y)]``.

    A kernel scales its inputs first, so the methods of a subclass get scaled rows. As in every
    scikit-learn object, ``__init__`` only assigns its parameters. A subclass defines

    - ``spectrum``, the distribution of ``w``,
    - ``nonlinearity``, the function ``phi``, and ``constant`` if ``c`` is not 1,
    - :meth:`gram`, the exact kernel, and :meth:`pair_values` if it can be faster than one Gram
      matrix per pair,
    - its scale parameter: derive from :class:`LengthScaleKernel` or :class:`GammaKernel`, or
      define ``scale_parameter``, :meth:`scale_to_factor` and :meth:`default_scale`.

    A kernel that depends only on the difference of two rows needs fewer methods: see
    :class:`Stationary` and :class:`SeparationKernel`.

    Attributes
    ----------
    constant : float
        The factor ``c`` in front of the expectation.
    scale_parameter : str
        The name of the parameter that scales the inputs.
    scale_range : str
        The valid values of the scale parameter, for error messages. An input with ``gamma`` 0 has
        no effect.
    is_stationary : bool
        Whether the kernel depends on ``x - y`` only. Such a kernel has the method ``at_distance``.
    projection : Projection or None
        The linear map that the kernel applies to rows first, if any: see :class:`Metric`.
    """

    constant: float = 1.0
    scale_parameter: str
    scale_range: str = ">= 0"
    is_stationary: bool = False

    @property
    def projection(self) -> Projection | None:
        """The linear map that is applied to rows first, or ``None``."""
        return None

    @property
    def inner(self) -> Kernel:
        """The kernel of the projected rows. Without a projection, it is the kernel itself."""
        return self

    @property
    @abstractmethod
    def nonlinearity(self) -> Nonlinearity:
        """The function ``phi``."""

    @property
    @abstractmethod
    def spectrum(self) -> Spectrum:
        """The distribution of ``w`` for scaled inputs."""

    @abstractmethod
    def scale_to_factor(self, value: Float64Array) -> Float64Array:
        """Turn the scale parameter into the factor that multiplies the inputs."""

    @abstractmethod
    def default_scale(self, d: int, deviation: float) -> float:
        """Return the default scale parameter for ``d`` inputs with this standard deviation."""

    @abstractmethod
    def gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        """Return the Gram matrix of scaled inputs; ``same`` is true if ``Y`` is ``X``."""

    def pair_values(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        """Return the kernel of each scaled row of ``X`` with the corresponding row of ``Y``."""
        return np.array(
            [self.gram(X[[i]], Y[[i]], False)[0, 0] for i in range(len(X))], dtype=np.float64
        )

    @property
    def evaluations_per_pair(self) -> int:
        """The number of function evaluations for the exact kernel of two rows."""
        return 1

    def resolve(self: Self, X: Any, sample_weight: Any = None) -> Self:
        """Return a copy whose scale is a number, or one number per input.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The data that ``"scale"`` and ``"auto"`` use. As in scikit-learn's SVC, ``"scale"``
            means ``gamma = 1 / (n_features * X.var())`` and ``"auto"`` means ``1 / n_features``.
            A kernel with a ``length_scale`` takes that of the Gaussian kernel with this gamma.
        sample_weight : array-like of shape (n_samples,), default=None
            The weight of each row in the variance.

        Returns
        -------
        Kernel
            A new object. The kernel itself does not change.
        """
        X = check.check_matrix(X, "X")
        weights = None if sample_weight is None else check.check_weights(sample_weight, X)
        return self.resolve_on(X, weights)

    def resolve_on(self: Self, X: Any, weights: Float64Array | None) -> Self:
        """Do the work of :meth:`resolve` for validated rows and weights."""
        deviation = 1.0
        if self.depends_on_deviation():
            deviation = Spread.of(X, weights, self.projection).deviation
        return self.resolve_for(X.shape[1], deviation)

    def depends_on_deviation(self) -> bool:
        """Return whether the scale is computed from the standard deviation of the data."""
        scale = getattr(self, self.scale_parameter)
        if isinstance(scale, str):
            return check.check_choice(scale, self.scale_parameter, DATA_RULES, NUMBERS) == "scale"
        return False

    def resolve_for(self: Self, d: int, deviation: float) -> Self:
        """Return a copy with a numeric scale, for ``d`` inputs of this standard deviation."""
        resolved = clone(self)  # also copies an array of scales
        scale = getattr(self, self.scale_parameter)
        if isinstance(scale, str):
            check.check_choice(scale, self.scale_parameter, DATA_RULES, NUMBERS)
            if scale == "auto":
                deviation = 1.0
            if deviation == 0:  # scikit-learn sets gamma = 1 for constant data
                deviation = 1.0 / np.sqrt(d)
            value = self.default_scale(d, deviation)
            if not 0 < value < np.inf:
                raise ValueError(
                    f"{self.scale_parameter}={scale!r} of {type(self).__name__} cannot be computed "
                    f"for data with standard deviation {deviation:.3g}: rescale X."
                )
            resolved.set_params(**{self.scale_parameter: float(value)})
        resolved.input_factor(d)  # raise errors now rather than at the first transform
        return resolved

    def input_factor(self, d: int) -> Float64Array:
        """Return the factor that multiplies ``d`` inputs, of shape () or (d,)."""
        name = self.scale_parameter
        value = getattr(self, name)
        if isinstance(value, str):
            check.check_choice(value, name, DATA_RULES, NUMBERS)
            raise ValueError(
                f"{name}={value!r} of {type(self).__name__} depends on the data: use "
                "kernel.resolve(X), or the attribute kernel_ of a fitted QuadratureFeatures."
            )
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError("a boolean is not a number")
            scale = np.asarray(value, dtype=np.float64)
        except OverflowError as error:  # an integer beyond the range of float64
            raise ValueError(
                f"{name}={check.one_line(value)} is not valid: pass finite numbers "
                f"{self.scale_range}."
            ) from error
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name}={value!r} is not valid: pass a number, one number per column of X, "
                f"{' or '.join(map(repr, DATA_RULES))}."
            ) from error
        if scale.ndim > 1 or (scale.ndim == 1 and len(scale) != d):
            raise ValueError(
                f"{name} has shape {scale.shape} and X has {d} columns: pass one number, or "
                f"one number per column."
            )
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            factor = self.scale_to_factor(scale)
        if not np.isfinite(scale).all() or not np.isfinite(factor).all() or (scale < 0).any():
            raise ValueError(
                f"{name}={value!r} is not valid: pass finite numbers {self.scale_range}."
            )
        return factor

    def scaled(self, X: Any) -> Float64Array:
        """Return dense scaled rows in float64, as :meth:`gram` expects them.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        """
        return np.asarray(check.to_dense_float64(X) * self.input_factor(X.shape[1]))

    def metric_for(self, d: int) -> Float64Array:
        """Return the matrix ``M`` for which ``(x - y)' M (x - y)`` is the scaled squared distance.

        Examples
        --------
        >>> from quadfeat.kernels import Matern
        >>> Matern(length_scale=[1.0, 2.0]).metric_for(2)
        array([[1.  , 0.  ],
               [0.  , 0.25]])
        """
        return np.diag(np.broadcast_to(self.input_factor(d), d) ** 2)

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
            Computed in float64. The result is float32 if both inputs are.
        """
        same = Y is None or Y is X
        X, Y, dtype = check.check_pair(X, None if same else Y)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self.scaled(X)
            other = scaled if same else self.scaled(Y)
            gram = self.gram(scaled, other, same).astype(dtype, copy=False)
        return check.check_range(gram, self)

    def pairs(self, X: Any, Y: Any) -> Array:
        """Return the kernel of each row of ``X`` with the corresponding row of ``Y``.

        Parameters
        ----------
        X, Y : array-like or sparse matrices of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Computed in float64. The result is float32 if both inputs are.

        Examples
        --------
        >>> from quadfeat.kernels import Gaussian
        >>> Gaussian(gamma=0.5).pairs([[0.0], [0.0]], [[0.0], [1.0]]).round(4)
        array([1.    , 0.6065])
        """
        X, Y, dtype = check.check_pair(X, Y)
        if X.shape != Y.shape:
            raise ValueError(
                f"X has {X.shape[0]} rows and Y has {Y.shape[0]}: pass the same number of rows."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.pair_values(self.scaled(X), self.scaled(Y)).astype(dtype, copy=False)
        return check.check_range(values, self)


class LengthScaleKernel(Kernel):
    """Base class of kernels whose parameter ``length_scale`` divides the inputs."""

    scale_parameter = "length_scale"
    scale_range = "> 0"

    def scale_to_factor(self, value: Float64Array) -> Float64Array:
        return 1.0 / value

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        return 1.0 / factor

    def default_scale(self, d: int, deviation: float) -> float:
        return float(np.sqrt(d / 2.0) * deviation)


class GammaKernel(Kernel):
    """Base class of kernels with a parameter ``gamma``, as in ``exp(-gamma |x - y|^2)``.

    Inputs are multiplied by ``sqrt(2 gamma)``.
    """

    scale_parameter = "gamma"

    def scale_to_factor(self, value: Float64Array) -> Float64Array:
        return np.asarray(np.sqrt(2.0 * value))

    def factor_to_scale(self, factor: Float64Array) -> Float64Array:
        return factor**2 / 2.0

    def default_scale(self, d: int, deviation: float) -> float:
        return 1.0 / d / deviation / deviation
