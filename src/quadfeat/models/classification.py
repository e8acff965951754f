"""Classification by kernel ridge regression, on any number of rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils.array_api import follows_input
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io import register
from quadfeat.kernels import Kernel
from quadfeat.models import parameters
from quadfeat.models.base import QuadratureModel, can_add_rows
from quadfeat.models.class_targets import ClassTargetsMixin
from quadfeat.models.keywords import explain_keywords
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
class QuadratureRidgeClassifier(
    BlockScoreMixin, ClassTargetsMixin, ClassifierMixin, QuadratureModel
):
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

    def _n_outputs(self, solved: int) -> int:
        """Return the expected number of outputs, given that the solution has ``solved``."""
        check_classes(self.classes_, "classes_")
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _targets(self) -> Labels:
        """Return the encoding of labels as columns."""
        return Labels(self.classes_ if getattr(self, "_declared", False) else None)

    def _describe(self, solution: Solution) -> None:
        """Set the attribute ``classes_``."""
        if solution.classes is None:
            raise ValueError(
                f"solver={solution.solver_name!r} returned a solution without classes. Set its "
                "attribute classes."
            )
        self.classes_ = solution.classes

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
        return self._add(X, y, sample_weight, self._declaration(classes))

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
        self._targets().check_declared(joint_classes(self.classes_, other.classes_))
        super()._check_mergeable(other)

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
        return self._probabilities(X)

    def _calibrated(self) -> Calibration:
        check_is_fitted(self)
        solution = self._solution
        if getattr(solution, "calibration", None) is None:
            found = self._posterior("predict_proba")
            solution.calibration = calibrated(found, self.map_, self._targets(), solution.summary)
        calibration: Calibration = solution.calibration
        return calibration
