"""Run native threads in the worker processes of joblib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky import get_reusable_executor
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from quadfeat import QuadratureRidge, QuadratureRidgeClassifier
from soak.runner import Scenario, Trial

Array = NDArray[Any]

JOBS = 2


def fit_and_use(model: Any, X: Array, y: Array) -> list[Array]:
    """Fit a model and return its features, predictions and coefficients."""
    model = model.fit(X, y)
    return [model.features_.transform(X), model.predict(X), model.coef_]


class Loky(Scenario):
    """Compare fits in joblib workers with several native threads with fits in one process."""

    name = "loky"

    @contextmanager
    def session(self) -> Iterator[None]:
        """Shut the workers down after the last trial, since they would wait for more work."""
        try:
            yield
        finally:
            get_reusable_executor().shutdown(wait=True)

    def run(self, trial: Trial) -> None:
        kinds = (self.parallel, self.grid_search)
        # Results of BLAS depend on its number of threads. Those of the native core do not.
        with (
            threadpool_limits(1, user_api="blas"),
            parallel_config("loky", inner_max_num_threads=1),
        ):
            kinds[trial.number % len(kinds)](trial)

    def parallel(self, trial: Trial) -> None:
        """Compare models fitted in workers with those fitted in this process."""
        tasks = []
        for seed in range(int(trial.rng.integers(2, 6))):
            X, y, model = self.task(trial, seed)
            tasks.append((model.set_params(n_jobs=trial.choose([1, 2, 4, -1])), X, y))
        # Large arrays reach workers as read-only memory maps.
        workers = Parallel(n_jobs=JOBS, max_nbytes=trial.choose([1, "1M"]))
        given = workers(delayed(fit_and_use)(*task) for task in tasks)
        trial.count("fit in a worker", len(tasks))
        for (model, X, y), results in zip(tasks, given, strict=True):
            wanted = fit_and_use(model.set_params(n_jobs=1), X, y)
            if not all(map(np.array_equal, results, wanted)):
                trial.report(f"a worker and a single process gave different numbers: {model}")

    def grid_search(self, trial: Trial) -> None:
        """Compare the scores of a grid search in workers with those in one process."""
        X, y, model = self.task(trial, 0)
        grid = {"alpha": [0.01, 0.1, 1.0], "n_components": [20, 50]}
        model.set_params(n_jobs=2)
        searches = [GridSearchCV(model, grid, cv=3, n_jobs=jobs).fit(X, y) for jobs in (JOBS, 1)]
        trial.count("fit in a worker", 18)
        given, wanted = (search.cv_results_["mean_test_score"] for search in searches)
        if not np.array_equal(given, wanted):
            difference = given - wanted
            trial.report(f"a grid search in workers gave different scores: {model}, {difference}")
        given, wanted = (search.predict(X) for search in searches)
        if not np.array_equal(given, wanted):
            trial.report(f"a grid search in workers gave a different model: {model}")

    def task(self, trial: Trial, seed: int) -> tuple[Array, Array, Any]:
        """Return rows, targets and an unfitted model."""
        d = int(trial.rng.integers(2, 40))
        X = trial.rng.standard_normal((int(trial.rng.integers(100, 2000)), d))
        X = X.astype(trial.choose([np.float32, np.float64]))
        options: dict[str, Any] = {
            "kernel": "gaussian",
            "alpha": 1.0,
            "n_components": 60,
            "rule": trial.choose(["auto", "rff", "sr33"]),
        }
        if trial.rng.integers(2):
            labels = (X[:, 0] > 0).astype(int)
            return X, labels, QuadratureRidgeClassifier(random_state=seed, **options)
        return X, X[:, 0] + X[:, 1] ** 2, QuadratureRidge(random_state=seed, **options)
