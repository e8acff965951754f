"""Project rows linearly before a kernel compares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register


@register
@dataclass(frozen=True, eq=False)
class Projection:
    """Map rows ``x`` to ``A s(x - c)``, where ``s`` may compress heavy tails.

    Attributes
    ----------
    matrix : ndarray of shape (r, d)
        The matrix ``A``.
    center : ndarray of shape (d,) or None
        The row ``c``. ``None`` means zeros.
    knee : ndarray of shape (d,) or None
        Distances from the center beyond which columns are compressed: ``s(u) = k asinh(u / k)``
        is close to ``u`` near the center and grows logarithmically far away. Infinity leaves a
        column unchanged, and ``None`` leaves all columns unchanged.
    """

    matrix: Float64Array
    center: Float64Array | None = None
    knee: Float64Array | None = None

    def __post_init__(self) -> None:
        for values in (self.matrix, self.center, self.knee):
            if values is not None:
                values.flags.writeable = False

    @classmethod
    def of(cls, matrix: Any, center: Any, knee: Any = None) -> Projection:
        """Return the projection with these parameters; reject invalid ones."""
        A = _finite_array(matrix, "matrix", "a matrix of shape (r, n_features)")
        if A.ndim != 2 or 0 in A.shape:
            raise ValueError(
                f"matrix has shape {A.shape}: pass a matrix of shape (r, n_features) with at least "
                "one row and one column."
            )
        c = None
        if center is not None:
            c = _finite_array(center, "center", "one number per column of matrix, or None")
            _check_columns(c, "center", A)
        return cls(A, c, None if knee is None else _checked_knee(knee, A))

    def check_consistency(self) -> None:
        """Raise an error if the arrays do not fit together; see ``quadfeat.io.register``."""
        checks.check_kind(self.matrix, np.ndarray, "matrix of map_")
        checks.expect(
            self.matrix.ndim == 2 and self.matrix.size > 0,
            f"matrix of map_ has shape {self.matrix.shape}",
        )
        checks.check_array(self.matrix, self.matrix.shape, np.float64, "matrix of map_")
        if self.center is not None:
            checks.check_array(self.center, (self.n_features_in,), np.float64, "center of map_")
        if self.knee is not None:
            checks.check_kind(self.knee, np.ndarray, "knee of map_")
            _checked_knee(self.knee, self.matrix)

    @property
    def n_features_in(self) -> int:
        """Number of columns of the original rows."""
        return self.matrix.shape[1]

    @property
    def width(self) -> int:
        """Number of columns of the projected rows."""
        return self.matrix.shape[0]

    def check_width(self, d: int) -> None:
        """Raise an error unless the rows have ``d`` columns."""
        if d != self.n_features_in:
            raise ValueError(
                f"matrix has {self.n_features_in} columns and X has {d}: pass a matrix with one "
                "column per column of X."
            )

    def rows(self, X: Any) -> Float64Array:
        """Return the projected rows of a dense or sparse matrix, computed in float64.

        The last bits of a row may depend on the number of rows.
        """
        self.check_width(X.shape[1])
        if sparse.issparse(X) and self.knee is None:
            return self.sparse_rows(X)
        X = X.toarray() if sparse.issparse(X) else X
        return np.asarray(self.centered(X) @ self.matrix.T)

    def centered(self, X: Any) -> Float64Array:
        """Return dense rows minus the center, with compressed tails, in float64."""
        # Subtract before the product: projections of a large center would cancel and lose digits.
        center = 0.0 if self.center is None else self.center
        rows = np.asarray(np.subtract(X, center, dtype=np.float64))
        return rows if self.knee is None else compress(rows, self.knee)

    def slopes(self, X: Any) -> Float64Array | float:
        """Return the derivative of the compressed columns with respect to the original ones."""
        if self.knee is None:
            return 1.0
        center = 0.0 if self.center is None else self.center
        rows = np.subtract(X, center, dtype=np.float64)
        return np.asarray(1.0 / np.hypot(1.0, rows / self.knee))

    def sparse_rows(self, X: Any) -> Float64Array:
        """Return the projected rows of a sparse matrix, each computed independently.

        There must be no knee, which would make the rows dense.
        """
        projected = np.asarray(X.astype(np.float64, copy=False) @ self.matrix.T)
        if self.center is not None:
            projected -= self.matrix @ self.center
        return projected


def compress(rows: Float64Array, knee: Float64Array) -> Float64Array:
    """Replace the rows by ``knee * arcsinh(x / knee)``, except in columns with infinite knee."""
    finite = np.isfinite(knee)
    rows[:, finite] = knee[finite] * np.arcsinh(rows[:, finite] / knee[finite])
    return rows


def _check_columns(values: Float64Array, name: str, matrix: Float64Array) -> None:
    """Raise an error unless there is one number per column of a matrix."""
    if values.shape != matrix.shape[1:]:
        raise ValueError(
            f"{name} has shape {values.shape} and matrix has {matrix.shape[1]} columns: pass one "
            "number per column, or None."
        )


def _checked_knee(knee: Any, matrix: Float64Array) -> Float64Array:
    """Return one positive number per column of a matrix. Infinity is allowed."""
    try:
        found = np.array(knee, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"knee={check.one_line(knee)} is not valid: pass one number per column of matrix, "
            "or None."
        ) from error
    _check_columns(found, "knee", matrix)
    if not (found > 0).all():
        raise ValueError(f"knee={check.one_line(knee)} is not valid: pass numbers > 0.")
    return found


def _finite_array(values: Any, name: str, what: str) -> Float64Array:
    """Return a new float64 array of finite numbers."""
    try:
        found = np.array(values)
        if found.dtype.kind not in "fiu":
            raise TypeError(f"dtype {found.dtype}")
        found = found.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}={check.one_line(values)} is not valid: pass {what}.") from error
    if not np.isfinite(found).all():
        raise ValueError(f"{name}={check.one_line(values)} is not valid: pass finite numbers.")
    return found
