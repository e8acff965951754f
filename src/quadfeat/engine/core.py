"""Choose what computes features: the native core, or NumPy if the native core was not built.

A fitted map is compiled for a dtype into an object that writes features. The constants below decide
between dense and structured products, and between BLAS and the native core, by speed.
``benchmarks/crossover.py`` measures them.
"""

from __future__ import annotations

import os
import platform
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.utils import gen_batches

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine.threads import n_threads

if TYPE_CHECKING:
    from quadfeat.kernels import Kernel
    from quadfeat.rules.nodes import Nodes

try:
    from quadfeat.engine import _native
except ImportError:  # not built: see CMakeLists.txt
    _native = None  # type: ignore[assignment]
IS_NATIVE_BUILT = _native is not None

# Number of input columns up to which the native core uses a dense matrix of nodes: for nodes with
# structure (instead of the structured product) and for nodes without (instead of BLAS).
DENSE_UP_TO = 36
TILES_UP_TO = 128

# Up to this many columns, NumPy's dense product beats its structured one. The matrix is built only
# if it has at most this many entries.
NUMPY_DENSE_UP_TO = 1024
NUMPY_DENSE_ENTRIES = 2**23

# The native cosine reduces its argument in a few steps, which are accurate up to this angle. At
# larger angles the phases carry no information anyway, but NumPy still computes them correctly.
LARGEST_ANGLE = {"float32": np.pi * 2**22, "float64": np.pi * 2**51}

# Native butterflies postpone up to three factors, each as small as eps / 8. Arguments other than
# angles must leave that much room below the largest float.
LARGEST_VALUE = {
    name: float(np.finfo(name).max) * (float(np.finfo(name).eps) / 8) ** 3
    for name in ("float32", "float64")
}

# How the native core gets the inner products of rows and nodes; "given" means as its input.
Product = Literal["structured", "dense", "given"]

# Input factors below this, or above its inverse, may leave the range of float32.
SMALLEST_FACTOR = 1e-30

# Number of output entries computed at once if NumPy does a part of the work.
ENTRIES_PER_BATCH = 2**20

# Up to this many columns in the other matrix, the native core multiplies features while it computes
# them. With more columns, BLAS is at least as fast on blocks of features.
# ``benchmarks/products.py`` measures it.
OUTPUTS_UP_TO = 64


def _built_cores() -> list[str]:
    """Return the names of the cores that this machine can run, fastest first."""
    return [*_native.cores(), "numpy"] if IS_NATIVE_BUILT else ["numpy"]


def _choose_core() -> str:
    """Return the core that the environment variable QUADFEAT_CORE names, or the fastest one."""
    built = _built_cores()
    wanted = os.environ.get("QUADFEAT_CORE")
    if wanted is not None:
        return check.check_choice(wanted, "QUADFEAT_CORE", built)
    if not IS_NATIVE_BUILT:
        warnings.warn(
            "quadfeat was installed without its native core, so it falls back to NumPy, which is "
            "several times slower. Install a C++ compiler (GCC 12 or Clang 14, or newer), then "
            "reinstall quadfeat.",
            RuntimeWarning,
            stacklevel=2,
        )
    return built[0]


CORE = _choose_core()


def show_config() -> None:
    """Print the core that computes features, the cores that are available, and versions.

    Examples
    --------
    >>> import quadfeat
    >>> quadfeat.show_config()
    quadfeat ...
    """
    from quadfeat._utils.version import __version__

    print(f"quadfeat   {__version__}")
    print(f"core       {CORE} (this machine can run: {', '.join(_built_cores())})")
    print(f"threads    {n_threads(None)} by default, {n_threads(-1)} with n_jobs=-1")
    print(f"machine    {platform.machine()}, {platform.system()}")
    print(f"python     {platform.python_version()}, numpy {np.__version__}")


