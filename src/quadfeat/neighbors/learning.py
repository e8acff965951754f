"""Learn the settings of a Gaussian process on nearest rows.

1. The lengthscales and the noise of a Matern kernel maximize the evidence of an exact process on a
   sample (:mod:`quadfeat.learning.lengthscales`). The start is this kernel, or a narrower one that
   makes the leave-one-out targets of these rows more likely.
2. They are refined in rounds. Each round finds the neighbors of a new batch of rows and maximizes
   the leave-one-out likelihood of the batch, starting from the last result.
3. If columns have heavy tails, the same is done with compressed tails. Then all is done with
   squared errors instead of the likelihood. Each is kept only if it reduces the leave-one-out error
   of rows that no batch contains.
4. Other families start from there and are refined too. The leave-one-out error of the same rows
   selects the family, and then the number of neighbors.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from scipy import optimize

from quadfeat._utils.validation import Float64Array
from quadfeat.engine.threads import one_blas_thread
from quadfeat.kernels import Projection, SeparationKernel
from quadfeat.learning.clock import Clock
from quadfeat.learning.columns import knees, standardized
from quadfeat.learning.lengthscales import ALPHA_RANGE, START_ALPHA, learn
from quadfeat.neighbors.goals import Goal
from quadfeat.neighbors.process import LocalProcess
from quadfeat.neighbors.rows import DistinctRows
from quadfeat.neighbors.settings import Settings
from quadfeat.neighbors.tried import Tried, Wanted

# Numbers of rows: to learn the start from, in a batch, and to validate settings.
START_ROWS = 1000
BATCH_ROWS = 2000
VALIDATION_ROWS = 4000

# Number of rows that show whether columns have heavy tails.
TAIL_ROWS = 8192

# Number of searches to keep. Settings with the same neighbors use them again.
KEPT = 2

# Number of rounds for the first family and for each other one, and of steps in each round.
FIRST_ROUNDS = 3
OTHER_ROUNDS = 1
STEPS = 15

# Multiples of the learned factors, and noise-to-signal ratios, to start from. The first one whose
# log likelihood is within TIED of the largest is used.
MULTIPLES = (1.0, 4.0, 16.0, 64.0, 256.0)
START_ALPHAS = (0.1, 1e-3)
TIED = 1.0

# Number of neighbors while lengthscales are learned.
LEARNING_NEIGHBORS = 32

# Largest factor by which a lengthscale may change in a round, since it changes the neighbors.
REACH = 4.0

# Use the smallest number of neighbors whose error exceeds the least one by at most this fraction.
TOLERANCE = 0.01

# Compressed tails, and squared errors as the goal, are kept if they reduce the error by at least
# these fractions. Without a large reduction, the likelihood is the better goal, because it gives
# better variances.
COMPRESSION_GAIN = 0.02
SQUARES_GAIN = 0.05

# Learned settings are clearly worse than those before if their loss is larger by this fraction.
CLEARLY_WORSE = 0.01

# Kernels are learned until this part of the time limit has passed, and their start until the other
# one. The rest is for the number of neighbors, which can matter more than the family.
PART_FOR_LEARNING = 0.6
PART_FOR_START = 0.2

# Round learned logarithms to this step, so that rounding errors do not change results.
LOG_STEP = 1e-3

# Names of the ways to learn, after the name of a family.
COMPRESSED = ", compressed tails"
SQUARES = ", squared errors"


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
        n_validation = min(rows.size, max(BATCH_ROWS, min(VALIDATION_ROWS, rows.size // 2)))
        self.validation = np.arange(rows.size - n_validation, rows.size)
        # With few rows, validate on the rows that were learned from.
        self.n_learning = rows.size - n_validation
        if self.n_learning < BATCH_ROWS:
            self.n_learning = rows.size
        self.tried: list[Tried] = []
        self._processes: list[LocalProcess] = []

    @property
    def can_learn(self) -> bool:
        """Whether there are enough different rows and targets."""
        return self.rows.size >= 3 and self.goal.varies

    def run(self) -> Tried:
        """Return the best settings; ``alpha`` is for rows of weight 1.

        ``tried`` starts with them and has the others from best to worst.
        """
        # The matrices are small, and BLAS threads would wait for each other.
        with one_blas_thread():
            best = self._best()
        others = sorted((one for one in self.tried if one is not best), key=lambda one: one.loss)
        if self.tried:
            self.tried = [self._in_units(one) for one in (best, *others)]
        return self._in_units(best)

    def _best(self) -> Tried:
        (name, kernel), *others = self.wanted.families.items()
        start = self._start(kernel)
        if not self.can_learn:
            return Tried(name, start, float("nan"), float("nan"), 0, self.clock.seconds)
        best = self._best_way(name, start)
        first, kind = best.settings, best.name.removeprefix(name)
        for name, other in others:
            if self._is_late:
                break
            now = time.monotonic()
            ratio = other.usual_factor(1) / kernel.usual_factor(1)
            candidate = replace(first, kernel=other, factors=first.factors * ratio)
            rounds = range(FIRST_ROUNDS, FIRST_ROUNDS + OTHER_ROUNDS)
            found = self._learned(name + kind, candidate, rounds, now)
            best = min(best, found, key=lambda one: one.loss)
        return self._with_best_number(best)

    def _best_way(self, name: str, start: Settings) -> Tried:
        """Return the best settings of the first family: of all columns and all goals.

        The goal of the search changes to the one that found them.
        """
        starts = {"": start}
        wanted = self.wanted
        tries_tails = wanted.compresses and not wanted.is_given and not self._is_late
        if tries_tails and (projection := compressing(self.rows)) is not None:
            # Lengthscales were learned with clipped outliers, so they also suit compressed tails.
            starts[COMPRESSED] = self._best_width(replace(start, projection=projection))[1]
        best = self._best_columns(name, starts)
        before, other = self.goal, self.goal.alternative
        # If all rows are in batches, a smaller error may be due to chance.
        if self.wanted.is_given or other is None or self.n_learning == self.rows.size:
            return best
        if self._is_late:
            return best
        self.goal = other
        found = self._best_columns(name, starts, SQUARES)
        if found.loss <= (1.0 - SQUARES_GAIN) * best.loss:
            return found
        self.goal = before
        return best

    def _best_columns(self, name: str, starts: dict[str, Settings], way: str = "") -> Tried:
        """Return what was learned from plain columns, or from compressed ones if it is better."""
        found = []
        for tails, start in starts.items():
            now = time.monotonic()
            found.append(self._learned(name + tails + way, start, range(FIRST_ROUNDS), now))
        plain, *compressed = found
        good = [one for one in compressed if one.loss <= (1.0 - COMPRESSION_GAIN) * plain.loss]
        return good[0] if good else plain

    def _learned(self, name: str, start: Settings, rounds: range, now: float) -> Tried:
        """Refine settings in some rounds; go back to earlier ones if the last are clearly worse.

        A round does not see that other lengthscales have other neighbors. Many lengthscales, such
        as those of categories, can get worse in every round.
        """
        steps = [start]
        for number in rounds:
            steps.append(self._refined(steps[-1], number))
        found = self._validated(name, steps[-1], now)
        if self._is_late or not self.goal.validates_costs:
            return found
        before = self._loss_of(start)
        if before >= (1.0 - CLEARLY_WORSE) * found.loss:
            return found
        self.tried.remove(found)
        losses = [before, *map(self._loss_of, steps[1:-1]), found.loss]
        return self._validated(name, steps[int(np.argmin(losses))], now)

    def _loss_of(self, settings: Settings) -> float:
        """Return the leave-one-out loss of settings."""
        return self.goal.validated(self._process(settings), self.validation)[0]

    def _start(self, kernel: SeparationKernel) -> Settings:
        """Return the settings to start from."""
        wanted, X, projection = self.wanted, self.rows.X, self.wanted.projection
        number = LEARNING_NEIGHBORS if wanted.n_neighbors is None else wanted.n_neighbors
        d = X.shape[1] if projection is None else projection.width
        part = slice(START_ROWS)
        found: Any = kernel
        alpha = START_ALPHA
        if wanted.lengthscales is not None:
            learned = learn(
                kernel,
                X[part],
                self.rows.Y[part],
                each=wanted.lengthscales == "ard",
                ranges=np.ptp(X, axis=0),
                stop=partial(self.clock.is_over, PART_FOR_START),
            )
            found, alpha = learned.kernel, learned.alpha
        factors = np.broadcast_to(found.input_factor(d), d).astype(np.float64)
        if wanted.alpha is not None:
            alpha = wanted.alpha / self.goal.weight
        self.clock.show("learned the start")
        starts = [Settings(kernel, factors, alpha, number, projection, wanted.search)]
        if wanted.lengthscales is None or not self.can_learn:
            return starts[0]
        if self.goal.tries_usual_scales and wanted.lengthscales == "ard":
            starts.append(self._usual(starts[0]))
        return min((self._best_width(one) for one in starts), key=itemgetter(0))[1]

    def loss_at(self, factors: Float64Array) -> float:
        """Return the leave-one-out loss of a few rows with the best multiple of some factors."""
        wanted, kernel = self.wanted, next(iter(self.wanted.families.values()))
        number = LEARNING_NEIGHBORS if wanted.n_neighbors is None else wanted.n_neighbors
        alpha = START_ALPHA if wanted.alpha is None else wanted.alpha / self.goal.weight
        given = Settings(kernel, factors, alpha, number, wanted.projection, wanted.search)
        with one_blas_thread():
            settings = self._best_width(given)[1]
            which = np.arange(min(START_ROWS, self.n_learning))
            return self.goal.validated(self._process(settings), which)[0]

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
        process = self._process(settings)
        which = np.arange(min(START_ROWS, self.n_learning))
        hoods = process.without_own(which)
        alphas = {settings.alpha: None} | dict.fromkeys(START_ALPHAS)
        found: list[tuple[float, Settings]] = []
        for multiple in MULTIPLES:
            if found and self._is_late:
                break
            for alpha in alphas if self.wanted.alpha is None else (settings.alpha,):
                other = replace(settings, factors=settings.factors * multiple, alpha=alpha)
                found.append((self.goal.start_cost(process, hoods, which, other), other))
        least = min(cost for cost, _ in found)
        return next(one for one in found if one[0] <= least + TIED / len(which))

    def _refined(self, settings: Settings, number: int) -> Settings:
        """Return settings that are more likely, for the batch of this number."""
        wanted, d = self.wanted, len(settings.factors)
        if self._is_late or (wanted.lengthscales is None and wanted.alpha is not None):
            return settings
        process = self._process(settings)
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
        bounds += [self.goal.extra_range] * len(extra)
        steps = optimize.minimize(
            cost,
            np.append(np.zeros(n_free), extra),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": STEPS},
            callback=self._stop_if_over,
        ).x[:n_free]
        self.clock.show(f"refined {settings.kernel}")
        return settings.changed(full @ (LOG_STEP * np.round(steps / LOG_STEP)))

    @property
    def _is_late(self) -> bool:
        """Whether the time for learning is over."""
        return self.clock.is_over(PART_FOR_LEARNING)

    def _stop_if_over(self, _: Float64Array) -> None:
        """End the search for settings at the step that passes the time for learning."""
        if self._is_late:
            raise StopIteration

    def _validated(self, name: str, settings: Settings, start: float | None = None) -> Tried:
        """Validate settings by leaving out rows."""
        loss, error = self.goal.validated(self._process(settings), self.validation)
        seconds = self.clock.seconds if start is None else time.monotonic() - start
        found = Tried(name, settings, loss, error, len(self.validation), seconds)
        self.tried.append(found)
        self.clock.show(f"validated {name} with {settings.n_neighbors} neighbors")
        return found

    def _with_best_number(self, best: Tried) -> Tried:
        """Return the settings with the smallest number of neighbors that is almost the best.

        Larger numbers are tried as long as the error decreases, then smaller ones.
        """
        middle, found = best.settings.n_neighbors, [best]
        larger = [one for one in self.wanted.numbers if middle < one < 2 * self.rows.size]
        smaller = [one for one in reversed(self.wanted.numbers) if one < middle]
        for numbers in (larger, smaller):
            last = best
            for number in numbers:
                if self.clock.is_over():
                    break
                now, before = time.monotonic(), last.loss
                settings = replace(best.settings, n_neighbors=number)
                last = self._validated(best.name, settings, now)
                found.append(last)
                if last.loss >= before:
                    break
        least = min(one.loss for one in found)
        good = [one for one in found if one.loss <= (1.0 + TOLERANCE) * least]
        return min(good, key=lambda one: one.settings.n_neighbors)

    def _process(self, settings: Settings) -> LocalProcess:
        """Return the process of some settings. The last ones are kept, to search in them again."""
        for place, known in enumerate(self._processes):
            if known.settings.shares_points_with(settings):
                self._processes.append(self._processes.pop(place))
                return known.with_settings(settings)
        del self._processes[: 1 - KEPT]  # before the next one needs memory
        self._processes.append(LocalProcess(self.rows, settings, self.n_threads))
        return self._processes[-1]

    def _in_units(self, found: Tried) -> Tried:
        """Return settings for rows of weight 1, after a search with weights of mean 1."""
        alpha = found.settings.alpha * self.goal.weight
        return found._replace(settings=replace(found.settings, alpha=alpha))


def compressing(rows: DistinctRows) -> Projection | None:
    """Return a projection that compresses columns with heavy tails; None if there are none."""
    sample = slice(TAIL_ROWS)
    ends = rows.X.min(axis=0), rows.X.max(axis=0)
    center, knee = knees(rows.X[sample], rows.weights[sample], *ends)
    return None if knee is None else Projection.of(np.eye(len(center)), center, knee)
