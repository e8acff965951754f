r"""The scale of a kernel, one number or one per input, learnt from rows and their targets.

It maximises the evidence of a Gaussian process on those rows, of each output on its own but with
the same kernel and the same ratio :math:`\alpha` of noise to signal:

.. math:: y \sim N(b 1, s^2 (K_\theta + \alpha W^{-1})),

with a flat prior on the intercept :math:`b`, the best :math:`s^2` for each output and the weights
of the rows in :math:`W`. A row of weight ``w`` stands for ``w`` copies of it, which makes
:math:`N = \sum_i w_i` rows. Then up to a constant minus twice the logarithm of the evidence of an
output is

.. math::

    (N - 1) \log q + \log |A| + (N - m) \log \alpha + \log 1^\top A^{-1} 1, \qquad
    A = K_\theta + \alpha W^{-1}, \quad q = \min_b (y - b 1)^\top A^{-1} (y - b 1).

It costs a Cholesky factor of the rows each time, and an inverse for the gradient: this is for a
sample of some hundreds or thousands of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.linalg import blas, cho_solve, lapack
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from quadfeat._utils import validation as check
from quadfeat._utils.lazy import cached_property
from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import Kernel, SeparationKernel

__all__ = ["Learnt", "learn"]

# Where the search for one number starts: at the best of these multiples of what "scale" would be,
# with the best of these ratios of noise to signal. From the smoothest on, since the first that is
# as good as the best to within this log evidence is taken: noise is explained as well by a kernel
# too narrow for any two rows, which more rows would fill.
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
ALPHAS = (10.0, 1e-1, 1e-3)
AS_GOOD = 1.0

# How far a factor of the inputs may go from what "scale" would be. Inputs that do not matter end at
# the lower end, where they hardly move rows apart.
FACTOR_RANGE = (1e-3, 1e3)

# Less noise than this is none that a Cholesky factor of some thousand rows could tell from zero;
# more leaves no signal.
ALPHA_RANGE = (1e-8, 1e4)

# What is returned for the ratio of noise to signal where there is nothing to learn from.
ALPHA_OF_NOTHING = 1.0

# What is added to the diagonal, ever more, where rows of huge weight leave a matrix singular.
JITTER = 1e-10
MOST_JITTER = 1e10

# Steps at most; a search ends when one gains less evidence per row, or nowhere is a steeper slope.
MOST_STEPS = 100
LEAST_GAIN = 1e-7
LEAST_SLOPE = 1e-5

# Threads win little with matrices up to this size, and where a processor has other work to do they
# wait for each other: a factor of 1000 rows then takes not 10 ms but half a second.
ONE_THREAD_UP_TO = 2000

# A column is constant if its values differ by no more than this, relative to the largest of them: a
# sum of some hundred terms may leave so much rounding. In units of a smaller spread, the rounding
# of the values would also blur the phases of all features.
ROUNDING = 256 * np.finfo(np.float64).eps


class Learnt(NamedTuple):
    """What was learnt.

    Attributes
    ----------
    kernel : Kernel
        A copy of the kernel with one number as its scale, or an array with one for each input.
    alpha : float
        The ratio of the variance of the noise to that of the signal.
    log_evidence : float
        Logarithm of the evidence of all outputs at these; 0 if there was nothing to learn from.
    n_evaluations : int
        How often the evidence was computed.
    """

    kernel: Kernel
    alpha: float
    log_evidence: float
    n_evaluations: int


def learn(
    kernel: Kernel,
    X: Float64Array,
    Y: Float64Array,
    weights: Float64Array | None = None,
    *,
    each: bool,
    ranges: Float64Array | None = None,
) -> Learnt:
    """Learn the scale of a kernel, and how much noise there is.

    Parameters
    ----------
    kernel : Kernel
        ``Gaussian``, ``Laplacian``, ``Matern`` or ``RationalQuadratic``. The scale it has does not
        matter: the search starts from that of the data.
    X : ndarray of shape (m, d)
    Y : ndarray of shape (m, k)
        Columns without any spread are left out of account.
    weights : ndarray of shape (m,), default=None
        How often a row counts; ``None`` means once. Copies of a row have no noise between them, so
        weights above 1 speak for little noise, whatever the data: those that are no counts but
        relative should have the mean 1, rows of weight 0 apart.
    each : bool
        Whether each input gets a scale of its own. Inputs that are constant in ``X`` take no part
        in the search. They keep the usual scale or, if they have a range, the geometric mean of
        those of the others relative to it, if that is wider.
    ranges : ndarray of shape (d,), default=None
        The largest less the smallest value of each input in all rows, of which ``X`` is a sample.
        ``None`` means that ``X`` is all that is known.

    Returns
    -------
    Learnt

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Matern
    >>> from quadfeat.solvers.lengthscales import learn
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> learnt = learn(Matern(), X, np.sin(9 * X[:, :1]), each=True)
    >>> bool(learnt.kernel.length_scale[1] > 100 * learnt.kernel.length_scale[0])  # which is idle
    True
    """
    check.check_kind(
        kernel,
        SeparationKernel,  # type: ignore[type-abstract]
        f"kernel={check.one_line(kernel)} has no scale that could be learnt: give a number as "
        f"its {kernel.scale_parameter}, or a kernel Gaussian, Laplacian, Matern or "
        "RationalQuadratic.",
        ValueError,
    )
    kernel.resolve(X)  # complains of parameters that are not valid, the scale included
    weights = np.ones(len(X)) if weights is None else weights
    X, Y, weights = (rows[weights > 0] for rows in (X, Y, weights))
    d = X.shape[1]
    ranges = np.zeros(d) if ranges is None else ranges
    inputs, input_units = _standardised(X, weights, ranges)
    outputs, output_units = _standardised(Y, weights, np.zeros(Y.shape[1]))
    varying, telling = input_units > 0, output_units > 0
    common_unit = _root_mean_square(input_units[varying]) if varying.any() else 1.0
    # Columns that vary in other rows only are measured by their range. Columns that vary nowhere
    # have the unit of the others, but at least their magnitude: phases of large multiples would
    # round the other inputs away.
    largest = np.abs(X).max(axis=0)
    elsewhere = ~varying & (ranges > ROUNDING * largest)
    constant_units = np.where(elsewhere, ranges, np.maximum(largest, common_unit))
    input_units = np.where(varying, input_units, constant_units)
    if not varying.any():
        common_unit = _root_mean_square(input_units)
    log_ratios = np.log(input_units / common_unit)[varying]
    # Constant columns move no rows apart, so the others are learned as if these were not there.
    evidence = Evidence(kernel, inputs[:, varying], outputs[:, telling], weights)

    # Two rows differ by one number an output, and its variance takes that up.
    if varying.any() and telling.any() and evidence.degrees > 1:
        with threadpool_limits(1 if len(X) <= ONE_THREAD_UP_TO else None, user_api="blas"):
            found = _search(evidence, log_ratios, each)
        log_units = evidence.degrees * np.log(output_units[telling]).sum()
        log_evidence = float(evidence.constant - found.loss - log_units)
    else:
        start = np.log([kernel.usual_factor(d)])
        found = Found(0.0, log_ratios, start, np.log(ALPHA_OF_NOTHING), 0)
        log_evidence = 0.0

    with np.errstate(all="ignore"):
        if each:
            usual = kernel.usual_factor(d)
            factors = np.full(d, usual)
            if varying.any():
                # The sample says nothing about columns that vary elsewhere, so the best guess is
                # what is typical of the others. The usual scale may be narrow beside those of a
                # wide kernel, whose variance is large: the few rows that have other values would be
                # fitted by functions of large amplitude.
                factors[elsewhere] = min(usual, float(np.exp(found.log_factors.mean())))
            factors[varying] = np.exp(found.log_factors)
            scale = kernel.factor_to_scale(factors / input_units)
        else:
            scale = kernel.factor_to_scale(np.exp(found.shifts) / common_unit)
    name = kernel.scale_parameter
    if not ((scale > 0) & (scale < np.inf)).all():
        raise ValueError(
            f"{name} of {type(kernel).__name__} cannot be learnt from inputs with standard "
            f"deviations from {input_units.min():.3g} to {input_units.max():.3g}: rescale X."
        )
    learnt = clone(kernel).set_params(**{name: scale if each else float(scale[0])})
    return Learnt(learnt, float(np.exp(found.log_alpha)), log_evidence, found.n_evaluations)


@dataclass(frozen=True)
class Evidence:
    """The evidence as a function of the factors of the inputs and the ratio of noise to signal.

    Its opposite, up to a constant, is the loss that a search minimises.
    """

    kernel: SeparationKernel
    X: Float64Array
    Y: Float64Array  # of mean 0, at least up to rounding: large intercepts would cancel
    weights: Float64Array

    @property
    def degrees(self) -> float:
        """Degrees of freedom of an output: one is the intercept's."""
        return float(self.weights.sum()) - 1.0

    @property
    def constant(self) -> float:
        """The sum of loss and log evidence."""
        of_variance = self.degrees * (1.0 + np.log(2.0 * np.pi / self.degrees))
        return float(-0.5 * self.Y.shape[1] * (of_variance + np.log(self.weights).sum()))

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """Where a matrix in Fortran order has its lower triangle, without the diagonal."""
        m = len(self.X)
        return np.flatnonzero(np.tri(m, k=-1, dtype=bool).T)

    def separations(self, log_factors: Float64Array) -> Float64Array:
        """Return the separation of each pair of rows, once."""
        scaled = self.X * np.exp(log_factors)
        return self.kernel.separations(scaled, scaled, same=True).ravel()[self.pairs]

    def solve(self, values: Float64Array, alpha: float) -> Solution:
        """Solve for the loss, given the kernel of each pair of rows."""
        m, k = self.Y.shape
        lower = self._lower_triangle(values)
        diagonal = 1.0 + alpha / self.weights
        np.fill_diagonal(lower, diagonal)
        cholesky, failed = lapack.dpotrf(lower, lower=1)
        jitter = JITTER
        while failed and jitter < MOST_JITTER:
            np.fill_diagonal(lower, diagonal + jitter)
            cholesky, failed = lapack.dpotrf(lower, lower=1)
            jitter *= 10.0
        if failed:
            raise ValueError(
                f"{check.one_line(self.kernel)} has no lengthscales for these rows: its values are "
                "no positive definite matrix of finite numbers. Rescale X."
            )
        right = np.column_stack([np.ones(m), self.Y])
        solved = cho_solve((cholesky, True), right, check_finite=False)
        of_ones, of_outputs = solved[:, 0], solved[:, 1:]
        precision = of_ones.sum()
        residuals = of_outputs - np.outer(of_ones, of_outputs.sum(axis=0) / precision)
        squares = np.einsum("aj,aj->j", self.Y, residuals)
        shared = 2.0 * np.log(cholesky.diagonal()).sum() + np.log(precision)
        shared += (self.weights.sum() - m) * np.log(alpha)
        loss = 0.5 * (self.degrees * np.log(squares).sum() + k * shared)
        directions = np.column_stack(
            [np.sqrt(k / precision) * of_ones, np.sqrt(self.degrees / squares) * residuals]
        )
        return Solution(float(loss), cholesky, directions)

    def loss_and_gradient(
        self, log_factors: Float64Array, log_alpha: float
    ) -> tuple[float, Float64Array, float]:
        """Return the loss and its derivatives by the logarithms of the factors and of alpha."""
        m, k = self.Y.shape
        alpha = float(np.exp(log_alpha))
        separations = self.separations(log_factors)
        loss, cholesky, directions = self.solve(self.kernel.value_at(separations), alpha)
        inverse, _ = lapack.dpotri(cholesky, lower=1, overwrite_c=1)
        by_gram = blas.dsyrk(-0.5, directions, 0.5 * k, inverse, lower=1, overwrite_c=1)
        by_alpha = by_gram.diagonal() @ (alpha / self.weights) + 0.5 * k * (self.weights.sum() - m)
        # An entry below the diagonal stands for the one above, too.
        by_pairs = 2.0 * by_gram.ravel(order="F")[self.pairs] * self.kernel.slope_at(separations)
        by_factors = self.kernel.factor_gradient(
            self.X * np.exp(log_factors), self._lower_triangle(by_pairs)
        )
        return loss, by_factors, float(by_alpha)

    def _lower_triangle(self, of_pairs: Float64Array) -> Float64Array:
        """Return a matrix with these entries below the diagonal and zeros elsewhere."""
        m = len(self.X)
        entries = np.zeros(m * m)
        entries[self.pairs] = of_pairs
        return entries.reshape((m, m), order="F")


