"""Quadrature-based random features: kernel methods at the price of linear ones."""

from importlib.metadata import version

from quadfeat import bounds, kernels, rotations, rules
from quadfeat._core import show_config
from quadfeat.features import QuadratureFeatures, transform_into

__all__ = [
    "QuadratureFeatures",
    "bounds",
    "kernels",
    "rotations",
    "rules",
    "show_config",
    "transform_into",
]

__version__ = version("quadfeat")
