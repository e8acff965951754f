"""Test that the gallery's scripts run anywhere without changes and end in a figure."""

import runpy
import socket
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from slow import repeats

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """Provide an empty folder, no datasets, no network, no screen, and the gallery's style."""

    def refuse(*_):
        raise AssertionError("an example must not need a network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QUADFEAT_DATA", raising=False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("agg")
    with mpl.rc_context(fname=EXAMPLES / "quadfeat.mplstyle"):
        yield
    plt.close("all")


def test_there_is_a_gallery():
    assert len(SCRIPTS) >= 6


# `make docs` runs all examples too.
REPRESENTATIVE = "plot_arc_cosine"


@pytest.mark.parametrize(
    "script",
    repeats(sorted(SCRIPTS, key=lambda script: script.stem != REPRESENTATIVE)),
    ids=lambda script: script.stem,
)
def test_an_example_runs_without_warnings_and_ends_in_a_figure(script, bare_machine):
    runpy.run_path(str(script), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures
    for figure in figures:
        assert figure.axes
        for ax in figure.axes:
            assert ax.has_data()
        figure.canvas.draw()  # fails on invalid text or a layout that does not fit
