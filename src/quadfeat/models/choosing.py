"""``kernel="auto"`` and learned lengthscales: the kernel of a model, chosen for its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.base import clone
from threadpoolctl import threadpool_limits

from quadfeat._utils import validation as check
from quadfeat.data.rows import Rows
from quadfeat.kernels import as_kernel
from quadfeat.learning.candidates import FAMILIES
from quadfeat.learning.clock import Clock
from quadfeat.learning.lengthscales import check_learnable
from quadfeat.learning.race import Race
from quadfeat.learning.sample import LearningSample
from quadfeat.learning.search import Search
from quadfeat.maps.survey import look
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.finals import Chosen, Final
from quadfeat.solvers.base import Penalty, Solver
from quadfeat.solvers.targets import Outputs

# Maps of the search have so many columns at least, if the model has.
FEWEST_COLUMNS = 128


def searches(model: Any) -> bool:
    """Return whether the kernel of a model depends on its targets."""
    return model.features is None and (is_auto(model.kernel) or model.lengthscales is not None)


def is_auto(kernel: Any) -> bool:
    """Return whether a kernel is to be found."""
    return isinstance(kernel, str) and kernel == "auto"


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
        Validates the best kernels on all rows; None takes the best one of the sample.
    """
    clock = Clock(model.time_limit, verbose=bool(model.verbose))
    targets, opening = model.targets(), rows.opening()
    _, outputs = look(opening, partial(Outputs.of, targets), Outputs.merged)
    sample = LearningSample.gathered(targets, outputs, opening)
    penalty = Penalty.of(model.alpha, model.alphas)
    search = _search(model, sample, penalty, clock)
    final = Final(model, rows, fit, solver, penalty, targets, sample)
    if sample.size < 2:
        return final.of_default(search)
    # The matrices are small: threads of BLAS would wait for each other longer than they save, above
    # all if other processes are busy.
    with threadpool_limits(1, user_api="blas"):
        entries = search.run()
    if solver is None or rows.is_stream or not solver.adds_rows:
        return final.of_sample(entries, search)
    return final.of_all_rows(entries, search)


def _search(model: Any, sample: LearningSample, penalty: Penalty, clock: Clock) -> Search:
    """Return the search for a model's parameters ``kernel`` and ``lengthscales``."""
    families: dict[str, Any] = dict(FAMILIES)
    if not is_auto(model.kernel):
        kernel = as_kernel(model.kernel)
        check_learnable(kernel)
        families = {type(kernel).__name__: clone(kernel)}
    # All kernels race by leave-one-out errors; the model's own criterion serves the last ones.
    racing = penalty if penalty.alpha is not None else replace(penalty, criterion="loo")

    def heat(n_rows: int, n_columns: int) -> Race:
        # Few rows have no use for more columns than that.
        most = max(FEWEST_COLUMNS, min(n_rows, sample.size))
        n_components = check.check_count(model.n_components, "n_components")
        n_columns = min(n_columns, n_components, most)
        return Race(
            sample,
            model.targets(),
            racing,
            bool(model.fit_intercept),
            n_rows,
            n_columns,
            model.n_jobs,
            clock,
        )

    kind = "full" if model.lengthscales is None else model.lengthscales
    return Search(heat, families, kind, others=is_auto(model.kernel))
