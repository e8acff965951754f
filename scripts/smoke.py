"""Check that the installed package is complete and works.

Run this script outside of a checkout. ``make dist``, ``make compat`` and the workflow that builds
wheels run it on every wheel. It needs only the requirements of the package itself.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import quadfeat
from quadfeat import QuadratureFeatures
from quadfeat.engine import core as _core

# Files other than modules: type stubs, templates of reports and the paper's errors.
DATA = (
    "engine/_native.pyi",
    "py.typed",
    *(
        f"apps/reporting/templates/{name}"
        for name in ("page.html", "page.css", "page.js", "parts.html")
    ),
    "apps/compare/templates/report.html",
    "apps/study/templates/report.html",
    "apps/study/published_errors.csv",
)

# Smallest accuracy of a map and a linear model on scikit-learn's digits. A wrong map scores less.
ACCURACY = 0.97


def check_files() -> None:
    """Check the version and the data files."""
    assert quadfeat.__version__ == version("quadfeat"), quadfeat.__version__
    missing = [name for name in DATA if not files("quadfeat").joinpath(name).is_file()]
    assert not missing, f"the package lacks the files {missing}"


def check_cores() -> None:
    """Check that the native core is in use, and compare each of its builds with NumPy."""
    assert _core.CORE != "numpy", "the native core is not in use"
    from quadfeat.engine import _native

    rows = np.random.default_rng(0).normal(size=(70, 40))
    for core in _native.cores():
        _core.CORE = core
        for rule in ("sr33", "rom", "fastfood", "orf"):
            for kernel in ("gaussian", "arccos1"):
                for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
                    X = rows.astype(dtype)
                    fitted = QuadratureFeatures(
                        kernel, n_components=203, rule=rule, random_state=0
                    ).fit(X)
                    expected = np.empty((70, 203), dtype=dtype)
                    reference = _core.NumpyMap(fitted.nodes_, fitted.kernel_, dtype)
                    reference.write(X, expected, 1)
                    np.testing.assert_allclose(
                        fitted.transform(X),
                        expected,
                        atol=tolerance * float(np.abs(expected).max()),
                        err_msg=f"{core}, {rule}, {kernel}, {np.dtype(dtype).name}",
                    )


def check_accuracy() -> None:
    """Check that a map and a linear model learn to classify digits."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = make_pipeline(QuadratureFeatures(random_state=0), RidgeClassifier(alpha=0.1))
    accuracy = model.fit(X_train, y_train).score(X_test, y_test)
    assert accuracy > ACCURACY, f"the accuracy {accuracy:.4f} is not above {ACCURACY}"


def check_command() -> None:
    """Check that the command prints its help and, without its requirements, what to install."""

    def quadfeat(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "quadfeat", *words]
        return subprocess.run(command, capture_output=True, text=True)

    ran = quadfeat("--help")
    assert ran.returncode == 0, ran
    assert "compare" in ran.stdout, ran
    ran = quadfeat("compare", "--help")
    if find_spec("typer") is not None:
        assert ran.returncode == 0, ran
        assert "--target" in ran.stdout, ran
    else:
        assert ran.returncode == 1, ran
        assert "pip install 'quadfeat[study]'" in ran.stderr, ran
        assert "Traceback" not in ran.stderr, ran


def main() -> None:
    """Run all checks. The first failure raises an AssertionError."""
    quadfeat.show_config()
    print(f"from       {files('quadfeat')}")
    check_files()
    check_cores()
    check_accuracy()
    check_command()
    print("All checks passed.")


if __name__ == "__main__":
    main()
