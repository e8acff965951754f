"""Products of Givens rotations in the pattern of a fast Fourier transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import checks, register
from quadfeat.rotations.base import (
    MOST_ROUNDS,
    DrawnMatrices,
    Rotation,
    power_of_two,
    random_signs,
)
from quadfeat.rotations.haar import Haar

# Up to this size, two rounds have a visible bias unless the size is a power of two. A third round
# costs nothing there when features are computed, since the native core uses dense matrices.
# ``benchmarks/rotations.py`` measures the bias.
THREE_ROUNDS_UP_TO = 36


@register
class Butterfly(Rotation):
    r"""Products of Givens rotations in the pattern of a fast Fourier transform.

    One round is ``P B``: a random permutation and a butterfly matrix of ``ceil(log2 d)`` sparse
    stages with ``d - 1`` angles. In a stage that joins runs of ``m`` coordinates,
    :math:`\cos^2\theta \sim \mathrm{Beta}(m/2, m/2)` with random signs. Each column of ``B`` is
    then uniform on the sphere if ``d`` is a power of two. Otherwise some coordinates have no
    partner, and a single round is biased. Three rounds with fresh angles and permutations have
    hardly any bias. Two rounds have a small one, which decreases with ``d``. ``make bias`` measured
    the table below, with standard errors of at most 0.0001 (degree 1, difference along an axis,
    Gaussian kernel of value 0.1353):

    ====== ========= ========== ============
    d      one round two rounds three rounds
    ====== ========= ========== ============
    3      +0.0433   +0.0038    +0.0005
    5      +0.0750   +0.0055    +0.0005
    7      +0.0540   +0.0022    +0.0002
    16     -0.0000   +0.0000    +0.0000
    ====== ========= ========== ============

    ``benchmarks/rotations.py`` compares the root mean squared error of the kernel in maps of 1 or
    16 blocks, on one-hot or sparse rows, images and tables with 5 to 784 columns. Two rounds have
    at most 1.023 times the error of three (standard error 0.007), and mostly less than 1.01 times.
    One round has up to 16 times the error, on one-hot rows.

    Parameters
    ----------
    rounds : int, default=None
        The number of products ``P B``. The paper has three. None means two, except for
        ``d <= 36`` that is not a power of two, which has three.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.rotations import Butterfly
    >>> drawn = Butterfly().draw(6, np.random.default_rng(0))
    >>> x = np.ones((1, 6))
    >>> turned = drawn.apply(x)[0, 0]
    >>> bool(np.isclose(turned @ turned, 6.0)), bool(np.allclose(turned, x @ drawn.dense()[0]))
    (True, True)
    """

    is_fast = True
    is_uniform = True

    def __init__(self, rounds: int | None = None) -> None:
        self.rounds = rounds

    def rounds_for(self, d: int) -> int:
        """Return the number of rounds for inputs with ``d`` columns.

        Examples
        --------
        >>> [Butterfly().rounds_for(d) for d in (16, 24, 784)], Butterfly(1).rounds_for(24)
        ([2, 3, 2], 1)
        """
        if self.rounds is not None:
            return check.check_count(self.rounds, "rounds", maximum=MOST_ROUNDS)
        return 3 if d <= THREE_ROUNDS_UP_TO and power_of_two(d) != d else 2

    def draw(self, d: int, rng: np.random.Generator, count: int = 1) -> DrawnMatrices:
        shape = (count, self.rounds_for(d))
        if d == 1:  # there are no angles, only a random sign
            return Haar().draw(d, rng, count)
        squares = [
            rng.beta(half / 2, half / 2, size=(*shape, angles))
            for half, angles in reference.butterfly_stages(d)
        ]
        squared_cosine = np.concatenate(squares, axis=-1)
        cosines = np.sqrt(squared_cosine) * random_signs(rng, squared_cosine.shape)
        sines = np.sqrt(1.0 - squared_cosine) * random_signs(rng, squared_cosine.shape)
        order = np.broadcast_to(np.arange(d, dtype=np.int32), (*shape, d))
        return ButterflyMatrices(cosines, sines, rng.permuted(order, axis=-1))


@register
@dataclass(frozen=True, eq=False)
class ButterflyMatrices(DrawnMatrices):
    """Products of rounds ``P B``, stored as angles and permutations."""

    cosines: Float64Array  # (count, rounds, d - 1)
    sines: Float64Array  # (count, rounds, d - 1)
    permutations: Array  # (count, rounds, d)

    @property
    def count(self) -> int:
        return self.permutations.shape[0]

    @property
    def size(self) -> int:
        return self.permutations.shape[2]

    def check_consistency(self) -> None:
        (n, rounds, d), name = self.permutations.shape, "matrices of nodes_"
        checks.expect(rounds >= 1, f"{name} have no rounds")
        checks.check_permutations(self.permutations, (n, rounds, d), name)
        for angles in (self.cosines, self.sines):
            checks.check_array(angles, (n, rounds, d - 1), np.float64, name)

    def turn(self, columns: Array) -> Array:
        return reference.butterfly(
            columns,
            self.cosines.astype(columns.dtype, copy=False),
            self.sines.astype(columns.dtype, copy=False),
            self.permutations,
        )

    def structure(self) -> dict[str, Any] | None:
        return {
            "structure": "butterfly",
            "rounds": self.permutations.shape[1],
            "cosines": self.cosines,
            "sines": self.sines,
            "permutations": self.permutations,
        }
