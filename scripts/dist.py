"""Build the source distribution and the wheel, and test the wheel in an empty environment.

The wheel is built from the source distribution without a package index. ``smoke.py`` tests it in an
environment that has nothing else installed. Both files are written to ``dist/``.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from build import ProjectBuilder

from environments import ROOT, SMOKE, Failure, interpreter_of, run

DIST = ROOT / "dist"
PACKAGE = "src/quadfeat/"

# Files of the source distribution outside of the package.
FILES = ("CHANGELOG.md", "CITATION.cff", "CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml")
NATIVE = "native/"


def create_environment(folder: Path) -> Path:
    """Create an environment with nothing but pip and return its interpreter."""
    venv.create(folder, with_pip=True)
    return interpreter_of(folder)


def pip(python: Path, *arguments: str | Path, step: str) -> None:
    """Run the pip of an environment."""
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, step=step)


def check_names(archive: Path, found: set[str], expected: set[str]) -> None:
    """Raise an error if an archive lacks files or has unexpected ones."""
    if missing := expected - found:
        raise Failure(f"{archive.name} lacks {sorted(missing)}: add them to sdist.include")
    if others := found - expected:
        raise Failure(f"{archive.name} contains {sorted(others)}, which git does not track there")


def build_sdist(tracked: set[str]) -> Path:
    """Build a source distribution and check that it has exactly the expected files."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, step="building the sdist")
    (sdist,) = DIST.glob("quadfeat-*.tar.gz")
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    expected = {name for name in tracked if name in FILES or name.startswith((PACKAGE, NATIVE))}
    check_names(sdist, found, expected | {"PKG-INFO"})
    return sdist


def build_wheel(sdist: Path, tracked: set[str], folder: Path) -> Path:
    """Build a wheel from the source distribution without a package index."""
    python = create_environment(folder)
    builder = ProjectBuilder(ROOT, python_executable=str(python))
    pip(python, "install", *builder.build_system_requires, step="installing build requirements")
    if tools := builder.get_requires_for_build("wheel"):  # CMake, if the machine has none
        pip(python, "install", *tools, step="installing build tools")
    pip(
        python,
        *("wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", DIST, sdist),
        step="building the wheel",
    )
    (wheel,) = DIST.glob("quadfeat-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    native = {
        name for name in names if name.startswith("quadfeat/engine/_native.") and name[-1] != "i"
    }
    if len(native) != 1:
        raise Failure(f"{wheel.name} must contain one native module, but it has {sorted(native)}")
    package = {name.removeprefix("src/") for name in tracked if name.startswith(PACKAGE)}
    check_names(wheel, names - native, package)
    return wheel


def main() -> None:
    """Build both files, test the wheel and print their paths and sizes."""
    for old in DIST.glob("quadfeat-*"):
        old.unlink()
    tracked = set(run("git", "ls-files", step="listing the files in git").splitlines())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist = build_sdist(tracked)
        wheel = build_wheel(sdist, tracked, folder / "build")
        python = create_environment(folder / "empty")
        pip(python, "install", "--no-compile", wheel, step="installing the wheel")
        print(run(python, SMOKE, step="smoke.py", cwd=folder), end="")
    for made in (sdist, wheel):
        print(f"{made.relative_to(ROOT)}  {made.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        raise SystemExit(f"dist: {failure}") from None
