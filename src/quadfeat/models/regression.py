"""Kernel ridge regression and Gaussian processes on any number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.array_api import follows_input
from quadfeat._utils.available import available_if
from quadfeat._utils.fitted import on_snapshot
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.io import checks, register
from quadfeat.models.base import QuadratureModel, can_add_rows
from quadfeat.models.intervals import bounds, check_coverage, interval_scores
from quadfeat.models.lazy import lazily
from quadfeat.solvers.posterior import Posterior, leverage_at
from quadfeat.solvers.targets import Numbers, Targets

__all__ = ["QuadratureRidge"]


@register(model=True)
class QuadratureRidge(RegressorMixin, QuadratureModel):
    r"""Kernel ridge regression, or a Gaussian process, in time linear in the number of rows.

    The features of :class:`QuadratureFeatures` approximate the kernel. They are computed one block
    of rows at a time, and never all in memory.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        ``"auto"`` learns kernels on a sample, and keeps the best one if leave-one-out errors of
        rows it was not learned from confirm it: of all rows of large tables in memory or on Dask,
        and of the first block of a stream. Other values are as in
        :class:`QuadratureFeatures`.
    n_components, rule, random_state, n_jobs
        As in :class:`QuadratureFeatures`.
    features : QuadratureFeatures or another transformer, default=None
        The map, instead of ``kernel``, ``n_components`` and ``rule``: a ``QuadratureFeatures`` or
        any scikit-learn transformer from numbers to numbers, such as ``Nystroem`` or a pipeline. A
        fitted one is used as it is, others are fitted first. ``sklearn.base.clone``, and so a grid
        search, resets a fitted one, unless it is in a ``sklearn.frozen.FrozenEstimator``.
    alpha : float, {"auto", "loo", "gcv", "evidence"} or array-like, default="auto"
        Penalty on the squares of the coefficients: the ratio of the variance of the noise to that
        of the signal. A string chooses the best alpha: ``"loo"`` by exact leave-one-out errors,
        which takes a second pass over the rows, ``"gcv"`` by generalized cross-validation,
        ``"evidence"`` by the evidence. ``"auto"`` means ``"loo"`` if rows can be read again, and
        ``"evidence"`` otherwise; with ``"cg"`` leave-one-out errors of up to 3000 rows choose
        alpha. An array chooses the best of its values by generalized cross-validation.
        All of them choose among alphas that are safe by leave-one-out errors: of those within 2 %
        and one standard error of the best, the one nearest to 1. An alpha below 1 has to be clearly
        better than 1. These errors are of all rows of a table in memory (a sample, if there are
        more than 65,536), and of the rows that the model keeps otherwise. ``fit`` warns if a
        criterion alone would have taken an alpha with errors more than 10 % above the smallest.
        Choosing takes an eigendecomposition instead of a Cholesky factorization, which is many
        times slower for thousands of features; ``"evidence"`` on streams takes a few Cholesky
        factorizations.
    alphas : array-like, default=None
        Alphas to try if ``alpha`` is a string. The default is a path that covers all plausible
        values.
    lengthscales : {"isotropic", "ard", "full"}, default=None
        The most general lengthscales to learn and validate: one number, one for each column, or a
        full metric. None means ``"full"`` for ``kernel="auto"``; other kernels stay as they are.
    fit_intercept : bool, default=True
        Whether to add a constant, which is not penalized.
    solver : {"auto", "normal", "cg"} or Solver, default="auto"
        ``"normal"`` sums the products of features in one pass and solves the normal equations, with
        memory of order ``n_components ** 2``. ``"cg"`` runs conjugate gradients, with a pass for
        each step and little memory. ``"auto"`` means ``"cg"`` for more than 8192 features if
        ``alpha`` is a number or ``"auto"`` and the rows can be read again, and ``"normal"``
        otherwise. An object
        from :mod:`quadfeat.solvers` has its own parameters instead of ``tol``, ``max_iter`` and
        ``gram_dtype``.
    tol : float, default=1e-3
        For ``"cg"``: the largest root mean square difference between predictions for the training
        rows and those of the exact solution, relative to the targets (about their mean). This is a
        bound that includes the rounding of predictions; ``fit`` warns if it is not reached.
    max_iter : int, default=None
        For ``"cg"``: the largest number of steps. None means 500.
    gram_dtype : {"float32", "float64"}, default="float32"
        For ``"normal"``: the dtype of products of features within a block of rows; blocks are added
        in float64. Blocks of fewer than 512 rows are always multiplied in float64. If ``alpha`` is
        too small for the measured error of float32, the products are computed again in float64;
        ``fit`` warns if rows cannot be read again.
    time_limit : float, default=None
        Seconds after which the search for a kernel ends with the best one so far; None for no
        limit.
    verbose : bool, default=False
        Show progress on standard error. For Dask collections, only the number of rows at the end:
        Dask shows the progress of its tasks.
    checkpoint : str or path, default=None
        A file to which the state of a fit is written from time to time. A fit that was killed
        resumes from it when it is started again with the same data, and the result is the same. The
        file holds no code, has a checksum, and is removed at the end of the fit.

    Attributes
    ----------
    features_ : QuadratureFeatures or another transformer
        The fitted transformer.
    kernel_, metric_ : Kernel, ndarray of shape (n_features, n_features)
        The kernel, and the matrix by which it measures distances of rows.
    candidates_, why_ : tuple of KernelCandidate, str
        The kernels that were tried with their validated losses, and the reason for the first.
    map_ : FeatureMap
        Its map from rows to columns.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
    intercept_ : float or ndarray of shape (n_outputs,)
    alpha_ : float
        The penalty that was used.
    path_ : AlphaPath or None
        The alphas that were tried, with GCV, evidence and leave-one-out error of each.
    log_marginal_likelihood_ : float
        The log evidence at ``alpha_``, maximized over the signal variance.
    signal_variance_, noise_variance_ : float or ndarray of shape (n_outputs,)
        Variances of the Gaussian process. The prior variance of its value at ``x`` is
        ``signal_variance_ * kernel(x, x)``. Both are NaN if all targets are equal, since
        they cannot be estimated.
    gram_dtype_ : str
        The dtype of the products of features.
    n_iter_ : int
        Steps of conjugate gradients; 1 for ``solver="normal"``.
    solver_error_ : float
        A bound on the error of ``predict`` for the training rows, relative to the targets.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    See Also
    --------
    QuadratureRidgeClassifier : Classification.

    Notes
    -----
    A fitted model keeps up to 2048 training rows with their targets, for intervals and to guard the
    choice of alpha. Its pickles and files contain them too.

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

    target_checks = {"multi_output": True, "y_numeric": True}  # noqa: RUF012

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def checked_targets(self, y: Any) -> Any:
        """Return the targets as float64; reject a shape unlike that of earlier batches."""
        if getattr(self, "_one_output", y.ndim == 1) != (y.ndim == 1):
            raise ValueError(
                f"y has shape {y.shape}, unlike earlier batches: give targets of the same shape."
            )
        self._one_output: bool = y.ndim == 1
        return np.asarray(y, dtype=np.float64)

    def targets(self) -> Targets:
        """Return the coding of targets as columns."""
        return Numbers()

    def n_outputs(self, solved: int) -> int:
        """Return the number of outputs to expect if the solution has ``solved`` of them."""
        checks.check_flag(self._one_output, "_one_output")
        return 1 if self._one_output else solved

    @available_if(can_add_rows)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> QuadratureRidge:
        """Add rows to those of earlier calls.

        The result equals that of one :meth:`fit` to all rows, up to rounding, for any batches in
        any order, if the map is given fitted (``features``) or does not depend on the data.
        Otherwise the first batch determines the kernel's scale and the rule.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        QuadratureRidge
            The model. Its coefficients are computed on first use.
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
        """The constant."""
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
        """Return the posterior; warn if the targets do not determine its variances."""
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
            Also return the standard deviation of the value of the Gaussian process at each row.
            The variance of a target is larger by ``noise_variance_``. The approximation error of
            the features is not included: with few features, intervals for the value are too short.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            float64, since targets may have more digits than float32 rows. A lazy Dask array if
            ``X`` is a Dask collection.
        y_std : ndarray of the same shape
            Only with ``return_std``.
        """
        if is_dask(X):
            return self._predict_lazily(X, return_std=return_std)
        check.check_flag(return_std, "return_std")
        X = self._rows(X)
        mean = self._shaped(self._decisions(X))
        if not return_std:
            return mean
        found = self._posterior("return_std")
        noise_variance = found.checked_noise_variance()
        leverage = leverage_at(found, self.map_, X)
        return mean, self._shaped(np.sqrt(np.multiply.outer(leverage, noise_variance)))

    def _predict_lazily(self, X: Any, *, return_std: bool) -> Any:
        """Return predictions for a Dask collection as Dask arrays.

        Standard deviations need a matrix of ``n_components ** 2`` numbers on each worker.
        """
        check_is_fitted(self)
        shape = () if self._one_output else (len(self._solved().intercept),)
        if not return_std:
            return lazily(self, "predict", X, shape)
        self._posterior("return_std").checked_noise_variance()  # raise errors now, not in workers
        both = lazily(self, "_mean_and_deviation", X, (2, *shape), whole=True)
        return both[:, 0], both[:, 1]

    def _mean_and_deviation(self, X: Any) -> Array:
        return np.stack(self.predict(X, return_std=True), axis=1)

    @follows_input
    @on_snapshot
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return intervals that contain the targets of new rows with a given probability.

        Intervals are those of the Gaussian process, ``predict`` plus and minus a multiple of the
        standard deviation of a target. The multiple is not that of a normal distribution: it comes
        from the leave-one-out errors of up to 2048 training rows, which are exact and need no
        second fit. So intervals also have their coverage if noise is not Gaussian, or features
        approximate the kernel poorly. This is coverage on average over rows that are distributed
        as the training rows: noise of different strength in different places is not modeled.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        coverage : float, default=0.9
            The probability, between 0 and 1. It needs at least ``coverage / (1 - coverage)``
            training rows.

        Returns
        -------
        lower, upper : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Each output has intervals of its own. Lazy Dask arrays if ``X`` is a Dask collection.

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
        found = self._posterior("predict_interval")
        coverage = check_coverage(coverage)
        scores = interval_scores(found, self.map_, self.targets(), self._solution)
        quantiles = scores.quantiles(coverage)
        if is_dask(X):
            shape = () if self._one_output else (len(quantiles),)
            both = lazily(self, "_bounds", X, (2, *shape), whole=True, arguments=(quantiles,))
            return both[:, 0], both[:, 1]
        both = self._bounds(X, quantiles)
        return both[:, 0], both[:, 1]

    def _bounds(self, X: Any, quantiles: Float64Array) -> Array:
        """Return lower and upper bounds, shape (n_samples, 2) or (n_samples, 2, n_outputs)."""
        X = self._rows(X)
        found = self._posterior("predict_interval")
        mean, leverage = self._decisions(X), leverage_at(found, self.map_, X)
        both = bounds(mean, leverage, found.checked_noise_variance(), quantiles)
        return both[:, :, 0] if self._one_output else both

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
            Number of functions.
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
        values = self.map_.predict(X, flat)
        values = values.reshape(-1, *coefficients.shape[1:]) + intercepts
        return values[:, 0] if self._one_output else values
