"""Find the kernel of a model for its rows: ``kernel="auto"`` and learned lengthscales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat.data.rows import Rows
from quadfeat.engine.threads import one_blas_thread
from quadfeat.learning.candidates import FAMILIES
from quadfeat.learning.clock import Clock
from quadfeat.learning.lengthscales import check_learnable
from quadfeat.learning.race import Race
from quadfeat.learning.sample import LearningSample
from quadfeat.learning.search import Search
from quadfeat.maps.survey import look
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.finals import Chosen, Final
from quadfeat.models.given_kernel import finds_kernel, given_kernel
from quadfeat.solvers.base import Penalty, Solver
from quadfeat.solvers.targets import Outputs

# Smallest number of columns of a map in the search, unless the model has fewer.
FEWEST_COLUMNS = 128


def searches(model: Any) -> bool:
    """Return whether a model learns its kernel from the targets."""
    return model.features is None and (finds_kernel(model) or model.lengthscales is not None)


def choose(
    model: Any,
    rows: Rows,
    fit: Callable[[QuadratureFeatures, Rows], QuadratureFeatures],
    solver: Solver | None,
) -> Chosen:
    """Find a kernel for rows and their targets, and fit its map.

    Parameters
    ----------
    model : QuadratureModel
    rows : Rows
    fit : callable
        Fits a map to rows.
    solver : Solver or None
        Validates the best kernels on all rows. With None, the best kernel on a sample is used.
    """
    clock = Clock(model.time_limit, verbose=bool(model.verbose))
    targets, opening = model._targets(), rows.opening()
    _, outputs = look(opening, partial(Outputs.of, targets), Outputs.merged)
    sample = LearningSample.gathered(targets, outputs, opening)
    penalty = Penalty.of(model.alpha, model.alphas)
    search = _search(model, sample, penalty, clock)
    final = Final(model, rows, fit, solver, penalty, targets, sample)
    if sample.size < 2:
        return final.of_default(search)
    # The matrices are small. Several BLAS threads would spend more time waiting for each other than
    # they save, especially on a busy machine.
    with one_blas_thread():
        entries = search.run()
    if solver is None or rows.is_stream or not solver.adds_rows:
        return final.of_sample(entries, search)
    return final.of_all_rows(entries, search)


def _search(model: Any, sample: LearningSample, penalty: Penalty, clock: Clock) -> Search:
    """Return the search for a model's parameters ``kernel`` and ``lengthscales``."""
    families: dict[str, Any] = dict(FAMILIES)
    if not finds_kernel(model):
        kernel = given_kernel(model)
        check_learnable(kernel)
        families = {type(kernel).__name__: clone(kernel)}
    # Leave-one-out errors compare all kernels. The model's own criterion applies to the finalists.
    racing = penalty if penalty.alpha is not None else replace(penalty, criterion="loo")

    def heat(n_rows: int, n_columns: int) -> Race:
        # More columns than rows do not improve the comparison.
        most = max(FEWEST_COLUMNS, min(n_rows, sample.size))
        n_components = check.check_count(model.n_components, "n_components")
        n_columns = min(n_columns, n_components, most)
        return Race(
            sample,
            model._targets(),
            racing,
            bool(model.fit_intercept),
            n_rows,
            n_columns,
            model.n_jobs,
            clock,
        )

    kind = "full" if model.lengthscales is None else model.lengthscales
    return Search(heat, families, kind, others=finds_kernel(model))
