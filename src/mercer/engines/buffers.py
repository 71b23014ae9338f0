"""Buffer pool for large outputs.

The operating system clears every page that it hands out, which takes a good part of the time of a transform. So the
memory of a large result is reused for the next result that fits, once the last view of the former is gone, as in the
caching allocators of GPU libraries. At most `POOL_BYTES` are idle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["POOL_BYTES", "recycled_bytes"]

POOL_BYTES = 128 * 2**20
# Smaller arrays come from the heap, which retains its pages.
LARGE = 2**21
# A buffer is reused for a result if it is at most this many times larger.
MOST_EXCESS = 1.25

_idle: dict[int, np.ndarray] = {}


def recycled_bytes(size: int) -> np.ndarray:
    """Return `size` uninitialized bytes, in the memory of an earlier result if one fits."""
    if size < LARGE:
        return np.empty(size, np.uint8)
    owner = _take(size)
    lease = (np.empty(size, np.uint8) if owner is None else owner).view(Lease)
    lease.owner = lease.base
    return lease[:size]


class Lease(np.ndarray):
    """A view of a buffer that returns the buffer to the pool when the last view made from it is gone."""

    owner: Any = None  # the buffer; views of this view have none, and return nothing

    def __del__(self) -> None:
        if self.owner is not None:
            _keep(self.owner)


def _take(size: int) -> np.ndarray | None:
    fitting = [(owner.size, key) for key, owner in list(_idle.items()) if size <= owner.size <= MOST_EXCESS * size]
    for _, key in sorted(fitting):
        owner = _idle.pop(key, None)  # another thread may have taken it
        if owner is not None:
            return owner
    return None


def _keep(owner: np.ndarray) -> None:
    # The latest buffer is the most likely to be reused, so the oldest are dropped.
    while owner.size <= POOL_BYTES < owner.size + sum(idle.size for idle in list(_idle.values())):
        oldest = next(iter(list(_idle)), None)
        if oldest is None:
            break
        _idle.pop(oldest, None)
    if owner.size <= POOL_BYTES:
        _idle[id(owner)] = owner
