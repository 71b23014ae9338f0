"""Python blocks of the guide and of the theory: they run when the site is built, and their output is shown below them.

The blocks of a page are one program: a later block sees the names of an earlier one. They run in an empty folder.
A block that raises or warns ends the build. ``tests/docs/test_pages.py`` runs the same blocks.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FENCE = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PAGES = re.compile(r"(guide/|theory/|index$|quickstart$|install$|export$)")


@contextlib.contextmanager
def empty_folder() -> Iterator[str]:
    """Change into a folder that is removed afterwards."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield os.getcwd()
        finally:
            os.chdir(before)


def run_blocks(text: str, name: str) -> list[tuple[str, str]]:
    """Run the Python blocks of a page of Markdown, and return each with what it printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    results = []
    with empty_folder() as folder:
        for match in FENCE.finditer(text):
            printed = io.StringIO()
            # Lines of tracebacks are those of the page.
            code = "\n" * (text[: match.start()].count("\n") + 1) + match.group(1)
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", message="mercer. the compiled kernels are not installed")
                exec(compile(code, name, "exec"), names)
            results.append((match.group(1), printed.getvalue().replace(folder + os.sep, "")))
    return results


def with_output(text: str, name: str) -> str:
    """Return a page with the output of each block below it."""
    if not FENCE.search(text):
        return text
    results = iter(run_blocks(text, name))

    def block(match: re.Match[str]) -> str:
        _, printed = next(results)
        if not printed.strip():
            return match.group(0)
        # Sentences are wrapped; tables are scrolled.
        style = "output wrapped" if printed.count("\n") <= 3 else "output"
        return match.group(0) + f"\n```{{code-block}} text\n:class: {style}\n\n{printed.rstrip()}\n```\n"

    return FENCE.sub(block, text)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Run the blocks of a page when Sphinx reads it."""
    if PAGES.match(page) and Path(app.env.doc2path(page)).suffix == ".md":
        source[0] = with_output(source[0], f"{page}.md")


def reset_figures(gallery_conf: dict[str, Any], path: str) -> None:  # noqa: ARG001, the signature is sphinx-gallery's
    """Set the style of all figures of the gallery before a script runs."""
    import matplotlib as mpl

    mpl.rcParams.update(
        {
            "figure.dpi": 110,
            "savefig.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=["#2166ac", "#d6604d", "#1b7837", "#7b3294", "#b8860b", "#666666"]),
            "font.size": 10,
            "legend.frameon": False,
        }
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Run the blocks of pages as they are read."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
