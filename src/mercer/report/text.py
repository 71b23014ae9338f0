"""Output of results as tables in a terminal, and a progress bar on the standard error stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from mercer.diagnostics.demo import Demo
from mercer.diagnostics.environment import Environment
from mercer.report.numbers import memory, percent, seconds, significant
from mercer.report.sentences import caveat, compiled_note, headline, kernels_in_use, race_headline

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["print_demo", "print_environment", "progress_bar"]

# Number of characters per line of output that is not a terminal; wide enough that no line wraps.
FILE_WIDTH = 100


def print_demo(demo: Demo, file: IO[str]) -> None:
    """Write the results of the demo to `file`: the race, settings, a table of the maps, and a summary."""
    console = _console(file)
    if demo.races:
        console.print("mercer demo: models without arguments, raw columns")
        console.print(_race_table(demo))
        console.print(f"{race_headline(demo)}\n")
    split = demo.split
    console.print(
        f"Feature maps: {split.data}, {split.n_train} training rows, {split.n_test} test rows, "
        f"{split.n_features} features"
    )
    console.print(
        f"Gaussian kernel, lengthscale {significant(demo.lengthscale)}; n_components={demo.n_components}, "
        f"random_state={demo.random_state}"
    )
    console.print(_demo_table(demo))
    console.print(headline(demo))
    console.print(f"{caveat(demo)}\n", style="dim")


def _race_table(demo: Demo) -> Table:
    """Return the table of scores and times of the race, with one row per data set and model."""
    table = _table()
    table.add_column("data")
    table.add_column("model")
    for name in ("score", "standard\nerror", "fit", "predicted rows\nper second"):
        table.add_column(name, justify="right", no_wrap=True)
    for race in demo.races:
        best = max(one.score for one in race.runners)
        for number, one in enumerate(race.runners):
            label = f"{race.data}, {race.kind}" if number == 0 else f"[dim]{race.n_train} rows[/dim]" * (number == 1)
            table.add_row(
                label,
                f"{one.name} [dim]{one.library}[/dim]",
                f"{one.score:.3f}",
                f"{one.error:.3f}",
                seconds(one.fit_seconds),
                f"{one.rows_per_second:,.0f}",
                style="bold" if one.score == best else None,
            )
    return table


def _demo_table(demo: Demo) -> Table:
    """Return the table of accuracies, errors, times and memory, with one row per feature map."""
    table = _table()
    table.add_column("feature map")
    for name in ("test\naccuracy", "relative\nerror", "kernel RMSE\nlargest error"):
        table.add_column(name, justify="right")
    for name in ("fit", "transform", "peak\nmemory"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in demo.contenders:
        chosen = one.name == demo.chosen
        table.add_row(
            f"{one.name}\n[dim]{one.library}[/dim]",
            f"{percent(one.accuracy)}\n[dim]± {percent(one.accuracy_error)}[/dim]",
            percent(one.audit.relative_error, 2),
            f"{significant(one.audit.rmse)}\n[dim]{significant(one.audit.max_error)}[/dim]",
            seconds(one.fit_seconds),
            seconds(one.transform_seconds),
            memory(one.peak_bytes),
            style="bold" if chosen else None,
        )
    return table


def print_environment(environment: Environment, file: IO[str]) -> None:
    """Write the versions, compiled kernels and threads of an environment to `file` as a table."""
    console = _console(file)
    table = _table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _entries(environment):
        table.add_row(name, value)
    console.print(table)
    note = compiled_note(environment)
    if note is not None:
        console.print(note)


def _entries(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of an environment, as pairs of a name and a value."""
    yield "mercer", environment.mercer
    yield "Python", f"{environment.python}, {environment.system}"
    yield from ((name, version or "not installed") for name, version in environment.packages.items())
    yield "kernels", kernels_in_use(environment)
    yield "threads", f"{environment.threads} of {environment.cpu_count} processors"
    for library in environment.blas:
        words = [library.library, library.version, library.architecture]
        yield "BLAS", f"{' '.join(filter(None, words))}, {library.threads} threads"
    for extra, packages in environment.extras.items():
        found = ", ".join(f"{name} {version or 'not installed'}" for name, version in packages.items())
        yield f"extra: {extra}", found


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """Yield a function that shows progress on the error stream, or None if that stream is not a terminal.

    The function takes the number of completed steps, the total number of steps and the name of the current step.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=30), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting")
        yield lambda done, total, name: bar.update(task, completed=done, total=total, description=name)


def _table(*, show_header: bool = True) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        box=box.SIMPLE_HEAD,
        show_header=show_header,
        header_style="bold",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def _console(file: IO[str]) -> Console:
    from rich.console import Console

    terminal = file.isatty()
    # No highlighting, because colored numbers would make the bold row of the selected map hard to see.
    return Console(file=file, width=None if terminal else FILE_WIDTH, highlight=False, emoji=False)
