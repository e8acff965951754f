"""Draw low-discrepancy nodes."""

from __future__ import annotations

import numpy as np
from scipy.stats import qmc
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.random import child
from quadfeat._utils.validation import Float64Array
from quadfeat.engine import reference as reference
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.rules.base import Draw, Rule, equally_weighted
from quadfeat.rules.nodes import Layout


@register
class QuasiMonteCarlo(Rule):
    """Scrambled low-discrepancy points, mapped by the inverse distribution function.

    The rule is unbiased for every kernel, because each scrambled point is uniform. It is best in
    low dimensions with many nodes. Kernels that are scale mixtures (Matern, rational quadratic)
    need one coordinate more than the input has.

    With ``matched=True``, the nodes are multiplied by a symmetric matrix that gives them the second
    moments of the kernel's frequencies. The rule is then exact for polynomials of degree 3, like
    SR(3,3), and keeps its low discrepancy. Its bias vanishes as the number of nodes grows.

    Parameters
    ----------
    sequence : {"halton", "sobol"}, default="halton"
        Sobol points work best if the number of nodes is a power of two, and exist for up to 21201
        coordinates. The memory for Halton points grows faster than ``d^2`` (gigabytes for a few
        thousand columns).
    matched : bool, default=False
        Make the second moments exact. This needs at least as many complete nodes as the input has
        columns, and a kernel whose frequencies have finite second moments (neither Laplacian nor
        Matern with ``nu <= 1``).
    reflect : bool, default=True
        Use each node together with its reflection if ``f(w) != f(-w)``; see :class:`MonteCarlo`.
    remainder : float from 0 to 1, default=1.0
        Weight of a last node with a single column, relative to the others; see
        :class:`SphericalRadial`.

    Examples
    --------
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.rules import QuasiMonteCarlo
    >>> rule = QuasiMonteCarlo(sequence="sobol")
    >>> X = [[0.0, 1.0], [1.0, 0.0]]
    >>> QuadratureFeatures(rule=rule, n_components=64).fit_transform(X).shape
    (2, 64)
    """

    grows_from_start = True

    def __init__(
        self,
        *,
        sequence: str = "halton",
        matched: bool = False,
        reflect: bool = True,
        remainder: float = 1.0,
    ) -> None:
        self.sequence = sequence
        self.matched = matched
        self.reflect = reflect
        self.remainder = remainder

    def draw_nodes(self, d: int, layout: Layout, kernel: Kernel, rng: np.random.Generator) -> Draw:
        check.check_choice(self.sequence, "sequence", ("halton", "sobol"))
        matched = check.check_flag(self.matched, "matched")
        spectrum = kernel.spectrum
        coordinates = spectrum.n_uniforms(d)
        # SciPy spawns from rng without using its state, but nodes must depend on the state.
        scrambling = child(rng)
        if self.sequence == "halton":
            points = qmc.Halton(coordinates, scramble=True, rng=scrambling).random(layout.n_nodes)
        else:
            if coordinates > qmc.Sobol.MAXDIM:
                raise self.unsupported(
                    kernel,
                    f"which needs {coordinates} coordinates for this X, more than the "
                    f"{qmc.Sobol.MAXDIM} of Sobol points: use MonteCarlo() (rule='rff').",
                )
            # Draw a power of two and cut, because SciPy warns about any other number of points.
            sobol = qmc.Sobol(coordinates, scramble=True, rng=scrambling)
            points = sobol.random_base2((layout.n_nodes - 1).bit_length())[: layout.n_nodes]
        frequencies = spectrum.frequencies(points, d)
        groups = self.groups(layout)
        if matched:
            frequencies = frequencies @ self._stretch(frequencies[groups[0].nodes], kernel)
        return equally_weighted(frequencies, groups)

    def for_remainder(self) -> QuasiMonteCarlo:
        return clone(self).set_params(matched=False)  # too few nodes to match moments

    def obstacle_to_growth(self) -> str | None:
        if self.matched:
            return "matched nodes depend on the number of nodes; use matched=False."
        return None

    def _stretch(self, frequencies: Float64Array, kernel: Kernel) -> Float64Array:
        """Return the matrix that gives nodes the second moments of the spectrum."""
        n_nodes, d = frequencies.shape
        wanted = self.isotropic_spectrum(kernel).moment(d, 1.0) / d
        if not np.isfinite(wanted):
            raise self.unsupported(
                kernel, "whose frequencies have infinite second moments: use matched=False."
            )
        if n_nodes < d:
            raise self.unsupported(
                kernel,
                f"since {n_nodes} complete nodes are too few to match the second moments of {d} "
                "columns: use matched=False or increase n_components.",
            )
        moments, vectors = np.linalg.eigh(frequencies.T @ frequencies / n_nodes)
        if moments[0] <= d * np.finfo(np.float64).eps * moments[-1]:
            raise self.unsupported(
                kernel,
                f"since its {n_nodes} nodes span fewer than {d} dimensions: use matched=False or "
                "increase n_components.",
            )
        return np.asarray((vectors * np.sqrt(wanted / moments)) @ vectors.T)
