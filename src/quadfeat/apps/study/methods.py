"""The methods of the study: the paper's, by its letters, and ours beyond it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.kernel_approximation import RBFSampler

from quadfeat import QuadratureFeatures
from quadfeat.kernels import ArcCosine, Gaussian, Kernel
from quadfeat.rotations import Haar, Hadamard
from quadfeat.rules import GaussHermite, MonteCarlo, QuasiMonteCarlo, Rule, SphericalRadial

# From this width on, sequences and grids are not drawn, as in the paper: SciPy's Halton sequence
# alone takes gigabytes there.
TOO_WIDE = 3072

Estimate = Literal["map", "kernel"]


@dataclass(frozen=True)
class Method:
    """A way to approximate a kernel.

    Attributes
    ----------
    name : str
        The paper's letter, or a word of ours.
    rule : callable
        Makes the rule for a width.
    estimate : {"map", "kernel"}
        What is measured: inner products of features, or the rule's own estimate of the kernel,
        which may have a constant that is no feature.
    colour, marker, dashes : str
        How it is drawn. Colours are Okabe and Ito's, which colour-blind readers can tell
        apart, with a darker yellow for white paper; markers differ too.
    """

    name: str
    title: str
    rule: Callable[[int], Rule]
    colour: str
    marker: str
    estimate: Estimate = "map"
    dashes: str = "-"
    in_paper: bool = False
    origin_column: bool = False
    homogeneous_only: bool = False
    narrow_only: bool = False
    decomposes: bool = False  # a dense matrix for each block: what drawing the map costs most
    time: str = "d^2"  # claimed, for O(d) features of one row
    space: str = "d^2"

    def refusal(self, kernel: str, d: int) -> str | None:
        """Return why this method cannot run here, if so."""
        if self.homogeneous_only and kernel == "gaussian":
            return "needs a homogeneous nonlinearity, which the Gaussian kernel has not"
        if self.narrow_only and d >= TOO_WIDE:
            return f"not run for d >= {TOO_WIDE}, as in the paper: it takes gigabytes there"
        return None

    def features(self, kernel: str, d: int, n: int, seed: Any) -> QuadratureFeatures:
        """Return an unfitted map with the paper's budget of 2 n (d + 1) nodes."""
        gaussian = kernel == "gaussian"
        # A node of the Gaussian kernel is a cosine and a sine. An arc-cosine node is one column;
        # where the rule reflects, n (d + 1) nodes and their reflections are the budget.
        columns = (4 if gaussian else 2) * n * (d + 1)
        if self.origin_column and kernel != "arccos1":  # whose nonlinearity is 0 at the origin
            columns += 1
        return QuadratureFeatures(
            make_kernel(kernel, d), rule=self.rule(d), n_components=columns, random_state=seed
        )


def make_kernel(name: str, d: int) -> Kernel:
    """Return a kernel of the study: the paper's Gaussian has ``gamma = 1/d``."""
    return Gaussian(1 / d) if name == "gaussian" else ArcCosine(int(name[-1]))


KERNELS = {"gaussian": "Gaussian", "arccos0": "arc-cosine 0", "arccos1": "arc-cosine 1"}


METHODS = {
    method.name: method
    for method in (
        Method(
            "G",
            "random Fourier features",
            lambda d: MonteCarlo(reflect=False),
            "#999999",
            "o",
            in_paper=True,
        ),
        Method(
            "Gort",
            "orthogonal random features",
            lambda d: SphericalRadial(
                directions="orthoplex", tilt=0.0, rotation=Haar(), reflect=False
            ),
            "#E69F00",
            "s",
            in_paper=True,
            decomposes=True,
        ),
        Method(
            "ROM",
            "random orthogonal matrices",
            lambda d: SphericalRadial(
                directions="orthoplex",
                tilt=0.0,
                radii="constant",
                rotation=Hadamard(rounds=3),
                reflect=False,
            ),
            "#56B4E9",
            "^",
            in_paper=True,
            time="d log d",
            space="d",
        ),
        Method(
            "QMC",
            "quasi-Monte Carlo (scrambled Halton)",
            lambda d: QuasiMonteCarlo(sequence="halton", reflect=False),
            "#009E73",
            "v",
            in_paper=True,
            narrow_only=True,
        ),
        Method(
            "GQ",
            "Gaussian quadrature grid",
            lambda d: GaussHermite(reflect=False),
            "#B79F00",
            "D",
            in_paper=True,
            narrow_only=True,
        ),
        Method(
            "B",
            "the paper's: SR(3,3), butterfly rotations, signed origin",
            lambda d: SphericalRadial(origin="signed"),
            "#D55E00",
            "P",
            estimate="kernel",
            in_paper=True,
            time="d log d",
            space="d",
        ),
        Method(
            "B-map",
            "SR(3,3) as an explicit map: radii redrawn until the origin's weight is not negative",
            lambda d: SphericalRadial(),
            "#D55E00",
            "x",
            dashes="--",
            origin_column=True,
            time="d log d",
            space="d",
        ),
        Method(
            "H",
            "SR(3,3), uniformly distributed rotations",
            lambda d: SphericalRadial(origin="signed", rotation=Haar()),
            "#CC79A7",
            "*",
            estimate="kernel",
            decomposes=True,
        ),
        Method(
            "stratified",
            "SR(3,3) map, stratified radii",
            lambda d: SphericalRadial(radii="stratified"),
            "#0072B2",
            "X",
            origin_column=True,
            time="d log d",
            space="d",
        ),
        Method(
            "tilted",
            "turned simplex map, tilt 1/2, stratified radii",
            lambda d: SphericalRadial(radii="stratified", tilt=0.5),
            "#0072B2",
            "h",
            dashes="--",
            origin_column=True,
            time="d log d",
            space="d",
        ),
        Method(
            "exact",
            "turned simplex map, exact radius",
            lambda d: SphericalRadial(tilt="exact"),
            "#000000",
            "p",
            homogeneous_only=True,
            time="d log d",
            space="d",
        ),
    )
}

RBF_SAMPLER = "RBFSampler"


def walltime_map(method: str, d: int, seed: int) -> Any:
    """Return an unfitted map of about 4 (d + 1) features for the Gaussian kernel."""
    if method == RBF_SAMPLER:
        return RBFSampler(gamma=1 / d, n_components=4 * (d + 1), random_state=seed)
    return METHODS[method].features("gaussian", d, 1, seed)
