r"""Define the kernels to approximate, ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``.

A kernel is a small scikit-learn object. Call it on two matrices to get the exact Gram matrix. Rules
use its nonlinearity ``phi``, its constant ``c``, the distribution of ``w`` and the factor that
scales inputs. :meth:`Kernel.resolve`, which ``fit`` of a feature map calls, turns parameters that
depend on the data (``"scale"``, ``"auto"``) into numbers.
"""

from quadfeat.kernels.arccosine import ArcCosine
from quadfeat.kernels.base import GammaKernel, Kernel, LengthScaleKernel
from quadfeat.kernels.metric import Metric
from quadfeat.kernels.nonlinearities import Fourier, Nonlinearity, Pointwise, Ramp
from quadfeat.kernels.pointwise import PointwiseNonlinear
from quadfeat.kernels.presets import as_kernel
from quadfeat.kernels.projection import Projection
from quadfeat.kernels.spectra import (
    CauchyProduct,
    GammaMixtureSpectrum,
    IsotropicSpectrum,
    NormalSpectrum,
    Spectrum,
    StudentSpectrum,
)
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
    "CauchyProduct",
    "Fourier",
    "GammaKernel",
    "GammaMixtureSpectrum",
    "Gaussian",
    "IsotropicSpectrum",
    "Kernel",
    "Laplacian",
    "LengthScaleKernel",
    "Matern",
    "Metric",
    "Nonlinearity",
    "NormalSpectrum",
    "Pointwise",
    "PointwiseNonlinear",
    "Projection",
    "Ramp",
    "RationalQuadratic",
    "SeparationKernel",
    "Spectrum",
    "Spread",
    "Stationary",
    "StudentSpectrum",
    "as_kernel",
]
