"""Buffer pool for large outputs.

The operating system zeroes every page of newly allocated memory, which can take a large fraction of the time of a
transform. The memory of a large result is therefore returned to a pool when the last view of the result is deleted, and
reused for a later result that fits, as in the caching allocators of GPU libraries. The pool holds at most `POOL_BYTES`
of unused memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["POOL_BYTES", "recycled_bytes"]

POOL_BYTES = 128 * 2**20
# Smaller arrays come from the heap, which retains its pages.
LARGE = 2**21
# A buffer is reused for a result if it is at least as large, and at most this many times larger.
MOST_EXCESS = 1.25

# Unused buffers by their id, the oldest first.
_idle: dict[int, np.ndarray] = {}


def recycled_bytes(size: int) -> np.ndarray:
    """Return an uninitialized uint8 array of `size` bytes. A large array may reuse a buffer of the pool."""
    if size < LARGE:
        return np.empty(size, np.uint8)
    owner = _take(size)
    lease = (np.empty(size, np.uint8) if owner is None else owner).view(Lease)
    lease.owner = lease.base
    return lease[:size]


class Lease(np.ndarray):
    """Array that is a view of a buffer, and returns this buffer to the pool when the array is deleted.

    Views and slices of the array hold a reference to it, so it is deleted only after the last of them.
    """

    owner: Any = None  # the buffer; None for views and slices of this view, which return nothing to the pool

    def __del__(self) -> None:
        if self.owner is not None:
            _keep(self.owner)


def _take(size: int) -> np.ndarray | None:
    """Remove the smallest suitable buffer from the pool and return it, or None if no buffer is suitable.

    Suitable buffers have at least `size` and at most ``MOST_EXCESS * size`` bytes.
    """
    fitting = [(owner.size, key) for key, owner in list(_idle.items()) if size <= owner.size <= MOST_EXCESS * size]
    for _, key in sorted(fitting):
        owner = _idle.pop(key, None)  # another thread may have taken it
        if owner is not None:
            return owner
    return None


def _keep(owner: np.ndarray) -> None:
    """Add a buffer to the pool, and drop the oldest buffers if the pool would exceed `POOL_BYTES`."""
    # The most recent buffer is the most likely to be reused.
    while owner.size <= POOL_BYTES < owner.size + sum(idle.size for idle in list(_idle.values())):
        oldest = next(iter(list(_idle)), None)
        if oldest is None:
            break
        _idle.pop(oldest, None)
    if owner.size <= POOL_BYTES:
        _idle[id(owner)] = owner
