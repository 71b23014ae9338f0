"""Files on disk, written so that nobody ever sees half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_text"]


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
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", text=True)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # Temporary files are private; what replaces a file people read must not be.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return target
