"""Options that several commands have, and how sizes and durations are written."""

from __future__ import annotations

import re
import shlex
import sys
from typing import Annotated, Any, List, Optional  # noqa: UP035 - the oldest supported typer does not accept `list`

import typer

from mercer.cli.config import read_config

__all__ = [
    "AsJson",
    "Config",
    "Drop",
    "Header",
    "Keep",
    "Kernel",
    "Lengthscale",
    "MemoryLimit",
    "NComponents",
    "NJobs",
    "Quiet",
    "RandomState",
    "Target",
    "TimeLimit",
    "command_line",
    "parse_bytes",
    "parse_seconds",
    "show_progress",
]

UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY = {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_bytes(text: str | int) -> int:
    """Return a size such as "1GB", "512 MiB" or "2e9" as a number of bytes.

    Examples
    --------
    >>> parse_bytes("1GB"), parse_bytes("1.5 GiB"), parse_bytes("2e9")
    (1000000000, 1610612736, 2000000000)
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]i?)?b?\s*", str(text), re.IGNORECASE)
    try:
        number = float(found[1]) if found else -1.0
    except ValueError:
        number = -1.0
    unit = (found[2] or "").upper() if found else ""
    value = number * {**UNITS, **BINARY}[unit]
    if not 1 <= value < 2**63:
        msg = f"{text!r} is not a size. Write a number and a unit, such as 500MB, 1GB or 2GiB."
        raise typer.BadParameter(msg)
    return int(value)


def parse_seconds(text: str | float) -> float:
    """Return a duration such as "90", "10m" or "1h30m" as a number of seconds.

    Examples
    --------
    >>> parse_seconds("90"), parse_seconds("10m"), parse_seconds("1h30m")
    (90.0, 600.0, 5400.0)
    """
    compact = str(text).replace(" ", "").lower().replace("min", "m").replace("sec", "s")
    if not re.fullmatch(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)[smhd]?(?:[0-9]+\.?[0-9]*[smhd])*", compact):
        msg = f"{text!r} is not a duration. Write seconds, or a number and a unit, such as 90, 10m or 1h30m."
        raise typer.BadParameter(msg)
    total = sum(float(number) * SECONDS[unit] for number, unit in re.findall(r"([0-9.]+)([smhd]?)", compact))
    if not 0 < total < 1e9:
        msg = f"{text!r} must be longer than 0 seconds."
        raise typer.BadParameter(msg)
    return total


def parse_lengthscale(text: str | float) -> Any:
    """Return a lengthscale: a positive number, or "median"."""
    if str(text).lower() == "median":
        return "median"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        msg = f"{text!r} must be a number above 0, or median."
        raise typer.BadParameter(msg)
    return value


def command_line() -> str:
    """Return the command as it was typed, for reports."""
    return shlex.join(["mercer", *sys.argv[1:]])


def show_progress(quiet: bool) -> bool:
    """Return whether progress is shown: on a terminal, unless it is to be quiet."""
    return sys.stderr.isatty() and not quiet


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Config = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--config",
        metavar="FILE.toml",
        is_eager=True,
        callback=read_config,
        help="TOML file of options: a table per command, [fit], with the names of the flags. Flags override it.",
    ),
]
Target = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--target", "-t", metavar="COLUMN", help="Column that is predicted."),
]
NJobs = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--n-jobs", min=1, show_default="all cores", help="Number of threads."),
]
RandomState = Annotated[int, typer.Option("--random-state", min=0, max=2**32 - 1, help="Seed of all random numbers.")]
MemoryLimit = Annotated[
    Optional[Any],  # noqa: UP045
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        parser=parse_bytes,
        show_default="half of what is free",
        help="Memory of the process, such as 1GB; larger tables are read in blocks or sampled.",
    ),
]
TimeLimit = Annotated[
    Optional[Any],  # noqa: UP045
    typer.Option("--time-limit", metavar="TIME", parser=parse_seconds, help="Time, such as 90 (seconds), 10m or 1h."),
]
Keep = Annotated[
    Optional[List[str]],  # noqa: UP006, UP045
    typer.Option("--keep", metavar="COLUMN", help="Column to copy to the output, such as an identifier; repeatable."),
]
Drop = Annotated[
    Optional[List[str]],  # noqa: UP006, UP045
    typer.Option("--drop", metavar="COLUMN", help="Column that is not used; repeatable."),
]
Header = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option(
        "--header/--no-header",
        show_default="by the first lines",
        help="Whether the first line of CSV files has the names of the columns.",
    ),
]
Kernel = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--kernel",
        metavar="NAME",
        show_default="gaussian",
        help="gaussian, laplacian, cauchy, matern12, matern32, matern52, rational-quadratic, polynomial2, polynomial3, "
        "arc-cosine or exponential.",
    ),
]
Lengthscale = Annotated[
    Optional[Any],  # noqa: UP045
    typer.Option(
        "--lengthscale",
        metavar="NUMBER",
        parser=parse_lengthscale,
        show_default="median",
        help="Lengthscale of the kernel, or median, the median distance of rows.",
    ),
]
NComponents = Annotated[int, typer.Option("--n-components", min=1, max=2**20, help="Number of components.")]
