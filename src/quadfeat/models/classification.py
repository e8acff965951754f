"""Classification by kernel ridge regression, on any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input, to_numpy
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.data.rows import Rows
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.models import parameters
from quadfeat.models.base import QuadratureModel, can_add_rows
from quadfeat.models.class_weights import ClassWeights, balanced, check_class_weight, check_keys
from quadfeat.models.keywords import explain_keywords
from quadfeat.models.lazy import lazily
from quadfeat.models.scores import BlockScoreMixin
from quadfeat.rules import Rule
from quadfeat.solvers.base import Solution
from quadfeat.solvers.calibration import Calibration
from quadfeat.solvers.left_out import calibrated
from quadfeat.solvers.summaries import check_classes, joint_classes
from quadfeat.solvers.targets import Labels

__all__ = ["QuadratureRidgeClassifier"]


def can_predict_proba(model: Any) -> bool:
    """Return True if a classifier has probabilities; otherwise raise an error with the reason."""
    solution = getattr(model, "_solution", None)
    if solution is None:
        solver = parameters.known_solver(model)
        possible, name = solver is None or solver.adds_rows, getattr(solver, "name", "auto")
    else:
        possible, name = solution.has_probabilities, solution.solver_name
    if not possible:
        raise AttributeError(
            f"predict_proba needs the Gram matrix of the features, which solver={name!r} does not "
            "compute. Use solver='normal'."
        )
    return True


@register(model=True)
class QuadratureRidgeClassifier(BlockScoreMixin, ClassifierMixin, QuadratureModel):
    r"""Classification by kernel ridge regression, in time linear in the number of rows.

    The model fits a ridge regression to a target for each class: 1 for rows of the class and -1
    for other rows. Two classes share one target. It predicts the class with the largest value.

    Parameters
    ----------
    n_components, rule, random_state, n_jobs
        As in :class:`QuadratureFeatures`.
    kernel, gamma, features, alpha, alphas, lengthscales, fit_intercept, solver, tol, max_iter
        As in :class:`QuadratureRidge`.
    gram_dtype, time_limit, verbose, checkpoint
        As in :class:`QuadratureRidge`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights. ``"balanced"`` gives all classes
        the same total weight. It needs all rows at once, in memory or in a Dask collection.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    features_, map_, kernel_, why_, candidates_, metric_
        As in :class:`QuadratureRidge`.
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    temperature_ : float
        The temperature of the probabilities; see :meth:`predict_proba`.
    alpha_, path_, log_marginal_likelihood_, gram_dtype_, n_iter_, solver_error_
        As in :class:`QuadratureRidge`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    QuadratureRidge : Regression.

    Notes
    -----
    A fitted classifier keeps up to 2048 training rows, to calibrate probabilities on first use. Its
    pickles and files contain these rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from quadfeat import QuadratureRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = QuadratureRidgeClassifier(random_state=0).fit(X_train, y_train)
    >>> round(model.score(X_test, y_test), 2)
    0.97
    """

    @explain_keywords
    def __init__(
        self,
        kernel: Kernel | str = "auto",
        *,
        gamma: Any = None,
        n_components: int = 1024,
        rule: Rule | str = "auto",
        features: Any = None,
        alpha: Any = "auto",
        alphas: Any = None,
        lengthscales: str | None = None,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        gram_dtype: str = "float32",
        class_weight: Any = None,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            n_components=n_components,
            rule=rule,
            features=features,
            alpha=alpha,
            alphas=alphas,
            lengthscales=lengthscales,
            fit_intercept=fit_intercept,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            gram_dtype=gram_dtype,
            time_limit=time_limit,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            checkpoint=checkpoint,
        )
        self.class_weight = class_weight

    saved_attributes: tuple[str, ...] = (*QuadratureModel.saved_attributes, "classes_")

    def n_outputs(self, solved: int) -> int:
        """Return the expected number of outputs, given that the solution has ``solved``."""
        check_classes(self.classes_, "classes_")
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def checked_targets(self, y: Any) -> Any:
        """Validate and return the labels."""
        check_classification_targets(y)
        return column_or_1d(y, warn=True)

    def targets(self) -> Labels:
        """Return the encoding of labels as columns."""
        return Labels(self.classes_ if getattr(self, "_declared", False) else None)

    def declare(self, classes: Any) -> None:
        """Store the classes of all rows, if the user has passed them."""
        if classes is not None:
            self._declared = True
            self.classes_ = classes

    def check_parameters(self) -> None:
        """Raise an error if a parameter is not valid, before any computation."""
        super().check_parameters()
        check_class_weight(self.class_weight)

    def weighted(self, rows: Rows) -> Rows:
        """Return the rows with their weights multiplied by the class weights."""
        if self.class_weight is None:
            return rows
        weights = self.class_weight
        if isinstance(weights, str):
            self._balanced = weights = balanced(rows)
        return rows.changed(ClassWeights(weights))

    def describe(self, solution: Solution) -> None:
        """Set the attribute ``classes_``."""
        if solution.classes is None:
            raise ValueError(
                f"solver={solution.solver_name!r} returned a solution without classes. Set its "
                "attribute classes."
            )
        self.classes_ = solution.classes

    def check_fit(self) -> None:
        """Raise an error if there is only one class, or if class weights do not match."""
        self._check_classes()
        check_keys(self.class_weight, self.classes_.tolist())

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has only one class, {self.classes_[0]!r}. Pass rows of at least two classes."
            )

    @available_if(can_add_rows)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> QuadratureRidgeClassifier:
        """Add rows to the rows of earlier calls.

        If ``features`` is fitted, or the map does not depend on the data, the result is the same
        as that of one :meth:`fit` to all rows, up to rounding, regardless of batches and their
        order. Otherwise the first batch determines the kernel and the rule.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes, in the first call. By default, any batch may contain new classes.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        QuadratureRidgeClassifier
            This model. Its coefficients are computed on first use.
        """
        declared = None
        if classes is not None:
            declared = np.unique(to_numpy(classes, "classes"))
            if hasattr(self, "features_") and not np.array_equal(declared, self.classes_):
                raise ValueError(
                    f"classes={check.one_line(classes)} differs from the classes of earlier "
                    f"batches, {check.one_line(self.classes_)}. Pass the same classes, or None."
                )
        return self._add(X, y, sample_weight, declared)

    def _check_mergeable(self, other: Any) -> None:
        if hasattr(other, "_balanced"):
            raise ValueError(
                "class_weight='balanced' needs the classes of all rows at once, but the other "
                "model has balanced only its own rows. Fit both with a dict of weights."
            )
        ours, theirs = (
            getattr(model, "_fitted_with", {}).get("class_weight") for model in (self, other)
        )
        if ours != theirs and None not in (ours, theirs):
            raise ValueError(
                f"class_weight is {ours} for this model, but {theirs} for the other model. Fit "
                "both with the same class weights."
            )
        self.targets().check_declared(joint_classes(self.classes_, other.classes_))
        super()._check_mergeable(other)

    def reason_against_adding(self) -> str | None:
        """Return the reason why rows cannot be added; None if they can."""
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return (
                "class_weight='balanced' needs the classes of all rows at once, so rows cannot be "
                "added. Pass a dict of weights."
            )
        return super().reason_against_adding()

    @property
    @on_snapshot
    def coef_(self) -> Float64Array:
        """Coefficients of the features."""
        coefficients: Float64Array = self._solved().coefficients.T
        return coefficients

    @property
    @on_snapshot
    def intercept_(self) -> Float64Array:
        """The intercepts."""
        intercept: Float64Array = self._solved().intercept
        return intercept

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

    @available_if(can_predict_proba)
    @follows_input
    @on_snapshot
    def predict_proba(self, X: Any) -> Array:
        """Compute the probability of each class.

        Decision values are divided by a temperature, and the softmax converts them to
        probabilities. For two classes, this is the logistic function of twice the scaled decision
        value. The temperature maximizes the likelihood of up to 2048 training rows, given their
        exact leave-one-out decision values, and needs no second fit. If class frequencies improve
        the likelihood by more than chance, a share of their logarithms is added before the
        softmax. Probabilities are therefore not worse than class frequencies, even if the decision
        values are uninformative.

        :meth:`predict` returns the class with the largest decision value. It is also the most
        likely class, unless class frequencies are added, which favors frequent classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        if is_dask(X):
            return self._lazily("predict_proba", X)
        decisions = self.decision_function(X)
        return self._calibration().probabilities(decisions.reshape(len(decisions), -1))

    def _lazily(self, method: str, X: Any) -> Any:
        """Return the result of a method for a Dask collection as a lazy Dask array."""
        check_is_fitted(self)
        self._check_classes()
        n_classes = len(self.classes_)
        if method == "predict":
            return lazily(self, method, X, (), self.classes_.dtype)
        if method == "decision_function":
            return lazily(self, method, X, () if n_classes == 2 else (n_classes,))
        return lazily(self, method, X, (n_classes,), calibration=self._calibration())

    @property
    @on_snapshot
    def temperature_(self) -> float:
        """The number that divides decision values before the softmax."""
        return self._calibration().temperature

    def _calibration(self) -> Calibration:
        """Return the calibration of probabilities. It is computed on first use."""
        check_is_fitted(self)
        solution = self._solution
        if getattr(solution, "calibration", None) is None:
            found = self._posterior("predict_proba")
            solution.calibration = calibrated(found, self.map_, self.targets(), solution.summary)
        calibration: Calibration = solution.calibration
        return calibration
