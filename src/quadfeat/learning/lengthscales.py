"""Learn the scale of a kernel, one number or one for each input, from rows and their targets.

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

# The search for one number starts at the best of these multiples of the usual scale, with the best
# of these ratios of noise to signal. The multiples ascend, since the smoothest kernel wins whose
# log evidence is within AS_GOOD of the best: a kernel too narrow for any two rows explains noise
# equally well, but more rows would contradict it.
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
ALPHAS = (10.0, 1e-1, 1e-3)
AS_GOOD = 1.0

# The search for one number per input also starts at these multiples of the usual scale, with this
# ratio of noise to signal. If few of many inputs matter, the best single number is "all noise", and
# the evidence is flat there: on pumadyn32nm only the usual scale leads to the signal.
OTHER_STARTS = (1.0, 0.1)
START_ALPHA = 0.1

# Steps from each start before the best one goes on, and steps at most. A search ends when a step
# gains less evidence per row than LEAST_GAIN, or no slope is steeper than LEAST_SLOPE.
FIRST_STEPS = 15
MOST_STEPS = 100
LEAST_GAIN = 1e-6
LEAST_SLOPE = 1e-5

# How far the factor of an input may be from the usual one. Inputs that do not matter end at the
# lower end, where they hardly move rows apart.
FACTOR_RANGE = (1e-3, 1e3)

# A Cholesky factor of some thousand rows cannot tell less noise than this from zero; more leaves no
# signal.
ALPHA_RANGE = (1e-8, 1e4)

# The ratio of noise to signal that is returned if there is nothing to learn from.
ALPHA_OF_NOTHING = 1.0

# Learned log factors are rounded to this step, so that rounding errors, which depend on the number
# of threads, do not change them.
LOG_STEP = 1e-3


class Learned(NamedTuple):
    """A kernel with a learned scale.

    Attributes
    ----------
    kernel : Kernel
        A copy of the kernel with one number as its scale, or an array with one for each input.
    alpha : float
        The ratio of the variance of the noise to that of the signal.
    log_evidence : float
        The log evidence of all outputs; 0 if there was nothing to learn from.
    n_evaluations : int
        How often the evidence was computed.
    """

    kernel: Kernel
    alpha: float
    log_evidence: float
    n_evaluations: int

    @property
    def has_each(self) -> bool:
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
    """Learn the scale of a kernel and the ratio of noise to signal.

    Outliers among inputs and targets are moved toward the others, and columns are standardized,
    before anything is learned.

    Parameters
    ----------
    kernel : Kernel
        ``Gaussian``, ``Laplacian``, ``Matern`` or ``RationalQuadratic``. Its own scale does not
        matter: the search starts from that of the data.
    X : ndarray of shape (m, d)
    Y : ndarray of shape (m, k)
        Constant columns are ignored.
    weights : ndarray of shape (m,), default=None
        How often a row counts; ``None`` means once. Copies of a row have no noise between them, so
        weights above 1 are evidence for little noise: relative weights that are not counts should
        have mean 1, apart from rows of weight 0.
    each : bool
        Whether each input gets its own scale. Inputs that are constant in ``X`` take no part in the
        search. They keep the usual scale or, if they have a range, the geometric mean of the others
        relative to it, if that is wider.
    ranges : ndarray of shape (d,), default=None
        The largest minus the smallest value of each input in all rows, of which ``X`` is a sample.
        ``None`` means that ``X`` is all that is known.
    start : Learned, default=None
        Start from this scale instead of searching for a start. If it is one number and ``each`` is
        true, other starts are tried as well.
    max_steps : int, default=100
        The largest number of steps from the best start.
    stop : callable, default=None
        Called after each step; the search ends with the best result so far once it returns True.

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
    >>> bool(learned.kernel.length_scale[1] > 100 * learned.kernel.length_scale[0])  # is irrelevant
    True
    """
    kernel = check_learnable(kernel)
    kernel.resolve(X)  # raises an error if a parameter is not valid, the scale included
    weights = np.ones(len(X)) if weights is None else weights
    X, Y, weights = (rows[weights > 0] for rows in (X, Y, weights))
    d = X.shape[1]
    ranges = np.zeros(d) if ranges is None else ranges
    inputs, input_units = standardized(X, weights, ranges)
    outputs, output_units = standardized(Y, weights, np.zeros(Y.shape[1]))
    varying, telling = input_units > 0, output_units > 0
    common_unit = root_mean_square(input_units[varying]) if varying.any() else 1.0
    # Columns that vary in other rows only are measured by their range. Columns that vary nowhere
    # have the unit of the others, but at least their magnitude: phases of large multiples would
    # round the other inputs away.
    largest = np.abs(X).max(axis=0)
    elsewhere = ~varying & (ranges > ROUNDING * largest)
    constant_units = np.where(elsewhere, ranges, np.maximum(largest, common_unit))
    input_units = np.where(varying, input_units, constant_units)
    if not varying.any():
        common_unit = root_mean_square(input_units)
    log_ratios = np.log(input_units / common_unit)[varying]
    # Constant columns move no rows apart, so the others are learned as if these were not there.
    evidence = Evidence(kernel, inputs[:, varying], outputs[:, telling], weights)
    search = Search(evidence, max_steps, stop)

    # Two rows differ by one number per output, which its variance absorbs.
    if varying.any() and telling.any() and evidence.degrees > 1:
        first = None if start is None else search.at(start, input_units, varying)
        if first is not None and start is not None and start.has_each:
            found = search.descend(first, max_steps)
        elif each:
            found = search.for_each(log_ratios, first)
        else:
            found = search.for_all(log_ratios)
        log_units = evidence.degrees * np.log(output_units[telling]).sum()
        log_evidence = float(evidence.constant - found.loss - log_units)
    else:
        usual_shift = np.log([kernel.usual_factor(d)])
        found = Found(0.0, log_ratios, usual_shift, np.log(ALPHA_OF_NOTHING))
        log_evidence = 0.0

    with np.errstate(all="ignore"):
        if each:
            usual = kernel.usual_factor(d)
            factors = np.full(d, usual)
            if varying.any():
                # The sample says nothing about columns that vary elsewhere, so the best guess is
                # what is typical of the others. The usual scale may be narrow compared with those
                # of a wide kernel, whose variance is large: functions of large amplitude would fit
                # the few rows that have other values.
                factors[elsewhere] = min(usual, float(np.exp(found.log_factors.mean())))
            factors[varying] = np.exp(rounded(found.log_factors))
            scale = kernel.factor_to_scale(factors / input_units)
        else:
            scale = kernel.factor_to_scale(np.exp(rounded(found.shifts)) / common_unit)
    name = kernel.scale_parameter
    if not ((scale > 0) & (scale < np.inf)).all():
        raise ValueError(
            f"{name} of {type(kernel).__name__} cannot be learned from inputs with standard "
            f"deviations from {input_units.min():.3g} to {input_units.max():.3g}: rescale X."
        )
    learned = clone(kernel).set_params(**{name: scale if each else float(scale[0])})
    return Learned(learned, float(np.exp(found.log_alpha)), log_evidence, search.n_evaluations)


def check_learnable(kernel: Kernel) -> SeparationKernel:
    """Return a kernel whose scale can be learned; raise an error for others."""
    return check.check_kind(
        kernel,
        SeparationKernel,  # type: ignore[type-abstract]
        f"kernel={check.one_line(kernel)} has no scale that could be learned: give a number as "
        f"its {kernel.scale_parameter}, or a kernel Gaussian, Laplacian, Matern or "
        "RationalQuadratic.",
        ValueError,
    )


def rounded(log_factors: Float64Array) -> Float64Array:
    """Return log factors rounded to a fixed step."""
    return np.asarray(LOG_STEP * np.round(log_factors / LOG_STEP))


class Found(NamedTuple):
    """A point of a search: log factors are a pattern plus shifts, one for all or one for each."""

    loss: float
    pattern: Float64Array
    shifts: Float64Array
    log_alpha: float

    @property
    def log_factors(self) -> Float64Array:
        """Logarithms of the factors of the inputs."""
        return self.pattern + self.shifts

    def for_each(self) -> Found:
        """Return the same point with a shift for each input."""
        return self._replace(pattern=np.zeros_like(self.pattern), shifts=self.log_factors)


class Search:
    """Searches for the factors of inputs that maximize the evidence.

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

    def for_all(self, log_ratios: Float64Array) -> Found:
        """Search for one number, for inputs in a common unit to which theirs have these ratios."""
        return self.descend(self._best_of_grid([log_ratios]), self.max_steps)

    def for_each(self, log_ratios: Float64Array, first: Found | None) -> Found:
        """Search for one number per input, from several starts, the first of which may be given."""
        own_units = np.zeros_like(log_ratios)
        if first is None:
            same = np.allclose(log_ratios, own_units, atol=0.1)
            best = self._best_of_grid([own_units] if same else [log_ratios, own_units])
            first = self.descend(best, FIRST_STEPS).for_each()
        starts = [first]
        for multiple in OTHER_STARTS:
            shifts = np.full(len(own_units), np.log(multiple * self._usual))
            starts.append(Found(np.inf, own_units, shifts, float(np.log(START_ALPHA))))
        found = [self.descend(one, FIRST_STEPS) for one in starts]
        return self.descend(min(found, key=lambda one: one.loss), self.max_steps)

    def at(self, start: Learned, units: Float64Array, varying: np.ndarray[Any, Any]) -> Found:
        """Return the point of a learned scale, which may be that of another kernel."""
        other: Any = start.kernel
        ratio = self._usual / other.usual_factor(int(varying.sum()))
        factors = (other.input_factor(len(units)) * units)[varying] * ratio
        shifts = np.log(np.clip(factors, *np.multiply(FACTOR_RANGE, self._usual)))
        log_alpha = float(np.log(np.clip(start.alpha, *ALPHA_RANGE)))
        return Found(np.inf, np.zeros_like(shifts), shifts, log_alpha)

    def _best_of_grid(self, patterns: list[Float64Array]) -> Found:
        """Return the best of a few multiples of the patterns and a few ratios of noise."""
        evidence, kernel = self.evidence, self.evidence.kernel
        tried = []
        for factor in FACTORS:
            for pattern in patterns:
                shift = np.log([factor * self._usual])
                values = kernel.value_at(evidence.separations(pattern + shift))
                for alpha in ALPHAS:
                    loss = evidence.solve(values, alpha).loss
                    tried.append(Found(loss, pattern, shift, float(np.log(alpha))))
        self.n_evaluations += len(tried)
        least = min(found.loss for found in tried)
        return next(found for found in tried if found.loss <= least + AS_GOOD)

    def descend(self, start: Found, max_steps: int) -> Found:
        """Minimize the loss over shifts and alpha."""
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
            if self.stop is not None and self.stop():
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
        return Found(loss, start.pattern, result.x[:-1], log_alpha)
