"""Fit the models of the comparison.

The kernel model and boosted trees keep their default settings. The other rivals are ridge
regressions: on the columns, on a feature map of scikit-learn, or on the exact kernel. Each chooses
its penalty and the width of its Gaussian kernel on its training rows.

The penalty is the one of ``PENALTIES`` with the smallest leave-one-out error. Computing that error
takes an eigendecomposition, so a sample of the rows chooses the penalty, and the model is then
fitted to all rows. The penalty is the ratio of noise variance to signal variance, which does not
depend on the number of rows. The choice ignores sample weights: with weights for rare classes it
would depend on few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold

from quadfeat import KernelClassifier, KernelRegressor
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.apps.compare.boosting import booster
from quadfeat.apps.compare.contestants import NYSTROEM, RBF_SAMPLER
from quadfeat.apps.compare.scoring import Task

PENALTIES = tuple(10.0**k for k in range(-3, 3))
# Multiples of one over the number of columns, which is the usual gamma of standardized columns.
WIDTHS = tuple(4.0**k for k in range(-4, 2))
SEARCH_ROWS = 1000  # for choosing a penalty; 4000 rows chose no better powers of ten
SEARCH_LANDMARKS = 256  # for choosing a width
SEARCH_FOLDS = 5  # for exact kernel ridge

# A constant added to the kernel acts as an intercept. This many times the mean of the diagonal
# leaves it almost unpenalized, and leaves Cholesky factors ten digits.
INTERCEPT = 1e4

# Arguments of the kernel model, in the comparison and in the generated script.
MODEL_SETTINGS: dict[str, Any] = {}

Places = list[dict[str, Any]]


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes
    ----------
    predict : callable
        Maps rows to predictions or decision values, one column per target.
    alpha, gamma : float
        The chosen penalty and kernel parameter; NaN for models without them.
    probabilities : callable or None
        Maps rows to class probabilities, for models that have them.
    leaderboard : list of dict
        The candidates of the kernel model with their validated losses.
    """

    predict: Callable[[Any], Float64Array]
    alpha: float = np.nan
    gamma: float = np.nan
    probabilities: Callable[[Any], Float64Array] | None = None
    leaderboard: Places = field(default_factory=list)


def default_model(
    task: Task, *, balanced: bool, seed: int, settings: Mapping[str, Any] = MODEL_SETTINGS
) -> Any:
    """Return the unfitted kernel model with default settings and a seed.

    Examples
    --------
    >>> type(default_model("regression", balanced=False, seed=0)).__name__
    'KernelRegressor'
    """
    if task == "regression":
        return KernelRegressor(**settings, random_state=seed)
    weights = "balanced" if balanced else None
    return KernelClassifier(**settings, class_weight=weights, random_state=seed)


def fit_default(
    X: Any,
    y: Array,
    task: Task,
    *,
    balanced: bool,
    seed: int,
    settings: Mapping[str, Any] = MODEL_SETTINGS,
) -> Fit:
    """Fit the kernel model with default settings.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (n_rows, n_columns)
        Columns of any kind.
    y : ndarray of shape (n_rows,)
        Numbers or classes, depending on the task.
    task : {"classification", "regression"}
    balanced : bool
        Whether to give all classes the same total weight.
    seed : int
    settings : mapping, optional
        Arguments of the model. None by default.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> fit = fit_default(X, np.sin(X[:, 0]), "regression", balanced=False, seed=0)
    >>> bool(abs(fit.predict(X)[:, 0] - np.sin(X[:, 0])).mean() < 0.01)
    True
    >>> [place["candidate"] for place in fit.leaderboard if place["share"] > 0]
    ['neighbors']
    """
    model = default_model(task, balanced=balanced, seed=seed, settings=settings).fit(X, y)
    return replace(_without_penalty(model, task), leaderboard=places_of(model.leaderboard_))


def places_of(board: Any) -> Places:
    """Return the candidates of a leaderboard, without the line of their blend."""
    return [
        {
            "candidate": row.name,
            "share": row.share,
            "loss_name": board.loss_name,
            "loss": row.loss,
            "standard_error": row.standard_error,
            "fit_seconds": row.fit_seconds,
            "predict_seconds": row.predict_seconds,
            "note": row.note,
        }
        for row in board
        if row.estimator is not None or not row.took_part
    ]


