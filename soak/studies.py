"""Kill runs of ``quadfeat study``, and start them again."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from soak import processes
from soak.adapters import short_studies
from soak.runner import Scenario, Trial

METHODS = ("G", "Gort", "ROM", "B", "H")
KERNELS = ("gaussian", "arccos0", "arccos1")

# Files whose content depends only on the numbers of the study.
TABLES = ("kernel-error.csv",)


def study_in_child(arguments: list[str], log: str, setup: Callable[[], None] | None) -> None:
    """Run the command and write its output to a file."""
    from quadfeat.__main__ import main

    if setup is not None:
        setup()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.argv = ["quadfeat", "study", *arguments]
    with short_studies():
        main()


class Studies(Scenario):
    """Kill a study at random moments, resume it, and compare it with an uninterrupted one.

    Parameters
    ----------
    setup : callable, default=None
        Called in each child before the command. A test can use it to break something.
    """

    name = "study"

    def __init__(self, setup: Callable[[], None] | None = None) -> None:
        self.setup = setup

    def missing(self) -> str | None:
        if find_spec("typer") is None or find_spec("matplotlib") is None:
            return "needs quadfeat[study]"
        return processes.missing()

    def run(self, trial: Trial) -> None:
        methods = trial.rng.choice(METHODS, 2, replace=False)
        arguments = ["kernel-error", "--quick", "--datasets", "diabetes", "--jobs", "1"]
        arguments += ["--methods", ",".join(methods), "--kernels", trial.choose(KERNELS)]
        arguments += ["--seed", str(trial.rng.integers(1000))]
        whole, killed = trial.folder / "whole", trial.folder / "killed"
        self.command(trial, arguments, whole, kill=False)
        for _ in range(int(trial.rng.integers(1, 5))):
            self.command(trial, arguments, killed, kill=True)
        self.command(trial, arguments, killed, kill=False)
        self.compare(trial, whole, killed, " ".join(arguments))

    def command(self, trial: Trial, arguments: list[str], out: Path, *, kill: bool) -> None:
        """Run the command to its end, or kill it after it has finished some cells."""
        log = trial.folder / "log.txt"
        child = processes.start(
            study_in_child, [*arguments, "--out", str(out)], str(log), self.setup
        )
        if kill:
            before = len(list(out.glob("cells/*/*/*.json")))
            n_cells, delay = before + int(trial.rng.integers(0, 6)), trial.rng.exponential(0.1)
            while child.is_alive() and len(list(out.glob("cells/*/*/*.json"))) < n_cells:
                if n_cells > 10 and (out / TABLES[0]).exists():
                    break
                time.sleep(0.002)
            time.sleep(delay)
            trial.count("kill" if child.is_alive() else "command faster than its kill")
            child.kill()
        child.join(processes.PATIENCE)
        stuck = child.is_alive()
        child.kill()
        child.join()
        if stuck:
            trial.report("a study did not finish")
        elif not kill and child.exitcode != 0:
            printed = log.read_text(errors="replace")
            trial.report(f"a study {processes.ending_of(child)}:\n{printed}")

    def compare(self, trial: Trial, whole: Path, killed: Path, command: str) -> None:
        """Report files that are missing, left over, damaged or different."""
        names = [
            {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
            for out in (whole, killed)
        ]
        if names[0] != names[1]:
            different = sorted(names[0] ^ names[1])
            trial.report(f"after kills, the files of {command} differ: {different}")
        for name in sorted(names[0] & names[1]):
            path = killed / name
            if path.suffix == ".json":
                try:
                    content = json.loads(path.read_text())
                except ValueError as error:
                    trial.report(f"after kills, {name} is damaged: {error}")
                    continue
                if "rows" in content and content != json.loads((whole / name).read_text()):
                    trial.report(f"after kills, {name} has different rows")
            elif path.stat().st_size == 0:
                trial.report(f"after kills, {name} is empty")
            elif name in TABLES and path.read_bytes() != (whole / name).read_bytes():
                trial.report(f"after kills, {name} has different numbers")
