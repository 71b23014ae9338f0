"""The results of the demo as one self-contained HTML page, without scripts, external fonts or network access."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from importlib.util import find_spec

from mercer.diagnostics.demo import Demo
from mercer.report import numbers, sentences

__all__ = ["demo_page", "missing_packages"]

NEEDED = ("matplotlib", "jinja2")


def missing_packages() -> list[str]:
    """Return the packages of the extra ``mercer[report]`` that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def demo_page(demo: Demo) -> str:
    """Return the HTML page of the results of a demo.

    Parameters
    ----------
    demo : Demo
        The result of `mercer.diagnostics.demo.run_demo`.

    Returns
    -------
    str
        HTML. All values are escaped, except for the SVG figures, which mercer itself generates.
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
        race_headline=sentences.race_headline(demo) if demo.races else "",
        headline=sentences.headline(demo).replace(" %", "\N{NO-BREAK SPACE}%"),
        caveat=sentences.caveat(demo).replace(" %", "\N{NO-BREAK SPACE}%"),
        kernels=sentences.kernels_in_use(demo.environment),
        chosen=next(one for one in demo.contenders if one.name == demo.chosen),
        pictures={
            "pairs": Markup(figures.error_by_value(demo)),
            "width": Markup(figures.error_by_width(demo)),
            "penalty": Markup(figures.penalties(demo)),
            "reliability": Markup(figures.reliability(demo)),
        },
    )


def _unbroken(write: Callable[..., str]) -> Callable[..., str]:
    """Return a function that calls `write` and replaces the spaces in its result by no-break spaces.

    No-break spaces keep a number and its unit on one line.
    """
    return lambda *arguments: write(*arguments).replace(" ", "\N{NO-BREAK SPACE}")
