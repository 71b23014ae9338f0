"""Templates of pages: one base with the style of all pages, and what is common to their rendering."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec
from typing import Any

from mercer.report import numbers

__all__ = ["missing_packages", "render"]

NEEDED = ("matplotlib", "jinja2")


def missing_packages() -> list[str]:
    """Return the packages of the extra ``mercer[report]`` that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def render(name: str, **values: Any) -> str:
    """Return the page of a template of this folder. All values are escaped, except for those of type Markup."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = resources.files("mercer.report")
    environment = Environment(
        loader=FunctionLoader(lambda path: folder.joinpath(path).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for one in numbers.__all__:
        environment.filters[one] = _unbroken(getattr(numbers, one))
    return environment.get_template(name).render(**values)


def _unbroken(write: Callable[..., str]) -> Callable[..., str]:
    """Return a function that calls `write` and replaces the spaces in its result by no-break spaces.

    No-break spaces keep a number and its unit on one line.
    """
    return lambda *arguments: write(*arguments).replace(" ", "\N{NO-BREAK SPACE}")
