"""Draw rotations as products of random reflections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import checks, register
from quadfeat.rotations.base import DrawnMatrices, Rotation


@register
class Householder(Rotation):
    r"""The uniform distribution on orthogonal matrices, by ``d - 1`` random reflections.

    .. math:: Q = H_1 H_2 \cdots H_{d-1} D, \qquad H_k = I - 2 u_k u_k^\top / |u_k|^2,

    where :math:`H_k` maps a Gaussian vector of the last ``d - k + 1`` coordinates to the first of
    their axes, and ``D`` is a diagonal matrix of signs. The distribution is that of :class:`Haar`,
    without a factorization.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Householder
    >>> Q = Householder().draw(5, np.random.default_rng(0)).dense()[0]
    >>> bool(np.allclose(Q @ Q.T, np.eye(5)))
    True
    """

    is_uniform = True

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        # Row k is a Gaussian vector in the coordinates from k on.
        vectors = np.triu(rng.standard_normal((count, d, d)))
        # H_k maps the axis e_k to -sign(v_kk) v / |v|. The last "reflection" is only a sign.
        pivot = np.diagonal(vectors, axis1=1, axis2=2)
        signs = np.where(pivot < 0, -1.0, 1.0)
        norms = np.linalg.norm(vectors, axis=2)
        index = np.arange(d)
        vectors[:, index, index] += signs * norms
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        return Reflections(vectors[:, : d - 1], -signs)


@register
@dataclass(frozen=True, eq=False)
class Reflections(DrawnMatrices):
    """Products of reflections along unit vectors, then signs."""

    vectors: Float64Array  # (count, d - 1, d)
    signs: Float64Array  # (count, d)

    @property
    def count(self) -> int:
        return self.signs.shape[0]

    @property
    def size(self) -> int:
        return self.signs.shape[1]

    def check_consistency(self) -> None:
        n, d, name = self.count, self.size, "matrices of nodes_"
        checks.check_array(self.vectors, (n, d - 1, d), np.float64, name)
        checks.check_signs(self.signs, (n, d), np.float64, name)

    def turn(self, columns: Array) -> Array:
        turned = np.repeat(columns[None], self.count, axis=0)
        vectors = self.vectors.astype(columns.dtype, copy=False)
        for k in range(self.size - 1):
            u = vectors[:, k, k:]  # the entries before k are zero
            along = u[:, None, :] @ turned[:, k:]
            turned[:, k:] -= 2 * u[:, :, None] * along
        return turned * self.signs.astype(columns.dtype, copy=False)[:, :, None]
