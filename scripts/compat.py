"""Test the package with the oldest and the newest versions of its requirements.

For every Python version that the package claims to support, the script tests the newest versions of
the requirements. For the oldest Python and the one that runs this script, it also tests the oldest
versions. Each environment gets a wheel of the checkout and the test requirements, and runs
``smoke.py`` and some of the tests. uv creates the environments in ``.venv-compat`` and downloads
missing interpreters.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import metadata, requires
from pathlib import Path

from build import ProjectBuilder
from packaging.requirements import Requirement
from packaging.version import Version

from environments import ROOT, SMOKE, Failure, interpreter_of, run

FOLDER = ROOT / ".venv-compat"

# scikit-learn's estimator checks, the native core against NumPy, maps and models.
TESTS = [
    "tests/test_scikit_learn.py",
    "tests/test_native.py",
    "tests/test_features.py",
    "tests/test_ridge.py",
]

# The names that uv uses.
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}

# Packages whose versions the table shows.
SHOWN = ("numpy", "scipy", "scikit-learn")

CLAIM = "Programming Language :: Python :: "


@dataclass(frozen=True)
class Environment:
    """A version of Python, and the oldest or newest versions of the requirements."""

    python: str
    resolution: str

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.python}-{self.resolution}"

    @property
    def interpreter(self) -> Path:
        return interpreter_of(self.folder)


def uv(*arguments: str | Path, step: str) -> str:
    """Run uv."""
    return run(sys.executable, "-m", "uv", "--quiet", *arguments, step=step)


def claimed_pythons() -> list[str]:
    """Return the versions of Python in the package's metadata, oldest first."""
    named = [text.removeprefix(CLAIM) for text in metadata("quadfeat").get_all("Classifier") or []]
    minors = [int(text[2:]) for text in named if text.startswith("3.")]
    return [f"3.{minor}" for minor in sorted(minors)]


def is_python(path: Path | str, version: str) -> bool:
    """Return whether an interpreter runs and has this version. A pyenv shim may do neither."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([path, "-c", code], capture_output=True, text=True)
    return ran.returncode == 0 and ran.stdout.strip() == version


def find_python(version: str) -> str:
    """Return an interpreter of this version from the path, from pyenv, or downloaded by uv."""
    if is_python(sys.executable, version):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
    for candidate in candidates:
        if candidate is not None and is_python(candidate, version):
            return str(candidate)
    uv("python", "install", version, step=f"downloading Python {version}, which is not installed,")
    return uv("python", "find", "--managed-python", version, step="finding Python").strip()


def lower_bound(requirement: Requirement) -> str:
    """Return the version of a requirement of the form ``name>=version``."""
    (bound,) = requirement.specifier
    return bound.version


def oldest_build_requirements() -> list[str]:
    """Return the build requirements, pinned to their lower bounds."""
    requirements = map(Requirement, sorted(ProjectBuilder(ROOT).build_system_requires))
    return [f"{requirement.name}=={lower_bound(requirement)}" for requirement in requirements]


def build_wheel(python: str, sdist: Path, folder: Path, *, oldest: bool) -> Path:
    """Build a wheel for an interpreter, with the newest or the oldest supported build tools."""
    constraints = FOLDER / "build-constraints.txt"
    constraints.write_text("\n".join(oldest_build_requirements() if oldest else []))
    uv(
        *("build", "--wheel", "--python", python, "--build-constraints", constraints),
        *("--out-dir", folder, sdist),
        step="building a wheel",
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def try_out(environment: Environment, python: str, wheel: Path, tests: list[str]) -> str:
    """Install a wheel and its test requirements, run the tests and return their summary."""
    uv("venv", "--clear", "--python", python, environment.folder, step="creating an environment")
    install = ("pip", "install", "--python", environment.interpreter)
    # Do not install the wheel with its extras. Its requirements would then be indirect ones, which
    # "lowest-direct" resolves to their newest versions.
    uv(
        *(*install, "--requirements", ROOT / "pyproject.toml", "--extra", "test"),
        *("--only-binary", ":all:", "--resolution", RESOLUTIONS[environment.resolution]),
        step="installing requirements",
    )
    uv(*install, "--no-deps", wheel, step="installing the wheel")
    run(environment.interpreter, SMOKE, step="smoke.py", cwd=environment.folder)
    printed = run(
        *(environment.interpreter, "-m", "pytest", "-q", "--numprocesses", "auto"),
        *("-p", "no:cacheprovider", *tests),
        step="tests",
    )
    return printed.strip().splitlines()[-1].strip("= ")


def installed(environment: Environment) -> dict[str, str]:
    """Return the versions of the packages in ``SHOWN``."""
    code = f"from importlib.metadata import version; print(*map(version, {SHOWN!r}))"
    versions = run(environment.interpreter, "-c", code, step="reading versions").split()
    return dict(zip(SHOWN, versions, strict=True))


def check_oldest(versions: dict[str, str]) -> None:
    """Raise an error unless these are the lower bounds of the package's requirements."""
    for requirement in map(Requirement, requires("quadfeat") or []):
        if requirement.name in versions and requirement.marker is None:
            found = versions[requirement.name]
            if Version(found) != Version(lower_bound(requirement)):
                raise Failure(f"{requirement} was tested with {found} instead of its lower bound")


