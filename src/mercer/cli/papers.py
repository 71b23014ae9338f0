r"""The command ``reproduce``: published tables, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, List, Optional  # noqa: UP035 - the oldest supported typer does not accept `list`

import typer

from mercer.cli.options import AsJson, Quiet, show_progress
from mercer.cli.output import check_target, one_line_errors, print_json
from mercer.errors import ParameterError


def reproduce(
    names: Annotated[
        Optional[List[str]],  # noqa: UP006, UP045
        typer.Argument(metavar="TABLE...", help="Names of tables, or all; without one, the tables are listed."),
    ] = None,
    *,
    data: Annotated[str, typer.Option("--data", metavar="DIR", help="Folder of the data sets, npz files.")] = "data",
    quick: Annotated[bool, typer.Option("--quick", help="Leave out large rows, and use fewer splits.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Folder of results, where an earlier run continues.")
    ] = "reproduced",
    row: Annotated[
        Optional[List[str]],  # noqa: UP006, UP045
        typer.Option("--row", help="Run one row of a table; may be repeated."),
    ] = None,
    splits: Annotated[Optional[int], typer.Option(min=1, help="Number of splits.")] = None,  # noqa: UP045
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run published tables again, and write the scoreboard.

    \b
    Example:
      mercer reproduce munkhoeva --quick --data folder
    """
    with one_line_errors():
        from mercer.reproduce import TABLES, scoreboard_page
        from mercer.reproduce import reproduce as run
        from mercer.reproduce.datasets import where

        if not names:
            for table in TABLES.values():
                typer.echo(f"{table.name}: {table.published.title}; {table.published.measure}")
            sets = {
                name: None for table in TABLES.values() for one in table.rows(False) for name in table.datasets(one)
            }
            typer.echo(f"\nData sets, one npz file each:\n{where(tuple(sorted(sets)))}")
            return
        if row and len(names) != 1:
            msg = f"--row needs the name of one table, got {len(names)} names."
            raise ParameterError(msg)
        page = str(Path(output) / "scoreboard.html")
        check_target(page)
        board = run(
            names, data, quick=quick, output=output, rows=row or None, splits=splits, progress=show_progress(quiet)
        )
        from mercer.io import write_text
        from mercer.report.templates import missing_packages

        if as_json:
            print_json(board.to_dict())
        else:
            typer.echo(str(board))
        if missing_packages():
            typer.echo("No page was written. For a page with figures: pip install 'mercer[report]'", err=True)
        else:
            typer.echo(f"Page: {write_text(page, scoreboard_page(board))}", err=as_json)
