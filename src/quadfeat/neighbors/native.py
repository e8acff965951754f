"""Conditional distributions and their derivatives in the native core."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadfeat._utils.validation import Float64Array
from quadfeat.engine import core
from quadfeat.kernels import SeparationKernel
from quadfeat.neighbors.hoods import Neighborhoods
from quadfeat.neighbors.reference import Conditional


def condition(
    kernel: SeparationKernel, hoods: Neighborhoods, alpha: float, n_threads: int
) -> Conditional:
    """Return the distribution of the latent function at each query."""
    size, n_outputs = hoods.size, hoods.point_targets.shape[1]
    mean, squares = np.empty((size, n_outputs)), np.empty((size, n_outputs))
    variance, jitter = np.empty((size, 1)), np.empty((size, 1))
    core.native_condition(
        **_arguments(kernel, hoods, alpha),
        mean=mean,
        variance=variance,
        squares=squares,
        jitter=jitter,
        n_threads=n_threads,
    )
    return Conditional(mean, variance[:, 0], squares, jitter[:, 0])


def pull_back(
    kernel: SeparationKernel,
    hoods: Neighborhoods,
    alpha: float,
    by_mean: Float64Array,
    by_variance: Float64Array,
    n_threads: int,
) -> Float64Array:
    """Return the gradient of each query in the logarithms of the factors and of alpha."""
    by_logarithms = np.empty((hoods.size, hoods.points.shape[1] + 1))
    core.native_pull_back(
        **_arguments(kernel, hoods, alpha),
        by_mean=by_mean,
        by_variance=by_variance[:, None],
        by_logarithms=by_logarithms,
        n_threads=n_threads,
    )
    return by_logarithms


def _arguments(kernel: SeparationKernel, hoods: Neighborhoods, alpha: float) -> dict[str, Any]:
    assert kernel.native_profile is not None  # the caller has checked
    profile, shape = kernel.native_profile
    return {
        "profile": profile,
        "shape": shape,
        "alpha": alpha,
        "points": hoods.points,
        "targets": hoods.point_targets,
        "weights": hoods.weights[:, None],
        "queries": hoods.given_queries,
        "factors": hoods.factors[None],
        "neighbors": np.asarray(hoods.neighbors, dtype=np.int64),
    }
