"""Files on disk, written so that nobody ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["remove_file", "replacing", "write_text"]


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically: a reader sees the old content or the new, never a part.

    Parameters
    ----------
    path : path-like
        Where to; missing folders are made.
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
    """Open a file that takes the place of `path` at the end of the block, at once and whole; after an error, never.

    Whatever stops the process, there is at most one other file, which the next one to write takes over.
    """
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(target)
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # or the name may reach the disk before the content does
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_file(path: str | os.PathLike[str]) -> None:
    """Remove a file that `replacing` wrote, and what a killed process may have left beside it."""
    target = Path(path).resolve()
    for file in (target, _beside(target)):
        with suppress(FileNotFoundError):
            file.unlink()


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.part")