def argument_limit(kernel: Kernel, dtype: Any) -> float:
    """Return the largest argument of the nonlinearity that the native core supports."""
    limits = LARGEST_ANGLE if kernel.nonlinearity.is_periodic else LARGEST_VALUE
    return limits[np.dtype(dtype).name]


def largest_magnitude(X: Any) -> float:
    """Return the largest absolute value in a dense or CSR matrix.

    The result is not finite if any entry is not.
    """
    values = X.data if sparse.issparse(X) else X
    if CORE == "numpy":
        # A finite sum proves that all terms are finite. The maximum does not: it may skip a NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(values.sum()) or np.isfinite(values).all()
        return check.largest_magnitude(values) if finite else np.inf
    is_single = values.dtype == np.float32
    native = _native.largest_magnitude_float32 if is_single else _native.largest_magnitude_float64
    return float(native(values if values.ndim == 2 else np.atleast_2d(values), CORE))


def native_condition(**arguments: Any) -> None:
    """Write the conditional distributions of queries given the rows near them."""
    _native.condition(**arguments, core=CORE)


def native_pull_back(**arguments: Any) -> None:
    """Write derivatives with respect to the logarithms of factors and of the noise."""
    _native.pull_back(**arguments, core=CORE)


class CompiledMap(ABC):
    """Compute features of rows in the dtype that the map was compiled for.

    Attributes
    ----------
    is_fused : bool
        Whether one native pass computes features from rows. Such a map can also multiply features
        by a matrix without storing them.
    """

    is_fused = False

    @abstractmethod
    def write(self, X: Any, out: Array, n_threads: int) -> None:
        """Write the features of a dense or CSR matrix into ``out``."""

    def multiplies(self, X: Any, n_outputs: int) -> bool:
        """Return whether to multiply features by ``n_outputs`` columns without storing them."""
        return self.is_fused and not sparse.issparse(X) and n_outputs <= OUTPUTS_UP_TO

    def write_within(self, X: Array, out: Array, n_threads: int, limit: float) -> bool:
        """Write the features of a dense matrix if all entries are finite and at most ``limit``.

        Otherwise return ``False``. Parts of ``out`` may then be overwritten. The products below do
        the same, but leave sums unchanged.
        """
        raise NotImplementedError

    def multiply(self, X: Array, V: Array, out: Array, n_threads: int, limit: float) -> bool:
        """Write ``Z V`` into ``out``, where ``Z`` are the features of a dense matrix."""
        raise NotImplementedError

    def normal_multiply(
        self, X: Array, weights: Array, V: Array, out: Array, n_threads: int, limit: float
    ) -> bool:
        """Add ``Z' diag(weights) Z V`` to a float64 ``out``; ``weights`` has shape (n_rows, 1)."""
        raise NotImplementedError

    def transposed_multiply(
        self, X: Array, U: Array, out: Array, n_threads: int, limit: float
    ) -> bool:
        """Add ``Z' U`` to a float64 ``out``."""
        raise NotImplementedError


def compile_map(nodes: Nodes, kernel: Kernel, dtype: Any, *, far: bool = False) -> CompiledMap:
    """Return an object that computes the features of ``nodes`` for this kernel and dtype.

    Set ``far`` if arguments may be larger than :func:`argument_limit`. NumPy then computes all.
    """
    if CORE == "numpy" or far:
        return NumpyMap(nodes, kernel, dtype)
    d = nodes.directions.d
    factors = np.broadcast_to(kernel.input_factor(d), d)
    # In float32, a factor may be out of range although its product with the data is not.
    in_range = (factors == 0) | ((factors > SMALLEST_FACTOR) & (factors < 1 / SMALLEST_FACTOR))
    if not in_range.all():
        return PrescaledMap(_compile_native(nodes, kernel, np.ones(d), dtype), factors)
    return _compile_native(nodes, kernel, factors, dtype)


