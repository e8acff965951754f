"""Test the structure of the code: sizes, ``isinstance`` checks, and private names across folders.

``make contract`` checks which folder may import from which.
"""

import ast
import inspect
from functools import cache
from pathlib import Path

import pytest

import quadfeat

PACKAGE = Path(quadfeat.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
LARGEST_CLASS = 350
LARGEST_FILE = 500
MOST_METHODS = 20

# Only the engine, the modules that read files, and the helpers that validate arguments may use
# isinstance with quadfeat's own classes.
MAY_TELL_CLASSES_APART = ("engine", "io", "_utils")


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def own_classes():
    """Return the names of all classes in the package."""
    nodes = (node for path in SOURCES for node in ast.walk(parsed(path)))
    return {node.name for node in nodes if isinstance(node, ast.ClassDef)}


def folder_of(path):
    return path.relative_to(PACKAGE).parts[0]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_and_classes_stay_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LARGEST_FILE
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            lines = node.end_lineno - node.lineno + 1
            assert lines <= LARGEST_CLASS, f"{node.name} has {lines} lines"


@pytest.mark.parametrize(
    "name", [name for name in quadfeat.__all__ if inspect.isclass(getattr(quadfeat, name))]
)
def test_estimators_have_few_methods(name):
    # Count the methods and properties that a class defines, except for parameters and pickling.
    kinds = (property, staticmethod, classmethod)
    for kind in getattr(quadfeat, name).__mro__:
        if kind.__module__.startswith("quadfeat"):
            methods = [
                method
                for method, value in vars(kind).items()
                if (callable(value) or isinstance(value, kinds)) and not method.startswith("__")
            ]
            assert len(methods) <= MOST_METHODS, f"{kind.__name__} has {methods}"


# Methods that users call. The others are for files: see ``quadfeat.io.register``.
METHODS = {"fit", "partial_fit", "merge", "predict", "predict_interval", "predict_proba"}
METHODS |= {"predict_log_proba", "decision_function", "sample_y", "score", "plot"}
METHODS |= {"set_params", "check_consistency", "migrate", "path_parameters"}


@pytest.mark.parametrize(
    "name", [name for name in quadfeat.__all__ if hasattr(getattr(quadfeat, name), "predict")]
)
def test_help_of_a_model_shows_no_hooks(name):
    model = getattr(quadfeat, name)
    public = {
        method
        for kind in model.__mro__
        if kind.__module__.startswith("quadfeat")
        for method, value in vars(kind).items()
        if callable(value) and not method.startswith("_")
    }
    assert public <= METHODS


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_isinstance_checks_of_own_classes(path):
    if folder_of(path) in MAY_TELL_CLASSES_APART:
        return
    own = own_classes()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "type"):
            asked = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node)}
            assert not asked & own, f"line {node.lineno} asks for {asked & own}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_private_names_stay_in_their_folder(path):
    for node in ast.walk(parsed(path)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("quadfeat."):
            continue
        folder, *modules = node.module.split(".")[1:]
        if folder == folder_of(path):
            continue
        for name in (*modules, *(alias.name for alias in node.names)):
            private = name.startswith("_") and not name.startswith("__")
            assert not private, f"line {node.lineno} imports {name} of {folder}"
