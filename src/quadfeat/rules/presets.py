"""Look up rules by their names in the literature."""

from __future__ import annotations

from collections.abc import Callable

from quadfeat._utils import validation as check
from quadfeat.rotations import Butterfly, Haar, Hadamard
from quadfeat.rules.base import Rule
from quadfeat.rules.fastfood import Fastfood
from quadfeat.rules.gauss_hermite import GaussHermite
from quadfeat.rules.monte_carlo import MonteCarlo
from quadfeat.rules.quasi import QuasiMonteCarlo
from quadfeat.rules.spherical_radial import SphericalRadial


def _rom() -> Rule:
    return SphericalRadial(
        directions="orthoplex", tilt=0.0, radii="constant", rotation=Hadamard(rounds=3)
    )


def _sr33() -> Rule:
    return SphericalRadial(rotation=Butterfly(rounds=3))


# Names from the literature. SORF and ROM use the same matrix.
NAMED: dict[str, Callable[[], Rule]] = {
    "sr33": _sr33,
    "rff": MonteCarlo,
    "orf": lambda: SphericalRadial(directions="orthoplex", tilt=0.0, rotation=Haar()),
    "rom": _rom,
    "sorf": _rom,
    "halton": lambda: QuasiMonteCarlo(sequence="halton"),
    "sobol": lambda: QuasiMonteCarlo(sequence="sobol"),
    "gauss-hermite": GaussHermite,
    "fastfood": Fastfood,
}


def as_rule(rule: Rule | str) -> Rule:
    """Return the rule with a given name; return a rule object unchanged.

    ``"auto"`` is not a valid name here, since its meaning depends on the data.

    Examples
    --------
    >>> as_rule("rff")
    MonteCarlo()
    """
    return check.object_or_name(rule, "rule", Rule, NAMED)  # type: ignore[type-abstract]
