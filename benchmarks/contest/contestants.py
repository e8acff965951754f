"""The contestants, how to make each model, and which tables it skips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from contest.data import Task
from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    LocalGaussianProcess,
    LocalGaussianProcessClassifier,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from quadfeat._utils.validation import Array

COLUMNS = 1024  # of the maps of scikit-learn
MOST_EXACT_ROWS = 20_000

Make = Callable[[Task, int], Any]  # from a task and a seed to a model
Predictive = Callable[[Any, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Contestant:
    """A model that is fitted to tables.

    Parameters
    ----------
    label : str
        The name in tables.
    make : callable
        Returns an unfitted model for a task and a seed.
    ours : bool, default=False
        Whether seeds, splits and units are varied unless contestants are named.
    tasks : tuple of str
        The tasks that it supports.
    modules : tuple of str
        Optional packages that it needs. They are imported before the clock starts.
    most_rows : int or None
        The largest number of training rows.
    predictive : callable or None
        Returns mean and standard deviation of new targets for a fitted model and rows.
    """

    label: str
    make: Make
    ours: bool = False
    tasks: tuple[Task, ...] = ("regression", "classes")
    modules: tuple[str, ...] = ()
    most_rows: int | None = None
    predictive: Predictive | None = None

    def reason_against(self, task: Task, n_train: int) -> str | None:
        """Return why the contestant skips a table, or None if it takes part."""
        if task not in self.tasks:
            return f"{self.label} is for {' and '.join(self.tasks)} only"
        missing = [module for module in self.modules if find_spec(module) is None]
        if missing:
            return f"{', '.join(missing)} not installed: pip install {' '.join(missing)}"
        if self.most_rows is not None and n_train > self.most_rows:
            return f"{n_train:,} training rows, more than the limit of {self.most_rows:,}"
        return None

    def prepare(self) -> None:
        """Import the optional packages."""
        for module in self.modules:
            import_module(module)


def _on_map(make: Callable[..., Any], task: Task, seed: int) -> Any:
    """Return a linear model on a map of scikit-learn and standardized columns."""
    model = Ridge() if task == "regression" else RidgeClassifier()
    features = make(n_components=COLUMNS, random_state=seed)
    return make_pipeline(StandardScaler(), features, model)


def _boosting(task: Task, seed: int) -> Any:
    regression = task == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    return kind(random_state=seed)


def _lightgbm(task: Task, seed: int) -> Any:
    import lightgbm

    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return kind(random_state=seed, verbose=-1)


def _exact(task: Task, seed: int) -> Any:
    return make_pipeline(StandardScaler(), SVR() if task == "regression" else SVC())


def _svgp(task: Task, seed: int) -> Any:
    from contest.svgp import SparseVariationalGP

    return SparseVariationalGP(random_state=seed)


def _default(n_components: int, task: Task, seed: int) -> Any:
    """Return a model with the Gaussian kernel, the usual scale and ``alpha=1``."""
    kind = QuadratureRidge if task == "regression" else QuadratureRidgeClassifier
    model = kind(kernel="gaussian", n_components=n_components, alpha=1.0, random_state=seed)
    return make_pipeline(StandardScaler(), model)


def _ours(n_components: int, task: Task, seed: int) -> Any:
    """Return the model with no settings, for raw columns."""
    kind = QuadratureRidge if task == "regression" else QuadratureRidgeClassifier
    return kind(n_components=n_components, random_state=seed)


def _local(task: Task, seed: int) -> Any:
    """Return the Gaussian process on neighbors with no settings. It has no seed."""
    return LocalGaussianProcess() if task == "regression" else LocalGaussianProcessClassifier()


def _front_door(task: Task, seed: int) -> Any:
    """Return the front door with no settings, which chooses between our other models."""
    kind = KernelRegressor if task == "regression" else KernelClassifier
    return kind(random_state=seed)


def _ridge_predictive(model: Any, X: Array) -> tuple[Array, Array]:
    """Return the distribution of targets of a model of ours, alone or in a pipeline."""
    mean, deviation = model.predict(X, return_std=True)
    last = model[-1] if hasattr(model, "steps") else model
    return mean, np.sqrt(deviation**2 + last.noise_variance_)


def _svgp_predictive(model: Any, X: Array) -> tuple[Array, Array]:
    return model.predictive(X)


CONTESTANTS: dict[str, Contestant] = {
    "rbfsampler": Contestant("RBFSampler + Ridge", partial(_on_map, RBFSampler)),
    # The default of RBFSampler is gamma=1, far too narrow a kernel for many columns.
    "rbfsampler-scale": Contestant(
        "RBFSampler, scale + Ridge", partial(_on_map, partial(RBFSampler, gamma="scale"))
    ),
    "nystroem": Contestant("Nystroem + Ridge", partial(_on_map, Nystroem)),
    "boosting": Contestant("HistGradientBoosting", _boosting),
    "lightgbm": Contestant("LightGBM", _lightgbm, modules=("lightgbm",)),
    "exact": Contestant("SVR or SVC", _exact, most_rows=MOST_EXACT_ROWS),
    "svgp": Contestant(
        "SVGP",
        _svgp,
        tasks=("regression",),
        modules=("torch", "gpytorch"),
        predictive=_svgp_predictive,
    ),
    **{
        f"default-{n}": Contestant(
            f"fixed kernel, {n:,}", partial(_default, n), predictive=_ridge_predictive
        )
        for n in (1024, 4096)
    },
    **{
        f"quadfeat-{n}": Contestant(
            f"QuadratureRidge, {n:,}", partial(_ours, n), ours=True, predictive=_ridge_predictive
        )
        for n in (1024, 4096)
    },
    "front-door": Contestant(
        "KernelRegressor / KernelClassifier",
        _front_door,
        ours=True,
        predictive=_ridge_predictive,
    ),
    "local": Contestant(
        "LocalGaussianProcess",
        _local,
        ours=True,
        predictive=_ridge_predictive,
    ),
}

GROUPS: dict[str, list[str]] = {
    "all": list(CONTESTANTS),
    "ours": [name for name, contestant in CONTESTANTS.items() if contestant.ours],
    "rivals": [name for name, contestant in CONTESTANTS.items() if not contestant.ours],
}
