"""The arithmetic of the map in plain NumPy: what it means, and what faster code is tested against.

Every function here is pure. Rows of data lie along the *last* axis, so that each step of a
transform is a few operations on long contiguous runs; batches of rotations have a leading axis
``count`` (one rotation a block of nodes). A rotation ``Q`` acts on rows of data as ``X @ Q``, here
``Q.T`` times columns: entry ``j`` of the result is the inner product with column ``j`` of ``Q``,
which is the direction of a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from quadfeat._utils.validation import Array, Float64Array

if TYPE_CHECKING:
    from quadfeat.kernels.nonlinearities import Nonlinearity


def butterfly_stages(d: int) -> list[tuple[int, int]]:
    """Return ``(half, angles)`` for each stage of a butterfly matrix of size ``d``.

    A stage of half-size ``half`` cuts the coordinates into runs of ``2 * half`` and rotates
    coordinate ``i`` of a run with coordinate ``i + half``, one angle a run. A run whose second half
    is cut off by ``d`` rotates the pairs it has; one without any second half has no angle.

    Examples
    --------
    >>> butterfly_stages(4)
    [(1, 2), (2, 1)]
    >>> butterfly_stages(7)  # always d - 1 angles in all
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
        One entry an angle, the stage with the closest pairs first.
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

            whole = d // (2 * half)  # runs that have both halves in full
            end = whole * 2 * half
            # Splitting one axis never copies, so writing to `runs` writes to `turned`.
            runs = turned[:, :end].reshape(count, whole, 2, half, rows)
            rotate_pairs(runs[:, :, 0], runs[:, :, 1], cosine[:, :whole], sine[:, :whole])
            if angles > whole:
                left, right = turned[:, end : d - half], turned[:, end + half :]
                rotate_pairs(left, right, cosine[:, whole], sine[:, whole])
    return turned


def walsh_hadamard(columns: Array) -> Array:
    """Return the orthonormal Hadamard matrix times the second last axis, a power of two."""
    *batch, size, rows = columns.shape
    half = 1
    while half < size:
        runs = columns.reshape(*batch, size // (2 * half), 2, half, rows)
        left, right = runs[..., 0, :, :], runs[..., 1, :, :]
        columns = np.stack([left + right, left - right], axis=-3).reshape(*batch, size, rows)
        half *= 2
    return columns / np.sqrt(columns.dtype.type(size))


def simplex_coefficients(d: int) -> tuple[Float64Array, Float64Array]:
    r"""Return what defines the vertices of the regular simplex in ``d`` dimensions.

    Vertex ``j`` (from 0) has ``-below[i]`` in the coordinates ``i < j``, ``on[j]`` in coordinate
    ``j`` and zeros behind it; the last vertex, ``j = d``, has no coordinate of its own:

    .. math::

        \text{below}_i = \sqrt{\frac{d+1}{d (d-i)(d-i+1)}}, \qquad
        \text{on}_j = \sqrt{\frac{(d+1)(d-j)}{d (d-j+1)}}.
    """
    rest = d - np.arange(d, dtype=np.float64)
    return np.sqrt((d + 1) / (d * rest * (rest + 1))), np.sqrt((d + 1) * rest / (d * (rest + 1)))


def simplex(columns: Array) -> Array:
    """Return ``V.T @ columns`` with ``V`` the ``d x (d + 1)`` matrix of simplex vertices.

    By a running sum, in ``O(d)``; the second last axis of ``columns`` has the length ``d``.

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

    Column order: node by node, and for each node the columns of its nonlinearity (cosine then sine
    of a Fourier pair), or ``phi(+argument)`` then ``phi(-argument)`` if nodes are reflected. If
    ``last_is_single``, the last node has one column instead of two: ``cos(argument + phase)``
    or ``phi(+argument)``; the caller has to adapt its amplitude.

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
    if whole > 0:  # some user-defined functions cannot take an empty array
        for k, values in enumerate(nonlinearity.columns(t)):
            np.multiply(values, a, out=columns[:, k::step], casting="same_kind")
        if reflected:
            np.multiply(nonlinearity(-t), a, out=columns[:, 1::2], casting="same_kind")
    if last_is_single:
        value = nonlinearity.single_column(arguments[:, whole], phase)
        out[:, step * whole] = amplitudes[whole] * value
