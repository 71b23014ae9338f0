"""Names in code spans of Markdown pages become links to the API, such as `KernelRidge` or `theory.fourier_failure`."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"(?:mercer\.)?((?:[a-z_]+\.)?\w+)(?:\(.*\))?$", re.DOTALL)
# Pages on which names may be those of other libraries.
OTHER_LIBRARIES = {"guide/coming_from"}


@cache
def targets() -> dict[str, str]:
    """Return the public names that a page may mention, with their full names."""
    import mercer

    top = {name for name in mercer.__all__ if not isinstance(getattr(mercer, name), ModuleType)}
    found = {name: f"mercer.{name}" for name in top}
    for module in ("theory", "testing", "maps", "kernels", "workflows"):
        for name in importlib.import_module(f"mercer.{module}").__all__:
            found.setdefault(f"{module}.{name}", f"mercer.{name}" if name in top else f"mercer.{module}.{name}")
            if name not in top and name[0].isupper() and not name.isupper():
                found.setdefault(name, f"mercer.{module}.{name}")
    return found


class LinkNames(SphinxTransform):
    """Replace code spans that are public names by references to them."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Link the names of a page."""
        page = self.env.docname
        if Path(self.env.doc2path(page)).suffix != ".md" or page in OTHER_LIBRARIES:
            return
        for node in list(self.document.findall(nodes.literal)):
            match = NAME.match(node.astext())
            name = targets().get(match.group(1)) if match else None
            if name is None or isinstance(node.parent, nodes.reference | nodes.title):
                continue
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=name, refdoc=page, refwarn=True)
            node.replace_self(link)
            link += node


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the links after pages are parsed."""
    app.add_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
