"""Files that are replaced atomically.

A reader of a file that is replaced sees either the complete previous content or the complete new content. The new
content is written to a temporary file in the same folder, whose name cannot be predicted and which must not exist: in a
folder that others can write to, a link under a predictable name would redirect the writing to another file.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from operator import or_
from pathlib import Path
from typing import IO

__all__ = [
    "open_regular",
    "remove_temporary_files",
    "replacing",
    "terminating_cleanly",
    "unresolved",
    "why_not_written",
    "write_text",
]

# Flags that not every system has. The last one keeps a named pipe from blocking.
OPEN_FLAGS = ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NONBLOCK")


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically: a reader sees either the complete previous content or the complete new content.

    Parameters
    ----------
    path : path-like
        The file to write; missing folders are created. A symbolic link is replaced by the file.
    text : str
        The content.

    Returns
    -------
    Path
        The absolute path.
    """
    target = unresolved(path)
    with replacing(target) as file:
        file.write(text.encode("utf-8"))
    return target


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that atomically replaces `path` at the end of the with statement.

    After an error, the temporary file is removed and `path` is unchanged. A process that is killed leaves its temporary
    file; see `remove_temporary_files`. If `path` is a symbolic link, the link is replaced, not the file it refers to.
    """
    target = unresolved(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:  # fails if the name exists, also as a link
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise the renaming may reach the disk before the content
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):  # the first error is the one to report
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(target), None  # a full disk is reported without a name
        raise


@contextmanager
def terminating_cleanly() -> Iterator[None]:
    """Let a SIGTERM end the process only after the files that are being written have been removed.

    The default action of the signal ends a process at once, and would leave a temporary file. It is not changed in
    threads other than the main one, which cannot do so, or if the program handles the signal itself.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    arrived: list[int] = []

    def terminate(number: int, _: object) -> None:
        arrived.append(number)
        raise _TerminatedError

    try:
        try:
            signal.signal(signal.SIGTERM, terminate)
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except _TerminatedError:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    finally:
        if arrived:  # also if the exception was raised where Python ignores it, as in a destructor
            signal.raise_signal(signal.SIGTERM)


class _TerminatedError(BaseException):
    """Raised by a SIGTERM, as KeyboardInterrupt is by a SIGINT."""


def why_not_written(error: OSError, path: str | os.PathLike[str], needed: int) -> str:
    """Return why a file of about `needed` bytes could not be written; of a full disk, also how much is free."""
    why = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return why
    free = None
    with suppress(OSError):
        free = shutil.disk_usage(Path(path).parent).free
    known = f", and {free:,} bytes are free" if free is not None and error.errno == errno.ENOSPC else ""
    return f"{why} (it needs about {needed:,} bytes{known})"


def remove_temporary_files(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes left while they wrote `path` by `replacing`.

    The caller must ensure that no other process is writing `path`, for instance by a `FileLock`.
    """
    target = unresolved(path)
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.part")
    with suppress(OSError):  # what cannot be listed or removed stays, and disturbs nothing
        for name in os.listdir(target.parent):
            if pattern.fullmatch(name):
                (target.parent / name).unlink()


def unresolved(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file in its real folder; a link in place of the file itself is not followed."""
    given = Path(path)
    return given.parent.resolve() / given.name


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading; raise OSError if `path` is a symbolic link or anything else."""
    if os.path.islink(path):  # also where the system has no flag for it
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
    descriptor = os.open(path, os.O_RDONLY | reduce(or_, (getattr(os, flag, 0) for flag in OPEN_FLAGS)))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(descriptor, "rb")
