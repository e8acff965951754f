"""Open reports in Chromium, on a wide light screen and on a narrow dark one."""

from pathlib import Path

import pytest

CHROMIUMS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")


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
            # Only figures and tables may be wider than the page, since they scroll on their own.
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert complaints == []
        browser.close()


def assert_needs_no_network(report):
    """Check that a page loads nothing over the network."""
    text = report.read_text()
    for outside in ("src='http", 'src="http', "href='http", "@import", "url(http"):
        assert outside not in text
