"""Commands that must not fail, and interpreters of environments: what the scripts here share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMOKE = ROOT / "scripts" / "smoke.py"


class Failure(Exception):
    """A command that failed: the first line says what it was to do, the rest what it printed."""


def run(*command: str | Path, step: str, cwd: Path = ROOT) -> str:
    """Return what a command printed."""
    ran = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ran.returncode != 0:
        raise Failure(f"{step} failed\n{ran.stdout}")
    return ran.stdout


def interpreter_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
