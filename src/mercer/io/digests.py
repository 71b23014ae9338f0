"""Fingerprints of rows.

An array is identified by a digest of all its bytes, and a file by its metadata and a digest of its last bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["digest_of", "file_fingerprint"]

# Number of bytes at the end of a file that are hashed. In Parquet files they contain the footer, with the minimum and
# maximum of every column.
TAIL_BYTES = 2**16
# Arrays that are not contiguous are copied this many bytes at a time.
SLAB_BYTES = 2**24


def digest_of(values: Iterable[Any]) -> str:
    """Return a hexadecimal digest of the shapes, dtypes and bytes of arrays.

    Each array may be dense or sparse, a pyarrow Table, or None.

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
        elif hasattr(value, "to_batches"):
            _add_table(digest, value)
        elif sp.issparse(value):
            # CSR with sorted indices and no duplicates, so that the digest does not depend on the format.
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
    """Add the shape, the dtype and the bytes of an array to a digest."""
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


def _add_table(digest: Any, table: Any) -> None:
    """Add the schema and the cells of a pyarrow Table to a digest."""
    digest.update(str(table.schema).encode())
    for batch in table.combine_chunks().to_batches():
        digest.update(batch.serialize())


def file_fingerprint(path: str | os.PathLike[str]) -> str:
    """Return name, size, modification time and a digest of the last bytes of a file, as one string.

    The folder is not included, so the fingerprint stays the same if the file is moved.
    """
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        file.seek(max(0, about.st_size - TAIL_BYTES))
        tail = hashlib.blake2b(file.read(TAIL_BYTES), digest_size=8).hexdigest()
    seconds, rest = divmod(about.st_mtime_ns, 10**9)
    when = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{os.path.basename(path)} of {about.st_size} bytes, changed {when}.{rest:09d} UTC, {tail}"
