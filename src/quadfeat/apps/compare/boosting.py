"""Gradient-boosted trees with their default settings, the usual first choice for tables.

They get the columns that ``TableEncoder`` makes, as all rivals do. Their own support for categories
is not used. LightGBM takes part if it is installed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from quadfeat.apps.compare.scoring import Task

HIST = "HistGradientBoosting"
LIGHTGBM = "LightGBM"


def boosters() -> list[str]:
    """Return the names of the installed boosters."""
    return [HIST, *([LIGHTGBM] if find_spec("lightgbm") is not None else [])]


def load(name: str) -> Any:
    """Import the module of a booster. LightGBM is imported only if it takes part."""
    return import_module(class_of(name, "regression")[0])


def settings_of(name: str, *, balanced: bool, seed: int) -> dict[str, Any]:
    """Return the arguments of a booster: its defaults, except for seed, verbosity and weights."""
    quiet = {"verbose": -1} if name == LIGHTGBM else {}
    weights = {"class_weight": "balanced"} if balanced else {}
    return {**quiet, **weights, "random_state": seed}


def class_of(name: str, task: Task) -> tuple[str, str]:
    """Return the module and the class name of a booster.

    Examples
    --------
    >>> class_of("LightGBM", "classification")
    ('lightgbm', 'LGBMClassifier')
    """
    kind = "Classifier" if task == "classification" else "Regressor"
    if name == LIGHTGBM:
        return "lightgbm", f"LGBM{kind}"
    return "sklearn.ensemble", f"HistGradientBoosting{kind}"


def booster(name: str, task: Task, *, balanced: bool, seed: int) -> Any:
    """Return an unfitted booster that uses one thread."""
    settings = settings_of(name, balanced=balanced, seed=seed)
    threads = {"n_jobs": 1} if name == LIGHTGBM else {}
    return getattr(load(name), class_of(name, task)[1])(**threads, **settings)
