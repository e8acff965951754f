r"""Compute a full metric from the gradients of a fitted model.

The average gradient outer product :math:`M = E[\nabla f(x) \nabla f(x)^\top]` of a model measures
how much its predictions change along each direction. A kernel on :math:`A x` with
:math:`A = M^{1/2}` is narrow along directions of large change, and wide along the others [1]_.

References
----------
.. [1] Radhakrishnan, Beaglehole, Pandit, Belkin. "Mechanism for feature learning in neural networks
   and backpropagation-free machine learning models". Science 383, 2024.
"""

from __future__ import annotations

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.learning.columns import weighted_quantiles

# Clip gradients at this multiple of their median norm. Otherwise a few outliers would dominate the
# matrix.
LONGEST = 5.0

# Add this fraction of the mean diagonal to the diagonal, so that no direction is lost in later
# rounds.
LEAST = 1e-4


def average_outer_product(gradients: Float64Array, weights: Float64Array) -> Float64Array:
    """Return the average outer product of gradients, scaled to trace ``d``.

    Parameters
    ----------
    gradients : array of shape (n_rows, n_outputs, d)
    weights : array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> gradients = np.array([[[3.0, 0.0]], [[3.0, 0.0]]])
    >>> average_outer_product(gradients, np.ones(2)).round(3)
    array([[2., 0.],
           [0., 0.]])
    """
    largest = float(np.abs(gradients).max(initial=0.0))
    if largest == 0:
        return np.eye(gradients.shape[2])
    gradients = gradients / largest  # avoid overflow of squares
    lengths = np.sqrt(np.einsum("ijk,ijk->i", gradients, gradients))
    typical = float(weighted_quantiles(lengths[:, None], weights, (0.5,))[0, 0])
    if typical == 0:
        typical = float(lengths.max()) or 1.0
    shortened = np.minimum(1.0, LONGEST * typical / np.maximum(lengths, LONGEST * typical))
    flat = (gradients * (shortened * np.sqrt(weights))[:, None, None]).reshape(
        -1, gradients.shape[2]
    )
    product = flat.T @ flat
    d = len(product)
    product *= d / float(np.trace(product))
    product[np.diag_indices(d)] += LEAST
    return np.asarray(product * (d / np.trace(product)))


def square_root(matrix: Float64Array) -> Float64Array:
    """Return the symmetric square root of a positive semidefinite matrix.

    Examples
    --------
    >>> import numpy as np
    >>> square_root(np.array([[4.0, 0.0], [0.0, 9.0]])).round(6)
    array([[2., 0.],
           [0., 3.]])
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
