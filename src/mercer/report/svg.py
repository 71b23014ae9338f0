"""Style of Matplotlib figures, and their conversion to SVG with the colors and the font of the page around them.

Figures are plotted in placeholder colors, which `to_svg` replaces by CSS variables, so that one figure fits light and
dark pages. Text in figures is stored as text, so that it can be searched.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import log10
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MARKERS", "MUTED", "PAPER", "SERIES", "figure_style", "panels", "plain_ticks", "thousands", "to_svg"]

INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
SERIES = ("#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04")
# Series differ in shape as well as in color, for readers who cannot distinguish the colors.
MARKERS = ("o", "s", "^", "D")
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"} | {
    color: f"--series-{i}" for i, color in enumerate(SERIES)
}
# What the style element of a figure of Matplotlib contains.
STROKES = 'stroke-linejoin="round" stroke-linecap="butt"'
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 12,
    "font.size": 12,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}


@contextmanager
def figure_style(name: str) -> Iterator[None]:
    """Context manager in which figures have placeholder colors, and SVG identifiers that depend only on `name`."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE | {"svg.hashsalt": name}):
        yield


def panels(rows: int = 1, columns: int = 1, *, height: float = 3.7) -> tuple[Figure, Any]:
    """Return a figure as wide as the text column of the page, and its axes as an array of shape (rows, columns)."""
    # pyplot is not used, because it would choose a backend and keep global state.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


def plain_ticks(panel: Axes, axis: str, values: Any) -> None:
    """Set the ticks of the "x" or "y" axis to `values`, labeled by plain numbers rather than powers of ten.

    Superscripts in small type are hard to read.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    side = panel.xaxis if axis == "x" else panel.yaxis
    side.set_major_locator(FixedLocator(list(values)))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter(FuncFormatter(lambda value, _: _tick(value)))


def thousands(panel: Axes) -> None:
    """Separate the thousands of the numbers at both axes."""
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    for side in (panel.xaxis, panel.yaxis):
        low, high = side.get_view_interval()
        if 10_000 <= max(abs(low), abs(high)) < 1e9:
            side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace("-", "\N{MINUS SIGN}")))
        else:
            side.set_major_formatter(ScalarFormatter(useOffset=False))


def _tick(value: float) -> str:
    """Return the label of a tick: a plain number, or a power of ten for very small and very large powers."""
    power = round(log10(value))
    if value >= 10_000 and value == int(value):
        return f"{value:,.0f}"
    if 1e-4 < value < 1e5 or value != 10.0**power:
        return f"{value:g}"
    return "10" + str(power).translate(SUPERSCRIPTS)


def to_svg(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element for a page, with the colors and the font of the page."""
    file = io.StringIO()
    # Date and creator are omitted, so that equal results give equal figures, and the page has no URLs.
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    head, _, body = text[text.index("<svg ") :].partition(">")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL).replace("xlink:href", "href")
    # A style element in a figure would apply to all of the page.
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    # Identifiers get the name of the figure as a prefix, because Matplotlib numbers them from one in every figure, and
    # those of several figures on a page would clash.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r"(font: [^;\"]*?px) [^;\"]*", r"\1 var(--sans)", body)
    for color, variable in VARIABLES.items():
        body = body.replace(color, f"var({variable})")
    body = _compact(body)
    (box,) = re.findall(r'viewBox="[^"]*"', head)
    return f'<svg {box} {STROKES} aria-hidden="true" focusable="false">{body.strip()}'


def _compact(body: str) -> str:
    """Return SVG of which the coordinates have two decimals, and runs of equal markers share one style.

    A scatter plot of 2000 points takes about 115 kB rather than 250 kB.
    """
    body = re.sub(
        r'((?:x|y|d|width|height|transform)=")([^"]*)"',
        lambda found: found[1] + re.sub(r"(\d\.\d\d)\d+", r"\1", found[2]).replace("\n", "") + '"',
        body,
    )
    marker = r'<use href="(#[\w-]+)" x="([^"]*)" y="([^"]*)" style="([^"]*)"/>'
    runs = re.compile(rf"(?:{marker}\s*){{2,}}")

    def shared(run: re.Match[str]) -> str:
        parts = re.findall(marker, run[0])
        if len({(href, style) for href, _, _, style in parts}) > 1:
            return run[0]
        uses = "".join(f'<use href="{href}" x="{x}" y="{y}"/>' for href, x, y, _ in parts)
        return f'<g style="{parts[0][3]}">{uses}</g>\n'

    return runs.sub(shared, body)
