"""The command ``quadfeat`` and its subcommands."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from rich.console import Console

from quadfeat import __version__
from quadfeat.apps.compare.cli import compare
from quadfeat.apps.reporting.errors import CommandError
from quadfeat.apps.study.cli import data_app, study

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Random features by quadrature rules."
)
app.command()(compare)
app.command()(study)
app.add_typer(data_app, name="data")


def main() -> None:
    """Run the command; bad input prints one line and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A character that the terminal's encoding lacks must not stop the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(standalone_mode=True)
    except CommandError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"quadfeat: error: {error}", markup=False, highlight=False
        )
        raise SystemExit(2) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quadfeat {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Random features by quadrature rules."""
