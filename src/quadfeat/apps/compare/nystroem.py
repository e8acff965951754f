"""Use scikit-learn's ``Nystroem`` with the kernels of quadfeat."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from sklearn.gaussian_process import kernels as gaussian_process
from sklearn.kernel_approximation import Nystroem

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.kernels import Gaussian, Kernel


class BlockKernel(gaussian_process.Kernel):
    """Adapter that lets ``Nystroem`` evaluate a kernel for all pairs of rows at once.

    ``Nystroem`` calls a plain function once per pair, which takes hours instead of seconds.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Matern
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> kernel = Matern(1.5, length_scale=2.0)
    >>> Z = Nystroem(BlockKernel(kernel), n_components=50, random_state=0).fit_transform(X)
    >>> bool(abs(Z @ Z.T - kernel(X)).mean() < 0.01)
    True
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Array:
        """Return the kernel matrix."""
        return self.kernel(X, Y)

    def diag(self, X: Array) -> Float64Array:
        """Return the diagonal of the kernel matrix."""
        return self.kernel.pairs(X, X)

    def is_stationary(self) -> bool:
        """Return False, which is always safe: ``Nystroem`` does not use it."""
        return False


@singledispatch
def nystroem(kernel: Kernel, **settings: Any) -> Nystroem:
    """Return ``Nystroem`` for a kernel whose scale is a number."""
    return Nystroem(BlockKernel(kernel), **settings)


@nystroem.register
def _(kernel: Gaussian, **settings: Any) -> Nystroem:
    return Nystroem(gamma=kernel.gamma, **settings)  # scikit-learn's own Gaussian kernel is faster