class Solution(NamedTuple):
    r"""The loss and what its derivative takes.

    With ``directions`` :math:`Z` the derivative by the Gram matrix is
    :math:`(k A^{-1} - Z Z^\top) / 2`.
    """

    loss: float
    cholesky: Float64Array
    directions: Float64Array


class Found(NamedTuple):
    """Where a search got to: log factors are a pattern with shifts, one of all or one of each."""

    loss: float
    pattern: Float64Array
    shifts: Float64Array
    log_alpha: float
    n_evaluations: int

    @property
    def log_factors(self) -> Float64Array:
        """Logarithms of the factors of the inputs."""
        return self.pattern + self.shifts


def _search(evidence: Evidence, log_ratios: Float64Array, each: bool) -> Found:
    """Search for one number, and from there for one per input if ``each`` is to have its own.

    One number is for inputs in a common unit, to which theirs have these ratios. Before a search
    for one per input, inputs in their own units are tried as well.
    """
    own_units = np.zeros_like(log_ratios)
    start = _best_of_grid(evidence, [log_ratios, own_units] if each else [log_ratios])
    found = _descend(evidence, start)
    if not each:
        return found
    return _descend(evidence, found._replace(pattern=own_units, shifts=found.log_factors))


def _best_of_grid(evidence: Evidence, patterns: list[Float64Array]) -> Found:
    """Return the best of a few multiples of the patterns and a few ratios of noise to signal."""
    kernel = evidence.kernel
    tried = []
    for factor in FACTORS:
        for pattern in patterns:
            shift = np.log([factor * kernel.usual_factor(len(pattern))])
            values = kernel.value_at(evidence.separations(pattern + shift))
            for alpha in ALPHAS:
                loss = evidence.solve(values, alpha).loss
                tried.append(Found(loss, pattern, shift, float(np.log(alpha)), 0))
    least = min(found.loss for found in tried)
    smoothest = next(found for found in tried if found.loss <= least + AS_GOOD)
    return smoothest._replace(n_evaluations=len(tried))


