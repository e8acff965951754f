"""Candidate kernels of a search, and the record of its results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.kernels import (
    ArcCosine,
    Gaussian,
    Kernel,
    Matern,
    Metric,
    RationalQuadratic,
    SeparationKernel,
)
from quadfeat.learning.columns import Columns, with_factors

# Families of kernels whose lengthscales are learned, by name. The first family is learned from
# scratch; the others start from its lengthscales.
FAMILIES: dict[str, SeparationKernel] = {
    "Matern 3/2": Matern(1.5),
    "Gaussian": Gaussian(),
    "Matern 5/2": Matern(2.5),
    "rational quadratic": RationalQuadratic(),
    "Matern 1/2": Matern(0.5),
}


@register
class KernelCandidate(NamedTuple):
    """A kernel that was tried, with its leave-one-out loss.

    Attributes
    ----------
    name : str
        The name, such as ``"Matern 3/2, a lengthscale for each column"``.
    kernel : Kernel
        The kernel, in the original units of the rows.
    alpha : float
        The penalty with the smallest loss.
    loss : float
        The leave-one-out loss. For regression, this is the squared error divided by the variance of
        the targets, which is 1 minus R2. For classification, it is the log loss.
    standard_error : float
        The standard error of ``loss`` over rows.
    n_rows : int
        Number of rows that were left out in turn.
    n_columns : int
        Number of columns of the map; the number of neighbors for models without a map.
    seconds : float
        Time to learn and validate the kernel, in seconds.
    """

    name: str
    kernel: Kernel
    alpha: float
    loss: float
    standard_error: float
    n_rows: int
    n_columns: int
    seconds: float

    def check_consistency(self) -> None:
        """Raise an error if this candidate is not valid; see ``quadfeat.io.register``."""
        checks.check_kind(self.name, str, "name of an item of candidates_")
        checks.check_kind(self.kernel, Kernel, "kernel of an item of candidates_")
        for value in (self.alpha, self.loss, self.standard_error, self.seconds):
            checks.check_kind(value, (float, int), "number of an item of candidates_")


@register
@dataclass(frozen=True)
class Choice:
    """The result of a kernel search, and the reason for it.

    Attributes
    ----------
    why : str
        The reason, in a few sentences.
    candidates : tuple of KernelCandidate
        The chosen kernel, then the kernels of the last heat, then those of the first heat, each
        from best to worst; empty if no search was run.
    """

    why: str
    candidates: tuple[KernelCandidate, ...] = ()

    def check_consistency(self) -> None:
        """Raise an error if a part is not valid; see ``quadfeat.io.register``."""
        checks.check_kind(self.why, str, "why of _choice")
        checks.check_kind(self.candidates, tuple, "candidates of _choice")
        for one in self.candidates:
            checks.check_kind(one, KernelCandidate, "item of candidates_")


@dataclass(frozen=True)
class Proposal:
    """A kernel to try.

    Attributes
    ----------
    base_name : str
        The name without the multiple.
    kernel : Kernel
        The kernel, for standardized rows.
    columns : Columns
        The standardization of the rows.
    family : str
        The name of its family; empty if it has none.
    kind : {"default", "compressed", "isotropic", "ard", "early", "full", "arc-cosine"}
    multiple : float
        How many times narrower the kernel is than the one that was learned.
    seconds : float
        Time to learn the kernel, in seconds.
    """

    base_name: str
    kernel: Kernel
    columns: Columns
    family: str
    kind: str
    multiple: float = 1.0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The name, with the multiple if it is not 1."""
        if np.isclose(self.multiple, 1.0):
            return self.base_name
        word = "narrower" if self.multiple > 1 else "wider"
        times = max(self.multiple, 1.0 / self.multiple)
        return f"{self.base_name}, {times:.2g} times {word}"

    def narrower(self, factor: float, d: int) -> Proposal:
        """Return a proposal whose kernel is narrower by a factor, or wider if it is below 1."""
        kernel = scaled(self.kernel, factor, d)
        return replace(self, kernel=kernel, multiple=self.multiple * factor, seconds=0.0)


def short_score(loss: float, is_regression: bool) -> str:
    """Return a loss as users know it: R2 for regression, the log loss for classification.

    Examples
    --------
    >>> short_score(0.04228, True), short_score(0.25, False)
    ('an R2 of 0.9577', 'a log loss of 0.2500')
    """
    return f"an R2 of {1.0 - loss:.4f}" if is_regression else f"a log loss of {loss:.4f}"


def scaled(kernel: Kernel, factor: float, d: int) -> Kernel:
    """Return a kernel whose inputs are multiplied by an additional factor."""
    inner: Any = kernel.inner
    projection = kernel.projection
    if projection is not None:
        return Metric(clone(inner), projection.matrix * factor)
    return with_factors(inner, inner.input_factor(d) * factor)


def arc_cosine(factors: Float64Array) -> ArcCosine:
    """Return an arc-cosine kernel of order 1 that multiplies its inputs by factors."""
    return ArcCosine(1, length_scale=1.0 / factors)
