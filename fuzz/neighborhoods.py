"""Compare conditional distributions of the native core, and their gradients, with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from choices import CORES, REJECTIONS, Array, Choices, Place, argument, same

from quadfeat.engine import _native
from quadfeat.kernels import Gaussian, Matern, RationalQuadratic
from quadfeat.neighbors import reference
from quadfeat.neighbors.hoods import Neighborhoods

ROUGH = Matern(0.5)
KERNELS = (Gaussian(), ROUGH, Matern(1.5), Matern(2.5), RationalQuadratic(1.3))
ALPHAS = (0.0, 1e-12, 1e-3, 0.1, 10.0)
WRONG_SHAPES = (np.nan, np.inf, -1.0, 0.0, 1e300, 1e-300)

# Numbers that are the index of no row.
NO_ROWS = (-1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))

# With less noise, rounding errors of ill-conditioned matrices are of any size.
NOISE_TO_COMPARE = 1e-3


def make_neighborhoods(choices: Choices) -> Neighborhoods:
    """Return queries with random rows, some of them more than once."""
    rng = choices.generator()
    n_rows, d = choices.number(1, 60), choices.number(1, 12)
    n_queries, k, n_outputs = choices.number(0, 20), choices.number(1, 40), choices.number(1, 4)
    hoods = Neighborhoods.of(
        rng.standard_normal((n_queries, d)),
        rng.standard_normal((n_rows, d)),
        rng.standard_normal((n_rows, n_outputs)),
        rng.uniform(0.5, 3.0, n_rows),
        rng.integers(n_rows, size=(n_queries, k)),
    ).scaled(rng.uniform(0.1, 2.0, d))
    if choices.rarely():
        extreme = choices.pick((np.nan, np.inf, -np.inf, 1e300, 1e-320))
        values = choices.pick((hoods.given_queries, hoods.points, hoods.point_targets))
        if values.size:
            values.flat[choices.number(0, values.size - 1)] = extreme
    return hoods


def check_neighborhoods(choices: Choices) -> None:
    """Compare one call with NumPy. Indices of rows that do not exist must be rejected."""
    kernel, alpha, hoods = choices.pick(KERNELS), choices.pick(ALPHAS), make_neighborhoods(choices)
    profile, shape = kernel.native_profile
    size, d, n_outputs = hoods.size, hoods.points.shape[1], hoods.point_targets.shape[1]
    neighbors = hoods.neighbors.astype(np.int64)
    outside = neighbors.size > 0 and choices.rarely()
    if outside:
        neighbors.flat[choices.number(0, neighbors.size - 1)] = choices.pick(
            (*NO_ROWS, len(hoods.points))
        )
    spoiled = choices.rarely()
    if spoiled:
        profile = choices.pick((profile, "", "wavelet"))
        shape, alpha = choices.pick(WRONG_SHAPES), choices.pick((*WRONG_SHAPES, alpha))
    values: dict[str, Array] = {
        "points": hoods.points,
        "targets": hoods.point_targets,
        "weights": hoods.weights[:, None],
        "queries": hoods.given_queries,
        "factors": hoods.factors[None],
        "neighbors": neighbors,
    }
    pulls = choices.flag()
    if pulls:
        rng = choices.generator()
        values["by_mean"] = rng.standard_normal((size, n_outputs))
        values["by_variance"] = rng.standard_normal((size, 1))
        widths = {"by_logarithms": d + 1}
    else:
        widths = {"mean": n_outputs, "variance": 1, "squares": n_outputs, "jitter": 1}
    given = {name: argument(choices, array) for name, array in values.items()}
    places = {name: Place(choices, np.full((size, n), np.nan)) for name, n in widths.items()}
    targets: dict[str, Any] = {name: place.view for name, place in places.items()}
    replaced = choices.rarely()
    if replaced:
        name = choices.pick(sorted(targets))
        targets[name] = argument(choices, targets[name])
    call = _native.pull_back if pulls else _native.condition
    try:
        call(
            profile=profile,
            shape=shape,
            alpha=alpha,
            **given,
            **targets,
            n_threads=choices.threads(),
            core="abacus" if choices.rarely() else choices.pick(CORES),
        )
    except (*REJECTIONS, IndexError):
        return
    finally:
        for place in places.values():
            place.check()
    faithful = all(same(given[name], array) for name, array in values.items())
    assert not (outside and faithful), "accepted the index of a row that does not exist"
    if spoiled or replaced or not faithful or not size or alpha < NOISE_TO_COMPARE:
        return
    if not all(
        np.isfinite(array).all() and np.abs(array).max(initial=0) < 1e3 for array in values.values()
    ):
        return
    if pulls and kernel is ROUGH and np.diff(np.sort(neighbors)).min(initial=1) == 0:
        return  # its slope at zero is infinite, and NumPy's sums of squares cancel up to rounding
    if pulls:
        by_mean, by_variance = values["by_mean"], values["by_variance"][:, 0]
        expected = {
            "by_logarithms": reference.pull_back(kernel, hoods, alpha, by_mean, by_variance)
        }
    else:
        found = reference.condition(kernel, hoods, alpha)
        expected = {
            "mean": found.mean,
            "variance": found.variance[:, None],
            "squares": found.squares,
            "jitter": found.jitter[:, None],
        }
    for name, wanted in expected.items():
        scale = 1.0 + np.abs(wanted).max(initial=0)
        error = np.abs(places[name].view - wanted).max(initial=0)
        assert error <= 1e-7 * scale, (name, kernel, alpha, error, scale)
