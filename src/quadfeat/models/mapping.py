"""The map of a model, passed by the user or fitted to the rows."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from quadfeat._utils import validation as check
from quadfeat.data.rows import Rows
from quadfeat.io.persistence import reason_against_saving
from quadfeat.learning.candidates import Choice
from quadfeat.maps.survey import view_of
from quadfeat.maps.transformer import TransformerMap, fitted, is_fitted, is_transformer
from quadfeat.models.choosing import choose, searches
from quadfeat.models.features import QuadratureFeatures
from quadfeat.models.finals import Chosen
from quadfeat.models.given_kernel import given_kernel
from quadfeat.models.narrow_kernels import warn_of_narrow_kernel
from quadfeat.solvers.base import Solver


def check_same_names(model: Any, other: Any, name: str) -> None:
    """Raise an error if two estimators were fitted to columns with different names."""
    ours, theirs = (getattr(one, "feature_names_in_", None) for one in (model, other))
    if ours is not None and theirs is not None and not np.array_equal(ours, theirs):
        raise ValueError(
            f"{name} was fitted to the columns {check.one_line(list(theirs))}, but this model has "
            f"the columns {check.one_line(list(ours))}. Use the same columns in the same order."
        )


class Given(ABC):
    """The parameter ``features`` of a model. It becomes the attribute ``features_``."""

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    @abstractmethod
    def is_fitted(self) -> bool:
        """Whether the transformer is already fitted."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a string that identifies a fitted transformer."""

    @abstractmethod
    def used(self, model: Any, rows: Rows) -> Any:
        """Return ``features_`` for a fitted transformer."""

    @abstractmethod
    def fitted(self, model: Any, rows: Rows) -> Any:
        """Fit a copy of the transformer to rows, and return it as ``features_``."""

    @abstractmethod
    def seeds(self, features: Any) -> list[Any]:
        """Return the seeds from which ``features_`` was drawn."""

    def checked(self, model: Any, n_columns: int) -> None:
        """Raise an error if the transformer was fitted to other columns."""
        found = getattr(self.given, "n_features_in_", n_columns)
        if found != n_columns:
            raise ValueError(
                f"features was fitted to {found} columns, but X has {n_columns}. Fit it to data "
                "with the columns of X."
            )
        check_same_names(model, self.given, "features")


class GivenFeatures(Given):
    """A ``QuadratureFeatures``."""

    @property
    def is_fitted(self) -> bool:
        return bool(self.given.__sklearn_is_fitted__())

    def fingerprint(self) -> str:
        return str(self.given.fingerprint())

    def used(self, model: Any, rows: Rows) -> Any:
        self.checked(model, rows.n_columns)
        return self._with_parameters_of(model, copy.copy(self.given))

    def fitted(self, model: Any, rows: Rows) -> Any:
        features = self._with_parameters_of(model, clone(self.given))
        if features.random_state is None:
            features.random_state = model.random_state
        return fit_features(features, rows, names_of(model))

    def _with_parameters_of(self, model: Any, features: Any) -> Any:
        """Set the ``n_jobs`` of the model, if it is not None, and return the transformer."""
        if model.n_jobs is not None:
            features.n_jobs = model.n_jobs
        return features

    def seeds(self, features: Any) -> list[Any]:
        return [features.random_state]


class GivenTransformer(Given):
    """Any other transformer, such as one from scikit-learn."""

    @property
    def is_fitted(self) -> bool:
        return is_fitted(self.given)

    def fingerprint(self) -> str:
        return TransformerMap(self.given, 0, 0).fingerprint()

    def used(self, model: Any, rows: Rows) -> Any:
        self.checked(model, rows.n_columns)
        return self.given

    def fitted(self, model: Any, rows: Rows) -> Any:
        opening = rows.opening()
        if opening.whole is not None:
            X, y, weights = opening.whole
        else:  # rows are on workers: fit to a sample without targets
            X, y, weights = view_of(opening).table, None, None
        return fitted(self.given, X, y, weights)

    def seeds(self, features: Any) -> list[Any]:
        parameters = self.given.get_params(deep=True) if hasattr(self.given, "get_params") else {}
        return [value for name, value in parameters.items() if name.endswith("random_state")]


def given_by(model: Any) -> Given | None:
    """Return the parameter ``features`` of a model; None if the model fits its own map."""
    given = model.features
    if isinstance(given, FrozenEstimator):
        given = given.estimator
    if given is None:
        return None
    if hasattr(given, "fit_to") and not isinstance(given, type):
        return GivenFeatures(given)
    if not is_transformer(given):
        raise TypeError(
            f"features={check.one_line(given)} is not valid: pass a QuadratureFeatures or another "
            "transformer."
        )
    return GivenTransformer(given)


def given_fitted(model: Any) -> str | None:
    """Return the fingerprint of ``features`` if it is fitted; otherwise None."""
    given = given_by(model)
    return given.fingerprint() if given is not None and given.is_fitted else None


def features_for(model: Any, rows: Rows, solver: Solver | None) -> Chosen:
    """Return the fitted transformer of a model, and the reason for its kernel.

    Parameters
    ----------
    model : QuadratureModel
    rows : Rows
    solver : Solver or None
        Validates kernels on all rows if the model has to find its kernel. With None, kernels are
        validated on a sample.
    """
    given = given_by(model)
    if given is not None:
        if given.is_fitted:
            features = given.used(model, rows)
        else:
            features = given.fitted(model, rows)
            warn_of_narrow_kernel(features)
        return Chosen(features, Choice("The map was given as features."))
    if searches(model):
        return choose(model, rows, fit_features, solver)
    kernel = model.kernel if model.gamma is None else given_kernel(model)
    features = QuadratureFeatures(
        kernel,
        n_components=model.n_components,
        rule=model.rule,
        random_state=model.random_state,
        n_jobs=model.n_jobs,
    )
    why = f"The kernel was given as kernel={check.one_line(kernel)}."
    features = fit_features(features, rows, names_of(model))
    warn_of_narrow_kernel(features)
    return Chosen(features, Choice(why))


def fit_features(features: QuadratureFeatures, rows: Rows, names: Any = None) -> QuadratureFeatures:
    """Fit a map to all rows, or to the first block of a stream.

    Parameters
    ----------
    features : QuadratureFeatures
    rows : Rows
    names : array of str, default=None
        Column names for warnings.
    """
    view = view_of(rows.opening(), given_kernel(features).projection)
    return features.fit_to(np.empty((0, rows.n_columns)), view, names)


def names_of(model: Any) -> Any:
    """Return the column names of a model; None if the columns have no names."""
    return getattr(model, "feature_names_in_", None)


def kept_map(model: Any) -> dict[str, Any]:
    """Return the entries for the map in a checkpoint.

    The map is None if it can be restored without the checkpoint: because the user passed it fitted,
    or because it cannot be saved but can be drawn again from an integer seed.
    """
    if model.checkpoint is None:
        return {}
    kept = {"map": model.map_.fingerprint(), "features": None, "choice": model._choice}
    given = given_by(model)
    if given is not None and given.is_fitted:
        return kept
    reason = reason_against_saving(model.features_)
    if reason is None:
        return kept | {"features": model.features_}
    given = GivenFeatures(model.features_) if given is None else given
    if not all(isinstance(seed, Integral) for seed in given.seeds(model.features_)):
        raise ValueError(
            f"checkpoint={str(model.checkpoint)!r} cannot store this map: {reason} Set "
            "random_state to an integer, so that the map can be drawn again."
        )
    return kept
