"""How Sphinx makes the documentation: ``make docs``. Needs no network."""

import sys
from importlib import import_module
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

import quadfeat

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "quadfeat"
author = "The quadfeat developers"
version = release = quadfeat.__version__
project_copyright = author

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_extensions", "_templates", "measured"]
templates_path = ["_templates"]

# Pages are written in Markdown, formulas between dollars.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
highlight_language = "none"  # of blocks that do not say: commands

# Docstrings: types are in the docstrings, signatures stay short.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists its methods
add_module_names = False


def own_methods(module: str, name: str, methods: list[str]) -> list[str]:
    """Return the methods to show with a class.

    Those that it defines itself, or that come from a private base: what scikit-learn gives to all
    estimators, and what a public base has on a page of its own, is left out.
    """
    documented = getattr(import_module(module), name)

    def belongs(method: str) -> bool:
        home = next(base for base in documented.__mro__ if method in vars(base))
        routing = method.endswith("_request")  # made by scikit-learn for each estimator
        return not routing and (home is documented or home.__module__.startswith("quadfeat._"))

    special = ["__call__"] if "__call__" in vars(documented) else []
    return special + [method for method in methods if method != "__init__" and belongs(method)]


autosummary_context = {"own_methods": own_methods}
suppress_warnings = ["config.cache"]  # a function in the line above cannot be kept between builds

html_theme = "furo"
pygments_dark_style = "github-dark"
html_title = "quadfeat"
html_static_path = ["_static"]
html_css_files = ["quadfeat.css"]
html_favicon = "_static/logo.svg"
html_logo = "_static/logo.svg"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {
        "color-brand-primary": "#0f6b75",
        "color-brand-content": "#0f6b75",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#58c4cf",
        "color-brand-content": "#58c4cf",
    },
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# The first are those to look at first.
EXAMPLES = (
    "error_against_columns",
    "decision_boundaries",
    "gaussian_process",
    "learned_metric",
    "what_auto_chose",
    "digits_against_time",
    "nodes_on_the_sphere",
    "butterfly",
    "streaming",
    "relevant_inputs",
    "arc_cosine",
)

# Every example is run; the first that fails stops the build.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": ExplicitOrder([f"plot_{name}.py" for name in EXAMPLES]),
    "reset_modules": ("matplotlib", "gallery_style.apply"),
    "abort_on_example_error": True,
    "backreferences_dir": "api/examples",
    "doc_module": ("quadfeat",),
    "reference_url": {"quadfeat": None},
    "write_computation_times": False,  # a page that fetches scripts from elsewhere
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
}
