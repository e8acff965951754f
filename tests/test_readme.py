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


def test_the_example_prints_what_the_readme_says():
    (example, stated) = re.search(r"```python\n(.*?)```\n\nprints `(.*?)`", README, re.S).groups()
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
