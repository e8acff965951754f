"""The interface of a map that approximates a kernel."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels import Kernel
from quadfeat.maps.base import FeatureMap
from quadfeat.maps.coefficients import ScaledCoefficients
from quadfeat.rules.nodes import Nodes

if TYPE_CHECKING:
    from quadfeat.maps.quadrature import Origin

Self = TypeVar("Self", bound="KernelMap")


class KernelMap(FeatureMap):
    """A map whose columns approximate a kernel by the nodes of a rule.

    Attributes
    ----------
    kernel : Kernel
        The kernel of the rows.
    nodes : Nodes
        The nodes, for the kernel ``kernel.inner``.
    origin : Origin or None
        How the nodes were drawn, if known.
    """

    kernel: Kernel
    nodes: Nodes
    origin: Origin | None

    def __post_init__(self) -> None:
        vars(self)["_compiled"] = {}  # values that are computed on first use

    def scaled(self, coefficients: Float64Array, dtype: Any) -> ScaledCoefficients:
        return ScaledCoefficients.kept(vars(self)["_compiled"], coefficients, dtype)

    def left_factor(self, V: Any, dtype: Any) -> Array:
        _, kept = vars(self)["_compiled"].get(("coefficients", dtype), (None, None))
        if kept is not None and V is kept.values:  # checked when it was scaled
            values: Array = kept.values
            return values
        return super().left_factor(V, dtype)

    @abstractmethod
    def with_nodes(self: Self, nodes: Nodes, origin: Origin | None) -> Self:
        """Return a map of the same kernel with other nodes."""

    @abstractmethod
    def gradients(self, X: Any, coefficients: Any) -> Float64Array:
        """Return the gradients of a function of the features with respect to the rows.

        The function is ``f(x) = psi(x) . b`` with the columns ``psi(x)`` of this map, such as the
        predictions of a model.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features_in)
        coefficients : array-like of shape (n_columns,) or (n_columns, n_outputs)
            The coefficients ``b`` of one function, or of several.

        Returns
        -------
        ndarray of shape (n_rows, n_features_in) or (n_rows, n_outputs, n_features_in)
            float64, for rows of any dtype. Gradients are with respect to the unscaled columns of
            ``X``: they include the scales and the matrix of the kernel.

        Raises
        ------
        ValueError
            If rows or coefficients are not finite, or the nonlinearity of the kernel has no known
            derivative.
        """
