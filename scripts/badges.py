"""Draw the badges of the README from ``pyproject.toml``, so that they need no network.

python scripts/badges.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "_static"

PER_CHARACTER = 6.6  # width in pixels at a font size of 11, generous for DejaVu Sans and Verdana
PADDING = 6
SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20"
  role="img" aria-label="{label}: {value}">
  <clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
  <g clip-path="url(#r)">
    <rect width="{left}" height="20" fill="#424a53"/>
    <rect x="{left}" width="{right}" height="20" fill="#0b7a86"/>
  </g>
  <g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
    <text x="{left_middle}" y="14">{label}</text>
    <text x="{right_middle}" y="14">{value}</text>
  </g>
</svg>
"""


def badge(label: str, value: str) -> str:
    """Return a badge as SVG."""
    left, right = (round(PER_CHARACTER * len(text)) + 2 * PADDING for text in (label, value))
    return SVG.format(
        label=label,
        value=value,
        width=left + right,
        left=left,
        right=right,
        left_middle=left / 2,
        right_middle=left + right / 2,
    )


def project() -> dict[str, Any]:
    """Return the table ``[project]`` of ``pyproject.toml``."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def badges() -> dict[str, str]:
    """Return the badges by file name."""
    about = project()
    shown = {
        "license": about["license"],
        "python": about["requires-python"].replace(">=", "") + "+",
        "version": about["version"],
    }
    return {f"badge-{label}.svg": badge(label, value) for label, value in shown.items()}


def main() -> None:
    """Write the badges."""
    for name, svg in badges().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
