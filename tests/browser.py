"""Open reports in Chromium, on a wide light screen and on a narrow dark one."""

from pathlib import Path

import pytest
from scripts.accessibility import (
    CHROMIUMS,
    Structure,
    contrast_problems,
    keyboard_problems,
    width_problems,
)

from quadfeat.apps.reporting.colors import FAINT

GRID = [str(tuple(bytes.fromhex(color[1:]))) for color in FAINT.values()]


def pages(report):
    """Yield the open page on each screen. Afterwards, check its console and its width."""
    chromium = next((path for path in map(Path, CHROMIUMS) if path.exists()), None)
    if chromium is None:
        pytest.skip("Chromium is not installed")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        for scheme, width in (("light", 1200), ("dark", 390)):
            size = {"width": width, "height": 800}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            complaints = []
            page.on("console", lambda message, to=complaints: to.append(message.text))
            page.on("pageerror", lambda error, to=complaints: to.append(str(error)))
            page.goto(report.as_uri())
            yield page
            assert width_problems(page) == []
            assert complaints == []
        browser.close()


def assert_accessible(report):
    """Check structure, contrast on screens and paper, and use by keyboard."""
    assert Structure(report.read_text(encoding="utf-8")).problems == []
    for page in pages(report):
        assert keyboard_problems(page) == []
        summaries = page.locator("summary")
        for k in range(summaries.count()):
            # Enter opens a closed section, whose content Tab skips.
            summaries.nth(k).press("Enter")
            assert summaries.nth(k).evaluate("it => it.parentElement.open")
        for media in ("print", "screen"):
            page.emulate_media(media=media)
            assert contrast_problems(page, [f"rgb{color}" for color in GRID]) == []


def assert_needs_no_network(report):
    """Check that a page loads nothing over the network."""
    text = report.read_text()
    for outside in ("src='http", 'src="http', "href='http", "@import", "url(http"):
        assert outside not in text
