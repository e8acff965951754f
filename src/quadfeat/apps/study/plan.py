"""Choose the cells of a study."""

from __future__ import annotations

from collections.abc import Sequence

from quadfeat.apps.study.data import CATALOGUE, PAPER
from quadfeat.apps.study.experiments import CHOOSING_SECONDS, NO_BLOCKS, Cell, Effort
from quadfeat.apps.study.methods import KERNEL_SVM, METHODS, PAPER_RULE, RBF_SAMPLER

# The accuracy experiment runs a single n on wider data: beyond WIDE columns in a quick study, and
# beyond VERY_WIDE in a full one, whose features would otherwise take many gigabytes.
WIDE, VERY_WIDE = 100, 500


def plan(
    experiments: Sequence[str],
    datasets: Sequence[str],
    kernels: Sequence[str],
    methods: Sequence[str],
    *,
    full: bool,
) -> list[Cell]:
    """Return the cells in the order in which they run and appear."""
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
            for method in (*methods, KERNEL_SVM)
            for n in _blocks(dataset, method, full=full)
        ]
    if "walltime" in experiments:
        dimensions = [2**k for k in (range(4, 13) if full else range(5, 11))]
        cells += [
            Cell("walltime", str(d), "gaussian", method, 1)
            for method in (*methods, RBF_SAMPLER)
            for d in dimensions
        ]
    return cells


def expected_seconds(cell: Cell, effort: Effort) -> float:
    """Estimate how long a cell takes, to show the remaining time."""
    seconds = 0.15  # about what a quick cell takes on one core
    if cell.experiment == "kernel-error":
        seconds += effort.headline_seconds if cell.method == PAPER_RULE else effort.seconds
    if cell.method in METHODS and METHODS[cell.method].chooses:
        seconds = max(seconds, effort.fewest_draws * CHOOSING_SECONDS)
    return seconds


def _blocks(dataset: str, method: str, *, full: bool) -> Sequence[int]:
    """Return the values of n for the accuracy experiment, fewer if linear models are slow."""
    if method == KERNEL_SVM:
        return (NO_BLOCKS,)
    width = CATALOGUE[dataset].shape[1]
    if full:
        return range(1, 6) if width <= VERY_WIDE else (1,)
    return (1, 2) if width <= WIDE else (1,)


def default_datasets(found: Sequence[str], *, full: bool) -> list[str]:
    """Return the datasets of a study that names none.

    A quick study takes all that were found. A full one takes those of the paper, if there are any.
    """
    paper = [name for name in found if name in PAPER]
    return paper if full and paper else list(found)
