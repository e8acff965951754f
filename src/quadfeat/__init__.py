"""Approximate kernel methods with quadrature-based random features, at the cost of linear models.

==================================  ================================================================
``QuadratureRidge``                 Kernel ridge regression and Gaussian processes
``QuadratureRidgeClassifier``       Kernel ridge classification with probabilities
``LocalGaussianProcess``            Gaussian processes on nearest rows, for narrow kernels
``LocalGaussianProcessClassifier``  Classification with Gaussian processes on nearest rows
``QuadratureFeatures``              The feature map of a kernel, for pipelines
``ParquetBlocks``                   Parquet files larger than memory, for ``fit`` and ``score``
``save``, ``load``                  Files of maps and models, without code
``grow``                            Add columns to a fitted map
``transform_into``                  Write features into an array that you provide
``show_config``                     Print the versions and the core that computes features
``KernelError``                     The result of ``QuadratureFeatures.kernel_error``
``AlphaPath``                       The attribute ``path_`` of a model: the alphas that were tried
==================================  ================================================================

Kernels are in :mod:`quadfeat.kernels`, rules in :mod:`quadfeat.rules`, rotations in
:mod:`quadfeat.rotations`, plots in :mod:`quadfeat.plots` and error bounds in
:mod:`quadfeat.bounds`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quadfeat import _aliases

if TYPE_CHECKING:
    from quadfeat import bounds, kernels, plots, rotations, rules
    from quadfeat._utils.version import __version__ as __version__
    from quadfeat.data import ParquetBlocks
    from quadfeat.engine.core import show_config
    from quadfeat.io import load, save
    from quadfeat.maps import KernelError
    from quadfeat.models import (
        LocalGaussianProcess,
        LocalGaussianProcessClassifier,
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
    "LocalGaussianProcess",
    "LocalGaussianProcessClassifier",
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

# The modules that define the names of this package. They are imported on first use, since importing
# all of them takes a few tenths of a second.
_HOMES = {
    "AlphaPath": "quadfeat.solvers",
    "KernelError": "quadfeat.maps",
    "LocalGaussianProcess": "quadfeat.models",
    "LocalGaussianProcessClassifier": "quadfeat.models",
    "ParquetBlocks": "quadfeat.data",
    "QuadratureFeatures": "quadfeat.models",
    "QuadratureRidge": "quadfeat.models",
    "QuadratureRidgeClassifier": "quadfeat.models",
    "__version__": "quadfeat._utils.version",
    "grow": "quadfeat.models",
    "load": "quadfeat.io",
    "save": "quadfeat.io",
    "show_config": "quadfeat.engine.core",
    "transform_into": "quadfeat.models",
}
_SUBMODULES = (
    "auto",
    "bounds",
    "data",
    "engine",
    "io",
    "kernels",
    "learning",
    "maps",
    "models",
    "neighbors",
    "plots",
    "rotations",
    "rules",
    "solvers",
)

if not TYPE_CHECKING:  # otherwise mypy would accept any name

    def __getattr__(name: str) -> Any:
        """Import a name on first use."""
        if name in _SUBMODULES:
            return import_module(f"quadfeat.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'quadfeat' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        """Return all names, also those that are not imported yet."""
        return sorted({*globals(), *_HOMES, *_SUBMODULES})


_aliases.install()
