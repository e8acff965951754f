"""Fit the models of the comparison.

Feature maps, the linear model and exact kernel ridge use ridge regression, and all choose their
penalty in the same way. The kernel model and boosted trees keep their default settings.

The penalty is the one of ``PENALTIES`` with the smallest leave-one-out error. Computing that error
takes an eigendecomposition, so a sample of the rows chooses the penalty, and the model is then
fitted to all rows. The penalty is the ratio of noise variance to signal variance, which does not
depend on the number of rows. The choice ignores sample weights: with weights for rare classes it
would depend on few rows.

Features of scikit-learn's maps go to its ``Ridge``. It is as fast as ``QuadratureRidge`` with a
transformer as its map, and gives the same predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold

from quadfeat import (
    KernelClassifier,
    KernelRegressor,
    QuadratureFeatures,
    QuadratureRidge,
    QuadratureRidgeClassifier,
)
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.apps.compare.boosting import booster
from quadfeat.apps.compare.scoring import Task
from quadfeat.kernels import Kernel

PENALTIES = tuple(10.0**k for k in range(-3, 3))
SEARCH_ROWS = 1000  # for choosing a penalty; 4000 rows chose no better powers of ten
SEARCH_FOLDS = 5  # for exact kernel ridge

# A constant added to the kernel acts as an intercept. This many times the mean of the diagonal
# leaves it almost unpenalized, and leaves Cholesky factors ten digits.
INTERCEPT = 1e4

# Arguments of the model with default settings, here and in the generated script.
MODEL_SETTINGS: dict[str, Any] = {}


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes
    ----------
    alpha : float
        The chosen penalty; NaN for models without one.
    predict : callable
        Maps rows to predictions or decision values, one column per target.
    probabilities : callable or None
        Maps rows to class probabilities, for models that have them.
    choice : str
        The candidates that the kernel model chose.
    """

    alpha: float
    predict: Callable[[Any], Float64Array]
    probabilities: Callable[[Any], Float64Array] | None = None
    choice: str = ""


def fit_quadrature(
    features: QuadratureFeatures,
    X: Array,
    Y: Float64Array,
    weights: Float64Array | None = None,
    labels: Array | None = None,
) -> Fit:
    """Fit ``QuadratureRidge`` on a fitted map, or the classifier if labels are given.

    Parameters
    ----------
    features : QuadratureFeatures
    X : ndarray of shape (n_rows, n_columns)
        Rows in random order, so that the first ones are a random sample.
    Y : ndarray of shape (n_rows, n_targets)
    weights : ndarray of shape (n_rows,), default=None
        Weights of the squared errors.
    labels : ndarray of shape (n_rows,), default=None
        The classes that ``Y`` codes. The classifier has the same decision values, and
        probabilities as well.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> features = QuadratureFeatures(n_components=64, random_state=0).fit(X)
    >>> fit = fit_quadrature(features, X, np.sin(X))
    >>> bool(abs(fit.predict(X) - np.sin(X)).mean() < 0.01)
    True
    """
    model = QuadratureRidge(features=features, alpha="loo", alphas=PENALTIES)
    model.fit(X[:SEARCH_ROWS], Y[:SEARCH_ROWS])
    if labels is not None:
        classifier = QuadratureRidgeClassifier(features=features, alpha=model.alpha_)
        return _classifier(classifier.fit(X, labels, weights))
    if len(X) > SEARCH_ROWS or weights is not None:
        model = QuadratureRidge(features=features, alpha=model.alpha_).fit(X, Y, weights)
    return Fit(model.alpha_, model.predict)


def _classifier(model: Any) -> Fit:
    """Wrap a fitted classifier of quadfeat."""
    return Fit(
        float(model.alpha_),
        lambda rows: model.decision_function(rows).reshape(len(rows), -1),
        model.predict_proba,
    )


def default_model(task: Task, *, balanced: bool, seed: int) -> Any:
    """Return the unfitted model of quadfeat with default settings and a seed.

    Examples
    --------
    >>> type(default_model("regression", balanced=False, seed=0)).__name__
    'KernelRegressor'
    """
    if task == "regression":
        return KernelRegressor(**MODEL_SETTINGS, random_state=seed)
    weights = "balanced" if balanced else None
    return KernelClassifier(**MODEL_SETTINGS, class_weight=weights, random_state=seed)


