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
