"""Plots of the benchmarks: bars relative to a limit, lines against rows, and errors by method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedLocator, NullFormatter, StrMethodFormatter

OURS, OTHERS, LIMIT = "#1b6ca8", "#b0b7bf", "#5b636b"
Points = Sequence[tuple[float, float]]


def color(name: str, limits: Sequence[str]) -> str:
    """Return the color of a bar: ours, a limit, or somebody else's."""
    if name.startswith("mercer"):
        return OURS
    return LIMIT if name in limits else OTHERS


def plain_ticks(axes: Axes) -> None:
    """Write the powers of ten of a logarithmic axis as plain numbers."""
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def bars(panels: Mapping[str, Mapping[str, float]], limits: Sequence[str], label: str, path: Path) -> Path:
    """Draw one panel of horizontal bars a key, on a common logarithmic axis, with a line at one.

    Parameters
    ----------
    panels : dict of str to dict of str to float
        Title to the bars: name to time relative to the limit.
    limits : sequence of str
        Names drawn in the color of limits.
    label : str
        What one unit of the axis means.
    path : Path
        File to write; its suffix chooses the format.
    """
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    tallest = max(len(panel) for panel in panels.values())
    figure = Figure(figsize=(5.2 * columns, lines * (1.1 + 0.27 * tallest)), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, panel) in zip(grid.flat, panels.items(), strict=False):
        ordered = sorted(panel.items(), key=lambda item: item[1], reverse=True)
        drawn = axes.barh(
            [n for n, _ in ordered], [v for _, v in ordered], color=[color(n, limits) for n, _ in ordered]
        )
        axes.bar_label(drawn, fmt="%.2g", padding=3, fontsize=7)
        axes.set_xscale("log")
        axes.axvline(1.0, color="black", linewidth=0.8, zorder=0)
        plain_ticks(axes)
        axes.set_title(title, fontsize=10)
        axes.tick_params(axis="y", labelsize=7)
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(label, fontsize=9)
    figure.savefig(path, dpi=120)
    return path


def against_rows(
    rows: Sequence[int], seconds: Sequence[float], gigabytes: Sequence[float], title: str, path: Path
) -> Path:
    """Draw seconds against rows, with a line of slope one, and peak memory below it."""
    figure = Figure(figsize=(5.5, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    top.loglog(rows, seconds, "o-", color=OURS, label="fit")
    linear = [seconds[-1] * n / rows[-1] for n in rows]
    top.loglog(rows, linear, "--", color=LIMIT, label="proportional to rows")
    top.set_ylabel("seconds")
    top.set_title(title, fontsize=10)
    top.legend(frameon=False)
    bottom.semilogx(rows, gigabytes, "o-", color=OURS)
    bottom.set_ylim(0, 1.4 * max(gigabytes))
    bottom.set_ylabel("peak memory, GB")
    bottom.set_xlabel("rows")
    bottom.xaxis.set_major_locator(FixedLocator(rows))
    bottom.xaxis.set_major_formatter(EngFormatter(sep=""))
    bottom.xaxis.set_minor_formatter(NullFormatter())
    top.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    top.yaxis.set_minor_formatter(NullFormatter())
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    return path


def errors_by_method(panels: Mapping[str, Mapping[str, tuple[float, float]]], label: str, path: Path) -> Path:
    """Draw one panel of bars a key: the mean error of each method in per cent, with its deviation over splits.

    Parameters
    ----------
    panels : dict of str to dict of str to (float, float)
        Title to the bars: method to mean and standard deviation.
    label : str
        What the axis means.
    path : Path
        File to write; its suffix chooses the format.
    """
    figure = Figure(figsize=(1.4 + 2.6 * len(panels), 3.4), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)
    for axes, (title, methods) in zip(grid.flat, panels.items(), strict=True):
        names = list(methods)
        means, deviations = zip(*methods.values(), strict=True)
        colors = [OURS if name == "deformed" else LIMIT if name == "plain" else OTHERS for name in names]
        axes.bar(range(len(names)), means, yerr=deviations, color=colors, capsize=3, width=0.7)
        for i, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
            axes.annotate(f"{mean:.1f}", (i, mean + deviation), (0, 3), textcoords="offset points", ha="center", size=8)
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right", size=8)
        axes.set_ylim(0, 1.15 * max(m + d for m, d in zip(means, deviations, strict=True)))
        axes.set_title(title, size=10)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0, 0].set_ylabel(label)
    figure.savefig(path)
    return path
