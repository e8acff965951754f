"""Run cells, save each as soon as it is finished, and continue an earlier run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

import quadfeat
from quadfeat.apps.reporting.machine import machine
from quadfeat.apps.reporting.processes import run_in_processes
from quadfeat.apps.study.data import signature
from quadfeat.apps.study.errors import StudyError
from quadfeat.apps.study.experiments import (
    EXPERIMENTS,
    NO_BLOCKS,
    Cell,
    Effort,
    Row,
    Skipped,
)
from quadfeat.io.files import atomic_write


@dataclass(frozen=True)
class Outcome:
    """The result of a cell: rows, or the reason why it has none."""

    cell: Cell
    rows: list[Row] = field(default_factory=list)
    skipped: str | None = None
    failed: str | None = None
    machine: dict[str, Any] = field(default_factory=dict)  # versions and hardware
    kept: bool = False  # from an earlier run


def run_cell(cell: Cell, effort: Effort) -> Outcome:
    """Run one cell on one thread, so that results do not depend on the number of processes."""
    with threadpool_limits(1):
        try:
            rows = EXPERIMENTS[cell.experiment](cell, effort)
            return Outcome(cell, rows=rows, machine=machine())
        except Skipped as reason:
            return Outcome(cell, skipped=str(reason))
        except StudyError:
            raise
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            return Outcome(cell, failed=text if len(text) <= 200 else f"{text[:200]} ...")


class Store:
    """The finished cells of a configuration: one file each, in a folder named by a hash."""

    def __init__(self, folder: Path, effort: Effort) -> None:
        self.folder = folder
        self.data_dir = Path(effort.data_dir) if effort.data_dir else None
        self.fingerprint = fingerprint(effort)
        self.cells = folder / "cells" / self.fingerprint
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise StudyError(
                f"cannot write to {folder}: {reason}. Choose another --out."
            ) from error

    def _path(self, cell: Cell) -> Path:
        parts = (cell.dataset, cell.kernel, cell.method, str(cell.n))
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", "_".join(parts))
        return self.cells / cell.experiment / f"{name}.json"

    def load(self, cell: Cell) -> Outcome | None:
        """Return a finished cell, or None if it was not saved or its dataset has changed."""
        try:
            content = json.loads(self._path(cell).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StudyError(f"cannot read {self._path(cell)} ({error}). Delete it.") from error
        # Errors are the same on every machine up to rounding. Times are not.
        moved = cell.experiment == "walltime" and content["machine"] not in ({}, machine())
        if content["data"] != self._signature(cell) or moved:
            return None
        return Outcome(
            cell,
            rows=content["rows"],
            skipped=content["skipped"],
            machine=content["machine"],
            kept=True,
        )

    def _signature(self, cell: Cell) -> str:
        return "" if cell.experiment == "walltime" else signature(cell.dataset, self.data_dir)

    def save(self, outcome: Outcome) -> None:
        """Save a finished cell. The next run repeats a failed one."""
        if outcome.failed is None:
            content = {
                "rows": outcome.rows,
                "skipped": outcome.skipped,
                "machine": outcome.machine,
                "data": self._signature(outcome.cell),
            }
            self.write(self._path(outcome.cell), json.dumps(content).encode())

    def write(self, path: Path, content: bytes) -> None:
        """Write a file completely or not at all."""
        try:
            with atomic_write(path) as file:
                file.write(content)
        except OSError as error:
            raise StudyError(f"cannot write {path}: {error.strerror or error}.") from error


def run(cells: Sequence[Cell], effort: Effort, store: Store, jobs: int) -> Iterator[Outcome]:
    """Yield outcomes as cells finish, those of an earlier run first."""
    missing = []
    for cell in cells:
        outcome = store.load(cell)
        if outcome is None:
            missing.append(cell)
        else:
            yield outcome
    # Timings run last and alone, so that nothing disturbs them.
    timed = [cell for cell in missing if cell.experiment == "walltime"]
    others = [cell for cell in missing if cell.experiment != "walltime"]
    results: Iterator[Outcome]
    if jobs == 1:
        results = (run_cell(cell, effort) for cell in others)
    else:
        results = _run_in_processes(others, effort, jobs)
    for outcome in results:
        store.save(outcome)
        yield outcome
    for cell in timed:
        outcome = run_cell(cell, effort)
        store.save(outcome)
        yield outcome


def _run_in_processes(cells: Sequence[Cell], effort: Effort, jobs: int) -> Iterator[Outcome]:
    """Yield outcomes from worker processes. If one dies, only running cells are lost."""
    return run_in_processes(
        partial(run_cell, effort=effort),
        cells,
        jobs,
        lambda cell: Outcome(cell, failed="the worker process died, perhaps out of memory"),
    )


def fingerprint(effort: Effort) -> str:
    """Return a hash of everything that changes a number: the effort and the version."""
    content = {key: value for key, value in asdict(effort).items() if key != "data_dir"}
    text = json.dumps([content, quadfeat.__version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def tables(outcomes: Sequence[Outcome]) -> dict[str, pd.DataFrame]:
    """Return the rows of each experiment that has any, with the machine that ran them."""
    rows: dict[str, list[Row]] = {}
    for outcome in outcomes:
        if outcome.rows:
            found = [{**row, **outcome.machine} for row in outcome.rows]
            rows.setdefault(outcome.cell.experiment, []).extend(found)
    return {experiment: _frame(found) for experiment, found in rows.items()}


def _frame(rows: list[Row]) -> pd.DataFrame:
    """Return rows as a table. The n of references is missing, not 0."""
    table = pd.DataFrame(rows)
    blocks = table["n"].astype("Int64")
    return table.assign(n=blocks.mask(blocks == NO_BLOCKS))


def provenance(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the machines that ran the cells, or this one if there are no rows."""
    found: dict[str, dict[str, None]] = {}
    for outcome in outcomes:
        for key, value in outcome.machine.items():
            found.setdefault(key, {})[str(value)] = None
    if not found:
        return {key: str(value) for key, value in machine().items()}
    return {key: " and ".join(values) for key, values in found.items()}
