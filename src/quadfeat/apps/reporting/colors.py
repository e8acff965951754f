"""Colors for light and dark pages."""

from __future__ import annotations

from typing import Literal, NamedTuple

Theme = Literal["light", "dark"]


class Color(NamedTuple):
    """A color on light pages and its counterpart on dark pages.

    Text needs a contrast of at least 4.5 to the page; ``tests/test_reporting.py`` checks it.
    """

    light: str
    dark: str

    def on(self, page: Theme) -> str:
        """Return the color for a page."""
        return self.dark if page == "dark" else self.light


PAGE = Color("#ffffff", "#16181b")  # the background, as in templates/page.css
INK = {"light": "#1a1a1a", "dark": "#e8e8e8"}
FAINT = {"light": "#d9d9d9", "dark": "#444444"}  # grids
QUIET = Color("#8a8a8a", "#7a7a7a")  # lines behind the main ones: a contrast of at least 3


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors by the Web Content Accessibility Guidelines.

    Examples
    --------
    >>> contrast("#000000", "#ffffff")
    21.0
    """
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return round((bright + 0.05) / (dark + 0.05), 2)


def _luminance(color: str) -> float:
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
