"""Predictions of a Gaussian process on nearest rows: deviations, intervals and draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils import validation as check
from quadfeat._utils.random import generator
from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import is_dask
from quadfeat.engine.threads import n_threads
from quadfeat.models.intervals import Scores, check_coverage
from quadfeat.models.lazy import lazily
from quadfeat.models.predictions import shaped
from quadfeat.neighbors.conditional import Conditional, Neighborhoods, condition
from quadfeat.neighbors.fit import LocalFit
from quadfeat.neighbors.search import NearestRows


def predicted(model: Any, X: Any, *, return_std: bool) -> Any:
    """Return predictions, with standard deviations if requested."""
    check.check_flag(return_std, "return_std")
    if return_std:
        calibrated(model, "return_std=True")  # raises errors here, not in workers
    if is_dask(X):
        if not return_std:
            return lazily(model, "predict", X, output_shape(model))
        both = lazily(model, mean_and_deviation, X, (2, *output_shape(model)))
        return both[:, 0], both[:, 1]
    found = conditional(model, X)
    if not return_std:
        return shaped(model, found.mean)
    return shaped(model, found.mean), shaped(model, model._solution.deviations(found))


def mean_and_deviation(model: Any, X: Any) -> Array:
    """Return predictions and standard deviations, shape (n_rows, 2) or (n_rows, 2, n_outputs)."""
    return np.stack(predicted(model, X, return_std=True), axis=1)


def conditional(model: Any, X: Any) -> Conditional:
    """Return the distributions of the latent function at rows."""
    solution: LocalFit = model._solved()
    return solution.predict(model._rows(X), n_threads(model.n_jobs))


def calibrated(model: Any, what: str) -> LocalFit:
    """Return the fit of a model if variances can be estimated; otherwise raise an error."""
    solution: LocalFit = model._solved()
    if np.isnan(solution.variances.signal).any():
        raise ValueError(
            f"{what} needs a variance, but all rows in X are equal. Fit different rows."
        )
    return solution


def output_shape(model: Any) -> tuple[int, ...]:
    """Return the shape of the prediction for one row."""
    return () if model._one_output else (model._solution.n_outputs,)


def scores_of(solution: LocalFit) -> Scores:
    """Return the scores of rows that were left out; see :mod:`quadfeat.models.intervals`."""
    found = solution.left_out()
    errors = np.abs(solution.Y[found.rows] - found.mean)
    deviations = target_deviations(solution, found.found)
    # A constant output has errors and deviations of zero.
    values = errors / np.where(deviations > 0, deviations, 1.0)
    order = np.argsort(values, axis=0, kind="stable")
    return Scores(np.take_along_axis(values, order, axis=0), solution.weights[found.rows][order])


def target_deviations(solution: LocalFit, found: Conditional) -> Float64Array:
    """Return the standard deviations of targets of mean weight."""
    return solution.deviations(found, 1.0 / float(solution.weights.mean()))


def intervals(model: Any, X: Any, coverage: float) -> Any:
    """Return lower and upper bounds; see ``LocalGaussianProcess.predict_interval``."""
    coverage = check_coverage(coverage)
    solution = calibrated(model, "predict_interval")
    quantiles = scores_of(solution).quantiles(coverage)
    if is_dask(X):
        shape = (2, *output_shape(model))
        both = lazily(model, bounds_of, X, shape, arguments=(quantiles,))
    else:
        both = bounds_of(model, X, quantiles)
    return both[:, 0], both[:, 1]


def bounds_of(model: Any, X: Any, quantiles: Float64Array) -> Array:
    """Return lower and upper bounds, shape (n_rows, 2) or (n_rows, 2, n_outputs)."""
    found = conditional(model, X)
    steps = target_deviations(model._solution, found) * quantiles
    both = np.stack([found.mean - steps, found.mean + steps], axis=1)
    return both[:, :, 0] if model._one_output else both


def sampled(model: Any, X: Any, n_samples: int, random_state: Any) -> Array:
    """Return values of functions from the posterior; see ``LocalGaussianProcess.sample_y``.

    Rows are drawn one after another. The neighbors of a row are the nearest among the training rows
    and the rows drawn before, whose values have no noise.
    """
    check.check_count(n_samples, "n_samples")
    solution = calibrated(model, "sample_y")
    rng = generator(random_state)
    settings, known = solution.process.settings, solution.rows
    X = model._rows(X)
    new, of_given = np.unique(X, axis=0, return_inverse=True)
    points, k = settings.points(known.X), settings.n_neighbors
    queries = settings.queries(new)
    threads = n_threads(model.n_jobs)
    nearest = NearestRows(points, threads, settings.search).to(queries, k)
    # The signal variance near a row is that of the targets, not of the values that are drawn.
    near = solution.process.with_threads(threads).predict(new)
    signal = solution.variances.signal * solution.variances.scales(near.squares)
    drawn = np.empty((len(new), solution.n_outputs, n_samples))
    for n, query in enumerate(queries):
        among = np.vstack([points[nearest[n]], queries[:n]])
        order = np.argsort(np.sum((among - query) ** 2, axis=1), kind="stable")[:k]
        seen = order < len(nearest[n])
        rows = nearest[n][order[seen]]
        targets = np.empty((len(order), solution.n_outputs, n_samples))
        targets[seen] = known.Y[rows][:, :, None]
        targets[~seen] = drawn[order[~seen] - len(nearest[n])]
        # Values that were drawn have no noise.
        weights = np.full(len(order), np.inf)
        weights[seen] = known.weights[rows]
        own = np.arange(len(order))
        flat = targets.reshape(len(order), -1)
        hood = Neighborhoods.of(query[None], among[order], flat, weights, own[None])
        found = condition(settings.kernel, hood, settings.alpha)
        deviation = np.sqrt(found.variance[0] * signal[n])
        steps = rng.standard_normal(drawn.shape[1:])
        drawn[n] = found.mean.reshape(steps.shape) + deviation[:, None] * steps
    values = solution.center[:, None] + solution.unit[:, None] * drawn[of_given.reshape(-1)]
    return values[:, 0] if model._one_output else values
