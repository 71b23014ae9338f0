"""Which files are meant, and whether they are there."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from mercer.errors import DataError, ParameterError

__all__ = ["check_file", "find_files"]


def find_files(source: Any, ends: Sequence[str] = ()) -> list[Path]:
    """Return the files that a path, a pattern, a folder or a list of these stands for, in order.

    Of a folder those are taken whose names end in one of `ends`. Whether single files exist is left to who opens them.
    """
    if isinstance(source, list | tuple):
        found = [path for one in source for path in find_files(one, ends)]
        if not found:
            msg = "There is no file to open: the list of paths is empty."
            raise ParameterError(msg)
        return found
    if not isinstance(source, str | PathLike):
        msg = (
            f"Paths or Arrow data are needed, got {type(source).__name__}. Arrays need not be opened: pass them to fit "
            "as they are."
        )
        raise ParameterError(msg)
    path = Path(fspath(source)).expanduser()
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.lower().endswith(tuple(ends)) and file.is_file())
        if not files:
            msg = f"The folder {path} has no file whose name ends in {', '.join(ends)}."
            raise DataError(msg)
        return files
    if not path.exists() and any(mark in str(path) for mark in "*?["):
        matches = sorted(map(Path, glob.glob(str(path))))
        if not matches:
            msg = f"No file matches {path}."
            raise DataError(msg)
        return matches
    return [path]


def check_file(path: Path) -> Path:
    """Return the path of a file that is there and not empty."""
    if not path.exists():
        folder = path.parent
        why = "There is no such file." if folder.is_dir() else f"There is no folder {folder}."
        msg = f"{path} cannot be opened. {why}"
        raise DataError(msg)
    if path.is_file() and path.stat().st_size == 0:
        msg = f"{path} is empty: it has no bytes."
        raise DataError(msg)
    return path
