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
    r"""A kernel with a full metric: another kernel of the rows ``A (x - c)``.

    .. math:: k_A(x, y) = k(A (x - c),\, A (y - c))

    A Gaussian kernel measures distances by the matrix :math:`M = A^\top A`,
    :math:`k_A(x, y) = \exp(-\gamma (x - y)^\top M (x - y))`. A matrix with fewer rows than columns
    ignores all other directions, and a diagonal one is a kernel with a scale for each input.

    Nodes are drawn in the ``r`` dimensions of the transformed rows, so every rule that serves the
    inner kernel serves this one. Maps transform one block of rows at a time.

    Parameters
    ----------
    kernel : Kernel or str
        The kernel of the transformed rows, or its name. Its scale is that of the transformed rows:
        ``"scale"`` looks at their standard deviation, and an array has ``r`` numbers. It is not a
        ``Metric`` itself.
    matrix : array-like of shape (r, n_features)
        The matrix ``A``, with any number of rows.
    center : array-like of shape (n_features,), default=None
        The row ``c``; ``None`` means zeros. The center does not change a stationary kernel. Give
        one if rows are far from the origin and have dtype float32: it keeps the transformed rows
        small, so that they have more digits.
    knee : array-like of shape (n_features,), default=None
        Distances from the center beyond which columns are compressed, so that rows with extreme
        values are not isolated: ``u = x - c`` becomes ``knee * arcsinh(u / knee)``. Infinity leaves
        a column as it is; ``None`` leaves all.

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
        """The matrix ``M = A'A``, by which the kernel measures distances (near the center)."""
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
                "give its inner kernel, and the product of both matrices as matrix."
            )
        return inner

    # The function and the distribution are those of the inner kernel, for transformed rows.

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
        """Return the kernel of rows whose scaled difference has these lengths, along an axis."""
        inner: Any = self.inner  # a stationary one
        return np.asarray(inner.at_distance(distances))

    def scaled(self, X: Any) -> Float64Array:
        inner, projected = self.inner, self.projection.rows(X)
        if not np.isfinite(projected).all():
            raise ValueError(
                f"the product of matrix and X is beyond the range of float64 for "
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
        """Raise an error: inputs are multiplied by a matrix, not by factors."""
        raise ValueError(
            f"{check.one_line(self)} multiplies inputs by a matrix: use kernel.scaled(X), or "
            "kernel.inner.input_factor for the rows of kernel.projection.rows(X)."
        )
