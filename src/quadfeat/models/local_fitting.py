"""Fit a Gaussian process on nearest rows: gather the rows, and find the settings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.columns import check_finite
from quadfeat._utils.validation import Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows
from quadfeat.engine.threads import n_threads
from quadfeat.kernels import Kernel, Metric, SeparationKernel
from quadfeat.learning.candidates import FAMILIES, Choice, KernelCandidate
from quadfeat.learning.clock import Clock
from quadfeat.learning.columns import Columns, with_factors
from quadfeat.models.given_kernel import AUTO, finds_kernel, given_kernel
from quadfeat.neighbors.clusters import is_available
from quadfeat.neighbors.fit import LocalFit
from quadfeat.neighbors.learning import LocalSearch
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.search import SEARCHES
from quadfeat.neighbors.tried import Tried, Wanted
from quadfeat.neighbors.wide import WIDE, WideSearch

LENGTHSCALES = ("isotropic", "ard")

# Gathered rows may have this many entries: 4 GiB.
MOST_ENTRIES = 2**29


# With fewer distinct rows, partial_fit learns the settings again.
LEAST_ROWS = 50


class Table(NamedTuple):
    """Dense rows with targets and positive weights.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    Y : array of shape (n_rows, n_outputs)
    weights : array of shape (n_rows,)
    """

    X: Float64Array
    Y: Float64Array
    weights: Float64Array

    @classmethod
    def of(cls, block: Block) -> Table:
        """Return the rows of a block."""
        check_size(block.n_rows, block.X.shape[1])
        check_finite(block.X)
        X = check.to_dense_float64(block.X)
        Y = np.asarray(block.y, dtype=np.float64).reshape(len(X), -1)
        if block.weights is None:
            return cls(X, Y, np.ones(len(X)))
        present = block.weights > 0
        return cls(X[present], Y[present], block.weights[present])

    def merged(self, other: Table) -> Table:
        """Return the rows of both."""
        columns, others = self.Y.shape[1], other.Y.shape[1]
        if columns != others:
            raise ValueError(
                f"y has {others} columns, but earlier batches had {columns}. Use the same number "
                "of columns in all batches."
            )
        check_size(len(self.X) + len(other.X), self.X.shape[1])
        return Table(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))


def check_size(n_rows: int, n_columns: int) -> None:
    """Raise an error if rows do not fit into memory."""
    if n_rows * n_columns > MOST_ENTRIES:
        raise ValueError(
            f"X has at least {n_rows} rows with {n_columns} columns, but a model on nearest rows "
            f"holds all rows in memory, at most {MOST_ENTRIES} entries. Pass a sample of the rows, "
            "or use QuadratureRidge."
        )


def gathered(rows: Rows, kind: Any = Table) -> Any:
    """Return rows from any source in one table of a kind: ``Table`` or ``LabeledTable``."""
    return rows.each(kind.of, kind.merged)


def check_any_row(table: Table) -> None:
    """Raise an error if no row has a positive weight."""
    if len(table.X) == 0:
        check.check_any_weight(0.0)


def is_enough(solution: LocalFit) -> bool:
    """Return whether settings were learned from enough rows to keep them for more rows."""
    rows = solution.rows
    return rows.size >= LEAST_ROWS and bool(np.ptp(rows.Y, axis=0).any())


def check_parameters(model: Any) -> None:
    """Raise an error if a parameter is not valid, before any computation."""
    if isinstance(model.n_neighbors, str):
        check.check_choice(model.n_neighbors, "n_neighbors", (AUTO,), "a positive integer")
    else:
        check.check_count(model.n_neighbors, "n_neighbors")
    if isinstance(model.alpha, str):
        check.check_choice(model.alpha, "alpha", (AUTO,), "a positive number")
    else:
        check.check_positive(model.alpha, "alpha")
    if model.lengthscales is not None:
        check.check_choice(model.lengthscales, "lengthscales", LENGTHSCALES)
    if model.time_limit is not None:
        check.check_positive(model.time_limit, "time_limit")
    check.check_choice(model.search, "search", SEARCHES)
    if model.search == "approximate" and not is_available():
        raise ImportError(
            "search='approximate' needs faiss: pip install \"quadfeat[local]\", or use "
            "search='auto', which searches exactly without it."
        )
    check.check_verbose(model.verbose)
    check.check_n_jobs(model.n_jobs)
    if not finds_kernel(model):
        checked_kernel(model)


def is_auto(value: Any) -> bool:
    """Return whether a parameter is ``"auto"``."""
    return isinstance(value, str) and value == "auto"


def checked_kernel(model: Any) -> Kernel:
    """Return the given kernel if it depends on Euclidean distances; otherwise raise an error."""
    kernel = given_kernel(model)
    message = (
        f"kernel={check.one_line(kernel)} does not depend on Euclidean distances, which find the "
        "nearest rows. Use 'auto', or a Gaussian, Matern or RationalQuadratic kernel."
    )
    inner: Any = kernel.inner
    if getattr(inner, "separation_degree", 2) != 2:
        raise ValueError(message)
    check.check_kind(inner, SeparationKernel, message, ValueError)  # type: ignore[type-abstract]
    if kernel.projection is not None and model.lengthscales is not None:
        raise ValueError(
            f"lengthscales={model.lengthscales!r} cannot be learned for "
            f"kernel={check.one_line(kernel)}, whose matrix defines distances. Use "
            "lengthscales=None, or pass its inner kernel."
        )
    return kernel


def wanted_of(model: Any, table: Table) -> Wanted:
    """Return the settings that a model has to learn from its rows."""
    alpha = None if is_auto(model.alpha) else float(model.alpha)
    number = None if is_auto(model.n_neighbors) else int(model.n_neighbors)
    if finds_kernel(model):
        scales = model.lengthscales or "ard"
        return Wanted(dict(FAMILIES), scales, alpha, number, search=model.search)
    kernel = checked_kernel(model)
    if model.lengthscales is None:
        kernel = kernel.resolve(table.X, table.weights)
    inner: Any = kernel.inner
    names = {type(kernel).__name__: inner}
    return Wanted(names, model.lengthscales, alpha, number, kernel.projection, model.search)


def fit_local(model: Any, table: Table) -> tuple[LocalFit, Choice]:
    """Return the fit of a model to its rows, and the reason for its kernel."""
    check_any_row(table)
    clock = Clock(model.time_limit, verbose=bool(model.verbose))
    wanted = wanted_of(model, table)
    rows = model._distinct_rows(table)
    search: LocalSearch | WideSearch
    if tries_principal_columns(model, rows):
        search = WideSearch(model._goal, rows, wanted, clock, n_threads(model.n_jobs))
    else:
        search = LocalSearch(model._goal(rows), wanted, clock, n_threads(model.n_jobs))
    best = search.run()
    candidates = tuple(candidate_of(one, wanted) for one in search.tried)
    kernel = kernel_of(best, wanted)
    settings = best.settings
    found = model._fit_kind(*table, kernel, settings.alpha, settings.n_neighbors, model.search)
    return found, Choice(reason(best, search), candidates)


def tries_principal_columns(model: Any, rows: DistinctRows) -> bool:
    """Return whether a model may compare rows by the principal columns of a wide table."""
    return finds_kernel(model) and model.lengthscales is None and rows.X.shape[1] > WIDE


def kernel_of(tried: Tried, wanted: Wanted) -> Kernel:
    """Return a kernel with its learned scale."""
    settings = tried.settings
    kernel, projection = settings.kernel, settings.projection
    if wanted.lengthscales is not None:
        kernel = with_factors(kernel, settings.factors)
    if projection is None:
        return kernel
    if wanted.lengthscales is None or projection.knee is None:
        matrix = projection.matrix
        return Metric(kernel, matrix, center=projection.center, knee=projection.knee)
    center, d = projection.center, projection.n_features_in
    center = np.zeros(d) if center is None else center
    return Columns(center, np.ones(d), projection.knee).kernel(kernel)


def candidate_of(tried: Tried, wanted: Wanted) -> KernelCandidate:
    """Return the record of settings that were tried."""
    settings = tried.settings
    return KernelCandidate(
        f"{tried.name}, {settings.n_neighbors} neighbors",
        kernel_of(tried, wanted),
        settings.alpha,
        tried.loss,
        tried.standard_error,
        tried.n_rows,
        settings.n_neighbors,
        tried.seconds,
    )


def reason(best: Tried, search: LocalSearch | WideSearch) -> str:
    """Return the reason for the best settings, which are the first that were tried."""
    tried, goal = search.tried, search.goal
    if not tried:
        return "There was nothing to learn: too few different rows, or equal targets."
    found = f"a leave-one-out {goal.score(best.loss)} on {best.n_rows:,} rows"
    number = f"{best.settings.n_neighbors} neighbors"
    if search.wanted.is_given:
        return f"The kernel was given. With {number}, it has {found}."
    least = min(tried, key=lambda one: one.loss)
    text = f"{best.name} with {number} has {found}."
    if least is not tried[0]:
        many = least.settings.n_neighbors
        text += f" {many} neighbors are hardly better ({goal.score(least.loss)})."
    return text
