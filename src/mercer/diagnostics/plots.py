"""Figures of audits and comparisons. Matplotlib is imported when the first figure is made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.diagnostics.subject import Subject
from mercer.errors import ParameterError
from mercer.errors.packages import optional_module

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from mercer.diagnostics.audit import Audit
    from mercer.diagnostics.compare import Comparison

__all__ = ["audit_figure", "comparison_figure"]

Array = np.ndarray
INK, MUTED, GRID = "#1f2328", "#6e7781", "#e4e7eb"
# Colors of Okabe and Ito, which readers with color vision deficiencies can distinguish, without the light yellow.
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
COLORS = (BLUE, ORANGE, GREEN, "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#8c6d31", "#7b4173", "#637939")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.size": 10,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}
# Number of rows on each side of the pairs of which exact and approximate values are shown.
SHOWN_ROWS = 200
# Number of bins of distances in figures.
BINS = 12


@contextmanager
def _style(owner: str) -> Iterator[Any]:
    """Context manager in which figures have the style of this module; it yields the class Figure.

    pyplot is not used, because it would choose a backend and keep global state.
    """
    mpl = optional_module("matplotlib", owner, '"mercer[report]"')
    figure = optional_module("matplotlib.figure", owner, '"mercer[report]"')
    with mpl.rc_context(STYLE):
        yield figure.Figure


# ---- audits ---------------------------------------------------------------------------------------


def audit_figure(audit: Audit, subject: Subject) -> Figure:
    """Return the figure of an audit: errors by distance, approximate against exact values, and errors by width."""
    with _style("Audit.plot") as figure_class:
        try:
            audit.prediction_method  # noqa: B018 - raises if there is no prediction
            panels = 3
        except ParameterError:
            panels = 2
        figure = figure_class(figsize=(4.3 * panels, 4.0), layout="constrained")
        axes = figure.subplots(1, panels)
        _errors_by_distance(axes[0], audit)
        _approximate_against_exact(axes[1], figure, subject)
        if panels == 3:
            _errors_by_width(axes[2], audit)
        title = f"{audit.feature_map}, {audit.n_components} components: RMSE {audit.rmse:.2g}"
        figure.suptitle(f"{title}, {_short(audit.kernel)}", x=0.01, ha="left", fontsize=10, color=MUTED)
        return figure


def _errors_by_distance(panel: Axes, audit: Audit) -> None:
    bins = audit.by_distance(BINS).bins
    at = np.array([one.center for one in bins])
    for color, label, marker, means, ends in (
        (BLUE, "RMSE", "o", [one.rmse for one in bins], [one.rmse_interval for one in bins]),
        (ORANGE, "mean error", "s", [one.mean_error for one in bins], [one.mean_error_interval for one in bins]),
    ):
        low, high = np.array(ends).T
        panel.fill_between(at, low, high, color=color, alpha=0.2, linewidth=0)
        panel.plot(at, means, marker=marker, color=color, label=label, markersize=4, linewidth=1.5)
    panel.axhline(0, color=MUTED, linewidth=0.8)
    panel.set(title="Error by distance", xlabel="distance of the two rows", ylabel="error of the kernel")
    panel.legend(title=None if audit.all_pairs else "with 95 % intervals", title_fontsize=9, alignment="left")


def _approximate_against_exact(panel: Axes, figure: Figure, subject: Subject) -> None:
    rows = subject.some_rows(2 * SHOWN_ROWS, "shown")
    left, right = (subject.X[part] for part in np.array_split(rows, 2))
    feature_map = subject.feature_map
    exact = feature_map.kernel_(left, right).ravel()
    approximate = feature_map.inner_products(feature_map.apply(left), feature_map.apply(right)).ravel()
    ends = [float(min(exact.min(), approximate.min())), float(max(exact.max(), approximate.max()))]
    if len(exact) < 2000:
        panel.plot(exact, approximate, "o", color=BLUE, markersize=2.5, markeredgewidth=0, alpha=0.6)
    else:
        cells = panel.hexbin(exact, approximate, gridsize=45, bins="log", mincnt=1, cmap="Blues", linewidths=0.2)
        figure.colorbar(cells, ax=panel, label="number of pairs", shrink=0.85, pad=0.02)
    panel.plot(ends, ends, "--", color=ORANGE, linewidth=1.2, label="equal")
    panel.set(title="Approximate against exact", xlabel="exact kernel value", ylabel="approximate kernel value")
    panel.legend(loc="upper left")


def _errors_by_width(panel: Axes, audit: Audit) -> None:
    known = [audit.n_components, *(one.n_components for one in audit.widths)]
    widths = np.unique(np.geomspace(max(1, min(known) // 2), 4 * max(known), 17).astype(int))
    panel.plot(widths, [audit.predict_rmse(int(w)) for w in widths], "-", color=BLUE, linewidth=1.5, label="predicted")
    bands = [audit.predict_interval(int(w)) for w in widths]
    if all(band is not None for band in bands):
        low, high = np.array(bands).T
        panel.fill_between(widths, low, high, color=BLUE, alpha=0.15, linewidth=0, label="95 % of draws")
    points = [(one.n_components, error) for one in audit.widths for error in one.rmse]
    if points:
        panel.plot(*np.array(points).T, "o", color=GREEN, markersize=4, alpha=0.8, label="other draws")
    low_end, high_end = audit.rmse_interval
    ends = [[audit.rmse - low_end], [high_end - audit.rmse]]
    marks: dict[str, Any] = {"color": ORANGE, "markersize": 7, "capsize": 3}
    panel.errorbar([audit.n_components], [audit.rmse], yerr=ends, fmt="D", label="this map", **marks)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    _plain_powers_of_two(panel, widths)
    _plain_numbers(panel.yaxis)
    panel.set(title="Error by width", xlabel="number of components", ylabel="RMSE of the kernel")
    panel.legend(loc="lower left")


# ---- comparisons ----------------------------------------------------------------------------------


def comparison_figure(comparison: Comparison) -> Figure:
    """Return the figure of a comparison: the error against the number of components, the time and the memory."""
    with _style("Comparison.plot") as figure_class:
        figure = figure_class(figsize=(12.5, 5.2), layout="constrained")
        axes = figure.subplots(1, 3, sharey=True)
        names = list(dict.fromkeys(one.name for one in comparison.maps))
        for i, name in enumerate(names):
            curve = sorted((one for one in comparison.maps if one.name == name), key=lambda one: one.n_components)
            rmse = [max(one.rmse, np.finfo(float).tiny) for one in curve]
            low, high = np.array([one.rmse_range for one in curve]).T
            look = {
                "color": COLORS[i % len(COLORS)],
                "marker": MARKERS[i % len(MARKERS)],
                "linestyle": "--" if curve[0].library == "scikit-learn" else "-",
                "markersize": 5,
                "linewidth": 1.5,
            }
            for panel, values in (
                (axes[0], [one.n_components for one in curve]),
                (axes[1], [one.transform_seconds for one in curve]),
                (axes[2], [one.n_bytes for one in curve]),
            ):
                label = name if panel is axes[0] else None
                if len(curve) > 1:
                    panel.fill_between(values, low, high, color=look["color"], alpha=0.15, linewidth=0)
                else:
                    panel.plot(values * 2, [low[0], high[0]], "-", color=look["color"], linewidth=1)
                panel.plot(values, rmse, label=label, **look)
        for panel in axes:
            panel.set_xscale("log")
            panel.set_yscale("log")
        _plain_numbers(axes[0].yaxis)
        _plain_numbers(axes[1].xaxis, "s")
        _plain_numbers(axes[2].xaxis, "B")
        axes[0].set_xscale("log", base=2)
        _plain_powers_of_two(axes[0], [one.n_components for one in comparison.maps])
        axes[0].set(title="Error by width", xlabel="number of components", ylabel="RMSE of the kernel, held-out rows")
        axes[1].set(title="Error by time", xlabel=f"time to transform {comparison.n_rows:,} rows")
        axes[2].set(title="Error by memory", xlabel="size of the fitted map")
        draws = f"{comparison.n_draws} draws: line at the root mean square, band from least to largest"
        figure.suptitle(f"{_short(comparison.kernel)}, {draws}", x=0.01, ha="left", fontsize=10, color=MUTED)
        figure.legend(loc="outside lower center", ncols=min(5, len(names)))
        return figure


def _short(kernel: str) -> str:
    """Return the text of a kernel with at most four digits of each number."""
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda number: f"{float(number[0]):.4g}", kernel)


def _plain_powers_of_two(panel: Axes, widths: Sequence[int] | Array) -> None:
    """Set the ticks of the x axis to the powers of two in the range of the widths, written as numbers."""
    ticker = optional_module("matplotlib.ticker", "plot", '"mercer[report]"')
    low, high = math.log2(min(widths)), math.log2(max(widths))
    if low == high:
        panel.set_xlim(min(widths) / 2, max(widths) * 2)
    ticks = [2**power for power in range(math.floor(low), math.ceil(high) + 1)]
    panel.xaxis.set_major_locator(ticker.FixedLocator(ticks[:: 1 + len(ticks) // 8]))
    panel.xaxis.set_minor_locator(ticker.NullLocator())
    panel.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))


def _plain_numbers(axis: Axis, unit: str = "") -> None:
    """Label a logarithmic axis with plain numbers, or with numbers and a unit with its prefix, such as 20 ms."""
    ticker = optional_module("matplotlib.ticker", "plot", '"mercer[report]"')
    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    steps = (1.0, 2.0, 5.0) if decades < 1.5 else (1.0, 3.0) if decades < 3 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(subs=steps, numticks=10))
    axis.set_minor_locator(ticker.NullLocator())
    plain = ticker.FuncFormatter(lambda value, _: f"{value:g}")
    axis.set_major_formatter(ticker.EngFormatter(unit, places=0) if unit else plain)
