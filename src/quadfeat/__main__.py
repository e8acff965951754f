"""The command ``quadfeat``, also as ``python -m quadfeat``."""

from __future__ import annotations


def main() -> None:
    """Run the command, or say what to install for it."""
    try:
        from quadfeat.apps.cli import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "quadfeat":
            raise
        raise SystemExit(
            f"quadfeat: error: the command needs {error.name}: pip install 'quadfeat[study]'"
        ) from None
    except KeyboardInterrupt:  # what is imported takes a second or two
        raise SystemExit(130) from None
    command()


if __name__ == "__main__":
    main()
