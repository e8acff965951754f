"""Test the release script on a copy of the project."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = ["pyproject.toml", "CITATION.cff", "CHANGELOG.md", "README.md", "LICENSE"]
REPOSITORY = "https://github.com/someone/quadfeat"


@pytest.fixture
def copy(tmp_path):
    """Return a Git repository with copies of the files that a release changes."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    for folder in ("scripts", "conda", "docs/_static"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    changelog = tmp_path / "CHANGELOG.md"
    text = re.sub(
        r"^## .*", "## 9.8.7 (unreleased)", changelog.read_text("utf-8"), count=1, flags=re.M
    )
    changelog.write_text(text, "utf-8")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *identity, *arguments], check=True, cwd=folder, capture_output=True)


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")


def release(folder, *arguments):
    command = [sys.executable, "-B", "scripts/release.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def test_an_unprepared_project_is_not_ready(copy):
    found = release(copy, "check")
    assert found.returncode == 1
    assert "[project.urls]" in found.stdout
    assert "with a date" in found.stdout


def test_a_prepared_project_is_ready(copy):
    assert release(copy, "prepare", "9.8.7", "--repository", REPOSITORY).returncode == 0
    assert "uncommitted" in release(copy, "check").stdout
    commit(copy)
    found = release(copy, "check")
    assert found.returncode == 0, found.stdout
    assert "git tag v9.8.7" in found.stdout
    pyproject = (copy / "pyproject.toml").read_text("utf-8")
    assert f'Issues = "{REPOSITORY}/issues"' in pyproject
    assert "9.8.7" in (copy / "docs/_static/badge-version.svg").read_text("utf-8")
    recipe = (copy / "conda/recipe.yaml").read_text("utf-8")
    assert "version: 9.8.7\n" in recipe
    assert f"homepage: {REPOSITORY}\n" in recipe


def test_links_of_the_readme_become_absolute_once(copy):
    release(copy, "prepare", "9.8.7", "--repository", REPOSITORY)
    text = (copy / "README.md").read_text("utf-8")
    links = re.findall(r'(?:\]\(|src(?:set)?="|href=")([^)"]+)', text)
    assert len(links) > 10
    assert all(link.startswith("https://") for link in links)
    git(copy, "tag", "v9.8.7")
    (copy / "CHANGELOG.md").write_text("# Changelog\n\n## 9.9.0 (unreleased)\n", "utf-8")
    release(copy, "prepare", "9.9.0", "--repository", REPOSITORY)
    assert (copy / "README.md").read_text("utf-8") == text
    assert (copy / "pyproject.toml").read_text("utf-8").count("[project.urls]") == 1


def test_a_tag_that_exists_is_reported(copy):
    release(copy, "prepare", "9.8.7", "--repository", REPOSITORY)
    commit(copy)
    git(copy, "tag", "v9.8.7")
    assert "the tag v9.8.7 exists" in release(copy, "check").stdout


@pytest.mark.parametrize("arguments", [["1.2"], ["9.8.7", "--repository", "example"]])
def test_wrong_arguments_change_nothing(copy, arguments):
    found = release(copy, "prepare", *arguments)
    assert found.returncode == 1
    assert "is not" in found.stderr
    assert release(copy, "check").stdout.count("uncommitted") == 0


def test_the_conda_recipe_agrees_with_the_project():
    command = [sys.executable, "-B", "-c", "import release; print(release.conda_recipe(), end='')"]
    expected = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT / "scripts"
    ).stdout
    assert (ROOT / "conda" / "recipe.yaml").read_text("utf-8") == expected
