"""Kernels of linearly transformed rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import register
from quadfeat.kernels.base import Kernel
from quadfeat.kernels.nonlinearities import Nonlinearity
from quadfeat.kernels.presets import as_kernel
from quadfeat.kernels.projection import Projection
from quadfeat.kernels.spectra import Spectrum


@register
class Metric(Kernel):
    r"""A kernel with a full metric, which applies another kernel to the rows ``A (x - c)``.

    .. math:: k_A(x, y) = k(A (x - c),\, A (y - c))

    For a Gaussian kernel, :math:`k_A(x, y) = \exp(-\gamma (x - y)^\top M (x - y))` with the metric
    :math:`M = A^\top A`. A matrix with fewer rows than columns ignores the directions of its null
    space. A diagonal matrix sets one scale per input.

    Nodes are drawn in the ``r`` dimensions of the transformed rows, so every rule that supports the
    inner kernel also supports this one. Maps transform one block of rows at a time.

    Parameters
    ----------
    kernel : Kernel or str
        The kernel of the transformed rows, or its name. Its scale refers to the transformed rows:
        ``"scale"`` uses their standard deviation, and an array has ``r`` numbers. It cannot be a
        ``Metric`` itself.
    matrix : array-like of shape (r, n_features)
        The matrix ``A``, with any number of rows.
    center : array-like of shape (n_features,), default=None
        The row ``c``; ``None`` means zeros. The center does not change a stationary kernel. Pass
        one if the rows are float32 and far from the origin: it keeps the transformed rows small, so
        that they lose fewer digits.
    knee : array-like of shape (n_features,), default=None
        Distances from the center beyond which columns are compressed, so that rows with extreme
        values are not isolated: ``u = x - c`` becomes ``knee * arcsinh(u / knee)``. Infinity leaves
        a column unchanged, and ``None`` leaves all columns unchanged.

    See Also
    --------
    quadfeat.maps.MetricMap : The feature map of this kernel, with gradients.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Gaussian, Metric
    >>> A = np.array([[1.0, -1.0]])
    >>> kernel = Metric(Gaussian(gamma=0.5), A)
    >>> kernel([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]).round(4)
    array([[1.    , 1.    , 0.6065],
           [1.    , 1.    , 0.6065],
           [0.6065, 0.6065, 1.    ]])
    >>> kernel.metric
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    def __init__(
        self, kernel: Kernel | str, matrix: Any, *, center: Any = None, knee: Any = None
    ) -> None:
        self.kernel = kernel
        self.matrix = matrix
        self.center = center
        self.knee = knee

    @property
    def metric(self) -> Float64Array:
        """The matrix ``M = A'A``, which defines distances (near the center if there is a knee)."""
        matrix = self.projection.matrix
        return np.asarray(matrix.T @ matrix)

    @property
    def projection(self) -> Projection:
        return Projection.of(self.matrix, self.center, self.knee)

    @property
    def inner(self) -> Kernel:
        inner = as_kernel(self.kernel)
        if inner.projection is not None:
            raise ValueError(
                f"kernel={check.one_line(inner)} is not valid, since it transforms rows itself: "
                "pass its inner kernel, and the product of both matrices as matrix."
            )
        return inner

    # The nonlinearity and the spectrum are those of the inner kernel, for transformed rows.

    @property
    def constant(self) -> float:  # type: ignore[override]
        return self.inner.constant

    @property
    def is_stationary(self) -> bool:  # type: ignore[override]
        return self.inner.is_stationary

    @property
    def nonlinearity(self) -> Nonlinearity:
        return self.inner.nonlinearity

    @property
    def spectrum(self) -> Spectrum:
        return self.inner.spectrum

    @property
    def evaluations_per_pair(self) -> int:
        return self.inner.evaluations_per_pair

    def at_distance(self, distances: Float64Array) -> Float64Array:
        """Return the kernel of rows that differ by these scaled distances along one axis."""
        inner: Any = self.inner  # a stationary kernel
        return np.asarray(inner.at_distance(distances))

    def scaled(self, X: Any) -> Float64Array:
        inner, projected = self.inner, self.projection.rows(X)
        if not np.isfinite(projected).all():
            raise ValueError(
                f"The product of matrix and X is beyond the range of float64 for "
                f"{check.one_line(self)}: rescale X or matrix."
            )
        return inner.scaled(projected)

    def gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        return self.inner.gram(X, Y, same)

    def pair_values(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return self.inner.pair_values(X, Y)

    # The scale is that of the inner kernel.

    @property
    def scale_parameter(self) -> str:  # type: ignore[override]
        return f"kernel__{self.inner.scale_parameter}"

    @property
    def scale_range(self) -> str:  # type: ignore[override]
        return self.inner.scale_range

    def scale_to_factor(self, value: Float64Array) -> Float64Array:
        return self.inner.scale_to_factor(value)

    def default_scale(self, d: int, deviation: float) -> float:
        return self.inner.default_scale(d, deviation)

    def depends_on_deviation(self) -> bool:
        return self.inner.depends_on_deviation()

    def resolve_for(self, d: int, deviation: float) -> Metric:
        """Return a copy with a numeric scale, for transformed rows of this standard deviation."""
        inner, projection = self.inner, self.projection
        projection.check_width(d)
        resolved: Metric = clone(self)
        resolved.kernel = inner.resolve_for(projection.width, deviation)
        return resolved

    def metric_for(self, d: int) -> Float64Array:
        projection = self.projection
        projection.check_width(d)
        inner = self.inner.metric_for(projection.width)
        return np.asarray(projection.matrix.T @ inner @ projection.matrix)

    def input_factor(self, d: int) -> Float64Array:
        """Raise an error, since inputs are multiplied by a matrix instead of factors."""
        raise ValueError(
            f"{check.one_line(self)} multiplies inputs by a matrix, not by factors: use "
            "kernel.scaled(X), or kernel.inner.input_factor for rows of kernel.projection.rows(X)."
        )
