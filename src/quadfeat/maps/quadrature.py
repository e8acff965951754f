"""The feature map of a kernel and the nodes of a rule."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils import validation as check
from quadfeat._utils.columns import check_finite
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.random import check_state, restored
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import core
from quadfeat.engine.core import CompiledMap
from quadfeat.engine.threads import n_threads
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.maps.base import diagonal, factor, in_units
from quadfeat.maps.gradients import gradients
from quadfeat.maps.kernel_map import KernelMap
from quadfeat.rules.base import Rule
from quadfeat.rules.nodes import Nodes

# Nodes that take more bytes are not sent to workers. Workers get the state of the generator, draw
# the nodes again, and verify them by TRACE projections.
NODES_UP_TO = 2**15
TRACE = 64

# The name of the estimator in scikit-learn's error messages about rows.


@register
@dataclass(frozen=True, eq=False)
class QuadratureMap(KernelMap):
    """Features whose inner products approximate a kernel.

    In products with a factor of up to ``core.OUTPUTS_UP_TO`` columns, the native core multiplies
    the features of a tile of rows while they are in the cache. For wider factors, BLAS multiplies
    the features of a block of rows.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a numeric scale, not a string such as ``"scale"``.
    nodes : Nodes
        The nodes that a rule has drawn.
    origin : Origin, default=None
        How the nodes were drawn, if known.
    """

    kernel: Kernel
    nodes: Nodes
    origin: Origin | None = None

    def check_consistency(self) -> None:
        """Raise an error if kernel and nodes do not fit together; see ``quadfeat.io.register``."""
        checks.check_kind(self.kernel, Kernel, "kernel of map_")
        checks.check_kind(self.nodes, Nodes, "nodes of map_")
        d = check.check_count(self.n_features_in, "number of columns of map_")
        self.kernel.input_factor(d)
        self.kernel.nonlinearity, self.kernel.spectrum  # noqa: B018  # they check parameters
        self.nodes.check_fits(self.kernel, d)
        checks.check_kind(self.origin, (Origin, type(None)), "origin of map_")

    def __getstate__(self) -> dict[str, Any]:
        # Copies share compiled maps, but pickles omit them.
        computed = ("_compiled", "n_columns")
        return {name: value for name, value in vars(self).items() if name not in computed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    def __copy__(self) -> QuadratureMap:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    @property
    def n_features_in(self) -> int:  # type: ignore[override]
        return self.nodes.directions.d

    @cached_property
    def n_columns(self) -> int:
        return self.nodes.n_columns(self.kernel)

    def with_jobs(self, n_jobs: int | None) -> QuadratureMap:
        if n_jobs == self.n_jobs:
            return self
        other = object.__new__(type(self))  # each prediction calls this, and copy.copy is slower
        vars(other).update(vars(self), n_jobs=n_jobs)
        return other

    def with_nodes(self, nodes: Nodes, origin: Origin | None) -> QuadratureMap:
        return QuadratureMap(self.kernel, nodes, origin).with_jobs(self.n_jobs)

    def gradients(self, X: Any, coefficients: Any) -> Float64Array:
        return gradients(self.kernel, self.nodes, X, coefficients)

    def write(self, X: Any, out: Array) -> None:
        threads = n_threads(self.n_jobs, out.size)
        if not sparse.issparse(X):
            near = self._engine(X.dtype, far=False)
            # The core checks the range while it reads entries. This suffices for most data.
            if near.is_fused and near.write_within(X, out, threads, self._range_of_core(X.dtype)):
                return
        self.engine_for(X).write(X, out, threads)

    # Products use the core if it can multiply and all rows are in its range. Otherwise, `write`
    # chooses an engine for each block of rows.

    def multiply(self, X: Any, V: Any) -> Array:
        V = self.left_factor(V, X.dtype)
        near = self._engine(X.dtype, far=False)
        if near.multiplies(X, V.shape[1]):
            out: Array = np.empty((X.shape[0], V.shape[1]), dtype=X.dtype)
            if near.multiply(X, V, out, *self._threads_and_range(X)):
                return out
        return self.multiply_blocks(X, V)

    def transpose_multiply(self, X: Any, U: Any) -> Float64Array:
        unit, right = in_units(U)
        right = factor(right, "U", X.shape[0], "rows of X", X.dtype)
        near = self._engine(X.dtype, far=False)
        if near.multiplies(X, right.shape[1]):
            out = np.zeros((self.n_columns, right.shape[1]))
            if near.transposed_multiply(X, right, out, *self._threads_and_range(X)):
                return out * unit
        return self.transpose_multiply_blocks(X, U)

    def normal_multiply(self, X: Any, V: Any, weights: Any = None) -> Float64Array:
        right = factor(V, "V", self.n_columns, "components", X.dtype)
        near = self._engine(X.dtype, far=False)
        if near.multiplies(X, right.shape[1]):
            unit, in_unit = in_units(weights)
            middle = diagonal(in_unit, X)
            out = np.zeros(right.shape)
            if near.normal_multiply(X, middle, right, out, *self._threads_and_range(X)):
                return out * unit
        return self.normal_multiply_blocks(X, right, weights)

    def _threads_and_range(self, X: Any) -> tuple[int, float]:
        """Return the number of threads, and the largest entry of ``X`` for the native core."""
        threads = n_threads(self.n_jobs, X.shape[0] * self.n_columns)
        return threads, self._range_of_core(X.dtype)

    def fingerprint(self) -> str:
        nodes, kernel = self.nodes, self.kernel
        structure = nodes.directions.structure() or {"matrix": nodes.directions.dense()}
        parts = {
            **structure,
            "factor": kernel.input_factor(self.n_features_in),
            "radii": nodes.radii,
            "amplitudes": nodes.amplitudes(kernel),
            "origin": (nodes.has_origin_column, nodes.origin_feature(kernel)),
            "layout": (nodes.reflected, nodes.last_is_single, nodes.phase),
            "phi": kernel.nonlinearity.name,
        }
        digest = hashlib.sha256()
        for name, value in sorted(parts.items()):
            content = value if isinstance(value, str) else np.ascontiguousarray(value).tobytes()
            digest.update(name.encode())
            digest.update(content.encode() if isinstance(content, str) else content)
        return digest.hexdigest()

    # The choice of the engine for rows.

    def engine_for(self, X: Any) -> CompiledMap:
        """Return the engine for these rows; reject rows whose features overflow."""
        if X.shape[0] == 0:
            return self._engine(X.dtype, far=False)
        largest = core.largest_magnitude(X)
        near = 0.0 < largest <= self._range_of_core(X.dtype)
        return self._engine(X.dtype, far=not near and self._reaches_far(X, largest))

    def _engine(self, dtype: Any, *, far: bool) -> CompiledMap:
        """Return the engine for a dtype, compiled on first use."""
        far = far or core.CORE == "numpy"  # NumPy handles arguments of any size
        compiled: CompiledMap = self._kept(
            (dtype, far), lambda: core.compile_map(self.nodes, self.kernel, dtype, far=far)
        )
        return compiled

    def _range_of_core(self, dtype: Any) -> float:
        """Return the largest entry of ``X`` for which the native core is accurate."""

        def compute() -> float:
            argument = self._largest_argument(1.0, dtype)
            limit = core.argument_limit(self.kernel, dtype)
            # The range is slightly below the limit of _reaches_far, which handles larger entries.
            # Features that grow as the square of their arguments overflow earlier, so the square
            # root of the limit is tried too.
            for largest in (limit, np.sqrt(limit)) if argument > 0 else ():
                entry = min(0.999 * largest / argument, float(np.finfo(dtype).max))
                if self._largest_argument(entry, dtype) < np.inf:
                    return entry
            return 0.0

        largest: float = self._kept((dtype, "range"), compute)
        return largest

    def _kept(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """Return a cached value, computed from kernel and nodes on first use."""
        cache: dict[Any, Any] = vars(self)["_compiled"]
        kept = cache.get(key)
        if kept is None:
            kept = cache[key] = compute()
        return kept

    def _reaches_far(self, X: Any, largest: float) -> bool:
        """Return whether arguments may be too large for the native core.

        Raise an error if rows are not finite, or a feature would overflow the dtype.
        """
        if not np.isfinite(largest):
            check_finite(X)
        argument = self._largest_argument(largest, X.dtype)
        if argument == np.inf:
            way_out = "rescale X" if X.dtype == np.float64 else "rescale X or pass it as float64"
            raise ValueError(
                f"X has entries as large as {largest:.3g}, and their features for "
                f"{check.one_line(self.kernel)} are beyond the range of {X.dtype}: {way_out}."
            )
        return argument > core.argument_limit(self.kernel, X.dtype)

    def _largest_argument(self, largest: float, dtype: Any) -> float:
        """Return a bound on the arguments for entries up to ``largest``; infinity on overflow."""
        nodes, kernel, d = self.nodes, self.kernel, self.n_features_in
        scale = float(np.max(kernel.input_factor(d)))
        with np.errstate(over="ignore"):
            # |w.x| <= |w| |x| <= |w| sqrt(d) max|x|; the factor 2 allows for the rounding of nodes.
            reach = 2.0 * max(1.0, nodes.longest) * np.sqrt(d)
            argument = float(np.float64(largest) * scale * reach)
            value = kernel.nonlinearity.largest(argument)
            feature = value * float(nodes.amplitudes(kernel).max())
        in_range = max(argument, value, feature) <= float(np.finfo(dtype).max)
        return argument if in_range else float("inf")

    # Sending maps to other processes.

    def light(self) -> Any:
        """Return the map without its nodes, if they are large and can be drawn again."""
        # Conjugate gradients send the map with every product, so the light map is cached.
        return self._kept(("light",), self._lightened) or self

    def _lightened(self) -> LightMap | bool:
        """Return the map without its nodes; False if the nodes have to be sent."""
        if self.origin is None or len(pickle.dumps(self.nodes)) <= NODES_UP_TO:
            return False
        drawn = self.origin.draw(self)
        # A new draw has other nodes if, for example, the weights were fitted to data.
        if replace(self, nodes=drawn).fingerprint() != self.fingerprint():
            return False
        return LightMap(self.kernel, self.origin, self.n_features_in, self.n_columns, _trace(drawn))


@register
@dataclass(frozen=True)
class Origin:
    """How nodes were drawn.

    Attributes
    ----------
    rule : Rule
        The rule that drew the nodes.
    before, after : dict
        The states of the generator before and after the draw.
    reweighted : bool
        Whether the weights of the nodes were fitted to data afterwards.
    """

    rule: Rule
    before: Any
    after: Any
    reweighted: bool = False

    def check_consistency(self) -> None:
        """Raise an error if the rule or a state is not valid; see ``quadfeat.io.register``."""
        checks.check_kind(self.rule, Rule, "rule of map_")
        check_state(self.before)
        check_state(self.after)
        checks.check_flag(self.reweighted, "reweighted of map_")

    def draw(self, of: QuadratureMap | LightMap) -> Nodes:
        """Draw the nodes of a map again."""
        rng = restored(self.before)
        return self.rule.draw(of.n_features_in, of.n_columns, of.kernel, rng)


@dataclass(frozen=True)
class LightMap:
    """A map without its nodes, and some projections to verify that they are drawn correctly."""

    kernel: Kernel
    origin: Origin
    n_features_in: int
    n_columns: int
    trace: Float64Array

    def unpacked(self) -> QuadratureMap:
        """Draw the nodes again and return the map."""
        nodes = self.origin.draw(self)
        if not np.allclose(_trace(nodes), self.trace, rtol=1e-6):
            raise RuntimeError(
                "a worker has drawn nodes that differ from those of the fitted map: install the "
                "same versions of quadfeat, NumPy and SciPy on all machines."
            )
        return QuadratureMap(self.kernel, nodes, self.origin)


def _trace(nodes: Nodes) -> Float64Array:
    """Return some projections, which differ for different nodes."""
    projections: Float64Array = nodes.arguments(np.ones((1, nodes.directions.d)))[0]
    return projections[:: -(-len(projections) // TRACE)].copy()
