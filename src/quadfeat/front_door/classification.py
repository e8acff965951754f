"""``KernelClassifier``: the best kernel method for a table of classes to predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from quadfeat._utils.array_api import follows_input
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.front_door import lazy
from quadfeat.front_door.base import FrontDoor
from quadfeat.front_door.candidates import Candidate
from quadfeat.front_door.forecasts import ClassesJudge, Judge
from quadfeat.front_door.lazy import BlockScoreMixin
from quadfeat.io import checks, register
from quadfeat.models.class_weights import check_class_weight, check_keys
from quadfeat.models.keywords import explain_keywords
from quadfeat.models.no_intervals import NoIntervalsMixin

__all__ = ["KernelClassifier"]


@register(model=True)
class KernelClassifier(NoIntervalsMixin, BlockScoreMixin, ClassifierMixin, FrontDoor):
    """Classification by the kernel method that suits the data: features, neighbors, or a blend.

    ``fit(X, y)`` needs no settings. Several candidates learn their kernels on one part of the rows
    and predict the others. The one with the smallest log loss, or a blend of them, is then fitted
    to all rows.

    Parameters
    ----------
    time_limit : float or None, default=60
        Seconds for ``fit``, as in :class:`KernelRegressor`.
    candidates : "auto" or list, default="auto"
        ``"auto"`` means ``["neighbors", "features", "more features"]``:
        :class:`LocalGaussianProcessClassifier`, :class:`QuadratureRidgeClassifier` with 1,024
        features (256 for fewer than 100 rows), and with 4,096 features and the same kernel, or
        2,048 if there is little time. A list may also contain pairs of a name and a classifier with
        ``predict_proba``. A list of one candidate is fitted without a comparison, unless ``cv`` is
        given.
    class_weight : dict or "balanced", default=None
        Weights of the classes, as in scikit-learn. Held-out losses are weighted too.
    blend : bool, default=True
        Whether the weighted mean of probabilities may win. It has to be clearly better.
    scoring : str or callable, default=None
        A scorer of scikit-learn that ranks the candidates. None means the log loss.
    cv, refit, random_state, n_jobs, verbose
        As in :class:`KernelRegressor`. By default each class is held out in proportion.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    leaderboard_ : Leaderboard
        The candidates with their validated losses and times, the best first.
    why_ : str
        The reason for the choice.
    model_ : estimator
        The fitted model, or that with the largest share of a blend.
    models_ : list of tuple (float, estimator)
        The fitted models with their shares.
    encoder_ : TableEncoder or None
        The encoder of the columns; None for arrays of numbers.
    relevance_ : ndarray of shape (n_features,)
        How fast predictions bend along each column, in shares that add up to 1, in the order of the
        columns. A linear effect has a small share, however large it is: to measure effects, use
        scikit-learn's ``permutation_importance``.
    relevance_table_ : RelevanceTable
        The same with the names of columns, the most relevant first.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    KernelRegressor : Regression, with more on how candidates are compared.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from quadfeat import KernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelClassifier(time_limit=None, candidates=["features"]).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    @explain_keywords
    def __init__(
        self,
        time_limit: float | None = 60,
        *,
        candidates: Any = "auto",
        class_weight: Any = None,
        blend: bool = True,
        scoring: Any = None,
        cv: Any = None,
        refit: bool = True,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.time_limit = time_limit
        self.candidates = candidates
        self.class_weight = class_weight
        self.blend = blend
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    is_regression = False
    needed_attributes = (*FrontDoor.needed_attributes, "classes_")
    saved_attributes = (*FrontDoor.saved_attributes, "classes_")

    def _check_parameters(self) -> tuple[Candidate, ...]:
        check_class_weight(self.class_weight)
        return super()._check_parameters()

    def _checked_targets(self, y: Any) -> Array:
        y = column_or_1d(y, warn=True)
        try:
            check_classification_targets(y)
            self.classes_ = np.unique(y)
        except TypeError:  # they cannot be sorted
            kinds = sorted({type(label).__name__ for label in y.tolist()})
            raise ValueError(
                f"y has labels of several types: {', '.join(kinds)}. Convert them to one type, and "
                "drop rows without a label."
            ) from None
        except ValueError as error:
            if type_of_target(y) == "continuous":
                raise ValueError(f"{error} Use KernelRegressor to predict numbers.") from None
            raise
        if isinstance(self.class_weight, dict):
            check_keys(self.class_weight, self.classes_.tolist())
        return np.asarray(y)

    def _adopt(self, model: Any) -> None:
        super()._adopt(model)
        self.classes_ = model.classes_

    def _for_stream(self, model: Any) -> Any:
        return (
            model if self.class_weight is None else model.set_params(class_weight=self.class_weight)
        )

    def _weights(self, y: Array, weights: Float64Array | None) -> Float64Array | None:
        if self.class_weight is None:
            return weights
        of_classes = np.asarray(compute_sample_weight(self.class_weight, y), dtype=np.float64)
        return of_classes if weights is None else of_classes * weights

    def _judge(self, y: Array, weights: Float64Array) -> Judge:
        return ClassesJudge(self.classes_)

    @follows_input
    @on_snapshot
    def predict_proba(self, X: Any) -> Any:
        """Estimate the probabilities of the classes.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            A lazy Dask array if ``X`` is a Dask collection.
        """
        mixture = self._mixture
        if is_dask(X):
            return lazy.lazily(self, lazy.probabilities, X, (len(self.classes_),))
        return mixture.forecast(ClassesJudge(self.classes_), self._numbers(X)).values

    @follows_input
    @on_snapshot
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @follows_input
    @on_snapshot
    def predict(self, X: Any) -> Any:
        """Predict the most likely class of each row.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            A lazy Dask array if ``X`` is a Dask collection.
        """
        self._found()
        if is_dask(X):
            return lazy.lazily(self, lazy.mean, X, (), dtype=self.classes_.dtype)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def check_consistency(self) -> None:
        super().check_consistency()
        if hasattr(self, "_answer"):
            checks.check_kind(self.classes_, np.ndarray, "classes_")
            checks.expect(self.classes_.ndim == 1, f"classes_ has shape {self.classes_.shape}")
            classes = self.classes_.tolist()
            checks.expect(classes == sorted(set(classes)), "classes_ are not in ascending order")
            for model in self._answer.mixture.models:
                checks.expect(
                    set(model.classes_.tolist()) <= set(classes),
                    "a model of _answer has classes that are not in classes_",
                )
