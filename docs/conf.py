"""Configuration of Sphinx; `docs/build.py` prepares the folder that it reads."""

import inspect
import re
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "mercer"
author = "The mercer developers"
project_copyright = "The mercer developers, BSD-3-Clause"
release = version = version_of("mercer")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "api_links",
    "code_blocks",
    "mathml",
]
templates_path = ["_templates"]
exclude_patterns = ["_extensions", "gallery", "tutorials/*.md", "gallery_pages/**/*.ipynb"]
default_role = "py:obj"
nitpicky = False

# Markdown: anchors of headings as on GitHub, so that links work in both.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False
numpydoc_use_plots = False
numpydoc_validation_checks: set[str] = set()

html_theme = "pydata_sphinx_theme"
html_title = f"mercer {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_math_renderer = "mathml"
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"
html_copy_source = False
html_theme_options = {
    "logo": {"text": "mercer"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version", "theme-version"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "install": [], "quickstart": [], "glossary": [], "what_exists": []}

# What a block prints is not copied, nor the prompts of examples in docstrings.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.output):not(.sphx-glr-script-out) > div.highlight > pre"

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["gallery_pages"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,  # a page that loads scripts from a network
    "show_memory": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "doc_module": ("mercer",),
    "backreferences_dir": "api/examples",
    "inspect_global_variables": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", "code_blocks.reset_figures"),
    "copyfile_regex": "",
    "parallel": True,
}

# Examples are drawn without a display, and a warning of an example is shown where it is raised.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


DECLARED = (type(None), bool, int, float, str, tuple, frozenset, dict)


def skip_member(app, what, name, thing, skip, options):  # noqa: ARG001, the signature is Sphinx's
    """Leave members out that classes of mercer inherit from other packages."""
    if skip:
        return True
    function = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    module = getattr(inspect.unwrap(function) if callable(function) else function, "__module__", None)
    if module is not None and not str(module).startswith("mercer"):
        return True
    # What a class declares to its base class, such as the domains of its parameters: the page of the base class has it.
    page = app.env.docname
    final = re.fullmatch(r"api/generated/mercer\.(?!Kernel$)\w+", page) is not None
    return True if final and isinstance(thing, DECLARED) else None


def setup(app):
    """Connect the hooks of this file."""
    app.connect("autodoc-skip-member", skip_member)
