"""The feature map of a kernel of linearly transformed rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils.columns import check_finite
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import core
from quadfeat.engine.threads import n_threads
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel, Metric, Projection
from quadfeat.maps.base import diagonal, factor
from quadfeat.maps.gradients import gradients
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.maps.quadrature import Origin, QuadratureMap
from quadfeat.rules.nodes import DenseDirections, Nodes

# Number of entries of a block of rows, before and after the transformation: few enough to stay in
# the cache.
ENTRIES_PER_BLOCK = 2**18


@register
@dataclass(frozen=True, eq=False)
class MetricMap(KernelMap):
    """Features of the rows ``A (x - c)``, whose inner products approximate a ``Metric`` kernel.

    Rows are transformed in float64, one block at a time, and rounded to their dtype. Each row is
    transformed independently, so results do not depend on blocks and threads, not even in the last
    bit.

    Parameters
    ----------
    projection : Projection
        The matrix ``A`` and the center ``c``.
    inner : QuadratureMap
        The map of the transformed rows.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.kernels import Gaussian, Metric
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> kernel = Metric(Gaussian(gamma=0.5), [[1.0, 1.0, 0.0]])
    >>> features = QuadratureFeatures(kernel, n_components=64, random_state=0).fit(X)
    >>> gradients = features.map_.gradients(X, np.ones(64))
    >>> gradients.shape, bool(np.allclose(gradients[:, 0], gradients[:, 1]))
    ((100, 3), True)
    >>> bool(np.allclose(gradients[:, 2], 0))
    True
    """

    projection: Projection
    inner: QuadratureMap

    def check_consistency(self) -> None:
        """Raise an error if the parts do not fit together; see ``quadfeat.io.register``."""
        checks.check_kind(self.projection, Projection, "projection of map_")
        checks.check_kind(self.inner, QuadratureMap, "inner of map_")
        width, expected = self.projection.width, self.inner.n_features_in
        checks.expect(
            width == expected,
            f"matrix of map_ has {width} rows, but its nodes have {expected} columns",
        )
        checks.expect(self.inner.kernel.projection is None, "the inner kernel of map_ is a Metric")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    @property
    def n_features_in(self) -> int:  # type: ignore[override]
        return self.projection.n_features_in

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        return self.inner.n_columns

    @property
    def n_jobs(self) -> int | None:  # type: ignore[override]
        return self.inner.n_jobs

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        projection = self.projection
        return Metric(
            self.inner.kernel, projection.matrix, center=projection.center, knee=projection.knee
        )

    @property
    def nodes(self) -> Nodes:  # type: ignore[override]
        return self.inner.nodes

    @property
    def origin(self) -> Origin | None:  # type: ignore[override]
        return self.inner.origin

    def with_nodes(self, nodes: Nodes, origin: Origin | None) -> MetricMap:
        return replace(self, inner=self.inner.with_nodes(nodes, origin))

    def with_jobs(self, n_jobs: int | None) -> MetricMap:
        if n_jobs == self.n_jobs:
            return self
        other = replace(self, inner=self.inner.with_jobs(n_jobs))
        vars(other)["_compiled"] = vars(self)["_compiled"]
        return other

    def light(self) -> Any:
        inner = self.inner.light()
        return self if inner is self.inner else LightMetricMap(self.projection, inner)

    def write(self, X: Any, out: Array) -> None:
        for rows, projected in self.projected(X):
            self.inner.write(projected, out[rows])

    def multiply(self, X: Any, V: Any) -> Array:
        V = self.left_factor(V, X.dtype)
        out: Array = np.empty((X.shape[0], V.shape[1]), dtype=X.dtype)
        for rows, projected in self.projected(X):
            out[rows] = self.inner.multiply(projected, V)
        return out

    def transpose_multiply(self, X: Any, U: Any) -> Float64Array:
        U = factor(U, "U", X.shape[0], "rows of X", np.float64)
        out = np.zeros((self.n_columns, U.shape[1]))
        for rows, projected in self.projected(X):
            out += self.inner.transpose_multiply(projected, U[rows])
        return out

    def normal_multiply(self, X: Any, V: Any, weights: Any = None) -> Float64Array:
        V = factor(V, "V", self.n_columns, "components", X.dtype)
        if weights is not None:
            weights = np.asarray(weights, dtype=np.float64)
            diagonal(weights, X)  # rejects a wrong number of weights
        out = np.zeros(V.shape)
        for rows, projected in self.projected(X):
            part = None if weights is None else weights[rows]
            out += self.inner.normal_multiply(projected, V, part)
        return out

    def gradients(self, X: Any, coefficients: Any) -> Float64Array:
        return gradients(self.kernel, self.nodes, X, coefficients)

    def fingerprint(self) -> str:
        matrix, center, knee = (
            vars(self.projection)[name] for name in ("matrix", "center", "knee")
        )
        center = np.zeros(self.n_features_in) if center is None else center
        digest = hashlib.sha256(repr(matrix.shape).encode())
        for values in (matrix, center) if knee is None else (matrix, center, knee):
            digest.update(np.ascontiguousarray(values + 0.0).tobytes())  # -0.0 becomes 0.0
        digest.update(self.inner.fingerprint().encode())
        return digest.hexdigest()

    # The transformed rows.

    def projected(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows, and the transformed rows in the dtype of ``X``.

        Raise an error if rows are not finite, or if transformed rows overflow.
        """
        width = self.projection.width
        if not self._stays_sparse(X):
            width = max(width, X.shape[1])
        size = max(1, ENTRIES_PER_BLOCK // width)
        for start in range(0, X.shape[0], size):  # a partition may have no rows
            rows = slice(start, start + size)
            yield rows, self._project(X[rows])

    def _project(self, X: Any) -> Array:
        """Return a block of transformed rows in the dtype of ``X``."""
        largest = core.largest_magnitude(X)
        if not np.isfinite(largest):
            check_finite(X)
        with np.errstate(over="ignore", invalid="ignore"):
            if self._stays_sparse(X):
                found = self.projection.sparse_rows(X)
            else:
                found = self._product(X.toarray() if sparse.issparse(X) else X)
            found = found.astype(X.dtype, copy=False)
        if not np.isfinite(core.largest_magnitude(found)):
            way_out = "rescale X" if X.dtype == np.float64 else "rescale X or pass it as float64"
            raise ValueError(
                f"X has entries as large as {largest:.3g}, and their product with the matrix of "
                f"the kernel is beyond the range of {X.dtype}: {way_out}."
            )
        return found

    def _stays_sparse(self, X: Any) -> bool:
        """Return whether rows stay sparse: only if the projection does not compress them."""
        return bool(sparse.issparse(X)) and self.projection.knee is None

    def _product(self, X: Array) -> Float64Array:
        """Return the projection of dense rows, which does not depend on the other rows."""
        rows, matrix = self.projection.centered(X), self.projection.matrix
        if core.CORE == "numpy":
            # The last bit of BLAS results depends on the number of rows.
            return np.asarray(np.einsum("ij,kj->ik", rows, matrix))
        found = np.empty((len(rows), len(matrix)))
        threads = n_threads(self.n_jobs, X.size)
        self._compiled_product().transform(np.ascontiguousarray(rows), found, threads, core.CORE)
        return found

    def _compiled_product(self) -> Any:
        """Return a native map that multiplies rows by the matrix, as fast as BLAS."""
        cache: dict[str, Any] = vars(self)["_compiled"]
        if "product" not in cache:
            ones = np.ones(self.projection.width)
            nodes = Nodes(DenseDirections(self.projection.matrix), ones, ones)
            cache["product"] = core.native_map(nodes, None, np.dtype(np.float64), "dense")
        return cache["product"]


@dataclass(frozen=True)
class LightMetricMap:
    """A map without its nodes, to send to other processes; see :meth:`FeatureMap.light`."""

    projection: Projection
    inner: Any

    def unpacked(self) -> MetricMap:
        """Draw the nodes again and return the map."""
        return MetricMap(self.projection, self.inner.unpacked())


def map_of(kernel: Kernel, nodes: Nodes, origin: Origin | None = None) -> KernelMap:
    """Return the map of a kernel and the nodes that a rule has drawn for ``kernel.inner``."""
    inner = QuadratureMap(kernel.inner, nodes, origin)
    projection = kernel.projection
    return inner if projection is None else MetricMap(projection, inner)
