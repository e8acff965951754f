"""Draw dense random rotations by a QR decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import checks, register
from quadfeat.rotations.base import DrawnMatrices, Rotation


@register
class Haar(Rotation):
    """The uniform distribution on orthogonal matrices, by a QR decomposition of a Gaussian matrix.

    The columns of ``Q`` are multiplied by the signs of the diagonal of ``R``. Without this step,
    the distribution is not uniform.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Haar
    >>> Q = Haar().draw(5, np.random.default_rng(0)).dense()[0]
    >>> bool(np.allclose(Q @ Q.T, np.eye(5)))
    True
    """

    is_uniform = True

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        q, r = np.linalg.qr(rng.standard_normal((count, d, d)))
        return DenseMatrices(q * np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None])


@register
@dataclass(frozen=True, eq=False)
class DenseMatrices(DrawnMatrices):
    """Matrices stored as dense arrays."""

    matrices: Float64Array

    @property
    def count(self) -> int:
        return self.matrices.shape[0]

    @property
    def size(self) -> int:
        return self.matrices.shape[1]

    def check_consistency(self) -> None:
        checks.check_array(
            self.matrices, (self.count, self.size, self.size), np.float64, "matrices of nodes_"
        )

    def turn(self, columns: Array) -> Array:
        transposed = np.swapaxes(self.matrices, 1, 2).reshape(-1, self.size)
        product = transposed.astype(columns.dtype, copy=False) @ columns
        return product.reshape(self.count, self.size, -1)
