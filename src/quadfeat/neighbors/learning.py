"""Learn the settings of a Gaussian process on nearest rows.

1. The lengthscales and the noise of a Matern kernel maximize the evidence of an exact process on a
   sample (:mod:`quadfeat.learning.lengthscales`). The start is this kernel, or a narrower one that
   makes the leave-one-out targets of these rows more likely.
2. They are refined in rounds. Each round finds the neighbors of a new batch of rows and maximizes
   the leave-one-out likelihood of the batch, starting from the last result.
3. Other families start from there and are refined too. The leave-one-out error of rows that no
   batch contains selects the family, and then the number of neighbors.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from threadpoolctl import threadpool_limits

from quadfeat._utils.validation import Float64Array
from quadfeat.kernels import SeparationKernel
from quadfeat.learning.clock import Clock
from quadfeat.learning.columns import standardized
from quadfeat.learning.lengthscales import ALPHA_RANGE, START_ALPHA, learn
from quadfeat.neighbors.goals import Goal
from quadfeat.neighbors.process import LocalProcess, Settings

# Number of rows to learn the start from, of a batch, and to validate settings on.
START_ROWS = 1000
BATCH_ROWS = 2000
VALIDATION_ROWS = 2000

# Rounds of the first family, and of each other one, and the steps of each.
FIRST_ROUNDS = 3
OTHER_ROUNDS = 1
STEPS = 15

# Multiples of the learned factors, and noise-to-signal ratios, to start from. The first one whose
# log likelihood is within TIED of the largest is used.
MULTIPLES = (1.0, 4.0, 16.0, 64.0, 256.0)
START_ALPHAS = (0.1, 1e-3)
TIED = 1.0

# Neighbors while lengthscales are learned, and the numbers of neighbors to try afterwards.
LEARNING_NEIGHBORS = 32
NUMBERS = (16, 32, 64, 128, 256)

# Largest factor by which a lengthscale may change in a round, since it changes the neighbors.
REACH = 4.0

# The smallest number of neighbors whose error is within this fraction of the least is used.
TOLERANCE = 0.02

# Round learned logarithms to this step, so that rounding errors do not show.
LOG_STEP = 1e-3


class Tried(NamedTuple):
    """Settings that were validated.

    Attributes
    ----------
    name : str
    settings : Settings
    loss : float
        The leave-one-out loss; see ``Goal.validated``.
    standard_error : float
    n_rows : int
        Number of rows that were left out.
    seconds : float
    """

    name: str
    settings: Settings
    loss: float
    standard_error: float
    n_rows: int
    seconds: float


@dataclass(frozen=True)
class Wanted:
    """The settings to learn.

    Attributes
    ----------
    families : dict of str to SeparationKernel
    lengthscales : {"ard", "isotropic"} or None
        None leaves the scale of the kernels as it is.
    alpha : float or None
        None means to learn it.
    n_neighbors : int or None
        None means to select it.
    """

    families: dict[str, SeparationKernel]
    lengthscales: str | None
    alpha: float | None
    n_neighbors: int | None

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of neighbors to try."""
        return NUMBERS if self.n_neighbors is None else (self.n_neighbors,)


