"""Check the accessibility of HTML pages, by the Web Content Accessibility Guidelines (WCAG 2, AA).

The structure of a page is checked on its source: language and title, names of images, links and
buttons, order of headings, heads of tables, unique ids. Contrast, use by keyboard and width are
checked in Chromium, on wide light pages and on narrow dark ones.

    python scripts/accessibility.py build/docs

checks the structure of all pages of a folder, and opens some of them in Chromium.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.util import find_spec
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

CHROMIUMS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
LARGE_PAGES = ("genindex", "py-modindex", "_modules", "search")  # lists of links, written by Sphinx
OPENED = (
    "index",
    "start",
    "study",
    "learning",
    "tutorial",
    "recipes/mnist",
    "gallery/plot_streaming",
    "api/generated/quadfeat.KernelRegressor",
)

VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
# A script with the functions that pages run.
FUNCTIONS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
SIZES: dict[str, ViewportSize] = {
    "light": {"width": 1200, "height": 800},
    "dark": {"width": 390, "height": 800},
}
TEXT_CONTRAST, SHAPE_CONTRAST = 4.5, 3.0

CONTROLS = ("a", "button", "label", "summary")
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


@dataclass
class Element:
    """An open element of a page."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    tags: set[str] = field(default_factory=set)  # of the elements in it

    @property
    def name(self) -> str:
        """The name that a screen reader says."""
        given = (self.attributes.get(key) or "" for key in ("aria-label", "alt", "title"))
        return next(filter(None, (text.strip() for text in (*given, self.text))), "")

    def __str__(self) -> str:
        shown = self.attributes.get("id") or self.attributes.get("class") or self.name[:40]
        return f"<{self.tag} {shown!r}>"


class Structure(HTMLParser):
    """Find problems in the source of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.problems: list[str] = []
        self._open: list[Element] = []
        self._ids: Counter[str] = Counter()
        self._targets: list[str] = []
        self._levels: list[int] = []
        self._titled = False
        self.feed(text)
        self.close()
        self._check_page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        element = Element(tag, dict(attrs))
        for outer in self._open:
            outer.tags.add(tag)
        identity = element.attributes.get("id")
        if identity:
            self._ids[identity] += 1
        target = element.attributes.get("href") or ""
        if target.startswith("#") and len(target) > 1:
            self._targets.append(target[1:])
        if tag == "html" and not element.attributes.get("lang"):
            self.problems.append("<html> has no language")
        if tag in HEADINGS:
            self._levels.append(int(tag[1]))
        if tag == "img":
            self._check_image(element)
        # Icons need no name of their own.
        in_control = any(outer.tag in CONTROLS for outer in self._open)
        if tag == "svg" and not in_control and not self._hidden(element):
            if element.attributes.get("role") != "img" or not element.name:
                self.problems.append(f"{element} is not a named image")
            for outer in self._open:
                outer.text += element.name
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element and close it."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and those in it that have no end."""
        if not any(element.tag == tag for element in self._open):
            return
        while self._open:
            element = self._open.pop()
            self._check(element)
            if element.tag == tag:
                return

    def handle_data(self, data: str) -> None:
        """Add to the text of the open elements."""
        for element in self._open:
            element.text += data

    def _hidden(self, element: Element) -> bool:
        return any(
            it.attributes.get("aria-hidden") == "true"
            or "display: none" in (it.attributes.get("style") or "")
            for it in (*self._open, element)
        )

    def _check_image(self, element: Element) -> None:
        alt = element.attributes.get("alt")
        if alt is None and not self._hidden(element):
            self.problems.append(f"image without alt: {element.attributes.get('src') or ''!r}")
        for outer in self._open:
            outer.text += alt or ""

    def _check(self, element: Element) -> None:
        needs_name = element.tag in ("button", "summary", "figcaption", *HEADINGS) or (
            element.tag == "a" and "href" in element.attributes
        )
        if needs_name and not element.name and not self._hidden(element):
            self.problems.append(f"{element} has no name")
        if element.tag == "title" and not any(it.tag == "svg" for it in self._open):
            self._titled = bool(element.text.strip())
        role = element.attributes.get("role")
        if element.tag == "table" and "th" not in element.tags and role != "presentation":
            self.problems.append(f"{element} has no head cells: {element.text.split()[:5]}")

    def _check_page(self) -> None:
        if not self._titled:
            self.problems.append("the page has no title")
        if self._levels[:1] != [1] or self._levels.count(1) != 1:
            self.problems.append("the page does not have one first heading")
        for before, after in pairwise(self._levels):
            if after > before + 1:
                self.problems.append(f"<h{after}> follows <h{before}>")
        self.problems += [f"id {name!r} occurs twice" for name, n in self._ids.items() if n > 1]
        missing = set(self._targets) - set(self._ids)
        self.problems += [f"a link leads to #{name}, which does not exist" for name in missing]


