"""The page of the race: errors by seconds of fit, the tables and the targets, as one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import machine
import numpy as np
from harness import Report
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

import mercer
from mercer.report import numbers
from mercer.report.svg import MUTED, SERIES, figure_style, panels, plain_ticks, to_svg
from race import data
from race.cell import UNITS
from race.judge import Summary, Table
from race.methods import METHODS, Method

TEMPLATE = Path(__file__).with_name("race.html.j2")
FAMILIES = ("ours", "trees", "exact kernels", "other kernels")
#: Markers of Matplotlib and the same shapes as characters; the methods of a family have different ones.
SHAPES = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼"}
#: Where a label may be, as offsets in points from its marker, in the order of preference.
OFFSETS = ((7, 0), (-7, 0), (0, 9), (0, -9), (7, 9), (7, -9), (-7, 9), (-7, -9))
LABELS = {
    "ours": "mercer", "ours-limited": "mercer, 10 min", "hist": "HistGB", "lightgbm": "LightGBM",
    "lightgbm-tuned": "LightGBM tuned", "svm": "SVM", "gpr": "GPR", "kernel-ridge": "KernelRidge",
    "neighbors": "k-NN", "rbf-sampler": "RBFSampler", "nystroem": "Nystroem", "xrfm": "xRFM",
    "xrfm-tuned": "xRFM tuned",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """The color and the marker of a method."""

    family: int
    marker: str

    @property
    def shape(self) -> str:
        """The marker as a character."""
        return SHAPES[self.marker]


def looks() -> dict[str, Look]:
    """Return the color and the marker of every method: colors by family, markers within it."""
    counts = dict.fromkeys(FAMILIES, 0)
    out = {}
    for key, method in METHODS.items():
        out[key] = Look(FAMILIES.index(method.family), list(SHAPES)[counts[method.family]])
        counts[method.family] += 1
    return out


@dataclass(frozen=True)
class Point:
    """A method in the plot of a data set."""

    key: str
    seconds: float
    score: float
    error: float


def points_of(methods: Mapping[str, Summary]) -> list[Point]:
    """Return the methods that finished, in the order of their seconds."""
    found = []
    for key, one in methods.items():
        if key != UNITS and one.finished:
            found.append(Point(key, one.mean("fit seconds"), one.mean("score"), one.error() or 0.0))
    return sorted(found, key=lambda point: point.seconds)


def frontier(points: list[Point]) -> list[Point]:
    """Return the points that no other one is both faster and better than, by seconds."""
    out: list[Point] = []
    for point in sorted(points, key=lambda point: (point.seconds, point.score)):
        if not out or point.score < out[-1].score:
            out.append(point)
    return out


def plot(name: str, methods: Mapping[str, Summary]) -> str:
    """Return the plot of error by seconds of fit as an SVG element."""
    points, appearance = points_of(methods), looks()
    best = frontier(points)
    with figure_style(name):
        figure, axes = panels(height=4.4)
        panel = axes[0, 0]
        panel.set_xscale("log")
        scores = [point.score for point in points]
        if min(scores) > 0 and max(scores) / min(scores) > 2:
            panel.set_yscale("log")
        steps = [(a.seconds, b.seconds, a.score, b.score) for a, b in pairwise(best)]
        for left, right, above, below in steps:
            for xs, ys in (((left, right), (above, above)), ((right, right), (above, below))):
                panel.plot(xs, ys, "-", color=MUTED, linewidth=1, zorder=1)
        for point in points:
            look = appearance[point.key]
            size = 9 if look.family == 0 else 6.5
            panel.plot([point.seconds] * 2, [point.score - point.error, point.score + point.error], "-",
                       color=SERIES[look.family], linewidth=1.5, alpha=0.55)  # fmt: skip
            panel.plot([point.seconds], [point.score], look.marker, color=SERIES[look.family], markersize=size)
        panel.margins(x=0.14, y=0.1)
        ticks(panel)
        panel.grid(visible=True, axis="y")
        unit = "test error, %" if data.is_classification(name) else "relative RMSE"
        panel.set(xlabel="seconds of fit", ylabel=unit)
        label(figure, panel, points, {point.key for point in best}, appearance)
        return to_svg(figure, name)


def ticks(panel: Any) -> None:
    """Set plain ticks at round numbers, at least three where the axis has them."""
    from matplotlib.ticker import MaxNLocator

    plain_ticks(panel, "x", round_numbers(*panel.get_xlim()))
    low, high = panel.get_ylim()
    if panel.get_yscale() == "log":
        values = round_numbers(low, high)
    else:
        values = [float(f"{value:.6g}") for value in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)]
    plain_ticks(panel, "y", [value for value in values if low <= value <= high and value > 0])


def round_numbers(low: float, high: float) -> list[float]:
    """Return powers of ten in an interval, with multiples of them if there are few."""
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        values = [float(f"{step * decade:.6g}") for decade in 10.0 ** np.arange(-6, 7) for step in steps]
        found = [value for value in values if low <= value <= high]
        if len(found) >= 3:
            break
    return found


def label(figure: Any, panel: Any, points: list[Point], best: set[str], appearance: dict[str, Look]) -> None:
    """Write names beside markers where they cover nothing: ours and the frontier first; others may stay without."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    centers = panel.transData.transform([(point.seconds, point.score) for point in points])
    radius = 6 * figure.dpi / 72
    taken = [(x - radius, y - radius, x + radius, y + radius) for x, y in centers]
    # Boxes of two pixels around the bars and around the lines of the frontier.
    taken += [(*box.min - 1, *box.max + 1) for box in (line.get_window_extent(renderer) for line in panel.lines)
              if min(box.width, box.height) < 1]  # fmt: skip
    frame = panel.get_window_extent(renderer)
    first = sorted(points, key=lambda point: (appearance[point.key].family != 0, point.key not in best))
    for point in first:
        for dx, dy in OFFSETS:
            align = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = panel.annotate(
                LABELS[point.key], (point.seconds, point.score), xytext=(dx, dy), textcoords="offset points",
                ha=align, va="center", fontsize=9, color=SERIES[appearance[point.key].family],
            )  # fmt: skip
            box = text.get_window_extent(renderer)
            own = (box.x0, box.y0 + 1, box.x1, box.y1 - 1)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(overlap(own, other) for other in taken):
                taken.append(own)
                break
            text.remove()


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Return whether two boxes (left, bottom, right, top) have common points."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def rows_of(methods: Mapping[str, Summary]) -> list[dict[str, Any]]:
    """Return the rows of the table of a data set, with the least error marked; methods without figures come last."""
    appearance = looks()
    out = []
    for key, one in methods.items():
        if key == UNITS:
            continue
        second = one.mean("log loss")
        out.append(
            {
                "title": METHODS[key].title,
                "look": appearance[key],
                "score": one.mean("score"),
                "error": one.error(),
                "second": one.mean("log density") if second is None else second,
                "fit": one.mean("fit seconds"),
                "rate": one.mean("rows per second"),
                "peak": one.mean("peak bytes"),
                "size": one.mean("model bytes"),
                "used": one.mean("rows used"),
                "rows": one.mean("train rows"),
                "chosen": one.finished[0]["chosen"] if one.finished else None,
                "splits": len(one.finished),
                "unfinished": sorted({f"{cell['state']}: {cell['reason']}" for cell in one.unfinished}),
            }
        )
    out.sort(key=lambda row: (row["score"] is None, row["score"] or 0.0))
    return out


