"""The application that the commands belong to, its version option and its entry point."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="mercer",
    help="Kernel methods at linear cost.",
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,  # help in plain text, because importing rich takes more time than everything else
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line interface and exit."""
    app(prog_name="mercer")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mercer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Kernel methods at linear cost."""
