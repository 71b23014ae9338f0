"""The demo as one HTML page that needs nothing else: no network, no scripts, no fonts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec

from mercer.diagnostics.demo import Demo
from mercer.report import numbers, words

__all__ = ["demo_page", "missing_packages"]

NEEDED = ("matplotlib", "jinja2")


def missing_packages() -> list[str]:
    """Return which packages of the extra ``mercer[report]`` are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def demo_page(demo: Demo) -> str:
    """Return the page.

    Parameters
    ----------
    demo : Demo
        The result of `mercer.diagnostics.demo.run_demo`.

    Returns
    -------
    str
        HTML. Everything in it is escaped, but for the pictures, which are drawn here.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from mercer.report import figures

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in numbers.__all__:
        environment.filters[name] = _unbroken(getattr(numbers, name))
    template = resources.files("mercer.report").joinpath("demo.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        demo=demo,
        environment=demo.environment,
        headline=words.headline(demo).replace(" %", "\N{NO-BREAK SPACE}%"),
        caveat=words.caveat(demo).replace(" %", "\N{NO-BREAK SPACE}%"),
        kernels=words.kernels_in_use(demo.environment),
        chosen=next(one for one in demo.contenders if one.name == demo.chosen),
        pictures={
            "pairs": Markup(figures.error_by_value(demo)),
            "width": Markup(figures.error_by_width(demo)),
            "penalty": Markup(figures.penalties(demo)),
            "reliability": Markup(figures.reliability(demo)),
        },
    )


def _unbroken(write: Callable[..., str]) -> Callable[..., str]:
    """Return the same with spaces at which no line is broken: a number stays with its unit."""
    return lambda *arguments: write(*arguments).replace(" ", "\N{NO-BREAK SPACE}")
