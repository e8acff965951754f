"""Draw nodes by products of diagonal, permutation and Hadamard matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.rotations import (
    DrawnMatrices,
    power_of_two,
    random_signs,
)
from quadfeat.rules.base import Draw, Rule
from quadfeat.rules.nodes import Layout, TurnedVertices


@register
class Fastfood(Rule):
    r"""Gaussian nodes by products of diagonal, permutation and Hadamard matrices.

    Each block is :math:`H G \Pi H B` with random signs ``B``, a permutation and a Gaussian diagonal
    ``G``. Inputs are padded to a power of two, and rows are scaled to independent radii. Each node
    on its own has the right distribution, so the estimate is unbiased. The nodes of a block are
    dependent but not orthogonal, so the error is about that of ``MonteCarlo``. For ``d`` nodes, it
    takes ``O(d)`` memory and ``O(d log d)`` time.

    Parameters
    ----------
    reflect : bool, default=True
        Use each node together with its reflection if ``f(w) != f(-w)``; see :class:`MonteCarlo`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import Fastfood
    >>> X = [[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]]
    >>> QuadratureFeatures(rule=Fastfood(), n_components=64).fit_transform(X).shape
    (2, 64)
    """

    def __init__(self, *, reflect: bool = True) -> None:
        self.reflect = reflect

    def nodes_per_block(self, d: int) -> int:
        return power_of_two(d)

    def is_fast(self, d: int) -> bool:
        return True

    def draw_nodes(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        spectrum = self.isotropic_spectrum(kernel)
        p, n_nodes = power_of_two(d), layout.n_nodes
        shape = (math.ceil(n_nodes / p), p)
        gaussian = rng.standard_normal(shape)
        gaussian *= math.sqrt(p) / np.linalg.norm(gaussian, axis=1, keepdims=True)
        order = np.broadcast_to(np.arange(p, dtype=np.int32), shape)
        matrices = FastfoodMatrices(
            random_signs(rng, shape), rng.permuted(order, axis=-1), gaussian
        )
        radii = spectrum.radii(rng.random((n_nodes, spectrum.n_radial)), p)
        directions = TurnedVertices(matrices, simplex=False, d=d, count=n_nodes)
        return Draw(directions, radii, np.full(n_nodes, 1.0 / n_nodes))


@register
@dataclass(frozen=True, eq=False)
class FastfoodMatrices(DrawnMatrices):
    """Matrices with unit columns ``B H P G H``, stored as two diagonals and a permutation."""

    signs: Array  # (count, p)
    permutations: Array  # (count, p)
    gaussian: Float64Array  # (count, p), of norm sqrt(p)

    @property
    def count(self) -> int:
        return self.signs.shape[0]

    @property
    def size(self) -> int:
        return self.signs.shape[1]

    def fits(self, d: int) -> bool:
        return self.size == power_of_two(d)

    def check_consistency(self) -> None:
        (n, size), name = self.signs.shape, "matrices of nodes_"
        checks.check_signs(self.signs, (n, size), np.int8, name)
        checks.check_permutations(self.permutations, (n, size), name)
        checks.check_array(self.gaussian, (n, size), np.float64, name)

    def turn(self, columns: Array) -> Array:
        mixed = reference.walsh_hadamard(columns * self.signs[:, :, None])
        shuffled = mixed[np.arange(self.count)[:, None], self.permutations]
        gaussian = self.gaussian.astype(columns.dtype, copy=False)
        return reference.walsh_hadamard(shuffled * gaussian[:, :, None])

    def structure(self) -> dict[str, Any] | None:
        in_order = np.broadcast_to(np.arange(self.size, dtype=np.int32), self.signs.shape)
        return {
            "structure": "hadamard",
            "rounds": 2,
            "diagonals": np.stack([self.signs, self.gaussian], axis=1) / math.sqrt(self.size),
            "permutations": np.stack([in_order, self.permutations], axis=1),
        }
