"""Kernels of user-defined functions of the inner product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.io import register
from quadfeat.kernels.base import LengthScaleKernel, Scale
from quadfeat.kernels.expectations import gaussian_product_moments
from quadfeat.kernels.geometry import norms_and_cosines, pairwise_norms_and_cosines
from quadfeat.kernels.nonlinearities import Nonlinearity, Pointwise
from quadfeat.kernels.spectra import (
    NormalSpectrum,
    Spectrum,
)


@register
class PointwiseNonlinear(LengthScaleKernel):
    r"""The kernel ``E[phi(w.x) phi(w.y)]`` of any function ``phi``, with ``w`` standard normal.

    The exact Gram matrix uses a two-dimensional quadrature per pair of rows, in polar coordinates.
    The plane is cut along ``w.x = 0`` and ``w.y = 0``, so a function with a jump or a kink at zero
    is integrated as accurately as a smooth one. A jump or kink elsewhere leaves only a few
    correct digits, and a steep function needs more nodes. To check the accuracy, compare the
    results for two values of ``n_nodes``.

    The exact kernel takes about ``8 n_nodes^2`` evaluations of ``phi`` per pair, so use it only for
    checks. Features take one evaluation per entry.

    Parameters
    ----------
    phi : callable
        An elementwise function of an array, such as ``numpy.tanh`` or ``scipy.special.erf``. To
        pickle the fitted map, define it with ``def`` in a module.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default=1.0
        Inputs are divided by it.
    n_nodes : int, default=32
        Number of quadrature points of the exact kernel, at most 256, per half-line and per piece of
        the circle.

    Examples
    --------
    >>> from scipy.special import erf
    >>> from quadfeat.kernels import PointwiseNonlinear
    >>> kernel = PointwiseNonlinear(erf)
    >>> kernel([[1.0, 0.0], [1.0, 1.0]]).round(4)
    array([[0.4646, 0.3455],
           [0.3455, 0.5903]])
    """

    def __init__(
        self, phi: Callable[[Any], Any], *, length_scale: Scale = 1.0, n_nodes: int = 32
    ) -> None:
        self.phi = phi
        self.length_scale = length_scale
        self.n_nodes = n_nodes

    @property
    def nonlinearity(self) -> Nonlinearity:
        if not callable(self.phi):
            raise TypeError(
                f"phi={self.phi!r} is not valid: pass a function of an array, such as numpy.tanh."
            )
        return Pointwise(self.phi)

    @property
    def spectrum(self) -> Spectrum:
        return NormalSpectrum()

    @property
    def evaluations_per_pair(self) -> int:
        return 8 * self._checked_nodes() ** 2

    def _checked_nodes(self) -> int:
        n_nodes = check.check_count(self.n_nodes, "n_nodes", minimum=2)
        if n_nodes > 256:
            raise ValueError(f"n_nodes={n_nodes} is not valid: pass at most 256.")
        return n_nodes

    def pair_values(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return gaussian_product_moments(
            self.nonlinearity, *pairwise_norms_and_cosines(X, Y), self._checked_nodes()
        )

    def gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        n_nodes = self._checked_nodes()
        phi = self.nonlinearity
        x_norms, y_norms, cosine = norms_and_cosines(X, Y, same)
        if same:
            gram = np.empty_like(cosine)
            i, j = np.tril_indices_from(gram)
            gram[i, j] = gram[j, i] = gaussian_product_moments(
                phi, x_norms[i], x_norms[j], cosine[i, j], n_nodes
            )
            return gram
        left, right = np.broadcast_arrays(x_norms[:, None], y_norms)
        moments = gaussian_product_moments(
            phi, left.ravel(), right.ravel(), cosine.ravel(), n_nodes
        )
        return moments.reshape(cosine.shape)
