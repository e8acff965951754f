"""Measure the rounding error of Gram matrices in float32, and how well a probe estimates it.

For several kernel widths, print the spectral norm of the error relative to the largest eigenvalue,
and relative to the error for one random vector. ``NORM_PER_PROBE`` in ``quadfeat.solvers.moments``
must be larger than the latter.
"""

from __future__ import annotations

import numpy as np

from quadfeat import QuadratureFeatures
from quadfeat.kernels import Gaussian
from quadfeat.solvers.accumulator import Accumulator, rows_per_block
from quadfeat.solvers.moments import NORM_PER_PROBE, Moments

N_ROWS = 40_000
N_COLUMNS = 8


def main() -> None:
    """Print a table."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, N_COLUMNS)).astype(np.float32)
    print("  gamma  columns  error / eigenvalue  error / probe")
    for gamma in (1e-3, 1e-2, 0.125, 1.0):
        for n_components in (256, 1024):
            features = QuadratureFeatures(
                Gaussian(gamma), rule="orf", n_components=n_components, random_state=0
            ).fit(X)
            accumulator = Accumulator(
                features.map_, Moments.empty(n_components, np.zeros(1)), np.float32
            )
            size = rows_per_block(n_components, np.float32)
            for start in range(0, N_ROWS, size):
                rows = X[start : start + size]
                accumulator.add(rows, np.zeros((len(rows), 1)), None)
            moments = accumulator.moments
            Z = features.transform(X).astype(np.float64)
            exact = Z.T @ Z
            found = np.triu(moments.products[:n_components, :n_components])
            found += np.triu(found, 1).T
            error = float(np.linalg.norm(found - exact, 2))
            largest = float(np.linalg.norm(exact, 2))
            probe = moments.gram_error() / NORM_PER_PROBE
            print(f"{gamma:7.3g} {n_components:8d} {error / largest:19.2g} {error / probe:14.2g}")


if __name__ == "__main__":
    main()
