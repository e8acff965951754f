"""A rule that was considered, and its score.

The score is the mean squared error of ``Z Z'`` over pairs of rows, including the diagonal as often
as it occurs and including a bias, relative to the kernel's own mean square.

Blocks and what remains behind them (see ``remainder`` of the rules) are independent and unbiased.
With mean squared errors ``V`` of the blocks and ``U`` of the remainder, the best share of the
remainder is :math:`V / (V + U)`, which makes the error :math:`V U / (V + U)`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from quadfeat.auto.sample import Sample
from quadfeat.io import checks, register
from quadfeat.rules import Rule


@register
class Candidate(NamedTuple):
    """A rule that was considered.

    Attributes
    ----------
    rule : Rule
        What could have been drawn.
    error : float
        Expected error relative to the kernel, in the Frobenius norm.
    uncertainty : float
        Standard error of ``error``, given the rows; 0 for a closed form, which is right to some per
        cent.
    method : str
        ``"closed form"`` or ``"trials"``.
    """

    rule: Rule
    error: float
    uncertainty: float
    method: str

    def check_consistency(self) -> None:
        """Raise an error if this is no candidate; see ``quadfeat.io.register``."""
        checks.check_kind(self.rule, Rule, "rule of an item of candidates_")


def best_remainder(blocks: float, rest: float, n_blocks: int, n_rest: int) -> tuple[float, float]:
    """Return the best weight of a remainder relative to blocks, at most 1, and the error then.

    ``blocks`` and ``rest`` are the mean squared errors of the two by themselves.
    """
    if blocks + rest == 0:
        return 1.0, 0.0
    share = min(blocks / (blocks + rest), n_rest / (n_blocks + n_rest))
    error = (1.0 - share) ** 2 * blocks + share**2 * rest
    return min(1.0, share / (1.0 - share) * n_blocks / n_rest), error


def relative_error(mean_squared_error: float, sample: Sample) -> float:
    """Return the root of a mean squared error relative to the kernel's mean square."""
    if mean_squared_error == 0:
        return 0.0
    return math.sqrt(mean_squared_error / sample.mean_square) if sample.mean_square else math.inf
