"""Test that the README's examples print the stated output and its numbers were measured."""

import csv
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from interpreters import run_code

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = ROOT / "docs" / "measured"

BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)

# A block of Python and the output stated in the text that follows.
PRINTS = re.compile(r"```python\n((?:(?!```).)*)```\n\nprints `(.*?)`", re.S)


def run(code, folder):
    ran = run_code(code, folder)
    assert ran.returncode == 0, ran.stderr
    return ran


def measured(name):
    with (MEASURED / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_examples_print_what_the_readme_says(tmp_path):
    found = PRINTS.findall(README)
    assert len(found) == 2
    for example, stated in found:
        assert run(example, tmp_path).stdout.strip() == stated


def test_the_parquet_example_runs_on_a_folder(tmp_path):
    pandas = pytest.importorskip("pandas")
    (example,) = (block for block in BLOCKS if "ParquetBlocks" in block)
    rng = np.random.default_rng(0)
    (tmp_path / "folder").mkdir()
    for part in range(2):
        rows = pandas.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"])
        rows["y"] = np.sin(rows["a"])
        rows.to_parquet(tmp_path / "folder" / f"{part}.parquet")
    run(example, tmp_path)


def test_the_readme_is_short():
    assert len(README.splitlines()) < 130


def test_speeds_are_measured():
    rows = measured("transform-gaussian")
    for dtype, stated in (
        ("float32", r"\*\*(\d+) to (\d+)\*\*"),
        ("float64", r"(\d+) to (\d+) times"),
    ):
        ratios = [float(row["RBFSampler / quadfeat"]) for row in rows if row["dtype"] == dtype]
        found = re.search(
            stated + (r" times as fast" if dtype == "float32" else " in float64"), README
        )
        assert tuple(map(int, found.groups())) == (round(min(ratios)), round(max(ratios)))


def test_scores_are_measured():
    scores = {row[""]: row for row in measured("accuracy-regression")}
    tables = ("kin40k", "california", "protein")
    for contestant, form in (
        ("KernelRegressor / KernelClassifier", "`KernelRegressor` **{}**"),
        ("LightGBM", "LightGBM: {}."),
    ):
        numbers = ", ".join(f"{float(scores[contestant][table]):.3f}" for table in tables)
        assert form.format(numbers) in README
    rows = [row for row in measured("accuracy-classes") if row["adult"]]
    adult = {row[""]: f"{float(row['adult']):.3f}" for row in rows}
    ours = adult["KernelRegressor / KernelClassifier"]
    assert f"accuracy of {adult['LightGBM']} on adult, `KernelClassifier` {ours}" in README


def test_memory_is_measured():
    largest = measured("recipes-parquet")[-1]
    assert f"{largest['rows']} rows took {largest['memory, MB']} MB" in " ".join(README.split())


def test_coverage_is_measured():
    covered = [
        float(row["coverage, all"])
        for row in measured("accuracy-intervals")
        if row["contestant"] == "KernelRegressor / KernelClassifier"
    ]
    low, high = (round(100 * end(covered)) for end in (min, max))
    assert f"90% intervals that cover {low} to {high}%" in README


def test_badges_agree_with_the_project():
    spec = importlib.util.spec_from_file_location("badges", ROOT / "scripts" / "badges.py")
    badges = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(badges)
    for name, svg in badges.badges().items():
        assert (ROOT / "docs" / "_static" / name).read_text(encoding="utf-8") == svg
        assert f"docs/_static/{name}" in README
