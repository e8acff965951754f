"""Prepare a release, and check that it is ready.

``prepare`` writes the version and the repository's address to every file that states them.
``check`` lists what is still missing and exits with status 1 if there is anything. Neither of them
commits, tags or uploads.

    python scripts/release.py prepare 0.1.0 --repository https://github.com/OWNER/quadfeat
    python scripts/release.py check
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import badges
from badges import project

ROOT = Path(__file__).parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
ADDRESS = re.compile(r"https://[\w.-]+(/[\w.-]+)+")

# Links of the project, relative to the address of its repository.
LINKS = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}


def read(name: str) -> str:
    """Return the text of a file of the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def write(name: str, text: str) -> None:
    """Write a file of the project."""
    (ROOT / name).write_text(text, encoding="utf-8")


def replaced(pattern: str, replacement: str, text: str) -> str:
    """Return a text in which exactly one match of a pattern is replaced."""
    text, count = re.subn(pattern, lambda _: replacement, text, count=2, flags=re.M)
    if count != 1:
        raise SystemExit(f"{count} matches of {pattern!r} instead of one")
    return text


def conda_recipe() -> str:
    """Return the recipe for conda-forge, in the format of rattler-build."""
    about = project()
    repository = about.get("urls", {}).get("Repository", "REPOSITORY")
    requirements = [requirement.replace(">=", " >=") for requirement in about["dependencies"]]
    run = "\n".join(f"    - {requirement}" for requirement in requirements)
    return f"""\
# Written by scripts/release.py. The checksum is that of the sdist on PyPI.
schema_version: 1

context:
  version: {about["version"]}

package:
  name: quadfeat
  version: ${{{{ version }}}}

source:
  url: https://pypi.org/packages/source/q/quadfeat/quadfeat-${{{{ version }}}}.tar.gz
  sha256: SHA256

build:
  number: 0
  script: ${{{{ PYTHON }}}} -m pip install . --no-deps --no-build-isolation -vv

requirements:
  build:
    - ${{{{ compiler("cxx") }}}}
    - ${{{{ stdlib("c") }}}}
    - cmake
    - ninja
  host:
    - python
    - pip
    - scikit-build-core >=0.11
    - nanobind >=2.2
  run:
    - python
{run}

tests:
  - python:
      imports:
        - quadfeat
      pip_check: true

about:
  homepage: {repository}
  license: {about["license"]}
  license_file: LICENSE
  summary: {about["description"]}
"""


def prepare(version: str, repository: str | None) -> None:
    """Write the version, and the address of the repository, to all files that state them."""
    if not VERSION.fullmatch(version):
        raise SystemExit(f"{version!r} is not a version such as 0.2.0 or 0.2.0rc1")
    text = replaced(r'^version = ".*"$', f'version = "{version}"', read("pyproject.toml"))
    if repository is not None:
        if not ADDRESS.fullmatch(repository):
            raise SystemExit(f"{repository!r} is not an address such as https://github.com/a/b")
        text = _with_urls(text, repository)
        write("README.md", with_absolute_links(read("README.md"), repository))
    write("pyproject.toml", text)
    write("CITATION.cff", replaced(r"^version: .*$", f"version: {version}", read("CITATION.cff")))
    heading = f"## {version} ({date.today().isoformat()})"
    write("CHANGELOG.md", replaced(r"^## .* \(unreleased\)$", heading, read("CHANGELOG.md")))
    write("conda/recipe.yaml", conda_recipe())
    badges.main()


def _with_urls(text: str, repository: str) -> str:
    lines = [f'{name} = "{repository}{path}"' for name, path in LINKS.items()]
    table = "[project.urls]\n" + "\n".join(lines) + "\n"
    if "[project.urls]" in text:
        return replaced(r"^\[project\.urls\]\n(?:(?!\[).*\n)*", table + "\n", text)
    return replaced(r"^\[project\.scripts\]$", f"{table}\n[project.scripts]", text)


def with_absolute_links(text: str, repository: str) -> str:
    """Return a page whose relative links and images are absolute, since PyPI has no files."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/") + "/main/"
    blob = repository + "/blob/main/"
    text = re.sub(r'(src|srcset)="(?!https?:)', rf'\1="{raw}', text)
    text = re.sub(r'href="(?!https?:|#)', f'href="{blob}', text)
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:|#)", rf"\1{raw}", text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)", rf"\1{blob}", text)


def missing() -> Iterator[str]:
    """Yield what keeps the project from being released."""
    about = project()
    version = about["version"]
    if "urls" not in about:
        yield "pyproject.toml has no [project.urls]: run prepare with --repository"
    if f"version: {version}\n" not in read("CITATION.cff"):
        yield f"the version in CITATION.cff is not {version}"
    if not re.search(
        rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", read("CHANGELOG.md"), re.M
    ):
        yield f"CHANGELOG.md has no section for {version} with a date"
    if read("conda/recipe.yaml") != conda_recipe():
        yield "conda/recipe.yaml differs from pyproject.toml: run prepare"
    for name, svg in badges.badges().items():
        if read(f"docs/_static/{name}") != svg:
            yield f"docs/_static/{name} is out of date: run prepare"
    if _git("status", "--porcelain"):
        yield "there are uncommitted changes"
    if f"v{version}" in _git("tag", "--list").split():
        yield f"the tag v{version} exists"


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="write the version to all files")
    preparing.add_argument("version")
    preparing.add_argument("--repository", help="address of the repository, once")
    commands.add_parser("check", help="list what is missing")
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.version, options.repository)
        return
    problems = list(missing())
    for problem in problems:
        print(f"- {problem}")
    if problems:
        raise SystemExit(1)
    version = project()["version"]
    print("Ready. Run .ci/run and make compat, then tag and push:")
    print(f"    git tag v{version} && git push origin v{version}")


if __name__ == "__main__":
    main()
