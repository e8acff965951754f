"""Quadrature-based random features: kernel methods at the price of linear ones."""

from importlib.metadata import version

from quadfeat import _aliases, bounds, kernels, rotations, rules
from quadfeat.data.blocks import ParquetBlocks
from quadfeat.engine.core import show_config
from quadfeat.io.persistence import load, save
from quadfeat.maps.kernel_error import KernelError
from quadfeat.models.features import QuadratureFeatures, transform_into
from quadfeat.models.growth import grow
from quadfeat.models.ridge import QuadratureRidge, QuadratureRidgeClassifier
from quadfeat.solvers.posterior import AlphaPath

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

_aliases.install()
