"""Large arrays: an error before they are allocated, if they cannot fit into the memory that is available.

Only arrays above `LARGE` are compared with the available memory, and only those are refused that are larger than all of
it, swap included. Where the available memory cannot be determined, nothing is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mercer.errors import TooLittleMemoryError

__all__ = ["LARGE", "available_bytes", "check_memory", "explained_memory_errors", "gib"]

#: Arrays of fewer bytes are not checked.
LARGE = 2**30

# Files of Linux, which tests replace.
PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def check_memory(owner: str, what: str, needed: float, lower: str) -> None:
    """Raise if an array needs more bytes than are available.

    Parameters
    ----------
    owner : str
        Name of the object that would allocate it; the message starts with it.
    what : str
        The array, such as "a matrix of shape (10, 10)".
    needed : float
        Number of bytes.
    lower : str
        A sentence that says what to lower. "{share}" in it is replaced by the largest share that would fit, as a
        number below one.
    """
    if needed <= LARGE:
        return
    available = available_bytes()
    if available is None or needed <= available:
        return
    advice = lower.format(share=available / needed)
    msg = f"{owner}: {what} needs {gib(needed)} of memory, but {gib(available)} are available. {advice}"
    raise TooLittleMemoryError(msg)


@contextmanager
def explained_memory_errors(owner: str, lower: str) -> Iterator[None]:
    """Context manager that turns a MemoryError, such as NumPy's, into `TooLittleMemoryError` with advice."""
    try:
        yield
    except TooLittleMemoryError:
        raise
    except MemoryError as error:
        available = available_bytes()
        have = "" if available is None else f" {gib(available)} are available."
        what = f" ({error})" if str(error) else ""
        msg = f"{owner}: there is too little memory{what}.{have} {lower}"
        raise TooLittleMemoryError(msg) from error


def gib(size: float) -> str:
    """Return a number of bytes as text, in GiB."""
    return f"{size / 2**30:,.3g} GiB" if size < 2**40 else f"{size / 2**30:,.0f} GiB"


def available_bytes() -> int | None:
    """Return the bytes that this process can still allocate, or None if that is unknown.

    This is the least of the memory and swap that the system has available, of what the limits of control groups leave,
    and of what the limit of the address space leaves.
    """
    limits = [limit for limit in (_system(), *_control_groups(), _address_space()) if limit is not None]
    return max(0, min(limits)) if limits else None


def _system() -> int | None:
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return sizes["MemAvailable"] + sizes.get("SwapFree", 0)
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:  # no Linux: all memory of the machine
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _control_groups() -> Iterator[int]:
    """Yield what each limited control group of this process, such as that of a container, has left."""
    try:
        groups = [line.split(":", 2) for line in (PROC / "self" / "cgroup").read_text().splitlines()]
    except OSError:
        return
    for number, controllers, path in (group for group in groups if len(group) == 3):
        if number == "0":
            root, names = CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            root = CGROUPS / "memory"
        else:
            continue
        folder = root / path.strip("/")
        # In a container the path is that of the host, and the group is at the root.
        for place in {folder, *folder.parents, root}:
            if place == root or root in place.parents:
                left = _left(place, *names)
                if left is not None:
                    yield left


def _left(folder: Path, limit: str, usage: str, reclaimable: str) -> int | None:
    try:
        most = (folder / limit).read_text().strip()
        if most == "max" or int(most) >= 2**60:  # no limit
            return None
        used = int((folder / usage).read_text())
        cache = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
        return int(most) - used + next((int(value) for name, value in cache if name == reclaimable), 0)
    except (OSError, ValueError):
        return None


def _address_space() -> int | None:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int((PROC / "self" / "statm").read_text().split()[0])
        return limit - pages * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError, IndexError):
        return None
