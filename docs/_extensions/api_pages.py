"""Pages of the API, one per public module, from the names that `mercer` exports.

A new name of a known module needs nothing. A new module needs a line in `MODULES`, and the tests and the build say so.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import mercer

# In the order of the page: module, title, what it is for.
MODULES = {
    "automatic": (
        "Models without arguments",
        "Choose columns, kernels, penalties and weights by held-out predictions.",
    ),
    "learners": ("Learners", "Estimators of scikit-learn's kind on top of any map."),
    "kernels": ("Kernels", "The functions that maps approximate, and their algebra."),
    "maps": ("Feature maps", "From rows to components whose inner products approximate a kernel."),
    "choice": ("Choice of a map", "The best map for a number of components, an error, a time or a memory."),
    "metric": ("Scales and metrics", "Columns in comparable units, and metrics that are learned from targets."),
    "graphs": ("Graphs", "Kernels that are smooth along a graph of labeled and unlabeled rows."),
    "hypothesis_tests": ("Hypothesis tests", "Tests of distributions and of dependence, linear in the rows."),
    "diagnostics": ("Measured errors", "The error of a fitted map, comparisons of maps, numbers of components."),
    "theory": ("Theory", "Variances, bounds and numbers of components in closed form."),
    "tables": ("Tables", "Data frames and files with categories, dates and missing cells as numbers."),
    "io": ("Files of rows", "Rows of npy, Parquet, CSV, svmlight and Arrow files, read in blocks."),
    "engines": ("Engines and checkpoints", "Sums over rows in memory, out of core and on Dask."),
    "model_files": ("Model files", "Save a fitted model and read it again without executing code."),
    "export": ("Export", "Fitted models as ONNX graphs or plain NumPy."),
    "torch": ("PyTorch", "Features and linear functions as modules of PyTorch."),
    "workflows": ("Workflows", "The commands of the command line as functions."),
    "reproduce": ("Published tables", "Tables of papers, run again beside mercer; ``mercer reproduce``."),
    "testing": ("Contracts", "Checks of your own kernels, maps, learners and engines."),
    "experimental": ("Experimental names", "What may change in any release."),
    "errors": ("Errors and warnings", "What mercer raises."),
    "statistics": ("Statistics", "What is summed over rows; for authors of learners."),
    "data": ("Data", "How X, y and weights become a source of blocks; for authors of learners."),
    "solvers": ("Solvers", "From statistics to coefficients; for authors of learners."),
    "linalg": ("Linear algebra", "The compiled kernels and their NumPy twins; for authors of maps."),
}


# Modules that need a package which is not among the requirements of the site.
OPTIONAL = {"torch": "torch"}


def documented() -> dict[str, tuple[str, str]]:
    """Return the modules whose packages are installed, with their titles and descriptions."""
    missing = {name for name, package in OPTIONAL.items() if importlib.util.find_spec(package) is None}
    return {name: words for name, words in MODULES.items() if name not in missing}


def exported() -> dict[str, list[str]]:
    """Return the top-level names of `mercer` by their module, in alphabetical order."""
    groups: dict[str, list[str]] = {}
    for name in sorted(mercer.__all__, key=str.lower):
        thing = getattr(mercer, name)
        if not isinstance(thing, ModuleType):
            groups.setdefault(_module_of(name, thing), []).append(name)
    return groups


def extras(module: str) -> list[str]:
    """Return the names that a public module exports beside those of the top level."""
    public = importlib.import_module(f"mercer.{module}")
    things = {name: getattr(public, name) for name in getattr(public, "__all__", [])}
    things = {name: thing for name, thing in things.items() if getattr(mercer, name, None) is not thing}
    return sorted((n for n, t in things.items() if inspect.isclass(t) or inspect.isfunction(t)), key=str.lower)


def unknown_modules() -> set[str]:
    """Return the public modules that `MODULES` lacks."""
    modules = {name for name in mercer.__all__ if isinstance(getattr(mercer, name), ModuleType)}
    return (modules | set(exported())) - set(MODULES)


def pages() -> dict[str, str]:
    """Return the pages of the API by their file names."""
    if unknown := unknown_modules():
        message = f"docs/_extensions/api_pages.py: MODULES needs a title for {', '.join(sorted(unknown))}."
        raise ValueError(message)
    top, modules = exported(), documented()
    rows = "\n".join(f"   * - :doc:`{title} <{name}>`\n     - {text}" for name, (title, text) in modules.items())
    toctree = "\n".join(f"   {name}" for name in modules)
    listing = "\n\n".join(
        f"{title}\n{'-' * len(title)}\n\n{_summary('mercer', top[name], stubs=False)}"
        for name, (title, _) in modules.items()
        if name in top
    )
    out = {"index.rst": INDEX.format(rows=rows, toctree=toctree, listing=listing)}
    for name, (title, text) in modules.items():
        parts = [title, "=" * len(title), "", text, ""]
        if names := top.get(name):
            parts += [_summary("mercer", names, stubs=True), ""]
        if more := extras(name):
            parts += [f"In ``mercer.{name}``", "-" * (len(name) + 14), ""]
            parts += [_summary(f"mercer.{name}", more, stubs=True), ""]
        parts += ["About this module", "-----------------", "", f".. automodule:: mercer.{name}", "   :no-members:", ""]
        out[f"{name}.rst"] = "\n".join(parts)
    return out


def write_pages(folder: Path) -> bool:
    """Write the pages into a folder, and return whether there are new ones.

    Files that are equal remain untouched, so that they are not built again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = False
    for name, text in pages().items():
        path = folder / name
        new |= not path.exists()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return new


def _module_of(name: str, thing: object) -> str:
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str) or not module.startswith("mercer."):
        message = f"docs/_extensions/api_pages.py: mercer.{name} has no module of mercer."
        raise ValueError(message)
    found = module.split(".")[1]
    public = {n for n in mercer.__all__ if isinstance(getattr(mercer, n), ModuleType)}
    if found in public:
        return found
    # A name that is defined in a private module belongs to the public one that exports it.
    return next(m for m in sorted(public) if name in getattr(importlib.import_module(f"mercer.{m}"), "__all__", []))


def _summary(module: str, names: list[str], *, stubs: bool) -> str:
    options = "   :toctree: generated\n" if stubs else ""
    return f".. currentmodule:: {module}\n\n.. autosummary::\n{options}\n" + "\n".join(f"   {name}" for name in names)


INDEX = """API
===

Every public name is imported from ``mercer``: ``from mercer import KernelRidge``. The modules below group them, and
have further names for authors of extensions.

.. list-table::
   :widths: 30 70

{rows}

.. toctree::
   :hidden:
   :maxdepth: 1

{toctree}

All names of ``mercer``
=======================

{listing}
"""
