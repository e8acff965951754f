"""The README's examples, run as they stand, print what the README says."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_the_example_prints_what_the_readme_says():
    (example, stated) = re.search(r"```python\n(.*?)```\n\nprints `(.*?)`", README, re.S).groups()
    assert run(example).stdout.strip() == stated


def test_all_examples_run_one_after_the_other():
    examples = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(examples) >= 2
    run("\n".join(examples))


def test_the_examples_of_the_page_about_saving_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "saving.md").read_text(encoding="utf-8")
    done = run("\n".join(re.findall(r"```python\n(.*?)```", page, re.S))).stdout.splitlines()
    assert done[0] == "True"
    assert 540_000 < int(done[1]) < 560_000
    assert f"{float(done[2]):.1f}" in page
    assert done[3].startswith("QuadratureFeatures.kernel.phi=<ufunc 'tanh'> cannot be saved: ")