class LocalSearch:
    """Learns settings from rows.

    Parameters
    ----------
    goal : Goal
        What to optimize on which rows.
    wanted : Wanted
    clock : Clock
    n_threads : int
    """

    def __init__(self, goal: Goal, wanted: Wanted, clock: Clock, n_threads: int) -> None:
        self.goal = goal
        self.rows = rows = goal.rows
        self.wanted = wanted
        self.clock = clock
        self.n_threads = n_threads
        n_validation = min(VALIDATION_ROWS, rows.size)
        self.validation = np.arange(rows.size - n_validation, rows.size)
        # With few rows, validate on the rows that were learned from.
        self.n_learning = rows.size - n_validation
        if self.n_learning < BATCH_ROWS:
            self.n_learning = rows.size
        self.tried: list[Tried] = []

    @property
    def can_learn(self) -> bool:
        """Whether there are enough different rows and targets."""
        return self.rows.size >= 3 and self.goal.varies

    def run(self) -> Tried:
        """Return the best settings; ``alpha`` is for rows of weight 1.

        ``tried`` starts with them and has the others from best to worst.
        """
        # The matrices are small, and BLAS threads would wait for each other.
        with threadpool_limits(1, user_api="blas"):
            best = self._best()
        others = sorted((one for one in self.tried if one is not best), key=lambda one: one.loss)
        if self.tried:
            self.tried = [self._in_units(one) for one in (best, *others)]
        return self._in_units(best)

    def _best(self) -> Tried:
        (first, kernel), *others = self.wanted.families.items()
        start = self._start(kernel)
        if not self.can_learn:
            return Tried(first, start, float("nan"), float("nan"), 0, self.clock.seconds)
        settings = start
        for number in range(FIRST_ROUNDS):
            settings = self._refined(settings, number)
        best = self._validated(first, settings)
        for name, other in others:
            if self.clock.is_over():
                break
            now = time.monotonic()
            ratio = other.usual_factor(1) / kernel.usual_factor(1)
            candidate = replace(settings, kernel=other, factors=settings.factors * ratio)
            for number in range(OTHER_ROUNDS):
                candidate = self._refined(candidate, FIRST_ROUNDS + number)
            best = min(best, self._validated(name, candidate, now), key=lambda one: one.loss)
        return self._with_best_number(best)

    def _start(self, kernel: SeparationKernel) -> Settings:
        """Return the settings to start from."""
        wanted, rows = self.wanted, self.rows
        number = LEARNING_NEIGHBORS if wanted.n_neighbors is None else wanted.n_neighbors
        d = rows.X.shape[1]
        part = slice(START_ROWS)
        found: Any = kernel
        alpha = START_ALPHA
        if wanted.lengthscales is not None:
            learned = learn(
                kernel,
                rows.X[part],
                rows.Y[part],
                each=wanted.lengthscales == "ard",
                ranges=np.ptp(rows.X, axis=0),
                stop=self.clock.is_over,
            )
            found, alpha = learned.kernel, learned.alpha
        factors = np.broadcast_to(found.input_factor(d), d).astype(np.float64)
        if wanted.alpha is not None:
            alpha = wanted.alpha / self.goal.weight
        self.clock.show("learned the start")
        starts = [Settings(kernel, factors, alpha, number)]
        if wanted.lengthscales is None or not self.can_learn:
            return starts[0]
        if self.goal.tries_usual_scales and wanted.lengthscales == "ard":
            starts.append(self._usual(starts[0]))
        return min((self._best_width(one) for one in starts), key=itemgetter(0))[1]

    def _usual(self, settings: Settings) -> Settings:
        """Return settings with the usual scale of each column, where a sample has one."""
        X = self.rows.X[:START_ROWS]
        _, units = standardized(X, np.ones(len(X)), np.ptp(self.rows.X, axis=0))
        factor = settings.kernel.usual_factor(max(1, int(np.count_nonzero(units))))
        usual = np.divide(factor, units, out=settings.factors.copy(), where=units > 0)
        return replace(settings, factors=usual)

    def _best_width(self, settings: Settings) -> tuple[float, Settings]:
        """Return settings with the best multiple of the factors and of alpha, and their cost.

        Other widths have the same neighbors. The sample that the start was learned from is too thin
        for kernels that are much narrower, which look like noise there.
        """
        process = LocalProcess(self.rows, settings, self.n_threads)
        which = np.arange(min(START_ROWS, self.n_learning))
        hoods = process.without_own(which)
        alphas = {settings.alpha: None} | dict.fromkeys(START_ALPHAS)
        found = []
        for multiple in MULTIPLES:
            for alpha in alphas if self.wanted.alpha is None else (settings.alpha,):
                other = replace(settings, factors=settings.factors * multiple, alpha=alpha)
                extra = self.goal.best_extra(process, hoods, which, other)
                found.append((self.goal.cost(process, hoods, which, other, extra).value, other))
        least = min(cost for cost, _ in found)
        return next(one for one in found if one[0] <= least + TIED / len(which))

    def _refined(self, settings: Settings, number: int) -> Settings:
        """Return settings that are more likely, for the batch of this number."""
        wanted, d = self.wanted, len(settings.factors)
        if self.clock.is_over() or (wanted.lengthscales is None and wanted.alpha is not None):
            return settings
        process = LocalProcess(self.rows, settings, self.n_threads)
        size = min(BATCH_ROWS, self.n_learning)
        which = (number * size + np.arange(size)) % self.n_learning
        hoods = process.without_own(which)
        # The free parameters, as a matrix that maps them to steps of all parameters.
        columns = {"ard": np.eye(d), "isotropic": np.ones((d, 1))}
        basis = columns.get(wanted.lengthscales or "", np.empty((d, 0)))
        n_scales, learns_alpha = basis.shape[1], wanted.alpha is None
        full = np.zeros((d + 1, n_scales + learns_alpha))
        full[:d, :n_scales] = basis
        full[d, n_scales:] = 1.0

        extra = self.goal.best_extra(process, hoods, which, settings)
        n_free = full.shape[1]

        def cost(free: Float64Array) -> tuple[float, Float64Array]:
            changed = settings.changed(full @ free[:n_free])
            found = self.goal.cost(process, hoods, which, changed, free[n_free:])
            return found.value, np.append(found.slopes[: d + 1] @ full, found.slopes[d + 1 :])

        bounds = [(-np.log(REACH), np.log(REACH))] * n_scales
        if learns_alpha:
            bounds += [tuple(np.log(ALPHA_RANGE) - np.log(settings.alpha))]
        bounds += [(None, None)] * len(extra)
        steps = optimize.minimize(
            cost,
            np.append(np.zeros(n_free), extra),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": STEPS},
        ).x[:n_free]
        self.clock.show(f"refined {settings.kernel}")
        return settings.changed(full @ (LOG_STEP * np.round(steps / LOG_STEP)))

    def _validated(self, name: str, settings: Settings, start: float | None = None) -> Tried:
        """Validate settings by leaving out rows."""
        loss, error = self.goal.validated(settings, self.validation, self.n_threads)
        seconds = self.clock.seconds if start is None else time.monotonic() - start
        found = Tried(name, settings, loss, error, len(self.validation), seconds)
        self.tried.append(found)
        self.clock.show(f"validated {name} with {settings.n_neighbors} neighbors")
        return found

    def _with_best_number(self, best: Tried) -> Tried:
        """Return the settings with the smallest number of neighbors that is almost the best."""
        found = [best]
        for number in self.wanted.numbers:
            if number == best.settings.n_neighbors or number >= 2 * self.rows.size:
                continue
            if self.clock.is_over():
                break
            now = time.monotonic()
            settings = replace(best.settings, n_neighbors=number)
            found.append(self._validated(best.name, settings, now))
        least = min(one.loss for one in found)
        good = [one for one in found if one.loss <= (1.0 + TOLERANCE) * least]
        return min(good, key=lambda one: one.settings.n_neighbors)

    def _in_units(self, found: Tried) -> Tried:
        """Return settings for rows of weight 1, after a search with weights of mean 1."""
        alpha = found.settings.alpha * self.goal.weight
        return found._replace(settings=replace(found.settings, alpha=alpha))
