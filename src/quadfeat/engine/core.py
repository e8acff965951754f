"""Which implementation computes features: the native core, or NumPy where that was not built.

A fitted map is compiled for a dtype into an object that writes features. The only choice it makes
by speed, a dense product or a structured one, and whose, is made here from the constants below,
which ``benchmarks/crossover.py`` measures.
"""

from __future__ import annotations

import os
import platform
import warnings
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from joblib import Parallel, cpu_count, delayed, effective_n_jobs
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array

if TYPE_CHECKING:
    from quadfeat.kernels import Kernel
    from quadfeat.rules.nodes import Nodes

try:
    from quadfeat.engine import _native
except ImportError:  # not built: see CMakeLists.txt
    _native = None  # type: ignore[assignment]
IS_NATIVE_BUILT = _native is not None

# Up to this width the native core multiplies by a dense matrix of nodes even where they have
# structure, and instead of BLAS where they have none.
DENSE_UP_TO = 36
TILES_UP_TO = 128

# Up to this width NumPy's product with a dense matrix beats its structured one; the matrix is made
# if it has no more than so many entries.
NUMPY_DENSE_UP_TO = 1024
NUMPY_DENSE_ENTRIES = 2**23

# The native cosine reduces its argument in few steps, good up to so many half turns; beyond, rows
# are so far apart that their phases are noise, but NumPy's is noise as it should be.
FARTHEST_ANGLE = {"float32": np.pi * 2**22, "float64": np.pi * 2**51}

# Native butterflies put off factors of up to eps / 8, three at a time, so that other arguments must
# stay as far below the largest number.
FARTHEST_VALUE = {
    name: float(np.finfo(name).max) * (float(np.finfo(name).eps) / 8) ** 3
    for name in ("float32", "float64")
}

# How the native core computes the inner products of rows and nodes, if it does.
Product = Literal["structured", "dense", "given"]

# Factors of the input beyond this, or below its inverse, may overflow float32.
SMALLEST_FACTOR = 1e-30

# Entries of the output computed at once where NumPy has a part in it.
ENTRIES_PER_BATCH = 2**20

# Up to so many columns of the other factor the native core multiplies features as it makes them;
# beyond, BLAS is at least as fast on blocks of them. ``benchmarks/products.py`` measures it.
OUTPUTS_UP_TO = 64

# Below so many entries of the output, starting threads takes longer than the work.
ENTRIES_PER_THREAD = 2**15


def _built_cores() -> list[str]:
    """Return what this machine can run, the fastest first."""
    return [*_native.cores(), "numpy"] if IS_NATIVE_BUILT else ["numpy"]


def _choose_core() -> str:
    """Return the name of the core to use: the one that QUADFEAT_CORE names, or the fastest."""
    built = _built_cores()
    wanted = os.environ.get("QUADFEAT_CORE")
    if wanted is not None:
        return check.check_choice(wanted, "QUADFEAT_CORE", built)
    if not IS_NATIVE_BUILT:
        warnings.warn(
            "quadfeat was installed without its native core, so transforms run in NumPy, several "
            "times slower: install it again where there is a C++ compiler (GCC 12 or Clang 14, or "
            "newer).",
            RuntimeWarning,
            stacklevel=2,
        )
    return built[0]


CORE = _choose_core()


def show_config() -> None:
    """Print what computes features here: the core in use, and what it could have been.

    Examples
    --------
    >>> import quadfeat
    >>> quadfeat.show_config()
    quadfeat ...
    """
    from quadfeat._utils.version import __version__

    print(f"quadfeat   {__version__}")
    print(f"core       {CORE} (this machine can run: {', '.join(_built_cores())})")
    print(f"threads    {n_threads(-1)} with n_jobs=-1")
    print(f"machine    {platform.machine()}, {platform.system()}")
    print(f"python     {platform.python_version()}, numpy {np.__version__}")


