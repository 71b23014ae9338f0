"""Memory of results that nobody holds any more, kept for the next ones.

The operating system clears every page that it gives out, a good part of the time of a transform. So the memory of a
large result goes, when the last view of it is gone, to the next result that it fits, as in the allocators
of GPU libraries; all that is kept idle is at most `KEPT_BYTES`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["KEPT_BYTES", "recycled_bytes"]

KEPT_BYTES = 128 * 2**20
# Smaller memory comes from a heap that keeps its pages anyway.
LARGE = 2**21
# A result takes memory of at most this many times its size.
ROOMY = 1.25

_idle: dict[int, np.ndarray] = {}


def recycled_bytes(size: int) -> np.ndarray:
    """Return `size` bytes of any content, in memory of an earlier result if there is some that fits."""
    if size < LARGE:
        return np.empty(size, np.uint8)
    owner = _take(size)
    lease = (np.empty(size, np.uint8) if owner is None else owner).view(Lease)
    lease.owner = lease.base
    return lease[:size]


class Lease(np.ndarray):
    """A view of memory that gives it back when it dies, which is when the last view made from it is gone."""

    owner: Any = None  # the memory itself; views of this view have none, and give nothing back

    def __del__(self) -> None:
        if self.owner is not None:
            _keep(self.owner)


def _take(size: int) -> np.ndarray | None:
    fitting = [(owner.size, key) for key, owner in list(_idle.items()) if size <= owner.size <= ROOMY * size]
    for _, key in sorted(fitting):
        owner = _idle.pop(key, None)  # another thread may have been quicker
        if owner is not None:
            return owner
    return None


def _keep(owner: np.ndarray) -> None:
    # The latest is the likeliest to be of use again: the oldest make room for it.
    while owner.size <= KEPT_BYTES < owner.size + sum(idle.size for idle in list(_idle.values())):
        oldest = next(iter(list(_idle)), None)
        if oldest is None:
            break
        _idle.pop(oldest, None)
    if owner.size <= KEPT_BYTES:
        _idle[id(owner)] = owner
