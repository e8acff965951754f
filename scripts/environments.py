"""Helpers of the scripts in this folder: run commands and find interpreters of environments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMOKE = ROOT / "scripts" / "smoke.py"


class Failure(Exception):
    """A command failed. The first line of the message names the step, the rest is its output."""


def run(*command: str | Path, step: str, cwd: Path = ROOT) -> str:
    """Run a command and return its output. Raise :class:`Failure` if it fails."""
    ran = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode != 0:
        raise Failure(f"{step} failed\n{ran.stdout}")
    return ran.stdout


def interpreter_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
