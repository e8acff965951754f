"""Parameters of models: checks, the choice of the solver, and the identity of a fit."""

from __future__ import annotations

import os
from typing import Any

from quadfeat._utils import validation as check
from quadfeat._utils.random import checked_state
from quadfeat.data.checkpoints import NOT_IDENTITY, described
from quadfeat.data.rows import Rows
from quadfeat.kernels import as_kernel
from quadfeat.models.choosing import is_auto, searches
from quadfeat.models.mapping import given_fitted
from quadfeat.rules import as_rule
from quadfeat.solvers.base import Penalty, Solver
from quadfeat.solvers.normal import GRAM_DTYPES
from quadfeat.solvers.presets import as_solver, named_solver

LENGTHSCALES = ("isotropic", "ard", "full")

# With more features than this, solver="auto" means "cg": the Gram matrix would fill the memory.
NORMAL_UP_TO = 8192

# Parameters that must not change between calls that add rows.
OF_ALL_ROWS = (
    "kernel",
    "n_components",
    "rule",
    "features",
    "lengthscales",
    "random_state",
    "class_weight",
)

# Parameters that ``features`` replaces, with their defaults.
OF_FEATURES = {
    "kernel": "auto",
    "n_components": 1024,
    "rule": "auto",
    "lengthscales": None,
    "time_limit": None,
}


def check_all(model: Any) -> None:
    """Raise an error if a parameter is not valid, before any work."""
    penalty = Penalty.of(model.alpha, model.alphas)
    if str(model.n_components) == "auto":
        raise ValueError(
            "n_components='auto' is for the map, which has a tol of its own: give "
            "features=QuadratureFeatures(n_components='auto', tol=0.05), or a number."
        )
    solver = given_solver(model)
    check.check_choice(model.gram_dtype, "gram_dtype", GRAM_DTYPES)
    check.check_flag(model.fit_intercept, "fit_intercept")
    check.check_positive(model.tol, "tol")
    if model.max_iter is not None:
        check.check_count(model.max_iter, "max_iter")
    if model.lengthscales is not None:
        check.check_choice(model.lengthscales, "lengthscales", LENGTHSCALES)
    if model.time_limit is not None:
        check.check_positive(model.time_limit, "time_limit")
        if not searches(model):
            raise ValueError(
                f"time_limit={model.time_limit!r} has nothing to act on, since the kernel is "
                "given: use kernel='auto' or lengthscales, or leave it out."
            )
    if solver is not None:
        solver.check_penalty(penalty, model.alpha)
    if model.checkpoint is not None and not isinstance(model.checkpoint, (str, os.PathLike)):
        raise TypeError(
            f"checkpoint={model.checkpoint!r} is not valid: give the path of a file, or None."
        )
    if model.checkpoint is not None and solver is not None and not solver.keeps_checkpoints:
        raise ValueError(
            f"checkpoint={str(model.checkpoint)!r} has nothing to act on, since "
            f"solver={solver.name!r} keeps none: leave it out."
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
                    f"{name}={check.one_line(value)} has nothing to act on, since features "
                    "are given, which have their own: leave it out."
                )


def check_map(model: Any) -> None:
    """Raise an error if a parameter of the map is not valid, before a search for its kernel."""
    check.check_count(model.n_components, "n_components")
    if not is_auto(model.kernel):
        as_kernel(model.kernel)
    if not (isinstance(model.rule, str) and model.rule == "auto"):
        as_rule(model.rule)


def given_solver(model: Any) -> Solver | None:
    """Return the solver of a model, or None for ``"auto"``, which depends on the rows."""
    return as_solver(model.solver, model)


def known_solver(model: Any) -> Solver | None:
    """Return the same as ``given_solver``, but None for an unknown name."""
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
    """Return the solver that adds rows to others."""
    return given_solver(model) or named_solver("normal", model)


def reason_against_adding(model: Any) -> str | None:
    """Return why these parameters do not allow adding rows; None if they do."""
    solver = known_solver(model)
    if solver is not None and not solver.adds_rows:
        return (
            f"solver={solver.name!r} keeps nothing that rows could be added to: use "
            "solver='normal' or 'auto' to add rows."
        )
    chosen = isinstance(model.alpha, str)
    if chosen and solver is not None and solver.needs_fixed_alpha:
        return (
            f"solver={solver.name!r} needs a fixed alpha to add rows, and alpha={model.alpha!r}: "
            "give a number."
        )
    if chosen and model.alpha == "loo":
        return (
            "alpha='loo' goes over all rows a second time: use alpha='auto', 'gcv' or 'evidence' "
            "to add rows."
        )
    return None


def of_all_rows(model: Any) -> dict[str, str]:
    """Return the parameters that must not change when rows are added, as strings."""
    names = [name for name in OF_ALL_ROWS if hasattr(model, name)]
    strings = {name: described(getattr(model, name)) for name in names}
    given = given_fitted(model)
    return strings if given is None else strings | {"features": given}


def check_same(model: Any) -> None:
    """Raise an error if such a parameter has changed since the first rows."""
    before: dict[str, str] = getattr(model, "_fitted_with", {})
    now = of_all_rows(model)
    for name, value in before.items():
        if now.get(name, value) != value:
            raise ValueError(
                f"{name}={check.one_line(getattr(model, name))} has no effect on a model that "
                f"has rows already, for which it was {check.one_line(value)}: set it back, or "
                "call fit."
            )


def identity(model: Any, n_rows: int | None) -> dict[str, Any]:
    """Return what identifies a fit, apart from its rows."""
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
