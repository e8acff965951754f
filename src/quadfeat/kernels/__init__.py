r"""What is approximated: kernels ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``.

A kernel is a small scikit-learn object. Called on two matrices it returns the exact Gram matrix;
asked by a rule it tells its nonlinearity ``phi``, its constant ``c``, the law of ``w`` and the
factor by which inputs are scaled. Parameters that depend on the data (``"scale"``, ``"auto"``)
become numbers in :meth:`Kernel.resolve`, which ``fit`` of a feature map calls.
"""

from quadfeat.kernels.arccosine import ArcCosine
from quadfeat.kernels.base import Kernel, LengthScaleKernel
from quadfeat.kernels.names import as_kernel
from quadfeat.kernels.pointwise import PointwiseNonlinear
from quadfeat.kernels.spread import Spread
from quadfeat.kernels.stationary import (
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
    SeparationKernel,
    Stationary,
)

__all__ = [
    "ArcCosine",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "LengthScaleKernel",
    "Matern",
    "PointwiseNonlinear",
    "RationalQuadratic",
    "SeparationKernel",
    "Spread",
    "Stationary",
    "as_kernel",
]
