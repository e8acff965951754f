"""The parts of reports: whatever data holds is text on a page, never HTML."""

import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs quadfeat[study]")

from matplotlib.figure import Figure

from browser import pages
from quadfeat.apps.reporting import page
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.study import report
from quadfeat.apps.study.experiments import Cell
from quadfeat.apps.study.runner import Outcome

HOSTILE = [
    "<script>document.title = 'owned'</script>",
    "'><img src=x onerror='document.title = \"owned\"'>",
    '"><svg onload="document.title = `owned`">',
    "</style></title><b>bold</b>",
    "{{ 7 * 7 }} {% raw %} &lt;b&gt;",
]
ABOUT = {"command": f"quadfeat study {HOSTILE[0]}", HOSTILE[1]: HOSTILE[2]}


class Seen(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.words.append(data)


def draw(table, theme):
    return Figure(figsize=(4, 3))


def hostile_page():
    """A page with hostile text in every place that takes text."""
    rows = pd.DataFrame({"method": HOSTILE[0], "d": [256, 512], "seconds": 1.0, "bytes": 1.0})
    picture = Picture("walltime", HOSTILE[1], HOSTILE[2], draw, rows)
    cell = Cell(HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3], 1)
    outcomes = [Outcome(cell, failed=HOSTILE[4]), Outcome(cell, skipped=HOSTILE[0])]
    return report.build(outcomes, [picture], ABOUT)


class TestTable:
    def test_numbers_are_rounded_to_read_and_whole_to_sort_by(self):
        frame = pd.DataFrame({"a": [1 / 3, np.nan], "b": [10**6, 2], "c": ["x", True]})
        rows = page.table(frame, {"a": ".1f"}).rows
        assert [cell.text for cell in rows[0]] == ["0.3", "1000000", "x"]
        assert [cell.number for cell in rows[0]] == [repr(1 / 3), "1000000", None]
        assert [cell.text for cell in rows[1]] == ["", "2", "True"]
        assert rows[1][0].number == "nan"

    def test_a_numpy_scalar_is_a_number_for_the_browser(self):
        frame = pd.DataFrame({"a": np.array([np.float64(0.5), np.float32(2)], dtype=object)})
        assert [row[0].number for row in page.table(frame).rows] == ["0.5", "2.0"]


class TestPage:
    def test_data_cannot_become_html(self):
        text = hostile_page()
        seen = Seen(text)
        assert seen.tags.count("script") == 1  # our own
        assert seen.tags.count("img") == 1  # the figure
        assert "svg" not in seen.tags
        assert not {"onerror", "onload"} & seen.attributes
        for hostile in HOSTILE:
            assert hostile in "\n".join(seen.words)

    def test_a_table_cannot_put_html_into_its_comparison(self, tmp_path):
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.standard_normal((90, 3)), columns=HOSTILE[:3])
        table["kind"] = rng.choice(HOSTILE[:2], 90)
        table[HOSTILE[3]] = np.where(table[HOSTILE[0]] > 0, HOSTILE[0], HOSTILE[4])
        table.to_csv(tmp_path / "<b>.csv", index=False)
        arguments = ["<b>.csv", "--target", HOSTILE[3], "--out", "out"]
        arguments += ["--max-components", "16", "--folds", "2", "--jobs", "1"]
        done = subprocess.run(
            [sys.executable, "-m", "quadfeat", "compare", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen = Seen((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
        assert seen.tags.count("script") == seen.tags.count("img") == 1
        assert not {"svg", "onerror", "onload"} & {*seen.tags, *seen.attributes}
        for name in table.columns:
            assert name in "\n".join(seen.words)
        for opened in pages(tmp_path / "out" / "report.html"):
            assert opened.title() == "quadfeat: <b>.csv"

    def test_data_does_not_run_in_a_browser(self, tmp_path):
        path = tmp_path / "report.html"
        path.write_text(hostile_page(), encoding="utf-8")
        for opened in pages(path):
            assert opened.title() == "quadfeat: the study"

    def test_a_name_that_a_template_lacks_is_an_error(self):
        from jinja2 import UndefinedError

        with pytest.raises(UndefinedError):
            page.render("quadfeat.apps.study", about={})

    def test_the_same_figure_gives_the_same_bytes(self):
        frame = pd.DataFrame({"a": [1.0]})

        def plot(table, theme):
            figure = Figure()
            figure.subplots().plot([1, 2, 3])
            return figure

        one, two = (Picture("a", "", "", plot, frame).data_uri("light") for _ in range(2))
        assert one == two
