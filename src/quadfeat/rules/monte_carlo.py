"""Draw independent random nodes."""

from __future__ import annotations

import numpy as np

from quadfeat.engine import reference as reference
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.rules.base import Draw, Rule, equally_weighted
from quadfeat.rules.nodes import Layout


@register
class MonteCarlo(Rule):
    """Independent random nodes: random Fourier features (RFF), the rule SR(1,1).

    The rule is unbiased for every kernel.

    Parameters
    ----------
    reflect : bool, default=True
        Use each node together with its reflection if ``f(w) != f(-w)``, as SR(1,1) does, with two
        columns per node. For arc-cosine kernels this is never worse for the same number of columns,
        since at most one of the two is nonzero. Published baselines do not reflect nodes. It makes
        no difference for stationary kernels.
    remainder : float from 0 to 1, default=1.0
        Weight of a last node with a single column, relative to the others; see
        :class:`SphericalRadial`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import MonteCarlo
    >>> X = [[0.0, 1.0], [1.0, 0.0]]
    >>> QuadratureFeatures(rule=MonteCarlo(), n_components=64).fit_transform(X).shape
    (2, 64)
    """

    def __init__(self, *, reflect: bool = True, remainder: float = 1.0) -> None:
        self.reflect = reflect
        self.remainder = remainder

    def draw_nodes(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        spectrum = kernel.spectrum
        uniforms = rng.random((layout.n_nodes, spectrum.n_uniforms(d)))
        return equally_weighted(spectrum.frequencies(uniforms, d), self.groups(layout))
