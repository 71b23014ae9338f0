"""The figures of the page of a fitted model; each function returns an SVG element.

No figure that Matplotlib draws contains text of the user, such as names of columns, which it could take for formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10
from unicodedata import east_asian_width

import numpy as np

from mercer.diagnostics.fits.results import Contender, CurvePoint, MapAudit, ReliabilityBin
from mercer.report.model.summaries import ErrorBars, Quantiles
from mercer.report.svg import MARKERS, MUTED, PAPER, SERIES, figure_style, panels, plain_ticks, thousands, to_svg

__all__ = [
    "MOST_CELLS",
    "confusion",
    "contenders",
    "error_bars",
    "kernel_errors",
    "learning_curve",
    "predicted_by_true",
    "reliability",
    "residuals",
]

Array = np.ndarray
# Above this number of labels, cells of a confusion matrix are too small to be seen.
MOST_CELLS = 60
# Up to this number of labels, cells contain numbers.
MOST_NUMBERS = 10
# Width of hand-made figures, in the units of the others (5.5 inches of 72 points), and of the names of labels.
WIDTH, NAME_WIDTH = 396.0, 84.0
# Largest cells of confusion matrices.
LARGEST_CELL = 80.0
# Largest opacity of cells, so that numbers on them can be read.
DARKEST = 0.45


def contenders(some: Sequence[Contender], name: str = "scores") -> str:
    """Return the headline scores of all models with their intervals."""
    with figure_style(name):
        figure, axes = panels(height=0.85 + 0.42 * len(some))
        panel = axes[0, 0]
        for i, one in enumerate(some):
            score, color = one.scores[0], SERIES[min(i, len(SERIES) - 1)]
            ends = [end for end in (score.low, score.high) if np.isfinite(end)]
            panel.plot(ends, [i] * len(ends), "-", color=color, linewidth=3, alpha=0.55, solid_capstyle="butt")
            panel.plot([score.value], [i], MARKERS[min(i, 3)], color=color, markersize=8)
        panel.set_yticks(range(len(some)), [one.name for one in some], parse_math=False)
        panel.set_ylim(len(some) - 0.5, -0.5)
        panel.tick_params(axis="y", length=0)
        panel.grid(visible=True, axis="x")
        panel.margins(x=0.08)
        panel.locator_params(axis="x", nbins=6)
        panel.set_xlabel(f"{some[0].scores[0].name} of test rows")
        return to_svg(figure, name)


def learning_curve(curve: Sequence[CurvePoint], score: str, name: str = "curve") -> str:
    """Return scores against numbers of training rows, with intervals as a band."""
    rows = [one.n_rows for one in curve]
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        panel.fill_between(
            rows, [one.low for one in curve], [one.high for one in curve], color=SERIES[0], alpha=0.2, linewidth=0
        )
        panel.semilogx(rows, [one.value for one in curve], "-", color=SERIES[0], linewidth=2)
        panel.plot(rows[:-1], [one.value for one in curve[:-1]], "o", color=SERIES[0], markersize=6)
        panel.plot(rows[-1:], [curve[-1].value], "o", color=SERIES[0], markersize=10, markeredgecolor=PAPER)
        plain_ticks(panel, "x", rows)
        panel.margins(x=0.1)
        panel.grid(visible=True, axis="y")
        panel.set(xlabel="training rows", ylabel=f"{score} of test rows")
        return to_svg(figure, name)


def predicted_by_true(true: Array, predicted: Array, name: str = "predicted") -> str:
    """Return predictions against true values of test rows."""
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        ends = [float(min(true.min(), predicted.min())), float(max(true.max(), predicted.max()))]
        _scatter(panel, true, predicted)
        panel.plot(ends, ends, "--", color=MUTED, linewidth=1.2)
        panel.grid(visible=True, axis="y")
        panel.locator_params(nbins=5)
        thousands(panel)
        panel.set(xlabel="true value", ylabel="prediction")
        return to_svg(figure, name)


def residuals(true: Array, predicted: Array, bands: Sequence[Quantiles], name: str = "residuals") -> str:
    """Return residuals against predictions, with their quantiles in groups of similar predictions."""
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        _scatter(panel, predicted, true - predicted)
        panel.axhline(0, color=MUTED, linewidth=1.2, linestyle="--")
        if len(bands) > 1:
            at = [one.predicted for one in bands]
            panel.plot(at, [one.middle for one in bands], "-", color=SERIES[1], linewidth=2, label="median")
            panel.plot(at, [one.low for one in bands], ":", color=SERIES[1], linewidth=1.6, label="5 % and 95 %")
            panel.plot(at, [one.high for one in bands], ":", color=SERIES[1], linewidth=1.6)
            panel.legend(loc="best", fontsize=11)
        panel.grid(visible=True, axis="y")
        panel.locator_params(nbins=5)
        thousands(panel)
        panel.set(xlabel="prediction", ylabel="true value minus prediction")
        return to_svg(figure, name)


def error_bars(groups: Sequence[ErrorBars], name: str = "bars") -> str:
    """Return measured errors against predicted standard deviations, in groups of rows of similar ones."""
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        x, y = [one.predicted for one in groups], [one.measured for one in groups]
        ends = [min(x + y), max(x + y)]
        panel.plot(ends, ends, "--", color=MUTED, linewidth=1.2)
        for one in groups:
            panel.plot([one.predicted] * 2, [one.low, one.high], "-", color=SERIES[0], linewidth=2, alpha=0.55)
        panel.plot(x, y, "o", color=SERIES[0], markersize=7)
        panel.set(xlim=(0, None), ylim=(0, None))
        panel.grid(visible=True, axis="y")
        panel.locator_params(nbins=5)
        thousands(panel)
        panel.set(xlabel="predicted standard deviation", ylabel="measured error (RMSE)")
        return to_svg(figure, name)


def reliability(bins: Sequence[ReliabilityBin], name: str = "reliability") -> str:
    """Return observed frequencies against predicted probabilities."""
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        panel.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1)
        for one in bins:
            panel.plot([one.predicted] * 2, [one.low, one.high], "-", color=SERIES[0], linewidth=2, alpha=0.55)
        sizes = [20 + 120 * one.count / max(other.count for other in bins) for one in bins]
        panel.scatter([one.predicted for one in bins], [one.observed for one in bins], s=sizes, color=SERIES[0])
        left = min(0.5, *(one.predicted for one in bins)) - 0.04
        bottom = min(left, *(one.low for one in bins)) - 0.04
        panel.set(xlim=(left, 1.04), ylim=(bottom, 1.05))
        panel.set(xlabel="predicted probability of the predicted label", ylabel="share of correct labels")
        panel.grid(visible=True, axis="y")
        return to_svg(figure, name)


def kernel_errors(audit: MapAudit, name: str = "widths") -> str:
    """Return kernel errors against numbers of components, with the chosen number."""
    points = sorted((one.width, one.error, one.low, one.high) for one in audit.widths if one.error > 0)
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        line = sorted([(width, error) for width, error, _, _ in points] + [(audit.width, audit.rmse)])
        panel.loglog([w for w, e in line if e > 0], [e for _, e in line if e > 0], "-", color=SERIES[0], linewidth=1.5)
        for width, _, low, high in points:
            panel.plot([width] * 2, [low, high], "-", color=SERIES[0], linewidth=3, alpha=0.4)
        panel.plot([w for w, *_ in points], [e for _, e, *_ in points], "o", color=SERIES[0], markersize=6)
        if audit.rmse > 0:
            panel.plot([audit.width], [audit.rmse], "D", color=SERIES[1], markersize=10, markeredgecolor=PAPER)
            side = {"xytext": (6, 9), "textcoords": "offset points", "ha": "left"}
            panel.annotate("chosen", (audit.width, audit.rmse), color=SERIES[1], fontweight="bold", **side)
        plain_ticks(panel, "x", [width for width, _ in line])
        plain_ticks(panel, "y", _steps(*panel.get_ylim()))
        panel.margins(x=0.1)
        panel.grid(visible=True, axis="y")
        panel.set(xlabel="number of components", ylabel="RMSE of the kernel")
        return to_svg(figure, name)


def confusion(counts: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
    """Return a confusion matrix as cells, whose opacity is the share of the rows of the same true label."""
    k = len(classes)
    size = min(12.0, 0.85 * (WIDTH - NAME_WIDTH) / k)
    names = size >= 6
    bottom = 10 + size / 12 * max(_width(_short(one)) for one in classes) if names else 6.0
    left, top = max(bottom, 10.0), 20.0
    cell = min((WIDTH - left) / k, LARGEST_CELL)
    parts = []
    for i, row in enumerate(counts):
        total = sum(row)
        for j, value in enumerate(row):
            x, y = left + j * cell, top + i * cell
            if value:
                opacity = DARKEST * max(0.3, (value / total) ** 0.5)  # rare mistakes are seen, too
                box = f'x="{x:.1f}" y="{y:.1f}" width="{cell:.1f}" height="{cell:.1f}"'
                parts.append(f'<rect {box} fill="var(--series-{int(i != j)})" fill-opacity="{opacity:.2f}"/>')
            if k <= MOST_NUMBERS:
                number = f'x="{x + cell / 2:.1f}" y="{y + cell / 2 + 4:.1f}" text-anchor="middle"'
                parts.append(f"<text {number}>{value if value < 100_000 else f'{value / 1000:.0f}k'}</text>")
    if names:
        for i, one in enumerate(classes):
            at = (i + 0.5) * cell
            text = escape(_short(one))
            parts.append(f'<text x="{left - 5:.1f}" y="{top + at + 0.35 * size:.1f}" text-anchor="end">{text}</text>')
            x, y = left + at + 0.35 * size, top + k * cell + 6
            turned = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)"'
            parts.append(f'<text text-anchor="end" {turned}>{text}</text>')
    end = top + k * cell
    frame = f'<rect x="{left:.1f}" y="{top:.1f}" width="{k * cell:.1f}" height="{k * cell:.1f}" fill="none"'
    parts.append(frame + ' stroke="var(--line)"/>')
    parts.append('<text x="0" y="12" style="font-size: 12px">true label</text>')
    height = end + bottom + 18
    middle = left + k * cell / 2
    label = f'x="{middle:.1f}" y="{height - 4:.1f}" text-anchor="middle" style="font-size: 12px"'
    parts.append(f"<text {label}>predicted label</text>")
    style = f'style="font-size: {size:.1f}px; font-family: var(--sans); fill: var(--ink)"'
    box = f'viewBox="0 0 {WIDTH:.0f} {height:.0f}"'
    return f'<svg {box} aria-hidden="true" focusable="false"><g {style}>{"".join(parts)}</g></svg>'


def _short(name: str, width: float = NAME_WIDTH - 10) -> str:
    """Return the start of a name that fits into a width, in a font of 12 units."""
    if _width(name) <= width:
        return name
    end = next(i for i in range(len(name) + 1) if _width(name[: i + 1]) + 12 > width)
    return name[:end] + "…"


def _width(name: str) -> float:
    """Return an estimate of the width of a name in a font of 12 units, generous, since the font is that of the reader.

    Characters of eastern Asia and symbols are as wide as they are high.
    """
    return sum(12.5 if east_asian_width(one) in "WF" else 7.6 for one in name)


def _scatter(panel: object, x: Array, y: Array) -> None:
    alpha, size = (0.35, 3.2) if len(x) > 300 else (0.7, 3.2 if len(x) > 50 else 6.0)
    panel.plot(x, y, "o", color=SERIES[0], markersize=size, markeredgewidth=0, alpha=alpha)  # type: ignore[attr-defined]


def _steps(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis: powers of ten, and their multiples by 2 and 5 if there are few."""
    powers = range(floor(log10(low)), floor(log10(high)) + 1)
    tens = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(tens) >= 3:
        return tens
    return [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]
