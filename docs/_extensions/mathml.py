"""Formulas as MathML, which a browser shows without a script and without a network."""

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

# Before and behind the name of a function TeX puts thin spaces; a browser does not.
SPACE = '<mspace width="0.167em"></mspace>'
BEFORE = re.compile(r"(</m(?:i|n|sub|sup)>)(?=\s*<mi>[a-z]{2,}</mi>)")
BEHIND = re.compile(r"(<mo>&ApplyFunction;</mo>)(?=\s*<m(?:i|n|sub|sup)>)")


def visit_inline(translator: Any, node: nodes.Element) -> None:
    """Write a formula within a line."""
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.Element) -> None:
    """Write a formula that stands alone, in a box that scrolls where the page is narrow."""
    translator.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    formula = node.astext()
    try:
        mathml = tex2mathml(formula, as_block=as_block)
    except MathError as error:
        logger.warning("formula not understood: %s: %s", formula, error, location=node)
        return f"<code>{escape(formula)}</code>"
    return BEHIND.sub(rf"\1{SPACE}", BEFORE.sub(rf"\1{SPACE}", mathml))


def setup(app: Sphinx) -> dict[str, bool]:
    """Make ``html_math_renderer = "mathml"`` known to Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
