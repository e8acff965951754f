"""Solvers by name.

A named solver takes its parameters from the parameters of the model that have the same names.
"""

from __future__ import annotations

from typing import Any

from quadfeat._utils import validation as check
from quadfeat.solvers.base import Solver
from quadfeat.solvers.cg import ConjugateGradients
from quadfeat.solvers.normal import Normal

NAMED: dict[str, type[Solver]] = {kind.name: kind for kind in (Normal, ConjugateGradients)}


def as_solver(solver: Any, parameters: Any) -> Solver | None:
    """Return the solver for a name, or the given solver; None for ``"auto"``.

    Parameters
    ----------
    solver : Solver or str
    parameters : object
        An object, such as a model, with the parameters of solvers as attributes.
    """
    if hasattr(solver, "solve"):
        if isinstance(solver, type) or not hasattr(solver, "check_penalty"):
            raise ValueError(
                f"solver={check.one_line(solver)} is not valid: pass a name, or an instance of a "
                "subclass of quadfeat.solvers.Solver, such as Normal()."
            )
        found: Solver = solver
        return found
    name = check.check_choice(solver, "solver", ("auto", *NAMED))
    return None if name == "auto" else named_solver(name, parameters)


def named_solver(name: str, parameters: Any) -> Solver:
    """Return the solver for a name, with the parameters of a model."""
    kind = NAMED[name]
    return kind(**{one: getattr(parameters, one) for one in kind._get_param_names()})
