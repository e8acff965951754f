"""The methods of the study: the paper's, and those that quadfeat adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.kernel_approximation import RBFSampler

from quadfeat import QuadratureFeatures
from quadfeat.apps.reporting.colors import Color
from quadfeat.kernels import ArcCosine, Gaussian, Kernel
from quadfeat.rotations import Butterfly, Haar, Hadamard
from quadfeat.rules import (
    GaussHermite,
    MonteCarlo,
    QuasiMonteCarlo,
    Rule,
    SphericalRadial,
    as_rule,
)

# As in the paper, sequences and grids do not run on data this wide. SciPy's Halton sequence alone
# would take gigabytes.
TOO_WIDE = 3072

Estimate = Literal["map", "kernel"]


@dataclass(frozen=True)
class Contestant:
    """A method, or a reference for comparison: a row or a line of a figure.

    Attributes
    ----------
    name : str
        Name in files and on the command line.
    title : str
        Full name, for readers.
    explanation : str
        One sentence for readers who do not know the method.
    color : Color
        A color of its own on light and on dark pages.
    marker : str
        A marker of its own, for readers who cannot tell colors apart.
    """

    name: str
    title: str
    explanation: str
    color: Color
    marker: str


@dataclass(frozen=True)
class Method(Contestant):
    """A way to approximate a kernel.

    Attributes
    ----------
    alias : str
        Label in the paper, or in earlier versions of this study. The command line accepts it, and
        seeds depend on it, so that results do not change with ``name``.
    rule : callable or None
        Makes the rule for a dimension. None lets ``fit`` choose one: ``rule="auto"``.
    code : str
        The argument of ``QuadratureFeatures`` that selects this method.
    estimate : {"map", "kernel"}
        What is measured: inner products of features, or the estimate of the kernel, which may
        include a constant that no feature represents.
    """

    alias: str = ""
    rule: Callable[[int], Rule] | None = None
    code: str = ""
    estimate: Estimate = "map"
    in_paper: bool = False  # under its alias
    origin_column: bool = False
    homogeneous_only: bool = False
    narrow_only: bool = False
    decomposes: bool = False  # factors a dense matrix for each block, which is slow
    fast: bool = False  # applies a matrix in d log d

    @property
    def chooses(self) -> bool:
        """Whether ``fit`` chooses the rule."""
        return self.rule is None

    @property
    def growth(self) -> tuple[str, str]:
        """Claimed growth of time and memory with d, for O(d) features of one row."""
        if self.chooses:
            return "depends on the rule", "depends on the rule"
        return ("d log d", "d") if self.fast else ("d²", "d²")

    def why_not(self, kernel: str, d: int) -> str | None:
        """Return why this method cannot run here, or None if it can."""
        if self.homogeneous_only and kernel == "gaussian":
            return "works for arc-cosine kernels only"
        if self.narrow_only and d >= TOO_WIDE:
            return f"not run with {TOO_WIDE} columns or more, as in the paper: needs gigabytes"
        return None

    def features(self, kernel: str, d: int, n: int, seed: Any) -> QuadratureFeatures:
        """Return an unfitted map with the paper's budget of 2 n (d + 1) nodes."""
        # A node of the Gaussian kernel gives a cosine and a sine. A node of an arc-cosine kernel
        # gives one column; if the rule reflects, n (d + 1) nodes and their reflections count.
        columns = (4 if kernel == "gaussian" else 2) * n * (d + 1)
        if self.origin_column and kernel != "arccos1":  # its nonlinearity is 0 at the origin
            columns += 1
        return QuadratureFeatures(
            make_kernel(kernel, d),
            rule="auto" if self.rule is None else self.rule(d),
            n_components=columns,
            random_state=seed,
        )


def make_kernel(name: str, d: int) -> Kernel:
    """Return a kernel of the study. As in the paper, the Gaussian kernel has ``gamma = 1/d``."""
    return Gaussian(1 / d) if name == "gaussian" else ArcCosine(int(name[-1]))


KERNELS = {"gaussian": "Gaussian", "arccos0": "arc-cosine 0", "arccos1": "arc-cosine 1"}

PAPER_RULE = "paper"  # its agreement with the published errors is the point of the study
PAPER_MAP = "sr33"
PLAIN = "rff"
AUTO = "auto"