def _descend(evidence: Evidence, start: Found) -> Found:
    """Minimise the loss over shifts and alpha."""
    size = evidence.weights.sum() * evidence.Y.shape[1]

    def loss_per_row(parameters: Float64Array) -> tuple[float, Float64Array]:
        shifts, log_alpha = parameters[:-1], float(parameters[-1])
        loss, by_factors, by_alpha = evidence.loss_and_gradient(start.pattern + shifts, log_alpha)
        by_shifts = by_factors if len(shifts) > 1 else by_factors.sum()
        return loss / size, np.append(by_shifts, by_alpha) / size

    usual = evidence.kernel.usual_factor(len(start.pattern))
    bounds = [tuple(np.log(np.multiply(FACTOR_RANGE, usual)))] * len(start.shifts)
    result = optimize.minimize(
        loss_per_row,
        np.append(start.shifts, start.log_alpha),
        jac=True,
        method="L-BFGS-B",
        bounds=[*bounds, tuple(np.log(ALPHA_RANGE))],
        options={"maxiter": MOST_STEPS, "ftol": LEAST_GAIN, "gtol": LEAST_SLOPE},
    )
    return Found(
        float(result.fun * size),
        start.pattern,
        result.x[:-1],
        float(result.x[-1]),
        start.n_evaluations + result.nfev,
    )


