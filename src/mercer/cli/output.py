"""What commands print: JSON, and errors and warnings as single lines on the error stream."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from mercer.errors import MercerError

__all__ = ["check_target", "one_line_errors", "print_json"]


def check_target(output: str) -> None:
    """Raise `OSError` if the file `output` cannot be written. This is checked first, because commands take a while."""
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


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def one_line_errors() -> Iterator[None]:
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
