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


def command(*arguments):
    """Run ``quadfeat compare`` in this process, which spares the imports of a new one."""
    from quadfeat.__main__ import main
    from quadfeat.apps.compare import machines
    from quadfeat.apps.reporting import terminal

    words = ["quadfeat", "compare", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", words),
        # With few features, the search for a kernel takes a second instead of three.
        mock.patch.dict(machines.MODEL_SETTINGS, {"n_components": 64}),
        # The console reads COLUMNS when it is imported, which another test may have done.
        mock.patch.object(terminal.console, "_width", 160),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())


def run_script(folder, script):
    """Return what a script defines, run in a folder, and what it prints."""
    out, scope, before = io.StringIO(), {"__name__": "__main__"}, os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out):
            exec(script, scope)
    finally:
        os.chdir(before)
    return scope, out.getvalue()


def people(n=240, seed=0):
    """A table with every kind of column, in which the target follows two of them."""
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