def _standardised(
    X: Float64Array, weights: Float64Array, ranges: Float64Array
) -> tuple[Float64Array, Float64Array]:
    r"""Return columns with mean 0 in units of their spread, and these units: 0 for constants.

    The unit is the standard deviation :math:`\sigma`, unless few rows account for most of it, as in
    a one-hot column of a rare category. Those rows are many deviations away from all others, where
    the evidence hardly changes with the scale. Then the unit is :math:`\sqrt{E x^4 / E x^2} / 2`:
    half the distance of these rows, however few they are and however little they weigh. It is
    larger than :math:`\sigma` for a kurtosis above 4. Nor is the unit smaller than the deviation of
    as many rows, equally weighted, that include both ends of the range: rows outside of the sample
    must not be farther apart than rows of it could be.
    """
    unit = _power_of_two(np.maximum(np.abs(X).max(axis=0), ranges))
    columns = X / unit
    columns = columns - columns[0]  # exact zeros for equal values, whatever the weights
    spreads = np.ptp(columns, axis=0)
    constant = spreads <= ROUNDING
    columns -= np.average(columns, axis=0, weights=weights)
    columns[:, constant] = 0.0
    variances = np.average(columns**2, axis=0, weights=weights)
    fourth = np.average(columns**4, axis=0, weights=weights)
    distances = np.sqrt(fourth / np.where(variances > 0, variances, 1.0))
    least = np.maximum(spreads, ranges / unit) / np.sqrt(2.0 * len(X))
    units = np.maximum.reduce([np.sqrt(variances), distances / 2.0, least])
    units[constant] = 0.0
    return columns / np.where(constant, 1.0, units), units * unit


def _power_of_two(values: Float64Array) -> Float64Array:
    """Return the largest power of two up to each value, by which to divide is exact."""
    return np.asarray(np.ldexp(1.0, np.frexp(values)[1] - 1))


def _root_mean_square(values: Float64Array) -> float:
    """Return the root of the mean square of positive numbers of any magnitude."""
    largest = values.max()
    return float(largest * np.sqrt(np.mean((values / largest) ** 2)))
