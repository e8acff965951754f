"""Test the command ``quadfeat``: help, exit codes and version, and the page that documents them."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="needs quadfeat[study]")

from typer.main import get_command
from typer.testing import CliRunner

import quadfeat
from quadfeat.__main__ import main
from quadfeat.apps.cli import app

PAGE = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = ["compare", "study", "data list", "data fetch"]


def run(*arguments):
    return CliRunner().invoke(
        app, list(arguments), prog_name="quadfeat", env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    )


def parameters(command):
    """Return the options and arguments of a command."""
    found = get_command(app)
    for name in command.split():
        found = found.commands[name]
    return found.params


def section(command):
    """Return the part of the page about a command."""
    start = PAGE.index(f"\n## quadfeat {command.split()[0]}")
    return PAGE[start : PAGE.index("\n## ", start + 1)]


class TestPage:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_it_lists_every_option(self, command):
        help_text = run(*command.split(), "--help").output
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_text)) - {"--help"}
        assert options
        for option in options:
            assert f"`{option}" in section(command), f"docs/cli.md lacks {option} of {command}"

    @pytest.mark.parametrize("command", ["compare", "study"])
    def test_defaults_are_those_of_the_command(self, command):
        for parameter in parameters(command):
            default = parameter.default
            if isinstance(default, (bool, type(None))) or parameter.param_type_name != "option":
                continue
            (row,) = re.findall(rf"^\| `{parameter.opts[0]}.*$", section(command), re.M)
            assert row.split(" | ")[1].strip("`") == str(default)

    def test_it_lists_every_option_of_the_main_command(self):
        for option in re.findall(r"--[a-z-]+", run("--help").output):
            assert option in PAGE

    def test_it_has_no_options_that_do_not_exist(self):
        known = {name for command in COMMANDS for one in parameters(command) for name in one.opts}
        known |= {name for one in parameters("study") for name in one.secondary_opts}
        written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
        assert written <= known | {"--help", "--version"}

    def test_it_lists_the_exit_codes_of_every_command(self):
        for command in COMMANDS:
            codes = re.findall(r"^ +(\d+)  ", run(*command.split(), "--help").output, re.M)
            for code in codes:
                assert f"\n| {code} | " in PAGE

    def test_the_example_has_the_models_and_labels_of_the_command(self):
        from quadfeat.apps.compare.contestants import CONTESTANTS

        for contestant in CONTESTANTS.values():
            assert contestant.title in PAGE
        for label in ("Use", "Why", "How sure", "Code", "Script", "Report"):
            assert f"\n{label:10}" in PAGE

    def test_it_lists_the_files_of_a_comparison(self):
        from quadfeat.apps.compare import journal, report

        for name in (*report.FILES, journal.FILE):
            if name.endswith(("svg", "pdf")):
                continue
            assert f"`{name}`" in PAGE


class TestHelp:
    @pytest.mark.parametrize("command", ["", *COMMANDS])
    def test_it_has_examples_and_fits_80_columns(self, command):
        done = run(*command.split(), "--help")
        assert done.exit_code == 0
        assert "Examples:\n" in done.output
        assert f"quadfeat {command}".strip() in done.output
        assert max(map(len, done.output.splitlines())) <= 80
        assert "\x1b" not in done.output

    @pytest.mark.parametrize("command", COMMANDS)
    def test_it_has_exit_codes(self, command):
        assert "Exit codes:\n" in run(*command.split(), "--help").output

    @pytest.mark.parametrize("option", ["-h", "--help"])
    def test_help_of_the_main_command_needs_no_extras(self, option, monkeypatch, capsys):
        monkeypatch.setattr("sys.argv", ["quadfeat", option])
        monkeypatch.setitem(sys.modules, "quadfeat.apps.cli", None)  # importing it would fail
        main()
        assert capsys.readouterr().out.rstrip() == run("--help").output.rstrip()

    def test_help_names_the_extra_that_is_missing(self, monkeypatch, capsys):
        found = importlib.util.find_spec
        monkeypatch.setattr("sys.argv", ["quadfeat", "--help"])
        monkeypatch.setattr(
            "quadfeat.__main__.find_spec", lambda name: None if name == "typer" else found(name)
        )
        main()
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == "  The commands need typer. Install with: pip install 'quadfeat[study]'"

    def test_short_option(self):
        assert run("compare", "-h").output == run("compare", "--help").output


def test_version():
    assert run("--version").output == f"quadfeat {quadfeat.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compar"], "No such command 'compar'"),
        (["compare"], "Missing argument 'TABLE'"),
        (["compare", "t.csv", "--fold", "3"], "No such option: --fold"),
    ],
)
def test_wrong_usage_exits_with_2(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_no_color():
    """``NO_COLOR`` turns off colors even if a program forces terminal output."""
    code = (
        "from quadfeat.apps.reporting.terminal import console, weighted_bar\n"
        "with weighted_bar(console) as progress:\n"
        "    bar = progress.add_task('fits', total=2, done=0, items=2)\n"
        "    progress.update(bar, advance=1, done=1)\n"
        "console.print('bold', style='bold')\n"
    )
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)

    def styles(**more):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**environment, **more},
            check=True,
        )
        return set(re.findall(r"\x1b\[([\d;]+)m", done.stdout))

    assert styles(NO_COLOR="1") == {"0", "1"}  # bold and its end
    assert len(styles()) > 2
