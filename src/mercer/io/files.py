"""Atomic replacement of files: a reader sees either the complete previous content or the complete new content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["remove_file", "replacing", "write_text"]


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically: a reader sees either the complete previous content or the complete new content.

    Parameters
    ----------
    path : path-like
        The file to write; missing folders are created.
    text : str
        The content.

    Returns
    -------
    Path
        The absolute path.
    """
    target = Path(path).resolve()
    with replacing(target) as file:
        file.write(text.encode("utf-8"))
    return target


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that atomically replaces `path` at the end of the with statement.

    After an error, the temporary file is removed and `path` is unchanged.

    A process that is killed leaves at most one temporary file, which the next write to `path` overwrites.
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_path(target)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise the renaming may reach the disk before the content
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_file(path: str | os.PathLike[str]) -> None:
    """Remove a file written by `replacing` and its temporary file, which a killed process may leave, if they exist."""
    target = Path(path).resolve()
    for file in (target, _temporary_path(target)):
        with suppress(FileNotFoundError):
            file.unlink()


def _temporary_path(target: Path) -> Path:
    """Return the path of the temporary file for writing `target`, in the same folder."""
    return target.with_name(f".{target.name}.part")
