"""Parameters of models: validation, the solver, and the identity of a fit."""

from __future__ import annotations

import os
from typing import Any

from quadfeat._utils import validation as check
from quadfeat._utils.random import checked_state
from quadfeat.data.checkpoints import NOT_IDENTITY, described
from quadfeat.data.rows import Rows
from quadfeat.models.choosing import searches
from quadfeat.models.given_kernel import given_kernel
from quadfeat.models.mapping import given_fitted
from quadfeat.rules import as_rule
from quadfeat.solvers.base import Penalty, Solver
from quadfeat.solvers.normal import GRAM_DTYPES
from quadfeat.solvers.presets import as_solver, named_solver

LENGTHSCALES = ("isotropic", "ard", "full")

# With more features, solver="auto" uses "cg", because the Gram matrix would need too much memory.
NORMAL_UP_TO = 8192

# Longer descriptions of a parameter are left out of messages.
LONGEST_SHOWN = 80

# Parameters that must not change between calls that add rows.
OF_ALL_ROWS = (
    "kernel",
    "gamma",
    "n_components",
    "rule",
    "features",
    "lengthscales",
    "random_state",
    "class_weight",
)

# Parameters that ``features`` replaces, with their default values.
OF_FEATURES = {
    "kernel": "auto",
    "gamma": None,
    "n_components": 1024,
    "rule": "auto",
    "lengthscales": None,
    "time_limit": None,
}


def check_all(model: Any) -> None:
    """Raise an error if a parameter is not valid, before any computation."""
    penalty = Penalty.of(model.alpha, model.alphas)
    if str(model.n_components) == "auto":
        raise ValueError(
            "n_components='auto' is not valid for models: pass an integer, or use "
            "features=QuadratureFeatures(n_components='auto', tol=0.05)."
        )
    solver = given_solver(model)
    check.check_choice(model.gram_dtype, "gram_dtype", GRAM_DTYPES)
    check.check_flag(model.fit_intercept, "fit_intercept")
    check.check_verbose(model.verbose)
    check.check_positive(model.tol, "tol")
    if model.max_iter is not None:
        check.check_count(model.max_iter, "max_iter")
    if model.lengthscales is not None:
        check.check_choice(model.lengthscales, "lengthscales", LENGTHSCALES)
    if model.time_limit is not None:
        check.check_positive(model.time_limit, "time_limit")
        if not searches(model):
            raise ValueError(
                f"time_limit={model.time_limit!r} has no effect, because the kernel is given. Use "
                "kernel='auto' or lengthscales, or remove time_limit."
            )
    if solver is not None:
        solver.check_penalty(penalty, model.alpha)
    if model.checkpoint is not None and not isinstance(model.checkpoint, (str, os.PathLike)):
        raise TypeError(
            f"checkpoint={model.checkpoint!r} is not valid: pass the path of a file, or None."
        )
    if model.checkpoint is not None and solver is not None and not solver.keeps_checkpoints:
        raise ValueError(
            f"checkpoint={str(model.checkpoint)!r} has no effect, because solver={solver.name!r} "
            "does not write checkpoints. Remove checkpoint, or use solver='normal'."
        )
    check.check_n_jobs(model.n_jobs)
    checked_state(model.random_state)
    if model.features is None:
        check_map(model)
    else:
        for name, default in OF_FEATURES.items():
            value = getattr(model, name)
            if not (isinstance(value, type(default)) and value == default):
                raise ValueError(
                    f"{name}={check.one_line(value)} has no effect, because features is given. "
                    f"Remove {name} or features."
                )


def check_map(model: Any) -> None:
    """Raise an error if a parameter of the map is not valid, before the search for a kernel."""
    check.check_count(model.n_components, "n_components")
    given_kernel(model)
    if not (isinstance(model.rule, str) and model.rule == "auto"):
        as_rule(model.rule)


def given_solver(model: Any) -> Solver | None:
    """Return the solver of a model; None for ``"auto"``, which depends on the rows."""
    return as_solver(model.solver, model)


def known_solver(model: Any) -> Solver | None:
    """Return the solver of a model; None for ``"auto"`` and for unknown names."""
    try:
        return given_solver(model)
    except ValueError:
        return None


def solver_for(model: Any, n_columns: int, rows: Rows) -> Solver:
    """Return the solver for rows and ``n_columns`` features."""
    given = given_solver(model)
    if given is not None:
        return given
    penalty = Penalty.of(model.alpha, model.alphas)
    possible = penalty.alpha is not None or penalty.criterion == "auto"
    iterative = n_columns > NORMAL_UP_TO and rows.repeatable and possible
    return named_solver("cg" if iterative else "normal", model)


def adding_solver(model: Any) -> Solver:
    """Return the solver for ``partial_fit``."""
    return given_solver(model) or named_solver("normal", model)


def reason_against_adding(model: Any) -> str | None:
    """Return why these parameters do not allow adding rows; None if they do."""
    solver = known_solver(model)
    if solver is not None and not solver.adds_rows:
        return (
            f"solver={solver.name!r} does not keep the Gram matrix, to which rows could be added. "
            "Use solver='normal' or 'auto'."
        )
    chosen = isinstance(model.alpha, str)
    if chosen and solver is not None and solver.needs_fixed_alpha:
        return (
            f"solver={solver.name!r} cannot add rows with alpha={model.alpha!r}. Set alpha to a "
            "number."
        )
    if chosen and model.alpha == "loo":
        return (
            "alpha='loo' needs a second pass over all rows, so rows cannot be added. Use "
            "alpha='auto', 'gcv' or 'evidence'."
        )
    return None


def of_all_rows(model: Any) -> dict[str, str]:
    """Return the parameters that must not change between calls that add rows, as strings."""
    names = [name for name in OF_ALL_ROWS if hasattr(model, name)]
    strings = {name: described(getattr(model, name)) for name in names}
    given = given_fitted(model)
    return strings if given is None else strings | {"features": given}


def check_same(model: Any) -> None:
    """Raise an error if a parameter has changed that must stay the same when rows are added."""
    before: dict[str, str] = getattr(model, "_fitted_with", {})
    now = of_all_rows(model)
    for name, value in before.items():
        if now.get(name, value) != value:
            earlier = f" to {value}" if len(value) <= LONGEST_SHOWN else ""
            raise ValueError(
                f"{name}={check.one_line(getattr(model, name))} has no effect on a model that "
                f"already has rows. Set it back{earlier}, or call fit."
            )


def identity(model: Any, n_rows: int | None) -> dict[str, Any]:
    """Return the values that identify a fit, apart from its rows."""
    parameters = {
        name: described(value)
        for name, value in model.get_params(deep=False).items()
        if name not in NOT_IDENTITY
    }
    return {
        "class": type(model).__name__,
        "parameters": parameters,
        "map": given_fitted(model),
        "columns": described(list(getattr(model, "feature_names_in_", []))),
        "number of rows": n_rows,
    }
