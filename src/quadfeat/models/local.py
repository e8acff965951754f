"""Gaussian process regression on the nearest rows, for narrow kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from quadfeat._utils.array_api import follows_input
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.rows import Rows
from quadfeat.io import checks, register
from quadfeat.models import local_predictions as predictions
from quadfeat.models.local_fitting import Table, gathered
from quadfeat.models.local_model import LocalModel
from quadfeat.models.numeric_targets import NumericTargetsMixin
from quadfeat.models.predictions import shaped
from quadfeat.models.scores import BlockScoreMixin
from quadfeat.neighbors.fit import LocalFit, units_of
from quadfeat.neighbors.goals import NumericGoal
from quadfeat.neighbors.rows import DistinctRows

__all__ = ["LocalGaussianProcess"]


@register(model=True)
class LocalGaussianProcess(BlockScoreMixin, NumericTargetsMixin, RegressorMixin, LocalModel):
    r"""Gaussian process regression on the nearest rows, for narrow kernels.

    Each prediction is that of an exact Gaussian process on the nearest training rows, in the metric
    of the kernel. With as many neighbors as rows, it is the whole exact process. The lengthscales,
    the noise and the number of neighbors are learned from all rows.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        ``"auto"`` learns a lengthscale for each column with several families of kernels, and
        selects one by leave-one-out errors. It also compresses columns with heavy tails and learns
        with squared errors instead of the likelihood, if this reduces leave-one-out errors. In
        tables of more than 128 columns, it compares rows by their first 64 principal columns,
        unless all columns are better; ``kernel_`` is then a :class:`~quadfeat.kernels.Metric`.
        Other values are as in :class:`QuadratureFeatures`. The kernel has to depend on Euclidean
        distances, as Gaussian, Matern and rational quadratic kernels do, alone or in a
        :class:`~quadfeat.kernels.Metric`.
    gamma : float, {"scale", "auto"} or array of shape (n_features,), default=None
        Shorthand for ``kernel=Gaussian(gamma)``. None leaves the kernel as it is.
    n_neighbors : int or "auto", default="auto"
        Number of neighbors. ``"auto"`` selects a number up to 256 by leave-one-out errors. If there
        are fewer distinct rows, all are used.
    alpha : float or "auto", default="auto"
        The ratio of noise variance to signal variance. ``"auto"`` learns it.
    lengthscales : {"isotropic", "ard"}, default=None
        The lengthscales to learn: one for all columns, or one for each column. None means
        ``"ard"`` for ``kernel="auto"``, also of principal columns, and does not learn lengthscales
        for other kernels.
    search : {"auto", "exact", "approximate"}, default="auto"
        How to find the nearest rows. ``"auto"`` is exact, unless this takes more than about 2 ms
        for each row and faiss is installed (``pip install "quadfeat[local]"``). An approximate
        search compares a row with the nearest clusters of rows.
    time_limit : float, default=None
        Seconds after which learning stops and uses the best kernel so far. None means no limit. Up
        to 40% of this time is kept for choosing the number of neighbors. The step that is running
        is finished first.
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
    recall_ : float
        The share of the nearest rows that the search finds, measured on a sample; 1 if the search
        is exact.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variances of the Gaussian process, estimated from leave-one-out errors. The signal variance
        is the mean over neighborhoods. The noise variance is that of a row of weight 1.
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

    Each neighborhood has its own constant mean with a flat prior, and its own signal variance:
    where the targets of the neighbors vary more than elsewhere, standard deviations are larger. How
    much they differ, and the mean signal and noise variance, maximize the likelihood of the
    leave-one-out errors of up to 4096 rows. One more error stands for the first row that differs
    from a near copy. So the ratio of both variances may differ from ``alpha_``, which predictions
    use. With as many neighbors as rows, there is one signal variance.

    Copies of a row are merged, so for predictions, a weight of 2 is equivalent to a copy.
    Prediction intervals are for targets of mean weight, so weights and copies may give slightly
    different intervals.

    The nearest rows are found with a k-d tree if few columns matter, and otherwise by comparing
    each row with all training rows. Both are exact, and the results do not depend on the number of
    threads and on batches. Fitting is deterministic.

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

    def _table(self, rows: Rows) -> Table:
        """Return rows from any source in one table."""
        return gathered(rows)

    def _extended(self, before: LocalFit, rows: Rows) -> Table:
        """Return the rows of an earlier fit together with more rows."""
        return Table(before.X, before.Y, before.weights).merged(rows.each(Table.of, Table.merged))

    def _distinct_rows(self, table: Table) -> DistinctRows:
        # In other units, squares of targets could be beyond the range of float64.
        return DistinctRows.of(table.X, table.Y / units_of(table.Y), table.weights)

    def _goal(self, rows: DistinctRows) -> NumericGoal:
        """Return what the search for settings optimizes."""
        return NumericGoal(rows)

    def _check_outputs(self, n_outputs: int) -> None:
        """Raise an error if the model is not for this number of outputs."""
        checks.check_flag(self._one_output, "_one_output")
        checks.expect(not self._one_output or n_outputs == 1, f"there are {n_outputs} outputs")

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LocalGaussianProcess:
        """Add rows to the rows of earlier calls.

        The first call learns the kernel, the noise and the number of neighbors. Later calls keep
        them, so the first batch should be a large random sample of the rows. As long as there are
        fewer than 50 different rows, each call learns again from all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        LocalGaussianProcess
            This model.
        """
        return self._add(X, y, sample_weight)

    @property
    @on_snapshot
    def signal_variance_(self) -> Any:
        """Variance of the signal, the mean over neighborhoods."""
        return self._per_output(predictions.calibrated(self, "signal_variance_").signal_variance)

    @property
    @on_snapshot
    def noise_variance_(self) -> Any:
        """Variance of the noise of a row of weight 1."""
        return self._per_output(predictions.calibrated(self, "noise_variance_").noise_variance)

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

    def _sampled(self, X: Any, n_samples: int, random_state: Any) -> Array:
        return predictions.sampled(self, X, n_samples, random_state)
