"""Compute two-dimensional Gaussian expectations, the exact kernels of any nonlinearity."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.linalg import eigh_tridiagonal

from quadfeat._utils.validation import Array, Float64Array

PAIRS_TIMES_NODES = 2**22  # largest number of values of phi in memory


@lru_cache(maxsize=8)
def rayleigh_rule(n: int) -> tuple[Float64Array, Float64Array]:
    r"""Return the Gauss rule with ``n`` nodes for :math:`\int_0^\infty g(r)\, r e^{-r^2/2} dr`.

    Stieltjes' procedure on a fine Gauss-Legendre grid gives the recurrence of the orthogonal
    polynomials. The Golub-Welsch algorithm then gives nodes and weights.

    Examples
    --------
    >>> r, weight = rayleigh_rule(8)
    >>> [round(float(weight @ r**k), 10) for k in (0, 2, 4)]  # 1, 2, 8
    [1.0, 2.0, 8.0]
    """
    t, legendre = np.polynomial.legendre.leggauss(max(400, 12 * n))
    longest = 8.0 + 4.0 * np.sqrt(n)  # the weight times any polynomial is negligible beyond
    r = longest * (t + 1.0) / 2.0
    weight = legendre * longest / 2.0 * r * np.exp(-(r**2) / 2.0)
    weight /= weight.sum()

    diagonal, off_diagonal = np.empty(n), np.empty(n)
    # Multiply the polynomials by the square root of the weight, to keep them in range.
    before, now = np.zeros_like(r), np.sqrt(weight)
    for k in range(n):
        diagonal[k] = r @ now**2
        following = (r - diagonal[k]) * now - (off_diagonal[k - 1] * before if k else 0.0)
        off_diagonal[k] = np.linalg.norm(following)
        before, now = now, following / off_diagonal[k]
    nodes, vectors = eigh_tridiagonal(diagonal, off_diagonal[: n - 1])
    return nodes, vectors[0] ** 2


def gaussian_product_moments(
    phi: Callable[[Array], Array],
    left: Float64Array,
    right: Float64Array,
    cosine: Float64Array,
    n_nodes: int,
) -> Float64Array:
    r"""Return ``E[phi(a u) phi(b v)]`` for standard normal ``u``, ``v`` of correlation ``cosine``.

    In polar coordinates of the plane that the two rows span, with the angle ``alpha`` between them,
    the expectation is

    .. math::

        \frac{1}{2\pi} \int_0^{2\pi} \int_0^\infty
        \phi(a r \cos\theta)\, \phi(b r \cos(\theta - \alpha))\, r e^{-r^2/2}\, dr\, d\theta .

    ``phi`` may have a jump or a kink where one of the cosines changes sign, so the circle is cut
    there. This leaves two pieces of one half circle; the other half is the same with both signs
    flipped. Each piece has a Gauss-Legendre rule, and each half-line a Gauss rule for the weight of
    ``r``.

    Parameters
    ----------
    phi : callable
    left, right : arrays of shape (n,)
        The lengths ``a`` and ``b``.
    cosine : array of shape (n,)
    n_nodes : int
        Nodes on each piece of the circle and on each half-line.
    """
    r, radial_weight = rayleigh_rule(n_nodes)
    t, angular_weight = np.polynomial.legendre.leggauss(n_nodes)
    r = np.concatenate([r, -r])  # both halves of a line through the origin
    radial_weight = np.concatenate([radial_weight, radial_weight]) / (2.0 * np.pi)

    moments = np.empty(len(left))
    step = max(1, PAIRS_TIMES_NODES // (n_nodes * len(r)))
    for start in range(0, len(left), step):
        now = slice(start, start + step)
        alpha = np.arccos(cosine[now])
        # The half circle starts at -pi/2, where cos(theta) = 0. Cut it at cos(theta - alpha) = 0.
        cuts = np.stack([np.full_like(alpha, -np.pi / 2), alpha - np.pi / 2], axis=0)
        widths = np.stack([alpha, np.pi - alpha], axis=0)
        total = np.zeros_like(alpha)
        for cut, width in zip(cuts, widths, strict=True):
            theta = cut[:, None] + width[:, None] * (t + 1.0) / 2.0
            u = left[now, None] * np.cos(theta)
            v = right[now, None] * np.cos(theta - alpha[:, None])
            products = phi(u[..., None] * r) * phi(v[..., None] * r)
            total += (products @ radial_weight) @ angular_weight * width / 2.0
        moments[now] = total
    return moments
