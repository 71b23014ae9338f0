"""The scoreboard as one self-contained HTML page."""

from __future__ import annotations

from typing import Any

from mercer.errors.packages import optional_module
from mercer.report.svg import MARKERS, SERIES, figure_style, to_svg
from mercer.report.templates import NEEDED, render
from mercer.reproduce.run import COMPARED, Scoreboard, TableResult

__all__ = ["scoreboard_page"]

# Figures whose largest one is more than this multiple of the least one have a logarithmic axis.
WIDE_RANGE = 100


def scoreboard_page(board: Scoreboard) -> str:
    """Return the results of `reproduce` as an HTML page, without scripts and external files.

    Parameters
    ----------
    board : Scoreboard
        The results.

    Returns
    -------
    str
    """
    for package in NEEDED:
        optional_module(package, "scoreboard_page", "'mercer[report]'")
    from markupsafe import Markup

    # The pictures are our own SVG; everything else is escaped.
    pictures: dict[str, Any] = {table.name: Markup(_picture(table)) if table.rows else None for table in board.tables}
    return render("scoreboard.html.j2", board=board, pictures=pictures, lead=_lead(board))


def _lead(board: Scoreboard) -> str:
    """Return the first sentence of the page."""
    total = {name: sum(table.counts().get(name, 0) for table in board.tables) for name in COMPARED}
    rows = sum(total.values())
    smaller = sum(row.smaller for table in board.tables for row in table.rows)
    more = f" {smaller} further rows had fewer rows of data than in the paper." if smaller else ""
    if not rows:
        return f"No row can be compared.{more}" if smaller else "No row was run."
    return _counts(total, rows) + more


def _counts(total: dict[str, int], rows: int) -> str:
    """Return how many rows are better, equal and worse."""
    return (
        f"In {total['better']} of {rows} rows mercer is better than the best figure of the paper, in {total['equal']} "
        f"it is equal within a standard error, and in {total['worse']} it is worse."
    )


def _picture(table: TableResult) -> str:
    """Return a plot of the figures of a table: one line per row, a mark for the paper and one for mercer."""
    from matplotlib.figure import Figure

    with figure_style(table.name):
        figure = Figure(figsize=(5.5, max(1.6, 0.9 + 0.26 * len(table.rows))), layout="constrained")
        panel = figure.subplots()
        positions = range(len(table.rows))
        series: list[tuple[str, list[float | None]]] = [
            ("paper", [row.best_published for row in table.rows]),
            ("exact, here", [_value(row.best("exact")) for row in table.rows]),
            ("paper's method, here", [_value(row.best("paper")) for row in table.rows]),
            ("mercer", [_value(row.best("ours")) for row in table.rows]),
        ]
        for i, (title, values) in enumerate(series):
            points = [(value, y) for value, y in zip(values, positions, strict=True) if value is not None]
            if points:
                x, y = zip(*points, strict=True)
                panel.plot(x, y, MARKERS[i], color=SERIES[(i + 1) % 4], label=title, markersize=6, linestyle="none")
        shown = [value for _, values in series for value in values if value is not None]
        if min(shown) > 0 and max(shown) > WIDE_RANGE * min(shown):
            panel.set_xscale("log")
        panel.set_yticks(list(positions), [row.name for row in table.rows])
        panel.set_ylim(len(table.rows) - 0.5, -0.5)
        panel.grid(visible=True, axis="both")
        panel.tick_params(axis="y", length=0)
        figure.supxlabel(f"{table.measure}{f' in {table.unit}' if table.unit else ''}", fontsize="medium")
        figure.legend(loc="outside upper left", ncols=2, handletextpad=0.2)
        return to_svg(figure, table.name)


def _value(cell: Any) -> float | None:
    return None if cell is None else float(cell.value)
