"""Put a figure into a page as one ``<svg>`` element that follows the colors of the page.

A figure is drawn once for light and once for dark pages. The two drawings differ only in their
colors, so the page gets one of them, with a CSS variable for each pair of colors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from markupsafe import Markup

NAMESPACE = re.compile(r"^\{.*\}")
COLOR = re.compile(r"#[0-9a-f]{6}")
REFERENCE = re.compile(r"(?<=url\(#)[^)]+(?=\))")
COMMAND = re.compile(r"\s*([A-Za-z])\s*")
SHIFT = re.compile(r"translate\((\S+) 0\)")

# Two decimals are enough for coordinates. Numbers below 1 may be scales and stay.
LONG_NUMBER = re.compile(r"(?<![\d.])([1-9]\d*\.\d\d)\d+")


def inline_svg(light: bytes, dark: bytes, name: str, alt: str, screen: str) -> Markup:
    """Return two drawings of a figure as one element.

    Parameters
    ----------
    light, dark : bytes
        SVG files of matplotlib with the same shapes.
    name : str
        Name of the figure, with which all ids start. It is unique on the page.
    alt : str
        Description for readers who cannot see the figure.
    screen : {"wide", "narrow"}
        The screen of the layout, as a CSS class.

    Returns
    -------
    element : Markup
        An ``<svg>`` element. Its only text is ``alt``: the files have their labels as shapes, and
        their comments are left out.
    """
    root, other = (_cleaned(ElementTree.fromstring(content)) for content in (light, dark))
    for drawing in (root, other):
        _share_markers(drawing)
    colors = _merge_colors(root, other)
    _rename(root, f"{name}-{screen[0]}")
    _open_groups(root)
    identity = f"{name}-{screen}"
    root.attrib = {
        "class": f"plot {screen}",
        "id": identity,
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": alt,
    }
    style = ElementTree.Element("style")
    style.text = _rules(identity, colors)
    root.insert(0, style)
    return Markup(ElementTree.tostring(root, encoding="unicode").replace(" />", "/>"))


def shortened(text: str) -> str:
    """Round the coordinates of a drawing.

    Examples
    --------
    >>> shortened("M 10.123456 -3.98765 scale(0.015625)")
    'M 10.12 -3.98 scale(0.015625)'
    """
    return LONG_NUMBER.sub(r"\1", text)


def _cleaned(element: ElementTree.Element) -> ElementTree.Element:
    """Return a shorter element, without metadata, style sheets and white space."""
    clean = ElementTree.Element(NAMESPACE.sub("", element.tag))
    for key, value in element.attrib.items():
        clean.set(NAMESPACE.sub("", key), shortened(value))
    if "d" in clean.attrib:
        clean.set("d", COMMAND.sub(r"\1", clean.attrib["d"]).strip())
    if "style" in clean.attrib:
        clean.set("style", clean.attrib["style"].replace("; ", ";").replace(": ", ":"))
    shift = SHIFT.fullmatch(clean.get("transform", ""))
    if clean.tag == "use" and shift:  # most elements are letters
        del clean.attrib["transform"]
        clean.set("x", shift[1])
    for child in element:
        if NAMESPACE.sub("", child.tag) not in ("metadata", "style"):  # page.css has the style
            clean.append(_cleaned(child))
    return clean


def _share_markers(root: ElementTree.Element) -> None:
    """Define each marker once, without its colors, which all its uses repeat.

    Methods that share a color on one page may have different colors on the other. With colors, the
    two drawings would then define different numbers of markers.
    """
    first: dict[str, str] = {}  # the first marker of a shape
    same: dict[str, str] = {}
    for definitions in root.iter("defs"):
        for path in [path for path in definitions if path.tag == "path" and "style" in path.attrib]:
            del path.attrib["style"]
            same[path.attrib["id"]] = first.setdefault(path.attrib["d"], path.attrib["id"])
            if same[path.attrib["id"]] != path.attrib["id"]:
                definitions.remove(path)
    for element in root.iter():
        target = element.get("href", "")[1:]
        if target in same:
            element.set("href", f"#{same[target]}")
        element[:] = [child for child in element if child.tag != "defs" or len(child)]


def _merge_colors(
    root: ElementTree.Element, other: ElementTree.Element
) -> dict[tuple[str, str], str]:
    """Replace colors by CSS variables. Return the variable of each pair of colors."""
    colors: dict[tuple[str, str], str] = {}
    for one, two in zip(root.iter(), other.iter(), strict=True):
        style, other_style = _with_fills(one.get("style", ""), two.get("style", ""))
        pairs = list(zip(COLOR.findall(style), COLOR.findall(other_style), strict=True))
        if one.tag != two.tag or COLOR.sub("", style) != COLOR.sub("", other_style):
            raise ValueError("the light and the dark drawing have different shapes.")
        for color in dict.fromkeys(pairs):
            colors.setdefault(color, f"--c{len(colors)}")
        if pairs:
            parts = COLOR.split(style)
            names = [f"var({colors[pair]})" for pair in pairs]
            one.set("style", "".join(map("".join, zip(parts, [*names, ""], strict=True))))
    return colors


def _with_fills(style: str, other: str) -> tuple[str, str]:
    """Return two styles; add the fill that one of them lacks. matplotlib leaves out black."""
    fills = [text.startswith("fill:") for text in (style, other)]
    if fills == [False, True]:
        return f"fill:#000000;{style}".rstrip(";"), other
    if fills == [True, False]:
        return style, f"fill:#000000;{other}".rstrip(";")
    return style, other


def _rename(root: ElementTree.Element, name: str) -> None:
    """Keep the ids that are used, and make them unique on the page."""
    used: dict[str, str] = {}
    for element in root.iter():
        for target in _targets(element):
            used.setdefault(target, f"{name}{len(used)}")
    for element in root.iter():
        identity = element.attrib.pop("id", None)
        if identity in used:
            element.set("id", used[identity])
        for key, value in element.attrib.items():
            if key == "href":
                element.set(key, f"#{used[value[1:]]}")
            else:
                element.set(key, REFERENCE.sub(lambda found: used[found[0]], value))


def _targets(element: ElementTree.Element) -> Iterator[str]:
    for key, value in element.attrib.items():
        if key == "href":
            yield value[1:]
        else:
            yield from REFERENCE.findall(value)


def _open_groups(element: ElementTree.Element) -> None:
    """Replace groups without attributes by their content."""
    children = list(element)
    for child in children:
        _open_groups(child)
    element[:] = [
        inner
        for child in children
        for inner in (child if child.tag == "g" and not child.attrib else [child])
    ]


def _rules(identity: str, colors: dict[tuple[str, str], str]) -> str:
    """Return the values of the variables on light and dark pages."""
    light = "".join(f"{variable}:{pair[0]};" for pair, variable in colors.items())
    dark = "".join(f"{variable}:{pair[1]};" for pair, variable in colors.items())
    on_dark = "@media screen and (prefers-color-scheme:dark)"
    return f"#{identity}{{{light}}}{on_dark}{{#{identity}{{{dark}}}}}"
