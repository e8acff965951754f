"""The README's examples, run as they stand, print what the README says."""

import csv
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


# A block of Python, and the output that the text behind it states.
PRINTS = re.compile(r"```python\n((?:(?!```).)*)```\n\nprints `(.*?)`", re.S)


def test_examples_print_what_the_readme_says():
    found = PRINTS.findall(README)
    assert len(found) >= 2
    for example, stated in found:
        assert run(example).stdout.strip() == stated


def test_all_examples_run_one_after_the_other():
    examples = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(examples) >= 2
    run("\n".join(examples))


def test_the_times_are_those_that_make_bench_wrote():
    measured = ROOT / "docs" / "measured"
    with (measured / "transform-gaussian.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for dtype in ("float32", "float64"):
        ratios = [row["RBFSampler / quadfeat"] for row in rows if row["dtype"] == dtype]
        assert f"| {dtype} | {' | '.join(ratios)} |" in README
    exponent = (measured / "transform-growth.csv").read_text(encoding="utf-8").split(",")[-1]
    assert f"`d^{exponent.strip()}`" in README
