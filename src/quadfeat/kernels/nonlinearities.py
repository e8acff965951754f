"""Define the function ``phi`` that a feature applies to the inner product of a row and a node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array

# A NumPy function takes about this many times as long as a function of the native core.
COST_OF_NUMPY = 16


class Nonlinearity(ABC):
    """Base class of nonlinearities: a function ``phi`` and its properties.

    A subclass defines ``at_zero``, ``is_even``, :meth:`__call__` and :meth:`largest`. The defaults
    of the other attributes fit a scalar function that NumPy computes. Make a subclass a frozen
    dataclass, since maps are compared by its ``repr``.

    Attributes
    ----------
    at_zero : float
        ``phi(0)``. For the pair of cosine and sine it is 1, the value of the cosine.
    is_even : bool
        Whether ``f(w) = phi(w.x) phi(w.y)`` equals ``f(-w)``. This holds if ``phi`` is even, odd,
        or the pair of cosine and sine. If not, each node is used together with its reflection.
    homogeneity : int or None
        The order ``b`` with ``phi(r t) = r^b phi(t)`` for all ``r > 0``, or ``None``.
    columns_per_node : {1, 2}
        The number of columns per node: 2 for the pair of cosine and sine.
    native_name : str or None
        The name of the function in the native core, or ``None`` if NumPy computes it.
    is_periodic : bool
        Whether arguments are angles. The native core measures angles in half turns and has a
        separate limit for them.
    cost : int
        The time to compute one value, relative to a function of the native core.
    """

    columns_per_node: int = 1
    is_periodic: bool = False

    @property
    @abstractmethod
    def at_zero(self) -> float:
        """The value at zero."""

    @property
    @abstractmethod
    def is_even(self) -> bool:
        """Whether a node and its reflection give the same product ``phi(w.x) phi(w.y)``."""

    @property
    def homogeneity(self) -> int | None:
        """The order of homogeneity."""
        return None

    @property
    def native_name(self) -> str | None:
        """The name of the function in the native core."""
        return None

    @property
    def cost(self) -> int:
        """The time to compute one value, relative to a function of the native core."""
        return COST_OF_NUMPY if self.native_name is None else 1

    @property
    def name(self) -> str:
        """A name that identifies the function, the same in every process."""
        return repr(self)

    @abstractmethod
    def __call__(self, t: Array) -> Array:
        """Return ``phi(t)`` elementwise. Two columns per node go along a new last axis."""

    def columns(self, t: Array) -> Iterable[Array]:
        """Return the values of each column of a node, in the shape of ``t``."""
        values = self(t)
        return [values] if self.columns_per_node == 1 else np.moveaxis(values, -1, 0)

    def single_column(self, t: Array, phase: float) -> Array:
        """Return one column ``g`` that replaces both columns of a node.

        For ``phase`` uniform on [0, 2 pi], the mean of ``2 g(t) g(u)`` is ``phi(t) . phi(u)``.
        """
        if self.columns_per_node == 1:
            return self(t)
        first, second = self.columns(t)
        return first * t.dtype.type(np.cos(phase)) - second * t.dtype.type(np.sin(phase))

    @abstractmethod
    def largest(self, bound: float) -> float:
        """Return the largest ``|phi(t)|`` for ``|t| <= bound``, or 0 if unknown."""

    def slope(self, t: Array) -> Array:
        """Return the derivative of ``phi``, in the shape of ``phi(t)``.

        Only gradients of models need it.
        """
        raise ValueError(
            f"{check.one_line(self)} has no known derivative, so its features have no gradients: "
            "use a stationary kernel or ArcCosine with order 1 or 2, or define slope(t) in the "
            "nonlinearity."
        )


@dataclass(frozen=True)
class Fourier(Nonlinearity):
    """The pair ``phi(t) = [cos(t), sin(t)]`` of stationary kernels, with two columns per node."""

    at_zero = 1.0
    is_even = True
    columns_per_node = 2
    native_name = "fourier"
    is_periodic = True

    def __call__(self, t: Array) -> Array:
        """Return the cosine and the sine along a new last axis."""
        return np.stack([np.cos(t), np.sin(t)], axis=-1)

    def columns(self, t: Array) -> Iterable[Array]:
        yield np.cos(t)
        yield np.sin(t)

    def single_column(self, t: Array, phase: float) -> Array:
        return np.cos(t + t.dtype.type(phase))

    def largest(self, bound: float) -> float:
        return 1.0

    def slope(self, t: Array) -> Array:
        return np.stack([-np.sin(t), np.cos(t)], axis=-1)


@dataclass(frozen=True)
class Ramp(Nonlinearity):
    """A power of the ramp, ``max(t, 0)^order``. Order 0 is the step, with value 1/2 at 0."""

    order: int
    is_even = False

    @property
    def native_name(self) -> str | None:
        return ("step", "ramp", "squared_ramp")[self.order] if self.order <= 2 else None

    @property
    def at_zero(self) -> float:
        return 0.5 if self.order == 0 else 0.0

    @property
    def homogeneity(self) -> int:
        return self.order

    def __call__(self, t: Array) -> Array:
        """Return the power of the ramp in the dtype of ``t``."""
        if self.order == 0:
            return np.heaviside(t, t.dtype.type(0.5))
        ramp = np.maximum(t, t.dtype.type(0))
        return ramp if self.order == 1 else ramp**self.order

    def largest(self, bound: float) -> float:
        with np.errstate(over="ignore"):
            return float(np.float64(bound) ** self.order)

    def slope(self, t: Array) -> Array:
        if self.order == 0:
            raise ValueError(
                "ArcCosine(order=0) is a step function without a derivative, so its features have "
                "no gradients: use order=1 or order=2, or a stationary kernel."
            )
        return self.order * Ramp(self.order - 1)(t)


@dataclass(frozen=True)
class Pointwise(Nonlinearity):
    """A user-defined function.

    Its values at a few points decide whether it is even or odd. A wrong guess costs accuracy but
    adds no bias, because a node and its reflection have the same distribution.
    """

    function: Callable[[Any], Any]

    @property
    def name(self) -> str:
        kind = self.function if hasattr(self.function, "__name__") else type(self.function)
        name = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', kind.__name__)}"
        # Functions with the same name may differ, for example in the variables of a closure.
        values = np.round(self(np.linspace(-3.0, 3.0, 25)), 6) + 0.0
        return f"{name}{values.tolist()}"

    def __call__(self, t: Array) -> Array:
        """Return the user-defined function of ``t``; raise an error if it is not elementwise."""
        values = np.asarray(self.function(t.copy()))  # copy: the function may work in place
        if values.shape != t.shape:
            raise ValueError(
                f"phi={self.function!r} returned shape {values.shape} for an argument of shape "
                f"{t.shape}: pass an elementwise function of an array (numpy.vectorize makes one)."
            )
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ValueError(
                f"phi={self.function!r} returned values that are not finite real numbers for "
                f"arguments between {t.min():.3g} and {t.max():.3g}: rescale the input with "
                "length_scale or pass a function that is finite there."
            )
        return values

    @property
    def at_zero(self) -> float:
        return float(self(np.zeros(1))[0])

    @property
    def is_even(self) -> bool:
        t = np.geomspace(1e-3, 3.0, 41)
        plus, minus = self(t), self(-t)
        rounding = 1e-12 * np.abs(plus).max()
        return min(np.abs(plus - minus).max(), np.abs(plus + minus).max()) <= rounding

    def largest(self, bound: float) -> float:
        return 0.0  # each value is checked when it is computed


@dataclass(frozen=True)
class Slope(Nonlinearity):
    """The derivative of another nonlinearity, with its columns in the same order."""

    of: Nonlinearity

    @property
    def columns_per_node(self) -> int:  # type: ignore[override]
        return self.of.columns_per_node

    @property
    def at_zero(self) -> float:
        return float(np.ravel(self(np.zeros(1)))[0])

    @property
    def is_even(self) -> bool:
        return self.of.is_even

    def __call__(self, t: Array) -> Array:
        """Return the derivative at ``t``."""
        return self.of.slope(t)

    def largest(self, bound: float) -> float:
        return 0.0  # unknown
