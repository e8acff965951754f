"""Estimate the error of a fitted map on data, from a sample of pairs of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.maps.kernel_map import KernelMap

__all__ = ["KernelError"]

NORMS = ("frobenius", "rms", "max")

# The default number of pairs, and a limit for the function evaluations of their exact kernel.
N_PAIRS = 100_000
EVALUATIONS = 2**27

# Rows are drawn in groups of up to LARGEST_GROUP. Groups are smaller if there would otherwise be
# fewer than ENOUGH_GROUPS.
LARGEST_GROUP = 16
ENOUGH_GROUPS = 60

# Entries of features, or of pairs of rows, in memory at once.
ENTRIES_PER_BATCH = 2**22


@register
@dataclass(frozen=True)
class KernelError:
    """The error of a map on a dataset, estimated from pairs of rows.

    Attributes
    ----------
    norm : str
        The norm of the error: ``"frobenius"``, ``"rms"`` or ``"max"``.
    value : float
        The estimate; also ``float(error)``.
    low, high : float or None
        Ends of the confidence interval. Both equal ``value`` if all pairs were used. None for
        ``"max"``, since a sample gives only a lower bound of the maximum.
    confidence : float
        The confidence level of the interval, or of ``quantile``.
    n_pairs : int
        Number of pairs of different rows that were used.
    quantile : float or None
        For ``"max"``: with this confidence, at least this share of all pairs of different rows has
        an error of at most ``value``. It is 1 if all pairs were used.
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
                f"{self.value:.3g} (at least {self.quantile:.6g} of all pairs have at most this "
                f"error, with {self.confidence:.0%} confidence)"
            )
        return (
            f"{self.value:.3g} ({self.confidence:.0%} interval {self.low:.3g} to {self.high:.3g})"
        )


class PendingError:
    """An error that is estimated when it is first asked for.

    Until then, it holds the map and the rows of the pairs.
    """

    def __init__(self, features: KernelMap, pairs: Pairs) -> None:
        self.features = features
        self.pairs = pairs.detached()
        # Raise the errors of a map that cannot be computed for these rows at once.
        rows = self.pairs.X
        largest = abs(rows).max(axis=1)
        row = int(np.argmax(largest.toarray() if sparse.issparse(rows) else largest))
        features.columns(rows[row : row + 1])

    def estimated(self) -> KernelError:
        """Estimate the error."""
        return estimate(self.features, self.pairs)


