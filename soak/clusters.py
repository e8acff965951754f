"""Kill Dask workers, and give them less memory than the data needs."""

from __future__ import annotations

import copy
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadfeat import QuadratureFeatures, QuadratureRidge, QuadratureRidgeClassifier
from soak.runner import Scenario, Trial

Array = NDArray[Any]

N_COLUMNS = 8
N_BLOCKS = 12
N_WORKERS = 2

# Memory of a worker in bytes, and the fraction of it that data may take before it spills to disk.
# The fraction is less than the rows of a trial need. Workers are not paused or ended for the memory
# that Python itself takes.
MEMORY_LIMIT = 2**30
MEMORY = {"target": 0.00002, "spill": False, "pause": False, "terminate": False}

# Relative tolerance, since a cluster adds up sums in another order.
CLOSE = 1e-6


def slow(block: Array, folder: str, seconds: float) -> Array:
    """Return a block after a delay, and create a file that names the process."""
    handle, _ = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder)
    os.close(handle)
    time.sleep(seconds)
    return block


class Clusters(Scenario):
    """Compare fits on Dask workers that are killed or spill to disk with local fits."""

    name = "dask"

    def missing(self) -> str | None:
        if find_spec("distributed") is None:
            return "needs dask[array,dataframe,distributed]"
        return None if hasattr(signal, "SIGKILL") else "this system has no SIGKILL"

    def session(self) -> AbstractContextManager[Any]:
        return self.cluster()

    @contextmanager
    def cluster(self) -> Iterator[None]:
        """Run a cluster for as long as trials need it."""
        import dask
        from distributed import Client, LocalCluster

        options = {f"distributed.worker.memory.{name}": part for name, part in MEMORY.items()}
        with (
            tempfile.TemporaryDirectory(prefix="soak-dask-") as folder,
            dask.config.set(options),
            LocalCluster(
                n_workers=N_WORKERS,
                threads_per_worker=1,
                processes=True,
                memory_limit=MEMORY_LIMIT,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # any free port
                local_directory=folder,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            Client(cluster) as self.client,
            dask.config.set(scheduler="dask.distributed"),
        ):
            yield

    def run(self, trial: Trial) -> None:
        import dask.array as da

        kills, spills = [(True, False), (False, True), (True, True)][trial.number % 3]
        X, y, model = self.task(trial)
        made = trial.folder / "made"
        made.mkdir()
        lazy = da.from_array(X, chunks=(-(-len(X) // N_BLOCKS), N_COLUMNS))
        targets = da.from_array(y, chunks=len(X) // 5)
        pause = float(trial.rng.uniform(0.01, 0.05)) if kills else 0.0
        lazy = lazy.map_blocks(slow, str(made), pause, dtype=X.dtype, meta=X[:0])
        if spills:
            lazy, targets = self.client.persist([lazy, targets])
            # With kills, do not wait: a worker may also be killed while it receives rows.
            if not kills:
                self.wait_until_spilled(trial, [lazy, targets])
        local = copy.copy(model).fit(X, y)
        with self.killing(trial, made) if kills else nullcontext():
            model.fit(lazy, targets)
        trial.count("fit")
        self.compare(trial, model, local, lazy, X)

    def task(self, trial: Trial) -> tuple[Array, Array, Any]:
        """Return rows, targets and a model with a fitted map."""
        X = trial.rng.standard_normal((int(trial.rng.integers(3000, 8000)), N_COLUMNS))
        y = np.sin(2.0 * X[:, 0]) + X[:, 1]
        features = QuadratureFeatures(n_components=60, random_state=0).fit(X)
        options: dict[str, Any] = {"features": features, "gram_dtype": "float64", "alpha": 0.1}
        if trial.rng.integers(2):
            labels = np.digitize(y, [-0.5, 0.5])
            return X, labels, QuadratureRidgeClassifier(random_state=0, **options)
        solver = trial.choose(["normal", "cg"])
        return X, y, QuadratureRidge(solver=solver, tol=1e-8, random_state=0, **options)

    def wait_until_spilled(self, trial: Trial, collections: list[Any]) -> None:
        """Wait until the workers have the data, and count the bytes that they spilled to disk."""
        from distributed import wait

        wait(collections)
        spilled = self.client.run(_spilled)
        trial.count("spilled bytes", sum(spilled.values()))
        if not any(spilled.values()):
            trial.report("no worker has spilled to disk: the memory limit does not work")

    @contextmanager
    def killing(self, trial: Trial, made: Path) -> Iterator[None]:
        """Kill a worker after it has computed some blocks."""
        done = threading.Event()
        after = int(trial.rng.integers(1, N_BLOCKS))

        def kill() -> None:
            while not done.is_set():
                names = sorted(path.name for path in made.iterdir())
                if len(names) >= after:
                    os.kill(int(names[0].partition("-")[0]), signal.SIGKILL)
                    trial.count("killed worker")
                    return
                time.sleep(0.002)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def compare(self, trial: Trial, found: Any, local: Any, lazy: Any, X: Array) -> None:
        """Report differences between a model fitted on the cluster and a local one."""
        pairs = {
            "coef_": (found.coef_, local.coef_),
            "predict": (found.predict(X), local.predict(X)),
        }
        pairs["predict on workers"] = (found.predict(lazy).compute(), local.predict(X))
        for what, (given, wanted) in pairs.items():
            scale = float(np.abs(wanted).max())
            if given.shape != wanted.shape or np.abs(given - wanted).max() > CLOSE * scale:
                trial.report(f"{what} differs between a Dask fit and a local fit: {found}")


def _spilled(dask_worker: Any) -> int:
    """Return the number of bytes that a worker has spilled to disk."""
    return int(dask_worker.data.spilled_total.disk)
