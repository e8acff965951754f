"""Try the package with the oldest and the newest of what it claims to work with.

For every version of Python that the package names there is an environment with the newest of its
requirements, and for the first of them, and for the one that runs this, another with the oldest.
Each gets a wheel of the checkout with all that tests need, ``smoke.py`` and a part of the tests.
Environments are made by uv in ``.venv-compat``, which may fetch interpreters that are not here.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path

from build import ProjectBuilder
from packaging.requirements import Requirement

from environments import ROOT, SMOKE, Failure, interpreter_of, run

FOLDER = ROOT / ".venv-compat"

# scikit-learn's checks, native against plain arithmetic, maps and models.
TESTS = ("test_scikit_learn.py", "test_native.py", "test_features.py", "test_ridge.py")

# Whose versions are told.
SHOWN = ("numpy", "scipy", "scikit-learn")

CLAIM = "Programming Language :: Python :: "


@dataclass(frozen=True)
class Environment:
    """A version of Python, and which of the package's requirements to take."""

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
    """Return the versions of Python that the package's metadata names, the oldest first."""
    named = [text.removeprefix(CLAIM) for text in metadata("quadfeat").get_all("Classifier") or []]
    minors = [int(text[2:]) for text in named if text.startswith("3.")]
    return [f"3.{minor}" for minor in sorted(minors)]


def is_python(path: Path | str, version: str) -> bool:
    """Return whether an interpreter runs and is of this version, which a pyenv shim may not."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    ran = subprocess.run([path, "-c", code], capture_output=True, text=True)
    return ran.returncode == 0 and ran.stdout.strip() == version


def find_python(version: str) -> str:
    """Return an interpreter of this version: on the path, of pyenv, or one that uv fetches."""
    if is_python(sys.executable, version):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
    for candidate in candidates:
        if candidate is not None and is_python(candidate, version):
            return str(candidate)
    uv("python", "install", version, step=f"no interpreter here, and fetching Python {version}")
    return uv("python", "find", "--managed-python", version, step="finding it").strip()


def oldest_build_requirements() -> list[str]:
    """Return the lower bounds of what builds the package, as pins."""
    requirements = map(Requirement, sorted(ProjectBuilder(ROOT).build_system_requires))
    return [f"{item.name}=={next(iter(item.specifier)).version}" for item in requirements]


def build_wheel(python: str, sdist: Path, *, oldest: bool) -> Path:
    """Return a wheel for an interpreter, if need be built by the oldest tools that are claimed."""
    folder = FOLDER / "wheels" / Path(python).as_posix().strip("/").replace("/", "-")
    constraints = FOLDER / "build-constraints.txt"
    constraints.write_text("\n".join(oldest_build_requirements() if oldest else []))
    uv(
        *("build", "--wheel", "--python", python, "--build-constraints", constraints),
        *("--out-dir", folder, sdist),
        step="building a wheel",
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def try_out(environment: Environment, python: str, wheel: Path) -> str:
    """Install a wheel with what its tests need, run them, and return what came of it."""
    uv("venv", "--clear", "--python", python, environment.folder, step="making an environment")
    resolution = {"oldest": "lowest-direct", "newest": "highest"}[environment.resolution]
    uv(
        *("pip", "install", "--python", environment.interpreter, "--only-binary", ":all:"),
        *("--resolution", resolution, f"quadfeat[test] @ {wheel.as_uri()}"),
        step="installing",
    )
    run(environment.interpreter, SMOKE, step="smoke.py", cwd=environment.folder)
    printed = run(
        *(environment.interpreter, "-m", "pytest", "-q", "--numprocesses", "auto"),
        *("-p", "no:cacheprovider"),
        *(Path("tests", name) for name in TESTS),
        step="tests",
    )
    return printed.strip().splitlines()[-1].strip("= ")


def installed(environment: Environment) -> list[str]:
    """Return the versions of what is shown."""
    code = f"from importlib.metadata import version; print(*map(version, {SHOWN!r}))"
    return run(environment.interpreter, "-c", code, step="asking versions").split()


def build_sdist() -> Path:
    """Return a source distribution of the checkout."""
    shutil.rmtree(FOLDER / "wheels", ignore_errors=True)
    uv("build", "--sdist", "--out-dir", FOLDER / "wheels", ROOT, step="building the sdist")
    (sdist,) = (FOLDER / "wheels").glob("*.tar.gz")
    return sdist


def environments(pythons: list[str], present: str) -> list[Environment]:
    """Return what to try, the oldest first."""
    oldest = dict.fromkeys([pythons[0], present])
    return [
        *(Environment(python, "oldest") for python in oldest),
        *(Environment(python, "newest") for python in sorted({*pythons, present}, key=minor_of)),
    ]


def minor_of(python: str) -> int:
    """Return 10 for 3.10."""
    return int(python.partition(".")[2])


def main() -> None:
    """Try all environments and print a table; fail unless the present Python passes, and others."""
    claimed = claimed_pythons()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", nargs="*", default=claimed, help="versions to try, as in 3.12")
    chosen: list[str] = parser.parse_args().pythons
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
            # Not a fault of the package; the table says that nothing was learnt.
            print(f"{name}: {str(failure).splitlines()[0]}", flush=True)
            table.append((environment.python, environment.resolution, "", "", "", "no interpreter"))
            continue
        versions = [""] * len(SHOWN)
        try:
            if python not in wheels:
                oldest = environment.resolution == "oldest"
                wheels[python] = build_wheel(python, sdist, oldest=oldest)
            outcome = try_out(environment, python, wheels[python])
            versions = installed(environment)
        except Failure as failure:
            failures.append(name)
            print(failure)
            outcome = str(failure).splitlines()[0]
        print(f"{name}: {outcome}", flush=True)
        table.append((environment.python, environment.resolution, *versions, outcome))

    print()
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))
    if failures:
        raise SystemExit(f"failed: {', '.join(failures)}")


if __name__ == "__main__":
    main()
