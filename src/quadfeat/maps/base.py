"""The interface of a feature map: a fitted function from rows to columns."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import core
from quadfeat.maps.coefficients import ScaledCoefficients

Self = TypeVar("Self", bound="FeatureMap")

# Numbers with magnitudes between 1 / USUAL and USUAL are far from the limits of float32.
USUAL = 1e12

# Largest number of rows in a block. Sums within a block have the dtype of the features; sums over
# blocks are in float64.
ROWS_PER_BLOCK = 1024

# Number of features to cast to float64 at once: few enough to stay in the cache.
ENTRIES_PER_CAST = 2**18


class FeatureMap(ABC):
    """A fitted function from rows to columns, and products with these columns.

    A map is immutable: the same rows always give the same columns. Callers validate rows: an array
    or a CSR matrix without duplicate entries, of dtype float32 or float64, with ``n_features_in``
    columns. Rows may hold NaN or infinity, which :meth:`write` rejects.

    Let ``Z`` be the columns of the rows ``X``. Products with ``Z`` compute it one block of rows at
    a time, so they need memory only for one block, the factors and the result.

    Subclasses implement ``n_features_in``, ``n_columns``, :meth:`write` and :meth:`fingerprint`.
    They may override the products with faster ones.

    Attributes
    ----------
    n_features_in : int
        Number of columns of the rows.
    n_columns : int
        Number of columns of the result.
    n_jobs : int or None
        Number of threads, as in :class:`QuadratureFeatures`. See :meth:`with_jobs`.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures
    >>> X = np.random.default_rng(0).standard_normal((1000, 8))
    >>> features = QuadratureFeatures(n_components=64, random_state=0).fit(X)
    >>> V = np.ones((64, 1))
    >>> product = features.map_.normal_multiply(X, V)
    >>> Z = features.transform(X)
    >>> np.allclose(product, Z.T @ (Z @ V))
    True
    """

    n_features_in: int
    n_columns: int
    n_jobs: int | None = None

    @abstractmethod
    def write(self, X: Any, out: Array) -> None:
        """Write the columns of rows into an array.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features_in)
        out : ndarray of shape (n_rows, n_columns)
            The result, in the dtype of ``X``.

        Raises
        ------
        ValueError
            If rows are not finite, or the result overflows its dtype.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a string that is equal for two maps if and only if their results are equal."""

    def with_jobs(self: Self, n_jobs: int | None) -> Self:
        """Return the same map with another number of threads."""
        if n_jobs == self.n_jobs:
            return self
        other = copy.copy(self)
        vars(other)["n_jobs"] = n_jobs
        return other

    def light(self) -> Any:
        """Return a smaller object to send to other processes instead of this map.

        The method ``unpacked`` of that object returns the map.
        """
        return self

    def unpacked(self: Self) -> Self:
        """Return this map; see :meth:`light`."""
        return self

    def columns(self, X: Any) -> Array:
        """Return the columns of rows in a new array, in the dtype of ``X``."""
        out: Array = np.empty((X.shape[0], self.n_columns), dtype=X.dtype)
        self.write(X, out)
        return out

    def multiply(self, X: Any, V: Any) -> Array:
        """Return ``Z V``.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features_in)
        V : array-like of shape (n_columns, n_outputs)

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            In the dtype of ``X``.
        """
        return self.multiply_blocks(X, self.left_factor(V, X.dtype))

    def transpose_multiply(self, X: Any, U: Any) -> Float64Array:
        """Return ``Z' U``.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features_in)
        U : array-like of shape (n_rows, n_outputs)

        Returns
        -------
        ndarray of shape (n_columns, n_outputs)
            float64.
        """
        return self.transpose_multiply_blocks(X, U)

    def normal_multiply(self, X: Any, V: Any, weights: Any = None) -> Float64Array:
        """Return ``Z' diag(weights) Z V`` from one pass over the rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n_rows, n_features_in)
        V : array-like of shape (n_columns, n_outputs)
        weights : array-like of shape (n_rows,), default=None
            ``None`` means ones.

        Returns
        -------
        ndarray of shape (n_columns, n_outputs)
            float64.
        """
        return self.normal_multiply_blocks(X, V, weights)

    def predict(
        self, X: Any, coefficients: Float64Array, intercept: Float64Array | float = 0.0
    ) -> Float64Array:
        """Return ``Z coefficients + intercept``, the predictions of a model.

        The product is computed in the dtype of ``X``, for coefficients of any magnitude. The
        intercept is added in float64.
        """
        scaled = self.scaled(coefficients, X.dtype)
        return np.asarray(self.multiply(X, scaled.values) * scaled.units + intercept)

    def scaled(self, coefficients: Float64Array, dtype: Any) -> ScaledCoefficients:
        """Return coefficients in a dtype and their units; subclasses may keep them."""
        return ScaledCoefficients.of(coefficients, dtype)

    def in_float64(self, X: Any) -> Iterator[tuple[slice, Float64Array]]:
        """Yield slices of rows and their columns as float64.

        Columns are computed in the dtype of ``X``. Each array is overwritten by the next one.
        """
        size = max(1, ENTRIES_PER_CAST // self.n_columns)
        buffer = np.empty((size, self.n_columns))
        for rows, Z in self.blocks(X):
            if Z.dtype == np.float64:
                yield rows, Z
                continue
            for start in range(0, len(Z), size):
                part = Z[start : start + size]
                buffer[: len(part)] = part
                yield slice(rows.start + start, rows.start + start + len(part)), buffer[: len(part)]

    def multiply_blocks(self, X: Any, V: Array) -> Array:
        """Compute ``Z V`` one block of rows at a time."""
        out: Array = np.empty((X.shape[0], V.shape[1]), dtype=X.dtype)
        for rows, Z in self.blocks(X):
            np.matmul(Z, V, out=out[rows])
        return out

    def transpose_multiply_blocks(self, X: Any, U: Any) -> Float64Array:
        """Compute ``Z' U`` one block of rows at a time."""
        unit, U = in_units(U)
        U = factor(U, "U", X.shape[0], "rows of X", X.dtype)
        out = np.zeros((self.n_columns, U.shape[1]))
        sums: Array = np.empty(out.shape, dtype=X.dtype)
        for rows, Z in self.blocks(X):
            out += np.matmul(Z.T, U[rows], out=sums)
        return out * unit

    def normal_multiply_blocks(self, X: Any, V: Any, weights: Any) -> Float64Array:
        """Compute ``Z' diag(weights) Z V`` one block of rows at a time."""
        V = factor(V, "V", self.n_columns, "components", X.dtype)
        unit, weights = in_units(weights)
        weights = diagonal(weights, X)
        out = np.zeros(V.shape)
        sums: Array = np.empty(V.shape, dtype=X.dtype)
        for rows, Z in self.blocks(X):
            product = Z @ V
            product *= weights[rows]
            out += np.matmul(Z.T, product, out=sums)
        return out * unit

    def blocks(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and their columns; each array is overwritten by the next one."""
        n_rows, n_columns = X.shape[0], self.n_columns
        size = max(1, min(ROWS_PER_BLOCK, core.ENTRIES_PER_BATCH // n_columns))
        buffer: Array = np.empty((min(size, n_rows), n_columns), dtype=X.dtype)
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            Z = buffer[: rows.stop - start]
            self.write(X[rows], Z)
            yield rows, Z

    def left_factor(self, V: Any, dtype: Any) -> Array:
        """Return the factor ``V`` of ``Z V`` as a matrix; reject values that overflow its dtype."""
        V = factor(V, "V", self.n_columns, "components", dtype)
        if not np.isfinite(V).all():
            raise ValueError(
                f"the coefficients of the features are beyond the range of {dtype}: pass X as "
                "float64."
            )
        return V


def factor(values: Any, name: str, n_rows: int, what: str, dtype: Any) -> Array:
    """Return a factor of a product as a matrix; reject a wrong number of rows."""
    with np.errstate(over="ignore"):  # callers check the range
        found = np.asarray(values, dtype=dtype)
    if found.ndim != 2 or found.shape[0] != n_rows:
        raise ValueError(
            f"{name} has shape {found.shape}: pass a matrix with one row for each of the {n_rows} "
            f"{what}."
        )
    return np.ascontiguousarray(found)


def of_usual_size(largest: Any) -> Any:
    """Return whether float32 can multiply numbers of up to these magnitudes."""
    return (largest == 0) | ((largest > 1.0 / USUAL) & (largest < USUAL))


def in_units(values: Any) -> tuple[float, Any]:
    """Return a unit and the values divided by it, which float32 can represent."""
    if values is None:
        return 1.0, None
    values = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(values).max(initial=0.0))
    if of_usual_size(largest) or not np.isfinite(largest):
        return 1.0, values
    unit = 2.0 ** np.floor(np.log2(largest))  # dividing by it is exact
    return unit, values / unit


def diagonal(weights: Any, X: Any) -> Array:
    """Return the weights of rows as a matrix with one column."""
    n_rows = X.shape[0]
    if weights is None:
        return np.broadcast_to(np.ones((1, 1), dtype=X.dtype), (n_rows, 1))
    found: Array = np.asarray(weights, dtype=X.dtype)
    if found.shape != (n_rows,):
        raise ValueError(
            f"weights has shape {found.shape}: pass one number for each of the {n_rows} rows of X."
        )
    return found[:, None]
