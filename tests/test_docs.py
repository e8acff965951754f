"""Test that the documentation's code runs, prints the stated output, and covers public names."""

import re
from pathlib import Path

import pytest

import quadfeat
from interpreters import run_code
from quadfeat import bounds, kernels, rotations, rules

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("recipes/*.md")])
TEXTS = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}

# A block of Python, and the block of its output if one follows.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.S | re.M)
BETWEEN = "\x1e"

# What users of other libraries type into the search.
SEARCHED = (
    "svm",
    "gaussian process",
    "nystrom",
    "random fourier features",
    "uncertainty",
    "partial_fit",
    "out of core",
    "kriging",
)

# The percent sign follows its number without a space. The number may be a field of a template.
SPACED_PERCENT = re.compile(r"(?<=[\d}`])[ \u00a0\u2009\u202f]%(?![\w(=}%{])")
WRITTEN = ("src", "docs", "examples", "benchmarks", "scripts", "native", "conda")
KINDS = {".py", ".md", ".html", ".csv", ".ipynb", ".yaml", ".hpp", ".cpp", ".svg"}


# Its only example is the first one of the README, which tests/test_readme.py runs.
LANDING_PAGE = "index.md"


@pytest.mark.parametrize(
    "page",
    [name for name, text in TEXTS.items() if BLOCK.search(text) and name != LANDING_PAGE],
)
def test_code_of_a_page_prints_what_the_page_says(page, tmp_path):
    blocks = BLOCK.findall(TEXTS[page])
    script = f"\nprint({BETWEEN!r})\n".join(code for code, _ in blocks)
    ran = run_code(script, tmp_path)
    assert ran.returncode == 0, ran.stderr
    for printed, (code, stated) in zip(ran.stdout.split(f"{BETWEEN}\n"), blocks, strict=True):
        if stated:
            assert printed.strip() == stated.strip(), code


def test_the_landing_page_has_the_first_example_of_the_readme():
    ((code, stated),) = BLOCK.findall(TEXTS[LANDING_PAGE])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)\n\nsave\(.*?```\n\nprints `(.*?)`", readme, re.S)
    assert code.strip() == example[1].replace(", load, save", "")
    assert stated.strip() == example[2]


@pytest.mark.parametrize("words", SEARCHED)
def test_a_search_finds_a_page(words):
    # The search of the built pages knows the text and the index entries of each page.
    pattern = re.compile(rf"\b{re.escape(words)}\b", re.I)
    assert any(pattern.search(text) for text in TEXTS.values())


def test_no_page_has_the_marks_of_a_failed_merge():
    for page in [*PAGES, *ROOT.glob("*.md")]:
        assert not re.search(r"^(<{7}|>{7}) ", page.read_text(encoding="utf-8"), re.M), page


def test_some_pages_have_code_and_output():
    found = {name: BLOCK.findall(text) for name, text in TEXTS.items()}
    assert {"start.md", "learning.md", "migrating.md", "extending.md"} <= {
        name for name, blocks in found.items() if blocks
    }
    assert any(stated for _, stated in found["start.md"])


def test_the_reference_has_every_public_name():
    reference = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    modules = {quadfeat: quadfeat.__all__}
    modules |= {module: module.__all__ for module in (bounds, kernels, rotations, rules)}
    for module, names in modules.items():
        for name in names:
            listed = re.search(rf"^   {name}$|automodule:: quadfeat\.{name}$", reference, re.M)
            assert listed, f"{module.__name__}.{name} is not in docs/api"


def written_files():
    """Yield the files whose words users read, and the scripts that write them."""
    made = {DOCS / "gallery", DOCS / "api" / "generated", DOCS / "api" / "examples"}
    yield ROOT / "README.md"
    for folder in WRITTEN:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in KINDS and not made & set(path.parents):
                yield path


def test_percent_signs_follow_their_numbers():
    spaced = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in written_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if SPACED_PERCENT.search(line)
    ]
    assert spaced == []


@pytest.mark.parametrize("line", ["95 % of", "{share:.0f} %", "`tol` %.", "{{ tie }} % or"])
def test_a_space_before_a_percent_sign_is_found(line):
    assert SPACED_PERCENT.search(line)


@pytest.mark.parametrize("line", ["95% of", "k % 2", "{% else %}", "number, %", "'%s' % (a,)"])
def test_other_percent_signs_are_accepted(line):
    assert not SPACED_PERCENT.search(line)