def _without_penalty(model: Any, task: Task) -> Fit:
    """Wrap a fitted model that has no penalty to report."""
    if task == "regression":
        return Fit(lambda rows: model.predict(rows)[:, None])
    # Use probabilities as decision values.
    return Fit(
        lambda rows: _decisions(model.predict_proba(rows)), probabilities=model.predict_proba
    )


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
    X: Array,
    Y: Float64Array,
    weights: Float64Array | None = None,
    transform: Callable[[Array], Array] = lambda rows: rows,
) -> Fit:
    """Fit scikit-learn's ``Ridge`` to transformed rows.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        Rows in random order, so that the first ones are a random sample.
    Y : ndarray of shape (n_rows, n_targets)
    weights : ndarray of shape (n_rows,), default=None
        Weights of the squared errors.
    transform : callable, optional
        Maps rows to features. By default, the columns are the features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> fit = fit_linear(X, X[:, :1] + 2.0)
    >>> fit.alpha, fit.predict(X).shape
    (0.001, (100, 1))
    """
    Z = transform(X)
    model = RidgeCV(alphas=PENALTIES).fit(Z[:SEARCH_ROWS], Y[:SEARCH_ROWS])
    alpha = float(model.alpha_)
    if len(X) > SEARCH_ROWS or weights is not None:
        model = Ridge(alpha=alpha).fit(Z, Y, sample_weight=weights)
    return Fit(lambda rows: model.predict(transform(rows)).reshape(len(rows), -1), alpha)


def gammas(n_columns: int) -> list[float]:
    """Return the values of gamma to try for standardized columns, in ascending order."""
    return [float(f"{width / n_columns:.2g}") for width in WIDTHS]


def best_gamma(X: Array, Y: Float64Array) -> float:
    """Return the gamma of a Gaussian kernel with the smallest leave-one-out error on a sample.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> best_gamma(X, np.sin(X[:, :1])), best_gamma(X, np.sin(6 * X[:, :1]))
    (0.12, 2.0)
    """
    sample, targets = X[:SEARCH_ROWS], Y[:SEARCH_ROWS]
    tried = {}
    for gamma in gammas(X.shape[1]):
        size = min(SEARCH_LANDMARKS, len(sample))
        Z = Nystroem(gamma=gamma, n_components=size, random_state=0).fit_transform(sample)
        tried[gamma] = float(RidgeCV(alphas=PENALTIES).fit(Z, targets).best_score_)
    return max(tried, key=lambda gamma: tried[gamma])


def fit_map(
    name: str,
    X: Array,
    Y: Float64Array,
    weights: Float64Array | None = None,
    *,
    size: int,
    seed: int,
) -> Fit:
    """Fit ``Ridge`` to the features of a map of scikit-learn with a Gaussian kernel.

    Parameters
    ----------
    name : {"RBFSampler", "Nystroem"}
    X, Y, weights
        As in ``fit_linear``.
    size : int
        Number of features.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((300, 2))
    >>> fit = fit_map("Nystroem", X, np.sin(X), size=100, seed=0)
    >>> bool(abs(fit.predict(X) - np.sin(X)).mean() < 0.01)
    True
    """
    gamma = best_gamma(X, Y)
    kind = {RBF_SAMPLER: RBFSampler, NYSTROEM: Nystroem}[name]
    features = kind(gamma=gamma, n_components=size, random_state=seed).fit(X)
    return replace(fit_linear(X, Y, weights, features.transform), gamma=gamma)


def fit_exact(X: Array, Y: Float64Array, weights: Float64Array | None = None) -> Fit:
    """Fit scikit-learn's ``KernelRidge``. The parameters are those of ``fit_linear``.

    ``KernelRidge`` has no leave-one-out errors, so cross-validation chooses the penalty.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 50)[:, None]
    >>> fit = fit_exact(x, x**2)
    >>> bool(abs(fit.predict(x) - x**2).mean() < 0.02)
    True
    """
    gamma = best_gamma(X, Y)
    center = np.average(Y, axis=0, weights=weights)
    K = rbf_kernel(X, gamma=gamma) + INTERCEPT
    model = GridSearchCV(
        KernelRidge(kernel="precomputed"),
        {"alpha": PENALTIES},
        scoring="neg_mean_squared_error",
        cv=KFold(min(SEARCH_FOLDS, len(X)), shuffle=True, random_state=0),
    ).fit(K, Y - center)
    alpha = float(model.best_params_["alpha"])
    if weights is not None:
        model = KernelRidge(kernel="precomputed", alpha=alpha)
        model.fit(K, Y - center, sample_weight=weights)

    def predict(rows: Array) -> Float64Array:
        predicted = model.predict(rbf_kernel(rows, X, gamma=gamma) + INTERCEPT)
        return np.asarray(predicted.reshape(len(rows), -1) + center)

    return Fit(predict, alpha, gamma)
