"""The figures of the demo page; each function takes the results of the demo and returns an SVG element."""

from __future__ import annotations

from math import ceil, floor, log10

from mercer.diagnostics.demo import Demo
from mercer.report.numbers import significant
from mercer.report.svg import MARKERS, MUTED, PAPER, SERIES, figure_style, panels, plain_ticks, to_svg

__all__ = ["error_by_value", "error_by_width", "penalties", "reliability"]


def error_by_value(demo: Demo, name: str = "pairs") -> str:
    """Return a plot of kernel errors against exact kernel values of a sample of pairs of rows, one panel per map."""
    with figure_style(name):
        figure, axes = panels(2, 2, height=4.5)
        span = 1.08 * max(abs(error) for one in demo.contenders for error in one.pairs.error)
        for i, (panel, one) in enumerate(zip(axes.flat, demo.contenders, strict=True)):
            if one.pairs.deviation is not None:
                ordered = sorted(zip(one.pairs.exact, one.pairs.deviation, strict=True))
                exact, band = [k for k, _ in ordered], [2 * sd for _, sd in ordered]
                panel.fill_between(exact, [-b for b in band], band, color=SERIES[i], alpha=0.2, linewidth=0)
            panel.axhline(0, color=MUTED, linewidth=0.8)
            marks = {"markersize": 2.6, "markeredgewidth": 0, "alpha": 0.8}
            panel.plot(one.pairs.exact, one.pairs.error, MARKERS[i], color=SERIES[i], **marks)
            panel.set_title(one.name, color=SERIES[i], fontweight="bold")
            panel.set_ylim(-span, span)
            panel.grid(visible=True, axis="y")
        for panel in axes[:, 0]:
            panel.set_ylabel("error")
        for panel in axes[-1]:
            panel.set_xlabel("exact kernel value")
        return to_svg(figure, name)


def error_by_width(demo: Demo, name: str = "width") -> str:
    """Return a plot of measured kernel errors against the number of components, with predicted errors as lines."""
    with figure_style(name):
        figure, axes = panels(height=4.5)
        panel = axes[0, 0]
        for i, curve in enumerate(demo.curves):
            widths = [width for width, seeds in zip(curve.widths, curve.rmse, strict=True) for _ in seeds]
            errors = [error for seeds in curve.rmse for error in seeds]
            marks = {"markersize": 5, "markeredgewidth": 0, "alpha": 0.8}
            panel.loglog(widths, errors, MARKERS[i], color=SERIES[i], label=curve.name, **marks)
            if curve.predicted is not None:
                panel.loglog(curve.widths, curve.predicted, "-", color=SERIES[i], linewidth=1.5)
        plain_ticks(panel, "x", demo.curves[0].widths)
        plain_ticks(panel, "y", _decades(*panel.get_ylim()))
        panel.grid(visible=True, axis="y")
        panel.set(xlabel="number of components", ylabel="RMSE of the kernel")
        panel.legend(loc="lower left", handletextpad=0.2)
        return to_svg(figure, name)


def penalties(demo: Demo, name: str = "penalty") -> str:
    """Return a plot of the score of generalized cross-validation against the penalty alpha."""
    path, color = demo.path, _color_of_chosen(demo)
    points = {a: score for a, score in zip(path.alphas, path.scores, strict=True) if score is not None}
    low, high = min(points.values()), max(points.values())
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        panel.loglog(list(points), list(points.values()), "-", color=color, linewidth=2)
        panel.plot([path.alpha], [low], "o", color=color, markersize=10, markeredgecolor=PAPER)
        text = f"chosen: alpha = {significant(path.alpha, 2)}"
        position = {"xytext": (0, -20), "textcoords": "offset points", "ha": "center"}
        panel.annotate(text, (path.alpha, low), **position)
        panel.set_ylim(low / (high / low) ** 0.16, high * (high / low) ** 0.05)
        plain_ticks(panel, "x", _decades(min(points), max(points))[::2])
        steps = [step * decade for decade in _decades(low / 10, high) for step in (1, 2, 5)]
        plain_ticks(panel, "y", [step for step in steps if low / 2 <= step <= high])
        panel.grid(visible=True, axis="y")
        panel.set(xlabel="penalty alpha", ylabel="predicted squared error")
        return to_svg(figure, name)


def reliability(demo: Demo, name: str = "reliability") -> str:
    """Return a reliability diagram: observed frequencies against predicted probabilities."""
    color = _color_of_chosen(demo)
    with figure_style(name):
        figure, axes = panels()
        panel = axes[0, 0]
        panel.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1)
        for one in demo.reliability:
            panel.plot([one.predicted] * 2, one.interval, "-", color=color, linewidth=2, alpha=0.55)
            panel.plot([one.predicted], [one.observed], "o", color=color, markersize=8)
            # The label is placed beside the diagonal, on the side where it fits into the frame.
            side = 1 if one.predicted < 0.7 else -1
            position = {"xytext": (8 * side, -6 * side), "textcoords": "offset points", "va": "center"}
            ha = "left" if side == 1 else "right"
            panel.annotate(f"n = {one.count}", (one.predicted, one.observed), ha=ha, **position)
        panel.set(xlim=(-0.04, 1.04), ylim=(-0.07, 1.07))
        panel.set(xlabel="predicted probability", ylabel="observed frequency")
        panel.grid(visible=True, axis="y")
        return to_svg(figure, name)


def _color_of_chosen(demo: Demo) -> str:
    """Return the color of the selected feature map, which is the same in all figures."""
    return SERIES[[one.name for one in demo.contenders].index(demo.chosen)]


def _decades(low: float, high: float) -> list[float]:
    """Return the powers of ten in [low, high]."""
    return [10.0**power for power in range(ceil(log10(low)), floor(log10(high)) + 1)]
