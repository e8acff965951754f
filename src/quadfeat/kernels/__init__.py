"""What is approximated: kernels, their spectra and nonlinearities."""

from quadfeat.kernels.base import (
    ArcCosine,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    PointwiseNonlinear,
    RationalQuadratic,
    SeparationKernel,
    Spread,
    as_kernel,
)

__all__ = [
    "ArcCosine",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Matern",
    "PointwiseNonlinear",
    "RationalQuadratic",
    "SeparationKernel",
    "Spread",
    "as_kernel",
]
