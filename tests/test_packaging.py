"""Test that all files state the same metadata of the package."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
from fnmatch import fnmatch
from importlib.metadata import metadata
from pathlib import Path

import pytest

import quadfeat
from quadfeat.__main__ import NEEDED
from quadfeat.engine import core as _core

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CLAIMED = [
    classifier.rpartition(" ")[2]
    for classifier in PYPROJECT["project"]["classifiers"]
    if classifier.startswith("Programming Language :: Python :: 3.")
]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_all_files_state_the_same_version():
    version = PYPROJECT["project"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version)
    assert quadfeat.__version__ == version
    assert re.search(r"^version: (.*)$", read("CITATION.cff"), re.M).group(1) == version
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M).group(1) == version


def test_the_license_is_an_spdx_expression():
    assert metadata("quadfeat")["License-Expression"] == "BSD-3-Clause"
    assert "license: BSD-3-Clause\n" in read("CITATION.cff")


def test_the_same_python_versions_are_listed_built_and_tested():
    assert [f"3.{minor}" for minor in range(10, 10 + len(CLAIMED))] == CLAIMED
    assert PYPROJECT["project"]["requires-python"] == f">={CLAIMED[0]}"
    built = PYPROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{python.replace('.', '')}-*" for python in CLAIMED]
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", read(".github/workflows/ci.yml"), re.M)
    assert matrix.replace('"', "").split(", ") == CLAIMED


@pytest.mark.parametrize("python", ["cp313t", "cp314t", "cp315t"])
def test_no_wheels_are_built_for_free_threaded_python(python):
    options = PYPROJECT["tool"]["cibuildwheel"]
    for system in ("manylinux_x86_64", "manylinux_aarch64", "macosx_arm64", "win_amd64"):
        wheel = f"{python}-{system}"
        built = any(fnmatch(wheel, pattern) for pattern in options["build"])
        assert not built or any(fnmatch(wheel, pattern) for pattern in options["skip"])


def test_free_threading_is_claimed_nowhere():
    assert not any("Free Threading" in line for line in PYPROJECT["project"]["classifiers"])
    # With this option of nanobind, a module declares that it does not need the GIL.
    assert "FREE_THREADED" not in read("CMakeLists.txt")


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="Python has a GIL")
@pytest.mark.skipif(not _core.IS_NATIVE_BUILT, reason="built without the native core")
def test_importing_the_native_module_turns_the_gil_on():
    code = "import quadfeat, sys; print(sys._is_gil_enabled())"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHON_GIL"}
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert ran.stdout == "True\n"
    assert "quadfeat.engine._native" in ran.stderr  # Python's warning


def test_without_its_requirements_the_command_names_the_extra_to_install():
    code = "import sys; sys.modules['typer'] = None; from quadfeat.__main__ import main; main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.strip() == (
        "quadfeat: error: the command needs typer. Install with: pip install 'quadfeat[study]'"
    )


def test_the_command_names_all_missing_packages_at_once():
    code = (
        "import sys; sys.modules['typer'] = sys.modules['jinja2'] = None; "
        "from quadfeat.__main__ import main; main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the command needs typer, jinja2. Install with: pip install" in ran.stderr


def test_the_command_checks_all_packages_of_its_extra():
    extras = PYPROJECT["project"]["optional-dependencies"]
    lines = [*extras["study"], *extras["parquet"], *extras["plots"]]
    names = {line.partition(">")[0] for line in lines if not line.startswith("quadfeat[")}
    assert set(NEEDED) == names


def signatures(source):
    """Return the functions and methods of a stub, without the metadata of ``Annotated``."""

    class WithoutRemarks(ast.NodeTransformer):
        def visit_Subscript(self, node):
            self.generic_visit(node)
            if ast.unparse(node.value) in ("Annotated", "typing.Annotated"):
                return node.slice.elts[0]
            return node

    tree = WithoutRemarks().visit(ast.parse(source))
    found = {}
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for member in members:
            if isinstance(member, ast.FunctionDef):
                signature = f"({ast.unparse(member.args)}) -> {ast.unparse(member.returns)}"
                found[getattr(node, "name", ""), member.name] = signature
    return found


@pytest.mark.skipif(not _core.IS_NATIVE_BUILT, reason="built without the native core")
def test_the_stub_of_the_native_module_is_up_to_date():
    stubgen = pytest.importorskip("nanobind.stubgen")
    generator = stubgen.StubGen(_core._native)
    generator.put(_core._native)
    assert signatures(read("src/quadfeat/engine/_native.pyi")) == signatures(generator.get())
