"""Goals of the search for settings: the likelihood of numbers, or the log loss of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from quadfeat._utils.validation import Array, Float64Array
from quadfeat.learning.columns import standardized
from quadfeat.neighbors.conditional import Neighborhoods
from quadfeat.neighbors.process import LocalProcess
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.settings import Settings
from quadfeat.solvers.calibration import INVERSE_TEMPERATURES, class_scores

# The precision of the prior of the logarithm of a signal variance that exceeds the variance of the
# targets. Without it, a few hundred rows of a smooth function are almost equally likely for ever
# larger signal variances and lengthscales. Predictions among the rows hardly differ, but intervals
# outside the rows would be up to 200 standard deviations of the targets wide, instead of about 6.
PRIOR = 1.0


class Cost(NamedTuple):
    """A mean loss of rows, and its derivatives.

    Attributes
    ----------
    value : float
    slopes : array of shape (d + 1 + n_extra,)
        The gradient in the logarithms of the factors and of alpha, and in extra parameters.
    """

    value: float
    slopes: Float64Array

    def per_row(self, n_rows: int) -> Cost:
        """Return the cost divided by a number of rows."""
        return Cost(self.value / n_rows, self.slopes / n_rows)


class Goal(ABC):
    """A cost to minimize on batches of rows, and a loss to validate settings with.

    Attributes
    ----------
    rows : DistinctRows
        The rows to learn from. The mean weight is 1.
    weight : float
        The mean weight of the given rows.
    tries_usual_scales : bool
        Whether a search also starts from the usual scale of each column.
    validates_costs : bool
        Whether costs and losses measure the same, so that a larger loss shows a worse step. The
        likelihood of numbers also judges variances, which squared errors do not.
    extra_range : tuple of float
        The smallest and the largest value of extra parameters.
    """

    rows: DistinctRows
    weight: float
    tries_usual_scales = False
    validates_costs = True
    extra_range = (-np.inf, np.inf)

    @property
    def alternative(self) -> Goal | None:
        """Another goal to try, whose settings are validated in the same way."""
        return None

    @abstractmethod
    def score(self, loss: float) -> str:
        """Return a validated loss in words."""

    @property
    @abstractmethod
    def varies(self) -> bool:
        """Whether the targets differ."""

    @abstractmethod
    def best_extra(
        self, process: LocalProcess, hoods: Neighborhoods, which: Array, settings: Settings
    ) -> Float64Array:
        """Return the best extra parameters for some settings, shape (n_extra,)."""

    @abstractmethod
    def cost(
        self,
        process: LocalProcess,
        hoods: Neighborhoods,
        which: Array,
        settings: Settings,
        extra: Float64Array,
    ) -> Cost:
        """Return the cost of settings on own rows, given their neighborhoods."""

    def start_cost(
        self, process: LocalProcess, hoods: Neighborhoods, which: Array, settings: Settings
    ) -> float:
        """Return the cost of settings to start from, which may be far from the best ones."""
        extra = self.best_extra(process, hoods, which, settings)
        return self.cost(process, hoods, which, settings, extra).value

    @abstractmethod
    def validated(self, process: LocalProcess, which: Array) -> tuple[float, float]:
        """Return the leave-one-out loss of some rows, and its standard error.

        The process has the rows of the goal.
        """


class NumericGoal(Goal):
    """Maximize the leave-one-out likelihood of numbers, and validate with squared errors.

    Parameters
    ----------
    rows : DistinctRows
        Their targets may have any units.
    """

    validates_costs = False

    def __init__(self, rows: DistinctRows) -> None:
        self._given = rows
        equal = np.ones(rows.size)
        # The likelihood is that of normal noise, so clip outliers of the targets.
        clipped, spreads = standardized(rows.Y, equal, np.zeros(rows.Y.shape[1]))
        varying = spreads > 0
        self.weight = float(rows.weights.mean())
        weights = rows.weights / self.weight
        units = spreads[varying]
        scatter = rows.scatter[:, varying] / units**2 / self.weight
        self.rows = replace(rows, Y=clipped[:, varying], weights=weights, scatter=scatter)
        self._raw = replace(rows, Y=rows.Y[:, varying] / units, weights=weights)

    @property
    def alternative(self) -> Goal | None:
        return SquaredErrorGoal(self._given)

    def score(self, loss: float) -> str:
        return f"R2 of {1.0 - loss:.4f}"

    @property
    def varies(self) -> bool:
        return self.rows.Y.shape[1] > 0

    def best_extra(
        self, process: LocalProcess, hoods: Neighborhoods, which: Array, settings: Settings
    ) -> Float64Array:
        return np.empty(0)

    def cost(
        self,
        process: LocalProcess,
        hoods: Neighborhoods,
        which: Array,
        settings: Settings,
        extra: Float64Array,
    ) -> Cost:
        found = process.likelihood_of(hoods, which, settings, PRIOR)
        slopes = np.append(found.by_factors, found.by_alpha)
        return Cost(-found.value, -slopes).per_row(len(which))

    def start_cost(
        self, process: LocalProcess, hoods: Neighborhoods, which: Array, settings: Settings
    ) -> float:
        # Signal variances far from the best settings say nothing.
        return -process.likelihood_of(hoods, which, settings).value / len(which)

    def validated(self, process: LocalProcess, which: Array) -> tuple[float, float]:
        """Return the mean squared error in units of the variance of the targets."""
        raw = self._raw.Y
        mean = process.with_targets(self._raw).left_out(which).mean
        squares = np.mean((raw[which] - mean) ** 2, axis=1)
        unit = float(np.mean(np.var(raw, axis=0)))
        error = float(np.std(squares) / np.sqrt(len(which)) / unit)
        return float(np.mean(squares)) / unit, error


class SquaredErrorGoal(NumericGoal):
    """Minimize and validate leave-one-out squared errors.

    The likelihood weighs each error by its predicted variance, which does not know the noise of
    single rows. If the noise differs much, as for prices, other settings have smaller errors.
    """

    validates_costs = True

    @property
    def alternative(self) -> Goal | None:
        return None

    def cost(
        self,
        process: LocalProcess,
        hoods: Neighborhoods,
        which: Array,
        settings: Settings,
        extra: Float64Array,
    ) -> Cost:
        """Return half the logarithm of the mean squared error, a cost without units."""
        errors = process.conditions_of(hoods, settings).mean - self.rows.Y[which]
        mean_square = max(float(np.mean(errors**2)), np.finfo(float).tiny)
        by_mean = errors / (mean_square * errors.size)
        return Cost(0.5 * np.log(mean_square), process.slopes_of(hoods, settings, by_mean))


class ClassGoal(Goal):
    """Minimize and validate the log loss of classes, given leave-one-out predictions.

    Predictions are divided by a temperature, and the softmax converts them to probabilities. The
    temperature is learned together with the settings. The likelihood of a Gaussian process is not a
    good goal for classes: it is largest for kernels that find many rows without any noise.

    Parameters
    ----------
    rows : DistinctRows
        Their targets are between -1 and 1: one for each class, or one for both of two classes.
    """

    # The evidence of numbers often leaves out columns that matter for classes.
    tries_usual_scales = True
    extra_range = (float(np.log(INVERSE_TEMPERATURES[0])), float(np.log(INVERSE_TEMPERATURES[1])))

    def __init__(self, rows: DistinctRows) -> None:
        self.weight = float(rows.weights.mean())
        self.rows = replace(rows, weights=rows.weights / self.weight)
        # Copies of a row may belong to different classes.
        self._shares = 0.5 * (1.0 + class_scores(rows.Y))

    def score(self, loss: float) -> str:
        return f"log loss of {loss:.4f}"

    @property
    def varies(self) -> bool:
        return bool(np.ptp(self.rows.Y, axis=0).any())

    def best_extra(
        self, process: LocalProcess, hoods: Neighborhoods, which: Array, settings: Settings
    ) -> Float64Array:
        """Return the logarithm of the inverse temperature."""
        mean = process.conditions_of(hoods, settings).mean
        return np.array([self._best_inverse(mean, which)])

    def cost(
        self,
        process: LocalProcess,
        hoods: Neighborhoods,
        which: Array,
        settings: Settings,
        extra: Float64Array,
    ) -> Cost:
        mean = process.conditions_of(hoods, settings).mean
        losses, by_scores = self._losses(mean, which, extra[0])
        weights = self.rows.weights[which]
        by_scores *= weights[:, None]
        by_mean = by_scores if mean.shape[1] > 1 else by_scores[:, 1:] - by_scores[:, :1]
        inverse = np.exp(extra[0])
        slopes = process.slopes_of(hoods, settings, inverse * by_mean)
        by_extra = inverse * np.sum(by_scores * class_scores(mean))
        return Cost(float(weights @ losses), np.append(slopes, by_extra)).per_row(len(which))

    def start_cost(
        self, process: LocalProcess, hoods: Neighborhoods, which: Array, settings: Settings
    ) -> float:
        mean = process.conditions_of(hoods, settings).mean
        losses, _ = self._losses(mean, which, self._best_inverse(mean, which))
        return float(self.rows.weights[which] @ losses) / len(which)

    def validated(self, process: LocalProcess, which: Array) -> tuple[float, float]:
        """Return the log loss at the best temperature."""
        mean = process.left_out(which).mean
        losses, _ = self._losses(mean, which, self._best_inverse(mean, which))
        weights = self.rows.weights[which]
        loss = float(np.average(losses, weights=weights))
        spread = weights * (losses - loss) / weights.mean()
        return loss, float(np.sqrt(np.mean(spread**2) / len(which)))

    def _losses(
        self, mean: Float64Array, which: Array, log_inverse: float
    ) -> tuple[Float64Array, Float64Array]:
        """Return the log losses of rows, and their derivatives in the scaled scores."""
        scores = np.exp(log_inverse) * class_scores(mean)
        totals = special.logsumexp(scores, axis=1)
        shares = self._shares[which]
        losses = totals - np.sum(shares * scores, axis=1)
        return losses, np.exp(scores - totals[:, None]) - shares

    def _best_inverse(self, mean: Float64Array, which: Array) -> float:
        """Return the logarithm of the best inverse temperature."""
        weights = self.rows.weights[which]

        def cost(log_inverse: float) -> float:
            return float(weights @ self._losses(mean, which, log_inverse)[0])

        found = optimize.minimize_scalar(cost, bounds=self.extra_range, method="bounded")
        return float(found.x)
