"""Kernels by their names.

A kernel of this package is also exported by ``quadfeat.kernels``, registered for files
(``@register``), and listed in ``docs/api/kernels.md``.
"""

from __future__ import annotations

from collections.abc import Callable

from quadfeat._utils import validation as check
from quadfeat.kernels.arccosine import ArcCosine
from quadfeat.kernels.base import Kernel
from quadfeat.kernels.stationary import Gaussian, Laplacian, Matern, RationalQuadratic

# The names that stand for a kernel with its default parameters.
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
    """Return the kernel that a name stands for, or the kernel itself.

    Examples
    --------
    >>> as_kernel("matern52")
    Matern()
    """
    return check.object_or_name(kernel, "kernel", Kernel, NAMED)  # type: ignore[type-abstract]
