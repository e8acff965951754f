"""Tables for the tests of ``quadfeat compare``."""

import contextlib
import io
import os
import sys
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

# Without a contest, a fit takes a fraction of a second instead of several.
FAST = {"candidates": ["neighbors"]}

# The same in a process of its own, without figures, for ``python -c``.
FAST_COMMAND = f"""
from quadfeat.__main__ import main
from quadfeat.apps.compare import fitting
from quadfeat.apps.reporting.drawing import Picture

fitting.MODEL_SETTINGS.update({FAST})
Picture.render, Picture.inline = (lambda *_: b""), (lambda *_: "")
main()
"""


def command(*arguments, settings=FAST, draw=True):
    """Run ``quadfeat compare`` in this process. Figures stay empty unless ``draw`` is true."""
    from quadfeat.apps.compare import fitting

    with (
        mock.patch.dict(fitting.MODEL_SETTINGS, settings),
        contextlib.nullcontext() if draw else without_figures(),
    ):
        return quadfeat_command("compare", *arguments)


def without_figures():
    """Return a context in which figures are empty: drawing takes seconds."""
    from quadfeat.apps.reporting.drawing import Picture

    return mock.patch.multiple(
        Picture, render=mock.Mock(return_value=b""), inline=mock.Mock(return_value="")
    )


def quadfeat_command(*arguments, width=80, environment=None):
    """Run ``quadfeat`` in this process, which is faster than starting a new one."""
    from quadfeat.__main__ import main
    from quadfeat.apps.reporting import terminal

    words = ["quadfeat", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.dict(os.environ, {"COLUMNS": str(width), **(environment or {})}),
        # Consoles read COLUMNS when they are imported, perhaps by another test.
        mock.patch.object(terminal.console, "_width", width),
        mock.patch.object(terminal.messages, "_width", width),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def run_script(folder, script):
    """Run a script in a folder; return its variables and its output."""
    out, scope, before = io.StringIO(), {"__name__": "__main__"}, os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out):
            exec(script, scope)
    finally:
        os.chdir(before)
    return scope, out.getvalue()


def people(n=240, seed=0):
    """Return a table with every kind of column. Its target depends on two of them."""
    rng = np.random.default_rng(seed)
    age, city = rng.uniform(20, 80, n).round(1), rng.choice(["Bern", "Basel", "Genf"], n)
    frame = pd.DataFrame(
        {
            "number": np.arange(100, 100 + n),
            "name": [f"person {k}" for k in range(n)],
            "age": age,
            "city": city,
            "member": rng.choice(["True", "False"], n),
            "joined": (
                pd.Timestamp("2015-01-01") + pd.to_timedelta(np.arange(n), unit="D")
            ).strftime("%Y-%m-%d"),
            "country": "CH",
            "empty": np.nan,
            "buys": np.where(np.abs(age - 50) + 8 * (city == "Bern") < 18, "yes", "no"),
        }
    )
    frame.loc[::9, "age"] = np.nan
    frame.loc[::7, "city"] = None
    frame.loc[::11, "joined"] = None
    frame.loc[5:8, "buys"] = None
    return frame


def save(frame, path):
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path
