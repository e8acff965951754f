"""Run trials of scenarios, and log what they tried and found."""

from __future__ import annotations

import tempfile
import threading
import traceback
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

# Number of findings per scenario that are printed in full.
SHOWN = 5


@dataclass(frozen=True)
class Finding:
    """A problem that was found, and the trial that found it."""

    trial: int
    what: str


@dataclass
class Log:
    """The log of the trials of one scenario."""

    scenario: str
    seed: int
    trials: int = 0
    events: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    skipped: str | None = None

    def command(self, trial: int) -> str:
        """Return the command that repeats a trial."""
        return f"python -m soak --only {self.scenario} --seed {self.seed} --trial {trial}"


class Trial:
    """One randomized trial.

    Attributes
    ----------
    number : int
        The number of the trial. Scenarios with several kinds of trials cycle through them.
    rng : numpy.random.Generator
        A generator that depends only on the seed, the scenario and the number of the trial.
    folder : Path
        An empty folder that is removed after the trial.
    """

    def __init__(self, number: int, rng: np.random.Generator, folder: Path) -> None:
        self.number = number
        self.rng = rng
        self.folder = folder
        self.events: Counter[str] = Counter()
        self.findings: list[str] = []
        self._lock = threading.Lock()

    def count(self, event: str, times: int = 1) -> None:
        """Count an event. This is safe to call from any thread."""
        with self._lock:
            self.events[event] += times

    def report(self, what: str) -> None:
        """Report a finding. This is safe to call from any thread."""
        with self._lock:
            self.findings.append(what)

    def choose(self, choices: Iterable[Any]) -> Any:
        """Return a random one of the choices."""
        choices = list(choices)
        return choices[int(self.rng.integers(len(choices)))]


class Scenario(ABC):
    """Base class of stress scenarios.

    A subclass has a ``name`` and implements :meth:`run`. The first line of its docstring is printed
    as its description.
    """

    name: str

    def missing(self) -> str | None:
        """Return why this scenario cannot run on this system, or None if it can."""
        return None

    def session(self) -> AbstractContextManager[Any]:
        """Return a context for all trials, such as a cluster that they share."""
        return nullcontext()

    @abstractmethod
    def run(self, trial: Trial) -> None:
        """Run one trial. Count events and report findings.

        An exception that leaves this method is also a finding.
        """


def generator_of(scenario: str, seed: int, number: int) -> np.random.Generator:
    """Return the generator of a trial."""
    return np.random.default_rng([seed, zlib.crc32(scenario.encode()), number])


def run(
    scenario: Scenario,
    numbers: Iterable[int],
    seed: int = 0,
    *,
    before: Callable[[int], None] = lambda number: None,
    after: Callable[[Log], None] = lambda log: None,
) -> Log:
    """Run the trials with these numbers and return the log.

    Call ``before`` with the number of each trial, and ``after`` with the log so far.
    """
    log = Log(scenario.name, seed, skipped=scenario.missing())
    if log.skipped is not None:
        return log
    with scenario.session():
        for number in numbers:
            before(number)
            with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
                rng = generator_of(scenario.name, seed, number)
                trial = Trial(number, rng, Path(folder))
                try:
                    scenario.run(trial)
                except Exception:
                    trial.report(f"unexpected error:\n{traceback.format_exc().rstrip()}")
            log.trials += 1
            log.events.update(trial.events)
            log.findings.extend(Finding(number, what) for what in trial.findings)
            after(log)
    return log


def table(logs: Iterable[Log]) -> str:
    """Return a table of what was tried and found.

    Examples
    --------
    >>> log = Log("kills", seed=0, trials=2, events=Counter(kill=3))
    >>> log.findings.append(Finding(1, "a draft is left behind"))
    >>> print(table([log]))
    scenario  trials  findings  tried
    kills          2         1  3 kill
    """
    rows = [("scenario", "trials", "findings", "tried")]
    for log in logs:
        tried = ", ".join(f"{times} {event}" for event, times in sorted(log.events.items()))
        tried = tried if log.skipped is None else f"skipped: {log.skipped}"
        rows.append((log.scenario, str(log.trials), str(len(log.findings)), tried))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        f"{name:<{widths[0]}}  {trials:>{widths[1]}}  {findings:>{widths[2]}}  {tried}"
        for name, trials, findings, tried in rows
    )


def findings(logs: Iterable[Log]) -> str:
    """Return the findings as text, each with the command that repeats it."""
    lines = []
    for log in logs:
        for finding in log.findings[:SHOWN]:
            lines += ["", f"{log.scenario}, trial {finding.trial}: {finding.what}"]
            lines.append(f"  to repeat: {log.command(finding.trial)}")
        if len(log.findings) > SHOWN:
            lines += ["", f"{log.scenario}: {len(log.findings) - SHOWN} more findings"]
    return "\n".join(lines)
