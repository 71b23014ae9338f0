"""The results of the demo as one self-contained HTML page, without scripts, external fonts or network access."""

from __future__ import annotations

from mercer.diagnostics.demo import Demo
from mercer.report import sentences
from mercer.report.templates import missing_packages, render

__all__ = ["demo_page", "missing_packages"]


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
    from markupsafe import Markup

    from mercer.report import figures

    return render(
        "demo.html.j2",
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
