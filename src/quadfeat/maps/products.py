"""Products with the features of rows that never are in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np
from scipy import sparse

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import core
from quadfeat.engine.core import CompiledMap, FusedMap, n_threads
from quadfeat.models.features import QuadratureFeatures

# Numbers up to this size, and down to its inverse, are far from the ends of float32.
USUAL = 1e12

# Rows of a block at most: sums over them are in the dtype of the features, beyond in float64.
ROWS_PER_BLOCK = 1024

# Features that are cast to float64 at once: few enough to stay in a cache.
ENTRIES_PER_CAST = 2**18


class FeatureProducts:
    """Products with the features of rows, which are made, used and dropped.

    With ``Z = features.transform(X)`` of shape (n_rows, n_components), the products take as much
    memory as their factors and results, and little more time than ``Z`` alone as long as the other
    factor has few columns. Up to ``core.OUTPUTS_UP_TO`` of them the native core multiplies the
    features of a tile of rows while they are in the cache; in all other cases BLAS multiplies
    those of a block of rows, written to a buffer that is used again.

    Results do not depend on ``features.n_jobs``.

    Parameters
    ----------
    features : QuadratureFeatures
        A fitted map.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> features = QuadratureFeatures(n_components=64, random_state=0).fit(X)
    >>> V = np.ones((64, 1))
    >>> product = FeatureProducts(features).normal_multiply(X, V)
    >>> Z = features.transform(X)
    >>> np.allclose(product, Z.T @ (Z @ V))
    True
    """

    def __init__(self, features: QuadratureFeatures) -> None:
        self.features = features

    def multiply(self, X: Any, V: Any) -> Array:
        """Return ``Z V``.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
            As ``features._validated`` returns it.
        V : array-like of shape (n_components, n_outputs)

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            In the dtype of ``X``.
        """
        V = _factor(V, "V", self._n_columns, "components", X.dtype)
        if not np.isfinite(V).all():
            raise ValueError(
                f"the factors of the features are beyond the range of {X.dtype}: pass X as float64."
            )
        out: Array = np.empty((X.shape[0], V.shape[1]), dtype=X.dtype)
        compiled = self._compiled(X)
        if _multiplies(compiled, X, V):
            compiled.multiply(X, V, out, self._n_threads)
        else:
            for rows, Z in self._blocks(compiled, X):
                np.matmul(Z, V, out=out[rows])
        return out

    def predict(
        self, X: Any, coefficients: Float64Array, intercept: Float64Array | float = 0.0
    ) -> Float64Array:
        """Return ``Z coefficients + intercept`` as models predict it.

        The product is in the dtype of ``X``, for coefficients of any size, and the sum in float64.
        """
        largest = np.abs(coefficients).max(axis=0, initial=0.0)
        if not np.isfinite(largest).all():
            raise ValueError("coefficients are beyond the range of numbers: rescale y.")
        # Within the range of float32, in units that are powers of two.
        units = np.ldexp(1.0, np.frexp(largest)[1])
        return np.asarray(self.multiply(X, coefficients / units) * units + intercept)

    def normal_multiply(self, X: Any, V: Any, weights: Any = None) -> Float64Array:
        """Return ``Z' diag(weights) Z V`` from one pass over the rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
            As ``features._validated`` returns it.
        V : array-like of shape (n_components, n_outputs)
        weights : array-like of shape (n_rows,), default=None
            ``None`` means ones.

        Returns
        -------
        ndarray of shape (n_components, n_outputs)
            float64.
        """
        V = _factor(V, "V", self._n_columns, "components", X.dtype)
        unit, weights = _in_units(weights)
        weights = _diagonal(weights, X)
        out = np.zeros(V.shape)
        compiled = self._compiled(X)
        if _multiplies(compiled, X, V):
            compiled.normal_multiply(X, weights, V, out, self._n_threads)
        else:
            sums: Array = np.empty(V.shape, dtype=X.dtype)
            for rows, Z in self._blocks(compiled, X):
                product = Z @ V
                product *= weights[rows]
                out += np.matmul(Z.T, product, out=sums)
        return out * unit

    def transposed_multiply(self, X: Any, U: Any) -> Float64Array:
        """Return ``Z' U``.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features)
            As ``features._validated`` returns it.
        U : array-like of shape (n_rows, n_outputs)

        Returns
        -------
        ndarray of shape (n_components, n_outputs)
            float64.
        """
        unit, U = _in_units(U)
        U = _factor(U, "U", X.shape[0], "rows of X", X.dtype)
        out = np.zeros((self._n_columns, U.shape[1]))
        compiled = self._compiled(X)
        if _multiplies(compiled, X, U):
            compiled.transposed_multiply(X, U, out, self._n_threads)
        else:
            sums: Array = np.empty(out.shape, dtype=X.dtype)
            for rows, Z in self._blocks(compiled, X):
                out += np.matmul(Z.T, U[rows], out=sums)
        return out * unit

    def in_float64(self, X: Any) -> Iterator[tuple[slice, Float64Array]]:
        """Yield slices of rows and their features, made in the dtype of ``X``, as float64.

        Features take the place of those before.
        """
        size = max(1, ENTRIES_PER_CAST // self._n_columns)
        buffer = np.empty((size, self._n_columns))
        for rows, Z in self._blocks(self._compiled(X), X):
            if Z.dtype == np.float64:
                yield rows, Z
                continue
            for start in range(0, len(Z), size):
                part = Z[start : start + size]
                buffer[: len(part)] = part
                yield slice(rows.start + start, rows.start + start + len(part)), buffer[: len(part)]

    @property
    def _n_columns(self) -> int:
        return self.features.n_components_

    @property
    def _n_threads(self) -> int:
        return n_threads(self.features.n_jobs)

    def _compiled(self, X: Any) -> CompiledMap:
        """Return what computes the features of these rows, which are checked to be in range."""
        far = X.shape[0] > 0 and self.features._reaches_far(X)
        return self.features._compiled_map(X.dtype, far=far)

    def _blocks(self, compiled: CompiledMap, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and their features, each in the place of the one before."""
        n_rows, n_columns, threads = X.shape[0], self._n_columns, self._n_threads
        size = max(1, min(ROWS_PER_BLOCK, core.ENTRIES_PER_BATCH // n_columns))
        buffer: Array = np.empty((min(size, n_rows), n_columns), dtype=X.dtype)
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            Z = buffer[: rows.stop - start]
            compiled.write(X[rows], Z, threads)
            yield rows, Z


def _multiplies(compiled: CompiledMap, X: Any, factor: Array) -> TypeGuard[FusedMap]:
    """Return whether the native core is to multiply the features as it makes them."""
    dense = not sparse.issparse(X)
    return isinstance(compiled, FusedMap) and dense and factor.shape[1] <= core.OUTPUTS_UP_TO


def _factor(values: Any, name: str, n_rows: int, what: str, dtype: Any) -> Array:
    """Return the other factor of a product as a matrix of so many rows."""
    with np.errstate(over="ignore"):  # which callers see to
        factor = np.asarray(values, dtype=dtype)
    if factor.ndim != 2 or factor.shape[0] != n_rows:
        raise ValueError(
            f"{name} has shape {factor.shape}: give a matrix with a row for each of the {n_rows} "
            f"{what}."
        )
    return np.ascontiguousarray(factor)


def of_usual_size(largest: Any) -> Any:
    """Return whether numbers, of which these are the largest, may be multiplied in float32."""
    return (largest == 0) | ((largest > 1.0 / USUAL) & (largest < USUAL))


def _in_units(values: Any) -> tuple[float, Any]:
    """Return a unit, and numbers in it: those of float64 that float32 could not hold need one."""
    if values is None:
        return 1.0, None
    values = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0))
    if of_usual_size(largest) or not np.isfinite(largest):
        return 1.0, values
    unit = 2.0 ** np.floor(np.log2(largest))  # by which to divide is exact
    return unit, values / unit


def _diagonal(weights: Any, X: Any) -> Array:
    """Return weights of rows as a matrix of one column."""
    n_rows = X.shape[0]
    if weights is None:
        return np.broadcast_to(np.ones((1, 1), dtype=X.dtype), (n_rows, 1))
    diagonal: Array = np.asarray(weights, dtype=X.dtype)
    if diagonal.shape != (n_rows,):
        raise ValueError(
            f"weights has shape {diagonal.shape}: give a number for each of the {n_rows} rows of X."
        )
    return diagonal[:, None]
