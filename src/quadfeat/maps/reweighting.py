r"""Fit the weights of nodes to the kernel on a sample of the data.

The approximate kernel is linear in the weights. Let :math:`g_j(x, y)` be the contribution of a node
with the weight of the rule. Multipliers :math:`m_j \ge 0` of these weights minimize

.. math::

    \sum_{x, y} \Big(\sum_j m_j\, g_j(x, y) - k(x, y)\Big)^2 + \lambda \sum_j (m_j - 1)^2

over pairs of sampled rows. The strength :math:`\lambda` with the smallest error on other rows is
chosen. The result is used only if it has a smaller error than the weights of the rule on a third
set of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels import Kernel
from quadfeat.kernels.base import EVALUATIONS
from quadfeat.rules.nodes import Nodes

# Limits for the rows of all three sets together, the pairs of each set, and the nodes.
N_ROWS = 768
N_PAIRS = 4096
MOST_NODES = 2048

# Limits for the number of steps of the solver: in total, and without progress.
MOST_PIVOTS = 100
PATIENCE = 3

# Strengths relative to the mean diagonal of the matrix. With the largest, the weights hardly differ
# from those of the rule.
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class Reweighted:
    """Nodes with the better weights, and the errors of old and new weights on held-out pairs.

    Attributes
    ----------
    nodes : Nodes
        Nodes with new weights if ``kept``, otherwise unchanged.
    kept : bool
        Whether the new weights are better.
    error_before, error_after : float
        Relative errors of the old and new weights on held-out pairs.
    """

    nodes: Nodes
    kept: bool
    error_before: float
    error_after: float


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, with their weights in a mean over all pairs of the data."""

    contributions: Float64Array  # (n_pairs, n_nodes), in units of the kernel's largest value
    values: Float64Array  # the exact kernel, in the same units
    weights: Float64Array  # square roots of weights that sum to 1

    def error(self, multipliers: Float64Array) -> float:
        """Return the relative error for multipliers of the weights."""
        errors = (self.contributions @ multipliers - self.values) * self.weights
        size = np.linalg.norm(self.values * self.weights)
        return float(np.linalg.norm(errors) / size) if size else 0.0


def reweight(nodes: Nodes, kernel: Kernel, X: Array, rng: np.random.Generator) -> Reweighted:
    """Fit the weights of nodes to a sample of the rows of ``X``.

    Parameters
    ----------
    nodes : Nodes
        The nodes that a rule has drawn.
    kernel : Kernel
        The kernel to approximate.
    X : dense or CSR matrix of shape (n_samples, n_features)
        At least six rows.
    rng : numpy.random.Generator
        Generator that draws the sample.
    """
    n_samples = X.shape[0]
    if n_samples < 6:
        raise ValueError(
            f"X has {n_samples} sample(s), but reweight=True needs at least 6: pass more rows, or "
            "use reweight=False."
        )
    if len(nodes.radii) > MOST_NODES:
        raise ValueError(
            f"the map has {len(nodes.radii)} nodes, but reweight=True supports at most "
            f"{MOST_NODES}: use fewer components, or reweight=False."
        )
    chosen = rng.choice(n_samples, size=min(n_samples, N_ROWS), replace=False)
    rows = check.to_dense_float64(X[chosen])
    n_pairs = max(50, min(N_PAIRS, EVALUATIONS // kernel.evaluations_per_pair))
    fitting, choosing, checking = (
        _sample(nodes, kernel, part, n_samples, n_pairs, rng) for part in np.array_split(rows, 3)
    )
    ones = np.ones(fitting.contributions.shape[1])
    tried = [_fit(fitting, strength) for strength in STRENGTHS]
    best = min(tried, key=choosing.error)
    before, after = checking.error(ones), checking.error(best)
    if not after < before:
        return Reweighted(nodes, False, before, after)
    n_nodes = len(nodes.radii)
    # Without a column for the origin, its weight was not fitted.
    origin_weight = nodes.origin_weight * float(best[n_nodes]) if nodes.has_origin_column else 0.0
    return Reweighted(
        replace(nodes, weights=nodes.weights * best[:n_nodes], origin_weight=origin_weight),
        True,
        before,
        after,
    )


def _sample(
    nodes: Nodes,
    kernel: Kernel,
    rows: Float64Array,
    n_samples: int,
    n_pairs: int,
    rng: np.random.Generator,
) -> Pairs:
    """Return pairs of rows: each row with itself, and random pairs of different rows."""
    n = len(rows)
    left = rng.integers(0, n, size=n_pairs)
    right = (left + rng.integers(1, n, size=n_pairs)) % n
    left, right = (np.concatenate([np.arange(n), index]) for index in (left, right))
    Z = np.empty((n, nodes.n_columns(kernel)))
    nodes.write_features(kernel.scaled(rows), kernel, Z)
    starts = nodes.column_starts(kernel)
    values = kernel.pairs(rows[left], rows[right])
    unit = float(np.abs(values).max()) or 1.0  # so that squares do not overflow
    contributions = np.add.reduceat(Z[left] / unit * Z[right], starts, axis=1)
    shares = np.repeat([1.0 / n_samples / n, (1.0 - 1.0 / n_samples) / n_pairs], [n, n_pairs])
    return Pairs(contributions, values / unit, np.sqrt(shares))


def _fit(pairs: Pairs, strength: float) -> Float64Array:
    """Return the best multipliers >= 0, pulled toward 1 with this strength."""
    weighted = pairs.contributions * pairs.weights[:, None]
    matrix = weighted.T @ weighted
    ridge = strength * (float(np.mean(np.diagonal(matrix))) or 1.0)
    matrix[np.diag_indices_from(matrix)] += ridge
    return non_negative(matrix, weighted.T @ (pairs.values * pairs.weights) + ridge)


def non_negative(matrix: Float64Array, target: Float64Array) -> Float64Array:
    """Minimize ``x' matrix x / 2 - target' x`` over ``x >= 0``.

    The method is block principal pivoting (Kim and Park, 2011). Each step exchanges all entries
    that are negative or have a negative gradient between the free and the zero set. If this makes
    no progress, it exchanges one entry at a time. Few steps suffice if most entries are positive,
    as weights are.

    Parameters
    ----------
    matrix : array of shape (n, n)
        A symmetric positive definite matrix.
    target : array of shape (n,)

    Examples
    --------
    >>> non_negative(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([2.0, -1.0]))
    array([1., 0.])
    """
    free = np.ones(len(target), dtype=bool)
    rounding = len(target) * np.finfo(np.float64).eps * float(np.abs(target).max(initial=0.0))
    fewest, patience = len(target) + 1, PATIENCE
    x = np.zeros_like(target)
    for _ in range(MOST_PIVOTS):
        x = np.zeros_like(target)
        x[free] = linalg.solve(matrix[np.ix_(free, free)], target[free], assume_a="pos")
        gradient = matrix @ x - target
        wrong = np.where(free, x < 0, gradient < -rounding)
        n_wrong = int(wrong.sum())
        if n_wrong == 0:
            break
        if n_wrong < fewest:
            fewest, patience = n_wrong, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free ^= wrong
    return np.maximum(x, 0.0)
