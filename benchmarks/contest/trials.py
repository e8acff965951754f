"""One model on one split of one table: run it in this process, or read it from the cache."""

from __future__ import annotations

import json
import os
import resource
import time
import warnings
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from contest import data, scores
from contest.contestants import CONTESTANTS

Result = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A contestant on a split of a table, with a seed, in the original or other units."""

    table: str
    contestant: str
    seed: int = 0
    split: int = 0
    units: bool = False

    def __str__(self) -> str:
        parts = [self.table, self.contestant]
        parts += [f"seed {self.seed}"] if self.seed else []
        parts += [f"split {self.split}"] if self.split else []
        parts += ["other units"] if self.units else []
        return ", ".join(parts)

    def reason_against(self) -> str | None:
        """Return why the trial cannot be run, or None if it can."""
        reason = data.reason_against(self.table)
        if reason is not None:
            return reason
        contestant, task = CONTESTANTS[self.contestant], data.TASKS[self.table]
        return contestant.reason_against(task, data.n_train(self.table, self.split))


def run(trial: Trial) -> Result:
    """Fit and score a model in this process, and return scores, CPU seconds and peak memory."""
    task = data.TASKS[trial.table]
    contestant = CONTESTANTS[trial.contestant]
    split = data.load(trial.table, trial.split, trial.units)
    contestant.prepare()
    model = contestant.make(task, trial.seed)
    found: Result = {
        "date": date.today().isoformat(),
        "n_train": len(split.X),
        "n_test": len(split.X_test),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cpu, wall = cpu_seconds(), time.perf_counter()
        model.fit(split.X, split.y)
        found["fit_wall_seconds"] = time.perf_counter() - wall
        found["fit_seconds"] = cpu_seconds() - cpu
        cpu = cpu_seconds()
        predicted = model.predict(split.X_test)
        found["predict_seconds"] = cpu_seconds() - cpu
        found["megabytes"] = peak_megabytes()  # before the scores, which need memory too
        if task == "regression":
            found |= scores.of_values(split.y_test, predicted)
            unit = float(split.y.std())
            if contestant.predictive is not None:
                mean, deviation = contestant.predictive(model, split.X_test)
                found |= scores.of_distribution(split.y_test, mean, deviation, unit)
            if hasattr(model, "predict_interval"):
                lower, upper = model.predict_interval(split.X_test, coverage=scores.COVERAGE)
                found |= scores.of_interval(split.y_test, lower, upper, unit)
        else:
            found |= scores.of_classifier(model, split.X_test, split.y_test)
            found |= scores.of_prior(split.y, split.y_test)
    found["warnings"] = sorted({f"{one.category.__name__}: {one.message}" for one in caught})
    if hasattr(model, "why_"):
        found["why"] = str(model.why_)
    if hasattr(model, "leaderboard_"):
        best = model.leaderboard_[0]
        found["validated"] = {
            "loss": best.loss,
            "standard_error": best.standard_error,
            "n_rows": best.n_rows,
            "shares": {row.name: row.share for row in model.leaderboard_ if row.took_part},
        }
    return found


def cpu_seconds() -> float:
    """Return user and system seconds of all threads of this process and of finished children."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def peak_megabytes() -> float:
    """Return the peak of the resident memory of this process, the data included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if os.uname().sysname == "Darwin" else 2**10)


class Cache:
    """Results in a file of JSON lines. The last line of a trial counts.

    Parameters
    ----------
    path : Path
        The file. It is created with the first result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[Trial, Result] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8")
            whole, _, rest = text.rpartition("\n")
            if rest:  # a run was killed while writing
                print(f"drop the incomplete last line of {path}")
                path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
            for line in whole.splitlines():
                self._keep(json.loads(line))

    def add(self, trial: Trial, result: Result) -> None:
        """Append the result of a trial."""
        line = asdict(trial) | result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._keep(line)

    def _keep(self, line: Result) -> None:
        names = {field.name for field in fields(Trial)}
        trial = Trial(**{name: line[name] for name in names})
        self.results[trial] = {name: value for name, value in line.items() if name not in names}
