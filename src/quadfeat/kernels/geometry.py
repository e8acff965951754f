"""Distances, norms and angles of rows."""

from __future__ import annotations

import numpy as np

from quadfeat._utils.validation import Float64Array


def squared_distances(X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
    """Return squared distances by a matrix product of centered rows.

    Far from the origin, the terms of the product would cancel and lose digits.
    """
    from sklearn.metrics.pairwise import euclidean_distances  # a slow import

    center = X.mean(axis=0)
    near = X - center
    distances: Float64Array = euclidean_distances(near, None if same else Y - center, squared=True)
    return distances


def norms_and_cosines(
    X: Float64Array, Y: Float64Array, same: bool
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the norms of the rows and the cosines between them, which are 0 for zero rows."""
    x_norms, x_units = norms_and_units(X)
    y_norms, y_units = (x_norms, x_units) if same else norms_and_units(Y)
    cosine = np.clip(x_units @ y_units.T, -1.0, 1.0)
    if same:
        np.fill_diagonal(cosine, np.where(x_norms > 0, 1.0, 0.0))
    return x_norms, y_norms, cosine


def pairwise_norms_and_cosines(
    X: Float64Array, Y: Float64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the norms of the rows and the cosine of each row of ``X`` with that of ``Y``."""
    x_norms, x_units = norms_and_units(X)
    y_norms, y_units = norms_and_units(Y)
    cosine = np.clip(np.einsum("ij,ij->i", x_units, y_units), -1.0, 1.0)
    # Equal rows have a cosine of exactly 1. The angle would magnify a rounding error here.
    cosine[(X == Y).all(axis=1) & (x_norms > 0)] = 1.0
    return x_norms, y_norms, cosine


def norms_and_units(X: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the norms of the rows and the normalized rows, without overflow or underflow."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    units = X / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt((units**2).sum(axis=1, keepdims=True))
    units /= np.where(lengths > 0, lengths, 1.0)
    return (largest * lengths)[:, 0], units