METHODS = {
    method.name: method
    for method in (
        Method(
            AUTO,
            "Automatic rule",
            "The default of quadfeat: the rule with the smallest expected error on a sample of the "
            "rows.",
            Color("#0b5c8f", "#7cc4f0"),
            "o",
            alias="auto",
            code='rule="auto"',
        ),
        Method(
            PAPER_RULE,
            "Paper's rule",
            "SR(3,3): simplex directions under butterfly rotations, and radii that make the rule "
            "exact to degree 3. The estimate includes a constant, which may be negative.",
            Color("#b83a00", "#ff9a5c"),
            "D",
            alias="B",
            rule=lambda d: SphericalRadial(origin="signed", rotation=Butterfly(rounds=3)),
            code='rule=SphericalRadial(origin="signed", rotation=Butterfly(rounds=3))',
            estimate="kernel",
            in_paper=True,
            fast=True,
        ),
        Method(
            PAPER_MAP,
            "Paper's rule as features",
            "SR(3,3) as a feature map: radii are redrawn until the constant is not negative, so "
            "that it becomes a feature.",
            Color("#a3004f", "#ff94c2"),
            "d",
            alias="B-map",
            rule=lambda d: as_rule("sr33"),
            code='rule="sr33"',
            origin_column=True,
            fast=True,
        ),
        Method(
            "sr33-haar",
            "Paper's rule with Haar rotations",
            "SR(3,3) with uniformly distributed dense rotations in place of butterfly rotations.",
            Color("#7b1fa2", "#dca6f2"),
            "*",
            alias="H",
            rule=lambda d: SphericalRadial(origin="signed", rotation=Haar()),
            code='rule=SphericalRadial(origin="signed", rotation=Haar())',
            estimate="kernel",
            in_paper=True,
            decomposes=True,
        ),
        Method(
            "sr33-stratified",
            "Paper's rule with stratified radii",
            "SR(3,3) as a feature map, with one radius from each of many equally likely slices.",
            Color("#4338ca", "#b7b2ff"),
            "X",
            alias="stratified",
            rule=lambda d: SphericalRadial(radii="stratified"),
            code='rule=SphericalRadial(radii="stratified")',
            origin_column=True,
            fast=True,
        ),
        Method(
            "half-tilt",
            "Half-tilted rule",
            "Stratified radii, halfway between those of random Fourier features and of the paper's "
            "rule.",
            Color("#00695c", "#5fd6c6"),
            "h",
            alias="tilted",
            rule=lambda d: SphericalRadial(radii="stratified", tilt=0.5),
            code='rule=SphericalRadial(radii="stratified", tilt=0.5)',
            origin_column=True,
            fast=True,
        ),
        Method(
            "integrated-radius",
            "Integrated radius",
            "For arc-cosine kernels, the radius integrates out in closed form, so only the "
            "directions are random.",
            Color("#4d5d00", "#c8d96b"),
            "p",
            alias="exact",
            rule=lambda d: SphericalRadial(tilt="exact"),
            code='rule=SphericalRadial(tilt="exact")',
            homogeneous_only=True,
            fast=True,
        ),
        Method(
            "rom",
            "Random orthogonal matrices",
            "Orthogonal directions from Hadamard matrices with random signs, all of one length.",
            Color("#2e7d32", "#8bdc8f"),
            "^",
            alias="ROM",
            rule=lambda d: SphericalRadial(
                directions="orthoplex",
                tilt=0.0,
                radii="constant",
                rotation=Hadamard(rounds=3),
                reflect=False,
            ),
            code='rule="rom"',
            in_paper=True,
            fast=True,
        ),
        Method(
            "orf",
            "Orthogonal random features",
            "Directions that are orthogonal within each block, with independent random lengths.",
            Color("#7a5c00", "#e6c34d"),
            "s",
            alias="Gort",
            rule=lambda d: SphericalRadial(
                directions="orthoplex", tilt=0.0, rotation=Haar(), reflect=False
            ),
            code='rule="orf"',
            in_paper=True,
            decomposes=True,
        ),
        Method(
            "halton",
            "Quasi-Monte Carlo (Halton)",
            "Points of a scrambled Halton sequence, which cover the space more evenly than "
            "independent draws.",
            Color("#9a2a2a", "#ff9f98"),
            "v",
            alias="QMC",
            rule=lambda d: QuasiMonteCarlo(sequence="halton", reflect=False),
            code='rule="halton"',
            in_paper=True,
            narrow_only=True,
        ),
        Method(
            "gauss-hermite",
            "Gauss-Hermite grid",
            "Points of a Gauss-Hermite product grid, drawn in proportion to their weights.",
            Color("#6d4c41", "#d3b3a5"),
            "P",
            alias="GQ",
            rule=lambda d: GaussHermite(reflect=False),
            code='rule="gauss-hermite"',
            in_paper=True,
            narrow_only=True,
        ),
        Method(
            PLAIN,
            "Random Fourier features",
            "Plain Monte Carlo: independent Gaussian frequencies.",
            Color("#5f6368", "#b4b8bd"),
            "x",
            alias="G",
            rule=lambda d: MonteCarlo(reflect=False),
            code='rule="rff"',
            in_paper=True,
        ),
    )
}

ALIASES = {method.alias: name for name, method in METHODS.items()}

RBF_SAMPLER = "rbf-sampler"
KERNEL_SVM = "kernel-svm"

REFERENCES = {
    reference.name: reference
    for reference in (
        Contestant(
            KERNEL_SVM,
            "Kernel SVM",
            "A support vector machine with the kernel itself, without approximation, trained on at "
            "most a few thousand rows.",
            Color("#1a1a1a", "#e8e8e8"),
            "|",
        ),
        Contestant(
            RBF_SAMPLER,
            "RBFSampler (scikit-learn)",
            "Random Fourier features with one cosine and a random phase per frequency.",
            Color("#000000", "#ffffff"),
            "1",
        ),
    )
}

CONTESTANTS: dict[str, Contestant] = {**METHODS, **REFERENCES}


def walltime_map(method: str, d: int, seed: int) -> Any:
    """Return an unfitted map of about 4 (d + 1) features for the Gaussian kernel."""
    if method == RBF_SAMPLER:
        return RBFSampler(gamma=1 / d, n_components=4 * (d + 1), random_state=seed)
    return METHODS[method].features("gaussian", d, 1, seed)
