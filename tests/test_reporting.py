"""Test the parts of reports: data appears on a page as text, never as HTML."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer", reason="needs quadfeat[study]")

from matplotlib.figure import Figure

from browser import pages
from quadfeat.apps.reporting import colors, drawing, page, terminal
from quadfeat.apps.reporting.drawing import Picture
from quadfeat.apps.reporting.errors import CommandError, check_names
from quadfeat.apps.study import report
from quadfeat.apps.study.experiments import Cell
from quadfeat.apps.study.findings import Findings
from quadfeat.apps.study.runner import Outcome
from tables import command

TEMPLATES = Path(page.__file__).parent / "templates"
VARIABLE = re.compile(r"--(\w+): (#\w{6})")

HOSTILE = [
    "<script>document.title = 'owned'</script>",
    "'><img src=x onerror='document.title = \"owned\"'>",
    '"><svg onload="document.title = `owned`">',
    "</style></title><b>bold</b>",
    "{{ 7 * 7 }} {% raw %} &lt;b&gt;",
]
ABOUT = {"command": f"quadfeat study {HOSTILE[0]}", HOSTILE[1]: HOSTILE[2]}


class Seen(HTMLParser):
    """Collect the elements and the text of a page."""

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


def _values(root):
    """Return the light and the dark value of each variable of an inline figure."""
    light, dark = root.find("style").text.split("@media")
    return list(zip(*(re.findall(r"--c\d+:(#\w+)", part) for part in (light, dark)), strict=True))


def draw_line(table, theme):
    figure = Figure(figsize=(4, 3))
    figure.subplots().plot([1, 2, 3])
    return figure


def hostile_page():
    """Return a page with hostile text in every field."""
    rows = pd.DataFrame({"method": HOSTILE[0], "d": [256, 512], "seconds": 1.0, "bytes": 1.0})
    picture = Picture("walltime", HOSTILE[1], HOSTILE[2], draw, rows)
    cell = Cell(HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3], 1)
    outcomes = [Outcome(cell, failed=HOSTILE[4]), Outcome(cell, skipped=HOSTILE[0])]
    return report.build(Findings(outcomes, times=rows), [picture], ABOUT)


class TestTable:
    def test_numbers_are_rounded_for_display_but_not_for_sorting(self):
        frame = pd.DataFrame({"a": [1 / 3, np.nan], "b": [10**6, 2], "c": ["x", True]})
        rows = page.table(frame, {"a": ".1f"}).rows
        assert [cell.text for cell in rows[0]] == ["0.3", "1000000", "x"]
        assert [cell.number for cell in rows[0]] == [repr(1 / 3), "1000000", None]
        assert [cell.text for cell in rows[1]] == [page.MISSING, "2", "True"]
        assert rows[1][0].number == "nan"

    def test_a_numpy_scalar_is_a_number_for_the_browser(self):
        frame = pd.DataFrame({"a": np.array([np.float64(0.5), np.float32(2)], dtype=object)})
        assert [row[0].number for row in page.table(frame).rows] == ["0.5", "2.0"]

    def test_columns_of_numbers_are_marked(self):
        frame = pd.DataFrame({"a": [0.5, np.nan], "n": pd.array([1, None], dtype="Int64")})
        shown = page.table(frame.assign(name=["x", 2]))
        assert shown.numeric == [True, True, False]
        assert [cell.text for cell in shown.rows[1]] == [page.MISSING, page.MISSING, "2"]

    def test_numbers_have_the_same_number_of_digits(self):
        frame = pd.DataFrame({"a": [0.2, 0.0465, 100.0, 1 / 3]})
        texts = [row[0].text for row in page.table(frame).rows]
        assert texts == ["0.200", "0.0465", "100", "0.333"]

    def test_a_name_with_an_explanation(self):
        name = page.Term("Method", "What it does.", "method")
        (cell,) = page.table(pd.DataFrame({"method": [name]})).rows[0]
        assert (cell.text, cell.term) == ("Method", name)

    def test_in_a_terminal_heads_align_with_their_numbers(self, capsys):
        frame = pd.DataFrame({"name": ["a", "b"], "number": [1.0, np.nan]})
        terminal.print_table("", frame, {"number": ".2f"}, terminal.Console(width=40))
        head, _, first, second = (line.rstrip() for line in capsys.readouterr().out.splitlines())
        assert len(head) == len(first) == len(second)
        assert first.endswith("1.00")
        assert second.endswith("-")


class TestColors:
    def test_text_can_be_read(self):
        for theme in ("light", "dark"):
            assert colors.contrast(colors.INK[theme], colors.PAGE.on(theme)) >= 7

    def test_the_page_has_readable_colors_in_both_schemes(self):
        css = (TEMPLATES / "page.css").read_text()
        schemes = [dict(VARIABLE.findall(block)) for block in css.split(":root")[1:]]
        assert len(schemes) == 2
        for scheme, name in zip(schemes, ("light", "dark"), strict=True):
            assert scheme["paper"] == colors.PAGE.on(name)
            assert scheme["ink"] == colors.INK[name]
            for text in ("ink", "quiet", "accent"):
                for behind in ("paper", "soft"):
                    assert colors.contrast(scheme[text], scheme[behind]) >= 4.5


class TestNames:
    def test_aliases_are_accepted_but_not_listed(self):
        known, aliases = ["orf", "rff"], {"G": "rff"}
        assert check_names(["g", "RFF", "orf"], known, "method", aliases) == ["rff", "orf"]
        with pytest.raises(CommandError, match=r"Choose from orf, rff\.$"):
            check_names(["x"], known, "method", aliases)


class TestPage:
    def test_data_cannot_become_html(self):
        text = hostile_page()
        seen = Seen(text)
        assert seen.tags.count("script") == 1  # our own
        assert "img" not in seen.tags
        assert seen.tags.count("svg") == 1  # the figure
        assert not {"onerror", "onload"} & seen.attributes
        for hostile in HOSTILE:
            assert hostile in "\n".join(seen.words)

    def test_a_table_cannot_put_html_into_its_comparison(self, tmp_path, monkeypatch):
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.standard_normal((90, 3)), columns=HOSTILE[:3])
        table["kind"] = rng.choice(HOSTILE[:2], 90)
        table[HOSTILE[3]] = np.where(table[HOSTILE[0]] > 0, HOSTILE[0], HOSTILE[4])
        table.to_csv(tmp_path / "<b>.csv", index=False)
        monkeypatch.chdir(tmp_path)
        arguments = ["<b>.csv", "--target", HOSTILE[3], "--out", "out"]
        arguments += ["--components", "16", "--folds", "2", "--jobs", "1"]
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        seen = Seen((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
        assert seen.tags.count("script") == 1
        assert "img" not in seen.tags
        assert seen.tags.count("svg") == 4  # two figures, each in two layouts
        assert not {"onerror", "onload"} & seen.attributes
        for name in table.columns:
            assert name in "\n".join(seen.words)
        for opened in pages(tmp_path / "out" / "report.html"):
            assert opened.title() == "quadfeat: <b>.csv"

    def test_data_does_not_run_in_a_browser(self, tmp_path):
        path = tmp_path / "report.html"
        path.write_text(hostile_page(), encoding="utf-8")
        for opened in pages(path):
            assert opened.title() == "quadfeat: the study"

    def test_an_unknown_name_in_a_template_raises(self):
        from jinja2 import UndefinedError

        with pytest.raises(UndefinedError):
            page.render("quadfeat.apps.study", about={})

    def test_a_figure_has_a_layout_for_phones(self):
        frame = pd.DataFrame({"a": [1.0]})

        def narrow(table, theme):
            return Figure(figsize=(2, 3))

        picture = Picture("a", "", "caption", draw, frame, narrow=narrow, alt="what it shows")
        assert picture.figure("light").get_figwidth() == 4
        assert picture.figure("light", "narrow").get_figwidth() == 2
        assert picture.alternative == "what it shows"
        scaled = Picture("a", "", "caption", draw, frame)
        assert scaled.figure("light", "narrow").get_figwidth() == 4
        assert scaled.alternative == "caption"

    def test_the_same_figure_gives_the_same_bytes(self):
        frame = pd.DataFrame({"a": [1.0]})

        def plot(table, theme):
            figure = Figure()
            figure.subplots().plot([1, 2, 3])
            return figure

        one, two = (Picture("a", "", "", plot, frame).inline() for _ in range(2))
        assert one == two

    def test_an_inline_figure_has_the_colors_of_both_pages(self):
        frame = pd.DataFrame({"a": [1.0]})

        def plot(table, theme):
            with drawing.theme(theme):
                figure = Figure()
                ax = figure.subplots()
                ax.plot([1, 2, 3], color="#123456" if theme == "light" else "#abcdef")
                ax.set_title("<script>")
            return figure

        text = Picture("a", "", "<what> it shows", plot, frame).inline()
        root = ElementTree.fromstring(text)
        assert root.get("aria-label") == "<what> it shows"
        light, dark = root.find("style").text.split("@media screen and (prefers-color-scheme:dark)")
        assert "#123456" in light
        assert "#abcdef" not in light
        assert "#abcdef" in dark
        assert set(re.findall(r"--c\d+(?=:)", light)) == set(re.findall(r"--c\d+(?=:)", dark))
        assert set(re.findall(r"var\((--c\d+)\)", text)) <= set(re.findall(r"--c\d+(?=:)", light))
        ids = [it.get("id") for it in root.iter() if it.get("id")]
        assert len(ids) == len(set(ids))
        assert {link.get("href")[1:] for link in root.iter("use")} <= set(ids)
        assert "script" not in text

    def test_an_inline_figure_looks_like_its_file(self):
        frame = pd.DataFrame({"a": [1.0]})
        picture = Picture("a", "", "alt", draw_line, frame)
        file = picture.render("light", "svg").decode()
        text = picture.inline()
        for element in ("<use", "<clipPath"):
            assert text.count(element) == file.count(element) > 0
        drawn = [len(re.findall(r"<path[^>]* style=", content)) for content in (text, file)]
        markers = len(set(re.findall(r'id="(m\w+)"', file)))  # whose uses repeat the style
        assert drawn[0] == drawn[1] - markers > 0

    def test_colors_may_agree_on_one_page_only(self):
        """matplotlib shares a marker between lines of one color."""
        frame = pd.DataFrame({"a": [1.0]})

        def plot(table, theme):
            figure = Figure()
            ax = figure.subplots()
            ax.plot([1, 2], "o", color="#123456")
            ax.plot([2, 1], "o", color="#123456" if theme == "light" else "#abcdef")
            return figure

        root = ElementTree.fromstring(Picture("a", "", "alt", plot, frame).inline())
        values = _values(root)
        assert [dark for light, dark in values if light == "#123456"] == ["#123456", "#abcdef"]
        styles = " ".join(use.get("style") or "" for use in root.iter("use"))
        for k, (light, _) in enumerate(values):
            assert light != "#123456" or f"var(--c{k})" in styles

    @pytest.mark.parametrize("linewidth", [0, 1])
    @pytest.mark.parametrize("black", ["light", "dark"])
    def test_black_may_become_another_color(self, black, linewidth):
        frame = pd.DataFrame({"a": [1.0]})

        def plot(table, theme):
            figure = Figure()
            color = "#000000" if theme == black else "#abcdef"
            figure.subplots().bar([1, 2], [1, 2], color=color, edgecolor=color, linewidth=linewidth)
            return figure

        root = ElementTree.fromstring(Picture("a", "", "alt", plot, frame).inline())
        expected = ("#000000", "#abcdef") if black == "light" else ("#abcdef", "#000000")
        assert expected in _values(root)
        k = _values(root).index(expected)
        assert sum(f"fill:var(--c{k})" in (it.get("style") or "") for it in root.iter("path")) == 2

    def test_drawings_of_different_shapes_are_rejected(self):
        def plot(table, theme):
            figure = Figure()
            figure.subplots().plot([1, 2], linewidth=1 if theme == "light" else 2)
            return figure

        with pytest.raises(ValueError, match="different shapes"):
            Picture("a", "", "alt", plot, pd.DataFrame({"a": [1.0]})).inline()
