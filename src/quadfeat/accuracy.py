"""How far a fitted map is from its kernel on given data, from a sample of pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from quadfeat import _validation as check
from quadfeat._validation import Array, Float64Array
from quadfeat.kernels import Kernel

__all__ = ["KernelError"]

NORMS = ("frobenius", "rms", "max")

# Entries of features held at once.
ENTRIES_PER_BATCH = 2**22


@dataclass(frozen=True)
class KernelError:
    """The error of a map on some data, as estimated from pairs of rows.

    Attributes
    ----------
    norm : str
        What is measured: ``"frobenius"``, ``"rms"`` or ``"max"``.
    value : float
        The estimate; also ``float(error)``.
    low, high : float or None
        Ends of the confidence interval, both ``value`` where all pairs were looked at. None for
        ``"max"``, which a sample bounds from below only.
    confidence : float
        The confidence of the interval, or of ``quantile``.
    n_pairs : int
        How many pairs were looked at.
    quantile : float or None
        For ``"max"``: with this confidence, at least this share of all pairs of different rows has
        an error of at most ``value``. 1 where all pairs were looked at.
    """

    norm: str
    value: float
    low: float | None
    high: float | None
    confidence: float
    n_pairs: int
    quantile: float | None = None

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if self.norm == "max":
            return (
                f"{self.value:.3g} (at least {self.quantile:.6g} of the pairs have at most this "
                f"error, at {self.confidence:.0%} confidence)"
            )
        return (
            f"{self.value:.3g} ({self.confidence:.0%} interval {self.low:.3g} to {self.high:.3g})"
        )


@dataclass(frozen=True)
class Stratum:
    """Sampled pairs that stand for a part of all pairs."""

    left: Array  # indices of rows
    right: Array
    weight: float  # the part of all pairs
    complete: bool  # whether these are all of them


def strata(n_rows: int, n_pairs: int, rng: np.random.Generator) -> list[Stratum]:
    """Return pairs of equal rows and pairs of different rows: all of them, or a sample.

    Sampled pairs are independent of each other. Half of all pairs are enough for all, since an
    error is the same both ways.
    """
    diagonal_rows = np.arange(n_rows)
    complete = n_rows * (n_rows + 1) // 2 <= n_pairs
    some = max(2, n_pairs // 10)
    if not complete and n_rows > some:
        diagonal_rows = rng.integers(0, n_rows, size=some)
    diagonal = Stratum(diagonal_rows, diagonal_rows, 1.0 / n_rows, len(diagonal_rows) == n_rows)
    if n_rows == 1:
        return [diagonal]
    if complete:
        left, right = np.triu_indices(n_rows, 1)
    else:
        n_off = max(2, n_pairs - len(diagonal_rows))
        left = rng.integers(0, n_rows, size=n_off)
        right = rng.integers(0, n_rows - 1, size=n_off)
        right += right >= left
    return [diagonal, Stratum(left, right, 1.0 - 1.0 / n_rows, complete)]


def estimate(
    features: Callable[[Any], Array],
    kernel: Kernel,
    X: Any,
    *,
    n_columns: int,
    norm: str,
    n_pairs: int,
    confidence: float,
    rng: np.random.Generator,
) -> KernelError:
    """Return the error of a map on ``X``; see ``QuadratureFeatures.kernel_error``."""
    check.check_choice(norm, "norm", NORMS)
    check.check_count(n_pairs, "n_pairs", minimum=10)
    if not check.is_number(confidence) or not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} is not valid: give a number between 0 and 1.")
    batch = max(1, ENTRIES_PER_BATCH // max(n_columns, X.shape[1]))
    drawn = strata(X.shape[0], n_pairs, rng)
    errors, values = [], []
    for stratum in drawn:
        parts = [
            _errors(features, kernel, X, stratum.left[now], stratum.right[now])
            for now in (slice(i, i + batch) for i in range(0, len(stratum.left), batch))
        ]
        errors.append(np.concatenate([error for error, _ in parts]))
        values.append(np.concatenate([value for _, value in parts]))
    looked_at = sum(len(stratum.left) for stratum in drawn)
    if norm == "max":
        off = drawn[-1]
        # The largest of n draws misses the q-quantile with probability q^n.
        quantile = 1.0 if off.complete else (1.0 - confidence) ** (1.0 / len(off.left))
        largest = max(float(np.abs(error).max()) for error in errors)
        return KernelError(norm, largest, None, None, confidence, looked_at, quantile)
    value, deviation = _root_of_ratio(errors, values, drawn, relative=norm == "frobenius")
    # On a logarithmic scale, since an error cannot be negative.
    factor = float(np.exp(stats.norm.ppf(0.5 + confidence / 2) * deviation))
    return KernelError(norm, value, value / factor, value * factor, confidence, looked_at)


def _errors(
    features: Callable[[Any], Array], kernel: Kernel, X: Any, left: Array, right: Array
) -> tuple[Float64Array, Float64Array]:
    """Return what a map is off by on pairs of rows, and the kernel there."""
    X_left, X_right = X[left], X[right]
    Z_left, Z_right = features(X_left), features(X_right)
    # Sums in float64: the error meant is that of the features, not that of adding them up.
    products = np.einsum("ij,ij->i", Z_left, Z_right, dtype=np.float64)
    exact = kernel.pairs(check.to_dense_float64(X_left), check.to_dense_float64(X_right))
    return products - exact, exact


def _root_of_ratio(
    errors: list[Float64Array],
    values: list[Float64Array],
    drawn: list[Stratum],
    *,
    relative: bool,
) -> tuple[float, float]:
    """Return the root of the (relative) mean squared error and the deviation of its logarithm."""
    # In units of the largest value, so that squares stay in range.
    unit = max(float(np.abs(value).max()) for value in (*errors, *values)) or 1.0
    squares = [(error / unit) ** 2 for error in errors]
    sizes = [(value / unit) ** 2 if relative else np.ones_like(value) for value in values]
    top = sum(s.weight * q.mean() for s, q in zip(drawn, squares, strict=True))
    bottom = sum(s.weight * q.mean() for s, q in zip(drawn, sizes, strict=True))
    if top == 0:
        return 0.0, 0.0
    if bottom == 0:
        return float("inf"), 0.0
    ratio = float(top / bottom)
    # The ratio's deviation is that of the mean of q - ratio * s, to first order.
    variance = sum(
        s.weight**2 * np.var(q - ratio * size, ddof=1) / len(q)
        for s, q, size in zip(drawn, squares, sizes, strict=True)
        if not s.complete
    )
    root = float(np.sqrt(ratio)) * (1.0 if relative else unit)
    return root, float(np.sqrt(variance) / top / 2)
