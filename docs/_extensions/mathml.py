"""Render formulas as MathML, which browsers show without scripts or a network."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# TeX puts thin spaces around the names of functions. Browsers do not, so add them.
SPACE = '<mspace width="0.167em"></mspace>'
BEFORE = re.compile(r"(</m(?:i|n|sub|sup)>)(?=\s*<mi>[a-z]{2,}</mi>)")
BEHIND = re.compile(r"(<mo>&ApplyFunction;</mo>)(?=\s*<m(?:i|n|sub|sup)>)")


def visit_inline(translator: Any, node: nodes.Element) -> None:
    """Write an inline formula."""
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.Element) -> None:
    """Write a displayed formula in a box that scrolls on narrow screens."""
    translator.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    formula = node.astext()
    try:
        mathml = tex2mathml(formula, as_block=as_block)
    except MathError as error:
        logger.warning("cannot render the formula %s: %s", formula, error, location=node)
        return f"<code>{escape(formula)}</code>"
    return BEHIND.sub(rf"\1{SPACE}", BEFORE.sub(rf"\1{SPACE}", mathml))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer for ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
