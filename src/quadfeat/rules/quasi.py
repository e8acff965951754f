"""Low-discrepancy nodes."""

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
    """Scrambled low-discrepancy points through the inverse distribution function.

    Unbiased, for every kernel, because each scrambled point is uniform. Best in low dimension with
    many nodes. Kernels that are scale mixtures (Matern, rational quadratic) take one coordinate
    more than the input has.

    With ``matched=True`` the nodes are stretched by a symmetric matrix until their second moments
    are those of the kernel's frequencies. The rule is then exact on polynomials of degree 3, as
    SR(3,3) is, and keeps the low discrepancy; its bias vanishes as nodes become many.

    Parameters
    ----------
    sequence : {"halton", "sobol"}, default="halton"
        Sobol points are at their best when the number of nodes is a power of two, and exist for up
        to 21201 coordinates. Halton points need memory that grows faster than ``d^2`` (gigabytes
        for some thousands of columns).
    matched : bool, default=False
        Make the second moments exact. Needs at least as many whole nodes as the input has columns,
        and a kernel whose frequencies have second moments (not Laplacian, nor Matern up to
        ``nu = 1``).
    reflect : bool, default=True
        Use each node with its reflection where ``f(w) != f(-w)``; see :class:`MonteCarlo`.
    remainder : float from 0 to 1, default=1.0
        Weight of a column that stands alone, relative to the others; see
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
        # SciPy would spawn a generator from rng whatever its state, on which nodes have to depend.
        scrambling = child(rng)
        if self.sequence == "halton":
            points = qmc.Halton(coordinates, scramble=True, rng=scrambling).random(layout.n_nodes)
        else:
            if coordinates > qmc.Sobol.MAXDIM:
                raise self.refusal(
                    kernel,
                    f"which takes {coordinates} coordinates on this data, since there are Sobol "
                    f"points of {qmc.Sobol.MAXDIM} at most: use MonteCarlo() (rule='rff').",
                )
            # Drawn to the next power of two and cut: SciPy warns about any other number.
            sobol = qmc.Sobol(coordinates, scramble=True, rng=scrambling)
            points = sobol.random_base2((layout.n_nodes - 1).bit_length())[: layout.n_nodes]
        frequencies = spectrum.frequencies(points, d)
        groups = self.groups(layout)
        if matched:
            frequencies = frequencies @ self._stretch(frequencies[groups[0].nodes], kernel)
        return equally_weighted(frequencies, groups)

    def for_remainder(self) -> QuasiMonteCarlo:
        return clone(self).set_params(matched=False)  # there are too few nodes to match

    def obstacle_to_growth(self) -> str | None:
        if self.matched:
            return "matched nodes all change with their number; use matched=False."
        return None

    def _stretch(self, frequencies: Float64Array, kernel: Kernel) -> Float64Array:
        """Return the matrix after which nodes have the second moments of the spectrum."""
        n_nodes, d = frequencies.shape
        wanted = self.isotropic_spectrum(kernel).moment(d, 1.0) / d
        if not np.isfinite(wanted):
            raise self.refusal(
                kernel, "whose frequencies have no second moments: use matched=False."
            )
        if n_nodes < d:
            raise self.refusal(
                kernel,
                f"since {n_nodes} whole nodes cannot have the second moments of {d} columns: use "
                "matched=False or more components.",
            )
        moments, vectors = np.linalg.eigh(frequencies.T @ frequencies / n_nodes)
        if moments[0] <= d * np.finfo(np.float64).eps * moments[-1]:
            raise self.refusal(
                kernel,
                f"since its {n_nodes} nodes lie in fewer than {d} dimensions: use matched=False or "
                "more components.",
            )
        return np.asarray((vectors * np.sqrt(wanted / moments)) @ vectors.T)
