"""Look up kernels by name.

To add a kernel to this package, also export it from ``quadfeat.kernels``, register it for saved
files (``@register``) and list it in ``docs/api/kernels.md``.
"""

from __future__ import annotations

from collections.abc import Callable

from quadfeat._utils import validation as check
from quadfeat.kernels.arccosine import ArcCosine
from quadfeat.kernels.base import Kernel
from quadfeat.kernels.stationary import Gaussian, Laplacian, Matern, RationalQuadratic

# Kernels by name, with default parameters.
NAMED: dict[str, Callable[[], Kernel]] = {
    "gaussian": Gaussian,
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "matern12": lambda: Matern(0.5),
    "matern32": lambda: Matern(1.5),
    "matern52": lambda: Matern(2.5),
    "rational-quadratic": RationalQuadratic,
    "arccos0": lambda: ArcCosine(0),
    "arccos1": lambda: ArcCosine(1),
    "arccos2": lambda: ArcCosine(2),
}


def as_kernel(kernel: Kernel | str) -> Kernel:
    """Return the kernel with a given name; return a kernel object unchanged.

    Examples
    --------
    >>> as_kernel("matern52")
    Matern()
    """
    return check.object_or_name(kernel, "kernel", Kernel, NAMED)  # type: ignore[type-abstract]
