"""Quadrature-based random features: kernel methods at the price of linear ones."""

from quadfeat import _aliases, bounds, kernels, rotations, rules
from quadfeat._utils.version import __version__ as __version__
from quadfeat.data import ParquetBlocks
from quadfeat.engine.core import show_config
from quadfeat.io import load, save
from quadfeat.maps import KernelError
from quadfeat.models import (
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
    grow,
    transform_into,
)
from quadfeat.solvers import AlphaPath

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

_aliases.install()