def write_page(table: Table, report: Report, file: Path) -> Path:
    """Write the page and return its path."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    for name in numbers.__all__:
        write = getattr(numbers, name)
        environment.filters[name] = lambda *given, write=write: write(*given).replace(" ", "\N{NO-BREAK SPACE}")
    environment.filters["megabytes"] = lambda n_bytes: f"{numbers.significant(n_bytes / 1e6, 2)}\N{NO-BREAK SPACE}MB"
    sets = [
        {
            "name": name,
            "labels": data.is_classification(name),
            "rows": rows_of(methods),
            "plot": Markup(plot(name, methods)),
            "best": [LABELS[point.key] for point in frontier(points_of(methods))],
        }
        for name, methods in table.items()
        if points_of(methods) and name != data.SYNTHETIC
    ]
    verdicts = [(check, report.verdict(check)) for check in report.checks]
    families: dict[str, list[tuple[Look, Method]]] = {family: [] for family in FAMILIES}
    for key, look in looks().items():
        families[METHODS[key].family].append((look, METHODS[key]))
    page = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        sets=sets,
        verdicts=verdicts,
        met=sum(verdict.startswith("met") for _, verdict in verdicts),
        failed=sum(verdict.startswith("NOT") for _, verdict in verdicts),
        notes=report.notes,
        settings=report.settings,
        families=families,
        version=mercer.__version__,
        processor=machine.processor(),
        versions=versions_of(table),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
    return file


def versions_of(table: Table) -> dict[str, str]:
    """Return the versions of the packages that the cells were measured with."""
    found: dict[str, set[str]] = {}
    for methods in table.values():
        for one in methods.values():
            for cell in one.finished:
                for package, version in cell["versions"].items():
                    if version is not None:
                        found.setdefault(package, set()).add(version)
    return {package: " and ".join(sorted(some)) for package, some in found.items()}
