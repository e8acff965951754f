"""Kernel ridge regression, classification and Gaussian processes on rows of any number."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input, to_numpy
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import on_snapshot, snapshot
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block, is_dask, is_stream
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.maps.products import FeatureProducts
from quadfeat.models import calibration
from quadfeat.models.base import QuadratureModel, can_add_rows, can_predict_proba
from quadfeat.rules import Rule
from quadfeat.solvers.moments import Accumulator
from quadfeat.solvers.posterior import ROWS_PER_SOLVE, Posterior
from quadfeat.solvers.summaries import (
    Summary,
    amounts_of,
    check_classes,
    class_indices,
    joint_classes,
)

__all__ = ["QuadratureRidge", "QuadratureRidgeClassifier"]


@register(model=True)
class QuadratureRidge(RegressorMixin, QuadratureModel):
    r"""Kernel ridge regression, or a Gaussian process, in time linear in the number of rows.

    The kernel is replaced by the features of :class:`QuadratureFeatures`. They are never in memory
    as a whole: a block of them is made, multiplied and dropped.

    Parameters
    ----------
    kernel, n_components, rule, random_state, n_jobs
        As in :class:`QuadratureFeatures`.
    features : QuadratureFeatures, default=None
        The map, in place of ``kernel``, ``n_components`` and ``rule``. A fitted one is used as it
        is (``sklearn.base.clone``, and so a grid search, turns it into one that is not fitted,
        unless it is in a ``sklearn.frozen.FrozenEstimator``); otherwise it is fitted first.
    alpha : float, {"gcv", "loo", "evidence"} or array-like, default=1.0
        Penalty on the squares of the coefficients: the ratio of the variance of the noise to that
        of the signal. A word means the best one by generalised cross-validation, by exact
        leave-one-out errors (which takes a second pass over the rows) or by the evidence; an array,
        the best of these by generalised cross-validation. That takes an eigendecomposition instead
        of a Cholesky factor, which for thousands of features takes many times as long.
    alphas : array-like, default=None
        What is tried where ``alpha`` is a word; by default a path that covers what may be best.
    lengthscales : {"isotropic", "ard"}, default=None
        Learn the scale of the kernel, one number or one for each input, by the evidence of an exact
        Gaussian process on a sample of 1000 rows. The scale that the kernel has does not matter.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalised.
    solver : {"auto", "normal", "cg"}, default="auto"
        ``"normal"`` sums up products of features in one pass and solves the normal equations:
        memory of order ``n_components ** 2``. ``"cg"`` are conjugate gradients with a pass for each
        step and next to no memory. ``"auto"`` is ``"cg"`` for more than 8192 features where
        ``alpha`` is a number and the rows can be read again.
    tol : float, default=1e-3
        For ``"cg"``: the predictions of the training targets are to differ from those of the exact
        solution by at most ``tol`` times the targets (about their mean), in the root mean square.
        A bound, rounding of predictions included; ``fit`` warns if it cannot be reached.
    max_iter : int, default=None
        For ``"cg"``: steps at most. None is 500.
    gram_dtype : {"float32", "float64"}, default="float32"
        For ``"normal"``: in what products of features are computed within a block of rows; blocks
        are added up in float64. Blocks of fewer than 512 rows are multiplied in float64 anyway.
        If ``alpha`` is too small for the measured error of float32, the products are computed again
        in float64, or a warning is raised where rows cannot be read again.
    verbose : bool, default=False
        Show progress on standard error. Of Dask's collections that is how many rows there were;
        on the way Dask has its own.
    checkpoint : str or path, default=None
        A file to which the state of a fit is written every now and then. A fit that was killed
        resumes from it when it is started again with the same data, and the result is the same. The
        file holds no code, has a checksum, and is removed at the end of the fit.

    Attributes
    ----------
    features_ : QuadratureFeatures
        The fitted map.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
    intercept_ : float or ndarray of shape (n_outputs,)
    alpha_ : float
        The penalty that was used.
    path_ : AlphaPath or None
        The alphas that were tried, with GCV, evidence and leave-one-out error of each.
    log_marginal_likelihood_ : float
        The log evidence at ``alpha_``; the signal variance is that which makes it largest.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Of the Gaussian process. The prior variance of its value at ``x`` is the first times
        ``kernel(x, x)``.
        Both are NaN if all targets are equal, since they cannot be estimated.
    gram_dtype_ : str
        The dtype in which products of features were computed in the end.
    n_iter_ : int
        Steps of conjugate gradients; 1 for ``solver="normal"``.
    solver_error_ : float
        A bound on the error of ``predict`` for the training rows, relative to the targets.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    QuadratureRidgeClassifier : The same for classes.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (2000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(2000)
    >>> model = QuadratureRidge(n_components=64, alpha="evidence", random_state=0).fit(X, y)
    >>> mean, deviation = model.predict([[0.5], [30.0]], return_std=True)
    >>> mean.round(1), deviation[0] < 0.05 < deviation[1]
    (array([0.8, ...]), np.True_)
    >>> round(float(np.sqrt(model.noise_variance_)), 1)
    0.1
    """

    _target_checks = {"multi_output": True, "y_numeric": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _expected_outputs(self, n_outputs: int) -> int:
        checks.check_flag(self._one_output, "_one_output")
        return 1 if self._one_output else n_outputs

    def _checked_targets(self, y: Any) -> Any:
        if getattr(self, "_one_output", y.ndim == 1) != (y.ndim == 1):
            raise ValueError(
                f"y has shape {y.shape}, unlike earlier batches: give targets of the same shape."
            )
        self._one_output: bool = y.ndim == 1
        return np.asarray(y, dtype=np.float64)

    def _targets(self, y: Any, summary: Summary | None) -> Float64Array:
        targets: Float64Array = y.reshape(len(y), -1)
        if summary is not None and targets.shape[1] != summary.moments.n_outputs:
            raise ValueError(
                f"y has {targets.shape[1]} columns, and had {summary.moments.n_outputs} before: "
                "give targets of the same shape."
            )
        return targets

    def _start(self, block: Block, n_components: int) -> Summary:
        targets, weights = self._targets(block.y, None), block.weights
        if weights is not None and weights.any():  # a target that does not count may be anything
            targets = targets[weights > 0]
        return Summary.empty(n_components, targets, None)

    @available_if(can_add_rows)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuadratureRidge:
        """Add rows to those seen so far.

        The result is that of one :meth:`fit` to all rows, to rounding, for any batches in any
        order, with a map that is given fitted (``features``) or does not depend on the data.
        Otherwise the first batch decides about the kernel's scale and the rule.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        QuadratureRidge
            The model. Its coefficients are computed when they are asked for.
        """
        return self._partial_fit(X, y, sample_weight)

    @property
    @on_snapshot
    def coef_(self) -> Float64Array:
        """Coefficients of the features."""
        check_is_fitted(self)
        coefficients = self._solution.coefficients
        return coefficients[:, 0] if self._one_output else coefficients.T

    @property
    @on_snapshot
    def intercept_(self) -> Any:
        """The constant."""
        check_is_fitted(self)
        return self._per_output(self._solution.intercept)

    @property
    @on_snapshot
    def signal_variance_(self) -> Any:
        """Variance of the signal."""
        return self._per_output(self._told("signal_variance_").signal_variance)

    @property
    @on_snapshot
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        return self._per_output(self._told("noise_variance_").noise_variance)

    def _told(self, what: str) -> Posterior:
        """Return the posterior; warn if the targets tell nothing about variances."""
        found = self._posterior(what)
        if np.isnan(found.signal_variance).any():
            check.warn_user(
                f"{what} is NaN: all targets in y are equal, which leaves no information about "
                "signal or noise. Give rows with different targets."
            )
        return found

    def _per_output(self, values: Float64Array) -> Any:
        return float(values[0]) if self._one_output else values

    @follows_input
    @on_snapshot
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Return also the standard deviation of the Gaussian process: how well its value at a row
            is known, not how far a target may be from it, whose variance has ``noise_variance_`` on
            top. It is that of the process whose kernel the features have: what they are off by is
            not in it, so with few features intervals for the value itself are too short.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            float64, since targets may have more digits than float32 rows. A lazy Dask array if
            ``X`` is a Dask collection.
        y_std : ndarray of the same shape
            Only with ``return_std``.
        """
        if is_dask(X):
            from quadfeat.data import distributed

            return distributed.predict(self, X, return_std=return_std)
        check.check_flag(return_std, "return_std")
        X = self._rows(X)
        mean = self._shaped(self._decisions(X))
        if not return_std:
            return mean
        found = self._posterior("return_std")
        noise_variance = found.checked_noise_variance()
        leverage = np.empty(X.shape[0])
        for rows in gen_batches(X.shape[0], ROWS_PER_SOLVE):
            leverage[rows] = found.leverage(self.features_._written(X[rows]))
        return mean, self._shaped(np.sqrt(np.multiply.outer(leverage, noise_variance)))

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._one_output else values

    @follows_input
    @on_snapshot
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw functions from the Gaussian process, given the data, and return them at rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_samples : int, default=1
            How many functions.
        random_state : int, numpy.random.Generator, RandomState or None, default=0

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            Without noise.
        """
        X = self._rows(X)
        check.check_count(n_samples, "n_samples")
        found = self._posterior("sample_y")
        coefficients, intercepts = found.draw(n_samples, generator(random_state))
        flat = coefficients.reshape(len(coefficients), -1)
        values = FeatureProducts(self.features_).predict(X, flat)
        values = values.reshape(-1, *coefficients.shape[1:]) + intercepts
        return values[:, 0] if self._one_output else values


@register(model=True)
class QuadratureRidgeClassifier(ClassifierMixin, QuadratureModel):
    r"""Classification by kernel ridge regression on the classes, in time linear in the rows.

    Each class has a target that is 1 for its rows and -1 for the others; two classes share one. The
    class with the largest prediction wins.

    Parameters
    ----------
    kernel, n_components, rule, random_state, n_jobs
        As in :class:`QuadratureFeatures`.
    features, alpha, alphas, lengthscales, fit_intercept, solver, tol, max_iter
        As in :class:`QuadratureRidge`.
    gram_dtype, verbose, checkpoint
        As in :class:`QuadratureRidge`.
    class_weight : dict, "balanced" or None, default=None
        Weights of classes, by which those of their rows are multiplied: the result is that of
        passing the products as ``sample_weight``. ``"balanced"`` makes all classes count the same,
        and needs all rows at once, or blocks of Dask's.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    features_ : QuadratureFeatures
        The fitted map.
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    temperature_ : float
        Of the probabilities; see :meth:`predict_proba`.
    alpha_, path_, log_marginal_likelihood_, gram_dtype_, n_iter_, solver_error_
        As in :class:`QuadratureRidge`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    QuadratureRidge : The same for numbers.

    Notes
    -----
    A fitted classifier holds up to 2048 of its rows, to calibrate probabilities when it is asked
    for them; so do its pickles and files.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from quadfeat import QuadratureRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = QuadratureRidgeClassifier(alpha=0.1, random_state=0).fit(X_train, y_train)
    >>> round(model.score(X_test, y_test), 2)
    0.99
    """

    def __init__(
        self,
        kernel: Kernel | str = "gaussian",
        *,
        n_components: int = 1024,
        rule: Rule | str = "auto",
        features: Any = None,
        alpha: Any = 1.0,
        alphas: Any = None,
        lengthscales: str | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        gram_dtype: str = "float32",
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        checkpoint: Any = None,
    ) -> None:
        super().__init__(
            kernel,
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
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            checkpoint=checkpoint,
        )
        self.class_weight = class_weight

    saved_attributes: tuple[str, ...] = (*QuadratureModel.saved_attributes, "classes_")

    def _expected_outputs(self, n_outputs: int) -> int:
        check_classes(self.classes_, "classes_")
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _checked_targets(self, y: Any) -> Any:
        check_classification_targets(y)
        return column_or_1d(y, warn=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        weights = self.class_weight
        known = weights is None or isinstance(weights, dict)
        if not known and not (isinstance(weights, str) and weights == "balanced"):
            raise ValueError(
                f"class_weight={weights!r} is not valid: give a dict of weights, 'balanced' or "
                "None."
            )

    def _weighted(self, block: Block) -> Block:
        known = self.class_weight != "balanced" or hasattr(self, "_balanced")
        if self.class_weight is None or not known:
            return block
        classes, which = np.unique(block.y, return_inverse=True)
        weights = np.array([self._weight_of(label) for label in classes.tolist()])[which]
        return block._replace(weights=weights if block.weights is None else weights * block.weights)

    def _weight_of(self, label: Any) -> float:
        """Return the weight of a class."""
        weights = self._balanced if self.class_weight == "balanced" else self.class_weight
        value = weights.get(label, 1.0)
        if not check.is_number(value) or not 0 <= value < np.inf:
            raise ValueError(
                f"class_weight={self.class_weight!r} is not valid: the weight of {label!r} has to "
                "be a number >= 0."
            )
        return float(value)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> QuadratureRidgeClassifier:
        if self.class_weight == "balanced" and y is None and is_stream(X):
            raise ValueError(
                "class_weight='balanced' needs the classes of all rows at once, and X is an "
                "iterable: give a dict of weights."
            )
        return super()._fit(X, y, sample_weight)

    def _fit_source(self, source: Any) -> None:
        super()._fit_source(source)
        self._check_all_classes()

    def _look_at(self, table: Block) -> None:
        if self.class_weight == "balanced":
            self._balance(*amounts_of(table.y, table.weights))

    def _balance(self, classes: Array, amounts: Float64Array) -> None:
        """Set the weights with which all classes count the same."""
        share = amounts.sum() / max(1, np.count_nonzero(amounts))
        self._balanced = {
            label: share / amount if amount > 0 else 1.0
            for label, amount in zip(classes.tolist(), amounts, strict=True)
        }

    def _targets(self, y: Any, summary: Summary | None) -> Float64Array:
        classes: Any = np.unique(y) if summary is None else summary.classes
        targets = np.zeros((len(y), len(classes)))
        targets[np.arange(len(y)), class_indices(y, classes)] = 1.0
        return targets

    def _start(self, block: Block, n_components: int, classes: Any = None) -> Summary:
        if classes is None:
            classes = np.unique(block.y)
        else:
            self._declared = True
        return Summary.empty(n_components, np.zeros((0, len(classes))), classes)

    def _prepared(self, summary: Summary, block: Block) -> Summary:
        assert summary.classes is not None
        classes = joint_classes(summary.classes, block.y)
        if len(classes) == len(summary.classes):
            return summary
        if getattr(self, "_declared", False):
            self._check_declared(classes, summary.classes)
        return summary.with_classes(classes)

    def _check_declared(self, classes: Array, declared: Array) -> None:
        """Raise an error for classes that were not given to the first ``partial_fit``."""
        new = np.setdiff1d(classes, declared)
        if len(new):
            raise ValueError(
                f"y has the classes {new.tolist()}, which are not among those that were given to "
                f"the first partial_fit: {declared.tolist()}."
            )

    def _extended(self, summary: Summary, accumulator: Accumulator, block: Block) -> Summary:
        extended = super()._extended(summary, accumulator, block)
        assert extended.classes is not None
        which = class_indices(block.y, extended.classes)
        return extended.with_rows(block.X, which, block.weights)

    def _transform(self, summary: Summary) -> Float64Array:
        assert summary.classes is not None
        n_classes = len(summary.classes)
        transform = np.vstack([2.0 * np.eye(n_classes), -np.ones((1, n_classes))])
        return transform[:, 1:] if n_classes == 2 else transform

    def _describe(self, summary: Summary) -> None:
        assert summary.classes is not None
        self.classes_ = summary.classes

    def _check_all_classes(self) -> None:
        """Complain about classes, and weights of them, when all rows have been seen."""
        self._check_classes()
        weights, classes = self.class_weight, self.classes_.tolist()
        if isinstance(weights, dict):
            unknown = [label for label in weights if label not in classes]
            if unknown and not all(label in weights for label in classes):
                raise ValueError(
                    f"class_weight={weights!r} has weights for {unknown!r}, which are no classes "
                    f"of y: give weights for {check.one_line(classes)}."
                )

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only, {self.classes_[0]!r}: give rows of at least two classes."
            )

    @available_if(can_add_rows)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> QuadratureRidgeClassifier:
        """Add rows to those seen so far.

        The result is that of one :meth:`fit` to all rows, to rounding, for any batches in any
        order, with a map that is given fitted (``features``) or does not depend on the data.
        Otherwise the first batch decides about the kernel's scale and the rule.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes there are, for the first call. If they are not given, new ones are welcome
            in any batch.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        QuadratureRidgeClassifier
            The model. Its coefficients are computed when they are asked for.
        """
        start = {}
        if classes is not None:
            start["classes"] = np.unique(to_numpy(classes, "classes"))
            if hasattr(self, "features_") and not np.array_equal(start["classes"], self.classes_):
                raise ValueError(
                    f"classes={check.one_line(classes)} are not those of earlier batches, "
                    f"{check.one_line(self.classes_)}: give the same ones, or None."
                )
        return self._partial_fit(X, y, sample_weight, **start)

    def _merge(self, other: Any) -> QuadratureRidgeClassifier:
        if isinstance(other, QuadratureRidgeClassifier):
            other = snapshot(other)
            if hasattr(other, "_balanced"):
                raise ValueError(
                    "class_weight='balanced' needs the classes of all rows at once, and the other "
                    "model has weighted its own: give a dict of weights."
                )
            ours, theirs = (
                getattr(model, "_fitted_with", {}).get("class_weight") for model in (self, other)
            )
            if ours != theirs and None not in (ours, theirs):
                raise ValueError(
                    f"class_weight was {ours} for the rows of this model, and {theirs} for those "
                    "of the other: fit both with the same weights of classes."
                )
            if getattr(self, "_declared", False) and hasattr(other, "classes_"):
                self._check_declared(joint_classes(self.classes_, other.classes_), self.classes_)
        return super()._merge(other)

    def _reason_against_adding(self) -> str | None:
        if self.class_weight == "balanced":
            return (
                "class_weight='balanced' needs the classes of all rows at once: give a dict of "
                "weights."
            )
        return super()._reason_against_adding()

    @property
    @on_snapshot
    def coef_(self) -> Float64Array:
        """Coefficients of the features."""
        check_is_fitted(self)
        coefficients: Float64Array = self._solution.coefficients.T
        return coefficients

    @property
    @on_snapshot
    def intercept_(self) -> Float64Array:
        """The constants."""
        check_is_fitted(self)
        intercept: Float64Array = self._solution.intercept
        return intercept

    @follows_input
    @on_snapshot
    def decision_function(self, X: Any) -> Array:
        """Return the predicted targets of the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes positive for the second one. A Dask array for Dask's collections.
        """
        if is_dask(X):
            from quadfeat.data import distributed

            return distributed.apply(self, "decision_function", X)
        X = self._rows(X)
        self._check_classes()
        decisions = self._decisions(X)
        return decisions[:, 0] if len(self.classes_) == 2 else decisions

    @follows_input
    @on_snapshot
    def predict(self, X: Any) -> Array:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if is_dask(X):
            from quadfeat.data import distributed

            return distributed.apply(self, "predict", X)
        decisions = self.decision_function(X)
        which = (decisions > 0).astype(int) if decisions.ndim == 1 else decisions.argmax(axis=1)
        return self.classes_[which]

    @available_if(can_predict_proba)
    @follows_input
    @on_snapshot
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class.

        Decisions are divided by a temperature and turned into probabilities by the softmax (for two
        classes the logistic function of twice the decision). The temperature is that at which up to
        2048 rows of training are most likely to have the classes they have, each judged by the
        model without it: leave-one-out decisions are exact, and cost no second fit. The class with
        the largest decision is the most likely one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        if is_dask(X):
            from quadfeat.data import distributed

            return distributed.apply(self, "predict_proba", X)
        decisions = self.decision_function(X)
        return calibration.probabilities(decisions.reshape(len(decisions), -1), self.temperature_)

    @property
    @on_snapshot
    def temperature_(self) -> float:
        """What decisions are divided by before they are turned into probabilities."""
        check_is_fitted(self)
        solution = self._solution
        if getattr(solution, "temperature", None) is None:
            found = self._posterior("predict_proba")
            rows = solution.summary.rows
            Z = np.asarray(self.features_._written(rows.rows[:, :-1]), dtype=np.float64)
            targets = self._final_targets(self.classes_[rows.labels], solution.summary)
            once = np.minimum(rows.weights, 1.0)
            decisions = calibration.left_out_decisions(found, Z, targets, once)
            solution.temperature = calibration.best_temperature(
                decisions, rows.labels, rows.weights
            )
        return float(solution.temperature)
