"""The commands ``demo`` and ``info``: what mercer is, and what is installed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Any, Optional

import typer

from mercer.cli.output import check_stdout, check_target, one_line_errors, print_json
from mercer.errors import MercerError

DEFAULT_PAGE = "mercer-demo.html"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def info(
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="MODEL", help="Model file to describe instead."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show versions, threads and BLAS, or what a model file has.

    \b
    Example:
      mercer info model.mercer
    """
    with one_line_errors():
        if model is not None:
            from mercer.model_files import describe_model

            about = describe_model(model)
            if as_json:
                print_json(asdict(about) | {"path": str(about.path)})
            else:
                typer.echo(str(about))
            return
        from mercer.diagnostics.environment import describe_environment
        from mercer.report.text import print_environment

        environment = describe_environment()
        if as_json:
            print_json(environment.to_dict())
        else:
            print_environment(environment, sys.stdout)


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
    """Race models without arguments, compare feature maps, write a page.

    \b
    Example:
      mercer demo -o demo.html
    """
    check_stdout(output, as_json)
    with one_line_errors():
        from mercer.report.page import missing_packages

        missing = missing_packages()
        if missing and output is not None:
            msg = f"--output needs {' and '.join(missing)}. Try: pip install 'mercer[report]'"
            raise MercerError(msg)
        target = output or DEFAULT_PAGE
        if not missing:
            check_target(target)

        from mercer.diagnostics.demo import run_demo
        from mercer.report.text import print_demo, progress_bar

        with progress_bar() as progress:
            result = run_demo(n_components=n_components, random_state=random_state, progress=progress)
        if not as_json:  # print before the page is written, so that the results are not lost if that fails
            print_demo(result, sys.stderr if target == "-" else sys.stdout)
        page = None if missing else _write_page(result, target)
        if as_json:
            print_json(result.to_dict() | {"page": page})
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