def _compile_native(nodes: Nodes, kernel: Kernel, factors: Float64Array, dtype: Any) -> CompiledMap:
    d = nodes.directions.d
    structured = nodes.directions.structure() is not None and d > DENSE_UP_TO
    in_core = structured or d <= TILES_UP_TO
    if in_core and kernel.nonlinearity.native_name is not None:
        product: Product = "structured" if structured else "dense"
        return FusedMap(native_map(nodes, kernel, dtype, product, factors))
    return BatchedMap(nodes, kernel, factors, dtype, structured=structured)


class NumpyMap(CompiledMap):
    """Compute features in NumPy, with batches of rows spread over threads."""

    def __init__(self, nodes: Nodes, kernel: Kernel, dtype: Any) -> None:
        self.nodes = nodes
        self.kernel = kernel
        self.factor = kernel.input_factor(nodes.directions.d)
        self.matrix = None
        entries = nodes.directions.d * len(nodes.radii)
        if nodes.directions.d <= NUMPY_DENSE_UP_TO and entries <= NUMPY_DENSE_ENTRIES:
            self.matrix = nodes.frequencies().T.astype(dtype)

    def write(self, X: Any, out: Array, n_threads: int) -> None:
        def write_batch(rows: slice) -> None:
            scaled = _scaled(X[rows], self.factor)
            if self.matrix is None:
                self.nodes.write_features(scaled, self.kernel, out[rows])
            else:
                self.nodes.write_columns(scaled @ self.matrix, self.kernel, out[rows])

        # Batches do not depend on the number of threads, so the result does not either.
        batches = _batches(X, out)
        if n_threads == 1:
            for rows in batches:
                write_batch(rows)
        else:
            Parallel(n_jobs=n_threads, backend="threading")(
                delayed(write_batch)(rows) for rows in batches
            )


class PrescaledMap(CompiledMap):
    """Scale rows in float64, then pass them to a map that does not scale them."""

    def __init__(self, unscaled: CompiledMap, factors: Float64Array) -> None:
        self.unscaled = unscaled
        self.factors = factors

    def write(self, X: Any, out: Array, n_threads: int) -> None:
        for rows in _batches(X, out):
            self.unscaled.write(_scaled(X[rows], self.factors), out[rows], n_threads)


class FusedMap(CompiledMap):
    """Compute features from rows in one native pass."""

    is_fused = True

    def __init__(self, native_map: Any) -> None:
        self.map = native_map

    def write(self, X: Any, out: Array, n_threads: int) -> None:
        if sparse.issparse(X):
            for rows in _batches(X, out):
                self.map.transform(X[rows].toarray(), out[rows], n_threads, CORE)
        else:
            self.write_within(X, out, n_threads, np.inf)

    def write_within(self, X: Array, out: Array, n_threads: int, limit: float) -> bool:
        return self.map.transform(X, out, n_threads, CORE, limit)

    def multiply(self, X: Array, V: Array, out: Array, n_threads: int, limit: float) -> bool:
        return self.map.multiply(X, V, out, n_threads, CORE, limit)

    def normal_multiply(
        self, X: Array, weights: Array, V: Array, out: Array, n_threads: int, limit: float
    ) -> bool:
        return self.map.normal_multiply(X, weights, V, out, n_threads, CORE, limit)

    def transposed_multiply(
        self, X: Array, U: Array, out: Array, n_threads: int, limit: float
    ) -> bool:
        return self.map.transposed_multiply(X, U, out, n_threads, CORE, limit)


