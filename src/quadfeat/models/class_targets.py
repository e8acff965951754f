"""Classes as targets: labels, weights and predictions, the same for all classifiers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input, to_numpy
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.data.rows import Rows
from quadfeat.models.class_weights import ClassWeights, balanced, check_class_weight, check_keys
from quadfeat.models.lazy import lazily
from quadfeat.models.no_intervals import NoIntervalsMixin
from quadfeat.solvers.calibration import Calibration


class ClassTargetsMixin(NoIntervalsMixin):
    """Let a model have classes as targets.

    It precedes the base class of a model.
    """

    class_weight: Any
    classes_: Array

    # Of the base class: validate rows, and compute decision values of shape (n_rows, n_outputs).
    _validated: Callable[[Any], Any]
    _decisions: Callable[[Any], Float64Array]

    def _calibrated(self) -> Calibration:
        """Return the calibration of probabilities. It is computed on first use."""
        raise NotImplementedError

    def _checked_targets(self, y: Any) -> Any:
        """Validate and return the labels."""
        check_classification_targets(y)
        return column_or_1d(y, warn=True)

    def _declare(self, classes: Any) -> None:
        """Store the classes of all rows, if the user has passed them."""
        if classes is not None:
            self._declared = True
            self.classes_ = classes

    def _declaration(self, classes: Any) -> Array | None:
        """Return the classes that a user passes to ``partial_fit``, in ascending order."""
        if classes is None:
            return None
        declared = np.unique(to_numpy(classes, "classes"))
        if hasattr(self, "_solution") and not np.array_equal(declared, self.classes_):
            raise ValueError(
                f"classes={check.one_line(classes)} differs from the classes of earlier "
                f"batches, {check.one_line(self.classes_)}. Pass the same classes, or None."
            )
        return declared

    def _check_parameters(self) -> None:
        """Raise an error if a parameter is not valid, before any computation."""
        super()._check_parameters()  # type: ignore[misc]
        check_class_weight(self.class_weight)

    def _weighted(self, rows: Rows) -> Rows:
        """Return the rows with their weights multiplied by the class weights."""
        if self.class_weight is None:
            return rows
        weights = self.class_weight
        if isinstance(weights, str):
            self._balanced = weights = balanced(rows)
        return rows.changed(ClassWeights(weights))

    def _check_fit(self) -> None:
        """Raise an error if there is only one class, or if class weights do not match."""
        self._check_classes()
        check_keys(self.class_weight, self.classes_.tolist())

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y has only one class, {only!r}. Pass rows of at least two classes.")

    def _reason_against_adding(self) -> str | None:
        """Return the reason why rows cannot be added; None if they can."""
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return (
                "class_weight='balanced' needs the classes of all rows at once, so rows cannot be "
                "added. Pass a dict of weights."
            )
        reason: str | None = super()._reason_against_adding()  # type: ignore[misc]
        return reason

    @follows_input
    @on_snapshot
    def decision_function(self, X: Any) -> Array:
        """Compute the predicted target of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes, positive values mean the second class. A lazy Dask array if ``X`` is
            a Dask collection.
        """
        if is_dask(X):
            return self._lazily("decision_function", X)
        X = self._validated(X)
        self._check_classes()
        decisions = self._decisions(X)
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    @follows_input
    @on_snapshot
    def predict(self, X: Any) -> Array:
        """Predict the class with the largest decision value.

        This can differ from the class with the largest probability, because
        :meth:`predict_proba` may take class frequencies into account.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask(X):
            return self._lazily("predict", X)
        decisions = self.decision_function(X)
        which = (decisions > 0).astype(int) if decisions.ndim == 1 else decisions.argmax(axis=1)
        return self.classes_[which]

    def _probabilities(self, X: Any) -> Array:
        """Return the probability of each class."""
        if is_dask(X):
            return self._lazily("predict_proba", X)
        decisions = self.decision_function(X)
        return self._calibrated().probabilities(decisions.reshape(len(decisions), -1))

    def _lazily(self, method: str, X: Any) -> Any:
        """Return the result of a method for a Dask collection as a lazy Dask array."""
        check_is_fitted(self)
        self._check_classes()
        n_classes = len(self.classes_)
        if method == "predict":
            return lazily(self, method, X, (), self.classes_.dtype)
        if method == "decision_function":
            return lazily(self, method, X, () if n_classes == 2 else (n_classes,))
        return lazily(self, method, X, (n_classes,), calibration=self._calibrated())

    @property
    @on_snapshot
    def temperature_(self) -> float:
        """The number that divides decision values before the softmax."""
        return self._calibrated().temperature
