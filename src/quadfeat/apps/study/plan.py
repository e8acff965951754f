"""Choose the cells of a study."""

from __future__ import annotations

from collections.abc import Sequence

from quadfeat.apps.study.data import CATALOGUE, PAPER
from quadfeat.apps.study.experiments import EXACT, Cell
from quadfeat.apps.study.methods import RBF_SAMPLER

# Beyond this width the accuracy study has one n only: the quick one, and the full one, whose
# features would otherwise take many gigabytes.
WIDE, VERY_WIDE = 100, 500


def plan(
    experiments: Sequence[str],
    datasets: Sequence[str],
    kernels: Sequence[str],
    methods: Sequence[str],
    *,
    full: bool,
) -> list[Cell]:
    """Return the cells in the order in which they are run and shown."""
    cells = []
    if "kernel-error" in experiments:
        cells += [
            Cell("kernel-error", dataset, kernel, method, n)
            for dataset in datasets
            for kernel in kernels
            for method in methods
            for n in range(1, 6)
        ]
    if "accuracy" in experiments:
        cells += [
            Cell("accuracy", dataset, kernel, method, n)
            for dataset in datasets
            for kernel in kernels
            for method in (*methods, EXACT)
            for n in _blocks(dataset, method, full=full)
        ]
    if "walltime" in experiments:
        widths = [2**k for k in (range(4, 13) if full else range(5, 11))]
        cells += [
            Cell("walltime", str(d), "gaussian", method, 1)
            for method in (*methods, RBF_SAMPLER)
            for d in widths
        ]
    return cells


def _blocks(dataset: str, method: str, *, full: bool) -> Sequence[int]:
    """Return the n of the accuracy study, fewer where linear machines take their time."""
    if method == EXACT:
        return (0,)
    width = CATALOGUE[dataset].shape[1]
    if full:
        return range(1, 6) if width <= VERY_WIDE else (1,)
    return (1, 2) if width <= WIDE else (1,)


def default_datasets(here: Sequence[str], *, full: bool) -> list[str]:
    """Return what is studied if nothing is named: all that is here, in full the paper's sets."""
    paper = [name for name in here if name in PAPER]
    return paper if full and paper else list(here)
