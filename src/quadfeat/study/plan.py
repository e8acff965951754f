"""Which cells a study has."""

from __future__ import annotations

from collections.abc import Sequence

from quadfeat.study.data import CATALOGUE, PAPER
from quadfeat.study.experiments import EXACT, Cell
from quadfeat.study.methods import METHODS, RBF_SAMPLER

# Too large for a linear machine within minutes, or too small to split.
NOT_FOR_ACCURACY = ("cifar100", "leukemia")
ONLY_IN_FULL = ("mnist",)
WIDE = 100


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
        left_out = NOT_FOR_ACCURACY if full else NOT_FOR_ACCURACY + ONLY_IN_FULL
        cells += [
            Cell("accuracy", dataset, kernel, method, n)
            for dataset in datasets
            if dataset not in left_out
            for kernel in kernels
            for method in (*methods, EXACT)
            for n in _blocks(dataset, method, full=full)
        ]
    if "walltime" in experiments:
        widths = [2**k for k in (range(4, 13) if full else range(6, 12))]
        cells += [
            Cell("walltime", str(d), "gaussian", method, 1)
            for method in (*methods, RBF_SAMPLER)
            if method == RBF_SAMPLER or not METHODS[method].homogeneous_only
            for d in widths
        ]
    return cells


def _blocks(dataset: str, method: str, *, full: bool) -> Sequence[int]:
    """Return the n of the accuracy study, fewer where linear machines take their time."""
    if method == EXACT:
        return (0,)
    if full:
        return range(1, 6)
    return (1,) if CATALOGUE[dataset].shape[1] > WIDE else (1, 3)


def default_datasets(here: Sequence[str], *, full: bool) -> list[str]:
    """Return what is studied if nothing is named: all that is here, in full the paper's sets."""
    paper = [name for name in here if name in PAPER]
    return paper if full and paper else list(here)
