"""Entry point of the command ``quadfeat``, also run by ``python -m quadfeat``."""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec

# The packages of the extra "study".
NEEDED = ("jinja2", "matplotlib", "openpyxl", "pandas", "pooch", "pyarrow", "rich", "typer")

# What ``quadfeat --help`` prints. It is kept here so that it needs no extra and appears at once.
HELP = """\
Usage: quadfeat [OPTIONS] COMMAND [ARGS]...

  Kernel methods for large tables, with quadrature features.

Options:
  --version   Print the version and exit.
  -h, --help  Show this message and exit.

Commands:
  compare  Find the best model for a table.
  study    Rerun the paper's experiments and write a report.
  data     List and download the datasets of the study.

  Examples:
    quadfeat compare people.csv --target income  find the best model for a table
    quadfeat study --quick                       rerun the paper's experiments
    quadfeat data list                           list the datasets of the study

  Run `quadfeat COMMAND --help` for the options and exit codes of a command.
"""

WAY_OUT = "Install with: pip install 'quadfeat[study]'"


def _missing() -> list[str]:
    """Return the packages that the command needs and that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def main() -> None:
    """Run the command. Exit with a hint if a package that it needs is missing."""
    if sys.argv[1:] == ["--version"]:  # without importing the rest, which takes seconds
        print(f"quadfeat {version('quadfeat')}")
        return
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(HELP, end="")
        if lacking := _missing():
            print(f"\n  The commands need {', '.join(lacking)}. {WAY_OUT}")
        return
    try:
        from quadfeat.apps.cli import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "quadfeat":
            raise
        missing = ", ".join(dict.fromkeys([error.name, *_missing()]))
        raise SystemExit(f"quadfeat: error: the command needs {missing}. {WAY_OUT}") from None
    except KeyboardInterrupt:  # the import takes a second or two
        raise SystemExit(130) from None
    command()


if __name__ == "__main__":
    main()