class BatchedMap(CompiledMap):
    """Compute the inner products of a batch of rows with the nodes, then the features.

    This map serves nonlinearities that the native core lacks, such as user-defined functions, and
    large dense products, where BLAS is faster.
    """

    def __init__(
        self, nodes: Nodes, kernel: Kernel, factors: Float64Array, dtype: Any, *, structured: bool
    ) -> None:
        self.nodes = nodes
        self.kernel = kernel
        self.arguments = None
        if structured:
            self.arguments = native_map(nodes, None, dtype, "structured", factors)
        else:
            self.matrix = (nodes.frequencies() * factors).T.astype(dtype)
        self.features = None
        if kernel.nonlinearity.native_name is not None:
            self.features = native_map(nodes, kernel, dtype, "given")

    def write(self, X: Any, out: Array, n_threads: int) -> None:
        for rows in _batches(X, out):
            batch = X[rows].toarray() if sparse.issparse(X) else X[rows]
            if self.arguments is not None:
                arguments = np.empty((batch.shape[0], len(self.nodes.radii)), dtype=out.dtype)
                self.arguments.transform(batch, arguments, n_threads, CORE)
            else:
                arguments = batch @ self.matrix
            if self.features is not None:
                self.features.transform(arguments, out[rows], n_threads, CORE)
            else:
                self.nodes.write_columns(arguments, self.kernel, out[rows])


def native_map(
    nodes: Nodes,
    kernel: Kernel | None,
    dtype: Any,
    product: Product,
    factors: Float64Array | float = 1.0,
) -> Any:
    """Return a native map.

    ``product`` selects how the map computes its arguments, the inner products of rows and nodes:
    by the structure of the nodes or by a dense product. With ``"given"``, its input rows are the
    arguments. Without a kernel, the map returns the arguments. It multiplies inputs by ``factors``
    first.
    """
    n_nodes, d = len(nodes.radii), nodes.directions.d
    empty = np.empty(0, dtype=dtype)
    parts: dict[str, Any] = {
        "matrix": empty,
        "cosines": empty,
        "sines": empty,
        "diagonals": empty,
        "permutations": np.empty(0, dtype=np.int32),
        "below": empty,
        "on": empty,
        "simplex": False,
        "size": d,
        "n_blocks": 0,
        "rounds": 0,
        "d": d,
    }
    radii = np.ones(n_nodes)
    if product == "structured":
        structure = nodes.directions.structure()
        assert structure is not None  # the caller has checked
        parts |= structure
        radii = nodes.radii
    elif product == "dense":
        parts |= {"structure": "dense", "matrix": nodes.frequencies() * factors}
        factors = 1.0
    else:
        parts |= {"structure": "given", "d": n_nodes, "size": n_nodes}

    if kernel is None:
        parts |= {
            "phi": "identity",
            "amplitudes": np.ones(n_nodes),
            "reflected": False,
            "last_is_single": False,
            "has_origin": False,
            "phase": 0.0,
            "origin": 0.0,
        }
    else:
        phi = kernel.nonlinearity
        if phi.is_periodic:
            radii = radii / np.pi  # the core measures angles in half turns
        parts |= {
            "phi": phi.native_name,
            "amplitudes": nodes.amplitudes(kernel),
            "reflected": nodes.reflected,
            "last_is_single": nodes.last_is_single,
            "has_origin": nodes.has_origin_column,
            "phase": nodes.phase / np.pi,
            "origin": nodes.origin_feature(kernel),
        }
    parts |= {"factors": np.broadcast_to(factors, parts["d"]), "radii": radii}
    for name in ("cosines", "sines"):  # the core computes tangents from them
        parts[name] = np.ascontiguousarray(parts[name], dtype=np.float64)
    floats = ("matrix", "diagonals", "below", "on")
    for name in (*floats, "factors", "radii", "amplitudes"):
        parts[name] = np.ascontiguousarray(parts[name], dtype=dtype)
    make = _native.MapFloat32 if dtype == np.float32 else _native.MapFloat64
    return make(**parts)


def _scaled(rows: Any, factor: Array) -> Array:
    """Multiply rows by a factor in float64 and return them, dense, in their own dtype."""
    dense = rows.toarray() if sparse.issparse(rows) else rows
    return np.multiply(dense, factor, dtype=np.float64).astype(rows.dtype)


def _batches(X: Any, out: Array) -> Any:
    """Return slices of rows that keep intermediate arrays small."""
    return gen_batches(X.shape[0], max(1, ENTRIES_PER_BATCH // max(X.shape[1], out.shape[1])))
