r"""Gradients of functions of features.

A function of the features depends on a row only through the arguments :math:`t_j = w_j^\top S x`,
where :math:`S` has the scale factors of the inputs on its diagonal. Let :math:`g_j` be the
derivatives of the function with respect to these arguments. Then its gradient is
:math:`S \sum_j g_j w_j`, another product with the nodes. If the kernel projects rows,
:math:`A (x - c)` replaces :math:`x`, and the gradient is multiplied by :math:`A^\top`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.columns import check_finite
from quadfeat._utils.validation import Float64Array
from quadfeat.engine import core, reference
from quadfeat.kernels import Kernel
from quadfeat.kernels.nonlinearities import Slope
from quadfeat.rules.nodes import Nodes


def gradients(kernel: Kernel, nodes: Nodes, X: Any, coefficients: Any) -> Float64Array:
    """Return the gradients of functions of features; see ``KernelMap.gradients``.

    Parameters
    ----------
    kernel : Kernel
        A kernel whose nonlinearity has a derivative.
    nodes : Nodes
        The nodes that a rule has drawn for ``kernel.inner``.
    X : array or CSR matrix of shape (n_rows, n_features)
    coefficients : array-like of shape (n_columns,) or (n_columns, n_outputs)
    """
    B = _checked(coefficients, nodes.n_columns(kernel))
    if nodes.has_origin_column:  # a constant column
        B = B[:-1]
    check_finite(X)
    inner, projection = kernel.inner, kernel.projection
    frequencies = nodes.frequencies() * inner.input_factor(nodes.directions.d)
    (n_rows, d), n_outputs = X.shape, B.shape[1]
    out = np.empty((n_rows, n_outputs, d))
    per_row = max(len(B), n_outputs * d)
    size = max(1, core.ENTRIES_PER_BATCH // per_row)
    for start in range(0, n_rows, size):
        rows = slice(start, start + size)
        block = check.to_dense_float64(X[rows]) if projection is None else projection.rows(X[rows])
        slopes = _slopes(nodes, inner, block @ frequencies.T)
        for output, b in enumerate(B.T):
            found = _per_node(nodes, inner, slopes * b) @ frequencies
            if projection is not None:
                dense = check.to_dense_float64(X[rows])
                found = found @ projection.matrix * projection.slopes(dense)
            out[rows, output] = found
    return out[:, 0] if np.ndim(coefficients) == 1 else out


def _checked(coefficients: Any, n_columns: int) -> Float64Array:
    """Return the coefficients of functions as a matrix with a column for each function."""
    found = np.asarray(coefficients, dtype=np.float64)
    if found.ndim not in (1, 2) or found.shape[0] != n_columns:
        raise ValueError(
            f"coefficients has shape {found.shape}: pass an array of shape ({n_columns},) or "
            f"({n_columns}, n_outputs), with one number for each column of the map."
        )
    if not np.isfinite(found).all():
        raise ValueError("coefficients contains NaN or infinity: pass finite numbers.")
    return found.reshape(n_columns, -1)


def _slopes(nodes: Nodes, kernel: Kernel, arguments: Float64Array) -> Float64Array:
    """Return the derivative of each column with respect to its argument, except the origin."""
    n_columns = nodes.n_columns(kernel) - nodes.has_origin_column
    slopes = np.empty((len(arguments), n_columns))
    reference.write_features(
        arguments,
        Slope(kernel.nonlinearity),
        nodes.amplitudes(kernel),
        reflected=nodes.reflected,
        last_is_single=nodes.last_is_single,
        phase=nodes.phase,
        out=slopes,
    )
    if nodes.reflected:
        slopes[:, 1::2] *= -1.0  # the argument of a reflection is -t
    return slopes


def _per_node(nodes: Nodes, kernel: Kernel, values: Float64Array) -> Float64Array:
    """Return the sums over the columns of each node, shape (n_rows, n_nodes)."""
    starts = nodes.column_starts(kernel)[: len(nodes.radii)]
    return np.asarray(np.add.reduceat(values, starts, axis=1))
