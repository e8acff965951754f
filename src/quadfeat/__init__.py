"""Approximate kernel methods with quadrature-based random features, at the cost of linear models.

The main classes are :class:`QuadratureFeatures`, a feature map for pipelines, and the models
:class:`QuadratureRidge` and :class:`QuadratureRidgeClassifier`.
"""

from quadfeat import _aliases, bounds, kernels, plots, rotations, rules
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
    "plots",
    "rotations",
    "rules",
    "save",
    "show_config",
    "transform_into",
]

_aliases.install()
