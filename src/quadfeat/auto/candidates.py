"""A candidate rule and its expected error.

The error is the mean squared error of ``Z Z'`` over all pairs of rows, relative to the mean square
of the kernel. It includes any bias, and pairs of a row with itself.

Whole blocks and the remainder (see the parameter ``remainder`` of rules) are independent and
unbiased. If their mean squared errors are ``V`` and ``U``, the best share of the remainder is
:math:`V / (V + U)`, with the error :math:`V U / (V + U)`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from quadfeat.auto.sample import Sample
from quadfeat.io import checks, register
from quadfeat.rules import Rule

# The relative error of features that are all zero. Features with a larger one are useless.
ERROR_OF_ZEROS = 1.0


@register
class Candidate(NamedTuple):
    """A candidate rule and its expected error.

    Attributes
    ----------
    rule : Rule
        The rule.
    error : float
        Expected error relative to the kernel, in the Frobenius norm.
    uncertainty : float
        Standard error of ``error``, given the rows. It is 0 for a closed form, which is accurate to
        a few percent.
    method : str
        How the error was estimated: ``"closed form"`` or ``"trials"``.
    """

    rule: Rule
    error: float
    uncertainty: float
    method: str

    def check_consistency(self) -> None:
        """Raise an error if an attribute is not valid; see ``quadfeat.io.register``."""
        checks.check_kind(self.rule, Rule, "rule of an item of candidates_")


def best_remainder(blocks: float, rest: float, n_blocks: int, n_rest: int) -> tuple[float, float]:
    """Return the best weight of the remainder relative to blocks, at most 1, and its error.

    ``blocks`` and ``rest`` are the mean squared errors of the blocks and of the remainder alone.
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
