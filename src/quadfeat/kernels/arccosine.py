"""The arc-cosine kernels."""

from __future__ import annotations

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.io import register
from quadfeat.kernels.base import LengthScaleKernel, Scale
from quadfeat.kernels.geometry import norms_and_cosines, pairwise_norms_and_cosines
from quadfeat.kernels.nonlinearities import Nonlinearity, Ramp
from quadfeat.kernels.spectra import (
    NormalSpectrum,
    Spectrum,
)


@register
class ArcCosine(LengthScaleKernel):
    r"""The arc-cosine kernels of Cho and Saul, which mimic infinitely wide one-layer networks.

    .. math::

        k_b(x, y) = 2 E[\phi_b(w^\top x) \phi_b(w^\top y)], \qquad \phi_b(t) = \max(t, 0)^b,
        \qquad w \sim N(0, I)

    With the angle :math:`a` between the rows, :math:`k_0 = 1 - a/\pi`,
    :math:`k_1 = |x||y| (\sin a + (\pi - a) \cos a) / \pi` and
    :math:`k_2 = (|x||y|)^2 (3 \sin a \cos a + (\pi - a)(1 + 2 \cos^2 a)) / \pi`. The step function
    is 1/2 at zero, so a zero row has :math:`k_0 = 1/2` with every row, including itself.

    Parameters
    ----------
    order : {0, 1, 2}, default=1
        The power of the ramp: 0 is the step function, 1 the ramp (ReLU), 2 the squared ramp.
    length_scale : {"scale", "auto"}, float or array of shape (n_features,), default=1.0
        Inputs are divided by it. A single number only multiplies the kernel by a constant, and has
        no effect for order 0. One number per input weights the inputs.

    Examples
    --------
    >>> from quadfeat.kernels import ArcCosine
    >>> ArcCosine(order=0)([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]).round(4)
    array([[1.  , 0.75, 0.5 ],
           [0.75, 1.  , 0.5 ],
           [0.5 , 0.5 , 0.5 ]])
    """

    constant = 2.0

    def __init__(self, order: int = 1, *, length_scale: Scale = 1.0) -> None:
        self.order = order
        self.length_scale = length_scale

    @property
    def nonlinearity(self) -> Nonlinearity:
        if isinstance(self.order, (bool, np.bool_)) or self.order not in (0, 1, 2):
            raise ValueError(
                f"order={self.order!r} is not valid: pass 0, 1 or 2, or use the kernel "
                "PointwiseNonlinear with your own function."
            )
        return Ramp(int(self.order))

    @property
    def spectrum(self) -> Spectrum:
        return NormalSpectrum()

    def gram(self, X: Float64Array, Y: Float64Array, same: bool) -> Float64Array:
        x_norms, y_norms, cosine = norms_and_cosines(X, Y, same)
        return self._value(x_norms[:, None], y_norms, cosine)

    def pair_values(self, X: Float64Array, Y: Float64Array) -> Float64Array:
        return self._value(*pairwise_norms_and_cosines(X, Y))

    def _value(
        self, x_norms: Float64Array, y_norms: Float64Array, cosine: Float64Array
    ) -> Float64Array:
        order = self.nonlinearity.homogeneity
        angle, sine = np.arccos(cosine), np.sqrt((1.0 - cosine) * (1.0 + cosine))
        lengths = x_norms * y_norms
        if order == 0:
            return np.where((x_norms == 0) | (y_norms == 0), 0.5, 1.0 - angle / np.pi)
        if order == 1:
            return lengths * ((sine + (np.pi - angle) * cosine) / np.pi)
        shape = 3.0 * sine * cosine + (np.pi - angle) * (1.0 + 2.0 * cosine**2)
        return lengths**2 * (shape / np.pi)
