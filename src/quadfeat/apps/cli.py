"""The command ``quadfeat`` and its subcommands."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from rich.console import Console

from quadfeat import __version__
from quadfeat.apps.compare import cli as compare_cli
from quadfeat.apps.reporting.errors import CommandError
from quadfeat.apps.study import cli as study_cli

BAD_INPUT = 2  # exit code
SUMMARY = "Kernel methods for large tables, with quadrature features."
EPILOG = """\b
Examples:
  quadfeat compare people.csv --target income  find the best model for a table
  quadfeat study --quick                       rerun the paper's experiments
  quadfeat data list                           list the datasets of the study

Run `quadfeat COMMAND --help` for the options and exit codes of a command.
"""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help=SUMMARY,
    epilog=EPILOG,
    rich_markup_mode=None,  # plain text suits any terminal, and brackets are no markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=compare_cli.EPILOG)(compare_cli.compare)
app.command(epilog=study_cli.EPILOG)(study_cli.study)
app.add_typer(study_cli.data_app, name="data")


def main() -> None:
    """Run the command. Bad input prints one line and exits with code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Escape characters that the encoding of the terminal lacks, instead of failing.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="quadfeat", standalone_mode=True)
    except CommandError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"quadfeat: error: {error}", markup=False, highlight=False
        )
        raise SystemExit(BAD_INPUT) from None


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"quadfeat {__version__}")
        raise typer.Exit


@app.callback(epilog=EPILOG)
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Fit kernel methods to large tables, with quadrature features."""
