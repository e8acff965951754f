r"""Choose alpha on a sample of rows, for solvers that do not compute a Gram matrix.

Alpha is the ratio of noise variance to signal variance, so it does not depend on the number of
rows. The sample usually has fewer rows than there are features. Let :math:`U \Lambda U^\top` be the
eigendecomposition of the matrix of inner products between centered, weighted rows. The columns of
:math:`U \Lambda^{1/2}` are then features that give the same predictions. Their criteria are
computed by :mod:`quadfeat.solvers.spectral`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows
from quadfeat.data.sampling import RowSample, append_columns
from quadfeat.maps.base import FeatureMap
from quadfeat.solvers.base import Penalty, Problem, Solver
from quadfeat.solvers.moments import NormalEquations
from quadfeat.solvers.paths import best_allowed
from quadfeat.solvers.ridge import AlphaPath
from quadfeat.solvers.spectral import Spectral
from quadfeat.solvers.summaries import Summary
from quadfeat.solvers.targets import Outputs, Targets

# Number of rows in the sample, of rows whose features are in memory at once, and of rows in a batch
# that is added to the sample.
SAMPLE_ROWS = 3000
ROWS_AT_ONCE = 500
ROWS_PER_SAMPLE = 8192

# The relative rounding error of inner products in float64.
EPS = float(np.finfo(np.float64).eps)


def settled(solver: Solver, problem: Problem, rows: Rows) -> Problem:
    """Return the problem with a fixed alpha, chosen on a sample of rows if the solver needs one."""
    if problem.penalty.alpha is not None or not solver.needs_fixed_alpha:
        return problem
    alpha, path = alpha_of_sample(problem, rows)
    return replace(problem, penalty=Penalty(alpha), path=path)


def alpha_of_sample(problem: Problem, rows: Rows) -> tuple[float, AlphaPath]:
    """Choose alpha by the leave-one-out errors of a sample; return it and the path.

    This takes one pass over the targets and one over the rows. Features are computed only for the
    sample.
    """
    targets = problem.targets
    outputs = rows.each(partial(Outputs.of, targets), Outputs.merged)
    sample = rows.each(partial(_sampled, targets, outputs.summary), RowSample.merged)
    d = problem.map.n_features_in
    columns = sample.rows[:, d:]
    transform = targets.transform(outputs.summary)
    if transform is not None:
        columns = columns @ transform[:-1] + transform[-1]
    products = products_of(problem.map, sample.rows[:, :d])
    spectral, projected = decomposed(
        products, columns, sample.weights, problem.map.n_columns, intercept=problem.intercept
    )
    alphas = spectral.default_alphas()
    if problem.penalty.alphas is not None:
        alphas = np.sort(problem.penalty.alphas)
    # Leave out a row with all its copies, since a copy would reveal its target.
    weights = sample.weights
    curve = spectral.left_out_of_projected(alphas, projected, columns, weights, weights)
    path = curve.onto(spectral.path(alphas))
    if not (spectral.system.squares > 0).any():
        return float(alphas[-1]), path  # all targets are equal, so alpha does not matter
    if not np.isfinite(curve.means).any():
        raise ValueError(
            f"alpha cannot be chosen from rows with a total weight of {spectral.system.weight:.3g}."
            " Set alpha to a number, add rows, or use a sample_weight that counts copies of rows."
        )
    return float(alphas[best_allowed(path, "loo", curve.allowed(alphas))]), path


def _sampled(targets: Targets, summary: Summary, block: Block) -> RowSample:
    """Return a sample of the rows of a block, with their targets as the last columns."""
    columns = targets.columns(block.y, summary)
    chosen = RowSample.empty(block.X.shape[1] + columns.shape[1], SAMPLE_ROWS)
    for start in range(0, block.n_rows, ROWS_PER_SAMPLE):  # avoid a copy of the whole table
        part = slice(start, start + ROWS_PER_SAMPLE)
        weights = None if block.weights is None else block.weights[part]
        chosen = chosen.extended(append_columns(block.X[part], columns[part]), weights)
    return chosen


def products_of(features: FeatureMap, X: Float64Array) -> Float64Array:
    """Return the inner products between the features of all rows, computed block by block."""
    n_rows = len(X)
    products = np.empty((n_rows, n_rows))
    parts = [slice(k, min(k + ROWS_AT_ONCE, n_rows)) for k in range(0, n_rows, ROWS_AT_ONCE)]
    for place, left in enumerate(parts):
        Z = np.asarray(features.columns(X[left]), dtype=np.float64)
        products[left, left] = Z @ Z.T
        for right in parts[place + 1 :]:
            block = Z @ np.asarray(features.columns(X[right]), dtype=np.float64).T
            products[left, right], products[right, left] = block, block.T
    return products


def decomposed(
    products: Float64Array, targets: Float64Array, weights: Any, n_columns: int, *, intercept: bool
) -> tuple[Spectral, Float64Array]:
    """Return the normal equations of a few rows in the basis of their eigenvectors.

    Parameters
    ----------
    products : array of shape (n_rows, n_rows)
        Inner products between the features of rows. The array is overwritten.
    targets : array of shape (n_rows, n_outputs)
    weights : array of shape (n_rows,)
    n_columns : int
        Number of features.
    intercept : bool

    Returns
    -------
    spectral : Spectral
        The decomposition, without eigenvectors.
    projected : array of shape (n_rows, n_values)
        Centered features in the basis of the eigenvectors.
    """
    weight = float(weights.sum())
    check.check_any_weight(weight)
    means = np.zeros(targets.shape[1])
    if intercept:
        shares = weights / weight
        middle = products @ shares
        products -= middle[:, None]
        products -= middle - shares @ middle
        means = shares @ targets
    roots = np.sqrt(weights)
    products *= roots[:, None]
    products *= roots
    trace = float(np.trace(products))
    values, vectors = linalg.eigh(products, overwrite_a=True, check_finite=False, driver="evd")
    # The rank is at most the number of features. All other eigenvalues are rounding errors.
    values, vectors = np.maximum(values, 0.0)[-n_columns:], vectors[:, -n_columns:]
    centered = targets - means
    right = np.sqrt(values)[:, None] * (vectors.T @ (roots[:, None] * centered))
    system = NormalEquations(
        right=right,
        squares=weights @ centered**2,
        weight=weight,
        feature_means=np.zeros(len(values)),
        target_means=means,
        intercept=intercept,
        matrix=np.empty((len(values), 0)),
        gram_error=EPS * trace,
    )
    projected = vectors * np.sqrt(values) / roots[:, None]
    return Spectral(system, values, np.empty((0, 0)), right), projected
