"""Run scenarios for a while; print what they tried, what they found, and how to repeat it.

Each scenario runs in a process of its own, so that a crash or a hang of one is a finding and not
the end of all.
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

# Seconds without a finished trial after which a scenario is stuck. Its own limits are shorter.
PATIENCE = 3 * processes.PATIENCE


def numbers_until(deadline: float) -> Iterator[int]:
    """Yield 0, 1, ... until a time on the monotonic clock; at least one number."""
    for number in itertools.count():
        yield number
        if time.monotonic() >= deadline:
            return


def serve(connection: Any, name: str, seed: int, seconds: float, trial: int | None) -> None:
    """Run a scenario; send the number of each trial, the log after it, and None in the end."""
    if processes.missing() is None:
        processes.keep_stacks(sys.stderr)
    # The parent prints what there is, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    numbers = numbers_until(time.monotonic() + seconds) if trial is None else iter([trial])
    log = runner.run(
        SCENARIOS[name](), numbers, seed, before=connection.send, after=connection.send
    )
    connection.send(log)
    connection.send(None)


class Isolated:
    """A scenario in a process of its own."""

    def __init__(self, name: str, seed: int) -> None:
        self.log = Log(name, seed)

    def run(self, seconds: float, trial: int | None) -> None:
        """Run it, and keep the log up to date."""
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
        """Receive logs until the scenario ends, in whichever way."""
        number, finished = 0, Log(self.log.scenario, self.log.seed)
        while True:
            if not receiver.poll(PATIENCE):
                if processes.missing() is None:
                    processes.end_stuck(child.pid)
                self._failed(finished, number, f"no trial has finished in {PATIENCE:g} s")
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
    """Run what the command line asks for, and return the exit code: 1 if anything was found."""
    parser = argparse.ArgumentParser("python -m soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="for all scenarios together")
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=int, help="run this trial only, to repeat a finding")
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
            print("interrupted; this is what there is so far")
            break
    print(f"\n{runner.table(logs)}")
    if any(log.findings for log in logs):
        print(runner.findings(logs))
        return 1
    return 130 if interrupted else 0
