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

__all__ = ["MARKERS", "MUTED", "PAPER", "SERIES", "figure_style", "panels", "plain_ticks", "to_svg"]

INK, MUTED, GRID, PAPER = "#010101", "#020202", "#030303", "#040404"
SERIES = ("#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04")
# Series differ in shape as well as in color, for readers who cannot distinguish the colors.
MARKERS = ("o", "s", "^", "D")
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper"} | {
    color: f"--series-{i}" for i, color in enumerate(SERIES)
}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "font.size": 11,
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


def _tick(value: float) -> str:
    """Return the label of a tick: a plain number, or a power of ten for very small and very large powers."""
    power = round(log10(value))
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
    # Identifiers get the name of the figure as a prefix, because Matplotlib numbers them from one in every figure, and
    # those of several figures on a page would clash.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r"(font: [^;\"]*?px) [^;\"]*", r"\1 var(--sans)", body)
    for color, variable in VARIABLES.items():
        body = body.replace(color, f"var({variable})")
    (box,) = re.findall(r'viewBox="[^"]*"', head)
    return f'<svg {box} aria-hidden="true" focusable="false">{body.strip()}'
