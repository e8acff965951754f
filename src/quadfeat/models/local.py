"""Gaussian processes on the nearest rows, for narrow kernels."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input
from quadfeat._utils.columns import check_finite
from quadfeat._utils.fitted import changing, on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel
from quadfeat.learning.candidates import Choice, KernelCandidate
from quadfeat.models import local_predictions as predictions
from quadfeat.models.estimator import KernelEstimator
from quadfeat.models.keywords import explain_keywords
from quadfeat.models.local_fitting import Table, check_parameters, extended, fit_local, gathered
from quadfeat.models.predictions import shaped
from quadfeat.models.reading import Reader, naming_columns, rows_for
from quadfeat.models.scores import BlockScoreMixin
from quadfeat.neighbors.fit import LocalFit

__all__ = ["LocalGaussianProcess"]

Self = TypeVar("Self", bound="LocalModel")

# Private attributes that fit sets, and removes before it starts.
LEARNED = ("_solution", "_choice", "_one_output")


class LocalModel(KernelEstimator):
    """Base class of models on the nearest rows."""

    allows_auto_kernel = True
    target_checks: dict[str, Any] = {}  # noqa: RUF012
    _solution: LocalFit
    _choice: Choice

    @explain_keywords
    def __init__(
        self,
        kernel: Kernel | str = "auto",
        *,
        gamma: Any = None,
        n_neighbors: int | str = "auto",
        alpha: float | str = "auto",
        lengthscales: str | None = None,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.lengthscales = lengthscales
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.verbose = verbose

    def checked_targets(self, y: Any) -> Any:
        """Validate and return the targets of a batch."""
        raise NotImplementedError

    def fit(self: Self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or iterable of blocks
            The training rows, which the model keeps in float64. An iterable, such as
            :class:`~quadfeat.ParquetBlocks`, yields tuples ``(X, y)`` or ``(X, y, sample_weight)``.
            The blocks of iterables and of Dask collections are gathered in memory, up to 2 ** 29
            entries.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. None for an iterable of blocks.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights: the noise variance of a row is divided by its weight.

        Returns
        -------
        object
            The fitted model.
        """
        check_parameters(self)
        with changing(self):
            draft = self._blank()
            with naming_columns(draft, X):
                table = gathered(rows_for(draft, X, y, sample_weight))
            draft._solution, draft._choice = fit_local(draft, table)
            self.__dict__ = draft.__dict__
        return self

    def partial_fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to the rows of earlier calls.

        The first call learns the kernel, the noise and the number of neighbors. Later calls keep
        them, so the first batch should be a large random sample of the rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        object
            This model.
        """
        if not hasattr(self, "_solution"):
            return self.fit(X, y, sample_weight)
        check_parameters(self)
        with changing(self):
            draft = copy.copy(self)
            with naming_columns(draft, X):
                table = Table.of(Reader(draft)(X, y, sample_weight, part=True))
            draft._solution = extended(self._solution, table)
            self.__dict__ = draft.__dict__
        return self

    def _blank(self: Self) -> Self:
        """Return an unfitted copy to work on, so that a failed fit leaves this model unchanged."""
        draft = copy.copy(self)
        draft.__dict__ = {
            name: value
            for name, value in vars(self).items()
            if not name.endswith("_") and name not in LEARNED
        }
        return draft

    def _rows(self, X: Any) -> Float64Array:
        """Validate rows for prediction."""
        X = self._validated(X)
        check_finite(X)
        return check.to_dense_float64(X)

    def _solved(self) -> LocalFit:
        """Return the result of the fit."""
        check_is_fitted(self)
        return self._solution

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_solution")

    @property
    def kernel_(self) -> Kernel:
        """The kernel, with its scale."""
        return self._solved().kernel

    @property
    def alpha_(self) -> float:
        """The ratio of the noise variance of a row of weight 1 to the signal variance."""
        return self._solved().alpha

    @property
    def n_neighbors_(self) -> int:
        """The number of neighbors."""
        return self._solved().n_neighbors

    @property
    def jitter_(self) -> float:
        """The largest number added to the diagonal of a kernel matrix, relative to its mean."""
        return float(predictions.calibrated(self, "jitter_").calibration.jitter.max())

    @property
    def why_(self) -> str:
        """The reason for the kernel, in a few sentences."""
        check_is_fitted(self)
        return self._choice.why

    @property
    def candidates_(self) -> tuple[KernelCandidate, ...]:
        """The kernels that were tried, the chosen one first."""
        check_is_fitted(self)
        return self._choice.candidates

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # Attributes in pickles and files.

    needed_attributes = ("_solution", "_choice", "n_features_in_")
    saved_attributes: tuple[str, ...] = ("n_features_in_", "feature_names_in_", *LEARNED)

    def check_consistency(self) -> None:
        """Raise an error if the fitted attributes are inconsistent."""
        if not hasattr(self, "_solution"):
            return
        checks.check_kind(self._solution, LocalFit, "_solution")
        checks.check_kind(self._choice, Choice, "_choice")
        checks.check_flag(self._one_output, "_one_output")
        n_outputs = self._solution.n_outputs
        checks.expect(not self._one_output or n_outputs == 1, f"there are {n_outputs} outputs")
        checks.check_column_names(self)
        d, found = self.n_features_in_, self._solution.X.shape[1]
        checks.expect(d == found, f"the model is for {d} columns, but its rows have {found}")


@register(model=True)
class LocalGaussianProcess(BlockScoreMixin, RegressorMixin, LocalModel):
    r"""Gaussian process regression on the nearest rows, for narrow kernels.

    Each prediction is that of an exact Gaussian process on the nearest training rows, in the metric
    of the kernel. With as many neighbors as rows, it is the whole exact process. The lengthscales,
    the noise and the number of neighbors are learned from all rows.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        ``"auto"`` learns a lengthscale for each column with several families of kernels, and
        selects one by leave-one-out errors. Other values are as in :class:`QuadratureFeatures`. The
        kernel has to depend on Euclidean distances, as Gaussian, Matern and rational quadratic
        kernels do.
    gamma : float, {"scale", "auto"} or array of shape (n_features,), default=None
        Shorthand for ``kernel=Gaussian(gamma)``. None leaves the kernel as it is.
    n_neighbors : int or "auto", default="auto"
        Number of neighbors. ``"auto"`` selects a number up to 256 by leave-one-out errors. If there
        are fewer distinct rows, all are used.
    alpha : float or "auto", default="auto"
        The ratio of noise variance to signal variance. ``"auto"`` learns it.
    lengthscales : {"isotropic", "ard"}, default=None
        The lengthscales to learn: one for all columns, or one for each column. None means
        ``"ard"`` for ``kernel="auto"``, and does not learn lengthscales for other kernels.
    time_limit : float, default=None
        Seconds after which learning stops and uses the best kernel so far. None means no limit. The
        step that is running is finished first.
    n_jobs : int, default=None
        Number of threads, as in :class:`QuadratureFeatures`. The result does not depend on it.
    verbose : bool, default=False
        Whether to show progress on standard error.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, with its scale.
    alpha_ : float
        The ratio of noise variance to signal variance.
    n_neighbors_ : int
        The number of neighbors.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variances of the Gaussian process. The noise variance is that of a row of weight 1.
    candidates_, why_ : tuple of KernelCandidate, str
        The kernels that were tried, with leave-one-out losses, and the reason for the first one.
        ``n_columns`` of a candidate is its number of neighbors.
    loo_predictions_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Predictions for the training rows of positive weight, each without the row and its copies.
    loo_log_likelihood_ : float
        The sum of the log densities of distinct training rows, each given the other rows.
    jitter_ : float
        The largest number that was added to the diagonal of a kernel matrix, relative to its mean,
        so that it has a Cholesky factor. It is measured on up to 4096 training rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    QuadratureRidge : For wide kernels, and for more rows than fit in memory.

    Notes
    -----
    The model keeps all training rows, and its pickles and files contain them. Prediction takes time
    of order ``n_neighbors ** 3`` for each row.

    Each neighborhood has its own constant mean with a flat prior. Signal and noise variance are
    scaled so that the leave-one-out errors of up to 4096 rows have the variances that the process
    predicts. Copies of a row are merged, so for predictions, a weight of 2 is equivalent to a copy.
    Prediction intervals are for targets of mean weight, so weights and copies may give slightly
    different intervals.

    The nearest rows are found with a k-d tree, which is fast if few columns matter. Fitting is
    deterministic.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import LocalGaussianProcess
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, (2000, 1))
    >>> y = np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(2000)
    >>> model = LocalGaussianProcess(kernel="matern52", lengthscales="ard").fit(X, y)
    >>> mean, deviation = model.predict([[50.0], [200.0]], return_std=True)
    >>> abs(mean[0] - np.sin(250.0)) < 0.1, deviation[0] < 0.1 < deviation[1]
    (np.True_, np.True_)
    >>> round(float(np.sqrt(model.noise_variance_)), 1)
    0.1
    """

    target_checks = {"multi_output": True, "y_numeric": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def checked_targets(self, y: Any) -> Any:
        """Return the targets as float64; reject a shape that differs from earlier batches."""
        n_outputs = self._solution.n_outputs if hasattr(self, "_solution") else None
        one_output = getattr(self, "_one_output", y.ndim == 1)
        if one_output != (y.ndim == 1) or (y.ndim > 1 and n_outputs not in (None, y.shape[1])):
            raise ValueError(
                f"y has shape {y.shape}, unlike earlier batches. Pass targets with the same number "
                "of outputs."
            )
        self._one_output: bool = y.ndim == 1
        return np.asarray(y, dtype=np.float64)

    @property
    @on_snapshot
    def signal_variance_(self) -> Any:
        """Variance of the signal."""
        return self._per_output(predictions.calibrated(self, "signal_variance_").signal_variance)

    @property
    @on_snapshot
    def noise_variance_(self) -> Any:
        """Variance of the noise of a row of weight 1."""
        solution = predictions.calibrated(self, "noise_variance_")
        return self._per_output(solution.alpha * solution.signal_variance)

    @property
    @on_snapshot
    def loo_predictions_(self) -> Float64Array:
        """Predictions for the training rows, each without the row and its copies."""
        solution = predictions.calibrated(self, "loo_predictions_")
        return np.asarray(shaped(self, solution.left_out(every=True).mean))

    @property
    @on_snapshot
    def loo_log_likelihood_(self) -> float:
        """The sum of the log densities of distinct rows, each given the other rows."""
        return predictions.calibrated(self, "loo_log_likelihood_").log_likelihood()

    def _per_output(self, values: Float64Array) -> Any:
        return float(values[0]) if self._one_output else values

    @follows_input
    @on_snapshot
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to also return the posterior standard deviation of the latent function. The
            standard deviation of a new target is ``np.sqrt(y_std**2 + model.noise_variance_)``.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The predictions in float64. A lazy Dask array if ``X`` is a Dask collection.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations. Only with ``return_std=True``.
        """
        return predictions.predicted(self, X, return_std=return_std)

    @follows_input
    @on_snapshot
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Compute prediction intervals for the targets of new rows.

        An interval is the prediction plus and minus a multiple of the standard deviation of a
        target of mean weight. The multiple comes from the leave-one-out errors of up to 4096
        distinct training rows, not from a normal distribution. Far from all training rows, the
        standard deviation is that of the prior.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        coverage : float, default=0.9
            The probability that an interval contains the target, between 0 and 1. It requires at
            least ``coverage / (1 - coverage)`` training rows.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The bounds, computed for each output separately. Lazy Dask arrays if ``X`` is a Dask
            collection.
        """
        return predictions.intervals(self, X, coverage)

    @follows_input
    @on_snapshot
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw functions from the posterior process and evaluate them at rows.

        Rows are drawn one after another, given the nearest training rows and rows drawn before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_rows, n_features)
        n_samples : int, default=1
            Number of functions.
        random_state : int, numpy.random.Generator, RandomState or None, default=0
            Seed or generator of the draws.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            The values of the functions, without noise.
        """
        return predictions.sampled(self, X, n_samples, random_state)
