"""Describe the machine and the command line."""

from __future__ import annotations

import os
import platform
import re
import sys
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
import sklearn

import quadfeat
from quadfeat.apps.reporting.text import shell_quoted


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Return versions and hardware, to keep with results."""
    return {
        "quadfeat": quadfeat.__version__,
        "core": quadfeat.engine.core.CORE,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit_learn": sklearn.__version__,
        "cpu": _cpu(),
        "processors": os.cpu_count(),
        "threads": 1,
    }


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = re.search(r"^model name\s*:\s*(.+)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def command_line(*variables: str) -> str:
    """Return the command that repeats this run, with the environment variables that are set."""
    given = "".join(f"{name}=... " for name in variables if os.environ.get(name))
    return given + " ".join(map(shell_quoted, ["quadfeat", *sys.argv[1:]]))
