"""The result of a fit: rows, settings, and leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Float64Array
from quadfeat.io import checks, register
from quadfeat.kernels import Kernel, SeparationKernel
from quadfeat.neighbors.conditional import Conditional
from quadfeat.neighbors.process import LocalProcess
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.search import SEARCHES
from quadfeat.neighbors.settings import Settings
from quadfeat.neighbors.variances import Variances

# Number of distinct rows to leave out in turn, to calibrate variances.
CALIBRATION_ROWS = 4096


class LeftOutRows(NamedTuple):
    """Predictions for rows without their copies.

    Attributes
    ----------
    rows : int array of shape (n_rows,)
        Indices of the rows of the table.
    found : Conditional
        Their distributions, with means in the units of the targets.
    """

    rows: NDArray[np.intp]
    found: Conditional

    @property
    def mean(self) -> Float64Array:
        """The predictions, shape (n_rows, n_outputs)."""
        return self.found.mean


def centers_of(Y: Float64Array) -> Float64Array:
    """Return the mean of each output."""
    return np.asarray(Y[0] + np.mean(Y - Y[0], axis=0))


def units_of(Y: Float64Array) -> Float64Array:
    """Return the unit of each output, a power of two near its spread.

    Examples
    --------
    >>> units_of(np.array([[1e-200, 7.0], [3e-200, 7.0]])) / [2.0**-664, 1.0]
    array([1., 1.])
    """
    spread = np.abs(Y - centers_of(Y)).max(axis=0)
    return np.asarray(np.where(spread > 0, np.ldexp(1.0, np.frexp(spread)[1]), 1.0))


@register
@dataclass(frozen=True, eq=False)
class LocalFit:
    """Rows with the settings of a Gaussian process on nearest rows.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    Y : array of shape (n_rows, n_outputs)
    weights : array of shape (n_rows,)
        All positive.
    kernel : Kernel
        The kernel, with a numeric scale: a SeparationKernel, or a Metric with such a kernel.
    alpha : float
        The ratio of the noise variance of a row of weight 1 to the signal variance.
    n_neighbors : int
    search : {"auto", "exact", "approximate"}
    """

    X: Float64Array
    Y: Float64Array
    weights: Float64Array
    kernel: Kernel
    alpha: float
    n_neighbors: int
    search: str = "exact"

    def check_consistency(self) -> None:
        """Raise an error if the parts do not fit together; see ``quadfeat.io.register``."""
        checks.check_kind(self.X, np.ndarray, "X of _solution")
        checks.check_kind(self.kernel, Kernel, "kernel of _solution")
        checks.check_kind(self.kernel.inner, SeparationKernel, "kernel of _solution")
        n_rows, d = (*np.shape(self.X), 0, 0)[:2]
        checks.expect(n_rows >= 1 and d >= 1, "X of _solution has no entries")
        n_outputs = (*np.shape(self.Y), 0, 0)[1]
        checks.expect(n_outputs >= 1, "Y of _solution has no columns")
        checks.check_array(self.X, (n_rows, d), np.float64, "X of _solution")
        checks.check_array(self.Y, (n_rows, n_outputs), np.float64, "Y of _solution")
        checks.check_array(self.weights, (n_rows,), np.float64, "weights of _solution")
        checks.expect(bool((self.weights > 0).all()), "weights of _solution are not positive")
        check.check_count(self.n_neighbors, "n_neighbors of _solution")
        check.check_positive(self.alpha, "alpha of _solution")
        check.check_choice(self.search, "search of _solution", SEARCHES)
        projection = self.kernel.projection
        width = d if projection is None else projection.width
        factors = np.asarray(self.kernel.inner.input_factor(width))
        fits = factors.shape in ((), (1,), (width,)) and bool(np.isfinite(factors).all())
        fits = fits and (projection is None or projection.n_features_in == d)
        checks.expect(fits, f"the kernel is not for {d} columns")

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without values that were computed from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def with_rows(self, X: Float64Array, Y: Float64Array, weights: Float64Array) -> LocalFit:
        """Return a fit with other rows and the same settings."""
        return replace(self, X=X, Y=Y, weights=weights)

    def predicting(self, _: Any) -> LocalFit:
        """Return this fit, because predictions need all of it."""
        return self

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.Y.shape[1]

    @cached_property
    def center(self) -> Float64Array:
        """The mean of each output."""
        return centers_of(self.Y)

    @cached_property
    def unit(self) -> Float64Array:
        """The unit of each output, a power of two near its spread."""
        return units_of(self.Y)

    @cached_property
    def rows(self) -> DistinctRows:
        """The distinct rows, with centered outputs in their units."""
        return DistinctRows.of(self.X, (self.Y - self.center) / self.unit, self.weights)

    @cached_property
    def process(self) -> LocalProcess:
        """The process on the distinct rows."""
        d = self.X.shape[1]
        settings = Settings.of(self.kernel, d, self.alpha, self.n_neighbors, self.search)
        return LocalProcess(self.rows, settings)

    def predict(self, X: Float64Array, n_threads: int) -> Conditional:
        """Return the distributions at rows, with means in the units of the targets."""
        found = self.process.with_threads(n_threads).predict(X)
        return found._replace(mean=self.center + self.unit * found.mean)

    def deviations(self, found: Conditional, noise: float = 0.0) -> Float64Array:
        """Return standard deviations of targets with some noise, shape (n_queries, n_outputs).

        ``noise`` is relative to that of a row of weight 1. Without noise, these are the standard
        deviations of the latent function.
        """
        return np.asarray(self.unit * np.sqrt(self.variances.of_targets(found, noise)))

    @cached_property
    def calibration(self) -> Conditional:
        """The distributions at some distinct rows, given all other rows."""
        return self.process.left_out(np.arange(min(CALIBRATION_ROWS, self.rows.size)))

    @cached_property
    def variances(self) -> Variances:
        """The variances of the outputs in their units, which calibrate leave-one-out errors.

        They are NaN if there is only one distinct row.
        """
        rows = self.rows
        if rows.size < 2:
            return Variances.unknown(self.n_outputs)
        found = self.calibration
        size = len(found.mean)
        n_neighbors = min(self.n_neighbors, rows.size - 1)
        return Variances.of(
            rows.Y[:size] - found.mean,
            found,
            1.0 / rows.weights[:size],
            self.alpha,
            n_neighbors,
            scatter=rows.scatter[:size].sum(axis=0),
            n_spare=float(rows.n_spare[:size].sum()),
            is_whole=n_neighbors == rows.size - 1,
        )

    @property
    def signal_variance(self) -> Float64Array:
        """The signal variance of each output."""
        return np.asarray(self.variances.signal * self.unit**2)

    @property
    def noise_variance(self) -> Float64Array:
        """The noise variance of each output, of a row of weight 1."""
        return np.asarray(self.variances.noise * self.unit**2)

    def left_out(self, *, every: bool = False) -> LeftOutRows:
        """Predict rows of the table without them and their copies: some, or ``every`` row."""
        rows = self.rows
        found = self.process.left_out(np.arange(rows.size)) if every else self.calibration
        given = np.flatnonzero(rows.of_given < len(found.mean))
        which = rows.of_given[given]
        parts = Conditional(*(part[which] for part in found))
        return LeftOutRows(given, parts._replace(mean=self.center + self.unit * parts.mean))

    def log_likelihood(self) -> float:
        """Return the leave-one-out log likelihood of all distinct rows."""
        rows = self.rows
        found = self.process.left_out(np.arange(rows.size))
        varying = self.variances.signal > 0
        variances = self.variances.of_targets(found, 1.0 / rows.weights)[:, varying]
        squares = (rows.Y - found.mean)[:, varying] ** 2 / variances
        logarithms = np.log(2.0 * np.pi * variances) + 2.0 * np.log(self.unit[varying])
        return float(-0.5 * np.sum(squares + logarithms))
