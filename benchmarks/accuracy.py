"""Measure the accuracy of models with no settings beside that of their rivals, on real tables.

Each trial (table, contestant, seed, split) runs in a process of its own, which measures CPU seconds
of all threads, peak memory and scores. Results go to a file of JSON lines, which is kept in the
repository with the date and the commit of each: an interrupted run resumes where it stopped, and
the report uses all results of the chosen tables.

    QUADFEAT_DATA=folder python benchmarks/accuracy.py                    # scores of all
    python benchmarks/accuracy.py --contestants ours --seeds 10           # spread over seeds
    python benchmarks/accuracy.py --contestants ours --splits 5 --units   # coverage, units
    python benchmarks/accuracy.py --cached --out docs/measured            # report, run nothing
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from contest import data
from contest.contestants import CONTESTANTS, GROUPS
from contest.report import report
from contest.trials import Cache, Trial, run
from tables import circumstances

CACHE = Path(__file__).parent.parent / "docs" / "measured" / "accuracy.jsonl"


def chosen_contestants(names: Sequence[str]) -> list[str]:
    """Return the contestants that are named alone or by a group, in their usual order."""
    for name in names:
        if name not in CONTESTANTS and name not in GROUPS:
            known = ", ".join([*CONTESTANTS, *GROUPS])
            raise ValueError(f"--contestants {name}: choose among {known}")
    chosen = {member for name in names for member in GROUPS.get(name, [name])}
    return [name for name in CONTESTANTS if name in chosen]


def trials(
    tables: Sequence[str],
    names: Sequence[str],
    n_seeds: int = 1,
    n_splits: int = 1,
    units: bool = False,
) -> list[Trial]:
    """Return the trials of a run, table by table.

    Seeds vary on split 0, and splits with seed 0. Rivals run with further seeds, further splits and
    other units only if they are named, not if they are chosen as part of a group.
    """
    found = []
    for table in tables:
        for name in chosen_contestants(names):
            found.append(Trial(table, name))
            if CONTESTANTS[name].ours or name in names:
                found += [Trial(table, name, seed=seed) for seed in range(1, n_seeds)]
                found += [Trial(table, name, split=split) for split in range(1, n_splits)]
                found += [Trial(table, name, units=True)] if units else []
    return found


def current_commit() -> str:
    """Return the commit of this checkout, or an empty string outside a repository."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return done.stdout.strip()


def run_all(planned: Sequence[Trial], cache: Cache, rerun: bool = False) -> list[Trial]:
    """Run the trials that the cache does not have, and return those that failed."""
    failed = []
    commit = current_commit()
    # Threads that wait actively would count as CPU seconds.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    for trial in planned:
        if trial in cache.results and not rerun:
            continue
        reason = trial.reason_against()
        if reason is not None:
            print(f"{trial}: skipped: {reason}", flush=True)
            continue
        print(f"{trial}: ", end="", flush=True)
        command = [sys.executable, __file__, "--run", json.dumps(asdict(trial))]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            failed.append(trial)
            print(f"failed with exit status {done.returncode}\n{done.stderr}", flush=True)
            continue
        result = json.loads(done.stdout.splitlines()[-1])
        cache.add(trial, result | {"commit": commit})
        score = result["r2"] if "r2" in result else result["accuracy"]
        print(
            f"{score:.4f} in {result['fit_seconds']:.1f} CPU s, {result['megabytes']:.0f} MB",
            flush=True,
        )
    return failed


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tables", nargs="+", default=list(data.TASKS), choices=list(data.TASKS), metavar="TABLE"
    )
    parser.add_argument(
        "--contestants",
        nargs="+",
        default=["all"],
        metavar="NAME",
        help=f"names or groups: {', '.join([*CONTESTANTS, *GROUPS])}",
    )
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds for our models")
    parser.add_argument("--splits", type=int, default=1, help="number of splits for our models")
    parser.add_argument(
        "--units",
        action="store_true",
        help="fit our models again with columns multiplied by factors from 1e-6 to 1e6",
    )
    parser.add_argument("--rerun", action="store_true", help="run trials that the cache has too")
    parser.add_argument("--cached", action="store_true", help="report the cache, run nothing")
    parser.add_argument("--cache", type=Path, default=CACHE, help="file of results, JSON lines")
    parser.add_argument("--out", type=Path, help="folder for the tables as CSV files")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("seeds", "splits"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: give at least 1")
    try:
        chosen_contestants(options.contestants)
    except ValueError as error:
        parser.error(str(error))
    return options


def main() -> int:
    """Run the trials, print the report and return the exit status."""
    options = parsed()
    if options.run:
        print(json.dumps(run(Trial(**options.run))))
        return 0
    if data.folder() is None and not options.cached:
        print("skipped: QUADFEAT_DATA is not set: set it to the folder of the data")
        return 0
    cache = Cache(options.cache)
    failed: list[Trial] = []
    if not options.cached:
        planned = trials(
            options.tables, options.contestants, options.seeds, options.splits, options.units
        )
        failed = run_all(planned, cache, options.rerun)
    tables = report(cache.results, options.tables)
    tables.append(circumstances("accuracy-circumstances", "python benchmarks/accuracy.py"))
    print()
    if options.out is not None:
        for table in tables:
            table.write(options.out)
    for trial in failed:
        print(f"failed: {trial}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
