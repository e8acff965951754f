"""Mark tables without head cells as layout, so that screen readers read them as lists."""

from typing import Any

# Lists of functions by autosummary, and lists of parameters by scikit-learn.
KINDS = ("autosummary", "parameters-table")


def mark(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Give the tables of a page their role."""
    for kind in KINDS if "body" in context else ():
        context["body"] = context["body"].replace(
            f'<table class="{kind}', f'<table role="presentation" class="{kind}'
        )


def setup(app: Any) -> dict[str, bool]:
    """Register the change of each page."""
    app.connect("html-page-context", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
