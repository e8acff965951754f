"""Learn the scale of a kernel, one for all inputs or one per input, from rows and targets.

The scale maximizes the evidence of an exact Gaussian process on these rows
(:mod:`quadfeat.learning.evidence`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from sklearn.base import clone

from quadfeat._utils import validation as check
from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import Kernel, SeparationKernel
from quadfeat.learning.columns import ROUNDING, root_mean_square, standardized
from quadfeat.learning.evidence import Evidence

__all__ = ["Learned", "check_learnable", "learn"]

# The search for a single scale starts from the best combination of these multiples of the default
# factor (inverse lengthscale) and these noise-to-signal ratios. It prefers the widest kernel whose
# log evidence is within TIED of the best one, so the factors are ascending. A kernel that is too
# narrow to relate any two rows explains noise equally well, but more rows would contradict it.
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
ALPHAS = (10.0, 1e-1, 1e-3)
TIED = 1.0

# The search for one scale per input also starts from these multiples of the default factor, with
# this noise-to-signal ratio. If only a few of many inputs matter, the best single scale explains
# everything as noise, and the evidence is flat there. On pumadyn32nm, only the default factor leads
# to the signal.
OTHER_STARTS = (1.0, 0.1)
START_ALPHA = 0.1

# Number of steps from each start before only the best one continues, and its maximum number of
# steps. A search stops when the gain of log evidence per row is below LEAST_GAIN, or when no slope
# exceeds LEAST_SLOPE.
FIRST_STEPS = 15
MOST_STEPS = 100
LEAST_GAIN = 1e-6
LEAST_SLOPE = 1e-5

# Range of the factor of an input, relative to the default factor. Irrelevant inputs end at the
# lower limit, where they have almost no effect.
FACTOR_RANGE = (1e-3, 1e3)

# Range of the noise-to-signal ratio. A Cholesky factor of a few thousand rows cannot distinguish a
# smaller ratio from zero. A larger one leaves no signal.
ALPHA_RANGE = (1e-8, 1e4)

# The noise-to-signal ratio to return if there is nothing to learn from.
DEFAULT_ALPHA = 1.0

# Round learned log factors to this step. They then do not depend on rounding errors, which change
# with the number of threads.
LOG_STEP = 1e-3


class Learned(NamedTuple):
    """A kernel with a learned scale.

    Attributes
    ----------
    kernel : Kernel
        A copy of the kernel. Its scale is a number, or an array with one number per input.
    alpha : float
        The ratio of noise variance to signal variance.
    log_evidence : float
        The log evidence, summed over outputs; 0 if there was nothing to learn from.
    n_evaluations : int
        The number of evaluations of the evidence.
    """

    kernel: Kernel
    alpha: float
    log_evidence: float
    n_evaluations: int

    @property
    def has_scale_per_input(self) -> bool:
        """Whether the kernel has a scale for each input."""
        return np.ndim(getattr(self.kernel, self.kernel.scale_parameter)) > 0


def learn(
    kernel: Kernel,
    X: Float64Array,
    Y: Float64Array,
    weights: Float64Array | None = None,
    *,
    each: bool,
    ranges: Float64Array | None = None,
    start: Learned | None = None,
    max_steps: int = MOST_STEPS,
    stop: Callable[[], bool] | None = None,
) -> Learned:
    """Learn the scale of a kernel and the noise-to-signal ratio.

    Outliers of inputs and targets are clipped, and columns are standardized, before learning.

    Parameters
    ----------
    kernel : Kernel
        ``Gaussian``, ``Laplacian``, ``Matern`` or ``RationalQuadratic``. Its scale is ignored: the
        search starts from scales that suit the data.
    X : ndarray of shape (m, d)
    Y : ndarray of shape (m, k)
        Constant columns are ignored.
    weights : ndarray of shape (m,), default=None
        The number of copies of each row; ``None`` means 1. Copies have equal targets, so weights
        above 1 suggest that there is little noise. Weights that are not counts should therefore
        have mean 1 over the rows of positive weight.
    each : bool
        Whether to learn one scale per input. Inputs that are constant in ``X`` are not learned and
        get the default scale. If they vary in other rows, they get the geometric mean of the
        learned scales relative to their range, if that is wider.
    ranges : ndarray of shape (d,), default=None
        The range of each input in all rows, of which ``X`` is a sample. ``None`` means that there
        are no other rows.
    start : Learned, default=None
        The scale to start from, instead of a search for a start. If it is a single number and
        ``each`` is true, other starts are tried as well.
    max_steps : int, default=100
        The maximum number of steps from the best start.
    stop : callable, default=None
        Called after each step. If it returns True, the search stops with the best result so far.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat.kernels import Matern
    >>> from quadfeat.learning.lengthscales import learn
    >>> X = np.random.default_rng(0).uniform(size=(200, 2))
    >>> learned = learn(Matern(), X, np.sin(9 * X[:, :1]), each=True)
    >>> relevant, irrelevant = learned.kernel.length_scale
    >>> bool(irrelevant > 100 * relevant)
    True
    """
    kernel = check_learnable(kernel)
    kernel.resolve(X)  # raises an error if a parameter is not valid
    weights = np.ones(len(X)) if weights is None else weights
    X, Y, weights = (rows[weights > 0] for rows in (X, Y, weights))
    d = X.shape[1]
    ranges = np.zeros(d) if ranges is None else ranges
    inputs, input_units = standardized(X, weights, ranges)
    outputs, output_units = standardized(Y, weights, np.zeros(Y.shape[1]))
    varying, has_variance = input_units > 0, output_units > 0
    common_unit = root_mean_square(input_units[varying]) if varying.any() else 1.0
    # The unit of a column that varies only in other rows is its range. A column that varies nowhere
    # has the unit of the others, or its magnitude if that is larger: very large phases would cause
    # rounding errors in all features.
    largest = np.abs(X).max(axis=0)
    elsewhere = ~varying & (ranges > ROUNDING * largest)
    constant_units = np.where(elsewhere, ranges, np.maximum(largest, common_unit))
    input_units = np.where(varying, input_units, constant_units)
    if not varying.any():
        common_unit = root_mean_square(input_units)
    log_ratios = np.log(input_units / common_unit)[varying]
    # Constant columns do not affect distances between rows, so leave them out.
    evidence = Evidence(kernel, inputs[:, varying], outputs[:, has_variance], weights)
    search = Search(evidence, max_steps, stop)

    # Two rows are not enough: the signal variance of each output fits their difference exactly.
    if varying.any() and has_variance.any() and evidence.degrees > 1:
        first = None if start is None else search.at(start, input_units, varying)
        if first is not None and start is not None and start.has_scale_per_input:
            found = search.descend(first, max_steps)
        elif each:
            found = search.for_each(log_ratios, first)
        else:
            found = search.for_all(log_ratios)
        log_units = evidence.degrees * np.log(output_units[has_variance]).sum()
        log_evidence = float(evidence.constant - found.loss - log_units)
    else:
        usual_shift = np.log([kernel.usual_factor(d)])
        found = SearchPoint(0.0, log_ratios, usual_shift, np.log(DEFAULT_ALPHA))
        log_evidence = 0.0

    with np.errstate(all="ignore"):
        if each:
            usual = kernel.usual_factor(d)
            factors = np.full(d, usual)
            if varying.any():
                # The sample says nothing about columns that vary only elsewhere, so the best guess
                # is the typical factor of the others. If the learned kernel is wide, its signal
                # variance is large. With the narrower default scale, functions of large amplitude
                # would then overfit the few rows that have other values.
                factors[elsewhere] = min(usual, float(np.exp(found.log_factors.mean())))
            factors[varying] = np.exp(rounded(found.log_factors))
            scale = kernel.factor_to_scale(factors / input_units)
        else:
            scale = kernel.factor_to_scale(np.exp(rounded(found.shifts)) / common_unit)
    name = kernel.scale_parameter
    if not ((scale > 0) & (scale < np.inf)).all():
        raise ValueError(
            f"{name} of {type(kernel).__name__} cannot be learned, because the standard deviations "
            f"of X range from {input_units.min():.3g} to {input_units.max():.3g}. Rescale X."
        )
    learned = clone(kernel).set_params(**{name: scale if each else float(scale[0])})
    return Learned(learned, float(np.exp(found.log_alpha)), log_evidence, search.n_evaluations)


def check_learnable(kernel: Kernel) -> SeparationKernel:
    """Return a kernel if its scale can be learned; otherwise raise an error."""
    return check.check_kind(
        kernel,
        SeparationKernel,  # type: ignore[type-abstract]
        f"kernel={check.one_line(kernel)} has no scale that can be learned. Set its "
        f"{kernel.scale_parameter} to a number, or use a Gaussian, Laplacian, Matern or "
        "RationalQuadratic kernel.",
        ValueError,
    )


def rounded(log_factors: Float64Array) -> Float64Array:
    """Return log factors rounded to a fixed step."""
    return np.asarray(LOG_STEP * np.round(log_factors / LOG_STEP))


class SearchPoint(NamedTuple):
    """A point of a search: a fixed pattern of log factors, plus one shift or one per input."""

    loss: float
    pattern: Float64Array
    shifts: Float64Array
    log_alpha: float

    @property
    def log_factors(self) -> Float64Array:
        """The log factors of the inputs."""
        return self.pattern + self.shifts

    def for_each(self) -> SearchPoint:
        """Return the same point with one shift per input."""
        return self._replace(pattern=np.zeros_like(self.pattern), shifts=self.log_factors)


class Search:
    """Maximizes the evidence over the factors of inputs.

    Parameters
    ----------
    evidence : Evidence
    max_steps : int
    stop : callable or None
    """

    def __init__(self, evidence: Evidence, max_steps: int, stop: Callable[[], bool] | None) -> None:
        self.evidence = evidence
        self.max_steps = max_steps
        self.stop = stop
        self.n_evaluations = 0
        self._usual = evidence.kernel.usual_factor(max(1, evidence.X.shape[1]))

    def for_all(self, log_ratios: Float64Array) -> SearchPoint:
        """Search for one factor; ``log_ratios`` are those of the units to the common unit."""
        return self.descend(self._best_of_grid([log_ratios]), self.max_steps)

    def for_each(self, log_ratios: Float64Array, first: SearchPoint | None) -> SearchPoint:
        """Search for one factor per input from several starts; the first may be given."""
        own_units = np.zeros_like(log_ratios)
        if first is None:
            same = np.allclose(log_ratios, own_units, atol=0.1)
            best = self._best_of_grid([own_units] if same else [log_ratios, own_units])
            first = self.descend(best, FIRST_STEPS).for_each()
        starts = [first]
        for multiple in OTHER_STARTS:
            shifts = np.full(len(own_units), np.log(multiple * self._usual))
            starts.append(SearchPoint(np.inf, own_units, shifts, float(np.log(START_ALPHA))))
        found: list[SearchPoint] = []
        for one in starts:
            if found and self._is_over():
                break
            found.append(self.descend(one, FIRST_STEPS))
        best = min(found, key=lambda one: one.loss)
        return best if self._is_over() else self.descend(best, self.max_steps)

    def _is_over(self) -> bool:
        """Return whether the search has to stop."""
        return self.stop is not None and self.stop()

    def at(self, start: Learned, units: Float64Array, varying: np.ndarray[Any, Any]) -> SearchPoint:
        """Return the point for a learned scale, possibly of another kernel."""
        other: Any = start.kernel
        ratio = self._usual / other.usual_factor(int(varying.sum()))
        factors = (other.input_factor(len(units)) * units)[varying] * ratio
        shifts = np.log(np.clip(factors, *np.multiply(FACTOR_RANGE, self._usual)))
        log_alpha = float(np.log(np.clip(start.alpha, *ALPHA_RANGE)))
        return SearchPoint(np.inf, np.zeros_like(shifts), shifts, log_alpha)

    def _best_of_grid(self, patterns: list[Float64Array]) -> SearchPoint:
        """Return the best point on a grid of multiples of patterns and noise-to-signal ratios."""
        evidence, kernel = self.evidence, self.evidence.kernel
        tried = []
        for factor in FACTORS:
            for pattern in patterns:
                shift = np.log([factor * self._usual])
                values = kernel.value_at(evidence.separations(pattern + shift))
                for alpha in ALPHAS:
                    loss = evidence.solve(values, alpha).loss
                    tried.append(SearchPoint(loss, pattern, shift, float(np.log(alpha))))
        self.n_evaluations += len(tried)
        least = min(found.loss for found in tried)
        return next(found for found in tried if found.loss <= least + TIED)

    def descend(self, start: SearchPoint, max_steps: int) -> SearchPoint:
        """Minimize the loss over shifts and alpha, from a start."""
        evidence = self.evidence
        size = evidence.weights.sum() * evidence.Y.shape[1]

        def loss_per_row(parameters: Float64Array) -> tuple[float, Float64Array]:
            shifts, log_alpha = parameters[:-1], float(parameters[-1])
            loss, by_factors, by_alpha = evidence.loss_and_gradient(
                start.pattern + shifts, log_alpha
            )
            by_shifts = by_factors if len(shifts) > 1 else by_factors.sum()
            return loss / size, np.append(by_shifts, by_alpha) / size

        def after_step(_: Any) -> None:
            if self._is_over():
                raise StopIteration

        bounds = [tuple(np.log(np.multiply(FACTOR_RANGE, self._usual)))] * len(start.shifts)
        result = optimize.minimize(
            loss_per_row,
            np.append(start.shifts, start.log_alpha),
            jac=True,
            method="L-BFGS-B",
            bounds=[*bounds, tuple(np.log(ALPHA_RANGE))],
            callback=after_step,
            options={"maxiter": max_steps, "ftol": LEAST_GAIN, "gtol": LEAST_SLOPE},
        )
        self.n_evaluations += result.nfev
        loss, log_alpha = float(result.fun * size), float(result.x[-1])
        return SearchPoint(loss, start.pattern, result.x[:-1], log_alpha)
