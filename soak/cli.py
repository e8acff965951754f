"""Run scenarios for a given time, then print what they tried, what they found and how to repeat it.

Each scenario runs in its own process. If one crashes or hangs, this is a finding, and the others
still run.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import platform
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import quadfeat
from soak import processes, runner
from soak.clusters import Clusters
from soak.flips import Flips
from soak.forks import Forks
from soak.kills import Kills
from soak.loky import Loky
from soak.runner import Finding, Log, Scenario
from soak.studies import Studies
from soak.threads import Threads

SCENARIOS: dict[str, type[Scenario]] = {
    kind.name: kind for kind in (Threads, Kills, Flips, Clusters, Studies, Forks, Loky)
}

# A scenario counts as stuck after this many seconds without a finished trial. The time limits
# within scenarios are shorter.
PATIENCE = 3 * processes.PATIENCE


def numbers_until(deadline: float) -> Iterator[int]:
    """Yield 0, 1, ... until a time of the monotonic clock, but at least one number."""
    for number in itertools.count():
        yield number
        if time.monotonic() >= deadline:
            return


def serve(connection: Any, name: str, seed: int, seconds: float, trial: int | None) -> None:
    """Run a scenario. Send the number of each trial, the log after it, and None at the end."""
    if processes.missing() is None:
        processes.keep_stacks(sys.stderr)
    # On an interrupt, the parent prints the results so far and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    numbers = numbers_until(time.monotonic() + seconds) if trial is None else iter([trial])
    log = runner.run(
        SCENARIOS[name](), numbers, seed, before=connection.send, after=connection.send
    )
    connection.send(log)
    connection.send(None)


class Isolated:
    """A scenario that runs in its own process."""

    def __init__(self, name: str, seed: int) -> None:
        self.log = Log(name, seed)

    def run(self, seconds: float, trial: int | None) -> None:
        """Run the scenario and keep the log up to date."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(
            target=serve, args=(sender, self.log.scenario, self.log.seed, seconds, trial)
        )
        child.start()
        sender.close()
        try:
            self._receive(receiver, child)
            child.join(30.0)
        finally:
            child.terminate()
            child.join(30.0)
            child.kill()
            child.join()

    def _receive(self, receiver: Any, child: Any) -> None:
        """Receive logs until the scenario finishes, crashes or hangs."""
        number, finished = 0, Log(self.log.scenario, self.log.seed)
        while True:
            if not receiver.poll(PATIENCE):
                if processes.missing() is None:
                    processes.end_stuck(child.pid)
                self._failed(finished, number, f"no trial finished within {PATIENCE:g} s")
                return
            try:
                message = receiver.recv()
            except EOFError:
                child.join()
                what = f"the process of the scenario {processes.ending_of(child)}"
                self._failed(finished, number, what)
                return
            if message is None:
                return
            if isinstance(message, int):
                number = message
            else:
                finished = self.log = message

    def _failed(self, finished: Log, number: int, what: str) -> None:
        finished.findings.append(Finding(number, what))
        self.log = finished


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code, which is 1 if there are findings."""
    parser = argparse.ArgumentParser("python -m soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="total time of all scenarios")
    parser.add_argument(
        "--only", choices=SCENARIOS, action="append", help="a scenario to run (repeatable)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="run only this trial, to repeat a finding")
    options = parser.parse_args(arguments)
    names = options.only or list(SCENARIOS)

    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(
        f"quadfeat {quadfeat.__version__}, core {quadfeat.engine.core.CORE}, Python "
        f"{platform.python_version()} {'with' if gil else 'without'} the GIL, seed {options.seed}",
        flush=True,
    )
    deadline = time.monotonic() + options.seconds
    logs: list[Log] = []
    interrupted = False
    for place, name in enumerate(names):
        share = max(0.0, deadline - time.monotonic()) / (len(names) - place)
        scenario = Isolated(name, options.seed)
        try:
            print(f"{name}: {SCENARIOS[name].__doc__.partition(chr(10))[0]}", flush=True)  # type: ignore[union-attr]
            scenario.run(share, options.trial)
        except KeyboardInterrupt:
            interrupted = True
        logs.append(scenario.log)
        if interrupted:
            print("interrupted; results so far:")
            break
    print(f"\n{runner.table(logs)}")
    if any(log.findings for log in logs):
        print(runner.findings(logs))
        return 1
    return 130 if interrupted else 0
