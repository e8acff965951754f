"""Keep the module paths of earlier versions working, for old pickles and imports.

``MOVED`` maps each old module to the modules that define its names now. An old module is created on
its first import and looks up its names in the new modules.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED: dict[str, tuple[str, ...]] = {
    "quadfeat._model": ("quadfeat.models.base", "quadfeat.solvers.base", "quadfeat.solvers.cg"),
    "quadfeat._pickles": ("quadfeat.io.pickles",),
    "quadfeat.accuracy": ("quadfeat.maps.kernel_error",),
    "quadfeat.blocks": ("quadfeat.data.blocks", "quadfeat.data.parquet"),
    "quadfeat.budget": ("quadfeat.auto.budget",),
    "quadfeat.calibration": ("quadfeat.solvers.calibration",),
    "quadfeat.checkpoints": ("quadfeat.data.checkpoints",),
    "quadfeat.cli": ("quadfeat.apps.cli",),
    "quadfeat.conjugate": ("quadfeat.solvers.krylov",),
    "quadfeat.distributed": ("quadfeat.data.dask",),
    "quadfeat.features": ("quadfeat.models", "quadfeat.models.saved_features", "quadfeat.rules"),
    "quadfeat.growth": ("quadfeat.models",),
    "quadfeat.lengthscales": ("quadfeat.learning.lengthscales", "quadfeat.learning.evidence"),
    "quadfeat.models.calibration": ("quadfeat.solvers.calibration",),
    "quadfeat.moments": ("quadfeat.solvers.moments", "quadfeat.solvers.accumulator"),
    "quadfeat.nodes": ("quadfeat.rules.nodes",),
    "quadfeat.nonlinearities": ("quadfeat.kernels.nonlinearities",),
    "quadfeat.persistence": ("quadfeat.io.persistence",),
    "quadfeat.posterior": ("quadfeat.solvers.posterior", "quadfeat.solvers.ridge"),
    "quadfeat.progress": ("quadfeat.data.progress",),
    "quadfeat.reweighting": ("quadfeat.maps.reweighting",),
    "quadfeat.ridge": ("quadfeat.models",),
    "quadfeat.sampling": ("quadfeat.data.sampling",),
    "quadfeat.selection": (
        "quadfeat.auto.selection",
        "quadfeat.auto.sample",
        "quadfeat.auto.closed_forms",
        "quadfeat.auto.trials",
    ),
    "quadfeat.solvers.lengthscales": (
        "quadfeat.learning.lengthscales",
        "quadfeat.learning.evidence",
    ),
    "quadfeat.spectra": ("quadfeat.kernels.spectra",),
    "quadfeat.summaries": ("quadfeat.solvers.summaries",),
    "quadfeat.systems": ("quadfeat.solvers.systems",),
    "quadfeat.variance": ("quadfeat.auto.variance", "quadfeat.rules.radial"),
}

# Renamed classes: (old module, old name) -> (new module, new name).
RENAMED = {("quadfeat._model", "Solution"): ("quadfeat.solvers.normal", "NormalSolution")}


class OldPaths(MetaPathFinder, Loader):
    """Find modules by their paths in earlier versions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an old module, or ``None`` for any other name."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """Make an old module look up its names in the new modules."""
        vars(module)["__getattr__"] = _lookup(module.__name__)


def _lookup(old: str) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if (old, name) in RENAMED:
            new, renamed = RENAMED[old, name]
            return getattr(importlib.import_module(new), renamed)
        for new in MOVED[old]:
            found = importlib.import_module(new)
            if hasattr(found, name) and not name.startswith("__"):
                return getattr(found, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return find


_FINDER = OldPaths()


def install() -> None:
    """Add the finder of old modules to the end of ``sys.meta_path``."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
