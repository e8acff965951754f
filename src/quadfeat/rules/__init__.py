r"""Place the nodes: quadrature rules for ``k(x, y) = c E_w[phi(w.x) . phi(w.y)]``.

A rule is a small scikit-learn object. ``rule.draw(d, n, kernel, rng)`` draws the nodes of a map
with ``n`` columns. The names from the literature are presets of these classes:

=================== ============================================================================
name                rule
=================== ============================================================================
``sr33``            ``SphericalRadial(rotation=Butterfly(rounds=3))``
``rff``             ``MonteCarlo()``
``orf``             ``SphericalRadial(directions="orthoplex", tilt=0.0, rotation=Haar())``
``rom``, ``sorf``   ``SphericalRadial(directions="orthoplex", tilt=0.0, radii="constant",
                    rotation=Hadamard())``
``halton``          ``QuasiMonteCarlo(sequence="halton")``
``sobol``           ``QuasiMonteCarlo(sequence="sobol")``
``gauss-hermite``   ``GaussHermite()``
``fastfood``        ``Fastfood()``
=================== ============================================================================
"""

from quadfeat.rules.base import BlockDescription, Draw, Group, Rule
from quadfeat.rules.fastfood import Fastfood, FastfoodMatrices
from quadfeat.rules.gauss_hermite import GaussHermite
from quadfeat.rules.monte_carlo import MonteCarlo
from quadfeat.rules.nodes import DenseDirections, Directions, Layout, Nodes, TurnedVertices
from quadfeat.rules.presets import as_rule
from quadfeat.rules.quasi import QuasiMonteCarlo
from quadfeat.rules.radial import (
    Exact,
    Fixed,
    RadialProblem,
    RadialRule,
    Tilted,
    as_radial_rule,
)
from quadfeat.rules.spherical_radial import SphericalRadial

__all__ = [
    "BlockDescription",
    "DenseDirections",
    "Directions",
    "Draw",
    "Exact",
    "Fastfood",
    "FastfoodMatrices",
    "Fixed",
    "GaussHermite",
    "Group",
    "Layout",
    "MonteCarlo",
    "Nodes",
    "QuasiMonteCarlo",
    "RadialProblem",
    "RadialRule",
    "Rule",
    "SphericalRadial",
    "Tilted",
    "TurnedVertices",
    "as_radial_rule",
    "as_rule",
]
