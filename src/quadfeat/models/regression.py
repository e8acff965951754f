"""Kernel ridge regression and Gaussian processes on any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.io import checks, register
from quadfeat.models import predictions
from quadfeat.models.base import QuadratureModel, can_add_rows
from quadfeat.models.numeric_targets import NumericTargetsMixin
from quadfeat.models.scores import BlockScoreMixin
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.targets import Numbers, Targets

__all__ = ["QuadratureRidge"]

# The weighted sum of squares of larger targets may overflow if there are many rows.
LARGEST_TARGET = 1e140


@register(model=True)
class QuadratureRidge(BlockScoreMixin, NumericTargetsMixin, RegressorMixin, QuadratureModel):
    r"""Kernel ridge regression and Gaussian processes, in time linear in the number of rows.

    The model fits a ridge regression to the features of :class:`QuadratureFeatures`, which
    approximate the kernel. It computes features one block of rows at a time and never stores them
    all.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        ``"auto"`` learns kernels on a sample of the rows, and selects the best one by leave-one-out
        errors of rows that it was not learned from: on all rows of a large table in memory or in
        Dask, on the first block of a stream. Other values are as in :class:`QuadratureFeatures`.
    gamma : float, {"scale", "auto"} or array of shape (n_features,), default=None
        Shorthand for ``kernel=Gaussian(gamma)``, as in ``SVC`` and ``KernelRidge``. It also sets
        the ``gamma`` of ``kernel="laplacian"``. None leaves the kernel as it is.
    n_components, rule, random_state, n_jobs
        As in :class:`QuadratureFeatures`.
    features : QuadratureFeatures or another transformer, default=None
        A map that replaces ``kernel``, ``n_components`` and ``rule``: a ``QuadratureFeatures`` or
        any scikit-learn transformer of numeric columns, such as ``Nystroem`` or a pipeline. It is
        fitted first, unless it is already fitted. ``sklearn.base.clone``, and so a grid search,
        resets a fitted transformer; wrap it in ``sklearn.frozen.FrozenEstimator`` to keep it.
    alpha : float, {"auto", "loo", "gcv", "evidence"} or array-like, default="auto"
        Penalty on the squared coefficients: the ratio of the noise variance to the signal variance.
        A string selects alpha by a criterion. ``"loo"`` minimizes exact leave-one-out errors, which
        needs a second pass over the rows. ``"gcv"`` uses generalized cross-validation, and
        ``"evidence"`` the marginal likelihood. ``"auto"`` means ``"loo"`` if the rows can be read
        again, and ``"evidence"`` otherwise. With ``solver="cg"``, it uses leave-one-out errors of
        up to 3000 rows. An array selects the best of its values by generalized cross-validation.
        Every criterion selects only among safe alphas; see the notes.
    alphas : array-like, default=None
        Candidate values if ``alpha`` is a string. By default, a grid of all plausible values.
    lengthscales : {"isotropic", "ard", "full"}, default=None
        The most general lengthscales to learn: one for all columns, one for each column, or a full
        metric. None means ``"full"`` for ``kernel="auto"``, and does not learn lengthscales for
        other kernels.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalized.
    solver : {"auto", "normal", "cg"} or Solver, default="auto"
        ``"normal"`` accumulates the Gram matrix of the features in one pass and solves the normal
        equations, with memory of order ``n_components ** 2``. ``"cg"`` runs conjugate gradients,
        with one pass over the rows per step and little memory. ``"auto"`` means ``"cg"`` if there
        are more than 8192 features, ``alpha`` is a number or ``"auto"``, and the rows can be read
        again; otherwise ``"normal"``. An object from :mod:`quadfeat.solvers` has its own parameters
        instead of ``tol``, ``max_iter`` and ``gram_dtype``.
    tol : float, default=1e-3
        For ``"cg"``: the largest root mean square error of the predictions for the training rows,
        compared with the exact solution and relative to the centered targets. The bound includes
        the rounding error of predictions. ``fit`` warns if it is not reached.
    max_iter : int, default=None
        For ``"cg"``: the maximum number of steps. None means 500.
    gram_dtype : {"float32", "float64"}, default="float32"
        For ``"normal"``: the dtype of the Gram matrix of a block of rows. Blocks are added in
        float64, and blocks of fewer than 512 rows are always multiplied in float64. If ``alpha`` is
        too small for the rounding error of float32, the Gram matrix is computed again in float64,
        or ``fit`` warns if the rows cannot be read again.
    time_limit : float, default=None
        Seconds after which the search for a kernel stops and uses the best kernel so far. None
        means no limit. It does not limit the step that is running at that time, nor the fit of the
        best kernel to all rows.
    verbose : bool, default=False
        Whether to show progress on standard error, with the time left if the number of rows is
        known. For Dask collections, only the final number of rows is shown, because Dask shows the
        progress of its tasks.
    checkpoint : str or path, default=None
        A file for the state of the fit, which is updated from time to time and on Ctrl-C. If a fit
        is killed, start it again with the same data to resume; the result is the same. A missing
        folder is created. The file contains no code, has a checksum, and is removed at the end of
        the fit.

    Attributes
    ----------
    features_ : QuadratureFeatures or another transformer
        The fitted transformer.
    kernel_, metric_ : Kernel, ndarray of shape (n_features, n_features)
        The kernel, and the matrix of its squared distance between rows.
    candidates_, why_ : tuple of KernelCandidate, str
        The kernels that were tried with their validated losses, and the reason for the first one.
        The losses compare kernels. They are not estimates for new data.
    map_ : FeatureMap
        The map from rows to features.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
    intercept_ : float or ndarray of shape (n_outputs,)
    alpha_ : float
        The penalty that was used.
    path_ : AlphaPath or None
        The alphas that were tried, with the GCV, evidence and leave-one-out error of each.
    log_marginal_likelihood_ : float
        The log evidence at ``alpha_``, maximized over the signal variance.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variances of the Gaussian process. The prior variance of the latent function at ``x`` is
        ``signal_variance_ * kernel(x, x)``. Both are NaN if all targets are equal.
    gram_dtype_ : str
        The dtype of the Gram matrix of the features.
    n_iter_ : int
        Number of conjugate gradient steps; 1 for ``solver="normal"``.
    solver_error_ : float
        An upper bound on the error of ``predict`` for the training rows, relative to the targets.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    QuadratureRidgeClassifier : Classification.

    Notes
    -----
    The smallest safe alpha is the one closest to 1 whose leave-one-out error is within 2% and two
    standard errors of the smallest error. An alpha below 1 must be clearly better than 1. These
    errors are computed on all rows of a table in memory (a sample above 65,536 rows), otherwise on
    the rows that the model keeps. ``fit`` warns if the criterion alone would select an alpha with
    errors more than 10% above the smallest. Selecting alpha decomposes the Gram matrix, which is
    several times slower than a Cholesky factorization.

    A fitted model keeps up to 2048 training rows with their targets, to compute intervals and to
    check alpha. Its pickles and files contain these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (2000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(2000)
    >>> model = QuadratureRidge(n_components=64, alpha="evidence", random_state=0).fit(X, y)
    >>> mean, deviation = model.predict([[1.0], [30.0]], return_std=True)
    >>> mean.round(1), deviation[0] < 0.05 < deviation[1]
    (array([0.9, ...]), np.True_)
    >>> round(float(np.sqrt(model.noise_variance_)), 1)
    0.1
    """

    def _checked_targets(self, y: Any) -> Any:
        """Return the targets as float64; reject those whose squares are beyond its range."""
        targets = super()._checked_targets(y)
        largest = check.largest_magnitude(targets)
        if largest > LARGEST_TARGET:
            raise ValueError(
                f"y has values up to {largest:.2g}, but {type(self).__name__} sums squares of "
                f"targets, which are within the range of float64 up to {LARGEST_TARGET:g}. Divide "
                "y by a constant, or use LocalGaussianProcess."
            )
        return targets

    def _targets(self) -> Targets:
        """Return the encoding of targets as columns."""
        return Numbers()

    def _n_outputs(self, solved: int) -> int:
        """Return the expected number of outputs, given that the solution has ``solved``."""
        checks.check_flag(self._one_output, "_one_output")
        return 1 if self._one_output else solved

    @available_if(can_add_rows)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuadratureRidge:
        """Add rows to the rows of earlier calls.

        If ``features`` is fitted, or the map does not depend on the data, the result is the same
        as that of one :meth:`fit` to all rows, up to rounding, regardless of batches and their
        order. Otherwise the first batch determines the kernel and the rule.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        QuadratureRidge
            This model. Its coefficients are computed on first use.
        """
        return self._add(X, y, sample_weight)

    @property
    @on_snapshot
    def coef_(self) -> Float64Array:
        """Coefficients of the features."""
        coefficients = self._solved().coefficients
        return coefficients[:, 0] if self._one_output else coefficients.T

    @property
    @on_snapshot
    def intercept_(self) -> Any:
        """The intercept."""
        return self._per_output(self._solved().intercept)

    @property
    @on_snapshot
    def signal_variance_(self) -> Any:
        """Variance of the signal."""
        return self._per_output(self._posterior_of("signal_variance_").signal_variance)

    @property
    @on_snapshot
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        return self._per_output(self._posterior_of("noise_variance_").noise_variance)

    def _posterior_of(self, what: str) -> Posterior:
        """Return the posterior; warn if its variances cannot be estimated."""
        found = self._posterior(what)
        if np.isnan(found.signal_variance).any():
            check.warn_user(
                f"{what} is NaN, because all targets in y are equal. Pass rows with different "
                "targets."
            )
        return found

    @follows_input
    @on_snapshot
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to also return the posterior standard deviation of the latent function. The
            standard deviation of a new target is ``np.sqrt(y_std**2 + model.noise_variance_)``. The
            approximation error of the features is not included: with too few features for the
            kernel, the standard deviation is too small.
        return_cov : bool, default=False
            Whether to also return the posterior covariance matrix of the latent function. The
            comments on ``return_std`` apply. Both options also work in ``pipe.predict(X,
            return_std=True)`` of a pipeline.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The predictions in float64. A lazy Dask array if ``X`` is a Dask collection.
        y_std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations. Only with ``return_std=True``.
        y_cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            The covariance matrix. Only with ``return_cov=True``.
        """
        return predictions.predicted(self, X, return_std=return_std, return_cov=return_cov)

    @follows_input
    @on_snapshot
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Compute prediction intervals for the targets of new rows.

        An interval is the prediction plus and minus a multiple of the standard deviation of a
        target. The multiple comes from the exact leave-one-out errors of up to 2048 training rows,
        not from a normal distribution, and needs no second fit. The coverage is therefore right
        even if the noise is not Gaussian, or if the features approximate the kernel poorly. It
        holds on average over rows from the distribution of the training rows. Noise whose strength
        varies between rows is not modeled.

        The last step of a pipeline needs transformed rows:
        ``pipe[-1].predict_interval(pipe[:-1].transform(X))``.

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

        Examples
        --------
        >>> import numpy as np
        >>> from quadfeat import QuadratureRidge
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (4000, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_t(3, 4000)
        >>> model = QuadratureRidge(n_components=64, random_state=0).fit(X[:2000], y[:2000])
        >>> lower, upper = model.predict_interval(X[2000:], coverage=0.9)
        >>> round(float(np.mean((lower <= y[2000:]) & (y[2000:] <= upper))), 1)
        0.9
        """
        return predictions.intervals(self, X, coverage)

    def _sampled(self, X: Any, n_samples: int, random_state: Any) -> Array:
        return predictions.sampled(self, X, n_samples, random_state)