def fit_default(X: Any, y: Array, task: Task, *, balanced: bool, seed: int) -> Fit:
    """Fit the model of quadfeat with default settings.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (n_rows, n_columns)
        Raw columns of any kind.
    y : ndarray of shape (n_rows,)
        Numbers or classes, depending on the task.
    task : {"classification", "regression"}
    balanced : bool
        Whether to give all classes the same total weight.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> fit = fit_default(X, np.sin(X[:, 0]), "regression", balanced=False, seed=0)
    >>> bool(abs(fit.predict(X)[:, 0] - np.sin(X[:, 0])).mean() < 0.01)
    True
    """
    model = default_model(task, balanced=balanced, seed=seed).fit(X, y)
    chosen = [row.name for row in model.leaderboard_ if row.share > 0]
    return replace(_without_penalty(model, task), choice=" + ".join(chosen))


def _without_penalty(model: Any, task: Task) -> Fit:
    """Wrap a fitted model that has no penalty to report."""
    if task == "regression":
        return Fit(np.nan, lambda rows: model.predict(rows)[:, None])
    # Use probabilities as decision values.
    return Fit(np.nan, lambda rows: _decisions(model.predict_proba(rows)), model.predict_proba)


def fit_booster(name: str, X: Array, y: Array, task: Task, *, balanced: bool, seed: int) -> Fit:
    """Fit boosted trees. The parameters are those of ``fit_default``.

    Examples
    --------
    >>> import numpy as np
    >>> from threadpoolctl import threadpool_limits
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> y, name = X[:, 0] > 0, "HistGradientBoosting"
    >>> with threadpool_limits(1):
    ...     fit = fit_booster(name, X, y, "classification", balanced=False, seed=0)
    >>> bool(((fit.probabilities(X)[:, 1] > 0.5) == y).mean() > 0.95)
    True
    """
    return _without_penalty(booster(name, task, balanced=balanced, seed=seed).fit(X, y), task)


def _decisions(probabilities: Float64Array) -> Float64Array:
    """Return decision values: for two classes, one column that is positive for the second."""
    return probabilities if probabilities.shape[1] > 2 else 2.0 * probabilities[:, 1:] - 1.0


def fit_linear(
    transform: Callable[[Array], Array],
    X: Array,
    Y: Float64Array,
    weights: Float64Array | None = None,
) -> Fit:
    """Fit scikit-learn's ``Ridge`` to transformed rows.

    The other parameters are those of ``fit_quadrature``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> fit = fit_linear(lambda rows: rows, X, X[:, :1] + 2.0)
    >>> fit.alpha, fit.predict(X).shape
    (0.001, (100, 1))
    """
    Z = transform(X)
    model = RidgeCV(alphas=PENALTIES).fit(Z[:SEARCH_ROWS], Y[:SEARCH_ROWS])
    alpha = float(model.alpha_)
    if len(X) > SEARCH_ROWS or weights is not None:
        model = Ridge(alpha=alpha).fit(Z, Y, sample_weight=weights)
    return Fit(alpha, lambda rows: model.predict(transform(rows)).reshape(len(rows), -1))


def fit_exact(
    kernel: Kernel, X: Array, Y: Float64Array, weights: Float64Array | None = None
) -> Fit:
    """Fit scikit-learn's ``KernelRidge``. The other parameters are those of ``fit_quadrature``.

    ``KernelRidge`` has no leave-one-out errors, so cross-validation chooses the penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Gaussian
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> fit = fit_exact(Gaussian(1.0), x, x**2)
    >>> bool(abs(fit.predict(x) - x**2).max() < 0.02)
    True
    """
    center = np.average(Y, axis=0, weights=weights)
    K = kernel(X)
    constant = INTERCEPT * float(K.diagonal().mean())
    model = GridSearchCV(
        KernelRidge(kernel="precomputed"),
        {"alpha": PENALTIES},
        scoring="neg_mean_squared_error",
        cv=KFold(min(SEARCH_FOLDS, len(X)), shuffle=True, random_state=0),
    ).fit(K + constant, Y - center)
    alpha = float(model.best_params_["alpha"])
    if weights is not None:
        model = KernelRidge(kernel="precomputed", alpha=alpha)
        model.fit(K + constant, Y - center, sample_weight=weights)
    return Fit(alpha, lambda rows: model.predict(kernel(rows, X) + constant) + center)
