"""Resolution of paths, glob patterns and folders to lists of files."""

from __future__ import annotations

import glob
import gzip
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO

from mercer.errors import DataError, ParameterError

__all__ = ["check_file", "check_size", "find_files", "open_bytes", "shortened"]

GZIP = ".gz"


def find_files(source: Any, ends: Sequence[str] = ()) -> list[Path]:
    """Return the list of files given by a path, a glob pattern, a folder, or a list of these.

    For a folder, these are the files in it and in its subfolders whose names end in one of `ends`, sorted by path.
    Files and subfolders whose names start with a dot or an underscore are skipped, as in Arrow and Spark. The path of a
    single file is returned even if the file does not exist; see `check_file`.
    """
    if isinstance(source, list | tuple):
        found = [path for one in source for path in find_files(one, ends)]
        if not found:
            msg = "There is no file to open, because the list of paths is empty."
            raise ParameterError(msg)
        return found
    if not isinstance(source, str | PathLike):
        msg = (
            f"Paths or Arrow data are needed, got {type(source).__name__}. Arrays need not be opened; pass them to fit "
            "directly."
        )
        raise ParameterError(msg)
    try:
        path = Path(fspath(source)).expanduser()
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        msg = f"{str(source)[:80]!r} is not the path of a file, a pattern or a folder: {error}."
        raise DataError(msg) from error
    if is_folder:
        files = list(_files_below(path, tuple(ends), set()))
        if not files:
            msg = f"The folder {path} and its subfolders have no file whose name ends in {', '.join(ends)}."
            raise DataError(msg)
        return files
    if not exists and any(wildcard in str(path) for wildcard in "*?["):
        matches = sorted(map(Path, glob.glob(str(path), recursive=True)))
        if not matches:
            msg = f"No file matches {path}."
            raise DataError(msg)
        # A pattern may match a folder and also files in it; each file is returned once.
        return list(dict.fromkeys(file for one in matches for file in find_files(str(one), ends)))
    return [path]


def _files_below(folder: Path, ends: tuple[str, ...], above: set[Path]) -> Iterator[Path]:
    """Yield the files in a folder and its subfolders whose names end in one of `ends`, sorted by path.

    Names that start with a dot or an underscore are skipped. Raises DataError if symbolic links form a cycle.

    Parameters
    ----------
    folder : Path
        The folder to search.
    ends : tuple of str
        Endings of file names in lower case, such as ".csv".
    above : set of Path
        Resolved paths of the parent folders that are being searched; empty for the first folder. If `folder` is a link
        to one of them, there is a cycle.
    """
    real = folder.resolve()
    if real in above:
        msg = f"The folder {folder} is a link to one of its parent folders, which is a cycle. Pass the files instead."
        raise DataError(msg)
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        msg = f"The folder {folder} cannot be read: {error}."
        raise DataError(msg) from error
    for path in inside:
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            yield from _files_below(path, ends, {*above, real})
        elif path.name.lower().endswith(ends):
            yield path


def check_file(path: Path) -> Path:
    """Return `path` unchanged; raise DataError if this file does not exist or is empty."""
    if not path.exists():
        folder = path.parent
        why = "There is no such file." if folder.is_dir() else f"There is no folder {folder}."
        msg = f"{path} cannot be opened. {why}"
        raise DataError(msg)
    if path.is_file() and path.stat().st_size == 0:
        msg = f"{path} is empty (0 bytes)."
        raise DataError(msg)
    return path


def check_size(path: str | Path, size: int) -> None:
    """Raise DataError if a file is shorter than `size` bytes, because it was replaced after it was opened."""
    if Path(path).stat().st_size < size:
        raise shortened(path)


def shortened(path: str | Path) -> DataError:
    """Return the error for a file that has fewer bytes than when it was opened."""
    return DataError(
        f"{path} has become shorter while it was read: {Path(path).stat().st_size:,} bytes are left. Does another "
        "process write it? Open it again when it is complete."
    )


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes; those of a file whose name ends in ``.gz`` are decompressed."""
    if str(path).lower().endswith(GZIP):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return open(path, "rb")