def contrast_problems(page: Any, decoration: Sequence[str] = ()) -> list[str]:
    """Return the texts and the shapes of figures with too little contrast on an open page.

    Parameters
    ----------
    page : playwright.sync_api.Page
    decoration : sequence of str
        CSS colors of shapes that are not needed to read a figure, such as ``"rgb(68, 68, 68)"``.
    """
    minima = {"text": TEXT_CONTRAST, "shapes": SHAPE_CONTRAST, "decoration": list(decoration)}
    page.add_script_tag(content=FUNCTIONS)
    found: list[str] = page.evaluate("minima => contrastProblems(minima)", minima)
    return found


def keyboard_problems(page: Any) -> list[str]:
    """Return what Tab does not reach on an open page, or reaches without a visible focus."""
    page.add_script_tag(content=FUNCTIONS)
    n_stops = page.evaluate("numberStops()")
    page.evaluate("document.activeElement.blur()")
    reached: set[int] = set()
    problems = []
    for _ in range(2 * n_stops + 5):
        page.keyboard.press("Tab")
        focused = page.evaluate("focusedStop()")
        if focused is None or focused["stop"] in reached:
            break
        if not focused["visible"]:
            problems.append(f"no visible focus on {focused['name']}")
        if focused["stop"] is not None:
            reached.add(focused["stop"])
    for stop in sorted(set(range(n_stops)) - reached):
        source = page.eval_on_selector(f"[data-stop='{stop}']", "it => it.outerHTML.slice(0, 80)")
        problems.append(f"Tab does not reach {source}")
    return problems


def width_problems(page: Any) -> list[str]:
    """Return a problem if an open page is wider than the screen.

    Code, figures and tables may be wider, since they scroll on their own.
    """
    width, screen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return [f"{width} pixels wide on a screen of {screen}"] if width > screen else []


def problems_in_browser(pages: list[Path]) -> Iterator[str]:
    """Yield problems with contrast, keyboard and width. Without a browser, check nothing."""
    chromium = next((path for path in map(Path, CHROMIUMS) if path.exists()), None)
    if chromium is None or find_spec("playwright") is None:
        print("Chromium or playwright is missing: contrast, keyboard and width are not checked.")
        return
    from playwright.sync_api import sync_playwright

    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        for path, scheme in product(pages, schemes):
            page = browser.new_page(viewport=SIZES[scheme], color_scheme=scheme)
            page.goto(path.resolve().as_uri())
            found = contrast_problems(page) + keyboard_problems(page) + width_problems(page)
            yield from (f"{path}, {scheme}: {problem}" for problem in found)
            page.close()
        browser.close()


def main() -> int:
    """Check a folder of pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of HTML pages")
    folder = parser.parse_args().folder
    pages = [
        page
        for page in sorted(folder.rglob("*.html"))
        if not page.relative_to(folder).as_posix().startswith(LARGE_PAGES)
        and "_static" not in page.parts
    ]
    found = [
        f"{page}: {problem}"
        for page in pages
        for problem in Structure(page.read_text(encoding="utf-8")).problems
    ]
    opened = [path for path in (folder / f"{name}.html" for name in OPENED) if path.exists()]
    found += problems_in_browser(opened)
    print("\n".join(found) or f"{len(pages)} pages, {len(opened)} of them in a browser: no problem")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
