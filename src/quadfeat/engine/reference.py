"""Compute features in plain NumPy, as the reference that defines them and tests faster code.

The samples lie along the *last* axis, so that each step is a few operations on long contiguous
runs of memory. Batches of rotations have a leading axis ``count``, with one rotation per block of
nodes. A rotation ``Q`` acts on samples as ``X @ Q``, which is ``Q.T`` times columns here. Entry
``j`` of the result is the inner product with column ``j`` of ``Q``, the direction of a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quadfeat._utils.validation import Array, Float64Array

if TYPE_CHECKING:
    from quadfeat.kernels.nonlinearities import Nonlinearity


def butterfly_stages(d: int) -> list[tuple[int, int]]:
    """Return ``(half, angles)`` for each stage of a butterfly matrix of size ``d``.

    A stage cuts the coordinates into runs of ``2 * half`` and rotates coordinate ``i`` of a run
    with coordinate ``i + half``, by one angle per run. If the last run is incomplete, the pairs in
    it are rotated. A run without any pair has no angle.

    Examples
    --------
    >>> butterfly_stages(4)
    [(1, 2), (2, 1)]
    >>> butterfly_stages(7)  # always d - 1 angles in total
    [(1, 3), (2, 2), (4, 1)]
    """
    stages = []
    half = 1
    while half < d:
        stages.append((half, (d + half - 1) // (2 * half)))
        half *= 2
    return stages


def rotate_pairs(left: Array, right: Array, cosine: Array, sine: Array) -> None:
    """Multiply the row pairs ``(left, right)`` by ``[[c, -s], [s, c]]`` in place."""
    turned = cosine * left + sine * right
    right *= cosine
    right -= sine * left
    left[...] = turned


def butterfly(columns: Array, cosines: Array, sines: Array, permutations: Array) -> Array:
    """Return ``Q.T @ columns`` for a batch of butterfly products ``Q = (P B)_1 (P B)_2 ...``.

    Parameters
    ----------
    columns : array of shape (d, n_rows)
    cosines, sines : arrays of shape (count, rounds, d - 1)
        One entry per angle, starting with the stage of the closest pairs.
    permutations : int array of shape (count, rounds, d)
        Coordinate ``j`` after the permutation is coordinate ``permutations[..., j]`` before it.

    Returns
    -------
    array of shape (count, d, n_rows)
    """
    d, rows = columns.shape
    count, rounds, _ = permutations.shape
    turned = np.broadcast_to(columns, (count, d, rows))
    for k in range(rounds):
        turned = turned[np.arange(count)[:, None], permutations[:, k]]
        first = 0
        for half, angles in butterfly_stages(d):
            stage = slice(first, first + angles)
            cosine, sine = cosines[:, k, stage, None, None], sines[:, k, stage, None, None]
            first += angles

            whole = d // (2 * half)  # number of complete runs
            end = whole * 2 * half
            # Splitting an axis never copies, so writing to `runs` writes to `turned`.
            runs = turned[:, :end].reshape(count, whole, 2, half, rows)
            rotate_pairs(runs[:, :, 0], runs[:, :, 1], cosine[:, :whole], sine[:, :whole])
            if angles > whole:
                left, right = turned[:, end : d - half], turned[:, end + half :]
                rotate_pairs(left, right, cosine[:, whole], sine[:, whole])
    return turned


def walsh_hadamard(columns: Array) -> Array:
    """Multiply by the orthonormal Hadamard matrix along the second-to-last axis.

    The length of that axis is a power of two.
    """
    *batch, size, rows = columns.shape
    half = 1
    while half < size:
        runs = columns.reshape(*batch, size // (2 * half), 2, half, rows)
        left, right = runs[..., 0, :, :], runs[..., 1, :, :]
        columns = np.stack([left + right, left - right], axis=-3).reshape(*batch, size, rows)
        half *= 2
    return columns / np.sqrt(columns.dtype.type(size))


def simplex_coefficients(d: int) -> tuple[Float64Array, Float64Array]:
    r"""Return the arrays ``below`` and ``on`` that define the vertices of a regular simplex.

    In ``d`` dimensions, vertex ``j`` (from 0) has ``-below[i]`` in the coordinates ``i < j``,
    ``on[j]`` in coordinate ``j`` and zeros after it. The last vertex, ``j = d``, has only the
    entries ``-below[i]``:

    .. math::

        \text{below}_i = \sqrt{\frac{d+1}{d (d-i)(d-i+1)}}, \qquad
        \text{on}_j = \sqrt{\frac{(d+1)(d-j)}{d (d-j+1)}}.
    """
    rest = d - np.arange(d, dtype=np.float64)
    return np.sqrt((d + 1) / (d * rest * (rest + 1))), np.sqrt((d + 1) * rest / (d * (rest + 1)))


def simplex(columns: Array) -> Array:
    """Return ``V.T @ columns`` with ``V`` the ``d x (d + 1)`` matrix of simplex vertices.

    A running sum computes it in ``O(d)``. The second-to-last axis of ``columns`` has length ``d``.

    Examples
    --------
    >>> V = simplex(np.eye(2)).T
    >>> V.round(3) + 0
    array([[ 1.   , -0.5  , -0.5  ],
           [ 0.   ,  0.866, -0.866]])
    """
    *batch, d, rows = columns.shape
    below, on = (
        coefficient.astype(columns.dtype)[:, None] for coefficient in simplex_coefficients(d)
    )
    products = np.empty((*batch, d + 1, rows), dtype=columns.dtype)
    products[..., 0, :] = 0
    np.cumsum(columns * -below, axis=-2, out=products[..., 1:, :])
    products[..., :d, :] += columns * on
    return products


def write_features(
    arguments: Array,
    nonlinearity: Nonlinearity,
    amplitudes: Array,
    *,
    reflected: bool,
    last_is_single: bool,
    phase: float,
    out: Array,
) -> None:
    """Write ``amplitude_j * phi(argument_j)`` for every node into the columns of ``out``.

    The columns are ordered by node. Each node has the columns of its nonlinearity (cosine, then
    sine), or ``phi(+argument)``, then ``phi(-argument)`` if nodes are reflected. With
    ``last_is_single``, the last node has one column instead of two: ``cos(argument + phase)`` or
    ``phi(+argument)``. The caller must adapt its amplitude.

    Parameters
    ----------
    arguments : array of shape (n_rows, n_nodes)
    nonlinearity : Nonlinearity
    amplitudes : array of shape (n_nodes,)
    reflected, last_is_single, phase
        See :class:`quadfeat.rules.nodes.Nodes`.
    out : array of shape (n_rows, n_columns)
    """
    step = 2 if reflected else nonlinearity.columns_per_node
    whole = arguments.shape[1] - last_is_single
    t, a, columns = arguments[:, :whole], amplitudes[:whole], out[:, : step * whole]
    if whole > 0:  # some user-defined functions fail on an empty array
        for k, values in enumerate(nonlinearity.columns(t)):
            np.multiply(values, a, out=columns[:, k::step], casting="same_kind")
        if reflected:
            np.multiply(nonlinearity(-t), a, out=columns[:, 1::2], casting="same_kind")
    if last_is_single:
        value = nonlinearity.single_column(arguments[:, whole], phase)
        out[:, step * whole] = amplitudes[whole] * value
