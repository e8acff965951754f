"""Change a model in some threads while others use it."""

from __future__ import annotations

import itertools
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import quadfeat
from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from soak.adapters import n_rows_of
from soak.runner import Scenario, Trial

Array = NDArray[Any]

# Threads count as stuck after this many seconds, far more than any trial needs on a loaded machine.
PATIENCE = 120.0

N_COLUMNS = 3
ROWS = 40

# Relative tolerance of predictions, which depend on the order of sums.
CLOSE = 1e-7
# Tolerance of probabilities, whose temperature comes from a numerical search.
CLOSE_PROBABILITIES = 1e-4

# Errors that a call may raise if another thread has changed the model. Any other error is a bug.
REJECTIONS = (ValueError, RuntimeError)

Use = Callable[[Any], Array]


class Crowd:
    """Run threads that start together, and report those that fail or hang."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.done = threading.Event()
        self._workers: list[threading.Thread] = []
        self._watchers: list[threading.Thread] = []
        self._start = threading.Event()

    def work(self, call: Callable[[], None]) -> None:
        """Add a thread that makes one call."""
        self._workers.append(self._thread(call))

    def watch(self, call: Callable[[], None]) -> None:
        """Add a thread that repeats a call as long as others work."""

        def repeat() -> None:
            while True:
                call()
                if self.done.is_set():
                    return

        self._watchers.append(self._thread(repeat))

    def _thread(self, call: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            self._start.wait()
            try:
                call()
            except Exception:
                self.trial.report(f"unexpected error in a thread:\n{traceback.format_exc()}")

        return threading.Thread(target=run, daemon=True)

    def run(self) -> bool:
        """Run all threads and return whether they have finished."""
        for thread in (*self._workers, *self._watchers):
            thread.start()
        self._start.set()
        deadline = time.monotonic() + PATIENCE
        self._join(self._workers, deadline)
        self.done.set()
        self._join(self._watchers, deadline)
        stuck = [thread for thread in (*self._workers, *self._watchers) if thread.is_alive()]
        if stuck:
            frames = sys._current_frames()
            stack = "".join(traceback.format_stack(frames.get(stuck[0].ident or 0)))
            self.trial.report(f"{len(stuck)} threads are stuck, one of them here:\n{stack}")
        return not stuck

    @staticmethod
    def _join(threads: list[threading.Thread], deadline: float) -> None:
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class States:
    """The possible states of a model, and the result of each use in each state."""

    def __init__(self, models: list[Any], uses: dict[str, Use]) -> None:
        self._allowed = {
            name: [np.asarray(use(model)) for model in models] for name, use in uses.items()
        }

    def find(self, use: str, given: Array) -> int | None:
        """Return the number of the state that a result belongs to, or None."""
        tolerance = CLOSE_PROBABILITIES if "proba" in use else CLOSE
        nearest, distance = None, np.inf
        for number, wanted in enumerate(self._allowed[use]):
            if wanted.shape == given.shape:
                found = float(np.abs(wanted - given).max())
                if found < distance:
                    nearest, distance = number, found
        scale = max(float(np.abs(wanted).max()) for wanted in self._allowed[use])
        return nearest if distance <= tolerance * scale else None


def uses_of(model: Any, X: Array, folder: Path) -> dict[str, Use]:
    """Return the ways to use a model, by name."""
    predict = "decision_function" if hasattr(model, "decision_function") else "predict"

    def pickled(model: Any) -> Array:
        return np.asarray(getattr(pickle.loads(pickle.dumps(model)), predict)(X))

    def saved(model: Any) -> Array:
        path = folder / f"model-{threading.get_ident()}"
        quadfeat.save(model, path)
        return np.asarray(getattr(quadfeat.load(path), predict)(X))

    uses: dict[str, Use] = {
        predict: lambda model: np.asarray(getattr(model, predict)(X)),
        "pickle": pickled,
        "save": saved,
    }
    if predict == "predict":
        uses["predict with std"] = lambda model: np.stack(model.predict(X, return_std=True))
    else:
        uses["predict_proba"] = lambda model: np.asarray(model.predict_proba(X))
    return uses


def duplicate(model: Any) -> Any:
    """Return an independent copy."""
    return pickle.loads(pickle.dumps(model))


@contextmanager
def switching(seconds: float) -> Iterator[None]:
    """Set the interval at which Python switches threads within a context."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def table(rng: np.random.Generator, n_classes: int, scale: float = 1.0) -> tuple[Array, Array]:
    """Return rows with targets, or with classes if ``n_classes`` is positive."""
    X = scale * rng.standard_normal((ROWS, N_COLUMNS))
    score = np.sin(2.0 * X[:, 0] / scale) + X[:, 1] / scale
    if n_classes == 0:
        return X, score
    classes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return X, classes


def reachable(rounds: int) -> set[tuple[int, int]]:
    """Return the possible sizes of two models after each has merged the other ``rounds`` times.

    Both start with size 1. A merge reads the other model, then writes to its own.

    Examples
    --------
    >>> sorted(reachable(1))
    [(2, 2), (2, 3), (3, 2)]
    """
    steps = 2 * rounds
    found = set()
    for ours in itertools.combinations(range(2 * steps), steps):
        sizes, read, taken = [1, 1], [0, 0], [0, 0]
        for step in range(2 * steps):
            one = 0 if step in ours else 1
            if taken[one] % 2 == 0:
                read[one] = sizes[1 - one]
            else:
                sizes[one] += read[one]
            taken[one] += 1
        found.add((sizes[0], sizes[1]))
    return found


