"""Locks by which one process at a time writes a file."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mercer.io.files import unresolved

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock", "LockedError"]

# Errors of a file system that has no locks.
WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
# What a lock file contains; anything else is not repeated in a message.
OWNER = re.compile(r"process \d+ on [\w.-]+ since [\d: -]+ UTC")


class LockedError(OSError):
    """Raised if another process, or another thread of this process, has the lock."""

    def __init__(self, owner: str, path: Path) -> None:
        super().__init__(errno.EAGAIN, f"{owner} has the lock", str(path))
        self.owner = owner
        self.path = path


class FileLock:
    """Exclusive right to write a file, by an advisory lock on another file beside it, ``.<name>.lock``.

    The operating system releases the lock when the process ends, however it ends, so a lock file that a killed process
    left is no obstacle. Locks work between processes, between threads, and on network file systems whose server
    supports ``flock``. Where they are not supported, `acquire` returns False.

    Parameters
    ----------
    path : path-like
        The file to be written.

    Attributes
    ----------
    path : Path
        The lock file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        target = unresolved(path)
        self.path = target.with_name(f".{target.name}.lock")
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock, or verify that it is still there; raise `LockedError` if another process has it.

        Returns
        -------
        bool
            False if the system or the file system has no locks.
        """
        if fcntl is None:
            return False
        while not self._is_current():
            self.release()
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                owner = _owner(descriptor)
                os.close(descriptor)
                if error.errno in WITHOUT_LOCKS:
                    return False
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise LockedError(owner, self.path) from None
                raise
            self._descriptor = descriptor
            # Another process may have removed the file before it was locked here: then the lock has no effect.
            if self._is_current():
                self._sign()
        return True

    def release(self) -> None:
        """Give up the lock and remove its file."""
        if self._descriptor is None:
            return
        if self._is_current():
            with suppress(OSError):
                self.path.unlink()  # before it is unlocked, so that no other process has just locked it
        os.close(self._descriptor)
        self._descriptor = None

    def _is_current(self) -> bool:
        """Return whether the locked file is the one that others would try to lock."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _sign(self) -> None:
        """Write into the lock file which process has it, for the messages of others."""
        assert self._descriptor is not None
        about = os.fstat(self._descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            return  # someone placed another file there: it is locked, but not changed
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        host = re.sub(r"[^\w.-]", "-", socket.gethostname()) or "unknown"
        with suppress(OSError):  # a full disk is reported by those who write more
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {host} since {now} UTC".encode(), 0)


def _owner(descriptor: int) -> str:
    """Return the process that a lock file names."""
    try:
        text = os.pread(descriptor, 500, 0).decode()
    except (OSError, UnicodeDecodeError):
        text = ""
    return text if OWNER.fullmatch(text) else "another process"
