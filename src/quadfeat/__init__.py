"""Quadrature-based random features: kernel methods at the price of linear ones."""

from importlib.metadata import version

from quadfeat import bounds, kernels, rotations, rules
from quadfeat._core import show_config
from quadfeat.accuracy import KernelError
from quadfeat.blocks import ParquetBlocks
from quadfeat.features import QuadratureFeatures, transform_into
from quadfeat.growth import grow
from quadfeat.persistence import load, save
from quadfeat.posterior import AlphaPath
from quadfeat.ridge import QuadratureRidge, QuadratureRidgeClassifier

__all__ = [
    "AlphaPath",
    "KernelError",
    "ParquetBlocks",
    "QuadratureFeatures",
    "QuadratureRidge",
    "QuadratureRidgeClassifier",
    "bounds",
    "grow",
    "kernels",
    "load",
    "rotations",
    "rules",
    "save",
    "show_config",
    "transform_into",
]

__version__ = version("quadfeat")
