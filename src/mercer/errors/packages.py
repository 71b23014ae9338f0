"""Import of packages that only some results need, such as Matplotlib for figures."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mercer.errors import MissingPackageError

__all__ = ["data_frame", "optional_module"]


def optional_module(name: str, owner: str, install: str) -> Any:
    """Return a module of a package that `owner` needs; if it is not installed, raise an error that says how to."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise  # another package is missing
        msg = f"{owner} needs {package}, which is not installed. Install it by: pip install {install}"
        raise MissingPackageError(msg) from error


def axes_of(ax: Any, owner: str, figsize: tuple[float, float]) -> Any:
    """Return the given Matplotlib axes, or those of a new figure for the method `plot` of `owner` if `ax` is None."""
    if ax is not None:
        return ax
    plt = optional_module("matplotlib.pyplot", f"{owner}.plot", "'mercer[report]'")
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def data_frame(rows: list[dict[str, Any]], owner: str) -> Any:
    """Return a pandas DataFrame of rows that are given as dictionaries."""
    return optional_module("pandas", owner, "pandas").DataFrame(rows)
