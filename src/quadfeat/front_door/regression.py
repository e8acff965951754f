"""``KernelRegressor``: the best kernel method for a table of numbers to predict."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.front_door import lazy
from quadfeat.front_door.base import FrontDoor
from quadfeat.front_door.decision import Outcome
from quadfeat.front_door.forecasts import Forecast, Judge, NumbersJudge
from quadfeat.front_door.lazy import BlockScoreMixin
from quadfeat.io import checks, register
from quadfeat.models.intervals import Scores, check_coverage
from quadfeat.models.keywords import explain_keywords

__all__ = ["KernelRegressor"]


@register(model=True)
class KernelRegressor(BlockScoreMixin, RegressorMixin, FrontDoor):
    """Regression by the kernel method that suits the data: features, neighbors, or a blend.

    ``fit(X, y)`` needs no settings. Several candidates learn their kernels on one part of the rows
    and predict the others. The best one, or a blend of them, is then fitted to all rows.

    Parameters
    ----------
    time_limit : float or None, default=60
        Seconds for ``fit``. Each candidate gets a part of them for its kernel search. Candidates
        for which no time is left do not take part, and time for the final fit is reserved. Without
        time for it, the validated model is used. ``why_`` and ``leaderboard_`` state both. A step
        that is running may exceed the limit. With None, all candidates take part, and the result
        depends only on the data and on ``random_state``.
    candidates : "auto" or list, default="auto"
        ``"auto"`` means ``["neighbors", "features", "more features"]``:
        :class:`LocalGaussianProcess`, :class:`QuadratureRidge` with 1,024 features (256 for fewer
        than 100 rows), and with 4,096 features and the same kernel, or 2,048 if there is little
        time. A list may also contain pairs of a name and an estimator. A list of one candidate is
        fitted without a comparison, unless ``cv`` is given.
    blend : bool, default=True
        Whether a weighted mean of candidates may win. It has to be clearly better than each.
    scoring : str or callable, default=None
        A scorer of scikit-learn that ranks the candidates. None means the squared error.
    cv : int, splitter or iterable, default=None
        Which rows are held out, as in :class:`~sklearn.model_selection.GridSearchCV`. By default
        one random fifth of the rows, 300 to 10,000 of them. Fewer than 1,000 rows are held out in 3
        folds, and fewer than 300 in 5. Equal rows stay together if their targets are equal. For
        rows in the order of time, use :class:`~sklearn.model_selection.TimeSeriesSplit`.
    refit : bool, default=True
        Whether to fit the winner again, to all rows. False keeps the model that was validated on
        one held-out part.
    random_state : int, numpy.random.Generator, RandomState or None, default=0
        Seed or generator of the held-out rows and of the features. None gives another result in
        each fit.
    n_jobs : int, default=None
        Number of threads, as in :class:`QuadratureFeatures`.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
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
    noise_variance_ : float or ndarray of shape (n_outputs,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    KernelClassifier : Classification.
    LocalGaussianProcess, QuadratureRidge : The candidates.

    Notes
    -----
    Ctrl-C ends the contest, prints a message, and fits the best candidate so far to all rows. A
    second Ctrl-C raises ``KeyboardInterrupt``, and so does one before the first candidate has been
    validated. One in the fit to all rows keeps the validated model.

    Each candidate sees only the training rows of a fold, and the encoder of columns sees only their
    targets. So the losses of the leaderboard are estimates for new rows, apart from the small gain
    of choosing the best of a few.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import KernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (600, 2))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(600)
    >>> model = KernelRegressor(time_limit=None, candidates=["features"]).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.95
    True
    >>> lower, upper = model.predict_interval(X[400:], coverage=0.9)
    >>> 0.8 < np.mean((lower <= y[400:]) & (y[400:] <= upper)) <= 1.0
    np.True_
    """

    @explain_keywords
    def __init__(
        self,
        time_limit: float | None = 60,
        *,
        candidates: Any = "auto",
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
        self.blend = blend
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    is_regression = True
    needed_attributes = (*FrontDoor.needed_attributes, "_one_output")
    _one_output: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _checked_targets(self, y: Any) -> Array:
        check.check_not_text(y, "KernelClassifier")
        if np.asarray(y).dtype.kind in "mM":
            raise ValueError(
                "y holds dates or durations, but a regression needs numbers. Convert them, for "
                "example to days."
            )
        y = check_array(
            y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self, allow_nd=False
        )
        self._one_output = y.ndim == 1
        return np.asarray(y)

    def _adopt(self, model: Any) -> None:
        super()._adopt(model)
        self._one_output = bool(model._one_output)

    def _judge(self, y: Array, weights: Float64Array) -> Judge:
        return NumbersJudge(y, weights)

    def _scores_of(self, outcome: Outcome) -> Scores | None:
        Y = outcome.truth.y.reshape(len(outcome.truth.y), -1)
        return scores_of(outcome.forecast, Y, outcome.truth.amounts)

    @property
    @on_snapshot
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        return self._mixture.noise_variance

    @follows_input
    @on_snapshot
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to also return the posterior standard deviation of the latent function. The
            standard deviation of a new target is ``np.sqrt(y_std**2 + model.noise_variance_)``.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            A lazy Dask array if ``X`` is a Dask collection.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations. Only with ``return_std=True``.
        """
        check.check_flag(return_std, "return_std")
        if is_dask(X):
            shape = self._shape
            if not return_std:
                return lazy.lazily(self, lazy.mean, X, shape)
            both = lazy.lazily(self, lazy.mean_and_deviation, X, (2, *shape))
            return both[:, 0], both[:, 1]
        mixture = self._mixture
        numbers = self._numbers(X)
        if not return_std:
            return self._shaped(mixture.means(numbers))
        mean, deviations = mixture.latent(numbers)
        return self._shaped(mean), self._shaped(deviations)

    def _shaped(self, values: Float64Array) -> Float64Array:
        """Return values of shape (n_samples, n_outputs) in the shape of the targets."""
        return values[:, 0] if self._one_output else values

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of the prediction for one row."""
        if self._found() and self._one_output:
            return ()
        return self._mixture.means(np.zeros((1, self._answer.width))).shape[1:]

    @follows_input
    @on_snapshot
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Compute prediction intervals for the targets of new rows.

        An interval is the prediction plus and minus a multiple of the standard deviation of a
        target. The multiple comes from the errors on held-out rows, which were predicted by models
        that had not seen them; without a contest, from leave-one-out errors. If a candidate has no
        standard deviations, all intervals have the same width.

        Parameters
        ----------
        X : data frame, array-like or sparse matrix of shape (n_samples, n_features)
        coverage : float, default=0.9
            The probability that an interval contains the target, between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The bounds. Lazy Dask arrays if ``X`` is a Dask collection.
        """
        coverage = check_coverage(coverage)
        mixture, scores = self._mixture, self._answer.scores
        if is_dask(X):
            shape = (2, *self._shape)
            both = lazy.lazily(self, lazy.bounds, X, shape, (coverage,))
            return both[:, 0], both[:, 1]
        numbers = self._numbers(X)
        if scores is None:
            return mixture.alone("predict_interval")(numbers, coverage)
        forecast = mixture.forecast(NumbersJudge(np.zeros(1), np.ones(1)), numbers)
        steps = forecast.widths * scores.quantiles(coverage)
        lower, upper = forecast.values - steps, forecast.values + steps
        return self._shaped(lower), self._shaped(upper)

    def check_consistency(self) -> None:
        super().check_consistency()
        if not hasattr(self, "_answer"):
            return
        checks.check_flag(self._one_output, "_one_output")
        scores = self._answer.scores
        if self._one_output and scores is not None:
            count = scores.values.shape[1]
            checks.expect(count == 1, f"scores of _answer are for {count} outputs")


def scores_of(forecast: Forecast, Y: Float64Array, weights: Float64Array) -> Scores:
    """Return the absolute errors of held-out rows in units of their standard deviations."""
    errors, widths = np.abs(Y - forecast.values), forecast.widths
    # A constant output has errors and deviations of zero.
    values = errors / np.where(widths > 0, widths, 1.0)
    order = np.argsort(values, axis=0, kind="stable")
    return Scores(np.take_along_axis(values, order, axis=0), weights[order])
