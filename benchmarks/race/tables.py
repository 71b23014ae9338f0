"""The results of the race as tables: all figures as text, and the main ones as Markdown for docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness import format_table

from race import data
from race.cell import UNITS
from race.judge import OURS, Summary, Table, best_exact
from race.methods import METHODS

HEADER = ("method", "error", "+-", "2nd", "R2", "fit s", "rows/s", "GB", "model MB", "rows", "splits", "")
SIZES = (("peak bytes", 1e9), ("model bytes", 1e6))
#: The columns of errors in Markdown, beside the best exact kernel model.
COMPARED = (OURS, "hist", "lightgbm-tuned", "xrfm")
#: The columns of costs in Markdown.
COSTS = (("fit seconds", 1.0), ("rows per second", 1.0), ("peak bytes", 1e9), ("model bytes", 1e6))


def row_of(method: str, one: Summary) -> tuple[str, ...]:
    """Return a row of the table of a data set."""
    reasons = "; ".join(sorted({f"{cell['state']}: {cell['reason']}" for cell in one.unfinished}))
    second = one.mean("log loss") if one.mean("log loss") is not None else one.mean("log density")
    gigabytes, megabytes = (None if (v := one.mean(key)) is None else v / u for key, u in SIZES)
    used, there = one.mean("rows used"), one.mean("train rows")
    rows = "-" if used is None else "all" if used == there else f"{used:.0f} of {there:.0f}"
    figures = (one.mean("score"), one.error(), second, one.mean("R2"), one.mean("fit seconds"))
    figures = (*figures, one.mean("rows per second"), gigabytes, megabytes)
    return (METHODS[method].title, *map(short, figures), rows, str(len(one.finished)), reasons)


def print_tables(table: Table) -> None:
    """Print the table of every data set; the second figure is the log loss, or the negative log density."""
    for name, methods in table.items():
        kind = "error in %, 2nd: log loss" if data.is_classification(name) else "relative RMSE, 2nd: - log density"
        rows = [row_of(method, one) for method, one in methods.items() if method != UNITS]
        if rows:
            print(f"\n{name} ({kind})\n{format_table(HEADER, rows)}")


def print_markdown(table: Table) -> None:
    """Print the tables of docs/benchmarks.md: errors of regression, errors and losses of labels, and costs of ours."""
    titles = [METHODS[key].title for key in COMPARED]
    for names in (data.REGRESSION, data.CLASSIFICATION):
        print_rows(("data", *titles, "best exact kernel model"), error_rows(table, names))
    print_rows(("log loss", *titles[:3]), loss_rows(table))
    print_rows(("data", "splits", "fit, s", "predicted rows per s", "peak GB", "model MB"), cost_rows(table))


def print_rows(header: Sequence[str], rows: Iterator[tuple[str, ...]]) -> None:
    """Print one table in Markdown."""
    print()
    for row in (header, ("---",) * len(header), *rows):
        print(f"| {' | '.join(row)} |")


def error_rows(table: Table, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the mean errors with their standard errors and numbers of splits; that of ours is bold if it is least."""
    for name in (name for name in names if name in table):
        methods = table[name]
        exact = best_exact(methods)
        shown = [methods.get(key) for key in (*COMPARED, exact or "")]
        least = min(value for one in shown if one is not None and (value := one.mean("score")) is not None)
        texts = [error_text(one) for one in shown]
        if shown[0] is not None and shown[0].mean("score") == least:
            texts[0] = f"**{texts[0]}**"
        if exact:
            texts[-1] += f" {METHODS[exact].title}{sample_text(methods[exact])}"
        yield (name, *texts)


def error_text(one: Summary | None) -> str:
    """Return a mean error, its standard error, and the number of splits."""
    if one is None:
        return ""
    if (mean := one.mean("score")) is None:
        return f"did not finish in {one.seconds():.0f} s" if one.seconds() else "failed"
    return f"{short(mean)} ± {one.error():.2g} ({len(one.finished)})"


def sample_text(one: Summary) -> str:
    """Return the number of rows of the fit if they are not all."""
    used, there = one.mean("rows used"), one.mean("train rows")
    return "" if used == there else f", {used:,.0f} of {there:,.0f} rows"


def loss_rows(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield the mean logarithmic losses of the classification sets."""
    for name in (name for name in data.CLASSIFICATION if name in table):
        losses = [one and one.mean("log loss") for one in map(table[name].get, COMPARED[:3])]
        yield (name, *("" if loss is None else short(loss) for loss in losses))


def cost_rows(table: Table) -> Iterator[tuple[str, ...]]:
    """Yield time, memory and size of the models without arguments."""
    for name, methods in table.items():
        if OURS in methods and methods[OURS].finished:
            one = methods[OURS]
            yield (name, str(len(one.finished)), *(short(one.mean(key) / unit) for key, unit in COSTS))


def short(value: float | None) -> str:
    """Return a figure with three significant digits, or all of an integer part."""
    return "-" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
