"""The command line interface ``mercer``: it parses arguments, calls the library and prints the results.

Exit codes are 0 for success, 1 for failure and 2 for wrong usage. Numerical libraries take seconds to import, so they
are imported inside the commands, and ``mercer --help`` remains fast.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from mercer import __version__
from mercer.errors import MercerError

__all__ = ["app", "main"]

DEFAULT_PAGE = "mercer-demo.html"

app = typer.Typer(
    name="mercer",
    help="Kernel methods at linear cost.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,  # help in plain text, because importing rich takes more time than everything else
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


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


@app.command()
def info(*, as_json: AsJson = False) -> None:
    """Show versions, compiled kernels, threads and BLAS."""
    with _one_line_errors():
        from mercer.diagnostics.environment import describe_environment
        from mercer.report.text import print_environment

        environment = describe_environment()
        if as_json:
            _print_json(environment.to_dict())
        else:
            print_environment(environment, sys.stdout)


@app.command()
def demo(
    *,
    output: Annotated[
        Optional[str],  # noqa: UP045 - the oldest supported typer does not accept `str | None`
        typer.Option("--output", "-o", show_default=DEFAULT_PAGE, help="HTML page to write; - for stdout."),
    ] = None,
    # The ranges are those of `run_demo`. Stated here, too, they make an invalid number a usage error (exit code 2).
    n_components: Annotated[int, typer.Option(min=16, max=1024, help="Number of components of every map.")] = 512,
    random_state: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all random numbers.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare four feature maps on digits; write a page of results."""
    if as_json and output == "-":
        msg = "--json and --output - both write to stdout. Pass a file as --output."
        raise typer.BadParameter(msg)
    with _one_line_errors():
        from mercer.report.page import missing_packages

        missing = missing_packages()
        if missing and output is not None:
            msg = f"--output needs {' and '.join(missing)}. Try: pip install 'mercer[report]'"
            raise MercerError(msg)
        target = output or DEFAULT_PAGE
        if not missing:
            _check_target(target)

        from mercer.diagnostics.demo import run_demo
        from mercer.report.text import print_demo, progress_bar

        with progress_bar() as progress:
            result = run_demo(n_components=n_components, random_state=random_state, progress=progress)
        if not as_json:  # print before the page is written, so that the results are not lost if that fails
            print_demo(result, sys.stderr if target == "-" else sys.stdout)
        page = None if missing else _write_page(result, target)
        if as_json:
            _print_json(result.to_dict() | {"page": page})
        if missing:
            typer.echo("No page was written. For a page with figures: pip install 'mercer[report]'", err=True)
        elif page is not None:
            typer.echo(f"Page: {page}", err=as_json)


def _write_page(result: Any, output: str) -> str | None:
    """Write the HTML page of the demo to the file `output`, or to stdout if it is "-".

    Return the path of the file, or None for stdout.
    """
    from mercer.io import write_text
    from mercer.report.page import demo_page

    text = demo_page(result)
    if output == "-":
        sys.stdout.write(text)
        return None
    return str(write_text(output, text))


def _check_target(output: str) -> None:
    """Raise `OSError` if the file `output` cannot be written. This is checked first, because the demo takes a while."""
    if output == "-":
        return
    target = Path(output)
    if target.is_dir():
        raise IsADirectoryError(None, "it is a folder; pass the name of a file", output)
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(None, f"{folder} is not a folder", output)
    if not os.access(folder, os.W_OK):
        raise PermissionError(None, f"no permission to write in {folder}", output)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Print each warning, mercer error or file error as one line on stderr. Exit with code 1 after an error."""
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        try:
            yield
        except MercerError as error:
            typer.echo(f"mercer: {_one_line(error)}", err=True)
            raise typer.Exit(1) from error
        except OSError as error:
            if error.filename is None:
                raise
            typer.echo(f"mercer: cannot write {error.filename}: {error.strerror}", err=True)
            raise typer.Exit(1) from error


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"mercer: warning: {_one_line(message).removeprefix('mercer: ')}", err=True)


def _one_line(message: object) -> str:
    return "; ".join(line.strip() for line in str(message).splitlines())
