"""Predictions of a Gaussian process: standard deviations, covariances, intervals and draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from quadfeat._utils import validation as check
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.models.intervals import bounds, check_coverage, interval_scores
from quadfeat.models.lazy import lazily
from quadfeat.solvers.posterior import leverage_at

# A covariance matrix and the features of its rows may have this many entries: 4 GiB.
MOST_ENTRIES = 2**29


def predicted(model: Any, X: Any, *, return_std: bool, return_cov: bool) -> Any:
    """Return predictions, with standard deviations or a covariance matrix if requested."""
    check.check_flag(return_std, "return_std")
    check.check_flag(return_cov, "return_cov")
    if return_std and return_cov:
        raise RuntimeError("At most one of return_std or return_cov can be requested.")
    if is_dask(X):
        return _predicted_lazily(model, X, return_std=return_std, return_cov=return_cov)
    X = model._validated(X)
    mean = shaped(model, model._decisions(X))
    if return_std:
        found = model._posterior("return_std")
        noise_variance = found.checked_noise_variance()
        leverage = leverage_at(found, model.map_, X)
        return mean, shaped(model, np.sqrt(np.multiply.outer(leverage, noise_variance)))
    return (mean, _covariance(model, X)) if return_cov else mean


def _covariance(model: Any, X: Any) -> Array:
    """Return the covariance, shape (n_rows, n_rows) or (n_rows, n_rows, n_outputs)."""
    found = model._posterior("return_cov")
    noise_variance = found.checked_noise_variance()
    n_rows = X.shape[0]
    if n_rows * (n_rows * len(noise_variance) + model.map_.n_columns) > MOST_ENTRIES:
        raise ValueError(
            f"return_cov=True needs a matrix of {n_rows} x {n_rows} numbers for each output, which "
            "is too large. Pass fewer rows, or use return_std=True or sample_y."
        )
    covariance = found.relative_covariance(model.map_.columns(X))
    if model._one_output:
        return np.asarray(covariance * noise_variance[0])
    return np.multiply.outer(covariance, noise_variance)


def _predicted_lazily(model: Any, X: Any, *, return_std: bool, return_cov: bool) -> Any:
    """Return predictions for a Dask collection as Dask arrays.

    For standard deviations, each worker needs a matrix of ``n_components ** 2`` numbers.
    """
    check_is_fitted(model)
    if return_cov:
        raise ValueError(
            "return_cov=True does not support Dask collections. Pass the rows as an array, or use "
            "return_std=True."
        )
    shape = () if model._one_output else (len(model._solved().intercept),)
    if not return_std:
        return lazily(model, "predict", X, shape)
    model._posterior("return_std").checked_noise_variance()  # raises errors here, not in workers
    both = lazily(model, _mean_and_deviation, X, (2, *shape), whole=True)
    return both[:, 0], both[:, 1]


def _mean_and_deviation(model: Any, X: Any) -> Array:
    """Return predictions and standard deviations, shape (n_rows, 2) or (n_rows, 2, n_outputs)."""
    return np.stack(model.predict(X, return_std=True), axis=1)


def intervals(model: Any, X: Any, coverage: float) -> Any:
    """Return lower and upper bounds; see ``QuadratureRidge.predict_interval``."""
    found = model._posterior("predict_interval")
    coverage = check_coverage(coverage)
    scores = interval_scores(found, model.map_, model._targets(), model._solution)
    quantiles = scores.quantiles(coverage)
    if is_dask(X):
        shape = () if model._one_output else (len(quantiles),)
        both = lazily(model, _bounds, X, (2, *shape), whole=True, arguments=(quantiles,))
    else:
        both = _bounds(model, X, quantiles)
    return both[:, 0], both[:, 1]


def _bounds(model: Any, X: Any, quantiles: Float64Array) -> Array:
    """Return lower and upper bounds, shape (n_rows, 2) or (n_rows, 2, n_outputs)."""
    X = model._validated(X)
    found = model._posterior("predict_interval")
    mean, leverage = model._decisions(X), leverage_at(found, model.map_, X)
    both = bounds(mean, leverage, found.checked_noise_variance(), quantiles)
    return both[:, :, 0] if model._one_output else both


def sampled(model: Any, X: Any, n_samples: int, random_state: Any) -> Array:
    """Return values of functions from the posterior; see ``QuadratureRidge.sample_y``."""
    X = model._validated(X)
    check.check_count(n_samples, "n_samples")
    found = model._posterior("sample_y")
    coefficients, intercepts = found.draw(n_samples, generator(random_state))
    flat = coefficients.reshape(len(coefficients), -1)
    values = model.map_.predict(X, flat)
    values = values.reshape(-1, *coefficients.shape[1:]) + intercepts
    return values[:, 0] if model._one_output else values


def shaped(model: Any, values: Array) -> Array:
    """Return values in the shape of the targets."""
    return values[:, 0] if model._one_output else values
