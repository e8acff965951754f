"""The recipes: all are listed and have code with its output. MNIST runs on a smaller dataset."""

import csv
import re
from pathlib import Path

import pytest
import sklearn.datasets

DOCS = Path(__file__).parents[1] / "docs"
INDEX = (DOCS / "recipes" / "index.md").read_text(encoding="utf-8")
RECIPES = {
    page.stem: page.read_text(encoding="utf-8")
    for page in sorted((DOCS / "recipes").glob("*.md"))
    if page.stem != "index"
}
MNIST = re.search(
    r"```\{code-block\} python\n(.*?)```\n\n```text\n(.*?)```", RECIPES["mnist"], re.S
)


def small_mnist(name, **_):
    """Return scikit-learn's digits with pixels from 0 to 255 and labels as strings."""
    assert name == "mnist_784"
    X, y = sklearn.datasets.load_digits(return_X_y=True)
    return X * (255 / 16), y.astype(str)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_listed_and_has_code_output_and_words_to_search_for(name):
    assert f"]({name}.md)" in INDEX
    assert f"\n{name}\n" in INDEX
    for part in ("python\n", "```text\n", "```{index} ", "**Why.**", "**When not.**"):
        assert part in RECIPES[name]


def test_mnist_runs_on_fewer_rows(monkeypatch, capsys):
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", small_mnist)
    exec(MNIST[1].replace("60_000", "1_000"), {})
    accuracy = capsys.readouterr().out.removeprefix("accuracy: ")
    assert float(accuracy) > 0.9


def test_mnist_has_the_accuracy_that_was_measured():
    with (DOCS / "measured" / "recipes-mnist.csv").open(encoding="utf-8") as file:
        measured = [row["accuracy"] for row in csv.DictReader(file) if row["features"] == "20,480"]
    assert [MNIST[2].removeprefix("accuracy: ").strip()] == measured
