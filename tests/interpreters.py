"""Run code in new processes that have already imported what most pages of the documentation use."""

import multiprocessing
import os
import sys
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

# The parent of all processes imports these once.
PRELOADED = ["numpy", "pandas", "pyarrow.parquet", "scipy.stats", "sklearn.ensemble", "quadfeat"]


@dataclass(frozen=True)
class Ran:
    """What a process left behind, with the names of ``subprocess.CompletedProcess``."""

    returncode: int
    stdout: str
    stderr: str


def run_code(code, folder):
    """Run code as the main module of a new process in a folder."""
    named = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(named)
    if named == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_main, args=(code, folder))
    process.start()
    process.join()
    printed = [(Path(folder) / name).read_text(encoding="utf-8") for name in (".stdout", ".stderr")]
    return Ran(process.exitcode, *printed)


def _main(code, folder):
    """Execute code with its output in files. They also get what child processes print."""
    os.chdir(folder)
    for number, name in ((1, ".stdout"), (2, ".stderr")):
        with open(name, "wb") as file:
            os.dup2(file.fileno(), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    try:
        exec(compile(code, "<page>", "exec"), vars(main))
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