def default_pairs(kernel: Kernel) -> int:
    """Return the default number of pairs."""
    return min(N_PAIRS, max(1000, EVALUATIONS // kernel.evaluations_per_pair))


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sampled pairs of rows, on which errors are measured.

    Rows are drawn in groups, and all pairs of a group are used. So there are far more pairs than
    rows, and features are computed for few rows. Groups are independent, so the variance of their
    means gives a confidence interval.

    Attributes
    ----------
    X : array or CSR matrix
        Rows, among them those of all groups.
    groups : array of shape (n_groups, size)
        The indices of the rows of each group.
    n_rows : int
        Number of rows from which the groups were drawn.
    """

    X: Any
    groups: Array
    n_rows: int

    @classmethod
    def of(cls, X: Any, n_pairs: int, rng: np.random.Generator) -> Pairs:
        """Draw pairs of rows, or take all pairs if there are no more than ``n_pairs``."""
        check.check_count(n_pairs, "n_pairs", minimum=10)
        n_rows = X.shape[0]
        complete = n_rows * (n_rows - 1) // 2 <= n_pairs
        groups = np.arange(n_rows)[None] if complete else _groups(n_rows, n_pairs, rng)
        return cls(X, groups, n_rows)

    @property
    def is_complete(self) -> bool:
        """Whether all pairs of rows were taken."""
        return self.groups.shape == (1, self.n_rows)

    def detached(self) -> Pairs:
        """Return the same pairs with a copy of their rows instead of all rows."""
        distinct, places = np.unique(self.groups, return_inverse=True)
        return Pairs(self.X[distinct], places.reshape(self.groups.shape), self.n_rows)


def estimate(
    features: KernelMap, pairs: Pairs, *, norm: str = "frobenius", confidence: float = 0.95
) -> KernelError:
    """Return the error of a map on pairs of rows; see ``QuadratureFeatures.kernel_error``."""
    check.check_choice(norm, "norm", NORMS)
    if not check.is_number(confidence) or not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} is not valid: pass a number between 0 and 1.")
    X, groups, n_rows, complete = pairs.X, pairs.groups, pairs.n_rows, pairs.is_complete
    size = groups.shape[1]
    looked_at = len(groups) * size * (size - 1) // 2
    per_batch = max(1, ENTRIES_PER_BATCH // (size * max(features.n_columns, size * X.shape[1])))
    parts = [
        _errors(features, X, groups[start : start + per_batch])
        for start in range(0, len(groups), per_batch)
    ]
    errors, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    if norm == "max":
        # With probability 1 - q, a random pair is not among the share q with the largest errors.
        independent = len(groups) * (size // 2)
        quantile = 1.0 if complete else (1.0 - confidence) ** (1.0 / independent)
        largest = float(np.abs(errors).max())
        return KernelError(norm, largest, None, None, confidence, looked_at, quantile)
    value, deviation = _root_of_ratio(errors, values, n_rows, relative=norm == "frobenius")
    # The interval is symmetric on a logarithmic scale, since an error cannot be negative.
    quantile = stats.t.ppf(0.5 + confidence / 2, max(1, len(groups) - 1))
    factor = float(np.exp(quantile * deviation))
    return KernelError(norm, value, value / factor, value * factor, confidence, looked_at)


def _groups(n_rows: int, n_pairs: int, rng: np.random.Generator) -> Array:
    """Return groups of rows with about ``n_pairs`` pairs in total, shape (n_groups, size)."""
    # Make groups as large as possible, but at least ENOUGH_GROUPS of them.
    size = int(0.5 + math.sqrt(0.25 + 2.0 * n_pairs / ENOUGH_GROUPS))
    size = min(max(size, 2), LARGEST_GROUP, n_rows)
    n_groups = max(2, round(n_pairs / (size * (size - 1) / 2)))
    return np.stack([rng.choice(n_rows, size=size, replace=False) for _ in range(n_groups)])


def _errors(features: KernelMap, X: Any, groups: Array) -> tuple[Float64Array, Float64Array]:
    """Return the errors of a map on all pairs of each group, and the exact kernel.

    Both have shape (n_groups, size, size).
    """
    distinct, places = np.unique(groups, return_inverse=True)
    places = places.reshape(groups.shape)
    rows = X[distinct]
    # Products are in float64, so that their rounding does not count as an error of the features.
    Z = features.columns(rows).astype(np.float64, copy=False)[places]
    exact = _exact(features.kernel, check.to_dense_float64(rows)[places])
    return Z @ Z.transpose(0, 2, 1) - exact, exact


def _exact(kernel: Kernel, groups: Float64Array) -> Float64Array:
    """Return the Gram matrix of each group of rows, shape (n_groups, size, size)."""
    n_groups, size, d = groups.shape
    if n_groups == 1:  # it may be large, and copying the rows of all pairs takes too much memory
        return np.asarray(kernel(groups[0]))[None]
    left, right = np.triu_indices(size)
    pairs = kernel.pairs(groups[:, left].reshape(-1, d), groups[:, right].reshape(-1, d))
    exact = np.empty((n_groups, size, size))
    exact[:, left, right] = exact[:, right, left] = pairs.reshape(n_groups, -1)
    return exact


def _root_of_ratio(
    errors: Float64Array, values: Float64Array, n_rows: int, *, relative: bool
) -> tuple[float, float]:
    """Return the root mean squared error and the standard deviation of its logarithm."""
    # Divide by the largest value, so that squares do not overflow.
    unit = max(float(np.abs(errors).max()), float(np.abs(values).max())) or 1.0
    top = mean_over_pairs((errors / unit) ** 2, n_rows)
    bottom = mean_over_pairs((values / unit) ** 2, n_rows) if relative else np.ones_like(top)
    if not top.any():
        return 0.0, 0.0
    if not bottom.any():
        return float("inf"), 0.0
    ratio = float(top.mean() / bottom.mean())
    root = math.sqrt(ratio) * (1.0 if relative else unit)
    if len(top) == 1:  # all pairs were used
        return root, 0.0
    # To first order, the ratio has the standard deviation of the mean of top - ratio * bottom.
    deviation = float(np.std(top - ratio * bottom, ddof=1)) / math.sqrt(len(top))
    return root, deviation / float(top.mean()) / 2


def mean_over_pairs(
    values: Float64Array, n_rows: float, weights: Float64Array | None = None
) -> Float64Array:
    """Estimate the mean over all pairs of ``n_rows`` rows, given the pairs of a sample.

    The diagonal of the sample is scaled down, since it has a larger share of the pairs.

    Parameters
    ----------
    values : array of shape (..., size, size)
        Values for the pairs of the sample.
    n_rows : float
        The inverse of the probability that a random pair has two equal rows.
    weights : array of shape (size,), default=None
        Weights of the rows in the sample.

    Examples
    --------
    >>> float(mean_over_pairs(np.eye(2), 10))
    0.1
    """
    size = values.shape[-1]
    counts = np.ones(size) if weights is None else weights / weights.mean()
    on_diagonal = (counts**2).sum()
    diagonal = (np.diagonal(values, axis1=-2, axis2=-1) * counts**2).sum(axis=-1)
    if size == 1:
        return np.asarray(diagonal)
    off = (((values @ counts) * counts).sum(axis=-1) - diagonal) / (size**2 - on_diagonal)
    return np.asarray(diagonal / on_diagonal / n_rows + off * (1.0 - 1.0 / n_rows))
