"""The rows on which ``rule="auto"`` and ``n_components="auto"`` measure errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Float64Array
from quadfeat.data.sampling import RowSample
from quadfeat.kernels import Kernel
from quadfeat.kernels.base import EVALUATIONS
from quadfeat.maps.kernel_error import mean_over_pairs

# Largest number of rows in the sample.
N_ROWS = 256

# Larger distances of scaled rows are clipped to this one if the kernel is practically 0 there.
FARTHEST = 6.0
AS_GOOD_AS_ZERO = 1e-6
N_DISTANCES = 40


@dataclass(frozen=True)
class Sample:
    """Rows of the data, and the values of the kernel that error estimates need.

    If a kernel projects rows, the sample has the projected rows and the inner kernel.
    """

    chosen: RowSample  # not scaled
    kernel: Kernel
    n_samples: float  # effective number of rows of the data

    @classmethod
    def of(cls, X: Any, kernel: Kernel, weights: Any = None) -> Sample:
        """Choose rows of a dense or sparse matrix."""
        return cls.from_rows(RowSample.of(X, N_ROWS, weights), kernel)

    @classmethod
    def from_rows(cls, chosen: RowSample, kernel: Kernel) -> Sample:
        """Take the first rows of a sample, as many as the kernel can evaluate quickly."""
        most = math.isqrt(2 * EVALUATIONS // kernel.evaluations_per_pair)
        few = chosen.first(min(N_ROWS, max(most, 8)))
        if kernel.projection is not None:
            few = replace(few, rows=kernel.projection.rows(few.rows))
        return cls(few, kernel.inner, chosen.n_samples)

    def first(self, n_rows: int) -> Sample:
        """Return a sample of fewer rows."""
        return replace(self, chosen=self.chosen.first(n_rows))

    @property
    def rows(self) -> Float64Array:
        """The rows, not scaled."""
        return self.chosen.rows

    @property
    def weights(self) -> Float64Array:
        """The weight of each row."""
        return self.chosen.weights

    @property
    def d(self) -> int:
        """Number of columns of the rows."""
        return self.rows.shape[1]

    @cached_property
    def scaled(self) -> Float64Array:
        """The rows multiplied by the scale factors of the kernel."""
        return self.kernel.scaled(self.rows)

    @cached_property
    def gram(self) -> Float64Array:
        """The exact Gram matrix of the rows."""
        return np.asarray(self.kernel(self.rows))

    @cached_property
    def mean_square(self) -> float:
        """The mean square of the kernel over pairs of rows, in units of ``unit ** 2``."""
        return self.mean((self.gram / self.unit) ** 2)

    @cached_property
    def unit(self) -> float:
        """The largest value of the kernel, by which errors are divided before squaring."""
        return float(np.abs(self.gram).max()) or 1.0

    def mean(self, values: Float64Array) -> float:
        """Return the mean over all pairs of the data, given values for the pairs of ``gram``."""
        return float(mean_over_pairs(values, self.n_samples, self.weights))

    @cached_property
    def distances(self) -> tuple[Float64Array, Float64Array]:
        """A grid of distances of scaled rows, and the share of pairs at each of them."""
        found = np.maximum(pdist(self.scaled), 1e-12)
        kernel: Any = self.kernel  # stationary, so it has at_distance
        if kernel.at_distance(np.array([FARTHEST]))[0] < AS_GOOD_AS_ZERO:
            found = np.minimum(found, FARTHEST)
        if len(found) == 0:
            return np.array([1.0]), np.zeros(1)
        grid = np.geomspace(found.min(), max(found.max(), found.min() * 1.001), N_DISTANCES)
        # Split each pair between its two neighbors on the grid, as in linear interpolation.
        place = np.interp(found, grid, np.arange(N_DISTANCES))
        below = np.minimum(place.astype(int), N_DISTANCES - 2)
        above = place - below
        left, right = np.triu_indices(len(self.rows), 1)  # the order of pdist
        counts = self.weights[left] * self.weights[right]
        weights = np.bincount(below, counts * (1.0 - above), N_DISTANCES)
        weights += np.bincount(below + 1, counts * above, N_DISTANCES)
        return grid, weights / counts.sum() * (1.0 - 1.0 / self.n_samples)
