"""Short texts that tell rows from others: in memory by all their bytes, in files by what is cheap to know of a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["digest_of", "file_in_words"]

# The end of a file, which is hashed: of Parquet it is the footer, with the extremes of every column.
TAIL_BYTES = 2**16
# Arrays that do not lie in one piece are copied so many bytes at a time.
SLAB_BYTES = 2**24


def digest_of(values: Iterable[Any]) -> str:
    """Return a digest of all bytes of arrays, dense or sparse, of which any may be None.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.io.digests import digest_of
    >>> digest_of([np.zeros(3), None]) == digest_of([np.zeros(3), None])
    True
    >>> digest_of([np.zeros(3)]) == digest_of([np.zeros((3, 1))])
    False
    """
    digest = hashlib.blake2b(digest_size=8)
    for value in values:
        if value is None:
            digest.update(b"none")
        elif sp.issparse(value):
            # One order of the entries, whatever the format, and each place once.
            entries = value.tocsr()
            if not entries.has_canonical_format:
                entries = entries.copy()
                entries.sum_duplicates()
            digest.update(f"sparse {value.shape}".encode())
            for part in (entries.data, entries.indices, entries.indptr):
                _add(digest, part)
        else:
            _add(digest, np.asarray(value))
    return digest.hexdigest()


def _add(digest: Any, array: np.ndarray) -> None:
    digest.update(f"{array.shape} {array.dtype}".encode())
    if array.dtype == object:
        digest.update(repr(array.tolist()).encode())
    elif not array.size:
        return
    elif array.flags.c_contiguous:
        digest.update(array.reshape(-1).view(np.uint8))
    else:
        step = max(1, SLAB_BYTES // max(1, array[:1].nbytes))
        for i in range(0, len(array), step):
            digest.update(np.ascontiguousarray(array[i : i + step]).reshape(-1).view(np.uint8))


def file_in_words(path: str | os.PathLike[str]) -> str:
    """Return name, size, time of the last change and a digest of the end of a file.

    Not its folder: files may be moved together.
    """
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        file.seek(max(0, about.st_size - TAIL_BYTES))
        tail = hashlib.blake2b(file.read(TAIL_BYTES), digest_size=8).hexdigest()
    seconds, rest = divmod(about.st_mtime_ns, 10**9)
    when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{os.path.basename(path)} of {about.st_size} bytes, changed {when}.{rest:09d} UTC, {tail}"
