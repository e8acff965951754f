"""Leave-one-out validation: the losses of a map on a problem, with standard errors.

:func:`validated` solves a problem and computes exact leave-one-out errors without refitting. Two
maps can be compared on the same rows by paired differences, which is far more precise than
comparing their mean losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.data.blocks import Block
from quadfeat.data.rows import Rows, Task
from quadfeat.data.watch import Work
from quadfeat.solvers.accumulator import rows_per_block
from quadfeat.solvers.base import Problem, Solution, Solver
from quadfeat.solvers.calibration import Calibration, class_scores
from quadfeat.solvers.curves import weight_of_one_copy
from quadfeat.solvers.left_out import LeftOut, calibrated
from quadfeat.solvers.normal import Normal
from quadfeat.solvers.posterior import Posterior
from quadfeat.solvers.summaries import Summary, class_indices, without_rows

__all__ = ["Losses", "Score", "Validation", "validated"]

# Exponents of units of losses, so that these are normal numbers of float64.
LEAST_EXPONENT, LARGEST_EXPONENT = -1000, 1000

# Relative rounding error of sums of weights.
ROUNDING = 1e-9

# Columns of ``Losses.values``.
SQUARES, LOG_LOSSES, HITS = 0, 1, 2


@dataclass(frozen=True)
class Score:
    """A weighted mean over rows, with its standard error."""

    mean: float
    standard_error: float


@dataclass(frozen=True)
class Losses:
    """Leave-one-out losses: sums over all rows, and the losses of single rows.

    Attributes
    ----------
    weight, squared_weight : float
        The sum of the weights, and the sum of their squares.
    sums : array of shape (n_losses,)
        Weighted sums of the losses. The first loss is the squared error, averaged over outputs so
        that their units do not matter. Classifiers also have the log loss, and 1 for each row that
        is classified correctly.
    products : array of shape (2, n_losses)
        Sums of ``weight^2 * loss`` and of ``weight^2 * loss^2``, with losses in ``unit``.
    weights : array of shape (n_single,)
        The weights of the single rows, which are a sample; empty if none are kept.
    values : array of shape (n_single, n_losses)
        The losses of the single rows.
    unit : float, default=1.0
        The unit of the losses in ``products``, since the squares of squared errors may be beyond
        the range of float64.
    """

    weight: float
    squared_weight: float
    sums: Float64Array
    products: Float64Array
    weights: Float64Array
    values: Float64Array
    unit: float = 1.0

    @classmethod
    def of(cls, values: Float64Array, weights: Any, *, single: bool) -> Losses:
        """Sum the losses of rows; with ``single``, also keep the losses of each row."""
        weights = np.ones(len(values)) if weights is None else weights
        squares, unit = weights**2, _unit_of(values)
        scaled = values / unit
        return cls(
            float(weights.sum()),
            float(squares.sum()),
            weights @ values,
            np.stack([squares @ scaled, squares @ scaled**2]),
            weights if single else weights[:0],
            values if single else values[:0],
            unit,
        )

    def merged(self, other: Losses) -> Losses:
        """Return the losses of both sets of rows combined."""
        unit = max(self.unit, other.unit)
        return Losses(
            self.weight + other.weight,
            self.squared_weight + other.squared_weight,
            self.sums + other.sums,
            self._products_in(unit) + other._products_in(unit),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.values, other.values]),
            unit,
        )

    def _products_in(self, unit: float) -> Float64Array:
        """Return the products in a larger unit of losses."""
        factor = self.unit / unit
        return self.products * np.array([[factor], [factor**2]])

    def difference(self, other: Losses, which: int) -> Score:
        """Return the mean of the paired differences to other losses, and its standard error.

        Both must have the same single rows.
        """
        if not np.array_equal(self.weights, other.weights):
            raise ValueError(
                "the two maps were validated on different rows. Validate both on the same rows."
            )
        differences = self.values[:, [which]] - other.values[:, [which]]
        return Losses.of(differences, self.weights, single=False).score(0)

    def score(self, which: int) -> Score:
        """Return the mean of a loss and its standard error."""
        weight, mean = np.float64(self.weight), self.sums[which] / self.weight
        linear, square = self.products[:, which]
        scaled = mean / self.unit
        with np.errstate(all="ignore"):  # overflow and infinite losses
            about = square - 2.0 * scaled * linear + scaled**2 * self.squared_weight
            # Bessel's correction n / (n - 1), with the effective number of rows.
            effective = weight**2 / self.squared_weight
            correction = effective / (effective - 1.0) if effective > 1.0 else np.inf
            deviation = self.unit * np.sqrt(np.maximum(about, 0.0) * correction)
            return Score(float(mean), float(deviation / weight))


@dataclass(frozen=True)
class Validation:
    """The solution of a problem, and its leave-one-out losses.

    Attributes
    ----------
    solution : Solution
        The solution for all rows.
    losses : Losses
        The losses of all rows, and single losses of the rows that the solution keeps; or only the
        losses of the rows in ``judging``. The order of single rows is the same for all maps.
    calibration : Calibration or None
        The map to probabilities; None for regression.
    """

    solution: Solution
    losses: Losses
    calibration: Calibration | None = None

    @property
    def alpha(self) -> float:
        """The penalty."""
        return self.solution.alpha

    @property
    def squared_error(self) -> Score:
        """The leave-one-out mean squared error, averaged over outputs."""
        return self.losses.score(SQUARES)

    @property
    def log_loss(self) -> Score | None:
        """The leave-one-out log loss; None for regression."""
        return None if self.calibration is None else self.losses.score(LOG_LOSSES)

    @property
    def accuracy(self) -> Score | None:
        """The leave-one-out accuracy; None for regression."""
        return None if self.calibration is None else self.losses.score(HITS)

    @property
    def which(self) -> int:
        """The index of the loss to minimize: log loss for classes, otherwise squared error."""
        return SQUARES if self.calibration is None else LOG_LOSSES

    @property
    def loss(self) -> Score:
        """The mean of the loss to minimize."""
        return self.losses.score(self.which)

    def difference(self, other: Validation) -> Score:
        """Return the mean paired difference of this loss minus the other, and its standard error.

        A negative mean means that this map is better. Both must be validated on the same rows.
        """
        return self.losses.difference(other.losses, self.which)


@dataclass(frozen=True)
class SumLosses(Task):
    """Sums the leave-one-out losses over rows.

    Attributes
    ----------
    problem : Problem
    summary : Summary
        A summary without rows that has the classes and the shift.
    posterior : Posterior
    calibration : Calibration or None
    leaves_one : bool
        Whether to leave out only one copy of a row, instead of its whole weight.
    single : bool
        Whether to keep the losses of single rows.
    in_float32 : bool
        Whether to compute leverages in float32.
    """

    problem: Problem
    summary: Summary
    posterior: Posterior
    calibration: Calibration | None
    leaves_one: bool
    single: bool = False
    in_float32: bool = False

    def add(self, state: Losses | None, block: Block) -> Losses:
        Z = self.problem.map.columns(block.X)
        targets = self.problem.targets.final(block.y, self.summary)
        amounts = weight_of_one_copy(block.weights) if self.leaves_one else block.weights
        found = LeftOut.of(self.posterior, Z, targets, amounts, single=self.in_float32)
        classes = self.summary.classes
        labels = None if classes is None else class_indices(block.y, classes)
        units = self.posterior.relative_units
        values = losses_of(found, targets, labels, self.calibration, units)
        losses = Losses.of(values, block.weights, single=self.single)
        return losses if state is None else state.merged(losses)

    def rows_per_block(self, state: Any) -> int:
        return rows_per_block(self.problem.map.n_columns, np.float64)


def losses_of(
    found: LeftOut,
    targets: Float64Array,
    labels: Array | None,
    calibration: Calibration | None,
    units: Float64Array,
) -> Float64Array:
    """Return the leave-one-out losses of rows, shape (n_rows, n_losses)."""
    squares = np.mean(found.errors**2 / units, axis=1)
    if labels is None or calibration is None:
        return squares[:, None]
    decisions = targets - found.errors
    hits = class_scores(decisions).argmax(axis=1) == labels
    return np.column_stack([squares, calibration.log_losses(decisions, labels), hits])


def validated(
    problem: Problem,
    rows: Rows,
    work: Work | None = None,
    solver: Solver | None = None,
    judging: Rows | None = None,
) -> Validation:
    """Solve a problem and compute its leave-one-out losses.

    For a table in memory or a Dask collection, each row is left out in turn. This takes another
    pass unless leave-one-out errors also choose alpha. For a stream, only the rows that the
    solution keeps are left out, at most 2048.

    Parameters
    ----------
    problem : Problem
        The problem. Its alpha may be fixed, or a criterion may choose it.
    rows : Rows
    work : Work, default=None
        Shows progress and writes checkpoints.
    solver : Solver, default=None
        A solver whose solutions have a posterior; None means ``Normal()``.
    judging : Rows, default=None
        The subset of the rows, in memory, whose losses are computed; None means all rows.

    Returns
    -------
    Validation

    Examples
    --------
    >>> import numpy as np
    >>> from quadfeat import QuadratureFeatures
    >>> from quadfeat.data.blocks import Block
    >>> from quadfeat.data.rows import ArrayRows
    >>> from quadfeat.kernels import Gaussian
    >>> from quadfeat.solvers import Numbers, Penalty, Problem, validated
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (500, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> rows, penalty = ArrayRows(Block(X, y, None)), Penalty.of("loo", None)
    >>> def scored(gamma):
    ...     features = QuadratureFeatures(Gaussian(gamma), n_components=64, random_state=0).fit(X)
    ...     return validated(Problem(features.map_, Numbers(), penalty, True), rows)
    >>> narrow, wide = scored(1.0), scored(0.001)
    >>> round(narrow.squared_error.mean, 2), wide.squared_error.mean > 0.1
    (0.01, True)
    >>> gain = wide.difference(narrow)
    >>> gain.mean > 4 * gain.standard_error
    True
    """
    solver = Normal() if solver is None else solver
    work = Work.silent() if work is None else work
    solution = solver.solve(problem, rows, work)
    if not solution.has_posterior:
        raise ValueError(
            f"solver={solver.name!r} has no posterior, which leave-one-out errors need. Use "
            "solver='normal'."
        )
    posterior, summary = solution.posterior, solution.summary
    calibration = None
    if summary.classes is not None:
        calibration = calibrated(posterior, problem.map, problem.targets, summary)
    leaves_one = problem.targets.kept(summary).leaves_one
    task = SumLosses(problem, without_rows(summary), posterior, calibration, leaves_one)
    if judging is not None:
        losses = judging.reduce(replace(task, single=True), Losses.merged)
        return Validation(solution, losses, calibration)
    kept = _losses_of_kept(problem, solution, calibration)
    if rows.is_stream or _is_weight_of_all(kept, summary):
        # Kept rows are left out with all copies, since a copy would reveal the target.
        return Validation(solution, kept, calibration)
    losses = _losses_of_curve(solution) if calibration is None else None
    if losses is None:
        # Over all rows, the leverages take most of the time.
        in_float32 = getattr(solution, "dtype", "") == "float32" and posterior.allows_float32
        losses = rows.reduce(replace(task, in_float32=in_float32), Losses.merged)
    return Validation(
        solution, replace(losses, weights=kept.weights, values=kept.values), calibration
    )


def _is_weight_of_all(some: Any, summary: Summary) -> bool:
    """Return whether some rows have the total weight of all rows."""
    weight = summary.moments.weight
    return bool(abs(some.weight - weight) <= ROUNDING * weight)


def _losses_of_curve(solution: Any) -> Losses | None:
    """Return the losses of a regression from the curve that chose alpha.

    Return None if the curve does not include all rows, or if rows have copies, which have to be
    left out together.
    """
    curve, path = getattr(solution, "curve", None), solution.posterior.path
    rows = solution.summary.rows
    if curve is None or path is None or (rows is not None and (rows.weights > 1.0).any()):
        return None
    if not _is_weight_of_all(curve, solution.summary):
        return None
    index = int(np.argmin(np.abs(path.alphas - solution.alpha)))
    if path.alphas[index] != solution.alpha:
        return None
    total, linear, square = curve.at(index)
    sums, products = np.array([total]), np.array([[linear], [square]])
    none = np.empty(0)
    weights = curve.weight, curve.squared_weight
    return Losses(*weights, sums, products, none, none[:, None], curve.unit)


def _unit_of(values: Float64Array) -> float:
    """Return a power of two near the largest finite loss."""
    largest = float(np.abs(values).max(initial=0.0, where=np.isfinite(values)))
    exponent = math.frexp(largest)[1] if largest > 0 else LEAST_EXPONENT
    return math.ldexp(1.0, min(max(exponent, LEAST_EXPONENT), LARGEST_EXPONENT))


def _losses_of_kept(
    problem: Problem, solution: Solution, calibration: Calibration | None
) -> Losses:
    """Return the losses of the rows that a solution keeps."""
    kept = problem.targets.kept(solution.summary)
    found = LeftOut.of_kept(solution.posterior, problem.map, kept)
    units = solution.posterior.relative_units
    values = losses_of(found, kept.targets, kept.labels, calibration, units)
    return Losses.of(values, kept.weights, single=True)
