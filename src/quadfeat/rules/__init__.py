"""Where the nodes go: quadrature rules."""

from quadfeat.rules.base import (
    MOST_REDRAWS,
    Draw,
    Fastfood,
    FastfoodMatrices,
    GaussHermite,
    MonteCarlo,
    QuasiMonteCarlo,
    Rule,
    SphericalRadial,
)

__all__ = [
    "MOST_REDRAWS",
    "Draw",
    "Fastfood",
    "FastfoodMatrices",
    "GaussHermite",
    "MonteCarlo",
    "QuasiMonteCarlo",
    "Rule",
    "SphericalRadial",
]
