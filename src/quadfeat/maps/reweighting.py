r"""Weights that fit the kernel on a sample of the data, instead of those of the rule.

The estimate is linear in the weights: with the contribution :math:`g_j(x, y)` of a node at the
rule's weight, multipliers :math:`m_j \ge 0` minimise

.. math::

    \sum_{x, y} \Big(\sum_j m_j\, g_j(x, y) - k(x, y)\Big)^2 + \lambda \sum_j (m_j - 1)^2

over pairs of sampled rows. The strength :math:`\lambda` is the best on other rows, and the result
is kept only if it is better than the rule's weights on rows that had no part in either.
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

# Rows of the three parts together, pairs of each part, and how many nodes are not too many.
N_ROWS = 768
N_PAIRS = 4096
MOST_NODES = 2048

# Steps of the solver: how many in all, and how many without progress.
MOST_PIVOTS = 100
PATIENCE = 3

# Strengths relative to the mean of the matrix' diagonal: from hardly to almost only the rule's.
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class Reweighted:
    """Nodes with the better weights, and what they do on rows that had no part in them.

    Attributes
    ----------
    nodes : Nodes
        With new weights if ``kept``, otherwise as they were.
    kept : bool
        Whether the new weights are better.
    error_before, error_after : float
        Relative errors of the two on pairs held out.
    """

    nodes: Nodes
    kept: bool
    error_before: float
    error_after: float


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, with their weights in a mean over all pairs of the data."""

    contributions: Float64Array  # (pairs, nodes), in units of the kernel's largest value
    values: Float64Array  # the exact kernel, in the same units
    weights: Float64Array  # roots, that sum to 1 in squares

    def error(self, multipliers: Float64Array) -> float:
        """Return the relative error of weights."""
        errors = (self.contributions @ multipliers - self.values) * self.weights
        size = np.linalg.norm(self.values * self.weights)
        return float(np.linalg.norm(errors) / size) if size else 0.0


def reweight(nodes: Nodes, kernel: Kernel, X: Array, rng: np.random.Generator) -> Reweighted:
    """Fit the weights of nodes to a sample of the rows of ``X``.

    Parameters
    ----------
    nodes : Nodes
        As a rule has drawn them.
    kernel : Kernel
        What they approximate.
    X : dense or CSR matrix of shape (n_samples, n_features)
        With at least six rows.
    rng : numpy.random.Generator
        Draws the sample.
    """
    n_samples = X.shape[0]
    if n_samples < 6:
        raise ValueError(
            f"X has {n_samples} sample(s), and reweight=True needs rows to fit and to check: "
            "give at least 6, or use reweight=False."
        )
    if len(nodes.radii) > MOST_NODES:
        raise ValueError(
            f"the map has {len(nodes.radii)} nodes: reweight=True is for {MOST_NODES} at most, use "
            "fewer components or reweight=False."
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
    # Without a column for it, the origin has no part in what was fitted.
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
    """Return pairs of the rows: each with itself, and different ones."""
    n = len(rows)
    left = rng.integers(0, n, size=n_pairs)
    right = (left + rng.integers(1, n, size=n_pairs)) % n
    left, right = (np.concatenate([np.arange(n), index]) for index in (left, right))
    Z = np.empty((n, nodes.n_columns(kernel)))
    nodes.write_features(kernel.scaled(rows), kernel, Z)
    starts = nodes.column_starts(kernel)
    values = kernel.pairs(rows[left], rows[right])
    unit = float(np.abs(values).max()) or 1.0  # so that squares stay in range
    contributions = np.add.reduceat(Z[left] / unit * Z[right], starts, axis=1)
    shares = np.repeat([1.0 / n_samples / n, (1.0 - 1.0 / n_samples) / n_pairs], [n, n_pairs])
    return Pairs(contributions, values / unit, np.sqrt(shares))


def _fit(pairs: Pairs, strength: float) -> Float64Array:
    """Return the multipliers >= 0 that fit best, held to 1 with this strength."""
    weighted = pairs.contributions * pairs.weights[:, None]
    matrix = weighted.T @ weighted
    ridge = strength * (float(np.mean(np.diagonal(matrix))) or 1.0)
    matrix[np.diag_indices_from(matrix)] += ridge
    return non_negative(matrix, weighted.T @ (pairs.values * pairs.weights) + ridge)


def non_negative(matrix: Float64Array, target: Float64Array) -> Float64Array:
    """Return the ``x >= 0`` with the least ``x' matrix x / 2 - target' x``.

    By block principal pivoting (Kim and Park, 2011): all entries that are on the wrong side, of
    zero or of the gradient, change places at once; one by one if that does not help any more. Few
    steps where most entries are positive, as weights are.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric and positive definite.
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
