"""Entry point of the command ``quadfeat``, also run by ``python -m quadfeat``."""

from __future__ import annotations

import sys
from importlib.metadata import version


def main() -> None:
    """Run the command. Exit with a hint if a package that it needs is missing."""
    if sys.argv[1:] == ["--version"]:  # without importing the rest, which takes seconds
        print(f"quadfeat {version('quadfeat')}")
        return
    try:
        from quadfeat.apps.cli import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "quadfeat":
            raise
        raise SystemExit(
            f"quadfeat: error: the command needs {error.name}. "
            "Install it with: pip install 'quadfeat[study]'"
        ) from None
    except KeyboardInterrupt:  # the import takes a second or two
        raise SystemExit(130) from None
    command()


if __name__ == "__main__":
    main()