def build_sdist() -> Path:
    """Build a source distribution of the checkout."""
    shutil.rmtree(FOLDER / "wheels", ignore_errors=True)
    uv("build", "--sdist", "--out-dir", FOLDER / "wheels", ROOT, step="building the sdist")
    (sdist,) = (FOLDER / "wheels").glob("*.tar.gz")
    return sdist


def environments(pythons: list[str], present: str) -> list[Environment]:
    """Return the environments to test, oldest first."""
    oldest = dict.fromkeys([pythons[0], present])
    return [
        *(Environment(python, "oldest") for python in oldest),
        *(Environment(python, "newest") for python in sorted({*pythons, present}, key=minor_of)),
    ]


def minor_of(python: str) -> int:
    """Return 10 for 3.10."""
    return int(python.partition(".")[2])


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Print rows of strings in aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for row in rows:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


def main() -> None:
    """Test all environments for which there is an interpreter, and print a table."""
    claimed = claimed_pythons()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", nargs="*", default=claimed, help="versions such as 3.12")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="test files to run")
    arguments = parser.parse_args()
    chosen: list[str] = arguments.pythons
    present = ".".join(platform.python_version_tuple()[:2])

    FOLDER.mkdir(exist_ok=True)
    sdist = build_sdist()
    wheels: dict[str, Path] = {}
    table: list[tuple[str, ...]] = [("python", "needs", *SHOWN, "outcome")]
    failures = []
    for environment in environments(chosen, present):
        name = environment.folder.name
        try:
            python = find_python(environment.python)
        except Failure as failure:
            # This is not the package's fault. The table shows that nothing was tested.
            print(f"{name}: {str(failure).splitlines()[0]}", flush=True)
            table.append((environment.python, environment.resolution, "", "", "", "no interpreter"))
            continue
        versions = dict.fromkeys(SHOWN, "")
        try:
            if environment.python not in wheels:
                folder = FOLDER / "wheels" / environment.python
                is_first = environment.python == claimed[0]
                wheels[environment.python] = build_wheel(python, sdist, folder, oldest=is_first)
            outcome = try_out(environment, python, wheels[environment.python], arguments.tests)
            versions = installed(environment)
            # Later Pythons may lack wheels for the lower bounds and use the oldest available ones.
            if environment == Environment(claimed[0], "oldest"):
                check_oldest(versions)
        except Failure as failure:
            failures.append(name)
            print(failure)
            outcome = str(failure).splitlines()[0]
        print(f"{name}: {outcome}", flush=True)
        table.append((environment.python, environment.resolution, *versions.values(), outcome))

    print_table(table)
    if failures:
        raise SystemExit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
