"""Kill fits that write a checkpoint, and start them again."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadfeat import ParquetBlocks, QuadratureRidge, QuadratureRidgeClassifier
from soak import processes
from soak.adapters import eager_checkpoints, small_blocks
from soak.runner import Scenario, Trial

Array = NDArray[Any]

N_COLUMNS = 3
ROWS_PER_BLOCK = 64
ROWS_PER_TABLE = 200

# All combinations of source, solver and task, except that "cg" cannot use an iterator, which can be
# read only once.
KINDS = [
    (source, solver, task)
    for source in ("array", "stream", "parquet", "iterator")
    for solver in ("normal", "cg")
    for task in ("regression", "classification")
    if (source, solver) != ("iterator", "cg")
]

# Seconds between two listings of a folder.
PAUSE = 0.0005


@dataclass(frozen=True)
class Work:
    """A fit, described by values that can be sent to a child process."""

    source: str
    solver: str
    task: str
    alpha: float | str
    weighted: bool
    n_rows: int
    seed: int

    def columns(self) -> tuple[Array, ...]:
        """Return rows, targets and, if ``weighted``, weights."""
        rng = np.random.default_rng(self.seed)
        X = rng.standard_normal((self.n_rows, N_COLUMNS))
        y: Array = np.sin(2.0 * X[:, 0]) + X[:, 1]
        if self.task == "classification":
            y = np.digitize(y, [-1.0, 0.0, 1.0])
        return (X, y, rng.uniform(0.5, 2.0, self.n_rows)) if self.weighted else (X, y)

    def write_parquet(self, path: Path) -> None:
        """Write the columns to a file, for ``source="parquet"``."""
        import pandas as pd

        X, *others = self.columns()
        frame = pd.DataFrame(X, columns=list("abc"))
        for name, values in zip(("target", "weight"), others, strict=False):
            frame[name] = values
        frame.to_parquet(path, row_group_size=ROWS_PER_TABLE)

    def fit(self, checkpoint: Path | None, parquet: Path) -> Any:
        """Fit the model and return it."""
        kind = QuadratureRidge if self.task == "regression" else QuadratureRidgeClassifier
        model = kind(
            "gaussian",
            n_components=40,
            alpha=self.alpha,
            solver=self.solver,
            tol=1e-6,
            random_state=0,
            checkpoint=checkpoint,
        )
        if self.source == "array":
            return model.fit(*self.columns())
        if self.source == "parquet":
            weight = "weight" if self.weighted else None
            return model.fit(
                ParquetBlocks(
                    parquet, "target", sample_weight=weight, rows_per_block=ROWS_PER_TABLE
                )
            )
        tables = list(self._tables())
        return model.fit(tables if self.source == "stream" else iter(tables))

    def _tables(self) -> Iterator[tuple[Array, ...]]:
        columns = self.columns()
        for start in range(0, self.n_rows, ROWS_PER_TABLE):
            yield tuple(column[start : start + ROWS_PER_TABLE] for column in columns)


def fit_in_child(
    work: Work, checkpoint: Path | None, parquet: Path, out: Path, setup: Callable[[], None] | None
) -> None:
    """Fit a model and write its numbers, or the traceback of an error, to ``out``."""
    if setup is not None:
        setup()
    try:
        with eager_checkpoints(), small_blocks(ROWS_PER_BLOCK):
            model = work.fit(checkpoint, parquet)
        numbers = [model.coef_, model.intercept_, model.n_iter_]
        answer: dict[str, Any] = {"model": [np.asarray(found).tolist() for found in numbers]}
    except Exception:
        answer = {"error": traceback.format_exc().rstrip()}
    # JSON stores floats with enough digits to distinguish any two.
    out.write_text(json.dumps(answer))


class Kills(Scenario):
    """Kill fits with a checkpoint at random moments, and resume them until they finish.

    Parameters
    ----------
    setup : callable, default=None
        Called in each child before the fit. A test can use it to break something.
    """

    name = "kills"

    def __init__(self, setup: Callable[[], None] | None = None) -> None:
        self.setup = setup

    def missing(self) -> str | None:
        return processes.missing()

    def run(self, trial: Trial) -> None:
        work = self.work(trial)
        folder = trial.folder / "checkpoints"
        folder.mkdir()
        checkpoint, parquet = folder / "state", trial.folder / "rows.parquet"
        if work.source == "parquet":
            work.write_parquet(parquet)
        wanted = self.outcome(trial, work, None, parquet, kill=False)
        n_kills = int(trial.rng.integers(1, 7))
        for number in range(n_kills + 1):
            trial.count("resume" if checkpoint.exists() else "start")
            kill = number < n_kills
            found = self.outcome(trial, work, checkpoint, parquet, kill=kill)
            if found is not None and kill:
                trial.count("fit faster than its kill")
            if found is not None and found != wanted:
                trial.report(f"{work} gave a different model after kills")
        left = sorted(path.name for path in folder.iterdir())
        if left:
            trial.report(f"{work} left {left} behind")

    def work(self, trial: Trial) -> Work:
        """Return a random fit."""
        possible = [kind for kind in KINDS if kind[0] != "parquet" or find_spec("pyarrow")]
        source, solver, task = possible[trial.number % len(possible)]
        alphas = [0.1]
        if solver == "normal":
            alphas += ["gcv"] if source == "iterator" else ["gcv", "loo"]  # type: ignore[list-item]
        return Work(
            source,
            solver,
            task,
            trial.choose(alphas),
            weighted=bool(trial.rng.integers(2)),
            n_rows=int(trial.rng.integers(1000, 3000)),
            seed=int(trial.rng.integers(2**31)),
        )

    def outcome(
        self, trial: Trial, work: Work, checkpoint: Path | None, parquet: Path, *, kill: bool
    ) -> Any:
        """Run a fit in a child. Return the model, or None if the fit was killed or failed."""
        out = trial.folder / "out.json"
        out.unlink(missing_ok=True)
        child = processes.start(fit_in_child, work, checkpoint, parquet, out, self.setup)
        if kill:
            assert checkpoint is not None
            self.wait_for_moment(trial, checkpoint, child)
            if child.is_alive():
                child.kill()
                trial.count("kill")
        child.join(processes.PATIENCE)
        if child.is_alive():
            child.kill()
            trial.report(f"{work} did not finish")
            return None
        if not out.exists() or not out.read_text():
            if not kill:
                trial.report(f"the process of {work} {processes.ending_of(child)}")
            return None
        answer = json.loads(out.read_text())
        if "error" in answer:
            trial.report(f"{work} failed:\n{answer['error']}")
            return None
        return answer["model"]

    def wait_for_moment(self, trial: Trial, checkpoint: Path, child: Any) -> None:
        """Wait for some checkpoints, or for a partly written one, then for a random time."""
        n_files = int(trial.rng.integers(0, 8))
        during_write = bool(trial.rng.integers(2))
        delay = float(trial.rng.exponential(0.002))
        seen: set[tuple[int, int]] = set()
        before = _version(checkpoint)
        while child.is_alive():
            version = _version(checkpoint)
            if version is not None and version != before:
                seen.add(version)
            if len(seen) >= n_files and not during_write:
                break
            drafts = [path for path in checkpoint.parent.iterdir() if path != checkpoint]
            if len(seen) >= n_files and drafts:
                return
            time.sleep(PAUSE)
        time.sleep(delay)


def _version(path: Path) -> tuple[int, int] | None:
    """Return numbers that change when a file is replaced, or None if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