def n_threads(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` stands for.

    Negative numbers count down from the processors that cgroup and threadpoolctl allow.
    """
    n_jobs = check.check_n_jobs(n_jobs)
    if n_jobs is None:
        return effective_n_jobs(None)  # what a context of joblib's says, or 1
    if n_jobs > 0:
        return n_jobs
    # Not what joblib makes of a number: that is about processes, and in those of a pool, which may
    # not start others, it warns. Threads may be started anywhere.
    try:
        allowed = len(os.sched_getaffinity(0))  # type: ignore[attr-defined, unused-ignore]
    except (AttributeError, NotImplementedError, OSError):  # not on every system
        allowed = 0
    processors = _count_processors(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))
    return max(1, min(processors + 1 + n_jobs, _openmp_effective_n_threads(n_jobs)))


@lru_cache(maxsize=8)
def _count_processors(allowed: int, wanted: str | None) -> int:
    """Return how many processors there are to use, asked again if one of the arguments changes.

    Asking takes as long as a small transform, since it reads the files of the cgroup, whose quota
    is taken to stay as it was.
    """
    return cpu_count()


def farthest(kernel: Kernel, dtype: Any) -> float:
    """Return how large the native core's arguments may be."""
    limits = FARTHEST_ANGLE if kernel.nonlinearity.is_periodic else FARTHEST_VALUE
    return limits[np.dtype(dtype).name]


def largest_magnitude(X: Any) -> float:
    """Return the largest absolute value in a dense or CSR matrix, not finite if an entry is not."""
    values = X.data if sparse.issparse(X) else X
    if CORE == "numpy":
        # A sum is finite only if its terms are; the largest term may be NaN or may hide one.
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(values.sum()) or np.isfinite(values).all()
        return check.largest_magnitude(values) if finite else np.inf
    native = {
        "float32": _native.largest_magnitude_float32,
        "float64": _native.largest_magnitude_float64,
    }[values.dtype.name]
    return float(native(np.atleast_2d(values), CORE))


class CompiledMap(ABC):
    """Writes the features of rows in the dtype it was compiled for.

    Attributes
    ----------
    is_fused : bool
        Whether it goes from rows to features in one pass, and multiplies them as it makes them.
    """

    is_fused = False

    @abstractmethod
    def write(self, X: Any, out: Array, n_threads: int) -> None:
        """Write the features of a dense or CSR matrix into ``out``."""

    def multiplies(self, X: Any, n_outputs: int) -> bool:
        """Return whether to multiply features of rows by so many columns as they are made."""
        return self.is_fused and not sparse.issparse(X) and n_outputs <= OUTPUTS_UP_TO

    def write_within(self, X: Array, out: Array, n_threads: int, limit: float) -> bool:
        """Write the features of a dense matrix whose entries are finite and up to ``limit``.

        If some are not, return ``False``, with an unknown part of ``out`` written.
        """
        raise NotImplementedError

    def multiply(self, X: Array, V: Array, out: Array, n_threads: int) -> None:
        """Write ``Z V`` into ``out``, ``Z`` being the features of a dense matrix."""
        raise NotImplementedError

    def normal_multiply(
        self, X: Array, weights: Array, V: Array, out: Array, n_threads: int
    ) -> None:
        """Add ``Z' diag(weights) Z V`` to ``out``, float64; ``weights`` of shape (n_rows, 1)."""
        raise NotImplementedError

    def transposed_multiply(self, X: Array, U: Array, out: Array, n_threads: int) -> None:
        """Add ``Z' U`` to ``out``, float64."""
        raise NotImplementedError


def compile_map(nodes: Nodes, kernel: Kernel, dtype: Any, *, far: bool = False) -> CompiledMap:
    """Return what computes the features of ``nodes`` for this kernel and dtype.

    ``far`` says that arguments may be beyond what ``farthest`` returns.
    """
    if CORE == "numpy" or far:
        return NumpyMap(nodes, kernel, dtype)
    d = nodes.directions.d
    factors = np.broadcast_to(kernel.input_factor(d), d)
    # In float32 a factor may be out of range where its product with the data is not.
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
    """Everything in NumPy, batches of rows shared out to threads."""

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

        # The batches do not depend on the number of threads, so neither does the result.
        batches = _batches(X, out)
        if n_threads == 1:
            for rows in batches:
                write_batch(rows)
        else:
            Parallel(n_jobs=n_threads, backend="threading")(
                delayed(write_batch)(rows) for rows in batches
            )


class PrescaledMap(CompiledMap):
    """Rows are scaled in float64, then handed to a map that does not scale them."""

    def __init__(self, unscaled: CompiledMap, factors: Float64Array) -> None:
        self.unscaled = unscaled
        self.factors = factors

    def write(self, X: Any, out: Array, n_threads: int) -> None:
        for rows in _batches(X, out):
            self.unscaled.write(_scaled(X[rows], self.factors), out[rows], n_threads)


class FusedMap(CompiledMap):
    """From rows to features in one native pass."""

    is_fused = True

    def __init__(self, native_map: Any) -> None:
        self.map = native_map

    def write(self, X: Any, out: Array, n_threads: int) -> None:
        if sparse.issparse(X):
            threads = _enough_threads(out.size, n_threads)
            for rows in _batches(X, out):
                self.map.transform(X[rows].toarray(), out[rows], threads, CORE)
        else:
            self.write_within(X, out, n_threads, np.inf)

    def write_within(self, X: Array, out: Array, n_threads: int, limit: float) -> bool:
        return self.map.transform(X, out, _enough_threads(out.size, n_threads), CORE, limit)

    def multiply(self, X: Array, V: Array, out: Array, n_threads: int) -> None:
        self.map.multiply(X, V, out, _enough_threads(len(X) * len(V), n_threads), CORE)

    def normal_multiply(
        self, X: Array, weights: Array, V: Array, out: Array, n_threads: int
    ) -> None:
        threads = _enough_threads(len(X) * len(V), n_threads)
        self.map.normal_multiply(X, weights, V, out, threads, CORE)

    def transposed_multiply(self, X: Array, U: Array, out: Array, n_threads: int) -> None:
        threads = _enough_threads(len(X) * len(out), n_threads)
        self.map.transposed_multiply(X, U, out, threads, CORE)


class BatchedMap(CompiledMap):
    """Arguments first, a batch of rows at a time, then the features of them.

    For what the native core cannot do, a user's function of the arguments, and for what BLAS does
    better, products with large dense matrices.
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
        threads = _enough_threads(out.size, n_threads)
        for rows in _batches(X, out):
            batch = X[rows].toarray() if sparse.issparse(X) else X[rows]
            if self.arguments is not None:
                arguments = np.empty((batch.shape[0], len(self.nodes.radii)), dtype=out.dtype)
                self.arguments.transform(batch, arguments, threads, CORE)
            else:
                arguments = batch @ self.matrix
            if self.features is not None:
                self.features.transform(arguments, out[rows], threads, CORE)
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

    ``product`` says how it comes by its arguments: by the structure of the nodes, by a dense
    product, or they are given as its input. Without a kernel they are also its output. Inputs are
    multiplied by ``factors`` first.
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
        assert structure is not None  # the caller has asked before
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
            radii = radii / np.pi  # the core takes angles in half turns
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
    for name in ("cosines", "sines"):  # of which the core makes tangents
        parts[name] = np.ascontiguousarray(parts[name], dtype=np.float64)
    floats = ("matrix", "diagonals", "below", "on")
    for name in (*floats, "factors", "radii", "amplitudes"):
        parts[name] = np.ascontiguousarray(parts[name], dtype=dtype)
    make = _native.MapFloat32 if dtype == np.float32 else _native.MapFloat64
    return make(**parts)


def _scaled(rows: Any, factor: Array) -> Array:
    """Return dense rows times a factor, computed in float64, in their own dtype."""
    dense = rows.toarray() if sparse.issparse(rows) else rows
    return np.multiply(dense, factor, dtype=np.float64).astype(rows.dtype)


def _batches(X: Any, out: Array) -> Any:
    """Return slices of rows: few enough to keep intermediate arrays small."""
    return gen_batches(X.shape[0], max(1, ENTRIES_PER_BATCH // max(X.shape[1], out.shape[1])))


def _enough_threads(entries: int, n_threads: int) -> int:
    """Return how many of the threads are worth starting for so many entries of features."""
    return max(1, min(n_threads, entries // ENTRIES_PER_THREAD))
