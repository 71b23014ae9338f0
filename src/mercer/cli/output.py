"""What commands print: JSON, and errors and warnings as single lines on the error stream."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from mercer.errors import MercerError, ParameterError

__all__ = ["announce", "check_stdout", "check_target", "check_targets", "one_line_errors", "print_json"]

INTERRUPTED = 130


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


def check_targets(*outputs: str | None) -> None:
    """Check several files; None means that a file is not written. Two outputs must not be the same file."""
    given = [output for output in outputs if output is not None]
    for output in given:
        check_target(output)
    absolute = [os.path.realpath(output) for output in given if output != "-"]
    for path in absolute:
        if absolute.count(path) > 1:
            msg = f"Two outputs are the same file, {path}. Pass different names."
            raise ParameterError(msg)


def check_stdout(output: str | None, as_json: bool) -> None:
    """Raise an error if both the output and a description as JSON would be written to stdout."""
    if as_json and output == "-":
        msg = "--json and --output - both write to stdout. Pass a file as --output."
        raise typer.BadParameter(msg)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def announce(text: str, *, err: bool) -> None:
    """Print a line while progress may be shown in the last line of the terminal, which is erased first."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
    typer.echo(text, err=err)
    sys.stdout.flush()


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print each warning or error as one line on stderr.

    The exit code is 2 after a wrong value of an option, 130 after Ctrl-C, and 1 after other errors. SIGTERM ends the
    process after temporary files are removed. A closed pipe, as of ``| head``, is no error.
    """
    from mercer.io.files import terminating_cleanly

    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        try:
            with terminating_cleanly():
                yield
                sys.stdout.flush()  # a closed pipe must not be noticed by the interpreter when it exits
        except KeyboardInterrupt:
            _fail("interrupted; no unfinished file was left behind", INTERRUPTED)
        except BrokenPipeError:
            # Python flushes stdout when it exits, which would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except ParameterError as error:
            _fail(_one_line(error), 2)
        except MercerError as error:
            _fail(_one_line(error), 1)
        except MemoryError as error:
            _fail(f"there is not enough memory{_reason(error)}. Pass a smaller --memory-limit, or fewer rows", 1)
        except OSError as error:
            why = error.strerror or _one_line(error) or type(error).__name__
            # A warning rather than `cannot read`: files that are read raise errors of the package.
            where = f"cannot write {error.filename}: " if error.filename is not None else ""
            _fail(f"{where}{why}", 1)
        except Exception as error:
            if os.environ.get("MERCER_DEBUG"):
                raise
            what = f"{type(error).__name__}: {_one_line(error)}"[:500]
            _fail(f"internal error, please report it: {what}. MERCER_DEBUG=1 shows where it occurred", 1)


def _fail(message: str, code: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    typer.echo(f"mercer: {message}", err=True)
    raise typer.Exit(code)


def _reason(error: BaseException) -> str:
    return f" ({_one_line(error)})" if str(error) else ""


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    typer.echo(f"mercer: warning: {_one_line(message).removeprefix('mercer: ')}", err=True)


def _one_line(message: object) -> str:
    return "; ".join(line.strip() for line in str(message).splitlines() if line.strip())