class Threads(Scenario):
    """Change a model in many threads while others predict with it, pickle it and save it."""

    name = "threads"

    def run(self, trial: Trial) -> None:
        kinds = (self.additions, self.refits, self.crossed_merges)
        with switching(10.0 ** trial.rng.uniform(-6, -3)):
            kinds[trial.number % len(kinds)](trial)

    def model(self, trial: Trial, n_classes: int, **parameters: Any) -> Any:
        """Return an unfitted model."""
        parameters = {"alpha": 1.0, "gram_dtype": "float64", "random_state": 0, **parameters}
        kind = QuadratureRidgeClassifier if n_classes else QuadratureRidge
        return kind(n_jobs=trial.choose([None, 2]), **parameters)

    def watch(
        self, trial: Trial, crowd: Crowd, model: Any, states: States, uses: dict[str, Use]
    ) -> None:
        """Add threads that use a model and report results that match none of its states."""
        for use, call in uses.items():

            def look(use: str = use, call: Use = call) -> None:
                trial.count("uses")
                if states.find(use, call(model)) is None:
                    trial.report(f"{use} gave a result that matches no state of the model")

            for _ in range(int(trial.rng.integers(1, 3))):
                crowd.watch(look)

    def additions(self, trial: Trial) -> None:
        """Add the same rows repeatedly, and check the final number of rows for lost calls."""
        n_classes = trial.choose([0, 2, 3])
        X, y = table(trial.rng, n_classes)
        features = QuadratureFeatures(n_components=24, rule="rff", random_state=0).fit(X)
        model = self.model(trial, n_classes, features=features).fit(X, y)
        other = duplicate(model)
        n_threads, per_thread = int(trial.rng.integers(2, 25)), int(trial.rng.integers(1, 4))
        models = [duplicate(model)]
        for _ in range(n_threads * per_thread):
            models.append(duplicate(models[-1]).partial_fit(X, y))
        uses = uses_of(model, X, trial.folder)
        states = States(models, uses)
        rejected = []

        def add(merges: bool) -> None:
            for _ in range(per_thread):
                try:
                    model.merge(other) if merges else model.partial_fit(X, y)
                except REJECTIONS as error:
                    rejected.append(error)

        crowd = Crowd(trial)
        for _ in range(n_threads):
            merges = bool(trial.rng.integers(2))
            trial.count("merge" if merges else "partial_fit", per_thread)
            crowd.work(lambda merges=merges: add(merges))  # type: ignore[misc]
        self.watch(trial, crowd, model, states, uses)
        if not crowd.run():
            return
        trial.count("rejected additions", len(rejected))
        wanted = (1 + n_threads * per_thread - len(rejected)) * ROWS
        if n_rows_of(model) != wanted:
            trial.report(
                f"{n_threads} threads added {wanted - ROWS} rows to a model of {ROWS}, which now "
                f"has {n_rows_of(model)}: calls were lost without an error"
            )
        for use, call in uses.items():
            state = states.find(use, call(model))
            if state is None or (state + 1) * ROWS != n_rows_of(model):
                trial.report(f"at the end, {use} does not match the number of rows")

    def refits(self, trial: Trial) -> None:
        """Fit a model to other data, with another map and other outputs, while threads use it."""
        classification = bool(trial.rng.integers(2))
        first = table(trial.rng, 2 if classification else 0)
        second = table(trial.rng, 3 if classification else 0, scale=3.0)
        if not classification and trial.rng.integers(2):
            second = (second[0], np.stack([second[1], -second[1]], axis=1))
        model = self.model(
            trial, int(classification), kernel="gaussian", n_components=24, rule="rff"
        ).fit(*first)
        n_threads, n_fits = int(trial.rng.integers(1, 5)), int(trial.rng.integers(2, 9))
        X, y = first
        models = []
        for data in (first, second):
            models.append(duplicate(model).fit(*data))
            for _ in range(n_threads * n_fits):
                if np.ndim(data[1]) != np.ndim(y):
                    break
                models.append(duplicate(models[-1]).partial_fit(X, y))
        uses = uses_of(model, X, trial.folder)
        if np.ndim(second[1]) == 2:
            del uses["predict with std"]  # mean and standard deviation have different shapes
        states = States(models, uses)

        def fit() -> None:
            for number in range(n_fits):
                model.fit(*(second if number % 2 == 0 else first))
                trial.count("fit")

        def add() -> None:
            for _ in range(n_fits):
                try:
                    model.partial_fit(X, y)
                    trial.count("partial_fit")
                except REJECTIONS:
                    trial.count("rejected additions")

        crowd = Crowd(trial)
        crowd.work(fit)
        for _ in range(n_threads):
            crowd.work(add)
        self.watch(trial, crowd, model, states, uses)
        crowd.run()

    def crossed_merges(self, trial: Trial) -> None:
        """Merge two models into each other. This must neither hang nor lose rows."""
        X, y = table(trial.rng, 0)
        features = QuadratureFeatures(n_components=24, rule="rff", random_state=0).fit(X)
        one = self.model(trial, 0, features=features).fit(X, y)
        two = duplicate(one)
        rounds = int(trial.rng.integers(1, 4))

        def merge(model: Any, other: Any) -> None:
            for _ in range(rounds):
                model.merge(other)

        trial.count("merge", 2 * rounds)
        crowd = Crowd(trial)
        crowd.work(lambda: merge(one, two))
        crowd.work(lambda: merge(two, one))
        crowd.watch(lambda: duplicate(one).merge(two))
        if not crowd.run():
            return
        sizes = (n_rows_of(one) // ROWS, n_rows_of(two) // ROWS)
        if sizes not in reachable(rounds):
            trial.report(f"after {rounds} merges each, two models have {sizes} times ROWS rows")
